"""Partition of the 32-bit datapath into lanes, described by word-level masks.

Masks of 32 bits need few gates after synthesis and few machine instructions in a simulation; a signal per lane would
need more.
"""

from collections.abc import Iterator

from amaranth.hdl import Const, Module, Signal, Value

from xpulpnn.config import CoreConfig
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN

ALL_ONES = (1 << XLEN) - 1


def every(period: int, bits: int) -> int:
    """Return a mask that repeats the low ``period``-bit pattern ``bits`` over the word."""
    return sum(bits << place for place in range(0, XLEN, period))


def steps(first: int) -> Iterator[int]:
    """Yield the powers of two from ``first`` up to half the word: the shift distances of a logarithmic network."""
    while first < XLEN:
        yield first
        first *= 2


def reversed_bits(m: Module, name: str, word: Value, block: int = 1) -> Value:
    """Return ``word`` with its ``block``-bit groups in reverse order; wiring only."""
    for step in steps(block):
        low = every(2 * step, (1 << step) - 1)
        swapped = Signal(XLEN, name=f"{name}_swap_{step}")
        m.d.comb += swapped.eq((word.shift_right(step) & low) | (word.shift_left(step)[:XLEN] & (low ^ ALL_ONES)))
        word = swapped
    return word


def widened(m: Module, name: str, bits: Value, width: int, direction: str) -> Value:
    """Copy every set bit to the ``width - 1`` bits above ("up") or below ("down"), which must be 0; wiring only."""
    for step in steps(1):
        if step < width:
            wider = Signal(XLEN, name=f"{name}_{direction}_{2 * step}")
            moved = bits.shift_left(step)[:XLEN] if direction == "up" else bits.shift_right(step)
            m.d.comb += wider.eq(bits | moved)
            bits = wider
    return bits


class Lanes:
    """Masks of the partition selected by a :class:`~xpulpnn.core.alu_ctrl.LaneFmt` signal.

    Boundaries of widths that ``config`` lacks are constant, so they cost no gates.
    """

    def __init__(self, m: Module, config: CoreConfig, fmt: Value) -> None:
        self._m = m
        self._config = config
        self._fmt = Value.cast(fmt)
        starts = Const(1, XLEN)
        for width in steps(2):
            starts = starts | (Const(every(2 * width, 1 << width), XLEN) & self.at_most(width).replicate(XLEN))
        self.lsbs = Signal(XLEN, name="lane_lsbs")  # lowest bit of every lane
        self.msbs = Signal(XLEN, name="lane_msbs")  # highest bit of every lane
        m.d.comb += [self.lsbs.eq(starts), self.msbs.eq(self.lsbs.shift_right(1) | (1 << (XLEN - 1)))]

    def at_most(self, width: int) -> Value:
        existing = max((w for w in self._config.widths if w <= width), default=0)
        return self._fmt[ElemFmt.of_width(existing)] if existing else Const(0, 1)

    def at_least(self, width: int) -> Value:
        return ~self.at_most(width // 2) if width > ElemFmt.C.width else Const(1, 1)

    def spread_up(self, name: str, bits: Value, block: int) -> Value:
        """Copy the bottom bit of each lane, given as one bit per group of ``block`` bits, over the lane."""
        for step in steps(block):
            upper = every(2 * step, ((1 << step) - 1) << step)
            reach = self.at_least(2 * step).replicate(XLEN) & upper
            wider = Signal(XLEN, name=f"{name}_{2 * step}")
            self._m.d.comb += wider.eq(bits | (bits.shift_left(step)[:XLEN] & reach))
            bits = wider
        return bits

    def spread_down(self, name: str, bits: Value) -> Value:
        for step in reversed(list(steps(2))):
            reach = self.at_least(2 * step).replicate(XLEN) & every(2 * step, 1 << (step - 1))
            further = Signal(XLEN, name=f"{name}_{step}")
            self._m.d.comb += further.eq(bits | (bits.shift_right(step) & reach))
            bits = further
        return widened(self._m, name, bits, ElemFmt.C.width, "down")
