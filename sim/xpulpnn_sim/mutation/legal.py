"""What a unit is given in a core: control words of instructions, handshakes that neighbours keep to.

A change that only other inputs show cannot be seen by any program.
"""

from collections.abc import Callable, Mapping, Sequence

from xpulpnn_sim.bench.benched import BenchedUnit
from xpulpnn_sim.mutation.gates import TRUE, Comparison


class Surroundings:
    """A comparison with registers of what the inputs were before.

    Parameters
    ----------
    comparison : Comparison
        Unit and mutant; gets more gates.

    Attributes
    ----------
    inputs, outputs : mapping
        Literals of the ports of the unit.
    registers : list of (int, int)
        Literal and next value of all registers, 0 at reset.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.gates = comparison.gates
        self.inputs: Mapping[str, Sequence[int]] = comparison.inputs
        self.outputs: Mapping[str, Sequence[int]] = comparison.outputs
        self.registers = [(literal, after) for literal, after, _ in comparison.registers]
        self._spare = list(comparison.spare)

    def before(self, following: int) -> int:
        """Value of a literal in the cycle before, 0 in the first one."""
        literal = self._spare.pop()
        self.registers.append((literal, following))
        return literal

    def until_now(self, holds: int) -> int:
        """Whether a literal is 1 in this cycle, and has been in all before it."""
        if not self.registers:
            return holds
        broken = self._spare.pop()
        good = self.gates.and_(broken ^ 1, holds)
        self.registers.append((broken, good ^ 1))
        return good


Assumption = Callable[[Surroundings], int]
"""Makes the literal that is 1 if the inputs of this cycle occur."""


def assumption_of(unit: BenchedUnit) -> Assumption | None:
    """What may be assumed about a unit; None if nothing."""
    told = unit.describe()
    rows = told.get("rows")
    if unit.bench not in _ROWS or not rows:
        return None
    controls = {tuple(sorted(control.items())) for _, _, control in rows}

    def legal(around: Surroundings) -> int:
        return words_of(around, controls)

    return legal


_ROWS = ("dotp", "alu", "multicycle", "requantiser", "lsu")
"""Benches whose units have a control word."""


def words_of(around: Surroundings, controls: set[tuple[tuple[str, int], ...]]) -> int:
    """Whether the control ports have one of some values."""
    gates, inputs = around.gates, around.inputs
    return gates.any_of(
        gates.all_of([TRUE, *(gates.is_number(inputs[port], value) for port, value in control if port in inputs)])
        for control in sorted(controls)
    )
