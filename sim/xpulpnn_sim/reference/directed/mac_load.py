"""Directed programs of dot products and Mac&Load instructions: results despite dependences in the pipeline."""

from collections.abc import Iterable, Sequence

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs, words_at

WORDS = tuple((0x9E3779B9 * (number + 1)) & WORD_MASK for number in range(12))  # Arbitrary words
_FORMATS = {16: "h", 8: "b", 4: "n", 2: "c"}
_SIGNS = {"up": (False, False), "usp": (False, True), "sup": (True, False), "sp": (True, True)}
"""Signedness of weights and activations by the suffix of the mnemonic."""
ROWS = [(f"{name}.{letter}", width, signs) for width, letter in _FORMATS.items() for name, signs in _SIGNS.items()]


def _elements(word: int, width: int, *, signed: bool) -> list[int]:
    values = [word >> at & (1 << width) - 1 for at in range(0, 32, width)]
    return [value - (1 << width) if signed and value >> (width - 1) else value for value in values]


def dot(
    first: int, second: int, width: int, first_signed: bool, second_signed: bool, narrow: tuple[int, int] | None = None
) -> int:
    """Return the sum of the products of the elements, not truncated to a word. ``narrow`` gives the width of the
    elements of the first word and the number of the slice that is multiplied."""
    bits, part = narrow or (width, 0)
    seconds = _elements(second, width, signed=second_signed)
    firsts = _elements(first, bits, signed=first_signed)[part * len(seconds) : (part + 1) * len(seconds)]
    return sum(a * b for a, b in zip(firsts, seconds, strict=True))


def dot_sup(weight: int, activation: int, width: int = 8) -> int:
    """Return the dot product of signed weights and unsigned activations."""
    return dot(weight, activation, width, True, False)


_DATA = f"{words_at(WINDOW, WORDS)}; li t1, 0x{WINDOW:x}"
FILL = f"{_DATA}; " + "; ".join(f"pv.mlsdotup.b zero, (t1!), {entry}" for entry in (8, 9, 16, 18, 20, 22))
"""Instructions that load the first six words into NN[0] to NN[5]; then t1 points to the seventh word."""

_SAME_TOTAL = sum(dot_sup(weight, WORDS[0]) for weight in (WORDS[2], *WORDS[6:10]))
_FIRST, _SECOND, _THIRD = dot_sup(WORDS[2], WORDS[0], 4), dot_sup(WORDS[3], WORDS[6], 4), dot_sup(WORDS[3], WORDS[7], 4)
_MISALIGNED = (WORDS[6] >> 16 | WORDS[7] << 16) & WORD_MASK

_SUM_1 = dot_sup(WORDS[0], 0x01020304)
_SUM_2 = _SUM_1 + dot_sup(WORDS[1], _SUM_1 & WORD_MASK)
_SUM_3 = _SUM_2 + dot_sup(WORDS[2], WINDOW + 12)


def _in_a_loop() -> str:
    """Return a program with a loop of a single Mac&Load; interrupts may occur at any point."""
    rounds = 64
    words = [(0x61C88647 * (number + 7)) & WORD_MASK for number in range(rounds + 6)]
    total = sum(dot_sup(words[number + 2], words[0]) for number in range(rounds))
    # beyond the words that fail
    begin = FAILING[0] + FAILING[1]
    return f"""
== Mac&Load: loop of one instruction under interrupts [mac_load_nn interrupts]
        {words_at(begin, words)}
        pv.mlsdotup.b zero, (t1!), 8; addi t1, t1, 4; pv.mlsdotup.b zero, (t1!), 16
        li a0, 0; li t2, {rounds}
        lp.setup 0, t2, 1f
        1: pv.mlsdotsup.b a0, (t1!), 16 => a0 {total}
        csrrs a1, lpcount0, zero => a1 1
        sub a2, t1, tp => a2 {begin - WINDOW + 4 * (rounds + 3)}"""


_DOT_1 = dot(WORDS[0], WORDS[1], 8, False, True)
_DOT_2 = (_DOT_1 + dot(_DOT_1 & WORD_MASK, WORDS[1], 8, True, True)) & WORD_MASK
_DOT_3 = _DOT_2 + dot(WORDS[0], _DOT_2, 16, False, False)

_MAC_LOAD = f"""
== dot products: back to back on one accumulator [xpulpv2]
    # accumulators and factors are produced by the instruction before
    li a0, 0x{WORDS[0]:x}; li a1, 0x{WORDS[1]:x}
    pv.dotusp.b a2, a0, a1; pv.sdotsp.b a2, a2, a1; pv.sdotup.h a2, a0, a2 => a2 {_DOT_3}
== Mac&Load: same rd, rs1 and entry back to back [mac_load_nn]
    {FILL}
    li a0, 0
    {"; ".join(["pv.mlsdotsup.b a0, (t1!), 16"] * 4)}
    pv.mlsdotsup.b a0, (t1!), 0 => a0 {_SAME_TOTAL}
    mv a1, a0 => a1 {_SAME_TOTAL}
    sub a2, t1, tp => a2 40
== Mac&Load: activation reloaded and used at once [mac_load_nn]
    {FILL}
    li a0, 0; li a1, 100
    pv.mlsdotsup.n a0, (t1!), 8
    pv.mlsdotsup.n a1, (t1!), 10 => a1 {_SECOND + 100}
    pv.mlsdotsup.n a0, (t1!), 2 => a0 {_FIRST + _THIRD}
    add a2, a0, a1 => a2 {_FIRST + _SECOND + _THIRD + 100}
== Mac&Load: every format and sign, no load [mac_load_nn]
    {FILL}
    li a0, 0
    {"; ".join(f"pv.mlsdot{suffix} a0, (t1!), 7" for suffix, _, _ in ROWS)}
    sub a1, t1, tp => a0 {sum(dot(WORDS[5], WORDS[1], width, *signs) for _, width, signs in ROWS)}, a1 24
== Mac&Load: rd = rs1, x0 and misaligned addresses [mac_load_nn]
    {FILL}
    {words_at(0, (0x01020304,))}
    li t1, 0x{WINDOW + 24:x}
    mv a0, t1; pv.mlsdotsup.b a0, (a0!), 16; sub a1, a0, t1 => a1 {dot_sup(WORDS[2], WORDS[0])}
    pv.mlsdotsup.b zero, (zero!), 16; mv a2, zero => a2 0
    li a3, 0; pv.mlsdotup.b a3, (t1!), 0 => a3 {dot(0x01020304, WORDS[0], 8, False, False)}
    addi t1, t1, 2; pv.mlsdotup.b zero, (t1!), 16; sub a4, t1, tp => a4 30
    li a5, 0; pv.mlsdotup.b a5, (t1!), 0 => a5 {dot(_MISALIGNED, WORDS[0], 8, False, False)}
== Mac&Load: results used by loads, stores, branches and divisions [mac_load_nn]
    {FILL}
    li a0, 0; pv.mlsdotsup.b a0, (t1!), 0 => a0! {dot_sup(WORDS[2], WORDS[0])}
    li a0, 0; pv.mlsdotsup.b a0, (t1!), 16; lw a1, 0(t1) => a1! {WORDS[7]}
    pv.mlsdotsup.b zero, (t1!), 16; p.lw a2, 4(t1!) => a2! {WORDS[8]}
    li a3, 5; li a4, 0x{WORD_MASK:x}; lw a5, -4(t1)
    pv.mlsdotsup.b a5, (t1!), 0; beq a5, a0, 1f; li a3, 6
    1: => a3! 6
    li a6, 1; pv.mlsdotsup.b a6, (t1!), 0; divu a6, a6, a6 => a6! 1
{_in_a_loop()}
== C&U: one entry back to back, rs2 = rd and rs2 = rs1 [mac_load_cu]
    {_DATA}
    li a1, 0x01020304; li a0, 0
    pv.cusdotusp.b.2 zero, (t1!), a1; pv.cusdotusp.b.2 a0, (t1!), a1
    pv.cusdotusp.b.2 a0, (t1!), a0; pv.cusdotusp.b.2 a0, (t1!), t1 => a0 {_SUM_3}
    sub a2, t1, tp => a2 16
    li a3, 7; pv.cusdotup.c.2 a3, (t1!), zero => a3 7
"""


def _sums(selectors: Iterable[tuple[int, int]], entries: list[int], words: Sequence[int], number: int) -> list[int]:
    """Accumulate ``number`` sums; ``selectors`` holds the number of the sum and the selector of each Mac&Load. Each
    load into the NN-RF takes the next of ``words``."""
    sums, coming = [0] * number, iter(words)
    for total, selector in selectors:
        activation, weight = selector % 2, 2 + selector // 2 % 4
        sums[total] += dot_sup(entries[weight], entries[activation])
        if selector >= 24:
            entries[1 - activation] = next(coming)
        elif selector >= 16:
            entries[weight] = next(coming)
    return sums


_OTHER_SELECTORS = ((0, 24), (0, 1), (1, 27), (1, 2), (1, 29), (1, 28), (1, 31))
_OTHER_SUMS = _sums(_OTHER_SELECTORS, [*WORDS[:6]], WORDS[6:], 2)
_FAILS, _ = FAILING
_USED = dot(WORDS[2], (WORDS[6] >> 8 | WORDS[7] << 24) & WORD_MASK, 8, False, False)
_KNOWN = dot(WORDS[2], 0x0102_0304, 8, False, False)


_FIRST_PRODUCTS = "\n".join(
    f"pv.sdotsp.b a0, a0, t1; pv.mldot{suffix} a0, (t1!), 7 => a0! {dot(WORDS[5], WORDS[1], width, *signs)}"
    for suffix, width, signs in ROWS
)
_ONCE, _AGAIN = dot_sup(WORDS[2], WORDS[0]), dot_sup(WORDS[6], WORDS[0])
_TURN = (24, 17, 25, 18, 29, 22)  # selectors of one turn


def _turn(mnemonic: str) -> str:
    return "\n".join(f"{mnemonic} a{number}, (t1!), {selector}" for number, selector in enumerate(_TURN))


def _block() -> str:
    """Return a program with a loop of six Mac&Loads whose first iteration is peeled; interrupts may occur at any
    point."""
    rounds = 16
    words = [(0x61C8_8647 * (number + 5)) & WORD_MASK for number in range(8 * rounds + 8)]
    sums = _sums([*enumerate(_TURN)] * (rounds + 1), [words[0], 0, *words[1:5]], words[5:], len(_TURN))
    return f"""
== Mac&Load: a block without loads under interrupts [mac_load_cross mac_load_dot interrupts]
        {words_at(FAILING[0] + FAILING[1], words)}
        {"; ".join(f"pv.mlsdotup.b zero, (t1!), {selector}" for selector in (8, 16, 18, 20, 22))}
        {_turn("pv.mldotsup.b")}
        lp.setupi 0, {rounds}, 1f
        {_turn("pv.mlsdotsup.b").replace("pv.mlsdotsup.b a5", "1: pv.mlsdotsup.b a5")}
        => {", ".join(f"a{number} {total}" for number, total in enumerate(sums))}"""


_FORMS = f"""
== Mac&Load: the other activation reloaded [mac_load_cross]
    {FILL}
    li a0, 0; li a1, 0
    {"; ".join(f"pv.mlsdotsup.b a{total}, (t1!), {selector}" for total, selector in _OTHER_SELECTORS)}
    addi a2, t1, 0; pv.mlsdotsup.b a3, (t1!), 6 => a0 {_OTHER_SUMS[0]}, a1 {_OTHER_SUMS[1]}
    sub a2, a2, tp => a2 {4 * (6 + sum(selector >= 24 for _, selector in _OTHER_SELECTORS))}
== Mac&Load: the other activation, rd = rs1, x0, misaligned, faults [mac_load_cross]
    # with rd = rs1 the register holds the sum, whose accumulator is the address
    {FILL}
    {words_at(0, (0x0102_0304,))}
    li t1, 0x{WINDOW + 25:x}; li a2, 0
    pv.mlsdotup.b zero, (t1!), 24; pv.mlsdotup.b a2, (t1!), 1 => a2 {_USED}
    sub a3, t1, tp => a3 29
    pv.mlsdotup.b t1, (t1!), 25; sub t1, t1, a3 => t1 {_USED + WINDOW}
    li a4, 0; pv.mlsdotup.b zero, (zero!), 24; pv.mlsdotup.b a4, (zero!), 1 => a4 {_KNOWN}
    li a5, 0x{_FAILS:x}; li a6, 9
    pv.mlsdotup.b a6, (a5!), 24; pv.mlsdotup.b a6, (a5!), 1 => a6 {9 + _KNOWN}
    sub a5, a5, tp => a5 {_FAILS - WINDOW}
== Mac&Load: first products, every format and sign [mac_load_dot]
    # whatever rd was and whoever made it
    {FILL}
    {_FIRST_PRODUCTS}
== Mac&Load: first products and their neighbours [mac_load_dot]
    # 8 reloads entry 0 with words 7 and, through a3, 8; weight 0 with word 8
    {FILL}
    li a0, 77; pv.mlsdotsup.b a0, (t1!), 0
    pv.mldotsup.b a0, (t1!), 16; pv.mlsdotsup.b a0, (t1!), 0 => a0 {_ONCE + _AGAIN}
    lw a1, 0(tp); pv.mldotsup.b a1, (t1!), 0 => a1 {_AGAIN}
    pv.mldotsup.b a2, (t1!), 8; lw a2, 4(tp) => a2 {WORDS[1]}
    addi a3, t1, 0; pv.mldotsup.b a3, (a3!), 8 => a3 {dot_sup(WORDS[6], WORDS[7])}
    li a4, 5; li a5, 0x{_FAILS:x}; pv.mldotsup.b a4, (a5!), 16 => a4 5
    pv.mldotsup.b zero, (t1!), 16; addi a6, zero, 0 => a6 0
    pv.mldotsup.b a7, (t1!), 0 => a7 {dot_sup(WORDS[8], WORDS[8])}
    sub t1, t1, tp => t1 36
{_block()}
"""

PROGRAMS = programs(_MAC_LOAD + _FORMS)
