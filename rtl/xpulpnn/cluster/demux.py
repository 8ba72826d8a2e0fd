from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import enum
from amaranth.utils import exact_log2

from xpulpnn.cluster.error_responder import ErrorResponder
from xpulpnn.cluster.ports import REQUEST_FIELDS, RESPONSE_FIELDS
from xpulpnn.cluster.skid_buffer import SkidBuffer
from xpulpnn.component import Component, In, Out, assign_by_name, signals
from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.csr import CLUSTER_EVENTS
from xpulpnn.isa.machine import CLINT_SPACE


class Destination(enum.Enum, shape=3):
    TCDM, EVENT_UNIT, DMA, PERIPHERALS, EXT, UNMAPPED = range(6)


def _is_in_range(addr, base, size):
    low = exact_log2(size)
    return addr[low:] == base >> low


class CoreDemux(Component):
    """Routes each access of a core by its address, and returns the answer.

    Combinational for requests and answers. The TCDM is at the base address of the cluster, 1 MiB above it for
    test-and-set, and at an alias address. The private views of event unit and DMA and the shared peripherals follow.
    Everything else in the 3 MiB from the base and in the 1 MiB of the alias is unmapped; all other addresses are
    external. The core has at most one access outstanding: it may request again in the cycle of the answer. If the core
    is configured with ``late_results``, requests are granted at once and held; the TCDM sees them in the same cycle,
    other destinations in the next.
    """

    def __init__(self, config: ClusterConfig):
        #: tcdm: Accesses to the memory that the cores share.
        #: event_unit: Accesses to the private view of the event unit.
        #: dma: Accesses to the private command port of the DMA engine, if there is one.
        #: peripherals: Accesses to the bus of the shared peripherals.
        #: ext: Accesses to external addresses.
        ports = {name: Out(ObiSignature()) for name in ("tcdm", "event_unit", "dma", "peripherals", "ext")}
        if not config.dma:
            del ports["dma"]
        if config.core.late_results:
            #: claim: The TCDM may get a request in this cycle, known before the address is decoded; only with late
            #:   results of the core.
            ports["claim"] = Out(1)
        #: core: Accesses of the core.
        #: events: Events of this cycle for the performance counters of the core, a bit per event of ``CLUSTER_EVENTS``.
        super().__init__(config, {"core": In(ObiSignature()), **ports, "events": Out(len(CLUSTER_EVENTS))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unmapped = unmapped = ErrorResponder()
        core, late = self.core, self.config.core.late_results
        # requests as the TCDM sees them, and as all other destinations do
        tcdm_request = others = core
        if late:
            m.submodules.request = request = SkidBuffer()
            m.d.comb += [
                *assign_by_name(request.initiator, core, "req", *REQUEST_FIELDS),
                core.gnt.eq(request.initiator.gnt),
            ]
            tcdm_request, others = request.target, request.request
        places = {
            Destination.TCDM: self.tcdm,
            Destination.EVENT_UNIT: self.event_unit,
            Destination.PERIPHERALS: self.peripherals,
            Destination.EXT: self.ext,
            Destination.UNMAPPED: unmapped.port,
        }
        if self.config.dma:
            places[Destination.DMA] = self.dma
        selects = self._decoded(m, others.addr, list(places))
        if late:
            at_base, at_alias, memory = self._in_tcdm(tcdm_request.addr)
            # a request in the skid buffer does not go to the TCDM
            m.d.comb += self.claim.eq(tcdm_request.req & (selects[Destination.TCDM] | ~others.req))
            selects[Destination.TCDM] = (at_base | at_alias) & memory
        answering = Signal(Destination)
        grants = []
        for destination, port in places.items():
            shown = tcdm_request if destination is Destination.TCDM else others
            m.d.comb += [port.req.eq(shown.req & selects[destination]), *assign_by_name(port, shown, *REQUEST_FIELDS)]
            grants.append((shown.req & selects[destination] if late else selects[destination]) & port.gnt)
            with m.If(shown.req & selects[destination] & port.gnt):
                m.d.sync += answering.eq(destination)
        m.d.comb += tcdm_request.gnt.eq(Cat(grants).any())
        with m.Switch(answering):
            for destination, port in places.items():
                with m.Case(destination):
                    m.d.comb += assign_by_name(core, port, "rvalid", *RESPONSE_FIELDS)
        self._events(m)
        return m

    def _in_tcdm(self, addr):
        memory = addr[: exact_log2(TCDM_SPACE)][exact_log2(self.config.tcdm_bytes) :] == 0
        at_base = addr[isa.TEST_SET_BIT + 1 :] == isa.TCDM_BASE >> isa.TEST_SET_BIT + 1
        return at_base, _is_in_range(addr, isa.TCDM_ALIAS, TCDM_SPACE), memory

    def _decoded(self, m, addr, places):
        selects = {place: Signal(name=f"to_{place.name.lower()}") for place in places}
        at_base, at_alias, memory = self._in_tcdm(addr)
        ours = Signal()
        peripherals = _is_in_range(addr, isa.CONTROL, isa.PRIVATE_EVENT_UNIT - isa.CONTROL)
        if self.config.clint:
            peripherals |= _is_in_range(addr, isa.CLINT, CLINT_SPACE)
        m.d.comb += [
            ours.eq(at_base | at_alias | _is_in_range(addr, isa.CONTROL, TCDM_SPACE)),
            selects[Destination.TCDM].eq((at_base | at_alias) & memory),
            selects[Destination.EVENT_UNIT].eq(_is_in_range(addr, isa.PRIVATE_EVENT_UNIT, isa.BLOCK_BYTES)),
            selects[Destination.PERIPHERALS].eq(peripherals),
            selects[Destination.EXT].eq(~ours),
            selects[Destination.UNMAPPED].eq(
                ours
                & ~Cat(selects[place] for place in places if place not in (Destination.EXT, Destination.UNMAPPED)).any()
            ),
        ]
        if Destination.DMA in selects:
            m.d.comb += selects[Destination.DMA].eq(_is_in_range(addr, isa.PRIVATE_DMA, isa.BLOCK_BYTES))
        return selects

    def _events(self, m):
        ext, tcdm = self.ext, self.tcdm
        loading, storing = signals(1, "loading storing")
        with m.If(ext.req & ext.gnt):
            m.d.sync += [loading.eq(~ext.we), storing.eq(ext.we)]
        with m.Elif(ext.rvalid):
            m.d.sync += [loading.eq(0), storing.eq(0)]
        m.d.comb += self.events.eq(
            Cat(
                {
                    "ext_loads": ext.req & ext.gnt & ~ext.we,
                    "ext_stores": ext.req & ext.gnt & ext.we,
                    "ext_load_cycles": ext.req & ~ext.we | loading & ~ext.rvalid,
                    "ext_store_cycles": ext.req & ext.we | storing & ~ext.rvalid,
                    "tcdm_contention": tcdm.req & ~tcdm.gnt,
                }[name]
                for name in CLUSTER_EVENTS
            )
        )
