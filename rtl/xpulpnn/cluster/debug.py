# amaranth: UnusedElaboratable=no
"""The cluster with debug module and JTAG transport."""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

from xpulpnn.cluster.cluster import Cluster
from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.outstanding_limiter import OutstandingLimiter
from xpulpnn.component import Component, Out, connect, flipped, pass_ports
from xpulpnn.config import ClusterConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.module import DebugModule

_INSIDE = ("debug_req", "debug", "host", "fetch_enable")


class ClusterDebug(Component):
    """The cluster, a debug module for all its cores, and a test access port.

    The debugger accesses memory like ``host``, and external addresses by ``ext``, while the cores run. It resets all
    cores together, with the cluster; the reset of the top is the power-on reset. A core that waits in the event unit
    halts before the access, and waits again when it resumes.

    Parameters
    ----------
    config : ClusterConfig
        The cluster; its cores have debug mode.
    """

    #: cluster_id: Number of the cluster, from bit 5 of mhartid up; constant.
    #: boot_addr: First instruction address of cores without a boot address set by software.
    #: fetch_enable: All cores may start; a core that has started ignores it.
    #: eoc: End of computation, set by software.
    #: return_value: Result written by software; bit 31 marks it as valid.
    #: busy: A core that has started needs its clock, or the DMA engine works.
    #: core_clock_en: Cores that need their clock; the clocks of the other cores may be stopped.
    #: events: External events for all cores, lines 22 and 23 of the event unit; pulses.
    #: host: Access from outside to the TCDM and the shared peripherals, at the addresses at which the cores see them.
    #:   An access is granted when the one before is answered.
    #: ext: Data accesses of the cores, and of the debugger, to all external addresses.
    #: refill: Instruction memory, with instruction caches.
    #: instr: Port of the instruction memory of each core, without instruction caches.
    #: dma: Accesses of the DMA engine to all external addresses, if there is one.
    #: banks: The banks of the TCDM, if they are outside.
    #: debug_mode: Cores in debug mode.
    #: debug_req: Cores that the debugger requests to halt.
    #: tms: Mode select of the test access port; its clock TCK and reset TRST are those of the domain ``tck``.
    #: tdi: Serial data into the test access port.
    #: tdo: Serial data out of the test access port, which changes at falling edges of TCK.
    #: tdo_enable: Drive ``tdo``; while it is low another device may.
    #: ndmreset: The debugger requests the reset of everything but the debug module.

    def __init__(self, config: ClusterConfig):
        self.cluster = cluster = Cluster(config)
        self.debug_config = DebugConfig(harts=config.cores, hart_reset=False)
        self.PORT_MEANINGS = cluster.PORT_MEANINGS
        members = cluster.signature.members.items()
        ports = {name: member for name, member in members if name not in ("debug_req", "debug")}
        ports |= {name: member for name, member in JtagDtm.__annotations__.items() if name != "dmi"}
        super().__init__(config, ports | {"ndmreset": Out(1), "debug_req": Out(config.cores)})

    def elaborate(self, platform):
        m = Module()
        cluster, config, held = self.cluster, self.debug_config, Signal()
        m.submodules.cluster = DomainRenamer("core")(cluster)
        m.submodules.dtm = dtm = JtagDtm(config)
        m.submodules.dm = dm = DebugModule(config)
        m.submodules.host_order = order = OutstandingLimiter()
        m.submodules.host_share = share = DomainRenamer("core")(ExternalPort(2))
        m.domains += ClockDomain("core", local=True)
        m.d.sync += held.eq(dm.ndmreset)
        m.d.comb += [
            ClockSignal("core").eq(ClockSignal()),
            ResetSignal("core").eq(ResetSignal() | held),
            # cores in reset would fetch all the time
            cluster.fetch_enable.eq(self.fetch_enable & ~held),
            self.ndmreset.eq(dm.ndmreset),
            self.debug_req.eq(dm.debug_req),
            cluster.debug_req.eq(dm.debug_req),
        ]
        connect(m, dtm.dmi, dm.dmi)
        connect(m, cluster.debug, dm.memory)
        connect(m, flipped(self.host), order.initiator)
        connect(m, order.target, share.cores[0])
        connect(m, dm.bus, share.cores[1])
        connect(m, share.ext, cluster.host)
        pass_ports(m, self, dtm, excluded=("dmi",))
        pass_ports(m, self, cluster, excluded=_INSIDE)
        return m
