"""``xpulpnn cosim ulppack``: products of packed operands, bit-serial ones and ordinary ones side by side."""

import argparse
from pathlib import Path
from typing import Any

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.api.packed_sweeps import SWEEPS, USUAL_MATMUL, USUAL_PAIRS, Wanted, sweep_points
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    comma_list,
    output,
    progress_bar,
    require_folder,
    require_writable,
    simulated_configuration,
    write_json,
)
from xpulpnn_sim.explorer.report.packed_grids import Grid, bytes_cycles, grids
from xpulpnn_sim.explorer.report.packed_plots import write_packed_plots
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.packed_products import run_points
from xpulpnn_sw.layer import MatmulLayer
from xpulpnn_sw.ulppack.packing import ISAS

NAME = "ulppack"
HELP = "matrix products of operands packed into wide ones, and bit-serial ones"

_ALL = "all"
_OPTIONS = {
    "weights": None,
    "activations": None,
    "matmul": None,
    "isa": None,
    "scheme": None,
    "depth": None,
    "iter": None,
    "block": None,
    "signed": False,
    "sweep": None,
}
"""Options of this kernel alone, with the values that mean nothing was asked for."""

_SHARED = ("kernel", "preset", "settings", "exact", "no_check", "seed", "jobs", "json", "plot", "grant_stalls")
"""Options of all kernels that this one has too, with those of the parser itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of packed products."""
    group = parser.add_argument_group(
        "ulppack", "With the kernel ulppack, which always runs as a program on the whole core:"
    )
    pairs = " ".join(f"W{w}A{a}" for w, a in USUAL_PAIRS)
    group.add_argument("--weights", metavar="LIST", help=f"bits of the weights, 1..8 (default, with all: {pairs})")
    group.add_argument("--activations", metavar="LIST", help="bits of the activations, combined with all --weights")
    group.add_argument("--matmul", metavar="MxKxP", help=f"channels, reduction length, pixels (default {USUAL_MATMUL})")
    group.add_argument("--isa", metavar="LIST", help=f"out of {','.join(ISAS)} (default all)")
    group.add_argument("--scheme", metavar="NAME", help="P1, P2, or with the register's bits, such as P2-16")
    group.add_argument("--depth", type=int, metavar="D", help="operands packed into one (default the best)")
    group.add_argument(
        "--iter", type=int, metavar="N", help="products added up before the result is taken out (default the most)"
    )
    group.add_argument("--block", metavar="MxP", help="channels x pixels computed together (default the best)")
    group.add_argument("--signed", action="store_true", help="signed weights, stored with an offset")
    group.add_argument(
        "--sweep",
        metavar="LIST",
        help=f"instead of the table, or with it: {', '.join(SWEEPS)} or {_ALL}. overflow: the largest depth of every "
        "pair of widths, run with the largest operands; best: the best packing of every pair; iter: ever more "
        "iterations (default W1A1); bits: equal widths; k: ever longer rows (default W3A3). --plot draws them",
    )


def refuse_its_options(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options of this kernel with another."""
    for name, value in _OPTIONS.items():
        if getattr(arguments, name) != value:
            raise InputError(f"--{name} must be left out with {arguments.kernel}: it is for {NAME}")


def run(arguments: argparse.Namespace, usual: argparse.Namespace) -> int:
    """Run the table or the sweeps; fails if a check does. ``usual`` are the arguments where none are given."""
    for name, value in vars(arguments).items():
        if name not in (*_SHARED, *_OPTIONS) and value != getattr(usual, name, value):
            raise InputError(f"--{name.replace('_', '-')} must be left out with {NAME}")
    wanted = _wanted(arguments)
    names = ["table"] if arguments.sweep is None else comma_list(arguments.sweep, tuple(SWEEPS), "--sweep")
    everything = sweep_points(names, wanted)
    machine = Machine(grant_stalls=arguments.grant_stalls, seed=arguments.seed, max_cycles=MOST_CYCLES)
    config = simulated_configuration(arguments)
    points = [point for point in everything if point.runs_on(config)]
    if not points:
        raise InputError("--isa must be one that the configuration can run, not " + ",".join(wanted.isas))
    require_writable(arguments.json)
    plot: Path | None = arguments.plot
    if plot is not None:
        require_folder(plot.parent, "--plot")
    records: list[dict[str, Any]] = []
    console = output()
    with progress_bar("products", len(points)) as (progress, task):
        for result in run_points(points, config, machine, check=not arguments.no_check, jobs=arguments.jobs):
            records.append(result.record)
            progress.advance(task)
            for report in result.reports:
                title = "W{weights}A{activations} {isa} {product} {scheme} {depth}".format(**result.record)
                console.print(f"{title}\n{report}\n", markup=False, soft_wrap=True)
    if "table" in names:
        console.print(_table([record for record in records if record["sweep"] == "table"]))
    for grid in grids(records):
        console.print(f"\n{grid.title}", markup=False, soft_wrap=True)
        console.print(_grid(grid))
    write_json(arguments.json, records)
    if plot is not None:
        write_packed_plots(plot, records)
    wrong = sum(bool(record["mismatches"]) for record in records)
    missing = len(everything) - len(points)
    left_out = f"; {missing} left out, for which the configuration lacks instructions" if missing else ""
    console.print(f"{len(records)} products, {wrong} wrong{left_out}", markup=False)
    return FAILED if wrong else OK


def _wanted(arguments: argparse.Namespace) -> Wanted:
    if (arguments.weights is None) != (arguments.activations is None):
        raise InputError("--weights must be given together with --activations, not by itself")
    pairs: list[tuple[int, int]] = []
    if arguments.weights is not None:
        activations = _numbers(arguments.activations, "--activations")
        pairs = [(w, a) for w in _numbers(arguments.weights, "--weights") for a in activations]
    for option in ("depth", "iter"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            raise InputError(f"--{option} must be at least 1, not {value}")
    isas = ISAS if arguments.isa is None else comma_list(arguments.isa, ISAS, "--isa")
    return Wanted(
        layer=MatmulLayer.parse(arguments.matmul or USUAL_MATMUL),
        pairs=pairs,
        isas=isas,
        scheme=arguments.scheme,
        depth=arguments.depth,
        iterations=arguments.iter,
        block=arguments.block,
        signed=arguments.signed,
    )


def _numbers(text: str, option: str) -> list[int]:
    known = tuple(str(bits) for bits in range(1, 9))
    return [int(name) for name in comma_list(text, known, option)]


def _table(records: list[dict[str, Any]]) -> Table:
    shown = Table(
        box=None,
        title="cycles per MAC without and with the packing of the activations; faster: than bytes of the same "
        "instruction set, without",
        title_justify="left",
    )
    left = ("bits", "isa", "product", "packing")
    for heading in (*left, "depth", "iter", "block", "cycles", "cyc/MAC", "packed too", "faster", "errors"):
        shown.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    base = bytes_cycles(records)
    for record in records:
        alone = base.get((record["isa"], record["matmul"]))
        faster = "-" if alone is None or record["kind"] == "bytes" else f"{alone / record['cycles']:.2f}x"
        shown.add_row(
            f"W{record['weights']}A{record['activations']}",
            record["isa"],
            record["product"],
            record["scheme"] or record["kind"],
            str(record["depth"]),
            str(record["iterations"]) if record["kind"] == "ulppack" else "-",
            record["block"],
            str(record["cycles"]),
            f"{record['cycles_per_mac']:.4f}",
            f"{record['cycles_per_mac_with_packing']:.4f}",
            faster,
            str(record["mismatches"]),
        )
    return shown


def _grid(grid: Grid) -> Table:
    shown = Table(box=None)
    shown.add_column(grid.corner, no_wrap=True)
    for heading in grid.columns:
        shown.add_column(heading, justify="right", no_wrap=True)
    for name in grid.rows:
        shown.add_row(name, *(grid.texts.get((name, heading), "-") for heading in grid.columns))
    return shown
