"""Directed programs of pv.rqld, pv.rq* and pv.rqx*: clipping bounds, lanes, dependences, faults, interrupts, illegal
words."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn.isa.table import INSNS, Decoder
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs, words_at

_SUFFIX = {8: "b", 4: "n", 2: "c"}
_OLD = 0xA5C3_96E1  # in rd before


def _number(word: int, bits: int = XLEN) -> int:
    """Interpret the low ``bits`` bits of a word as a signed number."""
    word %= 1 << bits
    return word - (word >> bits - 1 << bits)


class _Case(NamedTuple):
    width: int
    signed: bool
    kappa: int
    lam: int
    accumulator: int
    shift: int
    lane: int = 0
    exact: bool = False  # it is pv.rqx*, and the shift has a zero point

    @property
    def mnemonic(self) -> str:
        return f"pv.rq{'x' if self.exact else ''}{'s' if self.signed else 'u'}.{_SUFFIX[self.width]}"

    @property
    def code(self) -> int:
        """The result, clipped to the range of ``width`` bits, as a number with its sign."""
        if self.exact:
            places, total = self.shift % 64, _number(self.accumulator + self.lam) * _number(self.kappa)
            # twice the quotient, rounded down, and one more is twice the rounded one, or one more than that
            value = (2 * total // (1 << places) + 1) // 2 if places else total
            value += _number(self.shift >> 8, 8)
        else:
            value = _number(self.kappa * self.accumulator + self.lam) // (1 << self.shift % XLEN)
        low = -(1 << self.width - 1) if self.signed else 0
        return sorted((low, value, low + (1 << self.width) - 1))[1]

    def lines(self) -> str:
        """Emit instructions that load the operands and compute the result in a5, and the expected value of a5."""
        digits = [_OLD // (1 << at) % (1 << self.width) for at in range(0, XLEN, self.width)]
        digits[self.lane] = self.code % (1 << self.width)
        result = sum(digit << at * self.width for at, digit in enumerate(digits))
        return f"""
        {words_at(WINDOW, (self.kappa, self.lam))}
        pv.rqld 0, (t1!); pv.rqld 1, (t1!)
        li a0, 0x{self.accumulator & WORD_MASK:x}; li a1, 0x{self.shift & WORD_MASK:x}; li a5, 0x{_OLD:x}
        {self.mnemonic} a5, a0, a1, {self.lane} => a5! {result}
        """


def _bounds() -> Iterator[_Case]:
    """Yield cases whose results before clipping are at, just inside and just outside both bounds of every format. The
    bits that are shifted out are all zeros or all ones."""
    for width, signed in product(_SUFFIX, (False, True)):
        low = -(1 << width - 1) if signed else 0
        high = low + (1 << width) - 1
        for number, code in enumerate((low - 1, low, low + 1, high - 1, high, high + 1)):
            for dropped, shift in ((0, 7), ((1 << 11) - 1, 11)):
                kappa, accumulator = 0x0001_2345 + number, -0x0765_4321
                lam = (code << shift) + dropped - kappa * accumulator
                lane = (number + shift) % (XLEN // width)
                yield _Case(width, signed, kappa, lam, accumulator, shift, lane)


def _exact_bounds() -> Iterator[_Case]:
    """Yield cases of pv.rqx* with the least and the greatest product that is rounded to a bound or to a number next to
    it, with several zero points."""
    cases = product(_SUFFIX, (False, True), enumerate(((0, 1), (30, 40), (30, 44), (30, 51))))
    for width, signed, (number, (scale, shift)) in cases:
        low = -(1 << width - 1) if signed else 0
        high = low + (1 << width) - 1
        zero = (-128, 0, 127, 3 * width)[(number + width) % 4]
        half = 1 << shift - 1 - scale
        for code in (low - 1, low, low + 1, high - 1, high, high + 1):
            least = (code - zero << shift - scale) - half
            for factor in (least, least + 2 * half - 1):
                lam = 0x5A5A_1234 * (number - 1)
                word = shift | zero % 256 << 8 | 0xABCD_0040
                yield _Case(width, signed, 1 << scale, lam, factor - lam, word, (code + number) % (XLEN // width), True)


_MOST, _LEAST = WORD_MASK >> 1, 1 << (XLEN - 1)
_EXTREMES = [
    _Case(8, False, 1, 0, 200, 0),
    _Case(8, True, 1, 0, -100, 0, 3),
    _Case(8, True, 1, 0, _LEAST, 31, 1),
    _Case(8, False, 1, _MOST, 1, 31, 2),
    _Case(2, True, _MOST, _LEAST, _MOST, 31, 15),
    _Case(2, False, _LEAST, 0, 3, 30, 8),
    _Case(4, False, WORD_MASK, 1, WORD_MASK, 0, 7),
    _Case(4, True, WORD_MASK, WORD_MASK, 5, 0, 4),
    _Case(4, True, 0x1_0001, 0xFFFF, 0xFFFF_0001, 32 + 16, 5),
    _Case(8, False, 3, -5, 100, 0xFFFF_FFE2, 1),
    _Case(8, False, 0, 77, 12345, 0, 0),
    _Case(8, True, 0x4000_0000, 0, 2, 24, 0),
    _Case(8, True, 0x4000_0000, -1, 2, 24, 0),
]
"""Cases of pv.rq*: shifts of 0 and 31 and of more than 31 bits, sums that wrap, the largest factors."""


def _far(top: int) -> tuple[int, int]:
    return 1 << top, -1 - (1 << top)


_EXACT_EXTREMES = [
    _Case(width, signed, kappa, lam, accumulator, shift, lane, True)
    for width, signed, kappa, lam, accumulator, shift, lane in (
        (8, True, _LEAST, 0, _LEAST, 62, 1),
        (8, True, _LEAST, 0, _LEAST, 63, 2),
        (8, True, _LEAST, 0, _LEAST, 61, 3),
        (8, False, _LEAST, 1, _LEAST - 1, 55, 3),
        (8, True, _MOST, 0, _LEAST, 62, 0),
        (8, True, _MOST, 0, _LEAST, 54, 0),
        (8, True, _MOST, _MOST, 1, 54, 1),
        (8, False, _MOST, _LEAST, _LEAST, 0x7F00 | 1, 1),
        (4, False, 1, _MOST, _LEAST + 15, 0, 7),
        (4, True, 1, 0, -1, 1, 5),
        (4, True, 1, 0, -2, 2, 6),
        (2, True, WORD_MASK, 0, _LEAST, 31, 15),
        (2, True, WORD_MASK, 0, _LEAST, 32, 14),
        (8, False, 0, 77, 12345, 0x5500 | 40, 0),
        (8, True, WORD_MASK, 0, 1, 0x8000 | 63, 0),
        (8, False, 1, 0, 0, 0xFFFF_FF40, 0),
        *((8, True, 1 << places, 0, far, places, 0) for places in range(31) for far in _far(11 + places % 20)),
    )
]
"""Cases of pv.rqx*: operands at the ends of their ranges, sums that wrap, shifts of 0, 1, 62 and 63, rounding of
positive and negative halves, and products far out of bounds whose low bits are those of a number within the bounds."""

_LAMBDA = {False: -40, True: -10}  # of both forms, with kappa = 3


def _parameters(exact: bool) -> str:
    """Emit instructions that load kappa = 3 and the lambda of the instruction, and set the shift in a1 to 1."""
    return f"{words_at(WINDOW, (3, _LAMBDA[exact]))}; pv.rqld 0, (t1!); pv.rqld 1, (t1!); li a1, 1"


def _code_of(accumulator: int, width: int = 8, signed: bool = False, shift: int = 1, *, exact: bool) -> int:
    """Return the result for an accumulator with the operands of :func:`_parameters`, as an unsigned number of ``width``
    bits."""
    return _Case(width, signed, 3, _LAMBDA[exact], accumulator, shift, exact=exact).code % (1 << width)


def _every_lane(exact: bool) -> str:
    """Emit instructions that fill registers lane by lane; each depends on the result of the previous one."""
    lines = [_parameters(exact), "li a0, 20; li a2, 32; li a3, 5"]
    registers = {"a0": 20, "a2": 32, "a3": 5}
    for number, (width, signed) in enumerate(product(_SUFFIX, (False, True))):
        target, total = f"s{2 + number}", 0
        lines.append(f"li {target}, 0x{_OLD:x}")
        for lane in range(XLEN // width):
            name = [*registers][(lane + number // 2) % len(registers)]
            lines.append(f"pv.rq{'s' if signed else 'u'}.{_SUFFIX[width]} {target}, {name}, a1, {lane}")
            total |= _code_of(registers[name], width, signed, exact=exact) << lane * width
        lines.append(f"=> {target} {total}")
    return "\n".join(lines)


_LOAD_FAULT = 5


def _lanes(*codes: int, width: int = 8) -> int:
    return sum(code << lane * width for lane, code in enumerate(codes))


_FAILS, _ = FAILING


def _in_loops(exact: bool) -> str:
    """Return a program with requantisations as first, last and only instruction of hardware loops; interrupts may occur
    at any point."""
    rounds = 60
    total = value = 0
    code_of = partial(_code_of, exact=exact)
    for number in range(rounds):
        value = value & ~0xFF | code_of(number)
        total += value
        value = value & 0xFF_FFFF | code_of(number + 1, signed=True) << 24
    return f"""
== pv.rq: in loops under interrupts [requantise interrupts]
        {_parameters(exact)}
        {words_at(WINDOW, (3, _LAMBDA[exact]))}
        li a2, 0; li s2, 0; li s3, 0
        lp.setupi 0, {rounds}, 1f
        pv.rqu.b s2, a2, a1, 0; add s3, s3, s2 => s3 {total}
        addi a2, a2, 1; li t1, 0x{WINDOW:x}; pv.rqld 0, (t1!)
        pv.rqu.n s4, a2, a1, 3; pv.rqs.b s2, a2, a1, 3 => s2 {value}
        1: pv.rqld 1, (t1!)
        li s5, 0
        lp.setupi 0, 4, 2f
        2: pv.rqu.b s5, a2, a1, 2
        csrrs s6, lpcount0, zero
        lp.setupi 1, 3, 3f
        pv.rqu.n s5, a2, a1, 7; nop => s5 {code_of(rounds) << 16 | code_of(rounds, 4) << 28}
        3: fence
        wfi; addi s6, s6, 1 => s6 2"""


def _illegal() -> list[int]:
    """Return illegal words close to requantisations: lanes that a format does not have, and inverted fixed bits."""
    registers = {"rd": 10, "rs1": 11, "rs2": 12, "lane": 0, "uimm1": 0}
    words: set[int] = set()
    for row in (row for row in INSNS if row.requantises or row.loads_parameter):
        word = row.encode(**{token.field.name: registers[token.field.name] for token in row.tokens})
        words.update(word ^ upper << 25 for upper in range(1 << 7))
        words.update(word ^ 1 << bit for bit in range(2, 25))
    decoder = Decoder(INSNS)
    return [word for word in sorted(words) if decoder.decode(word) is None]


_ILLEGAL = _illegal()


_EVERY_FORM = "; ".join(f"pv.rq{s}.{w} s2, {n}, a1, 0" for s in "us" for w in _SUFFIX.values() for n in ("a2", "a3"))


def _table(exact: bool) -> str:
    """Return the programs of pv.rq* or, if ``exact``, the corresponding programs of pv.rqx*."""
    code_of = partial(_code_of, exact=exact)
    code = code_of(33)  # the result of most cases
    lanes_of_s3 = _lanes(code, code, 0, code)
    sums = _lanes(code_of(38), code_of(42)) + 4

    def ten(kappa: int, lam: int, signed: bool = False) -> int:
        return _Case(8, signed, kappa, lam, 10, 0, exact=exact).code % 256

    return f"""
== pv.rq: bounds [requantise]
    {"".join(case.lines() for case in (_exact_bounds() if exact else _bounds()))}
== pv.rq: extremes [requantise]
    {"".join(case.lines() for case in (_EXACT_EXTREMES if exact else _EXTREMES))}
== pv.rq: sums with a single bit, and all others, shifted by every number of places [requantise]
    {words_at(WINDOW, (1, 0))}; pv.rqld 0, (t1!); pv.rqld 1, (t1!)
    li a1, 0; li a4, {XLEN}
    1: li a2, 1
    2: xori a3, a2, -1
    {_EVERY_FORM}
    add a2, a2, a2; bne a2, zero, 2b
    addi a1, a1, 1; bne a1, a4, 1b => a1 {XLEN}
== pv.rq: every lane of one register, back to back [requantise]
    {_every_lane(exact)}
== pv.rq: operands made right before [requantise]
    {_parameters(exact)}
    li a2, 33; li a3, 7; sw a2, 16(tp); sw a1, 20(tp); sw zero, 24(tp); addi t1, tp, 16
    li s2, 0; lw a4, 16(tp); pv.rqu.b s2, a4, a1, 0
    p.lw a5, 4(t1!); pv.rqu.b s2, a5, a1, 1
    lw a6, 20(tp); pv.rqu.b s2, a2, a6, 2
    li s3, -1; lw s3, 24(tp); pv.rqu.b s3, a2, a1, 3
    li a7, 0; li s4, 0x01010101
    pv.sdotup.b a7, s4, s4; pv.rqs.b s2, a7, a1, 3 => s2 {_lanes(code, code, code, code_of(4, signed=True))}
    divu s5, a2, a1; pv.rqu.b s3, s5, a1, 0
    mulh s6, a2, a2; pv.rqs.n s3, s6, a1, 2
    mul s7, a3, a3; pv.rqu.b s3, s7, a1, 2
    csrrw zero, mscratch, a2; csrrs s8, mscratch, zero; pv.rqs.n s3, s8, a1, 3
    => s3 {_lanes(code, code_of(0, 4, True) | code_of(33, 4, True) << 4, code_of(49), code)}
== pv.rq: results used right behind [requantise]
    # kappa = 1 and lambda = 0 in the page at address 0: the low byte of a jump's address comes from a sum
    {words_at(WORD_BYTES * 20, (1, 0))}
    {_parameters(exact)}
    li a2, 33
    li s2, 0; pv.rqu.b s2, a2, a1, 0; addi a3, s2, 1 => a3 {code + 1}
    li s2, 0; pv.rqu.b s2, a2, a1, 0; sw s2, 64(tp); lw s6, 64(tp) => s6 {code}
    addi a4, tp, 0; sw a2, {code}(a4)
    li s3, 0; pv.rqu.b s3, a2, a1, 0; add s3, s3, tp; lw s3, 0(s3) => s3 33
    li s4, 0; pv.rqu.b s4, a2, a1, 0; pv.rqs.b s4, s4, a1, 1 => s4 {_lanes(code, code_of(code, signed=True))}
    li s5, 0; pv.rqu.b s5, a2, a1, 0; pv.rqs.b s5, a2, s5, 1
    => s5 {_lanes(code, code_of(33, signed=True, shift=code))}
    li s7, 1; li s8, 0; pv.rqu.b s8, a2, a1, 0; beq s8, s6, 1f; li s7, 2
    1: la s9, 2f; andi s10, s9, 255; xori s9, s9, 4
    li a5, {WORD_BYTES * 20}; pv.rqld 0, (a5!); pv.rqld 1, (a5!)
    pv.rqu.b s9, s10, zero, 0; jalr ra, 0(s9); li s7, 3
    2: addi s7, s7, 16 => s7 17
== pv.rq: the last write of a register stays [requantise]
    {_parameters(exact)}
    li a2, 33; li a3, 0x1234; sw a3, 16(tp)
    pv.rqu.b s2, a2, a1, 0; li s2, 5 => s2 5
    pv.rqu.b s3, a2, a1, 0; lw s3, 16(tp) => s3 0x1234
    lw s4, 16(tp); pv.rqu.b s4, a2, a1, 3 => s4 {0x1234 | code << 24}
    pv.rqu.b s5, a2, a1, 0; mulh s5, a3, a3 => s5 0
    pv.rqu.b s6, a2, a1, 0; divu s6, a3, a1 => s6 0x1234
    addi t1, tp, 16; pv.rqu.b s7, a2, a1, 0; p.lw s7, 4(t1!) => s7 0x1234
    pv.rqu.b t1, a2, a1, 0; addi t1, tp, 16; p.lw s8, 4(t1!) => s8 0x1234
    li s9, 33; pv.rqu.b s9, s9, s9, 1 => s9 {_lanes(33, code_of(33, shift=33))}
    pv.rqu.b zero, a2, a1, 0; addi s10, zero, 0 => s10 0
    la a5, 1f; pv.rqu.b a4, a2, a1, 1; jal a4, 1f
    1: sub a4, a4, a5 => a4 0
== pv.rqld: parameters used right behind [requantise]
    # across the words is 0x00000003
    {words_at(WINDOW, (1, 0, 2, 100, 0x0000_0300, 0xFF00_0000))}
    {words_at(WORD_BYTES * 8, (4,))}
    li a0, 10; li s2, 0; li s3, 0
    pv.rqld 1, (t1!); li t1, 0x{WINDOW:x}; pv.rqld 0, (t1!); pv.rqu.b s2, a0, zero, 0
    pv.rqld 1, (t1!); pv.rqld 0, (t1!); pv.rqu.b s2, a0, zero, 1
    pv.rqld 1, (t1!); pv.rqu.b s2, a0, zero, 2
    sub a2, t1, tp => a2 16
    li a3, {WORD_BYTES * 8}; pv.rqld 0, (a3!); addi a4, a3, 0; pv.rqu.b s2, a0, zero, 3
    => a4 36, s2 {_lanes(ten(1, 4), ten(2, 0), ten(2, 100), ten(4, 100))}
    addi t1, t1, 1; pv.rqld 0, (t1!); pv.rqu.b s3, a0, zero, 0
    sub a5, t1, tp => a5 21
    addi t1, tp, 4; pv.rqld 1, (t1!); pv.rqs.b s3, a0, zero, 1
    sw zero, 0(zero); pv.rqld 0, (zero!); pv.rqu.b s3, a0, zero, 2
    => s3 {_lanes(ten(3, 100), ten(3, 0, True), ten(0, 0))}
== pv.rqld and pv.rq: access faults and traps [requantise]
    # a pv.rqld that fails leaves its parameter and base; a pv.rq around an access that fails is not lost
    {_parameters(exact)}
    li a0, 0x{_FAILS:x}; li a2, 33; li s2, 0; li s3, 0; csrrw zero, mcause, zero
    pv.rqld 0, (a0!); pv.rqu.b s2, a2, a1, 0; csrrs a3, mcause, zero => a3 {_LOAD_FAULT}
    pv.rqld 1, (a0!); pv.rqu.b s2, a2, a1, 1
    addi a4, a0, -2; pv.rqld 1, (a4!); pv.rqu.b s2, a2, a1, 2
    pv.rqu.b s2, a2, a1, 3; lw s2, 0(a0) => s2 {_lanes(code, code, code, code)}
    sub a4, a4, a0 => a4 -2
    lw s3, 0(a0); pv.rqu.b s3, a2, a1, 3
    pv.rqu.b s3, a2, a1, 0; ecall
    pv.rqu.b s3, a2, a1, 1; .word 0 => s3 {lanes_of_s3}
    csrrw zero, mscratch, s3; csrrs a5, mscratch, zero => a5 {lanes_of_s3}
    sub a0, a0, tp => a0 {_FAILS - WINDOW}
== pv.rq: Mac&Load around it [requantise]
    # 8 of four products of 2, then 4 of four products of 1; at last lambda is 3
    {words_at(WINDOW, (0x01010101, 0x02020202, 3, _LAMBDA[exact], 0x01010101))}
    li a1, 1; pv.mlsdotup.b zero, (t1!), 8; pv.mlsdotup.b zero, (t1!), 16
    li a0, 30; li s2, 0; pv.rqld 0, (t1!); pv.rqld 1, (t1!)
    pv.mlsdotup.b a0, (t1!), 16; pv.rqu.b s2, a0, a1, 0
    pv.mlsdotup.b a0, (t1!), 0; pv.rqu.b s2, a0, a1, 1 => a0 42
    addi t1, tp, 8; pv.rqld 1, (t1!); pv.mlsdotup.b s2, (t1!), 0
    pv.rqu.n s2, a0, a1, 7 => s2 {sums & (1 << 28) - 1 | _Case(4, False, 3, 3, 42, 1, exact=exact).code << 28}
== pv.rq: skipped by branches [requantise]
    {_parameters(exact)}
    li a2, 33; li s2, 0; li t1, 0x{WINDOW + WORD_BYTES:x}
    beq a2, a2, 1f; pv.rqu.b s2, a2, a1, 0
    1: bne a2, zero, 2f; pv.rqld 0, (t1!)
    2: jal zero, 3f; pv.rqu.b s2, a2, a1, 1
    3: pv.rqu.b s2, a2, a1, 2; bltu zero, s2, 4f
    pv.rqs.b s2, a2, a1, 3; pv.rqld 1, (t1!)
    4: lp.setupi 0, 3, 5f
    addi a2, a2, 2
    5: addi a3, a2, 0 => a3 39
    pv.rqu.b s2, a2, a1, 3 => s2 {_lanes(0, 0, code, code_of(39))}
    sub t1, t1, tp => t1 4
{_in_loops(exact)}
"""


_NAMES = {"u": "xu", "s": "xs", ":": "x:"}
_EXACT = re.sub(r"pv\.rq(ld:|[us:])", lambda name: f"pv.rq{_NAMES.get(name[1], 'ld and pv.rqx:')}", _table(True))
PROGRAMS = programs(f"""{_table(False)}{_EXACT.replace("[requantise", "[requantise_exact")}
== pv.rqld and pv.rq: illegal words [requantise]
    # nothing happens but a trap
    {_parameters(False)}
    li a0, 77; li a1, 0x{WINDOW:x}; li a2, 1; li s2, 0; csrrw zero, mcause, zero
    {"; ".join(f".word 0x{word:x}; csrrw a3, mcause, zero; add s2, s2, a3" for word in _ILLEGAL)}
    sub a1, a1, tp => a0 77, a1 0, s2 {2 * len(_ILLEGAL)}
""")
