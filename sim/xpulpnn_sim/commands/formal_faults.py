"""``xpulpnn formal --faults``: seeded faults of the core, and the checks that find them."""

import argparse
from typing import Any

from rich.table import Table

from xpulpnn_sim.commands.common import FAILED, INTERRUPTED, OK, core_title, output, progress_bar, write_json
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.riscv_formal import model_check
from xpulpnn_sim.riscv_formal.core_checks import CoreChecks
from xpulpnn_sim.riscv_formal.seeded import FaultOutcome, find_faults
from xpulpnn_sim.riscv_formal.suite import Check


def run(arguments: argparse.Namespace, campaign: CoreChecks, checks: list[Check]) -> int:
    """Print the table; fails unless every fault of the checks chosen is found."""
    # Amaranth takes long to import
    from xpulpnn_sim.faulty.core import CORE_FAULTS

    names = {check.name for check in checks}
    faults = [fault for fault in CORE_FAULTS if fault.check in names]
    found: list[FaultOutcome] = []
    stopped = False
    with progress_bar("faults", len(faults)) as (progress, task):
        try:
            with single_interrupt():
                for each in find_faults(campaign, faults, checks, resume=arguments.resume):
                    found.append(each)
                    progress.update(task, description=each.fault.name)
                    progress.advance(task)
        except KeyboardInterrupt:
            stopped = True
    console = output()
    console.print(f"faults seeded into {core_title(arguments)}")
    console.print(_table(found))
    seen = sum(_is_found(each) for each in found)
    console.print(f"{seen} of {len(faults)} faults found")
    write_json(arguments.json, {"complete": not stopped, "faults": [_record(each) for each in found]})
    if stopped:
        return INTERRUPTED
    return OK if seen == len(faults) else FAILED


def _is_found(each: FaultOutcome) -> bool:
    return each.outcome.verdict == model_check.FAILED


def _table(found: list[FaultOutcome]) -> Table:
    table = Table(box=None)
    for heading in ("fault", "module", "check", "cycle", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading in ("cycle", "seconds") else "left")
    for each in found:
        fault, outcome = each.fault, each.outcome
        verdict = "found" if _is_found(each) else f"NOT FOUND: {outcome.verdict}"
        table.add_row(fault.name, fault.module, fault.check, str(outcome.cycle), f"{outcome.seconds:.1f}", verdict)
    return table


def _record(each: FaultOutcome) -> dict[str, Any]:
    return {
        "fault": each.fault.name,
        "module": each.fault.module,
        "check": each.fault.check,
        "cycle": each.outcome.cycle,
        "seconds": round(each.outcome.seconds, 3),
        "found": _is_found(each),
    }
