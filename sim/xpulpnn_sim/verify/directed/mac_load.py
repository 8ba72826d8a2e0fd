"""Directed programs of dot products and Mac&Load: dependences that the pipeline must not show."""

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.verify.directed.case import Directed, stored, words_at
from xpulpnn_sim.verify.layout import FAILING, WINDOW

WORDS = tuple((0x9E3779B9 * (number + 1)) & WORD_MASK for number in range(12))
"""Arbitrary words."""


def _elements(word: int, width: int, *, signed: bool) -> list[int]:
    """The elements of a packed word, the lowest first."""
    values = [word >> at & (1 << width) - 1 for at in range(0, 32, width)]
    return [value - (1 << width) if signed and value >> (width - 1) else value for value in values]


def dot(first: int, second: int, width: int, first_signed: bool, second_signed: bool) -> int:
    """Sum of the products of the elements, not cut to a word."""
    pairs = zip(
        _elements(first, width, signed=first_signed), _elements(second, width, signed=second_signed), strict=True
    )
    return sum(a * b for a, b in pairs)


def sup(weight: int, activation: int, width: int) -> int:
    """Signed weight, unsigned activation."""
    return dot(weight, activation, width, True, False)


_DATA = words_at(WINDOW, WORDS)
_POINT = f"li t1, 0x{WINDOW:x}"
FILL = f"""
{_DATA}
{_POINT}
pv.mlsdotup.b zero, (t1!), 8
pv.mlsdotup.b zero, (t1!), 9
pv.mlsdotup.b zero, (t1!), 16
pv.mlsdotup.b zero, (t1!), 18
pv.mlsdotup.b zero, (t1!), 20
pv.mlsdotup.b zero, (t1!), 22
"""
"""NN[0] to NN[5] are the first six words; t1 points to the seventh."""


def _same_entry() -> Directed:
    """Each instruction multiplies what the one before has loaded into the same entry."""
    weights = (WORDS[2], *WORDS[6:10])
    total = sum(sup(weight, WORDS[0], 8) for weight in weights)
    text = f"""
    {FILL}
    li a0, 0
    pv.mlsdotsup.b a0, (t1!), 16
    pv.mlsdotsup.b a0, (t1!), 16
    pv.mlsdotsup.b a0, (t1!), 16
    pv.mlsdotsup.b a0, (t1!), 16
    pv.mlsdotsup.b a0, (t1!), 0
    mv a1, a0
    sub a2, t1, tp
    {stored("a0 a1 a2")}
    """
    return Directed("Mac&Load: same rd, rs1 and entry back to back", text, (total, total, 40), ("mac_load_nn",))


def _activation_entry() -> Directed:
    """Activations reloaded and used at once, by the other Mac&Load of the pair too."""
    first = sup(WORDS[2], WORDS[0], 4)
    second = sup(WORDS[3], WORDS[6], 4)
    third = sup(WORDS[3], WORDS[7], 4)
    text = f"""
    {FILL}
    li a0, 0
    li a1, 100
    pv.mlsdotsup.n a0, (t1!), 8
    pv.mlsdotsup.n a1, (t1!), 10
    pv.mlsdotsup.n a0, (t1!), 2
    add a2, a0, a1
    {stored("a0 a1 a2")}
    """
    expected = (first + third, second + 100, first + second + third + 100)
    return Directed("Mac&Load: activation reloaded and used at once", text, expected, ("mac_load_nn",))


def _formats() -> Directed:
    """Every format and sign, dependent on the same accumulator."""
    signs: dict[str, tuple[bool, bool]] = {
        "up": (False, False),
        "usp": (False, True),
        "sup": (True, False),
        "sp": (True, True),
    }
    lines, total = [FILL, "li a0, 0"], 0
    for width, letter in ((16, "h"), (8, "b"), (4, "n"), (2, "c")):
        for name, (weight_signed, activation_signed) in signs.items():
            lines.append(f"pv.mlsdot{name}.{letter} a0, (t1!), 7")
            total += dot(WORDS[5], WORDS[1], width, weight_signed, activation_signed)
    lines += ["sub a1, t1, tp", stored("a0 a1")]
    return Directed("Mac&Load: every format and sign, no load", "\n".join(lines), (total, 24), ("mac_load_nn",))


def _registers() -> Directed:
    """rd = rs1, rd = x0, rs1 = x0; the base used by the next instruction; a misaligned address."""
    product = sup(WORDS[2], WORDS[0], 8)
    misaligned = (WORDS[6] >> 16 | WORDS[7] << 16) & WORD_MASK
    text = f"""
    {FILL}
    {words_at(0, (0x01020304,))}
    li t1, 0x{WINDOW + 24:x}
    mv a0, t1
    pv.mlsdotsup.b a0, (a0!), 16
    sub a1, a0, t1
    pv.mlsdotsup.b zero, (zero!), 16
    mv a2, zero
    li a3, 0
    pv.mlsdotup.b a3, (t1!), 0
    addi t1, t1, 2
    pv.mlsdotup.b zero, (t1!), 16
    sub a4, t1, tp
    li a5, 0
    pv.mlsdotup.b a5, (t1!), 0
    {stored("a1 a2 a3 a4 a5")}
    """
    expected = (
        product,
        0,
        dot(0x01020304, WORDS[0], 8, False, False),
        30,
        dot(misaligned, WORDS[0], 8, False, False),
    )
    return Directed("Mac&Load: rd = rs1, x0 and misaligned addresses", text, expected, ("mac_load_nn",))


def _neighbours() -> Directed:
    """Loads, stores, branches and divisions that use a Mac&Load's results in the next instruction."""
    product = sup(WORDS[2], WORDS[0], 8) & WORD_MASK
    text = f"""
    {FILL}
    li a0, 0
    pv.mlsdotsup.b a0, (t1!), 0
    sw a0, 0(s11)
    li a0, 0
    pv.mlsdotsup.b a0, (t1!), 16
    lw a1, 0(t1)
    sw a1, 4(s11)
    pv.mlsdotsup.b zero, (t1!), 16
    p.lw a2, 4(t1!)
    sw a2, 8(s11)
    li a3, 5
    li a4, 0x{WORD_MASK:x}
    lw a5, -4(t1)
    pv.mlsdotsup.b a5, (t1!), 0
    beq a5, a0, 1f
    li a3, 6
    1: sw a3, 12(s11)
    li a6, 1
    pv.mlsdotsup.b a6, (t1!), 0
    divu a6, a6, a6
    sw a6, 16(s11)
    """
    return Directed(
        "Mac&Load: results used by loads, stores, branches and divisions",
        text,
        (product, WORDS[7], WORDS[8], 6, 1),
        ("mac_load_nn",),
    )


def _compute_and_update() -> Directed:
    """The C&U form on one entry, with rs2 = rd and rs2 = rs1."""

    def usp(entry: int, operand: int) -> int:
        return dot(entry, operand, 8, True, False)

    first = usp(WORDS[0], 0x01020304)
    second = first + usp(WORDS[1], first & WORD_MASK)
    third = second + usp(WORDS[2], WINDOW + 12)
    text = f"""
    {_DATA}
    {_POINT}
    li a1, 0x01020304
    li a0, 0
    pv.cusdotusp.b.2 zero, (t1!), a1
    pv.cusdotusp.b.2 a0, (t1!), a1
    pv.cusdotusp.b.2 a0, (t1!), a0
    pv.cusdotusp.b.2 a0, (t1!), t1
    sub a2, t1, tp
    li a3, 7
    pv.cusdotup.c.2 a3, (t1!), zero
    {stored("a0 a2 a3")}
    """
    return Directed("C&U: one entry back to back, rs2 = rd and rs2 = rs1", text, (third, 16, 7), ("mac_load_cu",))


def _in_a_loop() -> Directed:
    """The inner loop of a MatMul, interrupted anywhere: nothing is lost."""
    rounds = 64
    words = [(0x61C88647 * (number + 7)) & WORD_MASK for number in range(rounds + 6)]
    total = sum(sup(words[number + 2], words[0], 8) for number in range(rounds))
    # beyond the words that fail
    begin = FAILING[0] + FAILING[1]
    filling = "\n".join(
        [f"li t1, 0x{begin:x}", *(f"li t2, 0x{word:x}\n sw t2, {4 * at}(t1)" for at, word in enumerate(words))]
    )
    text = f"""
    {filling}
    pv.mlsdotup.b zero, (t1!), 8
    addi t1, t1, 4
    pv.mlsdotup.b zero, (t1!), 16
    li a0, 0
    li t2, {rounds}
    lp.setup 0, t2, 1f
    1: pv.mlsdotsup.b a0, (t1!), 16
    csrrs a1, lpcount0, zero
    sub a2, t1, tp
    {stored("a0 a1 a2")}
    """
    expected = (total, 1, begin - WINDOW + 4 * (rounds + 3))
    return Directed("Mac&Load: loop of one instruction under interrupts", text, expected, ("mac_load_nn",), True)


def _dependent_dot_products() -> Directed:
    """Accumulators and factors produced by the instruction before."""
    first, second = WORDS[0], WORDS[1]
    total = dot(first, second, 8, False, True)
    total = (total + dot(total & WORD_MASK, second, 8, True, True)) & WORD_MASK
    total += dot(first, total, 16, False, False)
    text = f"""
    li a0, 0x{first:x}
    li a1, 0x{second:x}
    pv.dotusp.b a2, a0, a1
    pv.sdotsp.b a2, a2, a1
    pv.sdotup.h a2, a0, a2
    {stored("a2")}
    """
    return Directed("dot products: back to back on one accumulator", text, (total,), ("xpulpv2",))


MAC_LOAD = (
    _same_entry(),
    _activation_entry(),
    _formats(),
    _registers(),
    _neighbours(),
    _compute_and_update(),
    _in_a_loop(),
    _dependent_dot_products(),
)
"""The programs of this module."""
