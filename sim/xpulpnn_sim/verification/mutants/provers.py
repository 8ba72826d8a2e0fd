"""Proofs about mutants that no test finds: equal for all inputs, equal for what occurs in a core, or different.

A mutant of an arithmetic unit or of the load and store unit is compared with that unit alone, for the control words and
operands that instructions give it; what is left, and all other mutants, with the parts of the core around them, and at
last with the whole core.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn_sim.benches.units import FULL, UNITS
from xpulpnn_sim.proofs.units.mutant_proof import (
    EVERYWHERE,
    OUTPUTS,
    REACHED,
    GatePort,
    Held,
    Judge,
    MutantComparison,
    Occurring,
    Situation,
)
from xpulpnn_sim.proofs.units.mutated_gates import MutatedGates, read_mutated
from xpulpnn_sim.proofs.units.situations import OCCURRING
from xpulpnn_sim.tools.results import Results
from xpulpnn_sim.tools.yosys import Yosys, find_abc
from xpulpnn_sim.verification.mutants.campaign import (
    BASE,
    DIFFERENT,
    EQUIVALENT,
    LEGAL,
    UNDECIDED,
    Mutant,
    MutantProver,
    Proof,
)
from xpulpnn_sim.verification.mutants.core_design import TOP, command_in, write_part

_SEEN_WITH: Mapping[str, Sequence[str]] = {
    "req": ("addr", "we", "be", "beats"),
    "rvalid": ("rdata", "err"),
    "arvalid": ("arid", "araddr", "arlen", "arsize", "arburst", "arlock", "arcache", "arprot"),
    "awvalid": ("awid", "awaddr", "awlen", "awsize", "awburst", "awlock", "awcache", "awprot"),
    "wvalid": ("wdata", "wstrb", "wlast"),
}
"""Last parts of the names of ports: what says that there is something, and what goes with it."""

_WRITTEN = ("req", "we", "wdata")
_ASKED = ("addr", "we", "be", "wdata", "beats")
_PAYLOAD = "payload"

_OF_UNITS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "prefetch": {"valid": ("word", "error")},
    "hwloops": {"if_back": ("if_start",), "id_valid": ("hold", "wrong", "id_next")},
    "quantiser": {"request": ("address",), "done": ("result",)},
}
"""The same for benches of units whose ports have names of their own."""


_ALLOWED: Mapping[str, Sequence[Mapping[str, set[int]]]] = {"prefetch": ({"take": {0}}, {"valid": {1}})}
"""Values of ports by benches of units, of which some are there in every cycle."""

_ALONE = ("core_demux", "funnelled")  # benches of units whose initiators have one request outstanding at most


def handshakes_of(bench: str, inputs: Collection[str], outputs: Collection[str]) -> Occurring:
    """When each output is looked at, and which inputs stay or come only after others."""
    pairs = list(_pairs(outputs)) + [
        ({guard: {1}}, tuple(payload)) for guard, payload in _OF_UNITS.get(bench, {}).items()
    ]
    guarded = {name for _, payload in pairs for name in payload}
    always = tuple(name for name in outputs if name not in guarded)
    held = [
        Held(words=tuple(f"{bundle}{part}" for part in _ASKED if f"{bundle}{part}" in inputs), during=name, until=gnt)
        for name in inputs
        for bundle in [name.removesuffix("req")]
        for gnt in [(f"{bundle}gnt",)]
        if name.endswith("__req") and gnt[0] in outputs
    ]
    alone = list(_ports(inputs, outputs)) if bench in _ALONE else []
    allowed = _ALLOWED.get(bench, [{}])
    looks = [({}, always), *pairs] if pairs or bench in _ALLOWED else []
    return Occurring(
        situations=[Situation(values={**some, **values}, outputs=seen) for values, seen in looks for some in allowed],
        held=held,
        answered=list(_ports(outputs, inputs)),
        alone=alone,
    )


def _ports(asking: Collection[str], answering: Collection[str]) -> Iterator[GatePort]:
    """Request, grant and answer of the OBI ports with the request among ``asking``, if an answer is to one request."""
    for name in asking:
        bundle = name.removesuffix("req")
        port = GatePort(name, f"{bundle}gnt", f"{bundle}rvalid")
        several = f"{bundle}beats" in asking
        if name.endswith("__req") and not several and {*port[1:]} <= set(answering):
            yield port


def _pairs(outputs: Collection[str]) -> Iterator[tuple[dict[str, set[int]], tuple[str, ...]]]:
    """Values of ports, and the outputs that they let be looked at."""
    for name in outputs:
        bundle, _, last = name.rpartition("__")
        if bundle and last in _SEEN_WITH:
            payload = tuple(f"{bundle}__{part}" for part in _SEEN_WITH[last] if f"{bundle}__{part}" in outputs)
            if payload:
                yield {name: {1}}, payload
        if bundle and last == _WRITTEN[0] and f"{bundle}__{_WRITTEN[2]}" in outputs:
            yield {f"{bundle}__{part}": {1} for part in _WRITTEN[:2]}, (f"{bundle}__{_WRITTEN[2]}",)
        if bundle and last == "valid":
            payload = tuple(other for other in outputs if other.startswith(f"{bundle}__{_PAYLOAD}__"))
            if payload:
                yield {name: {1}}, payload


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


def occurring_at(name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Occurring:
    """Inputs that occur at a unit with a bench."""
    if name not in _OCCURS:
        return handshakes_of(UNITS[name].bench, inputs, outputs)
    what, config = _OCCURS[name]
    return OCCURRING[what](config)


class UnitProver(MutantProver):
    """Compares the mutants of a unit with it."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        results: Results,
        key: str,
        timeout_s: int,
        gates: MutatedGates,
        occurring: Occurring,
    ) -> None:
        super().__init__(mutants, results, key, timeout_s)
        self._gates = gates
        self._judge = Judge(gates=gates, abc=find_abc(), timeout_s=timeout_s, occurring=occurring)

    def gates(self, mutants: Sequence[Mutant]) -> MutatedGates:
        """The unit with all of its mutants."""
        return self._gates

    def compare(self, waiting: Sequence[Mutant]) -> Iterator[tuple[Mutant, Proof]]:
        """Verdicts as they come."""
        for mutant in waiting:
            found = self._judge.compare(mutant.number)
            verdict = found.verdict
            if verdict == EQUIVALENT and found.scope != EVERYWHERE:
                verdict = LEGAL if self._judge.assumes or found.scope != REACHED else EQUIVALENT
            yield mutant, Proof(verdict=verdict, example=_shown(found) if found.example else "")


def _shown(found: MutantComparison) -> str:
    """Words that are not 0 in the last cycle of a counterexample, and a bit that is wrong then."""
    cycles: Sequence[Mapping[str, int]] = found.example
    given = [f"{name}={value:#x}" for name, value in cycles[-1].items() if value]
    more = ["..."] if len(given) > _SHOWN_PORTS else []
    what = " ".join([*given[:_SHOWN_PORTS], *more]) or "all inputs 0"
    return f"cycle {len(cycles)}: {what}: {found.signal} ({found.scope})"


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
    answered=[GatePort(f"{port}__req", f"{port}__gnt", f"{port}__rvalid") for port in ("instr", "data")],
)
"""Surroundings of a core that runs: reset is over, and buses answer what they have granted."""


class CoreProver(MutantProver):
    """Compares mutants with the core."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        results: Results,
        key: str,
        timeout_s: int,
        config: CoreConfig,
        folder: Path,
        yosys: Yosys,
    ) -> None:
        super().__init__(mutants, results, key, timeout_s)
        self._config, self._folder, self._yosys = config, folder, yosys
        self._whole: MutatedGates | None = None

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
            gates = self.gates([*left.values()])
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

    def gates(self, mutants: Sequence[Mutant]) -> MutatedGates:
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


def _proof(compared: MutantComparison) -> Proof:
    """Verdict of a comparison; what is equal only from reset on, or only then, is so for what occurs."""
    if compared.verdict == EQUIVALENT:
        return Proof(verdict=EQUIVALENT if compared.scope == EVERYWHERE else LEGAL)
    if compared.scope == OUTPUTS:
        return Proof(verdict=DIFFERENT, example=json.dumps([*compared.example]))
    # a difference in a state that may never be reached says nothing
    return Proof(verdict=UNDECIDED)
