"""Directed programs of access faults, and of code and data at distant addresses."""

from itertools import permutations

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.bare.layout import FAILING, FAR, FAR_FAILING
from xpulpnn_sim.reference.bare.program import Handlers
from xpulpnn_sim.reference.directed.case import HANDLERS, Directed, directed, programs

_STARTS = tuple(base + offset for base, offset in zip(FAR, (0x554, 0x2A8, 0xA58), strict=True))
"""Addresses to which the routine is copied."""
_FAULTS = tuple(base + offset for (base, _), offset in zip(FAR_FAILING, (0x14, 0x28, 0x3C), strict=True))
"""Addresses with bus errors, from which the copies of the routine load."""

_UPPER = 0x12345
_ROUTINE = f"""auipc a0, 0
    addi a1, zero, 0
    jal t1, 4f; addi a1, a1, 64
    4: c.addi a1, 1
    beq a1, zero, 4b; bne a1, zero, 5f; addi a1, a1, 128
    5: ecall; csrrs a2, mepc, zero
    auipc a6, 0x{_UPPER:x}
    lp.setupi 1, 2, 7f
    lp.setupi 0, 3, 6f
    addi a1, a1, 1
    6: addi a1, a1, 1
    7: addi a1, a1, 1
    csrrs a3, lpstart0, zero; csrrs a4, lpend0, zero
    csrrs s5, lpstart1, zero; csrrs s6, lpend1, zero
    p.lw s9, 4(s7!); csrrs s8, mepc, zero
    sw a1, 0x2f1(a0); lw a5, 0x2f1(a0); p.lhu a7, 1(a0!)
    jalr zero, 0(ra)"""
_RESULTS = ("a0", "t1", "a2", "a6", "a3", "a4", "s5", "s6", "s8", "a5", "a7", "s7")


def _visit(start: int, fault: int) -> str:
    """Emit lines that copy the routine to ``start``, run it there and store its results."""
    return f"""
    li s4, 0x{start:x}; li s7, 0x{fault:x}
    addi a3, s2, 0; addi a4, s4, 0
    3: lw a5, 0(a3); sw a5, 0(a4); addi a3, a3, 4; addi a4, a4, 4
    bltu a3, s3, 3b
    fence.i; jalr ra, 0(s4)
    => {", ".join(f"{name}!" for name in _RESULTS)}
    """


_PIECES = tuple(base + offset for base, offset in zip(FAR, (0xAA8, 0x554, 0x5A4), strict=True))
"""Addresses of the bodies of hardware loops."""


def _shared_end(first: int, second: int) -> str:
    """Emit two nested hardware loops with a common end, whose bodies begin at ``first`` and ``second``."""
    starts = f"li a3, 0x{first:x}; csrrw zero, lpstart0, a3; li a3, 0x{second:x}; csrrw zero, lpstart1, a3"
    return f"{starts}; jal ra, 2f; jal ra, 3f; "


_MOVES = "; ".join(f"pv.mlsdotup.b a1, (a0!), {entry}" for entry in (8, 16))  # two increments of a0 by a word

_FAR_AWAY = programs(f"""
== far away: code, its traps and hardware loops, loads and stores [xpulpv2 interrupts]
    la s2, 1f; la s3, 2f
    {"".join(map(_visit, _STARTS, _FAULTS))}
    jal zero, 2f
    1: {_ROUTINE}
    2: addi a0, zero, 0
== far away: hardware loops that begin elsewhere than they end [xpulpv2]
    # two passes from the first address and one from the second, each time; the end is met four times
    la s2, 1f; lw a0, 0(s2); lw a1, 4(s2)
    {"".join(f"li a2, 0x{piece:x}; sw a0, 0(a2); sw a1, 4(a2); " for piece in _PIECES)}
    fence.i; la a4, 5f; csrrw zero, lpend0, a4; csrrw zero, lpend1, a4
    li a5, 0; li a6, 0
    {"".join(_shared_end(*pair) for pair in permutations(_PIECES, 2))}
    jal zero, 6f
    1: addi a5, a5, 1; jalr zero, 0(t1) => a5 {6 * 6}
    2: la t1, 4f; csrrwi zero, lpcount0, 3; csrrwi zero, lpcount1, 2; jal zero, 5f
    3: la t1, 5f; csrrwi zero, lpcount1, 2; lp.counti 0, 3
    5: addi a6, a6, 1; jalr zero, 0(ra) => a6 {6 * (7 + 4)}
    4: addi a6, a6, 1; jal zero, 5b
    6:
== far away: pointers of Mac&Load [mac_load_nn]
    li a1, 0
    {"".join(f"li a0, 0x{start:x}; {_MOVES} => a0! {start + 2 * WORD_BYTES}{chr(10)}" for start in _PIECES)}
""")

_FIRST, _SIZE = FAILING
_LOAD, _STORE = 5, 7
_VALUE = 0x1234_5678

_AWAY = """
exception:
    csrrs s5, mcause, zero; csrrs s6, mepc, zero; csrrs s7, mstatus, zero
    {loops}
    csrrw zero, mepc, s8; mret
interrupt:
"""
"""An exception handler that saves the state in s5 to s10 and continues at the address in s8."""

_PASSES = 8
_LOOP_STATE = "csrrs s9, lpcount0, zero; csrrs s10, lpend1, zero"


def _after_failing_load(head: str, text: str, loops: str = "") -> Directed:
    """Return a program to check that ``text`` directly after a failing load has no effect."""
    # interrupts were on: MPIE, not MIE, and MPP as always; while the division computes, all is fetched
    return directed(
        f"access faults: {head}",
        f"""
        la s8, 2f; la s4, 1f; csrrw zero, mscratch, zero; li s3, {_PASSES}
        0: csrrsi zero, mstatus, 8; li a0, 0x{_FIRST:x}; li t1, 4; div a3, s4, t1
        1: lw a1, 0(a0)
        {text}
        2: addi s3, s3, -1; bne s3, zero, 0b
        sub s6, s6, s4 => s5 {_LOAD}, s6 0, s7 0x1880{", s9 0, s10 0" if loops else ""}
        csrrs a2, mscratch, zero => a2 0
        csrrci zero, mstatus, 8
        """,
        handlers=Handlers(HANDLERS.slots, exception=_AWAY.replace("    {loops}", f"    {loops}" if loops else "")),
    )


_BEHIND = (
    _after_failing_load("ecall right behind", "ecall"),
    _after_failing_load("illegal word right behind", ".word 0xFFFFFFFF"),
    _after_failing_load("access to an absent CSR right behind", "csrrs a1, 0x5C0, zero"),
    _after_failing_load("mret right behind", "mret"),
    _after_failing_load("wfi right behind", "wfi"),
    _after_failing_load("CSR write right behind", "csrrwi zero, mscratch, 5"),
    _after_failing_load("jump right behind", "jal t1, 3f; 3: csrrwi zero, mscratch, 5"),
    _after_failing_load("taken branch right behind", "beq zero, zero, 3f; 3: csrrwi zero, mscratch, 5"),
    _after_failing_load("mulh right behind", "mulh a0, a0, a0; csrrwi zero, mscratch, 5"),
    _after_failing_load("lp.setupi right behind [xpulpv2]", "lp.setupi 0, 7, 3f; nop; 3: nop", _LOOP_STATE),
    _after_failing_load("lp.count right behind [xpulpv2]", "lp.count 0, t1", _LOOP_STATE),
    _after_failing_load("lp.endi right behind [xpulpv2]", "lp.endi 1, 3f; 3: nop", _LOOP_STATE),
)

_ACCESS_FAULTS = programs(f"""
== access faults: registers, memory, mcause and mepc
    # a store across the border has written its first word when the second one fails
    li a0, 0x{_FIRST:x}; li a1, 0x{_VALUE:x}
    sw a1, -4(a0); sw a1, {_SIZE}(a0)
    1: lw a1, 0(a0); csrrs a2, mcause, zero => a1 {_VALUE}, a2 {_LOAD}
    2: sw a1, 4(a0); csrrs a3, mcause, zero => a3 {_STORE}
    li a4, 1; lw a4, -2(a0); csrrs a5, mcause, zero => a4 1, a5 {_LOAD}
    li a6, 2; lhu a6, {_SIZE - 1}(a0) => a6 2
    sw zero, -2(a0); csrrs a7, mcause, zero; lw s2, -4(a0) => a7 {_STORE}, s2 {_VALUE & 0xFFFF}
    sw zero, {_SIZE - 2}(a0); lw s3, {_SIZE}(a0) => s3 {_VALUE}
== access faults: post-increment [xpulpv2]
    # the fourth but one is no fault: it ends below the words that fail
    li a0, 0x{_FIRST:x}; li a1, 7; li t1, 12
    p.lw a1, 4(a0!); p.sw a1, 4(a0!); p.lw a0, 4(a0!); p.lh a1, t1(a0!); p.sb a1, t1(a0!)
    addi a2, a0, -6; p.lw a1, 4(a2!) => a1 0, a2 {_FIRST - 2}
    addi a3, a0, -2; p.sw a1, 4(a3!) => a3 {_FIRST - 2}
    li a4, 0; p.lw a1, 4(a0!); addi a4, a0, 0 => a0 {_FIRST}, a4 {_FIRST}
== access faults: Mac&Load [mac_load_nn]
    li a0, 0x{_FIRST - 4:x}; li a1, 0x01010101; sw a1, 0(a0)
    pv.mlsdotup.b zero, (a0!), 8
    addi a2, a0, -4; pv.mlsdotup.b zero, (a2!), 16 => a2 {_FIRST}
    li a3, 100; pv.mlsdotup.b a3, (a0!), 8; pv.mlsdotup.b a3, (a0!), 16 => a0 {_FIRST}, a3 100
    addi a4, a3, 0; pv.mlsdotup.b a4, (t1!), 0 => a4 104
== access faults: last instruction of hardware loops [xpulpv2]
    # the handler skips: a body that fails at its end is left, one that fails before goes on
    li a0, 0x{_FIRST:x}; li a1, 0
    lp.setupi 0, 5, 1f
    addi a1, a1, 1
    1: lw a2, 0(a0)
    csrrs a3, lpcount0, zero; lp.counti 0, 0 => a3 5
    lp.setupi 1, 6, 2f
    sw a2, 0(a0)
    2: addi a1, a1, 1
    csrrs a4, lpcount1, zero => a1 {1 + 6}, a4 1
    lp.setupi 0, 4, 3f
    addi a0, a0, -2
    3: addi a0, a0, 0
    addi a0, a0, -4
    li s2, 0x{_FIRST - 2:x}
    lp.setupi 0, 3, 5f
    lw a5, 7(s2)
    5: addi a6, a6, 1
    csrrs a7, lpcount0, zero => a7 1
    li s3, 0
    lp.setupi 0, 9, 6f
    6: lw a5, 2(s2)
    csrrs s4, lpcount0, zero => s4 9
    lp.setupi 0, 4, 7f
    lw a5, 2(s2)
    7: bne zero, zero, 7b
    csrrs s5, lpcount0, zero => s5 1
    # what has left ID behind an aligned access has counted before the fault, and counts again
    li s6, 0; lp.setupi 0, 6, 8f
    lw a5, 2(s2)
    8: addi s6, s6, 1
    csrrs s7, lpcount0, zero => s6 6, s7 1
""")

PROGRAMS = (*_FAR_AWAY, *_ACCESS_FAULTS, *_BEHIND)
