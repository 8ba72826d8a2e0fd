"""``xpulpnn cosim KERNEL``: kernels on the design, every retirement checked, and their cycles beside the papers'."""

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
    able_variants,
    kernel_cases,
    run_cases,
)
from xpulpnn_sim.api.random_layers import covered, random_cases, turns
from xpulpnn_sim.cli.cluster_runs import KERNEL, RUN, ClusterRuns, run_on_clusters
from xpulpnn_sim.cli.common import Columns, cells_of, finish, quotient, record_table, run_results, table, tell
from xpulpnn_sim.cli.configurations import DataTiming, Simulated
from xpulpnn_sim.cli.kernels import FORMS, Kernel, Precisions, Requantising, Specialising
from xpulpnn_sim.cli.options import Count, Json, NewFile, Preset, Repeated, Seed, Words, arguments, command
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, Result, run_case
from xpulpnn_sim.tools.top_names import chosen_names
from xpulpnn_sw.kernels.catalogue import USUAL_VARIANTS, find_kernel
from xpulpnn_sw.kernels.figures import PAPER_LARGE_LAYER, PAPER_LAYER, estimate, paper_cycles_per_sdotp, public_cycles
from xpulpnn_sw.kernels.kernel import Kernel as AnyKernel
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import ConvLayer, MapLayer, WindowLayer


def _public(record: Mapping[str, Any]) -> int | None:
    return public_cycles(record["kernel"], record["layer"], record["bits"])


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


_PRESET = (
    f"Configuration to start from (default {BOTH_FORMS}, for both forms of Mac&Load; {DEFAULT_PRESET} for variants "
    "that need it)."
)
_LAYER = f"{FORMS}; repeatable (default conv {find_kernel('conv').usual}; of the others one that suits)."
_VARIANT = (
    f"conv and matmul: out of {', '.join(VARIANTS)} (default {', '.join(USUAL_VARIANTS)}); other kernels have others, "
    "which an unknown name lists; or all. Of the default and of all those that the core can run."
)

_BEFORE, _AFTER = 50, 20  # instructions in the waveforms before and after a mismatch

_BEGINNING = 2000  # cycles of waveforms when nothing is wrong


@arguments
class CosimOptions(Simulated, ClusterRuns, Precisions, Requantising, Specialising, DataTiming, Seed, Json):
    """Options of the command."""

    kernel: Kernel = field(kw_only=False)
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
    def chosen(self) -> AnyKernel:
        """The kernel."""
        return find_kernel(self.kernel)

    @property
    def machine(self) -> Machine:
        """The surroundings of the core."""
        return Machine.of(self, max_cycles=MOST_CYCLES)

    @property
    def beyond(self) -> CoreConfig | None:
        """The core of variants that need more than the default preset; None if settings leave nothing of it."""
        if self.preset:
            return None
        try:
            return replace(self, preset=DEFAULT_PRESET).simulated_core
        except ConfigError:
            return None

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants asked for by name or as all."""
        known = tuple(self.chosen.variants)
        return tuple(chosen_names("+".join(self.variant), known, "--variant")) if self.variant else ()

    def require_fitting(self) -> None:
        """Raise :class:`InputError` for options that do not go together."""
        of_clusters = {
            *("banks", "arbiter", "placement", "icache", "l2_latency", "report"),
            *("tile_rows", "tile_channels", "no_overlap"),
        }
        of_one_core = {"grant_stalls", "response_latency", "irq_rate", "halt_rate", "engine", "waves"}
        usual = {one.name: one.default for one in fields(self)}
        for name in of_one_core if self.cores else of_clusters:
            if getattr(self, name) != usual[name]:
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
    """Run every combination of layer, width and variant; fails if a check does.

    xpulpnn cosim conv  # the papers' layer: all widths, the variants of the XpulpNN paper
    xpulpnn cosim matmul --layer 8x40x6 --bits 4 --variant nn_4x4  # one small MatMul
    xpulpnn cosim conv --engine core --bits 8 --variant nn_4x4 --grant-stalls 0.2  # on the whole core
    xpulpnn cosim conv --bits 2 --variant nn_4x4 --cores 1,8 --report build/cores.html  # shared by eight cores
    """
    options.require_fitting()
    beyond = options.beyond
    if not options.preset:
        options = replace(options, preset=BOTH_FORMS)
    cluster = options.cluster if options.cores else None
    config = options.simulated_core if cluster is None else cluster.core
    cases = _cases(options, config, beyond)
    window = None if options.wave_window is None else Waves.window(options.wave_window)
    records = run_on_clusters(options, cluster, cases) if cluster is not None else _run(options, cases, window)
    if options.random is not None:
        every = len(turns(options.kernel, config, **_asked(options), beyond=beyond))
        tell(f"{covered(cases)} of {every} combinations of widths and variant in {len(cases)} random layers")
    return finish(options.json, records, good=not any(record["mismatches"] for record in records))


def _run(options: CosimOptions, cases: list[Case], window: tuple[int, int] | None) -> list[dict[str, Any]]:
    """The records of the cases on one core."""
    name = "{0[kernel]} {0[layer]} {0[precision]} {0[variant]}".format
    results = run_results("kernels", run_cases(cases, options.engine, options.jobs), len(cases), name)
    records = [result.record for result in results]
    is_channelwise = isinstance(cases[0].layer, MapLayer | WindowLayer)
    tell(record_table(_COLUMNS, records, title=_TITLE) if is_channelwise else _table(records))
    if options.waves is not None:
        _write_waves(options.waves, window, cases, results)
    return records


def _cases(options: CosimOptions, config: CoreConfig, beyond: CoreConfig | None) -> list[Case]:
    computing = options.chosen
    if options.random is not None:
        return random_cases(
            options.kernel,
            options.random,
            config=config,
            beyond=beyond,
            machine=options.machine,
            **_asked(options),
            check=options.check == "all",
            timing=not options.cores,
        )
    variants = list(options.variants)
    if options.variant == ("all",):
        variants = list(able_variants(computing, variants, config, beyond))
    return kernel_cases(
        options.kernel,
        layers=options.layer or [computing.usual_in_cluster if options.cores else computing.usual],
        precisions=options.precisions(options.kernel, DEFAULT_WIDTHS),
        variants=variants,
        config=config,
        beyond=beyond,
        machine=options.machine,
        check=options.check == "all",
        specialise=options.specialise,
        rule=options.rule,
    )


def _asked(options: CosimOptions) -> dict[str, Any]:
    """Properties that random layers must have; an empty one leaves the choice open."""
    is_open = not (options.bits or options.precision)
    return {
        "precisions": () if is_open else options.precisions(options.kernel),
        "variants": options.variants,
        "rules": () if options.requantise is None else (options.rule,),
    }


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


def _table(records: list[dict[str, Any]]) -> Table:
    shown = [record | dict(zip(("paper", "model", "model_rate"), _figures(record), strict=True)) for record in records]
    title = "cycles per sdotp: MatMul alone; MAC per cycle: whole kernel"
    headings = [name.strip() for name in _KERNEL_COLUMNS]
    return table(headings, (cells_of(_KERNEL_COLUMNS, one) for one in shown), title=title)


def _known(name: str, digits: int) -> Callable[[dict[str, Any]], str]:
    return lambda record: "-" if record[name] is None else f"{record[name]:.{digits}f}"


_KERNEL_COLUMNS: Columns = {
    **KERNEL,
    "cycles": "{[cycles]}",
    "cyc/sdotp": "{[cycles_per_sdotp]:.3f}",
    "paper": _known("paper", 3),
    "model": _known("model", 3),
    "MAC/cyc": "{[macs_per_cycle]:.2f}",
    "model ": _known("model_rate", 2),  # the heading of another column, told apart by its space
    "OPEF": "{[opef]:.2f}",
    **RUN,
}
