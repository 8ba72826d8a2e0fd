"""Directed programs of pv.rq*: sums at the bounds, extreme operands, every lane."""

from itertools import product
from typing import NamedTuple

from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.verification.directed.case import Directed, directed, stored, words_at
from xpulpnn_sim.verification.random.layout import WINDOW

_SUFFIX = {8: "b", 4: "n", 2: "c"}
_OLD = 0xA5C3_96E1  # in rd before


class Case(NamedTuple):
    """One requantisation and its operands."""

    width: int
    signed: bool
    kappa: int
    lam: int
    accumulator: int
    shift: int
    lane: int = 0

    @property
    def mnemonic(self) -> str:
        """Name of the instruction."""
        return f"pv.rq{'s' if self.signed else 'u'}.{_SUFFIX[self.width]}"

    @property
    def code(self) -> int:
        """The clipped value, before it is cut to its bits."""
        total = (self.kappa * self.accumulator + self.lam) % (1 << XLEN)
        total -= (1 << XLEN) if total >= 1 << (XLEN - 1) else 0
        low = -(1 << self.width - 1) if self.signed else 0
        return sorted((low, total // (1 << self.shift % XLEN), low + (1 << self.width) - 1))[1]

    def result(self) -> int:
        """The new value of rd."""
        digits = [_OLD // (1 << at) % (1 << self.width) for at in range(0, XLEN, self.width)]
        digits[self.lane] = self.code % (1 << self.width)
        return sum(digit << at * self.width for at, digit in enumerate(digits))

    def lines(self) -> str:
        """Both parameters, accumulator, shift and old value made, then the instruction, into a5."""
        return f"""
        {words_at(WINDOW, (self.kappa, self.lam))}
        pv.rqld 0, (t1!); pv.rqld 1, (t1!)
        li a0, 0x{self.accumulator & WORD_MASK:x}; li a1, 0x{self.shift & WORD_MASK:x}; li a5, 0x{_OLD:x}
        {self.mnemonic} a5, a0, a1, {self.lane}
        """


def _results(name: str, cases: list[Case]) -> Directed:
    text = "\n".join(f"{case.lines()}\n{stored('a5', number)}" for number, case in enumerate(cases))
    return Directed(f"pv.rq: {name}", text, tuple(case.result() for case in cases), ("requantise",))


def _bounds() -> Directed:
    """Sums at both bounds of every format and one beyond, what is shifted out all zeros and all ones."""
    cases: list[Case] = []
    for width, signed in product(_SUFFIX, (False, True)):
        low = -(1 << width - 1) if signed else 0
        high = low + (1 << width) - 1
        for number, code in enumerate((low - 1, low, low + 1, high - 1, high, high + 1)):
            for dropped, shift in ((0, 7), ((1 << 11) - 1, 11)):
                kappa, accumulator = 0x0001_2345 + number, -0x0765_4321
                lam = (code << shift) + dropped - kappa * accumulator
                lane = (number + shift) % (XLEN // width)
                cases.append(Case(width, signed, kappa, lam, accumulator, shift, lane))
    return _results("bounds", cases)


_MOST, _LEAST = WORD_MASK >> 1, 1 << (XLEN - 1)
_EXTREMES = [
    Case(8, False, 1, 0, 200, 0),
    Case(8, True, 1, 0, -100, 0, 3),
    Case(8, True, 1, 0, _LEAST, 31, 1),
    Case(8, False, 1, _MOST, 1, 31, 2),
    Case(2, True, _MOST, _LEAST, _MOST, 31, 15),
    Case(2, False, _LEAST, 0, 3, 30, 8),
    Case(4, False, WORD_MASK, 1, WORD_MASK, 0, 7),
    Case(4, True, WORD_MASK, WORD_MASK, 5, 0, 4),
    Case(4, True, 0x1_0001, 0xFFFF, 0xFFFF_0001, 32 + 16, 5),
    Case(8, False, 3, -5, 100, 0xFFFF_FFE2, 1),
    Case(8, False, 0, 77, 12345, 0, 0),
    Case(8, True, 0x4000_0000, 0, 2, 24, 0),
    Case(8, True, 0x4000_0000, -1, 2, 24, 0),
]
"""Shifts of 0 and 31 and of more bits than count, sums that wrap, the largest factors."""

PARAMETERS = f"{words_at(WINDOW, (3, -40))}; pv.rqld 0, (t1!); pv.rqld 1, (t1!); li a1, 1"
"""kappa = 3, lambda = -40, a shift of 1 in a1."""


def code_of(accumulator: int, width: int = 8, signed: bool = False, shift: int = 1) -> int:
    """The result for an accumulator, with :data:`PARAMETERS`, cut to its bits."""
    return Case(width, signed, 3, -40, accumulator, shift).code % (1 << width)


def _lanes() -> Directed:
    """A register filled lane by lane, each instruction on the result of the one before."""
    lines = [PARAMETERS, "li a0, 20; li a2, 32; li a3, 5"]
    registers = {"a0": 20, "a2": 32, "a3": 5}
    for number, (width, signed) in enumerate(product(_SUFFIX, (False, True))):
        target, total = f"s{2 + number}", 0
        lines.append(f"li {target}, 0x{_OLD:x}")
        for lane in range(XLEN // width):
            name = [*registers][(lane + number // 2) % len(registers)]
            lines.append(f"pv.rq{'s' if signed else 'u'}.{_SUFFIX[width]} {target}, {name}, a1, {lane}")
            total |= code_of(registers[name], width, signed) << lane * width
        lines.append(f"=> {target} {total}")
    return directed("pv.rq: every lane of one register, back to back", "\n".join(lines), "requantise")


VALUES = (_bounds(), _results("extremes", _EXTREMES), _lanes())
