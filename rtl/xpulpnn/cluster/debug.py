# amaranth: UnusedElaboratable=no
from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

from xpulpnn.cluster.cluster import Cluster
from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.outstanding_limiter import OutstandingLimiter
from xpulpnn.component import In, Out, Wrapper, connect, flipped, optional, pass_ports
from xpulpnn.config import ClusterConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.module import DebugModule

_INSIDE = ("debug_req", "debug", "host")


class ClusterDebug(Wrapper):
    """The cluster, a debug module for all its cores, and a test access port.

    The debugger accesses memory like ``host``, and external addresses by ``ext``, while the cores run. It resets all
    cores together, with the cluster; the reset of the top is the power-on reset. A core that waits in the event unit
    halts before the access, and waits again when it resumes.
    """

    #: ext: Data accesses of the cores, and of the debugger, to all external addresses.
    #: debug_req: Cores that the debugger requests to halt.
    #: test_en: Scan test: clocks run, and no reset but that of the top resets the cluster; 0 otherwise. Optional.
    #: ndmreset: The debugger requests the reset of everything but the debug module.

    def __init__(self, config: ClusterConfig):
        self.debug_config = DebugConfig(harts=config.cores, hart_reset=False, idcode=config.core.idcode)
        ports = {"ndmreset": Out(1), "debug_req": Out(config.cores)}
        ports |= {"test_en": In(1)} if config.core.test_en else {}
        super().__init__(config, (Cluster(config), JtagDtm(self.debug_config)), ("debug_req", "debug", "dmi"), ports)

    def elaborate(self, platform):
        m = Module()
        (cluster, dtm), config = self.wrapped, self.debug_config
        held = Signal()
        m.submodules.cluster = DomainRenamer("core")(cluster)
        m.submodules.dtm = dtm
        m.submodules.dm = dm = DebugModule(config)
        m.submodules.host_order = order = DomainRenamer("core")(OutstandingLimiter())
        m.submodules.host_share = share = DomainRenamer("core")(ExternalPort(2))
        m.domains += ClockDomain("core", local=True)
        m.d.sync += held.eq(dm.ndmreset)
        m.d.comb += [
            ClockSignal("core").eq(ClockSignal()),
            ResetSignal("core").eq(ResetSignal() | (held & ~optional(self, "test_en"))),
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
