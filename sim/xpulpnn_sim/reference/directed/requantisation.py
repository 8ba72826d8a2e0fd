"""Directed programs of pv.rqld, pv.rq* and pv.rqx*: clipping bounds, lanes, dependences, faults, interrupts, illegal
words."""

import re
from collections.abc import Iterator
from itertools import product

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN, ExceptionCause
from xpulpnn.isa.table import ALL_WORDS, INSNS
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs, words_at

_SUFFIX = {8: "b", 4: "n", 2: "c"}
_OLD = 0xA5C3_96E1  # in rd before


def _case(
    width: int, signed: int, kappa: int, lam: int, accumulator: int, shift: int, lane: int = 0, *, exact: bool = False
) -> str:
    """Emit instructions that load the operands of a pv.rq*, or of a pv.rqx* if ``exact``, and compute it in a5."""
    return f"""
        {words_at(WINDOW, (kappa, lam))}
        pv.rqld 0, (t1!); pv.rqld 1, (t1!)
        li a0, 0x{accumulator & WORD_MASK:x}; li a1, 0x{shift & WORD_MASK:x}; li a5, 0x{_OLD:x}
        pv.rq{"x" * exact}{"us"[signed]}.{_SUFFIX[width]} a5, a0, a1, {lane} => a5!
        """


def _codes(width: int, signed: bool) -> tuple[int, ...]:
    """Return the bounds of a format, and the numbers just inside and just outside."""
    low = -(1 << width - 1) if signed else 0
    high = low + (1 << width) - 1
    return low - 1, low, low + 1, high - 1, high, high + 1


def _bounds() -> Iterator[str]:
    """Yield cases whose results before clipping are at, just inside and just outside both bounds of every format."""
    for width, signed in product(_SUFFIX, (False, True)):
        for number, code in enumerate(_codes(width, signed)):
            for dropped, shift in ((0, 7), ((1 << 11) - 1, 11)):
                kappa, accumulator = 0x0001_2345 + number, -0x0765_4321
                lam = (code << shift) + dropped - kappa * accumulator
                yield _case(width, signed, kappa, lam, accumulator, shift, (number + shift) % (XLEN // width))


def _exact_bounds() -> Iterator[str]:
    cases = product(_SUFFIX, (False, True), enumerate(((0, 1), (30, 40), (30, 44), (30, 51))))
    for width, signed, (number, (scale, shift)) in cases:
        zero = (-128, 0, 127, 3 * width)[(number + width) % 4]
        half = 1 << shift - 1 - scale
        for code in _codes(width, signed):
            least = (code - zero << shift - scale) - half
            for factor in (least, least + 2 * half - 1):
                lam = 0x5A5A_1234 * (number - 1)
                word = shift | zero % 256 << 8 | 0xABCD_0040
                yield _case(
                    width, signed, 1 << scale, lam, factor - lam, word, (code + number) % (XLEN // width), exact=True
                )


_MOST, _LEAST = WORD_MASK >> 1, 1 << (XLEN - 1)
_EXTREMES = (
    (8, False, 1, 0, 200, 0),
    (8, True, 1, 0, -100, 0, 3),
    (8, True, 1, 0, _LEAST, 31, 1),
    (8, False, 1, _MOST, 1, 31, 2),
    (2, True, _MOST, _LEAST, _MOST, 31, 15),
    (2, False, _LEAST, 0, 3, 30, 8),
    (4, False, WORD_MASK, 1, WORD_MASK, 0, 7),
    (4, True, WORD_MASK, WORD_MASK, 5, 0, 4),
    (4, True, 0x1_0001, 0xFFFF, 0xFFFF_0001, 32 + 16, 5),
    (8, False, 3, -5, 100, 0xFFFF_FFE2, 1),
    (8, False, 0, 77, 12345, 0, 0),
    (8, True, 0x4000_0000, 0, 2, 24, 0),
    (8, True, 0x4000_0000, -1, 2, 24, 0),
)
"""Cases of pv.rq*: shifts of 0 and 31 and of more than 31 bits, sums that wrap, the largest factors."""

_EXACT_EXTREMES = (
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
    *(
        (8, True, 1 << places, 0, far, places, 0)
        for places in range(31)
        for far in (1 << 11 + places % 20, -1 - (1 << 11 + places % 20))
    ),
)
"""Cases of pv.rqx*: operands at the ends of their ranges, sums that wrap, shifts of 0, 1, 62 and 63, rounding of
positive and negative halves, and products far out of bounds whose low bits are those of a number within the bounds."""

_LAMBDA = {False: -40, True: -10}  # of both forms, with kappa = 3


def _parameters(exact: bool) -> str:
    """Emit instructions that load kappa = 3 and the lambda of the instruction, and set the shift in a1 to 1."""
    return f"{words_at(WINDOW, (3, _LAMBDA[exact]))}; pv.rqld 0, (t1!); pv.rqld 1, (t1!); li a1, 1"


def _every_lane(exact: bool) -> str:
    """Emit instructions that fill registers lane by lane; each depends on the result of the previous one."""
    lines = [_parameters(exact), "li a0, 20; li a2, 32; li a3, 5"]
    for number, (width, sign) in enumerate(product(_SUFFIX, "us")):
        target = f"s{2 + number}"
        lines.append(f"li {target}, 0x{_OLD:x}")
        for lane in range(XLEN // width):
            source = ("a0", "a2", "a3")[(lane + number // 2) % 3]
            lines.append(f"pv.rq{sign}.{_SUFFIX[width]} {target}, {source}, a1, {lane}")
        lines.append(f"=> {target}")
    return "\n".join(lines)


_FAILS, _ = FAILING
_LOAD_FAULT = int(ExceptionCause.LOAD_ACCESS_FAULT)


def _illegal() -> list[int]:
    """Return illegal words close to requantisations: lanes that a format does not have, and inverted fixed bits."""
    registers = {"rd": 10, "rs1": 11, "rs2": 12, "lane": 0, "uimm1": 0}
    words: set[int] = set()
    for row in (row for row in INSNS if row.requantises or row.loads_parameter):
        word = row.encode(**{token.field.name: registers[token.field.name] for token in row.tokens})
        words.update(word ^ upper << 25 for upper in range(1 << 7))
        words.update(word ^ 1 << bit for bit in range(2, 25))
    return [word for word in sorted(words) if ALL_WORDS.decode(word) is None]


_ILLEGAL = _illegal()
_EVERY_FORM = "; ".join(f"pv.rq{s}.{w} s2, {n}, a1, 0" for s in "us" for w in _SUFFIX.values() for n in ("a2", "a3"))


def _table(exact: bool) -> str:
    """Return the programs of pv.rq* or, if ``exact``, the corresponding programs of pv.rqx*."""
    cases = _exact_bounds() if exact else _bounds()
    extremes = (_case(*case, exact=exact) for case in (_EXACT_EXTREMES if exact else _EXTREMES))
    code = 35 if exact else 29  # the result for an accumulator of 33
    return f"""
== pv.rq: bounds [requantise]
    {"".join(cases)}
== pv.rq: extremes [requantise]
    {"".join(extremes)}
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
    pv.sdotup.b a7, s4, s4; pv.rqs.b s2, a7, a1, 3 => s2
    divu s5, a2, a1; pv.rqu.b s3, s5, a1, 0
    mulh s6, a2, a2; pv.rqs.n s3, s6, a1, 2
    mul s7, a3, a3; pv.rqu.b s3, s7, a1, 2
    csrrw zero, mscratch, a2; csrrs s8, mscratch, zero; pv.rqs.n s3, s8, a1, 3 => s3
== pv.rq: results used right behind [requantise]
    # kappa = 1 and lambda = 0 in the page at address 0: the low byte of a jump's address comes from a sum
    {words_at(WORD_BYTES * 20, (1, 0))}
    {_parameters(exact)}
    li a2, 33
    li s2, 0; pv.rqu.b s2, a2, a1, 0; addi a3, s2, 1 => a3
    li s2, 0; pv.rqu.b s2, a2, a1, 0; sw s2, 64(tp); lw s6, 64(tp) => s6 {code}
    addi a4, tp, 0; sw a2, {code}(a4)
    li s3, 0; pv.rqu.b s3, a2, a1, 0; add s3, s3, tp; lw s3, 0(s3) => s3 33
    li s4, 0; pv.rqu.b s4, a2, a1, 0; pv.rqs.b s4, s4, a1, 1 => s4
    li s5, 0; pv.rqu.b s5, a2, a1, 0; pv.rqs.b s5, a2, s5, 1 => s5
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
    lw s4, 16(tp); pv.rqu.b s4, a2, a1, 3 => s4
    pv.rqu.b s5, a2, a1, 0; mulh s5, a3, a3 => s5 0
    pv.rqu.b s6, a2, a1, 0; divu s6, a3, a1 => s6 0x1234
    addi t1, tp, 16; pv.rqu.b s7, a2, a1, 0; p.lw s7, 4(t1!) => s7 0x1234
    pv.rqu.b t1, a2, a1, 0; addi t1, tp, 16; p.lw s8, 4(t1!) => s8 0x1234
    li s9, 33; pv.rqu.b s9, s9, s9, 1 => s9
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
    li a3, {WORD_BYTES * 8}; pv.rqld 0, (a3!); addi a4, a3, 0; pv.rqu.b s2, a0, zero, 3 => a4 36, s2
    addi t1, t1, 1; pv.rqld 0, (t1!); pv.rqu.b s3, a0, zero, 0
    sub a5, t1, tp => a5 21
    addi t1, tp, 4; pv.rqld 1, (t1!); pv.rqs.b s3, a0, zero, 1
    sw zero, 0(zero); pv.rqld 0, (zero!); pv.rqu.b s3, a0, zero, 2 => s3
== pv.rqld and pv.rq: access faults and traps [requantise]
    # a pv.rqld that fails leaves its parameter and base; a pv.rq around an access that fails is not lost
    {_parameters(exact)}
    li a0, 0x{_FAILS:x}; li a2, 33; li s2, 0; li s3, 0; csrrw zero, mcause, zero
    pv.rqld 0, (a0!); pv.rqu.b s2, a2, a1, 0; csrrs a3, mcause, zero => a3 {_LOAD_FAULT}
    pv.rqld 1, (a0!); pv.rqu.b s2, a2, a1, 1
    addi a4, a0, -2; pv.rqld 1, (a4!); pv.rqu.b s2, a2, a1, 2
    pv.rqu.b s2, a2, a1, 3; lw s2, 0(a0) => s2
    sub a4, a4, a0 => a4 -2
    lw s3, 0(a0); pv.rqu.b s3, a2, a1, 3
    pv.rqu.b s3, a2, a1, 0; ecall
    pv.rqu.b s3, a2, a1, 1; .word 0 => s3
    csrrw zero, mscratch, s3; csrrs a5, mscratch, zero => a5
    sub a0, a0, tp => a0 {_FAILS - WINDOW}
== pv.rq: Mac&Load around it [requantise]
    # 8 of four products of 2, then 4 of four products of 1; at last lambda is 3
    {words_at(WINDOW, (0x01010101, 0x02020202, 3, _LAMBDA[exact], 0x01010101))}
    li a1, 1; pv.mlsdotup.b zero, (t1!), 8; pv.mlsdotup.b zero, (t1!), 16
    li a0, 30; li s2, 0; pv.rqld 0, (t1!); pv.rqld 1, (t1!)
    pv.mlsdotup.b a0, (t1!), 16; pv.rqu.b s2, a0, a1, 0
    pv.mlsdotup.b a0, (t1!), 0; pv.rqu.b s2, a0, a1, 1 => a0 42
    addi t1, tp, 8; pv.rqld 1, (t1!); pv.mlsdotup.b s2, (t1!), 0
    pv.rqu.n s2, a0, a1, 7 => s2
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
    pv.rqu.b s2, a2, a1, 3 => s2
    sub t1, t1, tp => t1 4
== pv.rq: in loops under interrupts [requantise interrupts]
    {_parameters(exact)}
    {words_at(WINDOW, (3, _LAMBDA[exact]))}
    li a2, 0; li s2, 0; li s3, 0
    lp.setupi 0, 60, 1f
    pv.rqu.b s2, a2, a1, 0; add s3, s3, s2 => s3
    addi a2, a2, 1; li t1, 0x{WINDOW:x}; pv.rqld 0, (t1!)
    pv.rqu.n s4, a2, a1, 3; pv.rqs.b s2, a2, a1, 3 => s2
    1: pv.rqld 1, (t1!)
    li s5, 0
    lp.setupi 0, 4, 2f
    2: pv.rqu.b s5, a2, a1, 2
    csrrs s6, lpcount0, zero
    lp.setupi 1, 3, 3f
    pv.rqu.n s5, a2, a1, 7; nop => s5
    3: fence
    wfi; addi s6, s6, 1 => s6 2
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
