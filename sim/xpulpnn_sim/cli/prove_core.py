"""``xpulpnn prove pipeline`` and ``riscv-formal``: properties of the pipeline, and riscv-formal's checks."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import OK, Columns, matching, record_table, table, tell
from xpulpnn_sim.cli.options import Jobs, Words, arguments, at_least, between, command
from xpulpnn_sim.cli.proof_shell import FAULT, VERDICT, ProofOptions, ProofRun, Result, outcome_record, workplace
from xpulpnn_sim.proofs.engine.outcomes import PROVED, retirements
from xpulpnn_sim.proofs.pipeline.catalog import PipelineProperty, pipeline_properties
from xpulpnn_sim.proofs.pipeline.harness_gates import emit_harness
from xpulpnn_sim.proofs.pipeline.proof import Prover
from xpulpnn_sim.proofs.riscv_formal.core_checks import CoreChecks, find_faults
from xpulpnn_sim.proofs.riscv_formal.cutpoints import IDLE_LOOPS, class_of, emit_cut_design, shown_cuts
from xpulpnn_sim.proofs.riscv_formal.suite import DEPTH, VARIABLE, Check, find_suite

_LEAST_PIPELINE_DEPTH = 5
_FAULTS_OF = ("xpulpnn2", "xpulpnn3")  # presets whose units have all faults


@arguments
class PipelineOptions(ProofOptions):
    rules: Annotated[tuple[str, ...], Parameter(metavar="PROPERTY")] = field(default=(), kw_only=False)
    """Properties by name (default all; --list shows them)."""
    depth: Annotated[int, at_least(_LEAST_PIPELINE_DEPTH)] | None = None
    """Search the cycles after reset up to this one, in place of a proof for every cycle."""


@command("prove pipeline")
def prove_pipeline_command(options: PipelineOptions) -> int:
    """
    xpulpnn prove pipeline --list  # the properties, and what they leave out
    xpulpnn prove pipeline mac_load --preset xpulpnn2  # one of them
    xpulpnn prove pipeline --self-test  # whether they find faults put into the core
    """
    known = pipeline_properties(options.core)
    names = [each.name for each in known]
    chosen = matching(options.rules or names, known, f"PROPERTY must be one of {', '.join(names)}")
    if options.listing:
        tell(record_table({"property": "{.name}", "says": "{.statement}", "limited to": "{.limits}"}, chosen))
        return OK
    if options.self_test and options.preset not in _FAULTS_OF:
        raise InputError(f"--preset must be {' or '.join(_FAULTS_OF)} with --self-test, not {options.preset}")
    with workplace(options, "sequences") as work:
        prover = Prover(**work._asdict(), timeout_s=options.timeout, resume=not options.fresh)
        return _prove_pipeline(options, prover, chosen)


def _prove_pipeline(options: PipelineOptions, prover: Prover, chosen: Sequence[PipelineProperty]) -> int:
    harness = emit_harness(options.core)
    jobs: list[tuple[PipelineProperty, Any]] = [(each, None) for each in chosen]
    if options.self_test:
        # slow import
        from xpulpnn_sim.proofs.faults.catalog import faults_for

        faults = faults_for(options.core, [each.name for each in chosen])
        jobs = [(each, fault) for fault in faults for each in chosen if each.name in fault.checks]

    def results() -> Iterator[Result]:
        for each, fault in jobs:
            folder = prover.folder / "faults" / fault.name.replace(" ", "-") if fault else prover.folder
            design = harness.with_fault(fault) if fault else harness
            depth = each.depth if fault and options.depth is None else options.depth
            yield Result(each, replace(prover, folder=folder).prove(each, design, depth), fault, folder)

    run = ProofRun(count=len(jobs))
    run.collect("searching", results())
    good = run.show(
        f"{'faults seeded into' if options.self_test else 'between instructions of'} {options.title}, "
        "grants and answers at any time",
        {"fault": "{.fault.name}", **_PIPELINE_COLUMNS} if options.self_test else _PIPELINE_COLUMNS,
        "cycle: the last after reset that was searched to its end, or the one in which it fails; any: by induction",
    )
    return run.finish(options, {"properties": list(map(_pipeline_record, run.results))}, good=good)


_PIPELINE_COLUMNS: Columns = {
    "property": "{.subject.name}",
    "cycle": lambda result: "any" if result.outcome.verdict == PROVED else result.shown_cycle,
    **VERDICT,
}


def _pipeline_record(result: Result) -> dict[str, Any]:
    outcome, limits, fault = result.outcome, result.subject.limits, result.fault.name if result.fault else None
    parts = {"wrong": list(outcome.parts), "broken": list(outcome.broken), "retired": retirements(outcome.trace)}
    return outcome_record("property", outcome, limits=limits, fault=fault, cycle=outcome.cycle, **parts)


_MOST_DEPTH = 200
_LEAST_DEPTH = 6  # one cycle before an instruction can retire for certain

_SUITE = Parameter(
    name="--riscv-formal", help=f"Folder of riscv-formal (default: what {VARIABLE} says).", metavar="DIR"
)


@arguments
class RiscvFormalOptions(ProofOptions, Jobs):
    suite: Annotated[Path | None, _SUITE] = None
    checks: Words = ("*",)
    """Checks by their names in riscv-formal, such as reg+pc_fwd or insn_c_* (default all that apply)."""
    depth: Annotated[int, between(_LEAST_DEPTH, _MOST_DEPTH)] = DEPTH
    """Clock cycle after reset in which the retiring instruction is checked."""
    uncut: bool = False
    """Use no cutpoints, for a failure that the core itself may not be able to show (slow)."""


@command("prove riscv-formal")
def prove_riscv_formal_command(options: RiscvFormalOptions) -> int:
    """
    xpulpnn prove riscv-formal --riscv-formal ~/riscv-formal --checks insn_add+pc_fwd  # two checks of the paper's core
    xpulpnn prove riscv-formal --preset ri5cy --jobs 4  # all checks, those of an earlier run as they came out
    xpulpnn prove riscv-formal --checks 'insn_c_*' --depth 12  # the compressed instructions, to cycle 12
    """
    config = options.core
    suite = find_suite(options.suite)
    known = suite.checks(config, options.depth)
    checks = matching(options.checks, known, "--checks must be names of checks (--list shows them)")
    if options.uncut:
        checks = [
            replace(check, cutpoints=tuple(cut for cut in check.cutpoints if cut == IDLE_LOOPS)) for check in checks
        ]
    if options.listing:
        tell(record_table(_LISTED, checks))
        # explain the names in the column `cut`
        cuts = [(class_of(cuts), shown_cuts(cuts)) for cuts in dict.fromkeys(check.cutpoints for check in checks)]
        tell(table(("cut", "free in it"), cuts))
        return OK
    with workplace(options, "formal") as work:
        design = emit_cut_design(config, suite.masks)
        core = CoreChecks(suite=suite, config=config, design=design, timeout_s=options.timeout, **work._asdict())
        return _find_faults(options, core, checks) if options.self_test else _run_checks(options, core, checks)


def _run_checks(options: RiscvFormalOptions, core: CoreChecks, checks: list[Check]) -> int:
    by_name = {check.name: check for check in checks}
    run = ProofRun(count=len(checks))
    outcomes = core.run(checks, options.jobs, resume=not options.fresh)
    run.collect("checks", (Result(by_name[outcome.name], outcome, None, core.folder) for outcome in outcomes))
    run.results.sort(key=lambda result: checks.index(result.subject))
    good = run.show(
        f"riscv-formal on {options.title}, grants and answers at any time",
        _CHECK_COLUMNS,
        "cycle: the one after reset in which what retires is checked; without a verdict, the last searched to its "
        "end; cut: what takes any value in the core (--list)",
    )
    return run.finish(options, {"checks": list(map(_check_record, run.results))}, good=good)


def _find_faults(options: RiscvFormalOptions, core: CoreChecks, checks: list[Check]) -> int:
    # slow import
    from xpulpnn_sim.proofs.faults.catalog import faults_for

    faults = faults_for(core.config, [check.name for check in checks])
    run = ProofRun(count=len(faults))
    outcomes = find_faults(core, faults, checks, resume=not options.fresh)
    run.collect("faults", (Result(check, outcome, fault, core.folder / "faults") for fault, check, outcome in outcomes))
    seen = sum(result.is_found for result in run.results)
    good = run.show(f"faults seeded into {options.title}", _FAULT_COLUMNS, f"{seen} of {len(faults)} faults found")
    return run.finish(options, {"faults": list(map(_fault_record, run.results))}, good=good)


def _fault_record(result: Result) -> dict[str, Any]:
    fault, outcome = {"fault": result.fault.name, "module": result.fault.module}, result.outcome
    return outcome_record("check", outcome, **fault, cycle=outcome.cycle, found=result.is_found)


def _assumed(check: Check) -> str:
    return ", ".join(check.assumed)


_LISTED: Columns = {
    "check": "{.name}",
    "cycle": "{.cycle}",
    "cut": lambda check: class_of(check.cutpoints),
    "assumed": _assumed,
}

_CHECK_COLUMNS: Columns = {
    "check": "{.subject.name}",
    "cycle": "{.shown_cycle}",
    **VERDICT,
    "cut": lambda result: class_of(result.subject.cutpoints),
    "assumed": lambda result: _assumed(result.subject),
}

_FAULT_COLUMNS: Columns = {**FAULT, "check": "{.subject.name}", "cycle": "{.outcome.cycle}", **VERDICT}


def _check_record(result: Result) -> dict[str, Any]:
    check, outcome = result.subject, result.outcome
    return outcome_record(
        "check",
        outcome,
        cycle=outcome.cycle,
        wanted=check.cycle,
        free=[cut for cut in check.cutpoints if cut],
        assumed=[*check.assumed],
        retired=retirements(outcome.trace),
    )
