"""Proofs about the mutants of a unit: equal for all inputs, equal for what occurs in a core, or a counterexample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xpulpnn.config import CoreConfig
from xpulpnn_sim.benches.core_units import FULL
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.proofs.units.mutant_proof import EQUIVALENT as EQUAL
from xpulpnn_sim.proofs.units.mutant_proof import EVERYWHERE, REACHED, Comparison, Judge
from xpulpnn_sim.proofs.units.mutated_gates import MutatedGates
from xpulpnn_sim.proofs.units.situations import OCCURRING
from xpulpnn_sim.tools.abc import find_abc
from xpulpnn_sim.tools.netlists import NetlistModule
from xpulpnn_sim.verification.mutants.units.handshakes import handshakes_of
from xpulpnn_sim.verification.mutants.units.mutants import MutatedUnit

EQUIVALENT, LEGAL, DIFFERENT, UNDECIDED = "equivalent", "legal", "different", "undecided"
"""Outcomes: no difference for any inputs; none for inputs that occur; a counterexample; none of these in time."""

_SHOWN_PORTS = 12

_EVERYTHING = replace(FULL, mac_load_cu=True, requantise=True)
"""Whose control words occur; a core with less has some of them."""

_OCCURS: Mapping[str, tuple[str, CoreConfig]] = {
    "alu": ("alu", FULL),
    "mult": ("mult", _EVERYTHING),
    "mult-inferred": ("mult", _EVERYTHING),
    "div": ("div", FULL),
    "lsu": ("lsu", FULL),
    "requantiser": ("requantiser", _EVERYTHING),
    **{
        f"dotp-{structure}": ("dotp", _EVERYTHING)
        for structure in ("shared", "shared-inferred", "register", "and", "and-inferred", "none-inferred")
    },
}
"""Units about whose inputs something is known: name of what occurs at them, and in which core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Verdict of a proof about a mutant."""

    verdict: str  # see EQUIVALENT
    example: str = ""  # with the verdict `different`: inputs that show it


class Prover:
    """Compares the mutants of a unit with it."""

    def __init__(self, name: str, unit: MutatedUnit, netlist: NetlistModule, timeout_s: float) -> None:
        self._gates = MutatedGates(netlist, [mutant.number for mutant in unit.mutants])
        if name in _OCCURS:
            what, config = _OCCURS[name]
            occurring = OCCURRING[what](config)
        else:
            outputs = [port["name"] for port in unit.design.manifest["ports"] if port["direction"] == "output"]
            occurring = handshakes_of(UNITS[name].bench, unit.inputs, outputs)
        self._judge = Judge(gates=self._gates, abc=find_abc(), timeout_s=timeout_s, occurring=occurring)

    def is_identical(self, number: int) -> bool:
        """Return whether a mutant has the gates of the unit, equal gates being one."""
        return not self._gates.differences(number)

    def prove(self, number: int) -> Proof:
        """Compare a mutant; raises :class:`ToolError` if ABC fails."""
        found = self._judge.compare(number)
        if found.verdict == EQUAL:
            for_all = found.scope == EVERYWHERE or (found.scope == REACHED and not self._judge.assumes)
            return Proof(verdict=EQUIVALENT if for_all else LEGAL)
        return Proof(verdict=found.verdict, example=_shown(found) if found.example else "")


def _shown(found: Comparison) -> str:
    """Words that are not 0 in the last cycle of a counterexample, and a bit that is wrong then."""
    cycles: Sequence[Mapping[str, int]] = found.example
    given = [f"{name}={value:#x}" for name, value in cycles[-1].items() if value]
    more = ["..."] if len(given) > _SHOWN_PORTS else []
    what = " ".join([*given[:_SHOWN_PORTS], *more]) or "all inputs 0"
    return f"cycle {len(cycles)}: {what}: {found.signal} ({found.scope})"
