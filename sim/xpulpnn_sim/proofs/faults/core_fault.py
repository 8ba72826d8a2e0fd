"""Faults of a core by structure: what is assigned to a named signal of a unit is something else."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from xpulpnn.emit.names import snake_case


@dataclass(frozen=True, slots=True)
class CoreFault:
    """A fault of one unit."""

    name: str  # what goes wrong
    unit: type[Any]  # component that has it
    # by the signal: what is assigned instead, of the right value and of the unit's signals, see `seeding.Unit`
    wrong: Mapping[str, Callable[[Any, Any], Any]]
    check: str  # what must find it

    @property
    def module(self) -> str:
        """Name of the emitted module of the unit."""
        return snake_case(self.unit.__name__)

    @contextmanager
    def seeded(self) -> Generator[None]:
        """Give the fault to every unit of this type that is elaborated meanwhile."""
        # Amaranth takes long to import
        from xpulpnn_sim.proofs.faults.seeding import Seeded

        elaborate = self.unit.elaborate
        self.unit.elaborate = lambda unit, platform: Seeded(unit, elaborate(unit, platform), self.wrong)
        try:
            yield
        finally:
            self.unit.elaborate = elaborate
