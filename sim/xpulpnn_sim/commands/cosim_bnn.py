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
from xpulpnn_sim.harness.bnn_run import POPCOUNTS, BnnCase, run_bnn
from xpulpnn_sim.harness.machine import Machine

NAME = "bnn"
HELP = "the binarised vehicle classifier, random weights and a synthetic image"

_SHARED = ("kernel", "preset", "settings", "exact", "no_check", "seed", "json", "cores", "popcount", "grant_stalls")

_PAPER = {
    "paper, software": (84_078_092, 86.5e6),
    "paper, hardware": (37_830_833, 38.9e6),
}
"""Instructions, and cycles from its seconds at 33 MHz, of the paper, which packs one window of a channel to a word."""

_MILLION = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the classifier."""
    group = parser.add_argument_group("bnn", "With the kernel bnn, which always runs as a program on whole cores:")
    group.add_argument(
        "--popcount",
        metavar="LIST",
        help=f"how bits are counted, out of {','.join(POPCOUNTS)} (default all, with --cores {POPCOUNTS[0]})",
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
    default = POPCOUNTS if arguments.cores is None else POPCOUNTS[:1]
    popcounts = list(default) if arguments.popcount is None else comma_list(arguments.popcount, POPCOUNTS, "--popcount")
    cores = [1] if arguments.cores is None else _cores(arguments.cores)
    require_writable(arguments.json)
    core = simulated_configuration(arguments)
    machine = Machine(grant_stalls=arguments.grant_stalls, seed=arguments.seed, max_cycles=MOST_CYCLES)
    if not core.xpulpv2:
        raise InputError(f"xpulpv2 must be true with {NAME}, not false")
    cases = [
        BnnCase(popcount=popcount, config=_machine(core, count), machine=machine, checked=not arguments.no_check)
        for popcount in popcounts
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
                console.print(f"{case.popcount} popcount, {case.cores} cores\n{report}\n", markup=False, soft_wrap=True)
    console.print(_table(records))
    write_json(arguments.json, records)
    return FAILED if any(record["mismatches"] for record in records) else OK


def _cores(text: str) -> list[int]:
    known = tuple(str(count) for count in range(1, MAX_CORES + 1))
    return [int(name) for name in comma_list(text, known, "--cores")]


def _machine(core: CoreConfig, cores: int) -> CoreConfig | ClusterConfig:
    """One core has memory of its own; several are a cluster, whose adders are those of the core."""
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


def _table(records: list[dict[str, Any]]) -> Table:
    layers = [name for name in records[0]["layers"] if name != "setup"]
    shown = Table(box=None, title="millions of instructions and cycles; layers: of core 0", title_justify="left")
    shown.add_column("popcount", no_wrap=True)
    for heading in ("cores", "Minsn", "Mcycles", "speed-up", *layers, "errors"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for name, (instructions, cycles) in _PAPER.items():
        shown.add_row(name, "1", f"{instructions / _MILLION:.2f}", f"{cycles / _MILLION:.2f}")
    alone = {record["popcount"]: record["cycles"] for record in records if record["cores"] == 1}
    for record in records:
        single = alone.get(record["popcount"])
        shown.add_row(
            record["popcount"],
            str(record["cores"]),
            f"{record['instructions'] / _MILLION:.2f}",
            f"{record['cycles'] / _MILLION:.2f}",
            "-" if single is None else f"{single / record['cycles']:.2f}",
            *(f"{record['layers'][name] / _MILLION:.3f}" for name in layers),
            str(record["mismatches"]),
        )
    return shown
