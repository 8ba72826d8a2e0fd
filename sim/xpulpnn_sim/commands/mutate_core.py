"""``xpulpnn mutate core``: which mutants of the core programs in lock step with the simulator would miss."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.abc_tool import find_abc
from xpulpnn_sim.commands.common import (
    INTERRUPTED,
    OK,
    comma_list,
    configuration,
    output,
    progress_bar,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.core_mutation.core_mutants import Settings, judge_core
from xpulpnn_sim.folder_lock import folder_lock
from xpulpnn_sim.interrupts import single_interrupt
from xpulpnn_sim.mutation.judged import EQUIVALENT, LEGAL, Judged
from xpulpnn_sim.mutation.summary import rows_of
from xpulpnn_sim.verify.trials import Plan
from xpulpnn_sim.yosys import find_yosys

NAME = "core"
"""What stands in the place of a unit."""

_DEFAULT_PRESET, _DEFAULT_INSTRUCTIONS = "xpulpnn", 100_000
_NUMBERS = ("mutants", "random", "directed", "costs", EQUIVALENT, LEGAL, "alive")
_FOOT = (
    "found by random programs in lock step with the simulator, by directed programs, by the table of cycle costs; "
    "equivalent: proved to do what the core does; legal: proved for buses that answer what they have granted"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the core, beside those of all units."""
    parser.add_argument(
        "--preset", default=_DEFAULT_PRESET, metavar="LIST", help=f"cores for {NAME} (default {_DEFAULT_PRESET})"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="change one parameter of them"
    )
    parser.add_argument(
        "--instructions",
        type=int,
        default=_DEFAULT_INSTRUCTIONS,
        metavar="N",
        help=f"retirements of random programs on each mutant of {NAME} (default {_DEFAULT_INSTRUCTIONS})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table and the survivors; survivors are no failure."""
    require_writable(arguments.json)
    for name, low in (("mutants", 1), ("jobs", 1), ("limit", 1), ("proof", 0), ("seed", 0), ("instructions", 1)):
        if getattr(arguments, name) < low:
            raise InputError(f"--{name} must be at least {low}, not {getattr(arguments, name)}")
    presets = comma_list(arguments.preset, tuple(PRESETS), "--preset")
    plans = {name: _plan(name, arguments.settings) for name in presets}
    if arguments.proof:
        find_abc()
    yosys = find_yosys(arguments.yosys)
    require_folder(arguments.output, "--output")
    settings = Settings(
        count=arguments.mutants,
        seed=arguments.seed,
        instructions=arguments.instructions,
        jobs=arguments.jobs,
        limit_s=arguments.limit,
        proof_s=arguments.proof,
    )
    found: dict[str, list[Judged]] = {}
    stopped = False
    with folder_lock(arguments.output, "--output"), progress_bar("mutants", None) as (progress, task):
        try:
            with single_interrupt():
                for name, plan in plans.items():

                    def told(what: str, done: int, total: int, name: str = name) -> None:
                        progress.update(task, description=f"{name}: {what}", completed=done, total=total)

                    place = arguments.output.resolve() / _folder(name, arguments.settings)
                    found[name] = judge_core(plan, settings, place, yosys, resume=arguments.resume, told=told)
        except KeyboardInterrupt:
            stopped = True
    console = output()
    console.print(_table(found))
    console.print(_FOOT, soft_wrap=True)
    for name, judged in found.items():
        for each in sorted(judged, key=lambda each: (each.mutant.source or "~", each.mutant.number)):
            if each.alive:
                console.print(_survivor(name, each), markup=False, soft_wrap=True)
    write_json(arguments.json, {"complete": not stopped, "cores": {name: _record(found[name]) for name in found}})
    if stopped:
        console.print(f"INCOMPLETE: interrupted after {len(found)} of {len(plans)} cores; --resume goes on")
        return INTERRUPTED
    return OK


def _plan(preset: str, settings: Sequence[str]) -> Plan:
    config = configuration(argparse.Namespace(preset=preset, settings=settings))
    return Plan(config=config, label=" ".join([f"--preset {preset}", *(f"--set {setting}" for setting in settings)]))


def _folder(preset: str, settings: Sequence[str]) -> Path:
    return Path("-".join([NAME, preset, *(setting.replace("=", "-").replace("/", "-") for setting in settings)]))


def _kind(each: Judged) -> str:
    """Column of a mutant."""
    if not each.killed:
        return "alive" if each.alive else each.proof
    known = {"random program": "random", "cycle costs": "costs"}
    return next((kind for start, kind in known.items() if each.test.startswith(start)), "directed")


def _counts(judged: Sequence[Judged]) -> dict[str, int]:
    counts = dict.fromkeys(_NUMBERS, 0) | {"mutants": len(judged)}
    for each in judged:
        counts[_kind(each)] += 1
    return counts


def _record(judged: Sequence[Judged]) -> dict[str, object]:
    return {**_counts(judged), "mutants": rows_of(judged)}


def _table(found: dict[str, list[Judged]]) -> Table:
    table = Table(box=None)
    for heading in ("core", *_NUMBERS):
        table.add_column(heading, justify="left" if heading == "core" else "right")
    rows = {name: _counts(judged) for name, judged in found.items()}
    for name, counts in rows.items():
        table.add_row(name, *(str(counts[number]) for number in _NUMBERS))
    if len(rows) > 1:
        table.add_row("all", *(str(sum(counts[number] for counts in rows.values())) for number in _NUMBERS))
    return table


def _survivor(name: str, each: Judged) -> str:
    """A line on a mutant that nothing found."""
    mutant = each.mutant
    proof = f" ({each.proof})" if each.proof else ""
    where = f"{mutant.source or 'no source'}: {name} mutant {mutant.number}"
    return f"{where}: {mutant.module} {mutant.cell} {mutant.port}[{mutant.bit}] {mutant.change}{proof}"
