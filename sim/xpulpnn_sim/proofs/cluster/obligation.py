"""Obligations: what is to be proved of a unit, with all its ports at the outside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.verilog import EmittedVerilog, emit


class Surroundings(wiring.Component):
    """A unit, and outputs about it."""

    def __init__(self, unit, claims, shown):
        self.unit = unit
        super().__init__({"io": Out(unit.signature), **dict.fromkeys(claims, Out(1)), **shown})

    def surround(self, m):
        """Add the unit to a module."""
        m.submodules.unit = self.unit
        ports = zip(self.unit.signature.flatten(self.unit), self.io.signature.flatten(self.io), strict=True)
        for (_, port, inner), (_, _, outer) in ports:
            m.d.comb += inner.eq(outer) if port.flow is In else outer.eq(inner)


TOP = "claims"  # module of the component

PROVED, REFUTED = "proved", "refuted"  # verdicts: holds in every cycle after a reset; does not, as cycles show


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

    def expected(self, claim: str) -> str:
        """Verdict that the proof of a claim must end with."""
        return REFUTED if claim in self.refuted else PROVED

    def emit(self) -> EmittedVerilog:
        """Verilog of component and unit, without initial values: proofs begin with a reset, or anywhere."""
        return emit(self.make(), TOP, config={}, initial=False)
