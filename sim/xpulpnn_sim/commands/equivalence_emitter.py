"""``xpulpnn equivalence emitter``: each module of the emitted Verilog against Amaranth's RTLIL."""

import argparse
from dataclasses import asdict
from typing import Any

from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.verilog import RESETS
from xpulpnn_sim.commands.cluster_options import configuration_of
from xpulpnn_sim.commands.common import FAILED, OK, comma_list, output, progress_bar, write_json
from xpulpnn_sim.formal.emission import EQUAL, Outcome, Source, elaborate, prove, sources
from xpulpnn_sim.top_names import ALL_TOPS, CLUSTER_NAMES
from xpulpnn_sim.tops import emit_top

DEFAULTS = (("top", "core"), ("modules", "all"), ("reset", "sync"), ("initial", "on"))
"""Options of this alone, with their defaults."""

_TITLE = "each module against its RTLIL: outputs and registers, by induction over the clock edges"
_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that only the emitter has."""
    parser.add_argument(
        "--top", default="core", metavar="TOP", help=f"emitter: component out of {', '.join(ALL_TOPS)} (default core)"
    )
    parser.add_argument(
        "--modules", default=_ALL, metavar="LIST", help="emitter: modules to prove, by name (default: all of the top)"
    )
    parser.add_argument("--reset", choices=RESETS, default="sync", help="emitter: as in generate (default sync)")
    parser.add_argument("--initial", choices=("on", "off"), default="on", help="emitter: as in generate (default on)")


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails unless every module was proved equal."""
    if arguments.top not in ALL_TOPS:
        raise InputError(f"--top must be one of {', '.join(ALL_TOPS)}, not {arguments.top}")
    designs = _configurations(arguments)
    outcomes: list[tuple[Source, Outcome]] = []
    with progress_bar("emitting", len(designs)) as (progress, task):
        presets: dict[Source, list[str]] = {}
        batches: list[list[Source]] = []
        for name, config in designs.items():
            progress.update(task, description=f"emitting {name}")
            batches.append(_new_modules(name, config, arguments, presets))
            progress.advance(task)
        progress.reset(task, total=len(presets))
        for batch in batches:
            progress.update(task, description="reading")
            for one in elaborate(batch) if batch else ():
                progress.update(task, description=one.source.name)
                found = prove(one, timeout_s=arguments.timeout, initial=arguments.initial == "on")
                outcomes.append((one.source, found))
                progress.advance(task)
    console = output()
    console.print(_table(outcomes, presets, len(designs)))
    for source, outcome in outcomes:
        if outcome.verdict != EQUAL:
            console.print(f"{source.name}: {outcome.reason}{_given(outcome)}", markup=False, soft_wrap=True)
    equal = sum(outcome.verdict == EQUAL for _, outcome in outcomes)
    seconds = sum(outcome.seconds for _, outcome in outcomes)
    console.print(f"{equal} of {len(outcomes)} different modules equal, {seconds:.0f} s of proving")
    write_json(arguments.json, [_record(source, outcome, presets[source]) for source, outcome in outcomes])
    return OK if equal == len(outcomes) else FAILED


def _configurations(arguments: argparse.Namespace) -> dict[str, CoreConfig | ClusterConfig]:
    """What to emit, by preset."""
    known = CLUSTER_PRESETS if arguments.top in CLUSTER_NAMES else PRESETS
    names = list(known) if arguments.preset == _ALL else [arguments.preset]
    wanted = {name: argparse.Namespace(preset=name, settings=arguments.settings) for name in names}
    return {name: configuration_of(arguments.top, options) for name, options in wanted.items()}


def _new_modules(
    preset: str, config: CoreConfig | ClusterConfig, arguments: argparse.Namespace, presets: dict[Source, list[str]]
) -> list[Source]:
    """Modules of a preset that no earlier one has; notes in ``presets`` which modules it has."""
    design = emit_top(arguments.top, config, reset=arguments.reset, initial=arguments.initial == "on")
    known = list(design.modules)
    wanted = known if arguments.modules == _ALL else comma_list(arguments.modules, known, "--modules")
    new: list[Source] = []
    for source in sources(design):
        if source.name in wanted:
            if source not in presets:
                new.append(source)
            presets.setdefault(source, []).append(preset)
    return new


def _table(outcomes: list[tuple[Source, Outcome]], presets: dict[Source, list[str]], designs: int) -> Table:
    table = Table(box=None, title=_TITLE, title_justify="left")
    for heading in ("module", "presets", "bits", "method", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading in ("bits", "seconds") else "left")
    for source, outcome in outcomes:
        where = presets[source]
        names = _ALL if len(where) == designs > 1 else " ".join(where)
        table.add_row(
            source.name, names, str(outcome.bits), _method(outcome), f"{outcome.seconds:.1f}", outcome.verdict
        )
    return table


def _method(outcome: Outcome) -> str:
    if not outcome.bits_by_sat:
        return "same gates"
    return f"same gates, SAT for {outcome.bits_by_sat} bits"


def _given(outcome: Outcome) -> str:
    """The case that shows a difference."""
    if outcome.difference is None or not outcome.difference.given:
        return ""
    return " when " + ", ".join(f"{name}={value:#x}" for name, value in outcome.difference.given.items())


def _record(source: Source, outcome: Outcome, presets: list[str]) -> dict[str, Any]:
    return {
        "module": source.name,
        "presets": presets,
        "bits": outcome.bits,
        "bits_by_sat": outcome.bits_by_sat,
        "seconds": round(outcome.seconds, 3),
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "counterexample": outcome.difference and asdict(outcome.difference),
    }
