"""Inner loops on single bits: of two words of them, those that differ are counted.

A product of two numbers out of -1 and +1 is -1 where their bits differ.
"""

from xpulpnn_sw.kernels.builder import WORD, Builder, Value
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.inner import InnerLoop
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS, Variant
from xpulpnn_sw.precision import Precision

_HALVES, _QUARTERS, _NIBBLES = 0x5555_5555, 0x3333_3333, 0x0F0F_0F0F
"""Bits of a word, every other one, every other two, every other four."""
_BYTE_ONES = 0x0101_0101
_TOP_BYTE = WORD_BITS - BYTE_BITS


class CountLoop(InnerLoop):
    """XpulpV2 with single bits: the bits in which a word of weights differs from one of activations are counted."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self._different = registers.one()
        self.temporaries = [*self._w, *self._x, self._different]

    @property
    def length(self) -> int:
        """Loads; for each product what differs, its count, and the sum."""
        return len(self._w) + len(self._x) + 3 * len(self._w) * len(self._x)

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        different = self._different
        with b.inner_loop(count, self.length, self.temporaries[0]):
            for register, pointer in self._loads(self._w, self._x):
                b("p.lw", register, WORD, pointer)
            for accumulators, x in zip(self.acc, self._x, strict=True):
                for accumulator, w in zip(accumulators, self._w, strict=True):
                    b("xor", different, x, w)
                    b("p.cnt", different, different)
                    b("add", accumulator, accumulator, different)


class ScalarCountLoop(InnerLoop):
    """RV32IM with single bits: counted in pairs, nibbles and bytes, which a multiplication adds up."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self._different, self._part = registers.take(2)
        self._masks = registers.take(4)
        self.end = registers.one()
        self.temporaries = [*self._w, *self._x, self._different, self._part, *self._masks]

    @property
    def _products(self) -> int:
        return self.variant.nch * self.variant.npx

    @property
    def length(self) -> int:
        """Loads and pointers; for each product what differs, its count in 12 instructions, and the sum."""
        return 2 * (self.variant.nch + self.variant.npx) + (1 + 12 + 1) * self._products

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over a weight row; the end of the activation row tells its length."""
        for register, value in zip(self._masks, (_HALVES, _QUARTERS, _NIBBLES, _BYTE_ONES), strict=True):
            b.li(register, value)
        with b.branch_loop(self._activation(0), self.end):
            for pixel, register in enumerate(self._x):
                b("lw", register, 0, self._activation(pixel))
            for lane, register in enumerate(self._w):
                b("lw", register, 0, self._weight(lane))
            for accumulators, x in zip(self.acc, self._x, strict=True):
                for accumulator, w in zip(accumulators, self._w, strict=True):
                    b("xor", self._different, x, w)
                    self._count(b)
                    b("add", accumulator, accumulator, self._different)
            for lane in range(self.variant.nch):
                b("addi", self._weight(lane), self._weight(lane), WORD)
            for pixel in range(self.variant.npx):
                b("addi", self._activation(pixel), self._activation(pixel), WORD)

    def _count(self, b: Builder) -> None:
        """The number of 1 bits of what differs, in its place."""
        bits, part, (halves, quarters, nibbles, ones) = self._different, self._part, self._masks
        b("srli", part, bits, 1)
        b("and", part, part, halves)
        b("sub", bits, bits, part)
        b("srli", part, bits, 2)
        b("and", part, part, quarters)
        b("and", bits, bits, quarters)
        b("add", bits, bits, part)
        b("srli", part, bits, 4)
        b("add", bits, bits, part)
        b("and", bits, bits, nibbles)
        b("mul", bits, bits, ones)
        b("srli", bits, bits, _TOP_BYTE)
