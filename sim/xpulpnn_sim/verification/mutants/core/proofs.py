"""Proofs about mutants of a core that no program finds.

A mutant of an arithmetic unit or of the load and store unit is compared with that unit alone, for the control words and
operands that instructions give it; what is left, and all other mutants, with the parts of the core around them, and at
last with the whole core.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn_sim.proofs.units.mutant_proof import EVERYWHERE, OUTPUTS, Comparison, Judge, Occurring, Port, Situation
from xpulpnn_sim.proofs.units.mutated_gates import MutatedGates, read_mutated
from xpulpnn_sim.proofs.units.situations import OCCURRING
from xpulpnn_sim.tools.results import Results
from xpulpnn_sim.tools.yosys import Yosys, find_abc
from xpulpnn_sim.verification.mutants.campaign import (
    DIFFERENT,
    EQUIVALENT,
    LEGAL,
    UNDECIDED,
    Mutant,
    Proof,
    Prover,
)
from xpulpnn_sim.verification.mutants.core.design import BASE, TOP, command_in, write_part

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
    answered=[Port(f"{port}__req", f"{port}__gnt", f"{port}__rvalid") for port in ("instr", "data")],
)
"""Surroundings of a core that runs: reset is over, and buses answer what they have granted."""


class CoreProver(Prover):
    """Compares mutants with the core."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        results: Results,
        key: str,
        timeout_s: int,
        *,
        config: CoreConfig,
        folder: Path,
        yosys: Yosys,
    ) -> None:
        super().__init__(mutants, results, key, timeout_s)
        self._config, self._folder, self._yosys = config, folder, yosys
        self._whole: MutatedGates | None = None

    def unchanged(self) -> list[int]:
        """Numbers of the mutants that have the gates of the core."""
        gates = self._gates(self._mutants)
        return [mutant.number for mutant in self._mutants if not gates.differences(mutant.number)]

    def compare(self, waiting: Sequence[Mutant]) -> Iterator[tuple[Mutant, Proof]]:
        """Verdicts as they come."""
        left = {mutant.number: mutant for mutant in waiting}
        occurring = [(place, OCCURRING[unit](self._config)) for place, unit in _UNITS.items()]
        # what changes nothing in a part of the core whatever comes does not in the core; from the inside out
        around = [(place, Occurring()) for place in _parts(waiting)]
        for place, occurs in (*occurring, *around):
            members = [mutant for mutant in left.values() if f"{mutant.module}.".startswith(f"{place}.")]
            if members:
                judge = self._part_judge(place, occurs, members)
                for mutant in members:
                    proof = _proof(judge.compare(mutant.number))
                    if proof.verdict in (EQUIVALENT, LEGAL):
                        yield left.pop(mutant.number), proof
        if left:
            gates = self._gates([*left.values()])
            judge = Judge(gates=gates, abc=find_abc(), timeout_s=self._timeout_s, occurring=_RUNNING)
            for mutant in left.values():
                yield mutant, _proof(judge.compare(mutant.number))

    def _part_judge(self, place: str, occurring: Occurring, members: Sequence[Mutant]) -> Judge:
        part = write_part(place, self._folder, self._yosys)
        changes = {mutant.number: command_in(part, place, mutant) for mutant in members}
        return Judge(
            gates=read_mutated(self._folder / f"{part}.il", part, changes, self._yosys),
            abc=find_abc(),
            timeout_s=self._timeout_s,
            occurring=occurring,
        )

    def _gates(self, mutants: Sequence[Mutant]) -> MutatedGates:
        """The core with some mutants at least."""
        if self._whole is None:
            changes = {mutant.number: mutant.command for mutant in mutants}
            self._whole = read_mutated(self._folder / BASE, TOP, changes, self._yosys, ignored=["rvfi_*"])
        return self._whole


def _parts(mutants: Sequence[Mutant]) -> list[str]:
    """Paths of the parts that mutants lie in, those around others behind them, without the whole core."""
    found: set[str] = set()
    for mutant in mutants:
        names = [] if mutant.module == TOP else mutant.module.split(".")
        found.update(".".join(names[:depth]) for depth in range(1, len(names) + 1))
    return sorted(found, key=lambda place: (-place.count("."), place))


def _proof(compared: Comparison) -> Proof:
    """Verdict of a comparison; what is equal only from reset on, or only then, is so for what occurs."""
    if compared.verdict == EQUIVALENT:
        return Proof(verdict=EQUIVALENT if compared.scope == EVERYWHERE else LEGAL)
    if compared.scope == OUTPUTS:
        return Proof(verdict=DIFFERENT, example=json.dumps([*compared.example]))
    # a difference in a state that may never be reached says nothing
    return Proof(verdict=UNDECIDED)
