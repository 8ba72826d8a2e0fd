"""``xpulpnn cosim KERNEL``: run kernels on the design with every retirement checked, and compare cycles with papers."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import BOTH_FORMS, DEFAULT_PRESET, CoreConfig
from xpulpnn.errors import ConfigError, InputError
from xpulpnn_sim.api.cosimulation import (
    DEFAULT_WIDTHS,
    MOST_CYCLES,
    CoreChoice,
    kernel_cases,
    run_cases,
)
from xpulpnn_sim.api.random_layers import covered, random_cases, turns
from xpulpnn_sim.cli.cluster_runs import KERNEL, RUN, ClusterRuns, run_on_clusters
from xpulpnn_sim.cli.common import Columns, cells_of, finish, quotient, record_table, run_results, table, tell
from xpulpnn_sim.cli.configurations import DataTiming, Simulated
from xpulpnn_sim.cli.kernels import FORMS, Precisions, Requantising, Specialising
from xpulpnn_sim.cli.options import Count, Json, NewFile, Preset, Repeated, Seed, Words, arguments, command
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, Result, run_case
from xpulpnn_sim.tools.name_lists import select_names
from xpulpnn_sw.kernels.catalogue import KERNELS, USUAL_VARIANTS, find_kernel
from xpulpnn_sw.kernels.figures import PAPER_LARGE_LAYER, PAPER_LAYER, PUBLIC_CYCLES, estimate, paper_cycles_per_sdotp
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import ConvLayer, MapLayer, WindowLayer


def _public(record: Mapping[str, Any]) -> int | None:
    return PUBLIC_CYCLES.get((record["kernel"], record["layer"], record["bits"]))


_TITLE = "public: cycles of PULP-NN's kernels in C, compiled, on one such core; elements: read by windows"
_COLUMNS: Columns = {
    **KERNEL,
    "cycles": "{[cycles]}",
    "public": lambda record: _public(record) or "-",
    "public/ours": lambda record: quotient(_public(record), record["cycles"]),
    "instructions": "{[instructions]}",
    "elements/cyc": "{[macs_per_cycle]:.2f}",
    **RUN,
}


_KERNEL = Parameter(
    choices=tuple(KERNELS),
    help="; ".join(f"{kernel.name}: {kernel.help}" for kernel in KERNELS.values()),
    metavar="KERNEL",
    show_choices=False,
)
_PRESET = (
    f"Configuration to start from (default {BOTH_FORMS}, for both forms of Mac&Load; {DEFAULT_PRESET} for variants "
    "that need it)."
)
_LAYER = f"{FORMS}; repeatable (default conv {find_kernel('conv').usual}; of the others one that suits)."
_VARIANT = (
    f"conv and matmul: out of {', '.join(VARIANTS)} (default {', '.join(USUAL_VARIANTS)}); other kernels have others, "
    "which an unknown name lists; or all. Of the default and of all those that the core can run."
)

_BEFORE, _AFTER = 50, 20  # instructions around a mismatch

_BEGINNING = 2000  # cycles of waveforms without a mismatch


@arguments
class CosimOptions(Simulated, ClusterRuns, Precisions, Requantising, Specialising, DataTiming, Seed, Json):
    kernel: Annotated[str, _KERNEL] = field(kw_only=False)
    preset: Annotated[Preset, Parameter(help=_PRESET, show_default=False)] = ""
    layer: Annotated[Repeated, Parameter(help=_LAYER, metavar="SPEC")] = ()
    variant: Annotated[Words, Parameter(help=_VARIANT)] = ()
    random: Count | None = None
    """N random layers of the kernel instead of --layer, each with a precision, variant and rule out of those given, or
    of all; one in four with random memory timing."""
    engine: Annotated[str, Parameter(choices=ENGINES)] = "stream"
    """stream: the back end, fed with the executed instructions; core: the whole core runs the kernel as a program from
    memory."""
    irq_rate: Annotated[float, Parameter(metavar="P")] = 0.0
    """Probability per cycle that an interrupt line rises, with --engine core; the handler uses the stack."""
    halt_rate: Annotated[float, Parameter(metavar="P")] = 0.0
    """Probability per cycle that a core with debug mode is asked to halt, steps and goes on, with --engine core."""
    check: Literal["results", "all"] = "all"
    """Comparison: the results in memory, or every instruction too."""
    waves: Annotated[NewFile | None, Parameter(metavar="FILE.fst")] = None
    """Waveforms around the first mismatch."""
    wave_window: Annotated[str | None, Parameter(metavar="FROM:TO")] = None
    """Cycles of the first kernel to write instead."""

    @property
    def machine(self) -> Machine:
        return Machine.of(self, max_cycles=MOST_CYCLES)

    def variants(self, kernel: Kernel) -> tuple[str, ...]:
        if not self.variant:
            return ()
        return tuple(select_names("+".join(self.variant), tuple(kernel.variants), "--variant"))

    def require_fitting(self) -> None:
        """Raise :class:`InputError` for options that exclude each other."""
        clusters_only = {option.name for option in fields(ClusterRuns)} - {"jobs", "cores"}
        one_core_only = ("grant_stalls", "response_latency", "irq_rate", "halt_rate", "engine", "waves")
        defaults = {option.name: option.default for option in fields(self)}
        for name in one_core_only if self.cores else clusters_only:
            if getattr(self, name) != defaults[name]:
                when = "with" if self.cores else "without"
                raise InputError(f"--{name.replace('_', '-')} must be left out {when} --cores")
        if self.engine == "core" and self.waves is not None:
            raise InputError("--waves must be left out with --engine core: xpulpnn run writes them for programs")
        if self.engine == "stream" and self.irq_rate:
            raise InputError("--irq-rate must be left out with --engine stream")
        if self.engine == "stream" and self.halt_rate:
            raise InputError("--halt-rate must be left out with --engine stream")
        if self.random is not None and self.layer:
            raise InputError("--layer must be left out with --random")


@command("cosim kernel")
def cosim_kernel_command(options: CosimOptions) -> int:
    """Run every combination of layer, width and variant; fail if a check fails.

    xpulpnn cosim conv  # the papers' layer: all widths, the variants of the XpulpNN paper
    xpulpnn cosim matmul --layer 8x40x6 --bits 4 --variant nn_4x4  # one small MatMul
    xpulpnn cosim conv --engine core --bits 8 --variant nn_4x4 --grant-stalls 0.2  # on the whole core
    xpulpnn cosim conv --bits 2 --variant nn_4x4 --cores 1,8 --report build/cores.html  # shared by eight cores
    """
    options.require_fitting()
    extended = None if options.preset else _default_core(options)
    if not options.preset:
        options = replace(options, preset=BOTH_FORMS)
    cluster = options.cluster if options.cores else None
    config = options.simulated_core if cluster is None else cluster.core
    kernel, cores = find_kernel(options.kernel), CoreChoice(config, extended)
    window = None if options.wave_window is None else Waves.window(options.wave_window)
    if options.random is None:
        cases, footer = _cases(options, kernel, cores), ""
    else:
        cases, footer = _random_cases(options, kernel, cores, options.random)
    records = run_on_clusters(options, cluster, cases) if cluster is not None else _run(options, cases, window)
    if footer:
        tell(footer)
    return finish(options.json, records, good=not any(record["mismatches"] for record in records))


def _default_core(options: CosimOptions) -> CoreConfig | None:
    """Return the core for variants that need more than both forms of Mac&Load; None if the settings exclude it."""
    try:
        return replace(options, preset=DEFAULT_PRESET).simulated_core
    except ConfigError:
        return None


def _run(options: CosimOptions, cases: list[Case], window: tuple[int, int] | None) -> list[dict[str, Any]]:
    name = "{0[kernel]} {0[layer]} {0[precision]} {0[variant]}".format
    results = run_results("kernels", run_cases(cases, options.engine, options.jobs), len(cases), name)
    records = [result.record for result in results]
    is_channelwise = isinstance(cases[0].layer, MapLayer | WindowLayer)
    tell(record_table(_COLUMNS, records, title=_TITLE) if is_channelwise else _table(records))
    if options.waves is not None:
        _write_waves(options.waves, window, cases, results)
    return records


def _cases(options: CosimOptions, kernel: Kernel, cores: CoreChoice) -> list[Case]:
    variants = options.variants(kernel)
    if options.variant == ("all",):
        variants = cores.runnable(kernel, variants)
    return kernel_cases(
        kernel,
        cores,
        layers=options.layer or [kernel.usual_in_cluster if options.cores else kernel.usual],
        precisions=options.precisions(kernel, DEFAULT_WIDTHS),
        variants=variants,
        machine=options.machine,
        check=options.check == "all",
        specialise=options.specialise,
        rule=options.rule,
    )


def _random_cases(options: CosimOptions, kernel: Kernel, cores: CoreChoice, count: int) -> tuple[list[Case], str]:
    """Return random layers as requested, and a line on the combinations that they cover."""
    requested: dict[str, Any] = {
        "precisions": options.precisions(kernel) if options.bits or options.precision else (),
        "variants": options.variants(kernel),
        "rules": () if options.requantise is None else (options.rule,),
    }
    settings = {"machine": options.machine, "check": options.check == "all", "timing": not options.cores}
    cases = random_cases(kernel, cores, count, **settings, **requested)
    total = len(turns(kernel, cores, **requested))
    return cases, f"{covered(cases)} of {total} combinations of widths and variant in {len(cases)} random layers"


def _write_waves(path: Path, window: tuple[int, int] | None, cases: list[Case], results: list[Result]) -> None:
    """Repeat the first wrong kernel with waveforms, or the first kernel for a given window."""
    wrong = next((number for number, result in enumerate(results) if result.record["mismatches"]), 0)
    if window is not None:
        run_case(cases[0], waves=Waves(path=path, first=window[0], last=window[1]))
        return
    position = results[wrong].mismatch_position
    if position is None:
        waves = Waves(path=path, first=0, last=_BEGINNING)
    else:
        waves = Waves(path=path, first=max(position - _BEFORE, 0), last=position + _AFTER, by_instruction=True)
    run_case(cases[wrong], waves=waves)


_LAYER_OF_MATMUL = {"64x288x256": PAPER_LAYER, "64x288x1024": PAPER_LARGE_LAYER}
"""Layers of the paper, by their MatMul."""


def _figures(record: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    name = record["layer"] if record["kernel"] == "conv" else _LAYER_OF_MATMUL.get(record["layer"])
    if name is None or len(set(record["precision"].split("x")[:2])) > 1:
        return None, None, None
    layer = ConvLayer.parse(name)
    estimated = estimate(layer, record["bits"], record["variant"])
    paper = paper_cycles_per_sdotp(layer, record["bits"], record["variant"])
    if estimated is None:
        return paper, None, None
    return paper, estimated.cycles_per_sdotp, estimated.macs_per_cycle if record["kernel"] == "conv" else None


def _table(records: list[dict[str, Any]]) -> Table:
    shown = [record | dict(zip(("paper", "model", "model_rate"), _figures(record), strict=True)) for record in records]
    title = "cycles per sdotp: MatMul alone; MAC per cycle: whole kernel"
    headings = [name.strip() for name in _KERNEL_COLUMNS]
    return table(headings, (cells_of(_KERNEL_COLUMNS, record) for record in shown), title=title)


def _known(name: str, digits: int) -> Callable[[dict[str, Any]], str]:
    return lambda record: "-" if record[name] is None else f"{record[name]:.{digits}f}"


_KERNEL_COLUMNS: Columns = {
    **KERNEL,
    "cycles": "{[cycles]}",
    "cyc/sdotp": "{[cycles_per_sdotp]:.3f}",
    "paper": _known("paper", 3),
    "model": _known("model", 3),
    "MAC/cyc": "{[macs_per_cycle]:.2f}",
    "model ": _known("model_rate", 2),  # ends in a space to differ from another heading
    "OPEF": "{[opef]:.2f}",
    **RUN,
}
