from amaranth.hdl import Module, ResetSignal

from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name, signals
from xpulpnn.core.obi import ObiSignature


class OutstandingLimiter(Component):
    """Grants no request while an access is outstanding; the next may be granted in the cycle of the answer.

    All signals pass combinationally. Reset drops the outstanding access; while it lasts, requests wait.
    """

    initiator: In(ObiSignature())  #: Initiator that may request several accesses ahead.
    target: Out(ObiSignature())  #: Target that sees at most one outstanding access.

    def elaborate(self, platform):
        m = Module()
        initiator, target = self.initiator, self.target
        outstanding, free = signals(1, "outstanding free")
        m.d.comb += [
            free.eq((~outstanding | target.rvalid) & ~ResetSignal()),
            target.req.eq(initiator.req & free),
            initiator.gnt.eq(target.gnt & free),
            initiator.rvalid.eq(target.rvalid),
            *assign_by_name(target, initiator, *REQUEST_FIELDS),
            *assign_by_name(initiator, target, *RESPONSE_FIELDS),
        ]
        m.d.sync += outstanding.eq(target.req & target.gnt | outstanding & ~target.rvalid)
        return m
