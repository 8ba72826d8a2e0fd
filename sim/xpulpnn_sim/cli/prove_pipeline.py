"""``xpulpnn prove pipeline``: what must hold between instructions, on the emitted core with memories of any timing."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.command import arguments, command
from xpulpnn_sim.cli.common import (
    OK,
    finish,
    interruptible,
    matching,
    output,
    progress_bar,
    record_table,
    table,
    tell,
)
from xpulpnn_sim.cli.option_groups import ProofOptions
from xpulpnn_sim.cli.proof_options import workplace
from xpulpnn_sim.cli.values import at_least
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.pipeline import proof
from xpulpnn_sim.proofs.pipeline.gates import emit_scene
from xpulpnn_sim.proofs.pipeline.proof import Outcome, Prover
from xpulpnn_sim.proofs.pipeline.rules import Rule, rules
from xpulpnn_sim.proofs.riscv_formal.counterexample import WAVEFORM, retirements, write_waveform

_LEAST_DEPTH = 5
_FAULTS_OF = "xpulpnn2"  # Preset whose core has all units with faults

_FOOT = "cycle: the last after reset that was searched to its end, or the one in which it fails; any: by induction"


@arguments
class PipelineOptions(ProofOptions):
    """Options of the command."""

    rules: Annotated[tuple[str, ...], Parameter(metavar="PROPERTY")] = field(default=(), kw_only=False)
    """Properties by name (default all; --list shows them)."""
    depth: Annotated[int, at_least(_LEAST_DEPTH)] | None = None
    """Search the cycles after reset up to this one, in place of a proof for every cycle."""


@command
def run(options: PipelineOptions) -> int:
    """Print the table; fails if a property fails or time is up, or a fault is not found."""
    config = options.core
    chosen = _chosen(options.rules, rules(config))
    if options.listing:
        output().print(record_table({"property": "{.name}", "says": "{.says}", "limited to": "{.limits}"}, chosen))
        return OK
    if options.self_test and options.preset != _FAULTS_OF:
        raise InputError(f"--preset must be {_FAULTS_OF} with --self-test, not {options.preset}")
    with workplace(options, "sequences") as work:
        prover = Prover(**work._asdict(), timeout_s=options.timeout, resume=not options.fresh)
        names = {rule.name for rule in chosen}
        if not options.self_test:
            return _run(options, prover, chosen, [None])
        # Amaranth takes long to import
        from xpulpnn_sim.proofs.faults.sequencing import SEQUENCE_FAULTS

        return _run(options, prover, chosen, [fault for fault in SEQUENCE_FAULTS if fault.check in names])


def _run(options: PipelineOptions, prover: Prover, chosen: list[Rule], faults: Sequence[CoreFault | None]) -> int:
    scene = emit_scene(options.core)
    jobs = [(rule, fault) for fault in faults for rule in chosen if fault is None or rule.name == fault.check]
    found: list[tuple[Rule, CoreFault | None, Outcome]] = []
    with progress_bar("searching", len(jobs)) as bar, interruptible() as stop:
        for rule, fault in bar.each(jobs, lambda job: job[0].name):
            where = prover.folder / "faults" / fault.name.replace(" ", "-") if fault else prover.folder
            met = scene.with_fault(fault) if fault else scene
            depth = rule.depth if fault and options.depth is None else options.depth
            outcome = replace(prover, folder=where).prove(rule, met, depth)
            found.append((rule, fault, outcome))
            if outcome.trace:
                write_waveform(outcome.trace, where / rule.name / WAVEFORM)
    title = "faults seeded into" if options.self_test else "between instructions of"
    output().print(f"{title} {options.title}, grants and answers at any time")
    output().print(_table(found))
    tell(_FOOT)
    for rule, fault, outcome in found:
        if outcome.trace and fault is None:
            where = prover.folder / rule.name / WAVEFORM
            tell(f"{rule.name} fails: {', '.join(outcome.parts)}; what retires until then ({where}):")
            tell(*retirements(outcome.trace))
    for rule, _, outcome in found:
        if outcome.broken:
            tell(f"{rule.name} is not proved of every cycle: {', '.join(outcome.broken)}")
    good = all(
        outcome.verdict in ((proof.FAILED,) if fault else (proof.PROVED, proof.PASSED)) for _, fault, outcome in found
    )
    record = {"complete": not stop.interrupted, "properties": [_record(*each) for each in found]}
    return finish(options.json, record, good=good, stop=stop, done=f"{len(found)} of {len(jobs)}")


def _chosen(names: Sequence[str], there: list[Rule]) -> list[Rule]:
    known = [rule.name for rule in there]
    taken = matching(names or known, known, f"PROPERTY must be one of {', '.join(known)}")
    return [rule for rule in there if rule.name in taken]


def _table(found: list[tuple[Rule, CoreFault | None, Outcome]]) -> Table:
    faults = any(fault for _, fault, _ in found)
    rows: list[tuple[object, ...]] = []
    for rule, fault, outcome in found:
        verdict = outcome.verdict
        if fault:
            was_found = outcome.verdict == proof.FAILED
            verdict = f"found: {', '.join(outcome.parts)}" if was_found else f"NOT FOUND: {outcome.verdict}"
        cycle = "any" if outcome.verdict == proof.PROVED else outcome.cycle if outcome.cycle >= 0 else "-"
        cells = (rule.name, cycle, f"{outcome.seconds:.1f}", verdict)
        rows.append((fault.name, *cells) if fault else cells)
    headings = ("property", "cycle", "seconds", "verdict")
    return table(("fault", *headings) if faults else headings, rows)


def _record(rule: Rule, fault: CoreFault | None, outcome: Outcome) -> dict[str, Any]:
    return {
        "property": rule.name,
        "limits": rule.limits,
        "fault": fault.name if fault else None,
        "cycle": outcome.cycle,
        "seconds": round(outcome.seconds, 3),
        "verdict": outcome.verdict,
        "wrong": list(outcome.parts),
        "broken": list(outcome.broken),
        "retired": retirements(outcome.trace),
    }
