"""The value of the one that was granted."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Mux, Value, ValueLike


def chosen(wins: Value | Sequence[Value], values: Iterable[ValueLike]) -> Value:
    """Select the one of ``values`` whose bit of ``wins`` is set (at most one is); 0 if none is."""
    return reduce(or_, (Mux(won, value, 0) for won, value in zip(wins, values, strict=True)))
