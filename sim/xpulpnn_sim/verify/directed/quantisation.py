"""Directed programs of pv.qnt: dependences, faults in the middle of a search, interrupts."""

from collections.abc import Sequence

from xpulpnn.isa.machine import HALF_BITS, HALF_MASK
from xpulpnn_sim.verify.directed.case import HANDLERS, Directed, stored, words_at
from xpulpnn_sim.verify.layout import FAILING, WINDOW

_NIBBLES, _CRUMBS = 4, 2
_LOAD_FAULT = 5


def _table(width: int, first: int, step: int) -> list[int]:
    """Thresholds of a pixel, the last place unused."""
    return [first + step * number for number in range((1 << width) - 1)] + [0]


def _words(halves: Sequence[int]) -> list[int]:
    return [
        low & HALF_MASK | (high & HALF_MASK) << HALF_BITS for low, high in zip(halves[::2], halves[1::2], strict=True)
    ]


def _code(pixel: int, table: Sequence[int], width: int) -> int:
    """Thresholds below a pixel, less half of the codes."""
    return (sum(threshold < pixel for threshold in table[:-1]) - (1 << (width - 1))) % (1 << width)


def _pixels(low: int, high: int) -> int:
    return low & HALF_MASK | (high & HALF_MASK) << HALF_BITS


_FIRST, _SECOND = _table(_NIBBLES, -700, 100), _table(_NIBBLES, -30000, 4000)
_THIRD, _FOURTH = _table(_CRUMBS, -5, 5), _table(_CRUMBS, -32768, 32767)
_TABLES = words_at(WINDOW, _words([*_FIRST, *_SECOND, *_THIRD, *_FOURTH]))
_NIBBLE_MIDDLE, _CRUMB_MIDDLE = WINDOW + 14, WINDOW + 64 + 2
_PAIRS = ((-701, 30000), (-700, -30000), (-699, -29999), (0, 1), (699, 25999), (700, 26000), (32767, -32768), (1, 2))
_FEW = ((-6, -32768), (-5, -32767), (-4, -1), (0, 0), (1, 32766), (5, 32767), (6, 1), (-32768, 100))


def _nibbles(low: int, high: int) -> int:
    return _code(high, _SECOND, _NIBBLES) << _NIBBLES | _code(low, _FIRST, _NIBBLES)


def _crumbs(low: int, high: int) -> int:
    return _code(high, _FOURTH, _CRUMBS) << _CRUMBS | _code(low, _THIRD, _CRUMBS)


def _codes() -> Directed:
    """Pixels at, below and above thresholds; bit 0 of the address means nothing."""
    lines = [_TABLES, f"li a1, 0x{_NIBBLE_MIDDLE + 1:x}", f"li a2, 0x{_CRUMB_MIDDLE:x}"]
    for mnemonic, base, first, pairs in (("pv.qnt.n", "a1", 0, _PAIRS), ("pv.qnt.c", "a2", len(_PAIRS), _FEW)):
        for number, (low, high) in enumerate(pairs):
            lines += [f"li a0, 0x{_pixels(low, high):x}", f"{mnemonic} a0, a0, ({base})", stored("a0", first + number)]
    expected = (*(_nibbles(*pair) for pair in _PAIRS), *(_crumbs(*pair) for pair in _FEW))
    return Directed("pv.qnt: codes", "\n".join(lines), expected, ("qnt",))


def _dependences() -> Directed:
    """Operands made and loaded right before, results used right behind, thresholds stored right before."""
    low, high = 350, 1000
    plain = _nibbles(low, high)
    text = f"""
    {_TABLES}
    li a1, 0x{_NIBBLE_MIDDLE:x}
    li a0, 0x{_pixels(low, high):x}
    sw a0, 128(t1)
    sw a1, 132(t1)
    lw a2, 128(t1)
    pv.qnt.n a2, a2, (a1)
    addi a3, a2, 1
    lw a4, 132(t1)
    pv.qnt.n a4, a0, (a4)
    pv.qnt.n zero, a0, (a1)
    addi a5, a1, 2
    addi a5, a5, -2
    pv.qnt.n a5, a0, (a5)
    pv.qnt.n a6, a5, (a1)
    li t2, 0x{351:x}
    sh t2, 22(t1)
    pv.qnt.n a7, a0, (a1)
    mulh s2, a0, a0
    pv.qnt.n s3, a0, (a1)
    div s4, a0, a1
    {stored("a2 a3 a4 a5 a6 a7 s3 s4")}
    """
    moved = [*_FIRST]
    moved[11] = 351
    changed = _code(high, _SECOND, _NIBBLES) << _NIBBLES | _code(low, moved, _NIBBLES)
    quotient = _pixels(low, high) // _NIBBLE_MIDDLE
    chained = _nibbles(plain, 0)
    return Directed(
        "pv.qnt: dependences",
        text,
        (plain, plain + 1, plain, plain, chained, changed, changed, quotient),
        ("qnt",),
    )


def _mac_load() -> Directed:
    """A pv.qnt behind a Mac&Load whose base and entry are under way, and before one."""
    text = f"""
    {_TABLES}
    li a0, 0x{_pixels(5, 5):x}
    li a1, 0x{_NIBBLE_MIDDLE - 4 - 2:x}
    li a2, 0x01010101
    sw a2, 8(t1)
    sw a2, 12(t1)
    pv.mlsdotup.b zero, (a1!), 8
    pv.qnt.n a3, a0, (a1)
    pv.mlsdotup.b zero, (a1!), 16
    pv.qnt.c a4, a0, (a1)
    li a5, 0
    pv.mlsdotup.b a5, (a1!), 0
    {stored("a3 a5")}
    """
    # the words at 8 and 12 are thresholds 4 to 7 of pixel 0; the first address is the middle less a half-word
    first = [*_FIRST]
    first[4:8] = [0x0101] * 4
    search = (6, 2, 0, -1)
    place, code = search[0], 0
    for step in (4, 2, 1, 0):
        above = first[place] < 5
        code, place = 2 * code + above, place + (step if above else -step)
    other, second = 0, 6
    for step in (4, 2, 1, 0):
        above = _SECOND[second] < 5
        other, second = 2 * other + above, second + (step if above else -step)
    return Directed("pv.qnt: Mac&Load around it", text, ((other ^ 8) << 4 | code ^ 8, 4), ("qnt", "mac_load_nn"))


def _faults() -> Directed:
    """Searches of either pixel that meet words that fail: rd and what is behind stay, mepc points to it."""
    fails, _ = FAILING
    first = fails - 0x18
    text = f"""
    csrrw zero, mcause, zero
    li a1, 0x{first + 14:x}
    li a2, 0x{first - 32 + 14:x}
    li a3, 7
    li a4, 0x{_pixels(1, -1):x}
    li a5, 0x{_pixels(-1, 1):x}
    1: pv.qnt.n a3, a4, (a1)
    csrrs a6, mcause, zero
    csrrw zero, mcause, zero
    pv.qnt.n a3, a5, (a2)
    csrrs a7, mcause, zero
    pv.qnt.n a7, a5, (a1)
    pv.qnt.n a3, a5, (a1)
    lp.setupi 0, 5, 2f
    nop
    nop
    2: pv.qnt.n a4, a4, (a1)
    csrrs s2, lpcount0, zero
    lp.counti 0, 0
    csrrw zero, mcause, zero
    pv.qnt.n zero, a4, (a1)
    csrrs s3, mcause, zero
    {stored("a3 a6 a7 s2 s3")}
    """
    # thresholds are 0: below 1, not below -1
    below = 0x78
    return Directed("pv.qnt: access faults", text, (below, _LOAD_FAULT, below, 5, _LOAD_FAULT), ("qnt",))


def _interrupted() -> Directed:
    """Interrupts at any point of a loop of searches."""
    text = f"""
    {_TABLES}
    li a1, 0x{_NIBBLE_MIDDLE:x}
    li a2, 0x{_CRUMB_MIDDLE:x}
    li a3, 0
    li a4, 0x{_pixels(350, 1000):x}
    lp.setupi 0, 200, 1f
    pv.qnt.n a5, a4, (a1)
    add a3, a3, a5
    pv.qnt.c a5, a4, (a2)
    1: add a3, a3, a5
    {stored("a3")}
    """
    total = 200 * (_nibbles(350, 1000) + _crumbs(350, 1000))
    return Directed("pv.qnt: interrupts", text, (total,), ("qnt",), interrupts=True, handlers=HANDLERS)


QUANTISATION = (_codes(), _dependences(), _mac_load(), _faults(), _interrupted())
