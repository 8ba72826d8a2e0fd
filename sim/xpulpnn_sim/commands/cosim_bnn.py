"""``xpulpnn cosim bnn``: the binarised vehicle classifier, beside the figures of its paper."""

import argparse
from typing import Any

from rich.table import Table

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    comma_list,
    output,
    progress_bar,
    require_writable,
    simulated_configuration,
    write_json,
)
from xpulpnn_sim.harness.bnn_run import HARDWARE, POPCOUNTS, SOFTWARE, BnnCase, run_bnn
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sw.bnn.classifier import VARIANTS

NAME = "bnn"
HELP = "the binarised vehicle classifier, random weights and a synthetic image"

_SHARED = (
    "kernel",
    "preset",
    "settings",
    "exact",
    "no_check",
    "seed",
    "json",
    "cores",
    "popcount",
    "grant_stalls",
    "variant",
)

_WINDOW, _CRUMBS = "window", "crumbs"
"""The variant of one core only, and the one that counts by ``p.cnt`` only."""

_PAPER = {
    SOFTWARE: (84_078_092, 86.5e6),
    HARDWARE: (37_830_833, 38.9e6),
}
"""Instructions, and cycles from its seconds at 33 MHz, of the paper, which packs one window of a channel to a word."""

_PAPER_OPERATIONS = {"xor": 3_302_048, "compare": 2_553_032}
"""Words compared, and numbers that become bits, in the paper."""

_MILLION = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the classifier."""
    group = parser.add_argument_group("bnn", "With the kernel bnn, which always runs as a program on whole cores:")
    group.add_argument(
        "--popcount",
        metavar="LIST",
        help=f"how bits are counted, out of {','.join(POPCOUNTS)} (default all, with --cores {HARDWARE}); --variant is "
        f"how they lie in words, out of {','.join(VARIANTS)}: a window of one channel to a word, as in the paper, 32 "
        "channels to a word, or these as crumbs of two bits in the second convolution (default all, with --cores all "
        f"but {_WINDOW})",
    )


def refuse_its_options(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options of this kernel with another."""
    if arguments.popcount is not None:
        raise InputError(f"--popcount must be left out with {arguments.kernel}: it is for {NAME}")


def run(arguments: argparse.Namespace, usual: argparse.Namespace) -> int:
    """Classify an image in every way asked for; fails if a check does. ``usual`` are the arguments' defaults."""
    for name, value in vars(arguments).items():
        if name not in _SHARED and value != getattr(usual, name, value):
            raise InputError(f"--{name.replace('_', '-')} must be left out with {NAME}")
    cores = [1] if arguments.cores is None else _cores(arguments.cores)
    ways = _ways(arguments)
    require_writable(arguments.json)
    core = simulated_configuration(arguments)
    machine = Machine(grant_stalls=arguments.grant_stalls, seed=arguments.seed, max_cycles=MOST_CYCLES)
    ways = _able(ways, core, is_open=arguments.variant is None)
    cases = [
        BnnCase(
            variant=variant,
            popcount=popcount,
            config=_machine(core, count),
            machine=machine,
            checked=not arguments.no_check,
        )
        for variant, popcount in ways
        for count in cores
    ]
    records: list[dict[str, Any]] = []
    console = output()
    with progress_bar("classifications", len(cases)) as (progress, task):
        for case in cases:
            result = run_bnn(case)
            records.append(result.record)
            progress.advance(task)
            for report in result.reports:
                name = f"{case.variant}, {case.popcount} popcount, {case.cores} cores"
                console.print(f"{name}\n{report}\n", markup=False, soft_wrap=True)
    console.print(_table(records))
    write_json(arguments.json, records)
    return FAILED if any(record["mismatches"] for record in records) else OK


def _ways(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Variants and how they count."""
    alone = arguments.cores is None
    variants = [name for name in VARIANTS if alone or name != _WINDOW]
    if arguments.variant is not None:
        variants = comma_list(arguments.variant, tuple(VARIANTS), "--variant")
        if not alone and _WINDOW in variants:
            raise InputError(f"--variant must be without {_WINDOW} with --cores: its maps do not fit into the TCDM")
    popcounts = list(POPCOUNTS if alone else POPCOUNTS[:1])
    if arguments.popcount is not None:
        popcounts = comma_list(arguments.popcount, POPCOUNTS, "--popcount")
    ways = [(variant, popcount) for variant in variants for popcount in popcounts]
    ways = [way for way in ways if way != (_CRUMBS, SOFTWARE)]
    if not ways:
        raise InputError(f"--popcount must be {HARDWARE} with {_CRUMBS}, not {SOFTWARE}")
    return ways


def _able(ways: list[tuple[str, str]], core: CoreConfig, *, is_open: bool) -> list[tuple[str, str]]:
    """Those that the core can run: it must be all unless the choice was left open."""
    able = [way for way in ways if VARIANTS[way[0]] <= core.extensions]
    if able and (is_open or len(able) == len(ways)):
        return able
    variant = next(way[0] for way in ways if way not in able)
    missing = min(extension.value for extension in VARIANTS[variant] - core.extensions)
    raise InputError(f"variant must be one that the configuration can run, not {variant} (needs {missing})")


def _cores(text: str) -> list[int]:
    known = tuple(str(count) for count in range(1, MAX_CORES + 1))
    return [int(name) for name in comma_list(text, known, "--cores")]


def _machine(core: CoreConfig, cores: int) -> CoreConfig | ClusterConfig:
    """One core has memory of its own; several are a cluster, whose adders are those of the core."""
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


def _table(records: list[dict[str, Any]]) -> Table:
    layers = [name for name in records[0]["layers"] if name != "setup"]
    title = "millions of instructions and cycles; layers: of core 0; paper: its cycles over ours"
    shown = Table(box=None, title=title, title_justify="left")
    shown.add_column("variant", no_wrap=True)
    shown.add_column("popcount", no_wrap=True)
    for heading in ("cores", "Minsn", "Mxor", "Mcompare", "Mcycles", "paper", "speed-up", *layers, "errors"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for popcount, (instructions, cycles) in _PAPER.items():
        shown.add_row("paper", popcount, "1", *_millions(instructions, _PAPER_OPERATIONS, cycles))
    alone = {_way(record): record["cycles"] for record in records if record["cores"] == 1}
    for record in records:
        single, (_, paper) = alone.get(_way(record)), _PAPER[record["popcount"]]
        shown.add_row(
            *_way(record),
            str(record["cores"]),
            *_millions(record["instructions"], record["operations"], record["cycles"]),
            f"{paper / record['cycles']:.2f}",
            "-" if single is None else f"{single / record['cycles']:.2f}",
            *(f"{record['layers'][name] / _MILLION:.3f}" for name in layers),
            str(record["mismatches"]),
        )
    return shown


def _way(record: dict[str, Any]) -> tuple[str, str]:
    return record["variant"], record["popcount"]


def _millions(instructions: int, operations: dict[str, int], cycles: float) -> list[str]:
    figures = (instructions, *operations.values(), cycles)
    return [f"{figure / _MILLION:.2f}" for figure in figures]
