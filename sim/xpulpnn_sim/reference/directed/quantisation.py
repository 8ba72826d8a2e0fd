"""Directed programs of pv.qnt: dependences, faults in the middle of a search, interrupts."""

from collections.abc import Sequence

from xpulpnn.isa.machine import HALF_BITS, HALF_MASK, ExceptionCause
from xpulpnn_sim.reference.bare.layout import FAILING, WINDOW
from xpulpnn_sim.reference.directed.case import programs, words_at


def _thresholds(width: int, first: int, step: int) -> list[int]:
    """Return evenly spaced thresholds for codes of ``width`` bits, and an unused last entry."""
    return [first + step * number for number in range((1 << width) - 1)] + [0]


def _pixels(low: int, high: int) -> int:
    return low & HALF_MASK | (high & HALF_MASK) << HALF_BITS


_HALVES = [*_thresholds(4, -700, 100), *_thresholds(4, -30000, 4000), *_thresholds(2, -5, 5)]
_HALVES += _thresholds(2, -32768, 32767)
_TABLES = words_at(WINDOW, [_pixels(*pair) for pair in zip(_HALVES[::2], _HALVES[1::2], strict=True)])
_NIBBLE_MIDDLE, _CRUMB_MIDDLE = WINDOW + 14, WINDOW + 64 + 2
_PAIRS = ((-701, 30000), (-700, -30000), (-699, -29999), (0, 1), (699, 25999), (700, 26000), (32767, -32768), (1, 2))
_FEW = ((-6, -32768), (-5, -32767), (-4, -1), (0, 0), (1, 32766), (5, 32767), (6, 1), (-32768, 100))


def _codes(form: str, base: str, pairs: Sequence[tuple[int, int]]) -> str:
    return "".join(f"li a0, 0x{_pixels(*pair):x}; pv.qnt.{form} a0, a0, ({base}) => a0!\n" for pair in pairs)


_LOW_AND_HIGH = _pixels(350, 1000)
_LOAD_FAULT = int(ExceptionCause.LOAD_ACCESS_FAULT)
_BELOW = 0x78
_SEARCHED = FAILING[0] - 0x18

PROGRAMS = programs(f"""
== pv.qnt: codes [qnt]
    # pixels at, below and above thresholds; bit 0 of the address means nothing
    {_TABLES}; li a1, 0x{_NIBBLE_MIDDLE + 1:x}; li a2, 0x{_CRUMB_MIDDLE:x}
    {_codes("n", "a1", _PAIRS)}
    {_codes("c", "a2", _FEW)}
== pv.qnt: dependences [qnt]
    # operands made and loaded right before, results used right behind, thresholds stored right before
    {_TABLES}
    li a1, 0x{_NIBBLE_MIDDLE:x}; li a0, 0x{_LOW_AND_HIGH:x}; sw a0, 128(t1); sw a1, 132(t1)
    lw a2, 128(t1); pv.qnt.n a2, a2, (a1); addi a3, a2, 1 => a2, a3
    lw a4, 132(t1); pv.qnt.n a4, a0, (a4) => a4
    pv.qnt.n zero, a0, (a1)
    addi a5, a1, 2; addi a5, a5, -2; pv.qnt.n a5, a0, (a5) => a5
    pv.qnt.n a6, a5, (a1) => a6
    li t2, 0x{351:x}; sh t2, 22(t1); pv.qnt.n a7, a0, (a1) => a7
    mulh s2, a0, a0; pv.qnt.n s3, a0, (a1) => s3
    div s4, a0, a1 => s4 {_LOW_AND_HIGH // _NIBBLE_MIDDLE}
== pv.qnt: Mac&Load around it [qnt mac_load_nn]
    # its base and entry are pending; the words at 8 and 12 are thresholds 4 to 7 of pixel 0; the first address is the
    # middle minus a half-word
    {_TABLES}
    li a0, 0x{_pixels(5, 5):x}; li a1, 0x{_NIBBLE_MIDDLE - 4 - 2:x}
    li a2, 0x01010101; sw a2, 8(t1); sw a2, 12(t1)
    pv.mlsdotup.b zero, (a1!), 8; pv.qnt.n a3, a0, (a1) => a3
    pv.mlsdotup.b zero, (a1!), 16; pv.qnt.c a4, a0, (a1)
    li a5, 0; pv.mlsdotup.b a5, (a1!), 0 => a5 4
== pv.qnt: access faults [qnt]
    # of either pixel: rd and what is behind stay, mepc points to it; thresholds are 0: below 1, not below -1
    csrrw zero, mcause, zero
    li a1, 0x{_SEARCHED + 14:x}; li a2, 0x{_SEARCHED - 32 + 14:x}
    li a3, 7; li a4, 0x{_pixels(1, -1):x}; li a5, 0x{_pixels(-1, 1):x}
    1: pv.qnt.n a3, a4, (a1); csrrs a6, mcause, zero => a6 {_LOAD_FAULT}
    csrrw zero, mcause, zero; pv.qnt.n a3, a5, (a2); csrrs a7, mcause, zero
    pv.qnt.n a7, a5, (a1) => a7 {_BELOW}
    pv.qnt.n a3, a5, (a1) => a3 {_BELOW}
    lp.setupi 0, 5, 2f
    nop; nop
    2: pv.qnt.n a4, a4, (a1)
    csrrs s2, lpcount0, zero; lp.counti 0, 0 => s2 5
    csrrw zero, mcause, zero; pv.qnt.n zero, a4, (a1); csrrs s3, mcause, zero => s3 {_LOAD_FAULT}
== pv.qnt: interrupts [qnt interrupts]
    {_TABLES}
    li a1, 0x{_NIBBLE_MIDDLE:x}; li a2, 0x{_CRUMB_MIDDLE:x}; li a3, 0; li a4, 0x{_LOW_AND_HIGH:x}
    lp.setupi 0, 200, 1f
    pv.qnt.n a5, a4, (a1); add a3, a3, a5; pv.qnt.c a5, a4, (a2)
    1: add a3, a3, a5 => a3
""")
