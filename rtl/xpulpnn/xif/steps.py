"""Loads and products of steps: a load and a product in each cycle, eight of both in a step."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.xif import STEP_BITS
from xpulpnn.xif.config import XifConfig

ENTRIES = (0, 1, 2, 3, 4, 5, 8, 9)
"""Entries of the NN-RF in the order of the loads: activations 0 and 1, weights, activations 2 and 3."""

_LEAD = (4, 5, 5, 5, 5, 5, 6, 7)
"""By load: how many loads may have been requested above the number of products, so that no word still needed is
replaced."""

_NEED = (3, 3, 3, 3, 4, 3, 2, 1)
"""By product: by how many the words that arrived must exceed the products. Products 0 to 3 take the weights in order
with activations 0 and 1, the others with 2 and 3."""

PRODUCTS = len(ENTRIES)


class Steps(Component):
    """Sequence of pa.step: requests of its loads, and the products that its words allow.

    A word may arrive a cycle after its request is granted or later, and is used from the next cycle on. The counters of
    requests, words and products count modulo two steps.
    """

    def __init__(self, config: XifConfig) -> None:
        ports = {
            "start": In(1),  #: Starts ``count`` steps, at least one.
            "count": In(STEP_BITS),  #: Number of steps.
            "half": In(1),  #: A word has the weights of two steps.
            "quarter": In(1),  #: A word has the weights of four steps.
            "pointers_we": In(2),  #: A pointer is written: that of activations (bit 0), that of weights.
            "pointer_wdata": In(2 * XLEN),  #: Pointers to write, that of activations in the lower half.
            "pointers": Out(2 * XLEN),  #: Addresses of the next activation and of the next weight.
            "req": Out(1),  #: A load is requested.
            "addr": Out(XLEN),  #: Address of the load.
            "last": Out(1),  #: The load is the last one.
            "gnt": In(1),  #: The request is taken.
            "stop": In(1),  #: The remaining loads and products are skipped.
            "rvalid": In(1),  #: A word arrives, in the order of the requests.
            "entry": Out(4),  #: Entry of the NN-RF of that word.
            "product": Out(1),  #: A product is made: of a weight with one pixel or two.
            "of_filter": Out(2),  #: Its filter.
            "later_pixels": Out(1),  #: Its pixels are 2 and 3.
            "odd_pixel": Out(1),  #: Its pixel is the odd one, with one dot product at a time.
            "part": Out(2),  #: Part of the word of weights.
            "busy": Out(1),  #: Steps are under way.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        requested, arrived, made = signals(4, "requested arrived made")
        left = Signal(STEP_BITS)  # steps whose products are not all made
        made_next = Signal(4)
        running = Signal()
        m.d.comb += running.eq(left.any())
        ends = self._products(m, arrived, made, made_next, running)
        self._requests(m, requested, made, made_next, left)
        m.d.comb += [self.entry.eq(Array(ENTRIES)[arrived[:3]]), self.busy.eq(running | (requested != arrived))]
        m.d.sync += [arrived.eq(arrived + self.rvalid), left.eq(left - ends)]
        with m.If(self.stop):
            m.d.sync += left.eq(0)
        with m.If(self.start):
            m.d.sync += [left.eq(self.count), *(counter.eq(0) for counter in (requested, arrived, made))]
        return m

    def _products(self, m, arrived, made, made_next, running):
        """Make the products that the words allow; return whether one is the last of a step."""
        here = made[:3]
        part, ends, advances = Signal(2), Signal(), Signal()
        mask = Cat(self.half | self.quarter, self.quarter)
        m.d.comb += [
            self.product.eq(running & ((arrived - made)[:4] >= Array(_NEED)[here])),
            advances.eq(self.product),
            self.of_filter.eq(here[:2]),
            self.later_pixels.eq(here[2]),
            made_next.eq(made + advances),
            ends.eq(advances & (here == PRODUCTS - 1)),
            self.part.eq(part),
        ]
        if self.config.dots == "1":
            with m.If(self.product):
                m.d.sync += self.odd_pixel.eq(~self.odd_pixel)
            with m.If(self.start):
                m.d.sync += self.odd_pixel.eq(0)
            m.d.comb += advances.eq(self.product & self.odd_pixel)
        m.d.sync += made.eq(made_next)
        with m.If(ends):
            m.d.sync += part.eq((part + 1) & mask)
        with m.If(self.start):
            m.d.sync += part.eq(0)
        return ends

    def _requests(self, m, requested, made, made_next, left):
        here, ahead = requested[:3], requested[3] ^ made[3]
        part = Signal(2, name="requested_part")
        pointers = [Signal(XLEN, name=name) for name in ("activations", "weights")]
        mask = Cat(self.half | self.quarter, self.quarter)
        is_weight, taken = signals(1, "is_weight taken")
        address, increment = signals(XLEN, "address increment")
        m.d.comb += [
            self.pointers.eq(Cat(pointers)),
            self.req.eq((left > ahead) & ((requested - made_next)[:4] <= Array(_LEAD)[here])),
            taken.eq(self.req & self.gnt & ~self.stop),
            is_weight.eq((here >= 2) & (here < 6)),
            address.eq(Mux(is_weight, pointers[1], pointers[0])),
            self.addr.eq(address),
            self.last.eq((here == PRODUCTS - 1) & (left == Cat(~ahead, ahead))),
            # weights of the next part are in the same words
            increment.eq(Mux((here == 5) & (part != mask), -3 * WORD_BYTES, WORD_BYTES)),
        ]
        with m.If(taken):
            m.d.sync += requested.eq(requested + 1)
            with m.If(is_weight):
                m.d.sync += pointers[1].eq(address + increment)
            with m.Else():
                m.d.sync += pointers[0].eq(address + increment)
            with m.If(here == PRODUCTS - 1):
                m.d.sync += part.eq((part + 1) & mask)
        with m.If(self.start):
            m.d.sync += part.eq(0)
        for unit, pointer in enumerate(pointers):
            with m.If(self.pointers_we[unit]):
                m.d.sync += pointer.eq(Cat(Const(0, 2), self.pointer_wdata.word_select(unit, XLEN)[2:]))
