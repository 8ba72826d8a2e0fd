"""``xpulpnn cosim``: kernels on the design, every retirement checked, and their cycles beside the papers'."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ConfigError, InputError
from xpulpnn_sim.api.configuration import able_variants
from xpulpnn_sim.api.cosimulation import (
    BEYOND_CONFIG,
    DEFAULT_CONFIG,
    DEFAULT_WIDTHS,
    MOST_CYCLES,
    kernel_cases,
    run_cases,
)
from xpulpnn_sim.api.random_layers import covered, random_cases, turns
from xpulpnn_sim.commands import cosim_bnn, cosim_cifar10, cosim_cluster, cosim_ulppack
from xpulpnn_sim.commands.channelwise_table import channelwise_table
from xpulpnn_sim.commands.common import (
    BOTH_FORMS,
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
from xpulpnn_sim.commands.kernel import (
    add_kernel,
    add_precision,
    add_requantise,
    add_specialise,
    forms,
    precisions,
    rule_of,
)
from xpulpnn_sim.harness.kernel_run import ENGINES, Case, Result, run_case
from xpulpnn_sim.harness.machine import Machine, Waves
from xpulpnn_sw.kernels.figures import PAPER_LARGE_LAYER, PAPER_LAYER, estimate, paper_cycles_per_sdotp
from xpulpnn_sw.kernels.kinds import USUAL_VARIANTS, Kind, kind
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layers.channelwise import MapLayer, WindowLayer
from xpulpnn_sw.precision import Precision

_OTHERS = (cosim_ulppack, cosim_bnn, cosim_cifar10)
"""Modules of kernels with options and tables of their own."""

_BEFORE, _AFTER = 50, 20
"""Instructions in the waveforms before and after a mismatch."""

_MILLION = 1e6

_BEGINNING = 2000
"""Cycles of waveforms when nothing is wrong."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    add_kernel(parser, {one.NAME: one.HELP for one in _OTHERS})
    parser.add_argument(
        "--layer",
        action="append",
        metavar="SPEC",
        help=f"{forms()}; repeatable (default conv {kind('conv').usual}; of the others one that suits)",
    )
    add_precision(parser, ",".join(map(str, DEFAULT_WIDTHS)), "LIST")
    parser.add_argument(
        "--variant",
        metavar="LIST",
        help=f"conv and matmul: out of {','.join(VARIANTS)} (default {','.join(USUAL_VARIANTS)}); other kernels have "
        "others, which an unknown name lists; or all. Of the default and of all those that the core can run",
    )
    add_requantise(parser)
    parser.add_argument(
        "--random",
        type=int,
        metavar="N",
        help="N random layers of the kernel instead of --layer, each with a precision, variant and rule out of those "
        "given, or of all; one in four with random memory timing",
    )
    add_configuration(parser, DEFAULT_CONFIG, f"{BOTH_FORMS}; {BEYOND_CONFIG} for variants that need it")
    # what was not asked for may differ between variants
    parser.set_defaults(preset=None)
    add_exact(parser)
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="stream",
        help="stream: the back end, fed with the executed instructions; core: the whole core runs the kernel as a "
        "program from memory (default stream)",
    )
    add_specialise(parser)
    parser.add_argument("--grant-stalls", type=float, default=0.0, metavar="P", help="probability of a withheld grant")
    parser.add_argument("--response-latency", type=int, default=1, metavar="N", help="responses take 1 to N cycles")
    parser.add_argument(
        "--irq-rate",
        type=float,
        default=0.0,
        metavar="P",
        help="probability per cycle that an interrupt line rises, with --engine core; the handler uses the stack",
    )
    parser.add_argument("--no-check", action="store_true", help="compare the results only, not every instruction")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of tensors and memory timing (default 0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument("--waves", type=Path, metavar="FILE.fst", help="waveforms around the first mismatch")
    parser.add_argument("--wave-window", metavar="FROM:TO", help="cycles of the first kernel to write instead")
    add_json(parser)
    cosim_cluster.add_arguments(parser)
    for one in _OTHERS:
        one.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every combination of layer, width and variant; fails if a check does."""
    for one in _OTHERS:
        if arguments.kernel != one.NAME:
            one.refuse_its_options(arguments)
    is_open = arguments.preset is None
    if is_open:
        arguments.preset = DEFAULT_CONFIG
    for one in _OTHERS:
        if arguments.kernel == one.NAME:
            return one.run(arguments, _usual(arguments.kernel))
    cosim_cluster.require_its_options(arguments)
    cluster = None if arguments.cores is None else cosim_cluster.configured(arguments)
    config = simulated_configuration(arguments) if cluster is None else cluster.core
    beyond = _beyond(arguments) if is_open else None
    cases = _cases(arguments, config, beyond)
    window = None if arguments.wave_window is None else Waves.window(arguments.wave_window)
    if arguments.engine == "core" and arguments.waves is not None:
        raise InputError("--waves must be left out with --engine core: xpulpnn run writes them for programs")
    if arguments.engine == "stream" and arguments.irq_rate:
        raise InputError("--irq-rate must be left out with --engine stream")
    require_writable(arguments.json)
    if arguments.waves is not None:
        require_folder(arguments.waves.parent, "--waves")
    if cluster is not None:
        code = cosim_cluster.run(arguments, cluster, cases)
        _print_coverage(arguments, cases, config, beyond)
        return code
    with progress_bar("kernels", len(cases)) as (progress, task):
        results = []
        for result in run_cases(cases, arguments.engine, arguments.jobs):
            results.append(result)
            progress.advance(task)
    console = output()
    for result in results:
        for report in result.reports:
            name = "{kernel} {layer} {precision} {variant}".format(**result.record)
            console.print(f"{name}\n{report}\n", markup=False, soft_wrap=True)
    shown = channelwise_table if isinstance(cases[0].layer, MapLayer | WindowLayer) else _table
    console.print(shown([result.record for result in results]))
    _print_coverage(arguments, cases, config, beyond)
    write_json(arguments.json, [result.record for result in results])
    if arguments.waves is not None:
        _write_waves(arguments.waves, window, cases, results)
    return FAILED if any(result.record["mismatches"] for result in results) else OK


def _usual(kernel: str) -> argparse.Namespace:
    """The options where none are given."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    usual = parser.parse_args([kernel])
    usual.preset = DEFAULT_CONFIG
    return usual


def _beyond(arguments: argparse.Namespace) -> CoreConfig | None:
    """The core of variants that need more than the default preset; None if the settings leave nothing of it."""
    asked = argparse.Namespace(**vars(arguments) | {"preset": BEYOND_CONFIG})
    try:
        return simulated_configuration(asked)
    except ConfigError:
        return None


def _variants(arguments: argparse.Namespace, chosen: Kind, config: CoreConfig, beyond: CoreConfig | None) -> list[str]:
    """The variants asked for; of all those that the core can run."""
    if arguments.variant is None:
        return []
    names = comma_list(arguments.variant, tuple(chosen.variants), "--variant")
    return names if arguments.variant != "all" else list(able_variants(chosen, names, config, beyond))


def _cases(arguments: argparse.Namespace, config: CoreConfig, beyond: CoreConfig | None) -> list[Case]:
    if arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {arguments.jobs}")
    machine = Machine(
        grant_stalls=arguments.grant_stalls,
        response_latency=arguments.response_latency,
        l2_latency=arguments.l2_latency,
        irq_rate=arguments.irq_rate,
        seed=arguments.seed,
        max_cycles=MOST_CYCLES,
    )
    chosen = kind(arguments.kernel)
    if arguments.random is not None:
        return _random_cases(arguments, config, beyond, machine)
    return kernel_cases(
        arguments.kernel,
        layers=arguments.layer or [chosen.usual if arguments.cores is None else chosen.usual_in_cluster],
        precisions=precisions(arguments),
        variants=_variants(arguments, chosen, config, beyond),
        config=config,
        beyond=beyond,
        machine=machine,
        check=not arguments.no_check,
        specialise=arguments.specialise,
        rule=rule_of(arguments),
    )


def _print_coverage(
    arguments: argparse.Namespace, cases: list[Case], config: CoreConfig, beyond: CoreConfig | None
) -> None:
    """With random layers: how much of all that was asked for they have met."""
    if arguments.random is None:
        return
    every = len(turns(arguments.kernel, config, **_asked(arguments)._asdict(), beyond=beyond))
    output().print(f"{covered(cases)} of {every} combinations of widths and variant in {len(cases)} random layers")


class _Asked(NamedTuple):
    """What random layers are to have; nothing: anything."""

    precisions: Sequence[Precision]
    variants: Sequence[str]
    rules: Sequence[Rule]


def _asked(arguments: argparse.Namespace) -> _Asked:
    is_open = arguments.bits is None and arguments.precision is None
    known = tuple(kind(arguments.kernel).variants)
    variants = comma_list(arguments.variant, known, "--variant") if arguments.variant else ()
    rules = () if arguments.requantise is None else (rule_of(arguments),)
    return _Asked(() if is_open else precisions(arguments), variants, rules)


def _random_cases(
    arguments: argparse.Namespace, config: CoreConfig, beyond: CoreConfig | None, machine: Machine
) -> list[Case]:
    if arguments.layer is not None:
        raise InputError("--layer must be left out with --random")
    return random_cases(
        arguments.kernel,
        arguments.random,
        config=config,
        beyond=beyond,
        machine=machine,
        **_asked(arguments)._asdict(),
        check=not arguments.no_check,
        timing=arguments.cores is None,
    )


def _write_waves(path: Path, window: tuple[int, int] | None, cases: list[Case], results: list[Result]) -> None:
    """Repeat one kernel on a model that writes waveforms: the first wrong one unless cycles are given."""
    chosen = next((i for i, result in enumerate(results) if result.record["mismatches"]), 0)
    if window is not None:
        run_case(cases[0], waves=Waves(path=path, first=window[0], last=window[1]))
        return
    position = results[chosen].mismatch_position
    if position is None:
        waves = Waves(path=path, first=0, last=_BEGINNING)
    else:
        waves = Waves(path=path, first=max(position - _BEFORE, 0), last=position + _AFTER, by_instruction=True)
    run_case(cases[chosen], waves=waves)


_LAYER_OF_MATMUL = {"64x288x256": PAPER_LAYER, "64x288x1024": PAPER_LARGE_LAYER}
"""Layers of the paper whose MatMul these are."""


def _figures(record: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Cycles per sdotp in the paper and estimated, MAC per cycle estimated."""
    name = record["layer"] if record["kernel"] == "conv" else _LAYER_OF_MATMUL.get(record["layer"])
    if name is None or len(set(record["precision"].split("x")[:2])) > 1:
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
        "precision",
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
        table.add_column(
            heading, justify="left" if heading in ("layer", "precision", "variant") else "right", no_wrap=True
        )
    for record in records:
        paper, cycles_per_sdotp, macs_per_cycle = _figures(record)
        table.add_row(
            record["layer"],
            record["precision"],
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
