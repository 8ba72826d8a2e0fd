"""``xpulpnn mutate``: what the benches of the hardware units would miss."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.bench.runner import available
from xpulpnn_sim.bench.units import UNITS
from xpulpnn_sim.commands import mutate_core
from xpulpnn_sim.commands.common import (
    INTERRUPTED,
    OK,
    add_json,
    output,
    progress_bar,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.yosys_option import add_yosys
from xpulpnn_sim.folder_lock import folder_lock
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.mutation.judged import Judged
from xpulpnn_sim.mutation.summary import collected, rows_of
from xpulpnn_sim.mutation.unit_mutants import Settings, judge_unit
from xpulpnn_sim.verilator import require_verilator
from xpulpnn_sim.yosys import find_yosys

_FOOT = (
    "killed by a check of the bench, by its limit of time, by the simulator's own checks, of cores by programs; "
    "equivalent: proved to do what the unit does; legal: proved for inputs that occur"
)
_NUMBERS = ("mutants", "check", "time", "simulator", "equivalent", "legal", "alive")
_PROOFS = _NUMBERS.index("equivalent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "units",
        nargs="*",
        metavar="UNIT",
        help="units with a bench, such as dotp-shared (--list shows them), or all; or core for a whole core",
    )
    parser.add_argument("--list", action="store_true", help="show the units, and go")
    parser.add_argument(
        "--summary", action="store_true", help="show what all campaigns in the folder have found, and go"
    )
    for name, default, text in (
        ("mutants", 200, "mutants of each unit"),
        ("seed", 1, "which mutants"),
        ("bench-seed", 1, "seed of the benches"),
        ("jobs", 2, "mutants side by side"),
        ("limit", 60, "seconds of computing for each test on a mutant"),
        ("proof", 20, "seconds to prove a mutant equivalent that its bench does not find, 0 for no proofs"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="S" if name in ("limit", "proof") else "N",
            help=f"{text} (default {default})",
        )
    mutate_core.add_arguments(parser)
    parser.add_argument("--resume", action="store_true", help="take verdicts of an earlier run in the same folder")
    add_yosys(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        default=Path("build", "mutate"),
        help="folder for models and verdicts (default build/mutate)",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table and the survivors; survivors are no failure."""
    if arguments.units == [mutate_core.NAME] and not arguments.list:
        return mutate_core.run(arguments)
    require_writable(arguments.json)
    console = output()
    if arguments.list:
        console.print("\n".join(UNITS))
        return OK
    if arguments.summary:
        known = collected(arguments.output)
        _report(known, console)
        write_json(arguments.json, {"complete": True, "units": _described(known)})
        return OK
    units = _units(arguments.units)
    for name, low in (("mutants", 1), ("jobs", 1), ("limit", 1), ("proof", 0), ("seed", 0), ("bench_seed", 0)):
        if getattr(arguments, name) < low:
            raise InputError(f"--{name.replace('_', '-')} must be at least {low}, not {getattr(arguments, name)}")
    if not available("verilator"):
        require_verilator()
    yosys = find_yosys(arguments.yosys)
    require_folder(arguments.output, "--output")
    settings = Settings(
        count=arguments.mutants,
        seed=arguments.seed,
        bench_seed=arguments.bench_seed,
        jobs=arguments.jobs,
        limit_s=arguments.limit,
        proof_s=arguments.proof,
    )
    found: dict[str, Sequence[Judged]] = {}
    stopped = False
    with folder_lock(arguments.output, "--output"), progress_bar("mutants", None) as (progress, task):
        try:
            with single_interrupt():
                for unit in units:

                    def told(what: str, done: int, total: int, unit: str = unit) -> None:
                        progress.update(task, description=f"{unit}: {what}", completed=done, total=total)

                    place = arguments.output.resolve() / unit
                    found[unit] = judge_unit(unit, settings, place, yosys, resume=arguments.resume, told=told)
        except KeyboardInterrupt:
            stopped = True
    _report(found, console)
    write_json(arguments.json, {"complete": not stopped, "units": _described(found)})
    if stopped:
        console.print(f"INCOMPLETE: interrupted after {len(found)} of {len(units)} units; --resume goes on")
        return INTERRUPTED
    return OK


_ALL = "all"
_WHOLE = ("core", "backend", "cluster_axi")
"""Benches of several units together, which have benches of their own."""


def _units(names: Sequence[str]) -> list[str]:
    if list(names) == [_ALL]:
        return [name for name, unit in UNITS.items() if "verilator" in unit.simulators and unit.bench not in _WHOLE]
    for name in names:
        if name not in UNITS:
            raise InputError(f"UNIT must be {_ALL}, or one that --list shows, not {name}")
    if not names:
        raise InputError(f"UNIT must be given: {_ALL}, or one or more that --list shows")
    return list(dict.fromkeys(names))


def _described(found: Mapping[str, Sequence[Judged]]) -> dict[str, Any]:
    return {unit: {**_counts(judged), "mutants": rows_of(judged)} for unit, judged in found.items()}


def _report(found: Mapping[str, Sequence[Judged]], console: Console) -> None:
    """The table, and the mutants that are alive."""
    console.print(_table(found))
    console.print(_FOOT, soft_wrap=True)
    every = [each for judged in found.values() for each in judged]
    if every:
        disposed = sum(not each.alive for each in every)
        console.print(f"{disposed} of {len(every)} killed or proved equivalent ({100 * disposed / len(every):.2f} %)")
    for unit, judged in found.items():
        for each in judged:
            if each.alive:
                console.print(_survivor(unit, each), markup=False, soft_wrap=True)


def _counts(judged: Sequence[Judged]) -> dict[str, int]:
    """How many there are of each outcome; what only cores know of is there where it has been found."""
    counts = dict.fromkeys(_NUMBERS, 0) | {"mutants": len(judged)}
    for each in judged:
        counts[each.outcome] = counts.get(each.outcome, 0) + 1
    return counts


def _table(found: Mapping[str, Sequence[Judged]]) -> Table:
    rows = {unit: _counts(judged) for unit, judged in found.items()}
    others = list(dict.fromkeys(name for counts in rows.values() for name in counts if name not in _NUMBERS))
    names = [*_NUMBERS[:_PROOFS], *others, *_NUMBERS[_PROOFS:]]
    table = Table(box=None)
    for heading in ("unit", *names):
        table.add_column(heading, justify="left" if heading == "unit" else "right")
    for unit, counts in rows.items():
        table.add_row(unit, *(str(counts.get(name, 0)) for name in names))
    if len(rows) > 1:
        table.add_row("all", *(str(sum(counts.get(name, 0) for counts in rows.values())) for name in names))
    return table


def _survivor(unit: str, each: Judged) -> str:
    """A line on a mutant that nothing found."""
    mutant = each.mutant
    where = f"{mutant.source or 'no source'}: {unit} mutant {mutant.number}"
    proof = f" ({each.proof}: {each.example})" if each.example else f" ({each.proof})" if each.proof else ""
    return f"{where}: {mutant.module} {mutant.cell} {mutant.port}[{mutant.bit}] {mutant.change}{proof}"
