"""Proves a property by induction over cycles, or searches for inputs that make it fail, by ABC."""

import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xpulpnn_sim.proofs.engine.aiger import Aiger, ClockedGraph, Named, at, read_witness
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PASSED, PROVED, UNDECIDED, Ledger, Outcome
from xpulpnn_sim.proofs.engine.solvers import WITNESS, Searched, search_cycles
from xpulpnn_sim.proofs.pipeline.gates import (
    BROKEN,
    INVARIANTS,
    PARTS,
    WRONG,
    SceneGates,
    build_graph,
    latches,
    scene_top_text,
    script,
)
from xpulpnn_sim.proofs.pipeline.rules import PipelineRule
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import Yosys


def from_any_state(graph: Aiger, wrong: int, *, found: int | None = None, zero: Collection[int] = ()) -> Aiger:
    """The same from any state in which nothing is wrong; what is looked for is the last output."""
    made = ClockedGraph()
    inputs = made.inputs(graph.inputs)
    later, began_well = made.latch(0), made.latch(0)
    latches = [made.latch(0) for _ in graph.latches]
    begins = made.inputs(len(latches))
    state = [
        made.mux(later, FALSE if number in zero else begin, latch)
        for number, (latch, begin) in enumerate(zip(latches, begins, strict=True))
    ]
    copied = made.copy(graph, [*inputs, *state])

    for latch, (following, _) in zip(latches, graph.latches, strict=True):
        made.follow(latch, at(copied, following))
    made.follow(later, TRUE)
    made.follow(began_well, made.mux(later, at(copied, wrong) ^ 1, began_well))
    shown = [at(copied, literal) for literal in graph.outputs]
    return made.aiger([*shown, made.and_(began_well, at(copied, wrong if found is None else found))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Prover:
    """Proves and searches with some tools, and keeps what it finds."""

    folder: Path  # gets a folder for each property
    yosys: Yosys  # makes the gates
    abc: str
    timeout_s: float  # seconds for each search
    resume: bool = False  # whether an outcome in the folder counts, if it is about the same core, property and depth

    def prove(self, rule: PipelineRule, scene: SceneGates, depth: int | None = None) -> Outcome:
        """Prove a property of every cycle after reset, or search the cycles up to ``depth``.

        Where there is no proof the cycles up to that of the rule are searched. Raises :class:`ToolError` if a tool
        fails.
        """
        folder = self.folder / rule.name
        key = digest(
            [*scene.emitted.modules.values()], scene_top_text(rule, scene), script(rule, scene), repr(rule), depth
        )
        ledger = Ledger(self.folder / "results", self.timeout_s, self.resume)
        known = ledger.known(rule.name, key)
        if known is not None:
            return known
        shutil.rmtree(folder, ignore_errors=True)
        graph = build_graph(rule, scene, folder, self.yosys)
        names = scene.description.parts[rule.name], scene.description.invariants[rule.name]
        outcome = self._induct(rule, graph, names, folder) if depth is None and names[1] else None
        if outcome is None or outcome.verdict != PROVED:
            found = self._search(rule, graph, names[0], folder, rule.depth if depth is None else depth)
            outcome = replace(found, broken=outcome.broken if outcome else ())
        ledger.keep(outcome, key)
        return outcome

    def _induct(
        self, rule: PipelineRule, graph: Named, names: tuple[Sequence[str], Sequence[str]], folder: Path
    ) -> Outcome:
        """Nothing is wrong in the first cycle, nor in one behind a cycle in which nothing is."""
        began = time.monotonic()
        wrong, part = (graph.graph.outputs[graph.outputs[name][0]] for name in (BROKEN, WRONG))
        searches = [
            ("first", replace(graph.graph, outputs=[*graph.graph.outputs, wrong]), 0),
            ("step", from_any_state(graph.graph, wrong), 1),
        ]
        if rule.within:
            within = from_any_state(graph.graph, wrong, found=part, zero=latches(rule.counts, folder))
            searches.append(("within", within, rule.within))
        for name, searched, depth in searches:
            found, trace = self._explore(name, replace(graph, graph=searched), folder, depth)
            if trace:
                parts, invariants = names
                broken = [*_set(parts, trace[-1].get(PARTS, 0)), *_set(invariants, trace[-1].get(INVARIANTS, 0))]
                return Outcome(name=rule.name, verdict=UNDECIDED, seconds=0, broken=broken)
            if found.deepest < depth:
                return Outcome(name=rule.name, verdict=UNDECIDED, seconds=0)
        return Outcome(name=rule.name, verdict=PROVED, seconds=time.monotonic() - began)

    def _search(self, rule: PipelineRule, graph: Named, parts: Sequence[str], folder: Path, depth: int) -> Outcome:
        """The cycles from reset."""
        began = time.monotonic()
        wrong = graph.graph.outputs[graph.outputs[WRONG][0]]
        searched = replace(graph, graph=replace(graph.graph, outputs=[*graph.graph.outputs, wrong]))
        found, trace = self._explore(WRONG, searched, folder, depth)
        seconds = time.monotonic() - began
        if found.failing is not None:
            seen, cycle = _set(parts, trace[-1][PARTS]), found.failing
            return Outcome(name=rule.name, verdict=FAILED, cycle=cycle, seconds=seconds, parts=seen, trace=trace)
        verdict = PASSED if found.deepest >= depth else UNDECIDED
        return Outcome(name=rule.name, verdict=verdict, cycle=found.deepest, seconds=seconds)

    def _explore(
        self, name: str, searched: Named, folder: Path, depth: int
    ) -> tuple[Searched, Sequence[Mapping[str, int]]]:
        """Search for cycles in which the last output is 1; returns the outputs in each of them, too."""
        graph = searched.graph
        (folder / f"{name}.aig").write_bytes(replace(graph, outputs=graph.outputs[-1:]).binary())
        read = f"read_aiger {name}.aig; strash; scleanup; dc2; "
        found = search_cycles(self.abc, read, folder, last=depth, timeout_s=self.timeout_s, log=f"{name}.log")
        if found.failing is None:
            return found, ()
        return found, searched.replay(read_witness((folder / WITNESS).read_text(), graph.inputs))


def _set(names: Sequence[str], bits: int) -> list[str]:
    return [name for bit, name in enumerate(names) if bits >> bit & 1]
