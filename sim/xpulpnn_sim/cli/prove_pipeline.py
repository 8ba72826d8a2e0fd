"""``xpulpnn prove pipeline``: what must hold between instructions, on the emitted core with memories of any timing."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import (
    OK,
    Columns,
    finish,
    interruptible,
    matching,
    output,
    progress_bar,
    record_table,
    tell,
)
from xpulpnn_sim.cli.configurations import ProofOptions
from xpulpnn_sim.cli.options import arguments, at_least, command
from xpulpnn_sim.cli.proof_options import (
    cycle_of,
    finding,
    is_found,
    keep_example,
    outcome_record,
    tell_examples,
    workplace,
)
from xpulpnn_sim.proofs.engine.outcomes import PASSED, PROVED, Outcome, retirements
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.pipeline.gates import emit_scene
from xpulpnn_sim.proofs.pipeline.proof import Prover
from xpulpnn_sim.proofs.pipeline.rules import PipelineRule, rules

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
def prove_pipeline_command(options: PipelineOptions) -> int:
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
        from xpulpnn_sim.proofs.faults.core import SEQUENCE_FAULTS

        return _run(options, prover, chosen, [fault for fault in SEQUENCE_FAULTS if fault.check in names])


def _run(
    options: PipelineOptions, prover: Prover, chosen: list[PipelineRule], faults: Sequence[CoreFault | None]
) -> int:
    scene = emit_scene(options.core)
    jobs = [(rule, fault) for fault in faults for rule in chosen if fault is None or rule.name == fault.check]
    found: list[tuple[PipelineRule, CoreFault | None, Outcome]] = []
    with progress_bar("searching", len(jobs)) as bar, interruptible() as stop:
        for rule, fault in bar.each(jobs, lambda job: job[0].name):
            where = prover.folder / "faults" / fault.name.replace(" ", "-") if fault else prover.folder
            met = scene.with_fault(fault) if fault else scene
            depth = rule.depth if fault and options.depth is None else options.depth
            found.append((rule, fault, replace(prover, folder=where).prove(rule, met, depth)))
            keep_example(found[-1][-1], where)
    title = "faults seeded into" if options.self_test else "between instructions of"
    output().print(f"{title} {options.title}, grants and answers at any time")
    columns = {"fault": "{0[1].name}", **_COLUMNS} if any(fault for _, fault, _ in found) else _COLUMNS
    output().print(record_table(columns, found))
    tell(_FOOT)
    tell_examples([outcome for _, fault, outcome in found if fault is None], prover.folder)
    for rule, _, outcome in found:
        if outcome.broken:
            tell(f"{rule.name} is not proved of every cycle: {', '.join(outcome.broken)}")
    good = all(is_found(one) if fault else one.verdict in (PROVED, PASSED) for _, fault, one in found)
    record = {"complete": not stop.interrupted, "properties": [_record(*each) for each in found]}
    return finish(options.json, record, good=good, stop=stop, done=f"{len(found)} of {len(jobs)}")


def _chosen(names: Sequence[str], there: list[PipelineRule]) -> list[PipelineRule]:
    known = [rule.name for rule in there]
    taken = matching(names or known, known, f"PROPERTY must be one of {', '.join(known)}")
    return [rule for rule in there if rule.name in taken]


_COLUMNS: Columns = {
    "property": "{0[0].name}",
    "cycle": lambda each: "any" if each[2].verdict == PROVED else cycle_of(each[2]),
    "seconds": "{0[2].seconds:.1f}",
    "verdict": lambda each: finding(each[2]) if each[1] else each[2].verdict,
}


def _record(rule: PipelineRule, fault: CoreFault | None, outcome: Outcome) -> dict[str, Any]:
    return outcome_record(
        "property",
        outcome,
        limits=rule.limits,
        fault=fault.name if fault else None,
        cycle=outcome.cycle,
        wrong=list(outcome.parts),
        broken=list(outcome.broken),
        retired=retirements(outcome.trace),
    )
