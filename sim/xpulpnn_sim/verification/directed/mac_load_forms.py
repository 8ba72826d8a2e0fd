"""Directed programs of Mac&Loads that reload the other activation, and of those that begin a sum."""

from collections.abc import Iterable, Sequence

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.verification.directed.case import Directed, directed, stored, words_at
from xpulpnn_sim.verification.directed.mac_load import FILL, FORMATS, SIGNS, WORDS, dot, sup
from xpulpnn_sim.verification.random.layout import FAILING, WINDOW


def _sums(selectors: Iterable[tuple[int, int]], entries: list[int], words: Sequence[int], number: int) -> list[int]:
    """``number`` sums of products, each by the number of its sum and its selector; loads take ``words`` in order."""
    sums, coming = [0] * number, iter(words)
    for total, selector in selectors:
        activation, weight = selector % 2, 2 + selector // 2 % 4
        sums[total] += sup(entries[weight], entries[activation])
        if selector >= 24:
            entries[1 - activation] = next(coming)
        elif selector >= 16:
            entries[weight] = next(coming)
    return sums


_OTHER_SELECTORS = ((0, 24), (0, 1), (1, 27), (1, 2), (1, 29), (1, 28), (1, 31))
_OTHER_SUMS = _sums(_OTHER_SELECTORS, [*WORDS[:6]], WORDS[6:], 2)
_OTHER_ENTRY = directed(
    "Mac&Load: the other activation reloaded",
    f"""
    {FILL}
    li a0, 0; li a1, 0
    {"; ".join(f"pv.mlsdotsup.b a{total}, (t1!), {selector}" for total, selector in _OTHER_SELECTORS)}
    addi a2, t1, 0; pv.mlsdotsup.b a3, (t1!), 6 => a0 {_OTHER_SUMS[0]}, a1 {_OTHER_SUMS[1]}
    sub a2, a2, tp => a2 {4 * (6 + sum(selector >= 24 for _, selector in _OTHER_SELECTORS))}
    """,
    "mac_load_cross",
)

_FAILS, _ = FAILING
_USED = dot(WORDS[2], (WORDS[6] >> 8 | WORDS[7] << 24) & WORD_MASK, 8, False, False)
_KNOWN = dot(WORDS[2], 0x0102_0304, 8, False, False)
_CROSS_REGISTERS = directed(
    "Mac&Load: the other activation, rd = rs1, x0, misaligned, faults",
    # with rd = rs1 the register holds the sum, whose accumulator is the address
    f"""
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
    """,
    "mac_load_cross",
)


def _first_products() -> Directed:
    """Products without accumulation in every format and sign, whatever rd was and whoever made it."""
    lines, expected = [FILL], list[int]()
    for width, letter in FORMATS.items():
        for name, signs in SIGNS.items():
            lines.append(f"pv.sdotsp.b a0, a0, t1; pv.mldot{name}.{letter} a0, (t1!), 7")
            lines.append(stored("a0", len(expected)))
            expected.append(dot(WORDS[5], WORDS[1], width, *signs))
    name = "Mac&Load: first products, every format and sign"
    return Directed(name, "\n".join(lines), tuple(expected), ("mac_load_dot",))


_FIRST, _SECOND = sup(WORDS[2], WORDS[0]), sup(WORDS[6], WORDS[0])
_NEIGHBOURS = directed(
    "Mac&Load: first products and their neighbours",
    # 8 reloads entry 0 with words 7 and, through a3, 8; weight 0 with word 8
    f"""
    {FILL}
    li a0, 77; pv.mlsdotsup.b a0, (t1!), 0
    pv.mldotsup.b a0, (t1!), 16; pv.mlsdotsup.b a0, (t1!), 0 => a0 {_FIRST + _SECOND}
    lw a1, 0(tp); pv.mldotsup.b a1, (t1!), 0 => a1 {_SECOND}
    pv.mldotsup.b a2, (t1!), 8; lw a2, 4(tp) => a2 {WORDS[1]}
    addi a3, t1, 0; pv.mldotsup.b a3, (a3!), 8 => a3 {sup(WORDS[6], WORDS[7])}
    li a4, 5; li a5, 0x{_FAILS:x}; pv.mldotsup.b a4, (a5!), 16 => a4 5
    pv.mldotsup.b zero, (t1!), 16; addi a6, zero, 0 => a6 0
    pv.mldotsup.b a7, (t1!), 0 => a7 {sup(WORDS[8], WORDS[8])}
    sub t1, t1, tp => t1 36
    """,
    "mac_load_dot",
)

_TURN = (24, 17, 25, 18, 29, 22)  # selectors of one turn


def _turn(mnemonic: str) -> str:
    return "\n".join(f"{mnemonic} a{number}, (t1!), {selector}" for number, selector in enumerate(_TURN))


def _block() -> Directed:
    """The loop of a 4x2 block with its first turn peeled, interrupted anywhere: no loads but those of the products."""
    rounds = 16
    words = [(0x61C8_8647 * (number + 5)) & WORD_MASK for number in range(8 * rounds + 8)]
    sums = _sums([*enumerate(_TURN)] * (rounds + 1), [words[0], 0, *words[1:5]], words[5:], len(_TURN))
    return directed(
        "Mac&Load: a block without loads under interrupts",
        f"""
        {words_at(FAILING[0] + FAILING[1], words)}
        {"; ".join(f"pv.mlsdotup.b zero, (t1!), {selector}" for selector in (8, 16, 18, 20, 22))}
        {_turn("pv.mldotsup.b")}
        lp.setupi 0, {rounds}, 1f
        {_turn("pv.mlsdotsup.b").replace("pv.mlsdotsup.b a5", "1: pv.mlsdotsup.b a5")}
        => {", ".join(f"a{number} {total}" for number, total in enumerate(sums))}
        """,
        *("mac_load_cross", "mac_load_dot"),
        interrupts=True,
    )


MAC_LOAD_FORMS = (_OTHER_ENTRY, _CROSS_REGISTERS, _first_products(), _NEIGHBOURS, _block())
