"""Division by a constant, towards zero as in C."""

from xpulpnn_sw.kernels.builder import ZERO
from xpulpnn_sw.kernels.channelwise.code import Code
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.variants import WORD_BITS


def reciprocal(divisor: int, greatest: int) -> tuple[int, int] | None:
    """Factor and shift with ``n * factor >> shift = n // divisor`` for all ``n`` up to ``greatest``, within 32 bits.

    None if there are none.
    """
    for shift in range(WORD_BITS):
        factor = -(-(1 << shift) // divisor)
        # quotients change at multiples of the divisor only, and the error grows with n
        error = factor * divisor - (1 << shift)
        last = greatest // divisor * divisor + divisor - 1
        if error * last < 1 << shift and greatest * factor < 1 << WORD_BITS:
            return factor, shift
    return None


class Division:
    """Divides numbers by a constant."""

    def __init__(self, code: Code, divisor: int, greatest: int | None, registers: Registers, *, signed: bool) -> None:
        """Decide how."""
        self._code, self._divisor, self._signed = code, divisor, signed
        self.shift = divisor.bit_length() - 1 if divisor.bit_count() == 1 else None
        self._greatest = greatest or 0
        self._reciprocal = None if greatest is None else reciprocal(divisor, greatest)
        self._constant = ZERO if self.shift is not None else registers.one()

    def begin(self) -> None:
        """Load the constant."""
        if self.shift is None:
            self._code.b.li(self._constant, self._divisor if self._reciprocal is None else self._reciprocal[0])

    @property
    def by_product(self) -> tuple[int, int] | None:
        """Factor and right shift that divide numbers that are not negative, if their product has 31 bits."""
        if self.shift is not None:
            return 1, self.shift
        if self._reciprocal is None or self._greatest * self._reciprocal[0] >= 1 << (WORD_BITS - 1):
            return None
        return self._reciprocal

    def emit(self, number: int, work: int, other: int) -> None:
        """Divide ``number``; ``work`` and ``other`` are lost."""
        b = self._code.b
        if self.shift == 0:
            return
        if self.shift is not None:
            if self._signed:
                # negative ones are rounded up
                b("srai", work, number, WORD_BITS - 1)
                b("srli", work, work, WORD_BITS - self.shift)
                b("add", number, number, work)
            b("srai" if self._signed else "srli", number, number, self.shift)
        elif self._reciprocal is None:
            b("div" if self._signed else "divu", number, number, self._constant)
        else:
            if self._signed:
                b("srai", other, number, WORD_BITS - 1)
                b("xor", number, number, other)
                b("sub", number, number, other)
            b("mul", number, number, self._constant)
            b("srli", number, number, self._reciprocal[1])
            if self._signed:
                b("xor", number, number, other)
                b("sub", number, number, other)
