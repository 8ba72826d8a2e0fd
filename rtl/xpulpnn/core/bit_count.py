from amaranth.hdl import Cat, Module, Mux, Signal, Value

from xpulpnn.component import Component, In, Out
from xpulpnn.core.alu_ctrl import AluCount
from xpulpnn.core.bit_field import INDEX_BITS
from xpulpnn.core.lanes import XLEN, every, steps

COUNT_BITS = XLEN.bit_length()
_LAST_EARLY_STEP = 4


class BitCount(Component):
    """Bit counts ``p.ff1``, ``p.fl1``, ``p.clb`` and ``p.cnt``.

    FF1 and FL1 give the index of the lowest and highest set bit of rs1, 32 for 0; CLB the number of bits below the sign
    that are equal to the sign, 0 for 0; CNT the number of set bits. Combinational.
    """

    count: In(AluCount)  #: Operation.
    word: In(XLEN)  #: rs1, bit-reversed for FL1 and CLB.
    result: Out(COUNT_BITS)  #: Count or index.
    empty: Out(1)  #: ``word`` is 0.

    def __init__(self, *, late: bool = False) -> None:
        self.late = late  # ``result`` is valid in the second of two cycles with the same inputs
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        clb = self.count == AluCount.CLB
        sought = Signal(XLEN)
        first = Signal(INDEX_BITS)
        missing = Signal()
        m.d.comb += [
            # The first bit that differs from the reversed word's bit 0, its sign, ends the run of sign bits.
            sought.eq(self.word ^ (clb & self.word[0]).replicate(XLEN)),
            missing.eq(~sought.any()),
            self.empty.eq(~self.word.any()),
            first.eq(self._first_one(m, sought)),
        ]
        if self.late:
            missing = self._registered(m, missing)[0]
        sign = self.word[0]
        with m.Switch(self.count):
            with m.Case(AluCount.FF1):
                m.d.comb += self.result.eq(Mux(missing, XLEN, first))
            with m.Case(AluCount.FL1):
                m.d.comb += self.result.eq(Mux(missing, XLEN, ~first))
            with m.Case(AluCount.CLB):
                m.d.comb += self.result.eq(Mux(missing, sign.replicate(INDEX_BITS), (first - 1)[:INDEX_BITS]))
            with m.Case(AluCount.CNT):
                m.d.comb += self.result.eq(self._ones(m))
        return m

    def _first_one(self, m: Module, word: Value) -> Value:
        """Return the index of the lowest set bit by binary search; all ones if there is none."""
        index: list[Value] = []
        for half in reversed(list(steps(1))):
            if self.late and half == _LAST_EARLY_STEP:
                word, *index = self._registered(m, word, *index)
            absent = Signal(name=f"none_in_low_{half}")
            rest = Signal(half, name=f"low_{half}")
            m.d.comb += [absent.eq(~word[:half].any()), rest.eq(Mux(absent, word[half:], word[:half]))]
            index.insert(0, absent)
            word = rest
        return Cat(index)

    @staticmethod
    def _registered(m: Module, *values: Signal) -> list[Signal]:
        later = [Signal.like(value, name=f"late_{value.name}") for value in values]
        m.d.sync += [register.eq(value) for register, value in zip(later, values, strict=True)]
        return later

    def _ones(self, m: Module) -> Value:
        """Return the number of set bits, by adding the counts of adjacent bit groups, whose width doubles each time."""
        counts: Value = self.word
        for step in steps(1):
            low = every(2 * step, (1 << step) - 1)
            added = Signal(XLEN, name=f"ones_in_{2 * step}")
            m.d.comb += added.eq((counts & low) + (counts.shift_right(step) & low))
            counts = self._registered(m, added)[0] if self.late and step == _LAST_EARLY_STEP else added
        return counts[:COUNT_BITS]
