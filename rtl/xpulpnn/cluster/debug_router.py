from amaranth.hdl import Module

from xpulpnn.cluster.external_port import ExternalPort
from xpulpnn.cluster.funnel import Funnel
from xpulpnn.cluster.outstanding_limiter import OutstandingLimiter
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name, connect, flipped
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.port_demux import PortDemux


class DebugRouter(Component):
    """Routes fetches and data accesses of the cores to the debug module's memory, or on to their normal ports.

    Combinational for the normal ports; a data access to the debug module takes two cycles longer than its memory, a
    fetch three, and both take longer if several cores access it.
    """

    def __init__(self, cores: int):
        self.number = cores
        ports = {
            "instr": In(InstructionPortSignature()).array(cores),  #: Fetches of the cores.
            "data": In(ObiSignature()).array(cores),  #: Data accesses of the cores.
            "others_instr": Out(InstructionPortSignature()).array(cores),  #: Fetches from all other addresses.
            "others_data": Out(ObiSignature()).array(cores),  #: Data accesses to all other addresses.
            "memory": Out(ObiSignature()),  #: Memory of the debug module.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = ExternalPort(2 * self.number)
        connect(m, port.ext, flipped(self.memory))
        for core in range(self.number):
            instr = m.submodules[f"instr{core}"] = PortDemux(DebugConfig(), InstructionPortSignature())
            data = m.submodules[f"data{core}"] = PortDemux(DebugConfig(), ObiSignature())
            fetch = m.submodules[f"fetch{core}"] = OutstandingLimiter()
            connect(m, flipped(self.instr[core]), instr.hart)
            connect(m, flipped(self.data[core]), data.hart)
            connect(m, instr.others, flipped(self.others_instr[core]))
            connect(m, data.others, flipped(self.others_data[core]))
            connect(m, data.debug, port.cores[2 * core])
            # a register: a fetch may follow from a data grant, and the grant of another core must not depend on it
            # combinationally
            fetch_request = m.submodules[f"fetch{core}_kept"] = Funnel(1)
            request, way = fetch_request.requests[0], port.cores[2 * core + 1]
            m.d.comb += [
                *assign_by_name(request, fetch.target, "req", *REQUEST_FIELDS),
                fetch.target.gnt.eq(request.gnt),
                *assign_by_name(way, fetch_request.selected, "req", *REQUEST_FIELDS),
                fetch_request.selected.gnt.eq(way.gnt),
                *assign_by_name(fetch.target, way, "rvalid", *RESPONSE_FIELDS),
                *assign_by_name(fetch.initiator, instr.debug, "req", "addr"),
                fetch.initiator.be.eq(-1),
                *assign_by_name(instr.debug, fetch.initiator, "gnt", "rvalid", "rdata", "err"),
            ]
        return m
