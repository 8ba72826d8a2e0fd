"""Directed programs of Mac&Load of two products: sums, NN-RF entries, base registers, faults, interrupts, illegal
words."""

from collections.abc import Iterator

from xpulpnn.isa.machine import REGISTERS
from xpulpnn.isa.table import ALL_WORDS, INSNS
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs, scattered, words_at
from xpulpnn_sim.reference.directed.mac_load import FILL, SUFFIXES, WORDS
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_ENTRIES = (0, 1, 2, 3, 4, 5, 8, 9)
_FAILS, _BEHIND = FAILING[0], sum(FAILING)  # the first word that fails, and the address behind the last
_FILL = f"{FILL}; pv.mlsduoup.b zero, (t1!), 0, 0, 8; pv.mlsduoup.b zero, (t1!), 0, 0, 9"
"""Instructions that load the first eight words into NN[0] to NN[5], NN[8] and NN[9]; then t1 points to the ninth
word."""
_FILL_ALL = "; ".join(f"pv.mlsduosup.b zero, (t1!), 0, 0, {entry}" for entry in _ENTRIES)

_PAIRS = [(ABI_NAMES[number], ABI_NAMES[number + 1]) for number in range(8, REGISTERS, 2) if number != 26]
_JUMPS = "\n".join(
    f"""la {first}, 2f; la {second}, 3f; addi {first}, {first}, -4; addi {second}, {second}, -8
    pv.mlsduosup.b {first}, 0, 1; jalr ra, 0({first}); addi t0, t0, 1
    2: pv.mlsduosup.b {first}, 0, 1; jalr ra, 0({second}); addi t0, t0, 1
    3: addi zero, zero, 0"""
    for first, second in _PAIRS
)
"""Jumps to addresses that Mac&Load of two products has just computed, in each pair of registers. A jump to the address
before the addition of the product would execute an extra instruction, which counts in t0."""

_NARROW = {"h": "b0 b1 n0 n1 n2 n3", "b": "n0 n1 c0 c1 c2 c3", "n": "c0 c1"}
"""Mnemonic suffixes for slices of narrower weights, by the format of the activations."""


def _narrower_weights() -> Iterator[str]:
    """Yield cases with every slice of narrower weights in all formats and signs."""
    names = [f"{suffix}.{part}" for suffix in SUFFIXES for part in _NARROW.get(suffix[-1], "").split()]
    for number, name in enumerate(names):
        weight, pair = number % 4, number // 4 % 2
        loaded = (2 + weight, 8 * pair, 8 * pair + 1)[number // 2 % 3]
        words = [0x9E37_79B9 * (2 * number + turn) + 0x1234_5678 for turn in range(2)]
        yield f"""
        {words_at(WINDOW, words)}; addi t1, tp, 0; li a0, {number}; li a1, -{number}
        pv.mlsduo{name} a0, (t1!), {weight}, {pair}, {loaded}; pv.mlduo{name} a2, {weight}, {pair}
        pv.mlduo{name} a4, (t1!), {weight}, {pair}, {loaded}; pv.mlsduo{name} a2, {weight}, {pair}
        => a0!, a1!, a4!, a5!
        addi zero, zero, 0 => a2!, a3!"""


def _formats() -> Iterator[str]:
    for number, suffix in enumerate(SUFFIXES):
        operands = f"{number % 4}, {number // 4 % 2}"
        yield f"""
        li a0, {number}; li a1, -{number}
        pv.mlsduo{suffix} a0, {operands} => a0!, a1!
        pv.mlduo{suffix} a0, {operands} => a0!, a1!"""


def _every_entry() -> Iterator[str]:
    """Yield Mac&Loads that multiply an NN-RF entry and reload it, each before a product of the new word."""
    for number, entry in enumerate(_ENTRIES):
        weight, pair = (entry - 2, 1) if 2 <= entry <= 5 else (number % 4, entry // 8)
        yield f"""
        li t2, 0x{WORDS[(number + 3) % len(WORDS)] ^ number:x}; sw t2, 0(tp); addi t1, tp, 0
        pv.mlduosup.b a0, (t1!), {weight}, {pair}, {entry}; pv.mlduosup.b a2, {weight}, {pair}
        => a0!, a1!, a2!, a3!"""


_BLOCK_ROUNDS, _LOOP_ROUNDS = 12, 24
_BLOCK_WORDS = 8 * _BLOCK_ROUNDS + 8
_REGISTERS = [f"{kind}{number}" for kind, low in (("a", 0), ("s", 2)) for number in range(low, low + 8)]
*_BLOCK, _BLOCK_END = [
    f"pv.mlsduosup.b {_REGISTERS[2 * slot]}, (t1!), {slot % 4}, {slot // 4}, {entry}"
    for slot, entry in enumerate((5, 8, 9, 0, 1, 2, 3, 4))
]
"""The inner loop of a kernel for four channels and four pixels."""


def _illegal() -> list[int]:
    """Return illegal words close to these Mac&Loads: odd registers, entries not to be loaded, inverted bits."""
    values = {"rd": 10, "rs1": 11, "w": 1, "p": 0, "t": 2}
    chosen = {"pv.mlsduosup.b", "pv.mlduoup.c", "pv.mlsduousp.h.n2", "pv.mlduosp.n.c1"}
    words: set[int] = set()
    for row in (row for row in INSNS if row.mnemonic in chosen):
        word = row.encode(**{token.field.name: values[token.field.name] for token in row.tokens})
        words.update(word & ~(0xF << 21) | upper << 29 | lower << 23 for upper in range(4) for lower in range(4))
        words.update(word ^ 1 << bit for bit in (7, 15, 16, 26, 31))
    return [word for word in sorted(words) if ALL_WORDS.decode(word) is None]


_ILLEGAL = _illegal()
_ONES_AND_FOURS = """
    li t2, 1; sw t2, 64(tp); li t2, 4; sw t2, 68(tp); addi t1, tp, 64; pv.mlsduosup.b zero, (t1!), 0, 0, 2
    pv.mlsduosup.b zero, (t1!), 0, 0, 8; addi t1, tp, 68; pv.mlsduosup.b zero, (t1!), 0, 0, 9"""
"""Instructions after which the products of weight 0 with the second pair of activations are 4."""

PROGRAMS = programs(f"""
== Mac&Load of two products: every format and sign, both pairs [mac_load_pair]
    {_FILL}
    {"".join(_formats())}
== Mac&Load of two products: every slice of narrower weights [mixed_weights]
    {_FILL}
    {"".join(_narrower_weights())}
    # worked out by hand: activations 1, 2, 3, 4 and nibbles 1, 2, 3, 15, 5, 6, 7, 8 (15 and 8: -1 and -8 with a sign)
    {words_at(WINDOW, (0x0403_0201, 0x8765_F321))}
    addi t1, tp, 0; pv.mlduoup.b zero, (t1!), 0, 0, 0; pv.mlduoup.b zero, (t1!), 0, 0, 2
    pv.mlduoup.b.n0 a0, 0, 0 => a0! 74
    pv.mlduoup.b.n1 a0, 0, 0 => a0! 70
    pv.mlduosup.b.n0 a0, 0, 0 => a0! 10
    pv.mlduosup.b.n1 a0, 0, 0 => a0! 6
    # its lowest four crumbs are 1, 0, 2 and 0, where 2 is -2 with a sign
    pv.mlduousp.b.c0 a0, 0, 0 => a0! 7
    pv.mlduosp.b.c0 a0, 0, 0 => a0! -5
== Mac&Load of two products: every entry loaded and used at once [mac_load_pair]
    {_FILL}
    {"".join(_every_entry())}
== Mac&Load of two products: base = rd or the register behind, x0, misaligned addresses [mac_load_pair]
    # where the base is a sum the register holds the sum, whose old value is the address
    {_FILL}
    {words_at(0, (0x0102_0304,))}
    li t1, 0x{WINDOW + 32:x}
    mv a0, t1; li a1, 7; pv.mlsduosup.b a0, (a0!), 0, 0, 5; sub a0, a0, t1 => a0, a1
    mv a3, t1; li a2, 9; pv.mlsduosup.b a2, (a3!), 0, 0, 5; sub a3, a3, t1 => a2, a3
    mv a4, t1; pv.mlduosup.b a4, (a4!), 1, 1, 5; mv a6, a4 => a4, a5, a6
    mv s3, t1; pv.mlduosup.b s2, (s3!), 1, 1, 5; mv a7, s3 => s2, s3, a7
    # x0 drops both sums: ra is not the second
    li ra, 1234; pv.mlsduosup.b zero, (t1!), 0, 0, 5; addi s4, ra, 0 => s4 1234
    pv.mlduosup.b zero, 1, 1; addi s5, zero, 0; addi s6, ra, 0 => s5 0, s6 1234, ra 1234
    sub s7, t1, tp => s7 36
    pv.mlduosup.b s8, (zero!), 0, 0, 5; pv.mlduoup.b s8, 3, 0; mv s10, zero => s8!, s9!, s10 0
    li t1, 0x{WINDOW + 33:x}; pv.mlduoup.b t1, (t1!), 0, 0, 5; pv.mlduoup.b s8, 3, 1 => s8!, s9!
== Mac&Load of two products: access faults [mac_load_pair]
    # sums, base and entry stay; the instruction behind sees the old ones
    {_FILL}
    li a0, 0x{_FAILS:x}; li a2, 5; li a3, 6; csrrw zero, mcause, zero
    pv.mlsduosup.b a2, (a0!), 0, 0, 9; csrrs a4, mcause, zero => a2 5, a3 6, a4 5
    pv.mlduosup.b s2, 1, 1 => s2, s3
    li s4, 3; li s5, 4; pv.mlsduosup.b s4, (a0!), 0, 0, 2; pv.mlsduosup.b s4, 0, 0 => s4, s5
    mv a6, a0; li a7, 8; pv.mlsduosup.b a6, (a6!), 0, 0, 8; sub a6, a6, a0 => a6 0, a7 8
    addi s7, a0, -2; li s6, 8; pv.mlduosup.b s6, (s7!), 0, 0, 8; sub s7, s7, a0 => s6 8, s7 -2
    # sums that are under way when an access behind them fails
    pv.mlduosup.b s8, (t1!), 0, 0, 5; lw s10, 0(a0) => s8, s9
    li t1, 0x{WINDOW + 32:x}; lw a5, 0(a0); pv.mlduosup.b a0, 1, 1 => a0, a1
== Mac&Load of two products: sums made and used right before and behind [mac_load_pair]
    {_FILL}
    lw a0, 0(tp); pv.mlsduosup.b a0, 0, 0 => a0!
    lw a1, 4(tp); pv.mlsduosup.b a0, 0, 0 => a1!
    li a2, 0; li a3, 0; {"; ".join(["pv.mlsduosup.b a2, 0, 0"] * 4)} => a2, a3
    pv.mlduosup.b a0, 1, 1; add a0, a0, a1 => a0!
    pv.mlduosup.b a0, (t1!), 1, 1, 5; sw a1, 64(tp); lw a4, 64(tp) => a4
    li a5, 1; pv.mlduosup.b a0, 1, 1; beq a1, a4, 1f; li a5, 2
    1: => a5! 1
    li a6, 1; pv.mlsduosup.b a0, 0, 0; divu a6, a1, a1 => a6 1
    # the last write of a register stays
    pv.mlduosup.b a0, 0, 0; li a1, 5; li a7, 6 => a1! 5, a0!
    lw a1, 0(tp); pv.mlduosup.b a0, 0, 0 => a1!
    pv.mlduosup.b a0, 0, 0; lw a1, 0(tp) => a1! {WORDS[0]}
    mulh a0, a1, a1; pv.mlduosup.b a0, 0, 0; divu a0, a6, a6 => a0! 1, a1!
    pv.mlduosup.b a0, 0, 0; p.lw a1, 4(t1!); mv a0, a0 => a0!, a1! {WORDS[9]}
    # a pointer that is a second sum
    {_ONES_AND_FOURS}
    li s2, 0; addi s3, tp, -4; pv.mlsduosup.b s2, 0, 1; lw s4, 4(s3) => s4 {WORDS[1]}
== Mac&Load of two products: jumps to either sum, in every pair of registers [mac_load_pair]
    {_ONES_AND_FOURS}
    li t0, 0
    {_JUMPS}
    addi t0, t0, 4 => t0 4
== Mac&Load of two products: the other Mac&Loads around it [mac_load_pair]
    {_FILL}
    pv.mlduosup.b a0, (t1!), 0, 0, 1; li a2, 0; pv.mlsdotsup.b a2, (t1!), 1 => a2
    pv.mlsdotsup.b zero, (t1!), 16; pv.mlduosup.b a4, 0, 0 => a0, a1, a4, a5
    pv.mlduosup.b a6, 0, 0; pv.mlsdotsup.b a7, (t1!), 2 => a6, a7
    sub s2, t1, tp => s2 40
== Mac&Load of two products: a block under interrupts [mac_load_pair interrupts]
    {words_at(_BEHIND, scattered(_BLOCK_WORDS, 11))}
    li t1, 0x{_BEHIND:x}; {_FILL_ALL}
    {"; ".join(f"li {register}, 0" for register in _REGISTERS)}
    lp.setupi 0, {_BLOCK_ROUNDS}, 1f
    {"; ".join(_BLOCK)}
    1: {_BLOCK_END} => {", ".join(_REGISTERS)}
    sub t1, t1, tp => t1 {_BEHIND - WINDOW + 4 * _BLOCK_WORDS}
== Mac&Load of two products: loop of one instruction under interrupts [mac_load_pair interrupts]
    {words_at(_BEHIND, scattered(_LOOP_ROUNDS + 8, 5, 0x9E37_79B9))}
    li t1, 0x{_BEHIND:x}; {_FILL_ALL}
    li a0, 0; li a1, 0
    lp.setupi 0, {_LOOP_ROUNDS}, 1f
    1: pv.mlsduosup.b a0, (t1!), 1, 1, 3 => a0, a1
== Mac&Load of two products: illegal words [mac_load_pair]
    # nothing happens but a trap
    {_FILL}
    li a0, 77; li a1, 0x{WINDOW:x}; li s2, 0; csrrw zero, mcause, zero
    {"; ".join(f".word 0x{word:x}; csrrw a3, mcause, zero; add s2, s2, a3" for word in _ILLEGAL)}
    sub a1, a1, tp => a0 77, a1 0, s2 {2 * len(_ILLEGAL)}
""")
