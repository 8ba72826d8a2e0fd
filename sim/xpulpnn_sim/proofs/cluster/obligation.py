"""Obligations: what is to be proved of a unit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xpulpnn.verilog import EmittedVerilog, emit


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """Claims about a unit, each an output of a component that contains it: 1 in every cycle after a reset."""

    unit: str
    make: Callable[[], Any]  # builds the component, with the unit as its `unit`
    claims: Mapping[str, str]  # what each output means
    # inputs of the component that are to show a register of the unit, and the register's name
    registers: Mapping[str, str] = field(default_factory=dict)
    depth: int = 1  # cycles that a proof by induction looks back
    refuted: frozenset[str] = frozenset()  # claims that do not hold, and must not

    def emit(self) -> EmittedVerilog:
        """Verilog of component and unit, without initial values: proofs begin with a reset, or anywhere."""
        return emit(self.make(), "claims", config={}, initial=False)
