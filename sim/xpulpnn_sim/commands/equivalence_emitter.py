"""``xpulpnn equivalence emitter``: each module of the emitted Verilog against Amaranth's RTLIL."""

import argparse
from dataclasses import asdict
from typing import Any

from rich.table import Table

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import FAILED, OK, comma_list, configuration, output, progress_bar, write_json
from xpulpnn_sim.formal.emission import EQUAL, Outcome, Source, elaborate, prove, sources
from xpulpnn_sim.tops import TOPS, emit_top

DEFAULTS = (("top", "core"), ("modules", "all"))
"""Options of this alone, with their defaults."""

_TITLE = "each module against its RTLIL: outputs and registers, by induction over the clock edges"
_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that only the emitter has."""
    parser.add_argument(
        "--top", default="core", metavar="TOP", help=f"emitter: component out of {', '.join(TOPS)} (default core)"
    )
    parser.add_argument(
        "--modules", default=_ALL, metavar="LIST", help="emitter: modules to prove, by name (default: all of the top)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails unless every module was proved equal."""
    if arguments.top not in TOPS:
        raise InputError(f"--top must be one of {', '.join(TOPS)}, not {arguments.top}")
    designs = _configurations(arguments)
    outcomes: list[tuple[Source, Outcome]] = []
    with progress_bar("emitting", len(designs)) as (progress, task):
        new, presets = _modules(designs, arguments, lambda name: progress.update(task, advance=1, description=name))
        progress.update(task, total=sum(map(len, new)), completed=0)
        for some in new:
            progress.update(task, description="elaborating")
            for one in elaborate(some):
                progress.update(task, description=one.source.name)
                outcomes.append((one.source, prove(one, timeout_s=arguments.timeout)))
                progress.advance(task)
    console = output()
    console.print(_table(outcomes, presets, len(designs)))
    for source, outcome in outcomes:
        if outcome.verdict != EQUAL:
            console.print(f"{source.name}: {outcome.reason}{_given(outcome)}", markup=False, soft_wrap=True)
    write_json(arguments.json, [_record(source, outcome, presets[source]) for source, outcome in outcomes])
    return OK if all(outcome.verdict == EQUAL for _, outcome in outcomes) else FAILED
