"""What is to be proved of a unit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from amaranth.lib import wiring

from xpulpnn.verilog import EmittedVerilog, emit


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """Claims about a unit, each an output of a component that contains it: 1 in every cycle after a reset.

    Parameters
    ----------
    unit : str
        What is proved.
    make : callable
        Builds the component. It contains the unit as submodule ``unit``.
    claims : mapping
        What each output means.
    registers : mapping
        Inputs of the component that are to show a register of the unit, and the register's name.
    depth : int
        Cycles that a proof by induction looks back.
    refuted : frozenset of str
        Claims that do not hold, and must not.
    """

    unit: str
    make: Callable[[], wiring.Component]
    claims: Mapping[str, str]
    registers: Mapping[str, str] = field(default_factory=dict)
    depth: int = 1
    refuted: frozenset[str] = frozenset()

    def emit(self) -> EmittedVerilog:
        """Verilog of component and unit, without initial values: proofs begin with a reset, or anywhere."""
        return emit(self.make(), "claims", config={}, initial=False)
