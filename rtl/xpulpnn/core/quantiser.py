"""Threshold quantiser: pv.qnt (guide, "Threshold quantisation")."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.config import CoreConfig
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import HALF_BITS, HALF_BYTES, QUANTISED_PIXELS, XLEN

BLOCK_BITS = 6  # address bits that the search changes: it stays within an aligned block of 64 bytes


class QuantiserCtrl(data.Struct):
    valid: 1  #: The instruction is pv.qnt.
    crumbs: 1  #: Codes of 2 bits; else of 4.


class Quantiser(Component):
    """Codes of two 16-bit pixels by binary search among sorted thresholds in memory.

    ``code = number of thresholds < pixel``, with its first bit inverted. The thresholds are half-words that the
    load-store unit reads, one for each bit and pixel: bit by bit from the first one, for pixel 0 and then for pixel 1.
    The pixels alternate so that an address comes from registers while the other pixel's threshold arrives.

    With a memory that grants at once and answers in the next cycle an operation takes 9 cycles for codes of 4 bits and
    5 for codes of 2: one per threshold, and one for the last answer, in which the result is ready. A later grant or
    answer adds its cycles without changing the result. One operation at a time. The inputs are masked while the unit is
    idle.
    """

    start: In(1)  #: An operation is in EX. Low returns to the idle state, even during a search.
    crumbs: In(1)  #: Codes of 2 bits; else of 4. Stable while ``start`` is high, like the operands.
    pixels: In(XLEN)  #: Pixel 0 in the lower half-word, pixel 1 in the upper one.
    middle: In(XLEN)  #: Address of the middle threshold of pixel 0; bit 0 is taken as 0.
    request: Out(1)  #: A threshold is requested; stays until ``granted``.
    address: Out(XLEN)  #: Address of the threshold, with ``request``.
    granted: In(1)  #: The requested threshold will be read.
    answered: In(1)  #: The threshold granted last has arrived; only in a cycle after its grant.
    threshold: In(HALF_BITS)  #: Value of the threshold, with ``answered``.
    done: Out(1)  #: The last threshold arrives in this cycle; the unit is idle in the next one.
    result: Out(XLEN)  #: Both codes, pixel 0 in the lower bits; valid with ``done``.

    def __init__(self, config: CoreConfig):
        self.formats = tuple(fmt for fmt in (ElemFmt.N, ElemFmt.C) if fmt.width in config.widths)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        width = self.formats[0].width
        # granted requests; bit 0 is the pixel of the next one
        count = Signal(range(QUANTISED_PIXELS * width + 1))
        pixel = count[0]
        outstanding, arrives = signals(1, "outstanding arrives")
        codes = [Signal(width, name=f"code_{number}") for number in range(QUANTISED_PIXELS)]
        all_granted = self._for_format(lambda fmt: count == QUANTISED_PIXELS * fmt.width)
        m.d.comb += [
            self.request.eq(self.start & ~all_granted),
            arrives.eq(outstanding & self.answered),
            self.done.eq(self.start & all_granted & arrives),
        ]
        with m.If(~self.start | self.done):
            m.d.sync += [count.eq(0), outstanding.eq(0)]
        with m.Else():
            with m.If(self.granted):
                m.d.sync += [count.eq(count + 1), outstanding.eq(1)]
            with m.Elif(self.answered):
                m.d.sync += outstanding.eq(0)

        self._search(m, count, codes)
        # the answer belongs to the request before the next one, hence to the other pixel
        above = Signal()
        compared = Mux(pixel, self.pixels[:HALF_BITS], self.pixels[HALF_BITS:])
        quiet = outstanding.replicate(HALF_BITS)
        m.d.comb += above.eq((compared & quiet).as_signed() > (self.threshold & quiet).as_signed())
        first = count[1:] == Mux(pixel, 0, 1)
        bit = above ^ first
        with m.If(arrives):
            for number, code in enumerate(codes):
                with m.If(pixel != number):
                    m.d.sync += code.eq(Cat(bit, code))
        last_code = Cat(bit, codes[1])
        m.d.comb += self.result.eq(self._for_format(lambda fmt: Cat(codes[0][: fmt.width], last_code[: fmt.width])))
        return m

    def _search(self, m, count, codes):
        """Drive the address of the next threshold in the binary search.

        The distance of the address from the middle of the table, in half-words, is the signed number of the code bits
        so far, followed by a one.
        """
        pixel, level = count[0], count[1:]
        code = Mux(pixel, codes[1], codes[0])
        steps = Signal(BLOCK_BITS - 1)
        for fmt in self.formats:
            crumbs = self.crumbs if fmt is ElemFmt.C else ~self.crumbs
            with m.If(crumbs if len(self.formats) > 1 else C(1, 1)), m.Switch(level):
                for bits in range(1, fmt.width):
                    with m.Case(bits):
                        zeros = C(0, fmt.width - 1 - bits)
                        m.d.comb += steps.eq(Cat(zeros, C(1, 1), code[:bits]).as_signed())
        quiet = self.start.replicate(XLEN)
        middle = Signal(XLEN)
        start = Signal(HALF_BITS)
        distance = self._for_format(lambda fmt: C(HALF_BYTES << fmt.width, HALF_BITS))
        m.d.comb += [
            middle.eq(self.middle & quiet),
            start.eq(middle[:HALF_BITS] + Mux(pixel, distance, 0)),
            self.address.eq(
                Cat(C(0, 1), (start[1:BLOCK_BITS] + steps)[: BLOCK_BITS - 1], start[BLOCK_BITS:], middle[HALF_BITS:])
            ),
        ]

    def _for_format(self, value):
        first, last = self.formats[0], self.formats[-1]
        return value(first) if first is last else Mux(self.crumbs, value(last), value(first))
