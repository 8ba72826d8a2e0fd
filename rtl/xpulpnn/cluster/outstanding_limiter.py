"""Keeps an initiator from having several accesses outstanding."""

from amaranth.hdl import Module

from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name, signals
from xpulpnn.core.obi import ObiSignature


class OutstandingLimiter(Component):
    """Grants a request when the one before has been answered, or in the cycle of its answer.

    Combinational otherwise. Reset forgets the access that is outstanding.
    """

    initiator: In(ObiSignature())  #: Whoever may request several accesses ahead.
    target: Out(ObiSignature())  #: Where at most one is outstanding.

    def elaborate(self, platform):
        m = Module()
        initiator, target = self.initiator, self.target
        outstanding, free = signals(1, "outstanding free")
        m.d.comb += [
            free.eq(~outstanding | target.rvalid),
            target.req.eq(initiator.req & free),
            initiator.gnt.eq(target.gnt & free),
            initiator.rvalid.eq(target.rvalid),
            *assign_by_name(target, initiator, *REQUEST_FIELDS),
            *assign_by_name(initiator, target, *RESPONSE_FIELDS),
        ]
        m.d.sync += outstanding.eq(target.req & target.gnt | outstanding & ~target.rvalid)
        return m
