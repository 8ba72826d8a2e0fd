"""The way out of the cluster for data accesses."""

from amaranth.hdl import Module, Signal
from amaranth.lib.fifo import SyncFIFO

from xpulpnn.cluster.funnel import Funnel
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import MASTER_BITS


class ExternalPort(Component):
    """Leads the accesses of several cores to one port and the answers, which come in the order of the grants, back.

    Requests and answers pass a register each: two cycles more than the outside takes. One request in two cycles at
    most; each core has one outstanding at most. Reset forgets what is outstanding: the outside must be reset too.
    """

    def __init__(self, cores: int):
        self.number = cores  # Number of cores.
        self.module_variant = f"{cores}"
        ports = {
            "cores": In(ObiSignature()).array(cores),  #: Accesses of the cores.
            "ext": Out(ObiSignature()),  #: The outside.
            "owner": Out(MASTER_BITS),  #: Number of the core whose request ``ext`` shows.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.funnel = funnel = Funnel(self.number)
        # a memory of one row has no address, which Verilog cannot write
        m.submodules.order = order = SyncFIFO(width=MASTER_BITS, depth=max(self.number, 2))
        ext, selected = self.ext, funnel.selected
        answered = Signal(self.number)
        response = {name: Signal.like(getattr(ext, name), name=name) for name in RESPONSE_FIELDS}
        m.d.comb += [
            ext.req.eq(selected.req),
            selected.gnt.eq(ext.gnt),
            *assign_by_name(ext, selected, *REQUEST_FIELDS),
            self.owner.eq(funnel.owner),
            order.w_data.eq(funnel.owner),
            order.w_en.eq(ext.req & ext.gnt),
            order.r_en.eq(ext.rvalid),
        ]
        m.d.sync += [stored.eq(getattr(ext, name)) for name, stored in response.items()]
        for number, core in enumerate(self.cores):
            request = funnel.requests[number]
            m.d.sync += answered[number].eq(ext.rvalid & (order.r_data == number))
            m.d.comb += [
                *assign_by_name(request, core, "req", *REQUEST_FIELDS),
                core.gnt.eq(request.gnt),
                core.rvalid.eq(answered[number]),
                *(getattr(core, name).eq(stored) for name, stored in response.items()),
            ]
        return m
