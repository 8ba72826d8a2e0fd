"""Requantisation of the accumulators of a filter."""

from amaranth.hdl import Cat, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.requantiser import ZERO_BITS, RequantiseCtrl, Requantiser
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.xif import FILTERS, PIXELS
from xpulpnn.xif.config import XifConfig

SHIFT_BITS = 6


class Requantisation(Component):
    """Requantises the sums of a filter, pixel after pixel, and packs their elements into a word for each pixel.

    A sum takes two cycles, one for its product, which other units make, and one to shift, clip and insert it; before
    that the exact form takes a cycle to add the summand. Each step follows the previous pixel's by a cycle, so ``done``
    comes in cycle 4, in the exact form in cycle 5, and the last word is written a cycle later.
    """

    def __init__(self, config: XifConfig) -> None:
        ports = {
            "active": In(1),  #: Requantise; stays high with its operands until ``done``.
            "ctrl": In(RequantiseCtrl),  #: Format and sign of the elements.
            "exact": In(1),  #: The product has 64 bits; 0 without the exact form.
            "of_filter": In(range(FILTERS)),  #: Filter of the sums, which is the lane of the elements.
            "summand": In(XLEN),  #: Summand.
            "parameter": In(SHIFT_BITS + ZERO_BITS),  #: Shift amount, and above it the zero point.
            "pixel": Out(range(PIXELS)),  #: Pixel whose sum is needed.
            "sum": In(XLEN),  #: Sum of the pixel and the filter.
            "multiply": Out(1),  #: A product is needed.
            "scaled": Out(XLEN),  #: First factor of the product.
            "product": In(2 * XLEN),  #: Product, in the same cycle.
            "packed_pixel": Out(range(PIXELS)),  #: Pixel whose packed word is needed.
            "packed": In(XLEN),  #: Its elements so far, ignored for filter 0.
            "packed_we": Out(1),  #: The packed word is written.
            "packed_wdata": Out(XLEN),  #: Packed word with the new element.
            "begun": Out(1),  #: The first cycle is over.
            "done": Out(1),  #: The last product is made.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.requantiser = requantiser = Requantiser(self.config.core)
        phase = Signal(range(PIXELS + 1))
        with m.If(self.active):
            m.d.sync += phase.eq(Mux(self.done, 0, phase + 1))
        m.d.comb += [
            self.pixel.eq(phase),
            self.begun.eq(phase.any()),
            self.multiply.eq(self.active),
            self.scaled.eq(self.sum),
            self.done.eq(phase == PIXELS - 1),
        ]
        shifts, exact = signals(1, "shifts exact")
        ctrl, lane, pixel = Signal(RequantiseCtrl), Signal(range(FILTERS)), Signal(range(PIXELS))
        product = Signal(len(requantiser.sum))
        m.d.sync += shifts.eq(self.multiply)
        with m.If(self.multiply):
            m.d.sync += [
                product.eq(self.product[: len(product)]),
                ctrl.eq(self.ctrl),
                lane.eq(self.of_filter),
                pixel.eq(phase - self.exact),
                exact.eq(self.exact),
            ]
        m.d.comb += [
            self.packed_pixel.eq(pixel),
            self.packed_we.eq(shifts),
            self.packed_wdata.eq(requantiser.result),
            requantiser.ctrl.eq(ctrl),
            requantiser.ctrl.valid.eq(shifts),
            requantiser.lane.eq(lane),
            requantiser.sum.eq(product),
            requantiser.places.eq(Cat(self.parameter[: SHIFT_BITS - 1], self.parameter[SHIFT_BITS - 1] & exact)),
            requantiser.old.eq(self.packed & lane.any().replicate(XLEN)),
        ]
        if self.config.requantise == "exact":
            self._add_first(m, phase)
            zero = self.parameter[SHIFT_BITS:] & exact.replicate(ZERO_BITS)
            m.d.comb += [requantiser.rounds.eq(exact & shifts), requantiser.zero.eq(zero)]
        return m

    def _add_first(self, m, phase):
        total = Signal(XLEN)
        with m.If(self.exact):
            m.d.sync += total.eq(self.sum + self.summand)
            m.d.comb += [
                self.multiply.eq(self.active & phase.any()),
                self.scaled.eq(total),
                self.done.eq(phase == PIXELS),
            ]
