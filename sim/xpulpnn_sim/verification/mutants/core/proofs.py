"""Proofs about mutants of a core that no program finds.

A mutant of an arithmetic unit or of the load and store unit is compared with that unit alone, for the control words and
operands that instructions give it; what is left, and all other mutants, with the parts of the core around them, and at
last with the whole core.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn_sim.proofs.units import mutant_proof
from xpulpnn_sim.proofs.units.mutant_proof import Answered, Comparison, Judge, Occurring, Situation
from xpulpnn_sim.proofs.units.mutated_gates import Change, MutatedGates, read_mutated
from xpulpnn_sim.proofs.units.situations import OCCURRING
from xpulpnn_sim.tools.abc import find_abc
from xpulpnn_sim.tools.results import Results
from xpulpnn_sim.tools.yosys import Yosys
from xpulpnn_sim.verification.mutants.core.design import BASE, TOP, command_in, write_part
from xpulpnn_sim.verification.mutants.units.mutants import Mutant
from xpulpnn_sim.verification.mutants.units.summary import EQUIVALENT, LEGAL

_UNCHANGED = "unchanged"  # record of the mutants that have the gates of the core

_UNITS = {
    "backend.ex_stage.alu": "alu",
    "backend.ex_stage.mult": "mult",
    "backend.ex_stage.div": "div",
    "backend.ex_stage.dotp": "dotp",
    "backend.lsu": "lsu",
}
"""Units, by their instances, of which it is known what occurs at their ports."""

_RUNNING = Occurring(
    situations=[Situation(values={"rst": {0}})],
    answered=[
        Answered(request=f"{port}__req", grant=f"{port}__gnt", answer=f"{port}__rvalid") for port in ("instr", "data")
    ],
)
"""Surroundings of a core that runs: reset is over, and buses answer what they have granted."""

Proved = tuple[str, str]  # a verdict, and the inputs that show a difference


@dataclass(frozen=True, slots=True)
class Kept:
    """Knowledge about the mutants of one core."""

    results: Results
    key: str

    def find(self, name: object) -> Any | None:
        """Return what is kept with this name."""
        return self.results.find(str(name), self.key)

    def keep(self, name: object, value: Any) -> None:
        """Keep it."""
        self.results.keep(str(name), value, self.key)


class Prover:
    """Compares mutants with the core; what is found is kept as it comes."""

    def __init__(
        self, config: CoreConfig, mutants: Sequence[Mutant], folder: Path, yosys: Yosys, timeout_s: int, kept: Kept
    ) -> None:
        self._kept = kept
        self._config, self._mutants, self._folder = config, mutants, folder
        self._yosys, self._timeout_s = yosys, timeout_s
        self._whole: MutatedGates | None = None

    def unchanged(self) -> frozenset[int]:
        """Mutants whose gates are those of the core, which no program need run on; none without proofs."""
        if not self._timeout_s:
            return frozenset()
        numbers = self._kept.find(_UNCHANGED)
        if numbers is None:
            gates = self._gates()
            numbers = [mutant.number for mutant in self._mutants if not gates.differences(mutant.number)]
            self._kept.keep(_UNCHANGED, numbers)
        return frozenset(numbers)

    def proved(self) -> dict[int, Proved]:
        """Mutants that are known to change nothing, by number; none without proofs."""
        known = self._rows(self._mutants) if self._timeout_s else {}
        return {number: (row["proof"], "") for number, row in known.items() if row["proof"] in (EQUIVALENT, LEGAL)}

    def prove(self, left: Sequence[Mutant], told: Callable[[int, int], None]) -> dict[int, Proved]:
        """Return what is proved, by number."""
        if not self._timeout_s:
            return {}
        found = {
            number: (row["proof"], row["example"])
            for number, row in self._rows(left).items()
            if row["proof_s"] >= self._timeout_s
        }
        waiting = [mutant for mutant in left if mutant.number not in found]

        def keep(mutant: Mutant, proved: Proved) -> None:
            found[mutant.number] = proved
            row = {"proof": proved[0], "example": proved[1], "proof_s": self._timeout_s}
            self._kept.keep(mutant.number, row)
            told(sum(one.number in found for one in left), len(left))

        told(len(left) - len(waiting), len(left))
        occurring = [(place, OCCURRING[unit](self._config)) for place, unit in _UNITS.items()]
        # what changes nothing in a part of the core whatever comes does not in the core; from the inside out
        around = [(place, Occurring()) for place in _parts(waiting)]
        for place, occurs in (*occurring, *around):
            left_here = [mutant for mutant in waiting if mutant.number not in found]
            members = [mutant for mutant in left_here if f"{mutant.module}.".startswith(f"{place}.")]
            if members:
                judge = self._part_judge(place, occurs, members)
                for mutant in members:
                    proved = _proof(judge.compare(mutant.number))
                    if proved[0] in (EQUIVALENT, LEGAL):
                        keep(mutant, proved)
        waiting = [mutant for mutant in waiting if mutant.number not in found]
        if waiting:
            judge = Judge(gates=self._gates(waiting), abc=find_abc(), timeout_s=self._timeout_s, occurring=_RUNNING)
            for mutant in waiting:
                keep(mutant, _proof(judge.compare(mutant.number)))
        return found

    def _rows(self, mutants: Sequence[Mutant]) -> dict[int, dict[str, Any]]:
        return {one.number: row for one in mutants if (row := self._kept.find(one.number))}

    def _part_judge(self, place: str, occurring: Occurring, members: Sequence[Mutant]) -> Judge:
        part = write_part(place, self._folder, self._yosys)
        changes = [Change(number=mutant.number, command=command_in(part, place, mutant)) for mutant in members]
        return Judge(
            gates=read_mutated(self._folder / f"{part}.il", part, changes, self._yosys),
            abc=find_abc(),
            timeout_s=self._timeout_s,
            occurring=occurring,
        )

    def _gates(self, mutants: Sequence[Mutant] | None = None) -> MutatedGates:
        """The core with some mutants, or all."""
        if self._whole is None:
            changes = [Change(number=mutant.number, command=mutant.command) for mutant in mutants or self._mutants]
            self._whole = read_mutated(self._folder / BASE, TOP, changes, self._yosys, ignored=["rvfi_*"])
        return self._whole


def _parts(mutants: Sequence[Mutant]) -> list[str]:
    """Paths of the parts that mutants lie in, those around others behind them, without the whole core."""
    found: set[str] = set()
    for mutant in mutants:
        names = [] if mutant.module == TOP else mutant.module.split(".")
        found.update(".".join(names[:depth]) for depth in range(1, len(names) + 1))
    return sorted(found, key=lambda place: (-place.count("."), place))


def _proof(compared: Comparison) -> Proved:
    """Verdict of a comparison; what is equal only from reset on, or only then, is so for what occurs."""
    if compared.verdict == mutant_proof.EQUIVALENT:
        return EQUIVALENT if compared.scope == mutant_proof.EVERYWHERE else LEGAL, ""
    if compared.scope == mutant_proof.OUTPUTS:
        return mutant_proof.DIFFERENT, json.dumps([*compared.example])
    # a difference in a state that may never be reached says nothing
    return mutant_proof.UNDECIDED, ""
