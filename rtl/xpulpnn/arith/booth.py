"""Product rows by Booth recoding."""

from amaranth.hdl import Cat, Const, Module, Signal, Value

_DIGIT = 2  # bits of the multiplier per row (radix 4)


def booth_rows(m: Module, a: Value, b: Value) -> list[Value]:
    """Words whose sum is ``a * b`` modulo ``2**len(a)``, for factors of the same, even width.

    Modified Booth recoding (O. L. MacSorley, High-speed arithmetic in binary computers, 1961): every two bits of ``b``
    and the one below them select -2, -1, 0, 1 or 2 times ``a``. A negative row is inverted; its missing 1 at the place
    of the row comes in an extra word after the rows.
    """
    width = len(a)
    negative = Signal(width, name="negative")
    rows: list[Value] = []
    for place in range(0, width, _DIGIT):
        below = b[place - 1] if place else Const(0, 1)
        low, high = b[place], b[place + 1]
        one = Signal(name=f"one_{place}")
        two = Signal(name=f"two_{place}")
        row = Signal(width, name=f"row_{place}")
        length = width - place
        single, double = a[:length], Cat(Const(0, 1), a[: length - 1])
        chosen = (single & one.replicate(length)) | (double & two.replicate(length))
        m.d.comb += [
            one.eq(low ^ below),
            two.eq((high ^ low) & ~one),
            negative[place].eq(high),
            row.eq((chosen ^ high.replicate(length)) << place),
        ]
        rows.append(row)
    return [*rows, negative]
