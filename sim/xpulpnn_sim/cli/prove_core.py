"""``xpulpnn prove pipeline`` and ``riscv-formal``; options, tools and outcomes of all proofs about a core."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import (
    OK,
    Columns,
    Stop,
    finish,
    interruptible,
    matching,
    progress_bar,
    record_table,
    table,
    tell,
)
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import (
    Fresh,
    Jobs,
    Json,
    Timeout,
    Words,
    YosysChoice,
    arguments,
    at_least,
    between,
    command,
)
from xpulpnn_sim.proofs.engine.outcomes import (
    FAILED,
    PASSED,
    PROVED,
    REFUTED,
    WAVEFORM,
    Outcome,
    retirements,
    write_waveform,
)
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.pipeline.catalog import PipelineProperty, pipeline_properties
from xpulpnn_sim.proofs.pipeline.harness_gates import emit_harness
from xpulpnn_sim.proofs.pipeline.proof import Prover
from xpulpnn_sim.proofs.riscv_formal.core_checks import CoreChecks, find_faults
from xpulpnn_sim.proofs.riscv_formal.cutpoints import class_of, emit_cut_design, shown_cuts
from xpulpnn_sim.proofs.riscv_formal.suite import ASSUMPTIONS, DEPTH, VARIABLE, Check, find_suite
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.tools.yosys import Yosys, find_abc, find_yosys


@arguments
class ProofOptions(Configuration, Fresh, Timeout, YosysChoice, Json):
    """Options of all proofs about a core."""

    self_test: bool = False
    """Instead, put faults into the core, one by one, and see whether what must find each does."""
    listing: Annotated[bool, Parameter(name="--list")] = False
    """Show what there is to prove, and go."""
    output: Annotated[Path | None, Parameter(alias="-o", metavar="DIR")] = None
    """Folder for outcomes and examples (default build/NAME/PRESET)."""


class Workplace(NamedTuple):
    """Folder of the outcomes, and the tools that make them."""

    folder: Path
    yosys: Yosys
    abc: str


@contextmanager
def workplace(options: ProofOptions, name: str) -> Generator[Workplace]:
    """The tools, and the folder of the options, which no other run uses meanwhile; raises :class:`ToolError`."""
    abc, yosys = find_abc(), find_yosys(options.yosys)
    folder = options.output or Path("build", name, options.preset)
    require_folder(folder, "--output")
    with folder_lock(folder, "--output"):
        yield Workplace(folder, yosys, abc)


class Found(NamedTuple):
    """An outcome: the property or check that it is of, the fault in the core, if any, and the folder of its example."""

    subject: Any
    fault: Fault | None
    outcome: Outcome
    folder: Path


def _searched(what: str, findings: Iterable[Found], count: int) -> tuple[list[Found], Stop]:
    """The findings until an interrupt, with a bar of ``what``; writes the waveform of each that fails."""
    found: list[Found] = []
    with progress_bar(what, count) as bar, interruptible() as stop:
        for one in bar.each(findings, lambda one: one.outcome.name):
            found.append(one)
            if one.outcome.trace:
                write_waveform(one.outcome.trace, one.folder / one.outcome.name / WAVEFORM)
    return found, stop


def _tell_found(title: str, columns: Columns, found: Sequence[Found], foot: str) -> None:
    """Print the table, and what retires in each counterexample of the core as it is."""
    tell(title)
    tell(record_table(columns, found))
    tell(foot)
    for _, fault, one, folder in found:
        if one.trace and fault is None:
            parts = f": {', '.join(one.parts)}" if one.parts else ""
            where = folder / one.name / WAVEFORM
            tell(f"{one.name} fails{parts}; what retires until then ({where}):", *retirements(one.trace))


def _cycle(found: Found) -> object:
    """The cycle of an outcome as tables show it."""
    return found.outcome.cycle if found.outcome.cycle >= 0 else "-"


def is_found(outcome: Outcome) -> bool:
    """True if the proof of a faulty core fails."""
    return outcome.verdict in (FAILED, REFUTED)


def _verdict(found: Found) -> str:
    """The verdict, on a fault also whether it was found, as tables show it."""
    outcome = found.outcome
    if found.fault is None:
        return outcome.verdict
    parts = f": {', '.join(outcome.parts)}" if outcome.trace and outcome.parts else ""
    return f"found{parts}" if is_found(outcome) else f"NOT FOUND: {outcome.verdict}"


def outcome_record(what: str, outcome: Outcome, **more: object) -> dict[str, Any]:
    """An outcome for machines; ``what`` is its subject."""
    return {what: outcome.name, "verdict": outcome.verdict, "seconds": round(outcome.seconds, 3), **more}


_LEAST_PIPELINE_DEPTH = 5
_FAULTS_OF = ("xpulpnn2", "xpulpnn3")  # presets whose cores have all units with faults

_PIPELINE_FOOT = (
    "cycle: the last after reset that was searched to its end, or the one in which it fails; any: by induction"
)


@arguments
class PipelineOptions(ProofOptions):
    """Options of the command."""

    rules: Annotated[tuple[str, ...], Parameter(metavar="PROPERTY")] = field(default=(), kw_only=False)
    """Properties by name (default all; --list shows them)."""
    depth: Annotated[int, at_least(_LEAST_PIPELINE_DEPTH)] | None = None
    """Search the cycles after reset up to this one, in place of a proof for every cycle."""


@command
def prove_pipeline_command(options: PipelineOptions) -> int:
    """Print the table; fails if a property fails or time is up, or a fault is not found."""
    config = options.core
    known = pipeline_properties(config)
    names = [rule.name for rule in known]
    chosen = matching(options.rules or names, known, f"PROPERTY must be one of {', '.join(names)}")
    if options.listing:
        tell(record_table({"property": "{.name}", "says": "{.statement}", "limited to": "{.limits}"}, chosen))
        return OK
    if options.self_test and options.preset not in _FAULTS_OF:
        raise InputError(f"--preset must be {' or '.join(_FAULTS_OF)} with --self-test, not {options.preset}")
    with workplace(options, "sequences") as work:
        prover = Prover(**work._asdict(), timeout_s=options.timeout, resume=not options.fresh)
        if not options.self_test:
            return _search(options, prover, chosen, [None])
        # Amaranth takes long to import
        from xpulpnn_sim.proofs.faults.core import FACTOR_SEQUENCE_FAULTS, PAIR_SEQUENCE_FAULTS, SEQUENCE_FAULTS
        from xpulpnn_sim.proofs.faults.halts import HALT_FAULTS

        known_faults = (*SEQUENCE_FAULTS, *(PAIR_SEQUENCE_FAULTS if config.mac_load_pair else ()))
        known_faults += FACTOR_SEQUENCE_FAULTS if config.reads_factor and config.requantise_exact else ()
        known_faults += HALT_FAULTS if config.debug else ()
        faults = [fault for fault in known_faults if any(fault.check == rule.name for rule in chosen)]
        return _search(options, prover, chosen, faults)


def _search(
    options: PipelineOptions, prover: Prover, chosen: list[PipelineProperty], faults: Sequence[Fault | None]
) -> int:
    scene = emit_harness(options.core)
    jobs = [(rule, fault) for fault in faults for rule in chosen if fault is None or rule.name == fault.check]

    def proved(rule: PipelineProperty, fault: Fault | None) -> Found:
        where = prover.folder / "faults" / fault.name.replace(" ", "-") if fault else prover.folder
        met = scene.with_fault(fault) if fault else scene
        depth = rule.depth if fault and options.depth is None else options.depth
        return Found(rule, fault, replace(prover, folder=where).prove(rule, met, depth), where)

    found, stop = _searched("searching", starmap(proved, jobs), len(jobs))
    title = "faults seeded into" if options.self_test else "between instructions of"
    columns = {"fault": "{.fault.name}", **_PIPELINE_COLUMNS} if any(one.fault for one in found) else _PIPELINE_COLUMNS
    _tell_found(f"{title} {options.title}, grants and answers at any time", columns, found, _PIPELINE_FOOT)
    for one in found:
        if one.outcome.broken:
            tell(f"{one.subject.name} is not proved of every cycle: {', '.join(one.outcome.broken)}")
    good = all(is_found(one.outcome) if one.fault else one.outcome.verdict in (PROVED, PASSED) for one in found)
    record = {"complete": not stop.interrupted, "properties": list(map(_pipeline_record, found))}
    return finish(options.json, record, good=good, stop=stop, done=f"{len(found)} of {len(jobs)}")


_PIPELINE_COLUMNS: Columns = {
    "property": "{.subject.name}",
    "cycle": lambda found: "any" if found.outcome.verdict == PROVED else _cycle(found),
    "seconds": "{.outcome.seconds:.1f}",
    "verdict": _verdict,
}


def _pipeline_record(found: Found) -> dict[str, Any]:
    rule, fault, outcome, _ = found
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


_MOST_DEPTH = 200
_LEAST_DEPTH = 6  # cycle in which an instruction has certainly been able to retire, and one before it

_FOOT = (
    "cycle: the one after reset in which what retires is checked; without a verdict, the last searched to its end; "
    "cut: what takes any value in the core (--list)"
)


_SUITE = Parameter(
    name="--riscv-formal", help=f"Folder of riscv-formal (default: what {VARIABLE} says).", metavar="DIR"
)


@arguments
class RiscvFormalOptions(ProofOptions, Jobs):
    """Options of the command."""

    suite: Annotated[Path | None, _SUITE] = None
    checks: Words = ("*",)
    """Checks by their names in riscv-formal, such as reg+pc_fwd or insn_c_* (default all that apply)."""
    depth: Annotated[int, between(_LEAST_DEPTH, _MOST_DEPTH)] = DEPTH
    """Clock cycle after reset in which what retires is checked."""
    uncut: bool = False
    """Cut nothing: for a failure that the core itself may not be able to show (slow)."""


@command
def prove_riscv_formal_command(options: RiscvFormalOptions) -> int:
    """Print the table; fails if a check fails or time is up."""
    config = options.core
    suite = find_suite(options.suite)
    known = suite.checks(config, options.depth)
    checks = matching(options.checks, known, "--checks must be names of checks (--list shows them)")
    if options.uncut:
        checks = [replace(check, cutpoints=tuple(cut for cut in check.cutpoints if cut.ties)) for check in checks]
    if options.listing:
        tell(record_table(_LISTED, checks))
        # each name in the column `cut`, with what it stands for
        cuts = [(class_of(cuts), shown_cuts(cuts)) for cuts in dict.fromkeys(check.cutpoints for check in checks)]
        tell(table(("cut", "free in it"), cuts))
        return OK
    with workplace(options, "formal") as work:
        campaign = CoreChecks(
            suite=suite,
            config=config,
            design=emit_cut_design(config, suite.masks),
            folder=work.folder,
            yosys=work.yosys,
            abc=work.abc,
            timeout_s=options.timeout,
        )
        return _find_faults(options, campaign, checks) if options.self_test else _run_checks(options, campaign, checks)


def _run_checks(options: RiscvFormalOptions, campaign: CoreChecks, checks: list[Check]) -> int:
    """The checks on the core as it is."""
    by_name = {check.name: check for check in checks}
    results = campaign.run(checks, options.jobs, resume=not options.fresh)
    findings = (Found(by_name[one.name], None, one, campaign.folder) for one in results)
    found, stop = _searched("checks", findings, len(checks))
    found.sort(key=lambda one: checks.index(one.subject))
    _tell_found(f"riscv-formal on {options.title}, grants and answers at any time", _COLUMNS, found, _FOOT)
    record = {"complete": not stop.interrupted, "checks": list(map(_check_record, found))}
    good = all(one.outcome.verdict == PASSED for one in found)
    return finish(options.json, record, good=good, stop=stop, done=f"{len(found)} of {len(checks)} checks")


def _find_faults(options: RiscvFormalOptions, campaign: CoreChecks, checks: list[Check]) -> int:
    """Print the table; fails unless every fault of the checks chosen is found."""
    # Amaranth takes long to import
    from xpulpnn_sim.proofs.faults.core import CORE_FAULTS

    names = {check.name for check in checks}
    faults = [fault for fault in CORE_FAULTS if fault.check in names]
    results = find_faults(campaign, faults, checks, resume=not options.fresh)
    findings = (Found(fault.check, fault, one, campaign.folder / "faults") for fault, one in results)
    found, stop = _searched("faults", findings, len(faults))
    seen = sum(is_found(one.outcome) for one in found)
    _tell_found(f"faults seeded into {options.title}", _FAULT_COLUMNS, found, f"{seen} of {len(faults)} faults found")
    records = [
        outcome_record("check", one, fault=fault.name, module=fault.module, cycle=one.cycle, found=is_found(one))
        for _, fault, one, _ in found
        if fault is not None
    ]
    record = {"complete": not stop.interrupted, "faults": records}
    return finish(options.json, record, good=seen == len(faults), stop=stop, done=f"{len(found)} faults")


def _assumed(check: Check) -> str:
    return ", ".join(ASSUMPTIONS[name] for name in check.assumed)


_LISTED: Columns = {
    "check": "{.name}",
    "cycle": "{.cycle}",
    "cut": lambda check: class_of(check.cutpoints),
    "assumed": _assumed,
}


_COLUMNS: Columns = {
    "check": "{.subject.name}",
    "cycle": _cycle,
    "seconds": "{.outcome.seconds:.1f}",
    "verdict": _verdict,
    "cut": lambda found: class_of(found.subject.cutpoints),
    "assumed": lambda found: _assumed(found.subject),
}


def _check_record(found: Found) -> dict[str, Any]:
    check, _, outcome, _ = found
    return outcome_record(
        "check",
        outcome,
        cycle=outcome.cycle,
        wanted=check.cycle,
        free=[cut.name for cut in check.cutpoints if cut.name],
        assumed=[ASSUMPTIONS[name] for name in check.assumed],
        retired=retirements(outcome.trace),
    )


_FAULT_COLUMNS: Columns = {
    "fault": "{.fault.name}",
    "module": "{.fault.module}",
    "check": "{.fault.check}",
    "cycle": "{.outcome.cycle}",
    "seconds": "{.outcome.seconds:.1f}",
    "verdict": _verdict,
}
