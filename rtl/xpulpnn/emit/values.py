"""RTLIL values: concatenations of literals and slices of nets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any


@dataclass(frozen=True, slots=True)
class Const:
    bits: str

    @property
    def width(self) -> int:
        return len(self.bits)


@dataclass(frozen=True, slots=True)
class Slice:
    """Bits ``low`` to ``low + width - 1`` of the net ``wire``."""

    wire: str
    low: int
    width: int


Sig = tuple[Const | Slice, ...]  # a value: chunks, most significant first


def sig_width(sig: Sig) -> int:
    return sum(chunk.width for chunk in sig)


def wires_of(*sigs: Sig) -> list[str]:
    return [chunk.wire for sig in sigs for chunk in sig if isinstance(chunk, Slice)]


def bits(sig: Sig, low: int, width: int) -> Sig:
    """Return bits ``low`` to ``low + width - 1`` of a value, fewer if it is narrower."""
    chunks: list[Const | Slice] = []
    for chunk in reversed(sig):
        skip = min(low, chunk.width)
        take = min(width, chunk.width - skip)
        low -= skip
        width -= take
        if not take:
            continue
        if isinstance(chunk, Const):
            end = chunk.width - skip
            chunks.append(Const(chunk.bits[end - take : end]))
        else:
            chunks.append(Slice(chunk.wire, chunk.low + skip, take))
    return tuple(reversed(chunks))


def runs(width: int, kind: Callable[[int], Any]) -> Iterator[tuple[Any, int, int]]:
    """Yield ``kind``, lowest bit and length of each run of adjacent bits that have the same ``kind``."""
    for value, places in groupby(range(width), kind):
        low, *others = places
        yield value, low, 1 + len(others)


def const_bits(sig: Sig) -> str | None:
    """Return the bits of a constant value; None if a net drives part of it."""
    texts = [chunk.bits for chunk in sig if isinstance(chunk, Const)]
    return "".join(texts) if len(texts) == len(sig) else None


def resized(sig: Sig, width: int, signed: bool) -> Sig:
    missing = width - sig_width(sig)
    if missing <= 0:
        return bits(sig, 0, width)
    top = bits(sig, sig_width(sig) - 1, 1)
    return joined((top if signed and top else (Const("0"),)) * missing + sig)


def joined(sig: Sig) -> Sig:
    """Merge adjacent literals, and adjacent slices of one net."""
    chunks: list[Const | Slice] = []
    for chunk in sig:
        last = chunks[-1] if chunks else None
        if isinstance(last, Const) and isinstance(chunk, Const):
            chunks[-1] = Const(last.bits + chunk.bits)
        elif (
            isinstance(last, Slice)
            and isinstance(chunk, Slice)
            and last.wire == chunk.wire
            and last.low == chunk.low + chunk.width
        ):
            chunks[-1] = Slice(chunk.wire, chunk.low, last.width + chunk.width)
        elif chunk.width:
            chunks.append(chunk)
    return tuple(chunks)
