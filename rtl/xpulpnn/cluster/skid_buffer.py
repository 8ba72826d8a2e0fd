"""A request that is taken at once and kept until it is served."""

from amaranth.hdl import Module, Mux

from xpulpnn.cluster.ports import REQUEST_FIELDS, RequestSignature
from xpulpnn.component import Component, In, Out


class SkidBuffer(Component):
    """Grants requests from a register, so that no grant depends on where a request leads.

    A request is offered in its own cycle; if it is not granted then, it is kept and offered until it is, and meanwhile
    nothing else is granted. Reset drops what is kept.
    """

    initiator: In(RequestSignature())  #: Who requests.
    target: Out(RequestSignature())  #: The request, from its own cycle on.
    request: Out(RequestSignature())  #: What is kept, from registers; ``target`` grants it.

    def elaborate(self, platform):
        m = Module()
        initiator, target, request = self.initiator, self.target, self.request
        m.d.comb += [
            initiator.gnt.eq(~request.req),
            target.req.eq(initiator.req | request.req),
        ]
        m.d.sync += request.req.eq(target.req & ~target.gnt)
        for name in REQUEST_FIELDS:
            new, held, offered = (getattr(port, name) for port in (initiator, request, target))
            m.d.comb += offered.eq(Mux(request.req, held, new))
            with m.If(~request.req):
                m.d.sync += held.eq(new)
        return m
