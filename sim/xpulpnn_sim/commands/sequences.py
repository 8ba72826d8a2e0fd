"""``xpulpnn sequences``: what must hold between instructions, on the emitted core with memories of any timing."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    FAILED,
    INTERRUPTED,
    OK,
    add_configuration,
    configuration,
    core_title,
    output,
    progress_bar,
    write_json,
)
from xpulpnn_sim.commands.proof_options import add_proof_options, require_proof_options, workplace
from xpulpnn_sim.faulty.core_fault import CoreFault
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.riscv_formal.counterexample import WAVEFORM, retirements, write_waveform
from xpulpnn_sim.sequencing import proof
from xpulpnn_sim.sequencing.gates import emit_scene
from xpulpnn_sim.sequencing.proof import Outcome, Prover
from xpulpnn_sim.sequencing.rules import Rule, rules

_LEAST_DEPTH = 5
_FAULTS_OF = "xpulpnn2"
"""Preset whose core has all units with faults."""

_FOOT = "cycle: the last after reset that was searched to its end, or the one in which it fails; any: by induction"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "rules", nargs="*", metavar="PROPERTY", help="properties by name (default all; --list shows them)"
    )
    add_configuration(parser)
    parser.add_argument(
        "--depth",
        type=int,
        metavar="N",
        help="search the cycles after reset up to this one, in place of a proof for every cycle",
    )
    add_proof_options(
        parser,
        "sequences",
        each="each",
        seeding=f"put faults, one by one, into the core {_FAULTS_OF}, and see whether the property finds it",
        listing="the properties and what they leave out",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails if a property fails or time is up, or a fault is not found."""
    require_proof_options(arguments, {"depth": _LEAST_DEPTH, "timeout": 1})
    config = configuration(arguments)
    chosen = _chosen(arguments.rules, rules(config))
    if arguments.list:
        output().print(_listing(chosen))
        return OK
    if arguments.faults and arguments.preset != _FAULTS_OF:
        raise InputError(f"--preset must be {_FAULTS_OF} with --faults, not {arguments.preset}")
    with workplace(arguments, "sequences") as work:
        prover = Prover(**work._asdict(), timeout_s=arguments.timeout, resume=arguments.resume)
        names = {rule.name for rule in chosen}
        if not arguments.faults:
            return _run(arguments, prover, chosen, [None])
        # Amaranth takes long to import
        from xpulpnn_sim.faulty.sequencing import SEQUENCE_FAULTS

        return _run(arguments, prover, chosen, [fault for fault in SEQUENCE_FAULTS if fault.check in names])


def _run(arguments: argparse.Namespace, prover: Prover, chosen: list[Rule], faults: Sequence[CoreFault | None]) -> int:
    scene = emit_scene(configuration(arguments))
    jobs = [(rule, fault) for fault in faults for rule in chosen if fault is None or rule.name == fault.check]
    found: list[tuple[Rule, CoreFault | None, Outcome]] = []
    stopped = False
    with progress_bar("searching", len(jobs)) as (progress, task):
        try:
            with single_interrupt():
                for rule, fault in jobs:
                    progress.update(task, description=rule.name)
                    where = prover.folder / "faults" / fault.name.replace(" ", "-") if fault else prover.folder
                    met = scene.with_fault(fault) if fault else scene
                    depth = rule.depth if fault and arguments.depth is None else arguments.depth
                    outcome = replace(prover, folder=where).prove(rule, met, depth)
                    found.append((rule, fault, outcome))
                    if outcome.trace:
                        write_waveform(outcome.trace, where / rule.name / WAVEFORM)
                    progress.advance(task)
        except KeyboardInterrupt:
            stopped = True
    console = output()
    title = "faults seeded into" if arguments.faults else "between instructions of"
    console.print(f"{title} {core_title(arguments)}, grants and answers at any time")
    console.print(_table(found))
    console.print(_FOOT, soft_wrap=True)
    for rule, fault, outcome in found:
        if outcome.trace and fault is None:
            where = prover.folder / rule.name / WAVEFORM
            lines = [f"{rule.name} fails: {', '.join(outcome.parts)}; what retires until then ({where}):"]
            console.print("\n".join([*lines, *retirements(outcome.trace)]), markup=False, soft_wrap=True)
    for rule, _, outcome in found:
        if outcome.broken:
            console.print(f"{rule.name} is not proved of every cycle: {', '.join(outcome.broken)}", soft_wrap=True)
    write_json(arguments.json, {"complete": not stopped, "properties": [_record(*each) for each in found]})
    if stopped:
        console.print(f"INCOMPLETE: interrupted after {len(found)} of {len(jobs)}; --resume goes on")
        return INTERRUPTED
    wanted = [(proof.FAILED,) if fault else (proof.PROVED, proof.PASSED) for _, fault, _ in found]
    good = all(outcome.verdict in verdicts for verdicts, (_, _, outcome) in zip(wanted, found, strict=True))
    return OK if good else FAILED


def _chosen(names: list[str], there: list[Rule]) -> list[Rule]:
    known = {rule.name for rule in there}
    for name in names:
        if name not in known:
            raise InputError(f"PROPERTY must be one of {', '.join(rule.name for rule in there)}, not {name}")
    return [rule for rule in there if rule.name in (names or known)]


def _listing(chosen: list[Rule]) -> Table:
    table = Table(box=None)
    for heading in ("property", "says", "limited to"):
        table.add_column(heading)
    for rule in chosen:
        table.add_row(rule.name, rule.says, rule.limits)
    return table


def _table(found: list[tuple[Rule, CoreFault | None, Outcome]]) -> Table:
    table = Table(box=None)
    faults = any(fault for _, fault, _ in found)
    for heading in (*(("fault",) if faults else ()), "property", "cycle", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading in ("cycle", "seconds") else "left")
    for rule, fault, outcome in found:
        verdict = outcome.verdict
        if fault:
            was_found = outcome.verdict == proof.FAILED
            verdict = f"found: {', '.join(outcome.parts)}" if was_found else f"NOT FOUND: {outcome.verdict}"
        cycle = "any" if outcome.verdict == proof.PROVED else str(outcome.cycle) if outcome.cycle >= 0 else "-"
        cells = (rule.name, cycle, f"{outcome.seconds:.1f}", verdict)
        table.add_row(*((fault.name,) if fault else ()), *cells)
    return table


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
