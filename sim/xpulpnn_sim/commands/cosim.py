"""``xpulpnn cosim``: kernels on the design, every retirement checked, and their cycles beside the papers'."""

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_exact,
    add_json,
    comma_list,
    output,
    progress_bar,
    require_folder,
    require_writable,
    simulated_configuration,
    write_json,
)
from xpulpnn_sim.harness.engine import BusTiming, Waves
from xpulpnn_sim.harness.kernel_run import Case, Result, run_case
from xpulpnn_sim.harness.models import core_library, model_library
from xpulpnn_sim.harness.program_run import run_program_case
from xpulpnn_sw.kernels.figures import PAPER_LARGE_LAYER, PAPER_LAYER, estimate, paper_cycles_per_sdotp
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer, MatmulLayer

WIDTHS = ("16", "8", "4", "2")
ENGINES = {"stream": run_case, "core": run_program_case}
"""What runs a case, by the names of ``--engine``."""

DEFAULT_VARIANTS = "xpulpv2_4x2,simd_4x2,cu_4x2,nn_4x2,nn_4x4"
DEFAULT_LAYERS = {"conv": PAPER_LAYER, "matmul": "64x288x256"}

_BEFORE, _AFTER = 50, 20
"""Instructions in the waveforms before and after a mismatch."""

_MILLION = 1e6

_BEGINNING = 2000
"""Cycles of waveforms when nothing is wrong."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("kernel", choices=tuple(DEFAULT_LAYERS), help="whole convolution, or the MatMul alone")
    parser.add_argument(
        "--layer",
        action="append",
        metavar="SPEC",
        help="conv: HxWxC:OxKyxKx[:s=,p=], matmul: CxKxP; repeatable "
        f"(default {' and '.join(DEFAULT_LAYERS.values())})",
    )
    parser.add_argument(
        "--bits", default="8,4,2", metavar="LIST", help="operand widths out of 16,8,4,2 (default 8,4,2)"
    )
    parser.add_argument(
        "--variant",
        default=DEFAULT_VARIANTS,
        metavar="LIST",
        help=f"out of {','.join(VARIANTS)}, or all (default {DEFAULT_VARIANTS})",
    )
    add_configuration(parser, "xpulpnn-full")
    add_exact(parser)
    parser.add_argument(
        "--engine",
        choices=tuple(ENGINES),
        default="stream",
        help="stream: the back end, fed with the executed instructions; core: the whole core runs the kernel as a "
        "program from memory (default stream)",
    )
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="cores; only 1")
    parser.add_argument("--grant-stalls", type=float, default=0.0, metavar="P", help="probability of a withheld grant")
    parser.add_argument("--response-latency", type=int, default=1, metavar="N", help="responses take 1 to N cycles")
    parser.add_argument("--no-check", action="store_true", help="compare the results only, not every instruction")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of tensors and memory timing (default 0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument("--waves", type=Path, metavar="FILE.fst", help="waveforms around the first mismatch")
    parser.add_argument("--waves-window", metavar="A:B", help="cycles of the first kernel to write instead")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every combination of layer, width and variant; fails if a check does."""
    cases = _cases(arguments)
    window = _window(arguments)
    if arguments.engine == "core" and arguments.waves is not None:
        raise InputError("--waves must be left out with --engine core: xpulpnn run writes them for programs")
    require_writable(arguments.json)
    if arguments.waves is not None:
        require_folder(arguments.waves.parent, "--waves")
    if arguments.engine == "core":
        core_library(cases[0].config)
    else:
        model_library(cases[0].config, checked=cases[0].checked)
    with progress_bar("kernels", len(cases)) as (progress, task):
        results = []
        for result in _run_all(ENGINES[arguments.engine], cases, arguments.jobs):
            results.append(result)
            progress.advance(task)
    console = output()
    for result in results:
        for report in result.reports:
            name = "{kernel} {layer} {bits} bit {variant}".format(**result.record)
            console.print(f"{name}\n{report}\n", markup=False, soft_wrap=True)
    console.print(_table([result.record for result in results]))
    write_json(arguments.json, [result.record for result in results])
    if arguments.waves is not None:
        _write_waves(arguments.waves, window, cases, results)
    return FAILED if any(result.record["mismatches"] for result in results) else OK


def _cases(arguments: argparse.Namespace) -> list[Case]:
    config = simulated_configuration(arguments)
    if arguments.cores != 1:
        raise InputError(f"--cores must be 1, not {arguments.cores}")
    if arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {arguments.jobs}")
    if arguments.seed < 0:
        raise InputError(f"--seed must be at least 0, not {arguments.seed}")
    timing = BusTiming(
        grant_stalls=arguments.grant_stalls, response_latency=arguments.response_latency, seed=arguments.seed
    )
    layer_type = ConvLayer if arguments.kernel == "conv" else MatmulLayer
    cases = [
        Case(
            layer=layer_type.parse(layer),
            bits=int(bits),
            variant=name,
            config=config,
            timing=timing,
            checked=not arguments.no_check,
        )
        for layer in arguments.layer or [DEFAULT_LAYERS[arguments.kernel]]
        for bits in comma_list(arguments.bits, WIDTHS, "--bits")
        for name in comma_list(arguments.variant, tuple(VARIANTS), "--variant")
    ]
    for case in cases:
        case.check()
    return cases


def _window(arguments: argparse.Namespace) -> tuple[int, int] | None:
    if arguments.waves_window is None:
        return None
    first, colon, last = arguments.waves_window.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise InputError(f"--waves-window must be A:B with A <= B, not {arguments.waves_window}")
    return int(first), int(last)


def _run_all(run_one: Callable[[Case], Result], cases: list[Case], jobs: int) -> Iterator[Result]:
    if jobs == 1 or len(cases) == 1:
        yield from map(run_one, cases)
        return
    # a fresh interpreter for each process: the progress bar's thread must not be forked
    with ProcessPoolExecutor(min(jobs, len(cases)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_one, cases)


def _write_waves(path: Path, window: tuple[int, int] | None, cases: list[Case], results: list[Result]) -> None:
    """Repeat one kernel on a model that writes waveforms: the first wrong one unless cycles are given."""
    chosen = next((i for i, result in enumerate(results) if result.record["mismatches"]), 0)
    if window is not None:
        run_case(cases[0], Waves(path=path, first=window[0], last=window[1]))
        return
    position = results[chosen].mismatch_position
    if position is None:
        waves = Waves(path=path, first=0, last=_BEGINNING)
    else:
        waves = Waves(path=path, first=max(position - _BEFORE, 0), last=position + _AFTER, by_instruction=True)
    run_case(cases[chosen], waves)


_LAYER_OF_MATMUL = {"64x288x256": PAPER_LAYER, "64x288x1024": PAPER_LARGE_LAYER}
"""Layers of the paper whose MatMul these are."""


def _figures(record: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Cycles per sdotp in the paper and estimated, MAC per cycle estimated."""
    name = record["layer"] if record["kernel"] == "conv" else _LAYER_OF_MATMUL.get(record["layer"])
    if name is None:
        return None, None, None
    layer = ConvLayer.parse(name)
    estimated = estimate(layer, record["bits"], record["variant"])
    paper = paper_cycles_per_sdotp(layer, record["bits"], record["variant"])
    if estimated is None:
        return paper, None, None
    return paper, estimated.cycles_per_sdotp, estimated.macs_per_cycle if record["kernel"] == "conv" else None


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _table(records: list[dict[str, Any]]) -> Table:
    table = Table(box=None, title="cycles per sdotp: MatMul alone; MAC per cycle: whole kernel", title_justify="left")
    headings = (
        "layer",
        "bits",
        "variant",
        "cycles",
        "cyc/sdotp",
        "paper",
        "model",
        "MAC/cyc",
        "model",
        "OPEF",
        "errors",
    )
    for heading in (*headings, "Mcyc/s"):
        table.add_column(heading, justify="left" if heading in ("layer", "variant") else "right", no_wrap=True)
    for record in records:
        paper, cycles_per_sdotp, macs_per_cycle = _figures(record)
        table.add_row(
            record["layer"],
            str(record["bits"]),
            record["variant"],
            str(record["cycles"]),
            _number(record["cycles_per_sdotp"], 3),
            _number(paper, 3),
            _number(cycles_per_sdotp, 3),
            _number(record["macs_per_cycle"], 2),
            _number(macs_per_cycle, 2),
            _number(record["opef"], 2),
            str(record["mismatches"]),
            _number(record["sim_cycles_per_s"] / _MILLION, 2),
        )
    return table
