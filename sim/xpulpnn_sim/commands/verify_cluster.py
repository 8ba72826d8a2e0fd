"""``xpulpnn verify --cores``: random programs on all cores of a cluster, and litmus tests."""

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.table import Table

from xpulpnn.config import PRESETS, Arbiter, ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn.settings import apply_settings
from xpulpnn_sim.commands import verify_litmus
from xpulpnn_sim.commands.cluster_options import IDEAL, icache_bytes
from xpulpnn_sim.commands.common import (
    FAILED,
    INTERRUPTED,
    OK,
    assignments,
    comma_list,
    output,
    progress_bar,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.models import model_library, simulated
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.multihart.cluster_trials import ClusterPlan, ClusterResult, Reached, run_chunk, shrink
from xpulpnn_sim.multihart.generator import generate, require
from xpulpnn_sim.verify.elf_file import elf_bytes
from xpulpnn_sim.verify.spread import results, runner, work

_ARBITERS: tuple[str, ...] = get_args(Arbiter)
_OF_CLUSTERS = ("banks", "icache", "arbiter", "l2_latency", "litmus")
_OF_ONE_CORE = ("grant_stalls", "response_latency", "fetch_grant_stalls", "fetch_latency", "irq_rate", "dask")
_STALLS_SHOWN = ("bank_conflict", "barrier", "event", "external", "fetch", "peripheral")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for programs of several cores."""
    group = parser.add_argument_group("random programs for all cores of a cluster")
    group.add_argument("--cores", type=int, metavar="N", help="cores of the cluster")
    group.add_argument("--banks", metavar="LIST", help="banks of its TCDM, numbers taken in turn (default 4)")
    group.add_argument(
        "--icache",
        metavar="LIST",
        help=f"bytes of each core's instruction cache, taken in turn, {IDEAL} for none (default {IDEAL},512)",
    )
    group.add_argument(
        "--arbiter", metavar="LIST", help=f"taken in turn: out of {','.join(_ARBITERS)}, or all (default counter)"
    )
    group.add_argument(
        "--l2-latency", type=int, metavar="N", help="cycles of the memory outside (default: differs between programs)"
    )
    group.add_argument(
        "--litmus",
        type=int,
        nargs="?",
        const=verify_litmus.ROUNDS,
        metavar="ROUNDS",
        help=f"litmus tests of the memory instead of random programs (default {verify_litmus.ROUNDS} rounds of each)",
    )


def require_cores(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options of clusters without ``--cores``."""
    for name in _OF_CLUSTERS:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} must come with --cores, not alone")


def run(arguments: argparse.Namespace) -> int:
    """Run programs until there are enough instructions; fails if one of them does."""
    plans = _plans(arguments)
    require_writable(arguments.json)
    if arguments.output is not None:
        require_folder(arguments.output, "--output")
    with progress_bar("compiling models", len(plans)) as (progress, task):
        for plan in plans:
            model_library("cluster", plan.config)
            progress.advance(task)
    if arguments.litmus is not None:
        return verify_litmus.run(arguments, plans)
    found: list[ClusterResult] = []
    console, stopped = output(), False
    with progress_bar("instructions", arguments.instructions) as (progress, task):
        try:
            with single_interrupt(), runner("rtl", jobs=arguments.jobs, run=run_chunk) as processes:
                programs = work(arguments.seed, plans)
                for result in results(processes, programs, arguments.instructions, keep_going=arguments.keep_going):
                    found.append(result)
                    progress.advance(task, result.verdict.instructions)
        except KeyboardInterrupt:
            stopped = True
    failures = [result for result in found if result.verdict.reason is not Reason.PASS]
    for failure in failures:
        _report(failure, arguments, console)
    summary = _summary(found) | {"complete": not stopped}
    _print(summary, console)
    write_json(arguments.json, summary)
    if stopped:
        console.print(f"INCOMPLETE: interrupted after {len(found)} programs", markup=False, soft_wrap=True)
        return INTERRUPTED
    return FAILED if failures else OK


def _plans(arguments: argparse.Namespace) -> list[ClusterPlan]:
    """The configurations, in the structure models have."""
    for name in _OF_ONE_CORE:
        if getattr(arguments, name):
            raise InputError(f"--{name.replace('_', '-')} must be left out with --cores")
    if arguments.engine != "rtl":
        raise InputError(f"--engine must be rtl with --cores, not {arguments.engine}")
    for name, low in (("instructions", 1), ("seed", 0), ("jobs", 1), ("l2_latency", 1)):
        value = getattr(arguments, name)
        if value is not None and value < low:
            raise InputError(f"--{name.replace('_', '-')} must be at least {low}, not {value}")
    banks = _numbers(arguments.banks or "4", "--banks")
    icaches = [icache_bytes(part) for part in (arguments.icache or f"{IDEAL},512").split(",")]
    arbiters = comma_list(arguments.arbiter or "counter", _ARBITERS, "--arbiter")
    names = comma_list(arguments.preset, tuple(PRESETS), "--preset")
    plans: list[ClusterPlan] = []
    for name, number, icache, arbiter in product(names, banks, icaches, arbiters):
        config = ClusterConfig(core=preset(name), cores=arguments.cores, banks=number, icache_private=icache)
        config = apply_settings(config, {"arbiter": arbiter, **assignments(arguments)})
        require(config)
        label = [f"--cores {arguments.cores} --preset {name} --banks {number} --icache {icache or IDEAL}"]
        label += [f"--arbiter {arbiter}", *(f"--set {setting}" for setting in arguments.settings)]
        plans.append(ClusterPlan(config=simulated(config), label=" ".join(label), l2_latency=arguments.l2_latency))
    return plans


def _numbers(text: str, option: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"{option} must be numbers with commas between them, not {text}")
    return [int(part) for part in parts]


def _report(failure: ClusterResult, arguments: argparse.Namespace, console: Console) -> None:
    """Tell a failure, and write its shortest program."""
    program, verdict = generate(failure.plan.config, failure.seed), failure.verdict
    if not arguments.no_shrink:
        with progress_bar("shrinking", None) as (progress, task):
            program, verdict = shrink(failure, lambda left: progress.update(task, completed=left))
    kinds = ", ".join(phase.kind for phase in program.phases) or "no phases"
    again = failure.plan.command(failure.seed)
    for text in (f"program {failure.seed} fails:", verdict.text, f"phases left: {kinds}", f"again: {again}"):
        console.print(text, markup=False, soft_wrap=True)
    if arguments.output is None:
        console.print("the program itself: use --output DIR\n", markup=False)
        return
    folder: Path = arguments.output
    heading = [f"program {failure.seed}", again, *verdict.text.splitlines()]
    write_text(folder / f"fail{failure.seed}.S", program.listing(heading))
    (folder / f"fail{failure.seed}.elf").write_bytes(elf_bytes(program.executable()))


def _summary(found: Sequence[ClusterResult]) -> dict[str, Any]:
    total = Reached()
    for result in found:
        total.merge(result.coverage)
    wall = sum(result.wall_s for result in found)
    instructions = sum(result.verdict.instructions for result in found)
    failing = [result.seed for result in found if result.verdict.reason is not Reason.PASS]
    rows: dict[str, dict[str, int]] = {}
    for result in found:
        row = rows.setdefault(result.plan.label, {"programs": 0, "instructions": 0, "cycles": 0})
        row["programs"] += 1
        row["instructions"] += result.verdict.instructions
        row["cycles"] += result.verdict.cycles
    return {
        "programs": len(found),
        "instructions": instructions,
        "cycles": sum(result.verdict.cycles for result in found),
        "differences": len(failing),
        "failing_seeds": failing,
        "configurations": rows,
        "accesses": total.accesses,
        "misaligned": total.misaligned,
        "traps": total.traps,
        "phases": dict(sorted(total.meetings.items())),
        "stalls": total.stalls,
        "instructions_per_s": round(instructions / wall) if wall else 0,
    }


def _print(summary: dict[str, Any], console: Console) -> None:
    table = Table(box=None, title="programs of all cores", title_justify="left")
    for heading in ("configuration", "programs", "instructions", "cycles"):
        table.add_column(heading, justify="left" if heading == "configuration" else "right")
    for label, row in summary["configurations"].items():
        table.add_row(label, *(str(row[name]) for name in ("programs", "instructions", "cycles")))
    console.print(table)
    figures = Table(box=None, show_header=False)
    for name in ("programs", "instructions", "misaligned", "traps"):
        figures.add_row(name, str(summary[name]))
    accesses, phases, stalls = summary["accesses"], summary["phases"], summary["stalls"]
    figures.add_row("accesses", ", ".join(f"{place} {count}" for place, count in accesses.items()))
    figures.add_row("phases", ", ".join(f"{kind} {count}" for kind, count in phases.items()))
    shown = (f"{cause.replace('_', ' ')} {stalls.get(cause, 0)}" for cause in _STALLS_SHOWN)
    figures.add_row("stall cycles", ", ".join(shown))
    figures.add_row("instructions/s", f"{summary['instructions_per_s']} in each process")
    figures.add_row("differences", str(summary["differences"]))
    console.print(figures)
