"""Clock cycles of a unit, and their construction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.publishing.packages.core_checks import CORNERS
from xpulpnn_sim.publishing.packages.design import Port

_CORNERS = (*CORNERS, 0x8888_7777)  # operands that carry, borrow or wrap in some format

_CORNERS_PER_WORD = 1 / 4


@dataclass(frozen=True, slots=True)
class UnitVector:
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
    rows: list[UnitVector] = field(default_factory=list[UnitVector])

    def word(self) -> int:
        """An operand: a corner or a random word."""
        return (
            self.random.choice(_CORNERS) if self.random.random() < _CORNERS_PER_WORD else self.random.getrandbits(XLEN)
        )

    def add(self, inputs: Mapping[str, int], expected: Mapping[str, int], text: str, *, waits: bool = False) -> None:
        """Add a cycle."""
        self.rows.append(UnitVector(dict(inputs), dict(expected), text, waits))

    def control(self, port: str, values: Mapping[str, Any]) -> int:
        """A control word of the fields named; the others are 0."""
        rows = {row["name"]: row for row in self.ports[port].fields}
        word = 0
        for name, value in values.items():
            word |= _number(value) << rows[name]["lsb"]
        return word

    def operation(
        self,
        enables: tuple[str, str],
        inputs: Mapping[str, int],
        expected: Mapping[str, int],
        text: str,
        *,
        varies: bool,
    ) -> None:
        """Add an operation of a unit with a ``done`` output: its cycle, in which both ``enables`` are set; before that
        those until it is done, with the first of them, if their number varies. Without, add its cycle."""
        if "done" not in self.ports:
            self.add(inputs, expected, text)
            return
        expected = {**expected, "done": 1}
        first, second = enables
        if varies:
            self.add({**inputs, first: 1, second: 0}, expected, f"{text}: until it is done", waits=True)
        self.add({**inputs, first: 1, second: 1}, expected, text)


def _number(value: Any) -> int:
    """A field's value as an integer: a number, a truth value or a member of an enumeration."""
    return int(getattr(value, "value", value))
