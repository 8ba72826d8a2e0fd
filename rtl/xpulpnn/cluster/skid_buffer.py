from amaranth.hdl import Module, Mux

from xpulpnn.cluster.ports import REQUEST_FIELDS, RequestSignature
from xpulpnn.component import Component, In, Out


class SkidBuffer(Component):
    """Grants requests from a register, so that the grant to the initiator does not depend on the grant of the target.

    A request is offered to the target in the cycle in which it arrives; if the target does not grant it, the buffer
    holds it until the target does, and grants no other request meanwhile. Reset drops the held request.
    """

    initiator: In(RequestSignature())  #: Requests of the initiator.
    target: Out(RequestSignature())  #: The request, from its own cycle on.
    request: Out(RequestSignature())  #: The held request, from registers; ``target`` grants it.

    def elaborate(self, platform):
        m = Module()
        initiator, target, request = self.initiator, self.target, self.request
        m.d.comb += [initiator.gnt.eq(~request.req), target.req.eq(initiator.req | request.req)]
        m.d.sync += request.req.eq(target.req & ~target.gnt)
        for name in REQUEST_FIELDS:
            new, held, offered = (getattr(port, name) for port in (initiator, request, target))
            m.d.comb += offered.eq(Mux(request.req, held, new))
            with m.If(~request.req):
                m.d.sync += held.eq(new)
        return m
