"""Directed programs of access faults: what the access and the instructions behind it must leave as it was."""

from xpulpnn_sim.verification.directed.case import HANDLERS, Directed, directed
from xpulpnn_sim.verification.random.handlers import Handlers
from xpulpnn_sim.verification.random.layout import FAILING

_FIRST, _SIZE = FAILING
_LOAD, _STORE = 5, 7
_VALUE = 0x1234_5678

_ACCESSES = directed(
    "access faults: registers, memory, mcause and mepc",
    # a store across the border has written its first word when the second one fails
    f"""
    li a0, 0x{_FIRST:x}; li a1, 0x{_VALUE:x}
    sw a1, -4(a0); sw a1, {_SIZE}(a0)
    1: lw a1, 0(a0); csrrs a2, mcause, zero => a1 {_VALUE}, a2 {_LOAD}
    2: sw a1, 4(a0); csrrs a3, mcause, zero => a3 {_STORE}
    li a4, 1; lw a4, -2(a0); csrrs a5, mcause, zero => a4 1, a5 {_LOAD}
    li a6, 2; lhu a6, {_SIZE - 1}(a0) => a6 2
    sw zero, -2(a0); csrrs a7, mcause, zero; lw s2, -4(a0) => a7 {_STORE}, s2 {_VALUE & 0xFFFF}
    sw zero, {_SIZE - 2}(a0); lw s3, {_SIZE}(a0) => s3 {_VALUE}
    """,
)

_POINTERS = directed(
    "access faults: post-increment",
    # the fourth but one is no fault: it ends below the words that fail
    f"""
    li a0, 0x{_FIRST:x}; li a1, 7; li t1, 12
    p.lw a1, 4(a0!); p.sw a1, 4(a0!); p.lw a0, 4(a0!); p.lh a1, t1(a0!); p.sb a1, t1(a0!)
    addi a2, a0, -6; p.lw a1, 4(a2!) => a1 0, a2 {_FIRST - 2}
    addi a3, a0, -2; p.sw a1, 4(a3!) => a3 {_FIRST - 2}
    li a4, 0; p.lw a1, 4(a0!); addi a4, a0, 0 => a0 {_FIRST}, a4 {_FIRST}
    """,
    "xpulpv2",
)

_MAC_LOAD = directed(
    "access faults: Mac&Load",
    f"""
    li a0, 0x{_FIRST - 4:x}; li a1, 0x01010101; sw a1, 0(a0)
    pv.mlsdotup.b zero, (a0!), 8
    addi a2, a0, -4; pv.mlsdotup.b zero, (a2!), 16 => a2 {_FIRST}
    li a3, 100; pv.mlsdotup.b a3, (a0!), 8; pv.mlsdotup.b a3, (a0!), 16 => a0 {_FIRST}, a3 100
    addi a4, a3, 0; pv.mlsdotup.b a4, (t1!), 0 => a4 104
    """,
    "mac_load_nn",
)

_LOOPS = directed(
    "access faults: last instruction of hardware loops",
    # the handler skips: a body that fails at its end is left, one that fails before goes on
    f"""
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
    """,
    "xpulpv2",
)

_AWAY = """
exception:
    csrrs s5, mcause, zero; csrrs s6, mepc, zero; csrrs s7, mstatus, zero
    {loops}
    csrrw zero, mepc, s8; mret
interrupt:
"""
"""Puts the state at the trap into s5 to s10 and goes to s8, wherever the trap was."""

_LOOP_STATE = "csrrs s9, lpcount0, zero; csrrs s10, lpend1, zero"


def _behind(name: str, text: str, loops: str = "", *needs: str) -> Directed:
    """``text`` right behind an access that fails, where it must do nothing."""
    # interrupts were on: MPIE, not MIE, and MPP as always
    return directed(
        f"access faults: {name} right behind",
        f"""
        csrrsi zero, mstatus, 8; la s8, 2f; la s4, 1f
        li a0, 0x{_FIRST:x}; li t1, 4; csrrw zero, mscratch, zero
        1: lw a1, 0(a0)
        {text}
        2: sub s6, s6, s4 => s5 {_LOAD}, s6 0, s7 0x1880{", s9 0, s10 0" if loops else ""}
        csrrs a2, mscratch, zero => a2 0
        csrrci zero, mstatus, 8
        """,
        *needs,
        handlers=Handlers(HANDLERS.slots, exception=_AWAY.replace("    {loops}", f"    {loops}" if loops else "")),
    )


_BEHIND = (
    _behind("ecall", "ecall"),
    _behind("illegal word", ".word 0xFFFFFFFF"),
    _behind("access to an absent CSR", "csrrs a1, 0x5C0, zero"),
    _behind("mret", "mret"),
    _behind("wfi", "wfi"),
    _behind("CSR write", "csrrwi zero, mscratch, 5"),
    _behind("jump", "jal t1, 3f; 3: csrrwi zero, mscratch, 5"),
    _behind("taken branch", "beq zero, zero, 3f; 3: csrrwi zero, mscratch, 5"),
    _behind("mulh", "mulh a0, a0, a0; csrrwi zero, mscratch, 5"),
    _behind("lp.setupi", "lp.setupi 0, 7, 3f; nop; 3: nop", _LOOP_STATE, "xpulpv2"),
    _behind("lp.count", "lp.count 0, t1", _LOOP_STATE, "xpulpv2"),
    _behind("lp.endi", "lp.endi 1, 3f; 3: nop", _LOOP_STATE, "xpulpv2"),
)

ACCESS_FAULTS = (_ACCESSES, _POINTERS, _MAC_LOAD, _LOOPS, *_BEHIND)
