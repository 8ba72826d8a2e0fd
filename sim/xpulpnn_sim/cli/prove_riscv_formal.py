"""``xpulpnn prove riscv-formal``: the checks of riscv-formal on the emitted core."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xpulpnn_sim.cli.common import (
    OK,
    Columns,
    finish,
    interruptible,
    matching,
    output,
    progress_bar,
    record_table,
    table,
)
from xpulpnn_sim.cli.configurations import ProofOptions
from xpulpnn_sim.cli.options import Jobs, Words, arguments, between, command
from xpulpnn_sim.cli.proof_options import (
    cycle_of,
    finding,
    is_found,
    keep_example,
    outcome_record,
    tell_examples,
    workplace,
)
from xpulpnn_sim.proofs.engine.outcomes import PASSED, Outcome, retirements
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.riscv_formal.core_checks import CoreChecks, find_faults
from xpulpnn_sim.proofs.riscv_formal.cutpoints import class_of, emit_cut_design, shown_cuts
from xpulpnn_sim.proofs.riscv_formal.suite import ASSUMPTIONS, DEPTH, VARIABLE, Check, find_suite

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
    checks = _chosen(options.checks, suite.checks(config, options.depth))
    if options.uncut:
        checks = [replace(check, cutpoints=tuple(cut for cut in check.cutpoints if cut.ties)) for check in checks]
    if options.listing:
        output().print(record_table(_LISTED, checks))
        # each name in the column `cut`, with what it stands for
        cuts = [(class_of(cuts), shown_cuts(cuts)) for cuts in dict.fromkeys(check.cutpoints for check in checks)]
        output().print(table(("cut", "free in it"), cuts))
        return OK
    with workplace(options, "formal") as work:
        campaign = CoreChecks(
            suite=suite,
            design=emit_cut_design(config, suite.masks),
            folder=work.folder,
            yosys=work.yosys,
            abc=work.abc,
            timeout_s=options.timeout,
        )
        return _find_faults(options, campaign, checks) if options.self_test else _run(options, campaign, checks)


def _run(options: RiscvFormalOptions, campaign: CoreChecks, checks: list[Check]) -> int:
    """The checks on the core as it is."""
    outcomes: dict[str, Outcome] = {}
    with progress_bar("checks", len(checks)) as bar, interruptible() as stop:
        results = campaign.run(checks, options.jobs, resume=not options.fresh)
        for outcome in bar.each(results, lambda one: one.name):
            outcomes[outcome.name] = outcome
            keep_example(outcome, campaign.folder)
    found = [(check, outcomes[check.name]) for check in checks if check.name in outcomes]
    output().print(f"riscv-formal on {options.title}, grants and answers at any time")
    output().print(record_table(_COLUMNS, found))
    output().print(_FOOT, soft_wrap=True)
    tell_examples([outcome for _, outcome in found], campaign.folder)
    record = {"complete": not stop.interrupted, "checks": [_record(*each) for each in found]}
    good = all(outcome.verdict == PASSED for _, outcome in found)
    return finish(options.json, record, good=good, stop=stop, done=f"{len(found)} of {len(checks)} checks")


def _find_faults(options: RiscvFormalOptions, campaign: CoreChecks, checks: list[Check]) -> int:
    """Print the table; fails unless every fault of the checks chosen is found."""
    # Amaranth takes long to import
    from xpulpnn_sim.proofs.faults.core import CORE_FAULTS

    names = {check.name for check in checks}
    faults = [fault for fault in CORE_FAULTS if fault.check in names]
    found: list[tuple[CoreFault, Outcome]] = []
    with progress_bar("faults", len(faults)) as bar, interruptible() as stop:
        results = find_faults(campaign, faults, checks, resume=not options.fresh)
        found.extend(bar.each(results, lambda each: each[0].name))
    seen = sum(is_found(outcome) for _, outcome in found)
    output().print(f"faults seeded into {options.title}")
    output().print(record_table(_FAULT_COLUMNS, found))
    output().print(f"{seen} of {len(faults)} faults found")
    records = [
        outcome_record("check", one, fault=fault.name, module=fault.module, cycle=one.cycle, found=is_found(one))
        for fault, one in found
    ]
    record = {"complete": not stop.interrupted, "faults": records}
    return finish(options.json, record, good=seen == len(faults), stop=stop, done=f"{len(found)} faults")


def _chosen(patterns: Sequence[str], checks: list[Check]) -> list[Check]:
    """The checks of a list of names and patterns."""
    names = [check.name for check in checks]
    taken = matching(patterns, names, "--checks must be names of checks (--list shows them)")
    return [check for check in checks if check.name in taken]


def _assumed(check: Check) -> str:
    return ", ".join(ASSUMPTIONS[name] for name in check.assumed)


_LISTED: Columns = {
    "check": "{.name}",
    "cycle": "{.cycle}",
    "cut": lambda check: class_of(check.cutpoints),
    "assumed": _assumed,
}


_COLUMNS: Columns = {
    "check": "{0[0].name}",
    "cycle": lambda each: cycle_of(each[1]),
    "seconds": "{0[1].seconds:.1f}",
    "verdict": "{0[1].verdict}",
    "cut": lambda each: class_of(each[0].cutpoints),
    "assumed": lambda each: _assumed(each[0]),
}


def _record(check: Check, outcome: Outcome) -> dict[str, Any]:
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
    "fault": "{0[0].name}",
    "module": "{0[0].module}",
    "check": "{0[0].check}",
    "cycle": "{0[1].cycle}",
    "seconds": "{0[1].seconds:.1f}",
    "verdict": lambda each: finding(each[1]),
}
