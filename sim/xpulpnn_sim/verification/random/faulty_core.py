"""A design with many faults; the hart number of a core, or a word that a cluster stores, selects one of them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.build import build_model
from xpulpnn_sim.cosimulation.model.libraries import TOPS, observed, rig_of
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.proofs.faults.catalog import BRIDGE_FAULTS, COUNTER_FAULTS, PROGRAM_FAULTS
from xpulpnn_sim.proofs.faults.fault import CHOICE, CHOICE_BITS, COSTS, PROGRAMS, Fault
from xpulpnn_sim.tools.components import emit_top
from xpulpnn_sim.verification.random.designs import CORE, MODELS, core_design, cost_run
from xpulpnn_sim.verification.random.program_runs import CoreSource, ProgramSource, run_programs

_LSB = 16  # lowest bit of the hart number that selects a fault, counted from 1; 0 selects none


def faults_of(config: CoreConfig, engine: str = CORE) -> tuple[Fault, ...]:
    """Return the faults that can be put into a design: bridges to a bus, or the core with or without counters."""
    if engine != CORE:
        return BRIDGE_FAULTS[engine]
    if not ((config.xpulpv2 and config.mac_load) or config.performance_counters):
        raise InputError("configuration must have Mac&Load or performance counters")
    faults = COUNTER_FAULTS if config.performance_counters else PROGRAM_FAULTS
    return tuple(fault for fault in faults if fault.fits(config))


def faulty_model(config: CoreConfig | ClusterConfig, faults: Sequence[Fault], engine: str) -> Path:
    with ExitStack() as stack:
        for number, fault in enumerate(faults, start=1):
            stack.enter_context(fault.seeded(number))
        emitted = emit_top(TOPS[engine], observed(config), both_edges=True)
    port, low = ("return_value", 0) if isinstance(config, ClusterConfig) else ("hart_id", _LSB)
    chosen = f"{emitted.manifest['top']}.{port}[{low + CHOICE_BITS - 1}:{low}]"
    text = re.sub(rf"\b({CHOICE}\w*(?:\[\w+\])?) <= ~\1;", rf"\1 <= {chosen};", emitted.text)
    return build_model(replace(rig_of(text, emitted.manifest), both_edges=True))


@dataclass(frozen=True, slots=True)
class FaultDetection:
    fault: Fault
    check: str  # the check that found it; empty if none did
    instructions: int  # retired instructions of random programs until then
    text: str  # what the check says


def find_faults(
    source: CoreSource, faults: Sequence[Fault], instructions: int, seed: int = 0, engine: str = CORE
) -> Iterator[FaultDetection]:
    """For each fault, run random programs, then cost programs, on the faulty core until one detects the fault."""
    config = source.config
    library = faulty_model(config, faults, MODELS[engine])
    for number, fault in enumerate(faults, start=1):
        hart = number << _LSB
        chosen = {**source.chosen, "hart_id": hart}
        faulty = replace(source, chosen=chosen, design=partial(core_design, library=library))
        detection = find_by_programs(fault, faulty, instructions, seed)
        if not detection.check and engine == CORE:
            text = ""
            result, measured = cost_run(config, Machine(hart_id=hart), library)
            wrong = [case.row for case in measured if not case.ok]
            if result.mismatches or not result.exit.ok:
                text = _finding(result.difference or result.exit.text)
            elif wrong:
                text = f"{wrong[0].group}: {wrong[0].name}"
            detection = replace(detection, check=COSTS if text else "", text=text)
        yield detection


def find_by_programs(fault: Fault, source: ProgramSource, instructions: int, seed: int) -> FaultDetection:
    done = 0
    for run in run_programs([enumerate(repeat(source), seed)], instructions):
        done += run.verdict.instructions
        if not run.verdict.ok:
            return FaultDetection(fault, PROGRAMS, done, _finding(run.verdict.text))
    return FaultDetection(fault, "", done, "")


def _finding(report: str) -> str:
    """Return the line of a failure report that says what is wrong."""
    lines = report.splitlines()
    return lines[2].strip() if report.startswith("difference at") and len(lines) > 2 else lines[0]
