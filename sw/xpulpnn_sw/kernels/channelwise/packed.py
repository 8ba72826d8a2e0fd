"""Operations on all elements of a word at once: SIMD instructions where there are any, else masks.

Without vectors of the width, the comparison of all elements is one subtraction in which no borrow leaves an element.
"""

from xpulpnn_sw.kernels.builder import ZERO
from xpulpnn_sw.kernels.channelwise.code import Code
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.variants import WORD_BITS
from xpulpnn_sw.precision import SIGN_BITS

FORMATS = {16: "h", 8: "b", 4: "n", 2: "c"}
"""Suffix of the vector instructions by element width."""

IMMEDIATE_FORMATS = frozenset({16, 8})
"""Element widths of vectors whose second operand may be an immediate."""


def repeated(element: int, bits: int) -> int:
    """A word of equal elements."""
    return sum(element << place for place in range(0, WORD_BITS, bits))


class Packed:
    """Operations on words of ``bits``-bit elements."""

    def __init__(self, code: Code, bits: int, registers: Registers, *, signed: bool) -> None:
        """Take the registers."""
        self._code, self._bits, self._signed = code, bits, signed
        self._has_vectors = code.level.has_vectors(bits)
        self._has_masks = not self._has_vectors and bits != SIGN_BITS
        taken = registers.take(5) if self._has_masks else [ZERO] * 5
        self._high, self._low, self._a, self._b, self._mask = taken

    def begin(self) -> None:
        """Load the constants."""
        if self._has_masks:
            self._code.b.li(self._high, repeated(1 << (self._bits - 1), self._bits))
            self._code.b("xori", self._low, self._high, -1)

    def max(self, rd: int, a: int, b: int) -> None:
        """The greater one of each two elements; ``rd`` may be one of the operands."""
        emit = self._code.b
        if self._has_vectors:
            emit(f"pv.max{'' if self._signed else 'u'}.{FORMATS[self._bits]}", rd, a, b)
            return
        if self._bits == SIGN_BITS:
            emit("or", rd, a, b)
            return
        different, bit, mask = self._a, self._b, self._mask
        emit("xor", different, a, b)
        # the highest bit of each element: whether its lower bits in a are at least those in b
        emit("or", bit, a, self._high)
        emit("and", mask, b, self._low)
        emit("sub", bit, bit, mask)
        # or, where the highest bits differ, whose is set
        emit("xor", mask, bit, b if self._signed else a)
        emit("and", mask, mask, different)
        emit("xor", bit, bit, mask)
        emit("and", bit, bit, self._high)
        self._spread(bit, mask)
        emit("and", bit, bit, different)
        emit("xor", rd, b, bit)

    def relu(self, rd: int, a: int) -> None:
        """Each element, or 0 if it is negative; ``rd`` may be ``a``."""
        emit = self._code.b
        if self._has_vectors:
            emit(f"pv.max.sc.{FORMATS[self._bits]}", rd, a, ZERO)
            return
        emit("and", self._a, a, self._high)
        self._spread(self._a, self._b)
        emit("xori", self._a, self._a, -1)
        emit("and", rd, a, self._a)

    def _spread(self, bit: int, work: int) -> None:
        """All bits of the elements whose highest bit is set in ``bit``, which holds nothing else."""
        emit = self._code.b
        emit("srli", work, bit, self._bits - 1)
        emit("slli", bit, bit, 1)
        emit("sub", bit, bit, work)
