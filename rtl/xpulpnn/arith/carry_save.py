"""Carry-save addition of many words, and partial products by Booth recoding."""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from amaranth.hdl import Cat, Const, Module, Signal, Value

_DIGIT = 2  # bits of the multiplier per row (radix 4)


def _digits(m: Module, b: Value) -> Iterator[tuple[int, Value, Signal, Signal]]:
    """Yield for each radix-4 Booth digit of ``b`` the bit position, the sign, and signals for magnitudes 1 and 2."""
    for place in range(0, len(b), _DIGIT):
        below = b[place - 1] if place else Const(0, 1)
        low, high = b[place], b[place + 1]
        one = Signal(name=f"one_{place}")
        two = Signal(name=f"two_{place}")
        m.d.comb += [one.eq(low ^ below), two.eq((high ^ low) & ~one)]
        yield place, high, one, two


def booth_rows(m: Module, a: Value, b: Value) -> list[Value]:
    """Return partial products whose sum is ``a * b`` modulo ``2**len(a)``, for factors of equal, even width.

    Modified Booth recoding (O. L. MacSorley, High-speed arithmetic in binary computers, 1961): every two bits of ``b``
    and the bit below them select -2, -1, 0, 1 or 2 times ``a`` as a row. A negative row is inverted; the last row holds
    the missing 1 at the lowest bit of each inverted row.
    """
    width = len(a)
    negative = Signal(width, name="negative")
    rows: list[Value] = []
    for place, high, one, two in _digits(m, b):
        row = Signal(width, name=f"row_{place}")
        length = width - place
        single, double = a[:length], Cat(Const(0, 1), a[: length - 1])
        chosen = (single & one.replicate(length)) | (double & two.replicate(length))
        m.d.comb += [negative[place].eq(high), row.eq((chosen ^ high.replicate(length)) << place)]
        rows.append(row)
    return [*rows, negative]


def product_rows(m: Module, a: Value, b: Value, unsigned_top: Value) -> list[Value]:
    """Return partial products whose sum is the product of signed ``a`` and ``b``, modulo ``2**(2 * len(b))``.

    Booth recoding as in :func:`booth_rows`, which takes ``b`` as signed; with ``unsigned_top``, the top bit of an
    unsigned ``b``, one more row adds ``a * 2**len(b)``. ``len(a)`` is ``len(b) + 1``. Rows are not sign-extended: each
    ends with the inverted sign and a 1, which with one more 1 in the last word stand for all higher bits.
    """
    width, length = len(b), len(a) + 1
    negative = Signal(2 * width, name="negative")
    rows: list[Value] = []
    single, double = Cat(a, a[-1]), Cat(Const(0, 1), a)
    for place, high, one, two in _digits(m, b):
        chosen = Signal(length, name=f"chosen_{place}")
        row = Signal(2 * width, name=f"row_{place}")
        m.d.comb += [
            negative[place].eq(high),
            chosen.eq(((single & one.replicate(length)) | (double & two.replicate(length))) ^ high.replicate(length)),
            row.eq(Cat(Const(0, place), chosen[:-1], ~chosen[-1], Const(1, 1))),
        ]
        rows.append(row)
    m.d.comb += negative[length - 1].eq(1)
    return [*rows, Cat(Const(0, width), a[:width] & unsigned_top.replicate(width)), negative]


Row = tuple[int, Value]
"""A word to add, and the level of the tree at which it arrives; words that are available at once have level 0."""


def carry_save(m: Module, rows: Iterable[Value | Row], width: int, name: str) -> tuple[Row, Row]:
    """Reduce many words to two with the same sum modulo ``2**width``.

    A tree of 3:2 compressors on whole words, each taking the three words that arrive first. The depth is that of a
    Wallace tree for words that arrive together, and late words enter late. Columns of constant zeros cost nothing after
    synthesis.
    """
    leveled = [row if isinstance(row, tuple) else (0, row) for row in rows]
    queue = [(level, order, row) for order, (level, row) in enumerate(leveled)]
    heapify(queue)
    order, number = len(queue), 0
    while len(queue) > len(("sum", "carry")):
        (_, _, x), (_, _, y), (level, _, z) = (heappop(queue) for _ in range(3))
        total = Signal(width, name=f"{name}_sum{number}")
        carry = Signal(width, name=f"{name}_carry{number}")
        m.d.comb += [total.eq(x ^ y ^ z), carry.eq(((x & y) | (z & (x ^ y))) << 1)]
        heappush(queue, (level + 1, order, total))
        heappush(queue, (level + 1, order + 1, carry))
        order, number = order + 2, number + 1
    (first_level, _, first), (second_level, _, second) = sorted(queue)[:2]
    return (first_level, first), (second_level, second)
