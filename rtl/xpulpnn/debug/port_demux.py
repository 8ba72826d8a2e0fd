from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out, PortSignature, assign_by_name, signals
from xpulpnn.debug.config import DebugConfig
from xpulpnn.isa.debug import DEBUG_BYTES

_UNDER_WAY = 7  # largest number of outstanding accesses


class PortDemux(Component):
    """Routes each access by its address, and returns the answers in the order of the grants.

    Combinational. A request for another destination than the previous one waits until all accesses are answered.
    """

    def __init__(self, config: DebugConfig, signature: PortSignature):
        self.port_signature = signature
        ports = {
            "hart": In(signature),  #: Accesses of the hart.
            "debug": Out(signature),  #: Accesses to the debug module's memory.
            "others": Out(signature),  #: All other accesses.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        hart, debug, others = self.hart, self.debug, self.others
        members = self.port_signature.members.items()
        requests = [name for name, member in members if member.flow is Out and name != "req"]
        answers = [name for name, member in members if member.flow is In and name != "gnt"]
        to_debug, last, free, granted = signals(1, "to_debug last free granted")
        under_way = Signal(range(_UNDER_WAY + 1))
        m.d.comb += [
            to_debug.eq(hart.addr[DEBUG_BYTES.bit_length() - 1 :] == self.config.base // DEBUG_BYTES),
            free.eq(((under_way == 0) | (to_debug == last)) & (under_way != _UNDER_WAY)),
            debug.req.eq(hart.req & to_debug & free),
            others.req.eq(hart.req & ~to_debug & free),
            hart.gnt.eq(Mux(to_debug, debug.gnt, others.gnt) & free),
            granted.eq(hart.req & hart.gnt),
            *assign_by_name(debug, hart, *requests),
            *assign_by_name(others, hart, *requests),
            *(getattr(hart, name).eq(Mux(last, getattr(debug, name), getattr(others, name))) for name in answers),
        ]
        m.d.sync += under_way.eq(under_way + granted - hart.rvalid)
        with m.If(granted):
            m.d.sync += last.eq(to_debug)
        return m
