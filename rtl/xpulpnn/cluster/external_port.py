from amaranth.hdl import Module, Signal
from amaranth.lib.fifo import SyncFIFO

from xpulpnn.cluster.funnel import Funnel
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.component import Component, In, Out, assign_by_name
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import MASTER_BITS


class ExternalPort(Component):
    """Routes the accesses of several cores to one port, and returns the answers, which come in the order of the grants.

    Requests and answers each pass a register: an access takes two cycles longer than the external memory. At most one
    request in two cycles, and one outstanding access per core. Reset drops outstanding accesses: the connected
    subordinate must be reset too.
    """

    def __init__(self, cores: int):
        self.number = cores
        self.module_variant = f"{cores}"
        ports = {
            "cores": In(ObiSignature()).array(cores),  #: Accesses of the cores.
            "ext": Out(ObiSignature()),  #: External port.
            "owner": Out(MASTER_BITS),  #: Number of the core whose request ``ext`` shows.
        }
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.funnel = funnel = Funnel(self.number)
        # Verilog has no memory of one row, which needs no address
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
