"""Directed programs of Mac&Loads that reload the other activation, and of those that begin a sum."""

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.verify.directed.case import Directed, stored, words_at
from xpulpnn_sim.verify.directed.mac_load import FILL, WORDS, dot, sup
from xpulpnn_sim.verify.layout import FAILING, WINDOW

_CROSS = ("mac_load_cross",)
_DOT = ("mac_load_dot",)
_BOTH = (*_CROSS, *_DOT)


def _other_entry() -> Directed:
    """Either activation reloaded while the other one is used, and both used at once."""
    text = f"""
    {FILL}
    li a0, 0
    li a1, 0
    pv.mlsdotsup.b a0, (t1!), 24
    pv.mlsdotsup.b a0, (t1!), 1
    pv.mlsdotsup.b a1, (t1!), 27
    pv.mlsdotsup.b a1, (t1!), 2
    pv.mlsdotsup.b a1, (t1!), 29
    pv.mlsdotsup.b a1, (t1!), 28
    pv.mlsdotsup.b a1, (t1!), 31
    addi a2, t1, 0
    pv.mlsdotsup.b a3, (t1!), 6
    sub a2, a2, tp
    {stored("a0 a1 a2")}
    """
    entries, at = [*WORDS[:6]], 6
    sums = [0, 0]
    for total, selector in ((0, 24), (0, 1), (1, 27), (1, 2), (1, 29), (1, 28), (1, 31)):
        activation = selector % 2
        sums[total] += sup(entries[2 + selector // 2 % 4], entries[activation], 8)
        if selector >= 24:
            entries[1 - activation] = WORDS[at]
            at += 1
    return Directed("Mac&Load: the other activation reloaded", text, (*sums, 4 * at), _CROSS)


def _cross_registers() -> Directed:
    """Reloads of the other activation with rd = rs1, x0 and misaligned addresses, and one that fails."""
    fails, _ = FAILING
    misaligned = (WORDS[6] >> 8 | WORDS[7] << 24) & WORD_MASK
    text = f"""
    {FILL}
    {words_at(0, (0x0102_0304,))}
    li t1, 0x{WINDOW + 25:x}
    li a2, 0
    pv.mlsdotup.b zero, (t1!), 24
    pv.mlsdotup.b a2, (t1!), 1
    sub a3, t1, tp
    pv.mlsdotup.b t1, (t1!), 25
    sub t1, t1, a3
    li a4, 0
    pv.mlsdotup.b zero, (zero!), 24
    pv.mlsdotup.b a4, (zero!), 1
    li a5, 0x{fails:x}
    li a6, 9
    pv.mlsdotup.b a6, (a5!), 24
    pv.mlsdotup.b a6, (a5!), 1
    sub a5, a5, tp
    {stored("a2 a3 t1 a4 a5 a6")}
    """
    used = dot(WORDS[2], misaligned, 8, False, False)
    # with rd = rs1 the register holds the sum, whose accumulator is the address
    kept = used + WINDOW
    known = dot(WORDS[2], 0x0102_0304, 8, False, False)
    expected = (used, 29, kept, known, fails - WINDOW, 9 + known)
    return Directed("Mac&Load: the other activation, rd = rs1, x0, misaligned, faults", text, expected, _CROSS)


def _first_products() -> Directed:
    """Products without accumulation in every format and sign, whatever rd was and whoever made it."""
    signs = {"up": (False, False), "usp": (False, True), "sup": (True, False), "sp": (True, True)}
    lines, expected = [FILL], list[int]()
    for width, letter in ((16, "h"), (8, "b"), (4, "n"), (2, "c")):
        for name, (weight_signed, activation_signed) in signs.items():
            lines += ["pv.sdotsp.b a0, a0, t1", f"pv.mldot{name}.{letter} a0, (t1!), 7"]
            lines.append(stored("a0", len(expected)))
            expected.append(dot(WORDS[5], WORDS[1], width, weight_signed, activation_signed))
    return Directed("Mac&Load: first products, every format and sign", "\n".join(lines), tuple(expected), _DOT)


def _first_product_neighbours() -> Directed:
    """First products between accumulating ones and loads of the same register, with rd = rs1, and one that fails."""
    fails, _ = FAILING
    text = f"""
    {FILL}
    li a0, 77
    pv.mlsdotsup.b a0, (t1!), 0
    pv.mldotsup.b a0, (t1!), 16
    pv.mlsdotsup.b a0, (t1!), 0
    lw a1, 0(tp)
    pv.mldotsup.b a1, (t1!), 0
    pv.mldotsup.b a2, (t1!), 8
    lw a2, 4(tp)
    addi a3, t1, 0
    pv.mldotsup.b a3, (a3!), 8
    li a4, 5
    li a5, 0x{fails:x}
    pv.mldotsup.b a4, (a5!), 16
    pv.mldotsup.b zero, (t1!), 16
    addi a6, zero, 0
    pv.mldotsup.b a7, (t1!), 0
    sub t1, t1, tp
    {stored("a0 a1 a2 a3 a4 a6 a7 t1")}
    """
    first, second = sup(WORDS[2], WORDS[0], 8), sup(WORDS[6], WORDS[0], 8)
    # 8 reloads entry 0 with words 7 and, through a3, 8; weight 0 with word 8
    third, fourth = sup(WORDS[6], WORDS[7], 8), sup(WORDS[8], WORDS[8], 8)
    expected = (first + second, second, WORDS[1], third, 5, 0, fourth, 36)
    return Directed("Mac&Load: first products and their neighbours", text, expected, _DOT)


def _block() -> Directed:
    """The loop of a 4x2 block with its first turn peeled, interrupted anywhere: no loads but those of the products."""
    rounds = 16
    words = [(0x61C8_8647 * (number + 5)) & WORD_MASK for number in range(8 * rounds + 8)]
    begin = FAILING[0] + FAILING[1]
    text = f"""
    li t1, 0x{begin:x}
    {chr(10).join(f"li t2, 0x{word:x}; sw t2, {4 * at}(t1)" for at, word in enumerate(words))}
    {"; ".join(f"pv.mlsdotup.b zero, (t1!), {selector}" for selector in (8, 16, 18, 20, 22))}
    {_turn("pv.mldotsup.b")}
    lp.setupi 0, {rounds}, 1f
    {_turn("pv.mlsdotsup.b").replace("pv.mlsdotsup.b a5", "1: pv.mlsdotsup.b a5")}
    {stored("a0 a1 a2 a3 a4 a5")}
    """
    entries, at = [words[0], 0, *words[1:5]], 5
    sums = [0] * 6
    for _ in range(rounds + 1):
        for number, selector in enumerate(_TURN):
            sums[number] += sup(entries[2 + selector // 2 % 4], entries[selector % 2], 8)
            if selector >= 24:
                entries[1 - selector % 2] = words[at]
            elif selector >= 16:
                entries[2 + selector // 2 % 4] = words[at]
            at += 1
    return Directed("Mac&Load: a block without loads under interrupts", text, tuple(sums), _BOTH, True)


_TURN = (24, 17, 25, 18, 29, 22)
"""Selectors of one turn."""


def _turn(mnemonic: str) -> str:
    return "\n".join(f"{mnemonic} a{number}, (t1!), {selector}" for number, selector in enumerate(_TURN))


MAC_LOAD_FORMS = (
    _other_entry(),
    _cross_registers(),
    _first_products(),
    _first_product_neighbours(),
    _block(),
)
"""The programs of this module."""
