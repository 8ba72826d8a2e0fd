from amaranth.hdl import Module, Mux, Signal

from xpulpnn.component import Component, In, Out, PortSignature, assign_by_name, signals
from xpulpnn.debug.config import DebugConfig
from xpulpnn.isa.debug import DEBUG_BYTES

_UNDER_WAY = 7  # largest number of outstanding accesses


class PortDemux(Component):
    """Routes each access by its address, and returns the answers in the order of the grants.

    Combinational. A request for another destination than the previous one waits until all accesses are answered. Behind
    a reset of the hart alone, requests wait until those from before it are answered, which the hart does not see.
    """

    def __init__(self, config: DebugConfig, signature: PortSignature, *, hart_reset: bool = False):
        self.port_signature = signature
        ports = {
            "hart": In(signature),  #: Accesses of the hart.
            "debug": Out(signature),  #: Accesses to the debug module's memory.
            "others": Out(signature),  #: All other accesses.
        }
        #: hart_reset: The hart is in reset, from the cycle before. Optional.
        ports |= {"hart_reset": In(1)} if hart_reset else {}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        hart, debug, others = self.hart, self.debug, self.others
        members = self.port_signature.members.items()
        requests = [name for name, member in members if member.flow is Out and name != "req"]
        answers = [name for name, member in members if member.flow is In and name not in ("gnt", "rvalid")]
        to_debug, last, free, granted, answered, stale = signals(1, "to_debug last free granted answered stale")
        under_way = Signal(range(_UNDER_WAY + 1))
        m.d.comb += [
            to_debug.eq(hart.addr[DEBUG_BYTES.bit_length() - 1 :] == self.config.base // DEBUG_BYTES),
            free.eq(((under_way == 0) | (to_debug == last)) & (under_way != _UNDER_WAY) & ~stale),
            debug.req.eq(hart.req & to_debug & free),
            others.req.eq(hart.req & ~to_debug & free),
            hart.gnt.eq(Mux(to_debug, debug.gnt, others.gnt) & free),
            granted.eq(hart.req & hart.gnt),
            answered.eq(Mux(last, debug.rvalid, others.rvalid)),
            hart.rvalid.eq(answered & ~stale),
            *assign_by_name(debug, hart, *requests),
            *assign_by_name(others, hart, *requests),
            *(getattr(hart, name).eq(Mux(last, getattr(debug, name), getattr(others, name))) for name in answers),
        ]
        m.d.sync += under_way.eq(under_way + granted - answered)
        if "hart_reset" in self.signature.members:
            m.d.sync += stale.eq(self.hart_reset | stale & under_way.any())
        with m.If(granted):
            m.d.sync += last.eq(to_debug)
        return m
