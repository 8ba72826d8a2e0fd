from amaranth.hdl import Module

from xpulpnn.cluster.ports import REQUEST_FIELDS, RequestSignature, one_hot_mux
from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.component import Component, In, Out
from xpulpnn.isa.cluster import MASTER_BITS


class Funnel(Component):
    """Accepts one of several requests at a time and offers it from the next cycle on.

    A request is granted when no request is offered, chosen by the counter arbiter: at most one request in two cycles.
    Reset drops the request.
    """

    def __init__(self, inputs: int):
        self.inputs = inputs
        self.module_variant = f"{inputs}"
        ports = {
            "requests": In(RequestSignature()).array(inputs),  #: Initiators.
            "selected": Out(RequestSignature()),  #: The accepted request.
            "owner": Out(MASTER_BITS),  #: Number of the initiator of the accepted request.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = Arbiter(self.inputs, "counter")
        selected = self.selected
        for number, request in enumerate(self.requests):
            m.d.comb += [arbiter.req[number].eq(request.req & ~selected.req), request.gnt.eq(arbiter.gnt[number])]
        with m.If(arbiter.gnt.any()):
            m.d.sync += [selected.req.eq(1), self.owner.eq(one_hot_mux(arbiter.gnt, range(self.inputs)))]
            for name in REQUEST_FIELDS:
                values = [getattr(request, name) for request in self.requests]
                m.d.sync += getattr(selected, name).eq(one_hot_mux(arbiter.gnt, values))
        with m.Elif(selected.gnt):
            m.d.sync += selected.req.eq(0)
        return m
