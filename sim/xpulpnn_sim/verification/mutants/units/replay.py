"""Mutants that a bench must find, and those it cannot, by one run of it on the unit itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.runner import ports_of, run_bench
from xpulpnn_sim.tools.netlists import NetlistModule
from xpulpnn_sim.verification.mutants.units.lanes import KILLED, OPEN, SAME, Lanes, read_trace
from xpulpnn_sim.verification.mutants.units.mutants import MutatedUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Knowledge about a mutant."""

    outcome: str  # see KILLED
    test: str = ""


def replay(
    unit: str,
    design: EmittedVerilog,
    mutated: MutatedUnit,
    netlist: NetlistModule,
    folder: Path,
    told: Mapping[str, Any],
    *,
    seed: int,
) -> dict[int, Replayed]:
    """Record the bench on the unit, and run all mutants through the record; by number."""
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    for path in traces.glob("*.npz"):
        path.unlink()
    models = folder.parent / "models"
    run_bench(
        design,
        unit,
        "verilator",
        cache=models,
        results=folder / "record",
        seed=seed,
        data={**told, "traces": str(traces.absolute())},
        module="recorded",
    )
    inputs = [name for name in mutated.inputs if name != "clk"]
    lanes = Lanes(netlist, inputs, ports_of(design, "output"), len(mutated.mutants), models)
    found = {mutant.number: Replayed(outcome=SAME) for mutant in mutated.mutants}
    for path in sorted(traces.glob("*.npz"), key=lambda path: int(path.stem)):
        trace = read_trace(path)
        for number, outcome in enumerate(lanes.judge(trace), 1):
            # a test behind one that the bench itself must run may find it, too: the first one that surely does counts
            if outcome == KILLED and found[number].outcome != KILLED:
                found[number] = Replayed(outcome=KILLED, test=trace.test)
            elif outcome == OPEN and found[number].outcome == SAME:
                found[number] = Replayed(outcome=OPEN)
        path.unlink()
    return found
