"""Directed programs of dot products and Mac&Load instructions: results despite dependences in the pipeline."""

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs, scattered, words_at

WORDS = scattered(12, 1, 0x9E37_79B9)
SUFFIXES = [f"{signs}.{fmt}" for fmt in "hbnc" for signs in ("up", "usp", "sup", "sp")]
"""Signs of the factors and formats of Mac&Load, as mnemonics spell them."""
_DATA = f"{words_at(WINDOW, WORDS)}; li t1, 0x{WINDOW:x}"
FILL = f"{_DATA}; " + "; ".join(f"pv.mlsdotup.b zero, (t1!), {entry}" for entry in (8, 9, 16, 18, 20, 22))
"""Instructions that load the first six words into NN[0] to NN[5]; then t1 points to the seventh word."""

_FAILS = FAILING[0]
_BEHIND = sum(FAILING)  # first address behind the words that fail
_LOOP_ROUNDS, _BLOCK_ROUNDS = 64, 16
_OTHERS = ((0, 24), (0, 1), (1, 27), (1, 2), (1, 29), (1, 28), (1, 31))  # registers of sums, and selectors


def _block(mnemonic: str) -> list[str]:
    """Return six Mac&Loads that add to a sum each, and together reload both activations and all weights."""
    return [f"{mnemonic} a{number}, (t1!), {selector}" for number, selector in enumerate((24, 17, 25, 18, 29, 22))]


_FIRST_PASS, (*_OTHER_PASSES, _LAST) = _block("pv.mldotsup.b"), _block("pv.mlsdotsup.b")

PROGRAMS = programs(f"""
== dot products: back to back on one accumulator [xpulpv2]
    # accumulators and factors are produced by the instruction before
    li a0, 0x{WORDS[0]:x}; li a1, 0x{WORDS[1]:x}
    pv.dotusp.b a2, a0, a1; pv.sdotsp.b a2, a2, a1; pv.sdotup.h a2, a0, a2 => a2
== Mac&Load: same rd, rs1 and entry back to back [mac_load_nn]
    {FILL}
    li a0, 0
    {"; ".join(["pv.mlsdotsup.b a0, (t1!), 16"] * 4)}
    pv.mlsdotsup.b a0, (t1!), 0 => a0
    mv a1, a0 => a1
    sub a2, t1, tp => a2 40
== Mac&Load: activation reloaded and used at once [mac_load_nn]
    {FILL}
    li a0, 0; li a1, 100
    pv.mlsdotsup.n a0, (t1!), 8
    pv.mlsdotsup.n a1, (t1!), 10 => a1
    pv.mlsdotsup.n a0, (t1!), 2 => a0
    add a2, a0, a1 => a2
== Mac&Load: every format and sign, no load [mac_load_nn]
    {FILL}
    li a0, 0
    {"; ".join(f"pv.mlsdot{suffix} a0, (t1!), 7" for suffix in SUFFIXES)}
    sub a1, t1, tp => a0, a1 24
== Mac&Load: rd = rs1, x0 and misaligned addresses [mac_load_nn]
    {FILL}
    {words_at(0, (0x01020304,))}
    li t1, 0x{WINDOW + 24:x}
    mv a0, t1; pv.mlsdotsup.b a0, (a0!), 16; sub a1, a0, t1 => a1
    pv.mlsdotsup.b zero, (zero!), 16; mv a2, zero => a2 0
    li a3, 0; pv.mlsdotup.b a3, (t1!), 0 => a3
    addi t1, t1, 2; pv.mlsdotup.b zero, (t1!), 16; sub a4, t1, tp => a4 30
    li a5, 0; pv.mlsdotup.b a5, (t1!), 0 => a5
== Mac&Load: results used by loads, stores, branches and divisions [mac_load_nn]
    {FILL}
    li a0, 0; pv.mlsdotsup.b a0, (t1!), 0 => a0!
    li a0, 0; pv.mlsdotsup.b a0, (t1!), 16; lw a1, 0(t1) => a1! {WORDS[7]}
    pv.mlsdotsup.b zero, (t1!), 16; p.lw a2, 4(t1!) => a2! {WORDS[8]}
    li a3, 5; li a4, 0x{WORD_MASK:x}; lw a5, -4(t1)
    pv.mlsdotsup.b a5, (t1!), 0; beq a5, a0, 1f; li a3, 6
    1: => a3! 6
    li a6, 1; pv.mlsdotsup.b a6, (t1!), 0; divu a6, a6, a6 => a6! 1
== Mac&Load: loop of one instruction under interrupts [mac_load_nn interrupts]
    {words_at(_BEHIND, scattered(_LOOP_ROUNDS + 6, 7))}
    pv.mlsdotup.b zero, (t1!), 8; addi t1, t1, 4; pv.mlsdotup.b zero, (t1!), 16
    li a0, 0; li t2, {_LOOP_ROUNDS}
    lp.setup 0, t2, 1f
    1: pv.mlsdotsup.b a0, (t1!), 16 => a0
    csrrs a1, lpcount0, zero => a1 1
    sub a2, t1, tp => a2 {_BEHIND - WINDOW + 4 * (_LOOP_ROUNDS + 3)}
== C&U: one entry back to back, rs2 = rd and rs2 = rs1 [mac_load_cu]
    {_DATA}
    li a1, 0x01020304; li a0, 0
    pv.cusdotusp.b.2 zero, (t1!), a1; pv.cusdotusp.b.2 a0, (t1!), a1
    pv.cusdotusp.b.2 a0, (t1!), a0; pv.cusdotusp.b.2 a0, (t1!), t1 => a0
    sub a2, t1, tp => a2 16
    li a3, 7; pv.cusdotup.c.2 a3, (t1!), zero => a3 7
== Mac&Load: the other activation reloaded [mac_load_cross]
    {FILL}
    li a0, 0; li a1, 0
    {"; ".join(f"pv.mlsdotsup.b a{total}, (t1!), {selector}" for total, selector in _OTHERS)}
    addi a2, t1, 0; pv.mlsdotsup.b a3, (t1!), 6 => a0, a1
    sub a2, a2, tp => a2 {4 * (6 + sum(selector >= 24 for _, selector in _OTHERS))}
== Mac&Load: the other activation, rd = rs1, x0, misaligned, faults [mac_load_cross]
    # with rd = rs1 the register holds the sum, whose accumulator is the address
    {FILL}
    {words_at(0, (0x0102_0304,))}
    li t1, 0x{WINDOW + 25:x}; li a2, 0
    pv.mlsdotup.b zero, (t1!), 24; pv.mlsdotup.b a2, (t1!), 1 => a2
    sub a3, t1, tp => a3 29
    pv.mlsdotup.b t1, (t1!), 25; sub t1, t1, a3 => t1
    li a4, 0; pv.mlsdotup.b zero, (zero!), 24; pv.mlsdotup.b a4, (zero!), 1 => a4
    li a5, 0x{_FAILS:x}; li a6, 9
    pv.mlsdotup.b a6, (a5!), 24; pv.mlsdotup.b a6, (a5!), 1 => a6
    sub a5, a5, tp => a5 {_FAILS - WINDOW}
== Mac&Load: first products, every format and sign [mac_load_dot]
    # whatever rd was and whoever made it
    {FILL}
    {"".join(f"pv.sdotsp.b a0, a0, t1; pv.mldot{suffix} a0, (t1!), 7 => a0!{chr(10)}" for suffix in SUFFIXES)}
== Mac&Load: first products and their neighbours [mac_load_dot]
    # 8 reloads entry 0 with words 7 and, through a3, 8; weight 0 with word 8
    {FILL}
    li a0, 77; pv.mlsdotsup.b a0, (t1!), 0
    pv.mldotsup.b a0, (t1!), 16; pv.mlsdotsup.b a0, (t1!), 0 => a0
    lw a1, 0(tp); pv.mldotsup.b a1, (t1!), 0 => a1
    pv.mldotsup.b a2, (t1!), 8; lw a2, 4(tp) => a2 {WORDS[1]}
    addi a3, t1, 0; pv.mldotsup.b a3, (a3!), 8 => a3
    li a4, 5; li a5, 0x{_FAILS:x}; pv.mldotsup.b a4, (a5!), 16 => a4 5
    pv.mldotsup.b zero, (t1!), 16; addi a6, zero, 0 => a6 0
    pv.mldotsup.b a7, (t1!), 0 => a7
    sub t1, t1, tp => t1 36
== Mac&Load: a block without loads under interrupts [mac_load_cross mac_load_dot interrupts]
    {words_at(_BEHIND, scattered(8 * _BLOCK_ROUNDS + 8, 5))}
    {"; ".join(f"pv.mlsdotup.b zero, (t1!), {selector}" for selector in (8, 16, 18, 20, 22))}
    {"; ".join(_FIRST_PASS)}
    lp.setupi 0, {_BLOCK_ROUNDS}, 1f
    {"; ".join(_OTHER_PASSES)}
    1: {_LAST} => a0, a1, a2, a3, a4, a5
""")
