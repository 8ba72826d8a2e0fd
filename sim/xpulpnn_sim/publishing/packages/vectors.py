"""Vectors for the testbenches of the units: what goes in, what must come out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.publishing.packages.checks import CORNERS
from xpulpnn_sim.publishing.packages.design import Port
from xpulpnn_sim.reference.statements.machine import sx, zx

_CORNERS = (*CORNERS, 0x8888_7777)  # operands that carry, borrow or wrap in some format

_CORNERS_PER_WORD = 1 / 4


@dataclass(frozen=True, slots=True)
class Vector:
    """A clock cycle of a unit."""

    inputs: Mapping[str, int]  # values of inputs; those not named are 0
    expected: Mapping[str, int]  # what outputs must be at the end of the cycle; those not named do not matter
    text: str
    waits: bool = False  # the cycle repeats until the output `done` is high


@dataclass(slots=True)
class Vectors:
    """Vectors under construction."""

    ports: Mapping[str, Port]
    random: Random
    rows: list[Vector] = field(default_factory=list[Vector])

    def word(self) -> int:
        """An operand: a corner or a random word."""
        return self.random.choice(_CORNERS) if self.random.random() < _CORNERS_PER_WORD else self.random.getrandbits(32)

    def add(self, inputs: Mapping[str, int], expected: Mapping[str, int], text: str, *, waits: bool = False) -> None:
        """Add a cycle."""
        self.rows.append(Vector(dict(inputs), dict(expected), text, waits))

    def control(self, port: str, values: Mapping[str, Any]) -> int:
        """A control word of the fields named; the others are 0."""
        rows = {row["name"]: row for row in self.ports[port].fields}
        word = 0
        for name, value in values.items():
            word |= number(value) << rows[name]["lsb"]
        return word

    def operations(self, start: Mapping[str, int], end: Mapping[str, int], run: Mapping[str, int]) -> "Operations":
        """Operations that take a cycle or wait for ``done``; see :class:`Operations`."""
        return Operations(self, start, end, run)


@dataclass(frozen=True, slots=True)
class Operations:
    """Writes operations of a unit with a ``done`` output."""

    vectors: Vectors
    # inputs while an operation of several cycles runs, and in the cycle in which the result is taken
    running: Mapping[str, int]
    # inputs while an operation of several cycles runs, and in the cycle in which the result is taken
    taken: Mapping[str, int]
    done: Mapping[str, int]  # expected in that cycle beside the result

    def add(self, inputs: Mapping[str, int], expected: Mapping[str, int], text: str, *, cycles_vary: bool) -> None:
        """An operation: its cycle, before that those until it is done if their number varies."""
        expected = {**expected, **self.done}
        if cycles_vary:
            self.vectors.add({**inputs, **self.running}, expected, f"{text}: until it is done", waits=True)
        self.vectors.add({**inputs, **self.taken}, expected, text)


def dot_product(fmt: ElemFmt, a: int, b: int, *, a_signed: bool, b_signed: bool, accumulator: int = 0) -> int:
    """Return the sum of the products of the elements and the accumulator, modulo 2**32."""
    first, second = (sx if a_signed else zx), (sx if b_signed else zx)
    lsbs = range(0, XLEN, fmt.width)
    return accumulator + sum(first(a >> lsb, fmt.width) * second(b >> lsb, fmt.width) for lsb in lsbs) & WORD_MASK


def number(value: Any) -> int:
    """A field's value as an integer: a number, a truth value or a member of an enumeration."""
    return int(getattr(value, "value", value))
