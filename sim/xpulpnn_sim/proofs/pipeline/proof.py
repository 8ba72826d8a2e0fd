"""Prove a property of the pipeline by induction over cycles, or search for a counterexample, with ABC."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import xpulpnn_sim.proofs.pipeline
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates, ClockedGraph
from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PASSED, PROVED, UNDECIDED, VACUOUS, Ledger, Outcome
from xpulpnn_sim.proofs.engine.solvers import WITNESS, CycleSearch, find_case, read_witness
from xpulpnn_sim.proofs.pipeline.catalog import PipelineProperty
from xpulpnn_sim.proofs.pipeline.harness_gates import CONSTANT, EmittedHarness, build_gates, script
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import Yosys


class PropertyGraph(ClockedGraph):
    """Core and property from reset; with ``any_but``, from any state in which the registers ``any_but`` are 0."""

    def __init__(self, gates: ClockedGates, checked: PipelineProperty, *, any_but: Sequence[int] | None = None) -> None:
        super().__init__()
        given = {name: self.constants(len(gates.inputs[name])) for name in CONSTANT if name in gates.inputs}
        cycle = self.place(gates, given, gates.initial if any_but is None else dict.fromkeys(any_but, 0))
        self.signals = {name: cycle.port(name) for name in gates.outputs}
        self.wrong = self.any(self.signals[f"wrong_{checked.name}"])
        broken = self.any(self.signals[f"broken_{checked.name}"])
        #: Literal of a violation of the induction hypothesis.
        self.broken = broken if checked.within else self.or_(broken, self.wrong)

    def after_good_cycle(self, literal: int) -> int:
        """Return ``literal`` with 0 in the first cycle, and always 0 if the property is violated in the first cycle."""
        began_well = self.register(0)
        self.follow(began_well, self.mux(self.first, began_well, self.broken ^ 1))
        return self.and_(began_well, literal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prover:
    folder: Path  # with a folder for each property
    yosys: Yosys
    abc: str
    timeout_s: float  # for each search
    resume: bool = False  # if a stored outcome for the same core, property and depth counts

    def prove(self, checked: PipelineProperty, harness: EmittedHarness, depth: int | None = None) -> Outcome:
        """Prove a property for every cycle after reset, or search the cycles up to ``depth`` for a violation.

        If the proof fails, the property's default depth is searched. Raises :class:`ToolError` if a tool fails.
        """
        folder = self.folder / checked.name
        inputs = xpulpnn_sim.proofs.pipeline, script(checked, harness), repr(checked), depth
        key = digest([*harness.emitted.modules.values()], inputs)
        ledger = Ledger(self.folder / "results", self.timeout_s, self.resume)
        if known := ledger.find(checked.name, key):
            return known
        shutil.rmtree(folder, ignore_errors=True)
        gates = build_gates(checked, harness, folder, self.yosys)
        names = harness.description.parts[checked.name], harness.description.invariants[checked.name]
        began = time.monotonic()
        last = checked.depth if depth is None else depth
        deepest, retires = self._retires(checked, gates, folder, last)
        if retires:
            broken = self._induct(checked, gates, names, folder) if depth is None and names[1] else []
            outcome = Outcome(name=checked.name, verdict=PROVED, seconds=time.monotonic() - began)
            if broken is not None:
                outcome = replace(self._search(checked, gates, names[0], folder, last), broken=broken)
        else:
            verdict = VACUOUS if deepest >= last else UNDECIDED
            outcome = Outcome(name=checked.name, verdict=verdict, cycle=deepest, seconds=time.monotonic() - began)
        return ledger.store(outcome, key)

    def _induct(
        self, checked: PipelineProperty, gates: ClockedGates, names: tuple[Sequence[str], Sequence[str]], folder: Path
    ) -> list[str] | None:
        """Return None if base case and induction step hold, else the violated parts of the property and invariants."""
        first, step = PropertyGraph(gates, checked), PropertyGraph(gates, checked, any_but=())
        searches = [("first", first, first.broken, 0), ("step", step, step.after_good_cycle(step.broken), 1)]
        if checked.within:
            within = PropertyGraph(gates, checked, any_but=gates.words[checked.counts])
            searches.append(("within", within, within.after_good_cycle(within.wrong), checked.within))
        for name, graph, literal, depth in searches:
            deepest, trace = self._explore(name, graph, literal, folder, depth)
            if trace:
                kinds = zip(("wrong", "broken"), names, strict=True)
                return [name for kind, each in kinds for name in _ones(each, trace[-1][f"{kind}_{checked.name}"])]
            if deepest < depth:
                return []
        return None

    def _search(
        self, checked: PipelineProperty, gates: ClockedGates, parts: Sequence[str], folder: Path, depth: int
    ) -> Outcome:
        began, graph = time.monotonic(), PropertyGraph(gates, checked)
        deepest, trace = self._explore("wrong", graph, graph.wrong, folder, depth)
        seconds = time.monotonic() - began
        if trace:
            seen, cycle = _ones(parts, trace[-1][f"wrong_{checked.name}"]), len(trace) - 1
            return Outcome(name=checked.name, verdict=FAILED, cycle=cycle, seconds=seconds, parts=seen, trace=trace)
        verdict = PASSED if deepest >= depth else UNDECIDED
        return Outcome(name=checked.name, verdict=verdict, cycle=deepest, seconds=seconds)

    def _retires(self, checked: PipelineProperty, gates: ClockedGates, folder: Path, depth: int) -> tuple[int, bool]:
        graph = PropertyGraph(gates, checked)
        (retires,), (traps,) = (graph.signals[f"rvfi_{name}"] for name in ("valid", "trap"))
        deepest, trace = self._explore("retires", graph, graph.and_(retires, traps ^ 1), folder, depth)
        return deepest, bool(trace)

    def _explore(
        self, name: str, graph: PropertyGraph, literal: int, folder: Path, depth: int
    ) -> tuple[int, Sequence[Mapping[str, int]]]:
        """Search for a cycle in which a literal is 1.

        Returns the last fully searched cycle, and a counterexample, which is empty if there is none.
        """
        if literal == FALSE:
            return depth, ()
        if not any(node << 1 in graph.latches for node in graph.cone([literal])):
            # without registers, all cycles are the same
            case = find_case(self.abc, graph, literal, timeout_s=self.timeout_s)
            return depth, () if case is None else graph.replay([case], graph.signals)
        aiger = graph.aiger([literal])
        (folder / f"{name}.aig").write_bytes(aiger.content)
        read = f"read_aiger {name}.aig; strash; scleanup; dc2; "
        searching = CycleSearch(self.abc, folder, time.monotonic() + self.timeout_s, f"{name}.log")
        failing, deepest = searching.search(read, 0, depth)
        if failing is None and deepest < 0:
            # simplification may have removed all registers, which is no timeout
            failing, deepest = searching.search(f"read_aiger {name}.aig; strash; ", 0, depth)
        if failing is None:
            return deepest, ()
        return deepest, graph.replay(read_witness((folder / WITNESS).read_text(), aiger.inputs), graph.signals)


def _ones(names: Sequence[str], bits: int) -> list[str]:
    return [name for bit, name in enumerate(names) if bits >> bit & 1]
