"""``xpulpnn formal``: the checks of riscv-formal on the emitted core."""

import argparse
import fnmatch
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.commands import formal_faults, formal_instructions
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
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.riscv_formal import model_check
from xpulpnn_sim.riscv_formal.core_checks import CoreChecks
from xpulpnn_sim.riscv_formal.counterexample import WAVEFORM, retirements, write_waveform
from xpulpnn_sim.riscv_formal.cutpoints import class_of, shown
from xpulpnn_sim.riscv_formal.gates import emit_design
from xpulpnn_sim.riscv_formal.model_check import Outcome
from xpulpnn_sim.riscv_formal.suite import ASSUMPTIONS, DEPTH, VARIABLE, Check, find_suite

_MOST_DEPTH = 200
_LEAST_DEPTH = 6
"""Cycle in which an instruction has certainly been able to retire, and one before it."""

_FOOT = (
    "cycle: the one after reset in which what retires is checked; without a verdict, the last searched to its end; "
    "cut: what takes any value in the core (--list)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    add_configuration(parser)
    parser.add_argument(
        "--riscv-formal",
        type=Path,
        metavar="DIR",
        dest="suite",
        help=f"folder of riscv-formal (default: what {VARIABLE} says)",
    )
    parser.add_argument(
        "--checks",
        default="*",
        metavar="LIST",
        help="checks by their names in riscv-formal, such as reg,pc_fwd or insn_c_* (default all that apply)",
    )
    parser.add_argument(
        "--depth",
        type=int,
        default=DEPTH,
        metavar="N",
        help=f"clock cycle after reset in which what retires is checked (default {DEPTH}, at most {_MOST_DEPTH})",
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="checks side by side (default 2)")
    formal_instructions.add_arguments(parser)
    parser.add_argument(
        "--uncut",
        action="store_true",
        help="cut nothing: for a failure that the core itself may not be able to show (slow)",
    )
    add_proof_options(
        parser,
        "formal",
        each="each check",
        seeding="put one fault after the other into the core, and see whether the check that must find it does",
        listing="the checks and what they assume",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails if a check fails or time is up."""
    require_proof_options(arguments, {"depth": _LEAST_DEPTH, "jobs": 1, "timeout": 1})
    if arguments.depth > _MOST_DEPTH:
        raise InputError(f"--depth must be at most {_MOST_DEPTH}, not {arguments.depth}")
    if arguments.instructions is not None:
        return formal_instructions.run(arguments)
    config = configuration(arguments)
    suite = find_suite(arguments.suite)
    checks = _chosen(arguments.checks, suite.checks(config, arguments.depth))
    if arguments.uncut:
        checks = [replace(check, cutpoints=tuple(cut for cut in check.cutpoints if cut.ties)) for check in checks]
    if arguments.list:
        output().print(_listing(checks))
        output().print(_cut_classes(checks))
        return OK
    with workplace(arguments, "formal") as work:
        campaign = CoreChecks(
            suite=suite,
            design=emit_design(config, suite.masks),
            folder=work.folder,
            yosys=work.yosys,
            abc=work.abc,
            timeout_s=arguments.timeout,
        )
        return formal_faults.run(arguments, campaign, checks) if arguments.faults else _run(arguments, campaign, checks)


def _run(arguments: argparse.Namespace, campaign: CoreChecks, checks: list[Check]) -> int:
    """The checks on the core as it is."""
    outcomes: dict[str, Outcome] = {}
    stopped = False
    with progress_bar("checks", len(checks)) as (progress, task):
        try:
            with single_interrupt():
                for outcome in campaign.run(checks, arguments.jobs, resume=arguments.resume):
                    outcomes[outcome.name] = outcome
                    if outcome.trace:
                        write_waveform(outcome.trace, campaign.folder / outcome.name / WAVEFORM)
                    progress.update(task, description=outcome.name)
                    progress.advance(task)
        except KeyboardInterrupt:
            stopped = True
    console = output()
    found = [(check, outcomes[check.name]) for check in checks if check.name in outcomes]
    console.print(f"riscv-formal on {core_title(arguments)}, grants and answers at any time")
    console.print(_table(found))
    console.print(_FOOT, soft_wrap=True)
    for check, outcome in found:
        if outcome.trace:
            where = campaign.folder / check.name / WAVEFORM
            lines = [f"{check.name} fails; what retires until then ({where}):", *retirements(outcome.trace)]
            console.print("\n".join(lines), markup=False, soft_wrap=True)
    write_json(arguments.json, {"complete": not stopped, "checks": [_record(*each) for each in found]})
    if stopped:
        console.print(f"INCOMPLETE: interrupted after {len(found)} of {len(checks)} checks; --resume goes on")
        return INTERRUPTED
    return OK if all(outcome.verdict == model_check.PASSED for _, outcome in found) else FAILED


def _chosen(text: str, checks: list[Check]) -> list[Check]:
    """The checks of a list of names and patterns."""
    taken: set[str] = set()
    for pattern in text.split(","):
        names = fnmatch.filter([check.name for check in checks], pattern.strip())
        if not names:
            raise InputError(f"--checks must be names of checks (--list shows them), not {pattern}")
        taken |= {*names}
    return [check for check in checks if check.name in taken]


def _assumed(check: Check) -> str:
    return ", ".join(ASSUMPTIONS[name] for name in check.assumed)


def _listing(checks: list[Check]) -> Table:
    table = Table(box=None)
    for heading in ("check", "cycle", "cut", "assumed"):
        table.add_column(heading, justify="right" if heading == "cycle" else "left")
    for check in checks:
        table.add_row(check.name, str(check.cycle), class_of(check.cutpoints), _assumed(check))
    return table


def _cut_classes(checks: list[Check]) -> Table:
    """What is free under each name in the column ``cut``."""
    table = Table(box=None)
    for heading in ("cut", "free in it"):
        table.add_column(heading)
    for cutpoints in dict.fromkeys(check.cutpoints for check in checks):
        table.add_row(class_of(cutpoints), shown(cutpoints))
    return table


def _table(found: list[tuple[Check, Outcome]]) -> Table:
    table = Table(box=None)
    for heading in ("check", "cycle", "seconds", "verdict", "cut", "assumed"):
        table.add_column(heading, justify="right" if heading in ("cycle", "seconds") else "left")
    for check, outcome in found:
        cycle = f"{outcome.cycle}" if outcome.cycle >= 0 else "-"
        table.add_row(
            check.name, cycle, f"{outcome.seconds:.1f}", outcome.verdict, class_of(check.cutpoints), _assumed(check)
        )
    return table


def _record(check: Check, outcome: Outcome) -> dict[str, Any]:
    return {
        "check": check.name,
        "cycle": outcome.cycle,
        "wanted": check.cycle,
        "seconds": round(outcome.seconds, 3),
        "verdict": outcome.verdict,
        "free": [cut.name for cut in check.cutpoints if cut.name],
        "assumed": [ASSUMPTIONS[name] for name in check.assumed],
        "retired": retirements(outcome.trace),
    }
