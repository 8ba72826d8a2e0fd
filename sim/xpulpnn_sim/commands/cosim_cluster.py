"""``xpulpnn cosim --cores``: kernels on clusters, side by side for every number of cores and banks."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, Arbiter, ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn.settings import apply_settings
from xpulpnn_sim.api.cluster_cosimulation import DEFAULT_CORES, cluster_cases, cluster_of, run_cluster_cases
from xpulpnn_sim.commands.cluster_options import IDEAL, icache_bytes
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    assignments,
    comma_list,
    output,
    progress_bar,
    require_folder,
    write_json,
)
from xpulpnn_sim.commands.tile_report import print_tiles
from xpulpnn_sim.explorer.report.banking import bank_gains
from xpulpnn_sim.explorer.report.scaling import speed_ups
from xpulpnn_sim.explorer.report.timeline import write_cluster_plots
from xpulpnn_sim.harness.kernel_run import Case
from xpulpnn_sim.harness.schema import DeviceWait
from xpulpnn_sw.layout import PLACEMENTS, Placement
from xpulpnn_sw.programs.tiled import Tiling

ARBITERS: tuple[Arbiter, ...] = get_args(Arbiter)

_MILLION = 1e6
_PERCENT = 100

_CONFLICT = DeviceWait.BANK_CONFLICT.name.lower()
"""Stalls that the banks are the reason of."""

_TILES = ("tile_rows", "tile_channels", "no_overlap")
"""What asks for tiles."""

_OPTIONS = ("banks", "arbiter", "placement", "icache", "l2_latency", "plot", *_TILES)
"""What ``--cores`` goes with."""

_SET_OTHERWISE = {"cores": "cores", "banks": "banks", "arbiter": "arbiter", "icache_private": "icache"}
"""Options by the settings they stand for."""

_OF_ONE_CORE = {"grant_stalls": 0.0, "response_latency": 1, "irq_rate": 0.0, "engine": "stream", "waves": None}
"""Options of one core by itself, with the values that mean nothing else was asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of clusters."""
    group = parser.add_argument_group("clusters")
    group.add_argument(
        "--cores",
        metavar="LIST",
        help=f"run on clusters of so many cores, such as {','.join(map(str, DEFAULT_CORES))}; without it one core runs "
        "by itself, with memory of its own",
    )
    usual = ClusterConfig()
    group.add_argument("--banks", metavar="LIST", help=f"banks of the shared memory (default {usual.banks})")
    group.add_argument(
        "--arbiter",
        metavar="LIST",
        help=f"who is granted a bank that several want, out of {','.join(ARBITERS)} (default {usual.arbiter})",
    )
    group.add_argument(
        "--placement",
        default=PLACEMENTS[0],
        metavar="LIST",
        help="how weight streams, and buffers and stacks of the cores, lie in the banks: padded, each two banks "
        f"further than the one before, or aligned, all from the same bank on (default {PLACEMENTS[0]})",
    )
    group.add_argument(
        "--icache",
        metavar="BYTES",
        help="give each core an instruction cache of so many bytes, and show the kernel's second pass; without it, or "
        f"with {IDEAL}, instructions are fetched without delay",
    )
    group.add_argument(
        "--l2-latency", type=int, default=1, metavar="N", help="cycles the memory outside takes to answer (default 1)"
    )
    group.add_argument(
        "--tile-rows",
        type=int,
        metavar="N",
        help="compute tiles of so many output rows (matmul: pixels), operands in the memory outside, moved by DMA; "
        "without any of the options of tiles only what does not fit into the TCDM, in tiles that take least time",
    )
    group.add_argument("--tile-channels", type=int, metavar="N", help="likewise, tiles of so many output channels")
    group.add_argument(
        "--no-overlap", action="store_true", help="likewise, and move nothing while tiles are computed: one buffer each"
    )
    group.add_argument(
        "--plot",
        type=Path,
        metavar="FILE.html",
        help="plot speed-up and MAC per cycle over the cores; with several numbers of banks the cycles of a sum of "
        "dot products; of layers in tiles what was computed and moved when; of cifar10 its layers and memory",
    )


def require_its_options(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options of clusters without ``--cores``, and for those of one core with it."""
    if arguments.cores is None:
        others, when = {name: _default(name) for name in _OPTIONS}, "without"
    else:
        others, when = _OF_ONE_CORE, "with"
    for name, value in others.items():
        if getattr(arguments, name) != value:
            raise InputError(f"--{name.replace('_', '-')} must be left out {when} --cores")


def _default(name: str) -> Any:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.get_default(name)


def configured(arguments: argparse.Namespace) -> ClusterConfig:
    """The cluster that ``--preset`` and ``--set`` describe."""
    settings = assignments(arguments)
    for name, option in _SET_OTHERWISE.items():
        if name in settings:
            raise InputError(f"--set {name} must be left out, for --{option} says it")
    named = CLUSTER_PRESETS.get(arguments.preset) or ClusterConfig(core=preset(arguments.preset))
    return cluster_of(apply_settings(named, settings), exact=arguments.exact)


def run(arguments: argparse.Namespace, cluster: ClusterConfig, cases: Sequence[Case]) -> int:
    """Run the cases on every variation of ``cluster`` asked for; fails if a check does."""
    clustered = cluster_cases(
        cases,
        cluster,
        cores=_numbers(arguments.cores, "--cores"),
        banks=() if arguments.banks is None else _numbers(arguments.banks, "--banks"),
        arbiters=()
        if arguments.arbiter is None
        else cast("list[Arbiter]", comma_list(arguments.arbiter, ARBITERS, "--arbiter")),
        placements=cast("list[Placement]", comma_list(arguments.placement, PLACEMENTS, "--placement")),
        icache=icache_bytes(IDEAL if arguments.icache is None else arguments.icache),
        tiling=_tiling(arguments),
    )
    if arguments.plot is not None:
        require_folder(arguments.plot.parent, "--plot")
    records: list[dict[str, Any]] = []
    console = output()
    with progress_bar("kernels", len(clustered)) as (progress, task):
        for case, result in zip(clustered, run_cluster_cases(clustered, arguments.jobs), strict=True):
            records.append(result.record)
            progress.advance(task)
            for report in result.reports:
                console.print(f"{case.name}\n{report}\n", markup=False, soft_wrap=True)
    console.print(table(records))
    for record in records:
        if "tiling" in record:
            print_tiles(console, record)
    write_json(arguments.json, records)
    if arguments.plot is not None:
        write_cluster_plots(arguments.plot, records)
    return FAILED if any(record["mismatches"] for record in records) else OK


def _tiling(arguments: argparse.Namespace) -> Tiling | None:
    """The tiles asked for."""
    if all(getattr(arguments, name) == _default(name) for name in _TILES):
        return None
    return Tiling(rows=arguments.tile_rows, channels=arguments.tile_channels, overlap=not arguments.no_overlap)


def _numbers(text: str, option: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        if not part.strip().isdecimal():
            raise InputError(f"{option} must be a list of numbers such as 8,16, not {text or 'empty'}")
        numbers.append(int(part))
    return list(dict.fromkeys(numbers))


def table(records: Sequence[Mapping[str, Any]]) -> Table:
    """The figures, a row for every run."""
    shown = Table(
        box=None,
        title="cycles, MAC per cycle: whole kernel, from barrier to barrier; conflicts in banks, waiting for the last "
        "core: share of all cores' cycles",
        title_justify="left",
    )
    gains = bank_gains(records)
    columns: tuple[tuple[str, Callable[[Mapping[str, Any], float | None], str]], ...] = (
        ("layer", lambda record, _: record["layer"]),
        ("precision", lambda record, _: record["precision"]),
        ("variant", lambda record, _: record["variant"]),
        ("banks", lambda record, _: str(record["banks"])),
        ("arbiter", lambda record, _: record["arbiter"]),
        ("placement", lambda record, _: record["placement"]),
        ("icache", lambda record, _: str(record["icache"] or IDEAL)),
        ("cores", lambda record, _: str(record["cores"])),
        ("cycles", lambda record, _: str(record["cycles"])),
        ("cyc/sdotp", lambda record, _: f"{record['cycles_per_sdotp']:.3f}"),
        ("MAC/cyc", lambda record, _: f"{record['macs_per_cycle']:.2f}"),
        ("speed-up", lambda _, speed_up: "-" if speed_up is None else f"{speed_up:.2f}"),
        ("conflicts", lambda record, _: _share(record, record["stalls"].get(_CONFLICT, 0))),
        ("last core", lambda record, _: _share(record, record["barrier"])),
        ("errors", lambda record, _: str(record["mismatches"])),
        ("Mcyc/s", lambda record, _: f"{record['sim_cycles_per_s'] / _MILLION:.2f}"),
    )
    words = {"layer", "precision", "variant", "arbiter", "placement"}
    for heading, _ in columns:
        shown.add_column(heading, justify="left" if heading in words else "right", no_wrap=True)
    varied = any(gain is not None for gain in gains)
    if varied:
        shown.add_column("2x banks", justify="right", no_wrap=True)
        shown.title = f"{shown.title}; 2x banks: cycles per sdotp with half as many over those here"
    for record, speed_up, gain in zip(records, speed_ups(records), gains, strict=True):
        shown.add_row(
            *(text(record, speed_up) for _, text in columns),
            *(["-" if gain is None else f"{_PERCENT * gain:+.1f}%"] if varied else []),
        )
    return shown


def _share(record: Mapping[str, Any], cycles: int) -> str:
    return f"{_PERCENT * cycles / max(record['cores'] * record['cycles'], 1):.1f}%"
