"""``xpulpnn cosim KERNEL``: run kernels on the design with every retirement checked, and compare cycles with papers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from xpulpnn.config import BOTH_FORMS, DEFAULT_PRESET, ClusterConfig
from xpulpnn.errors import ConfigError, InputError, require
from xpulpnn.isa.formats import Extension
from xpulpnn.xif.config import HOST_NAME
from xpulpnn_sim.api.cosimulation import DEFAULT_WIDTHS, MOST_CYCLES, CoreChoice, kernel_cases, run_cases
from xpulpnn_sim.api.random_layers import covered, random_cases, turns
from xpulpnn_sim.cli.cluster_runs import KERNEL, RUN, ClusterRuns, show_clusters
from xpulpnn_sim.cli.common import Columns, finish, pick, plain, quotient, record_table, run_results, tell
from xpulpnn_sim.cli.configurations import DataTiming, Simulated, refuse
from xpulpnn_sim.cli.hosts import HostName, host_of
from xpulpnn_sim.cli.kernels import FORMS, Precisions, Requantising, Specialising
from xpulpnn_sim.cli.options import Count, Json, NewFile, Preset, Repeated, Seed, Words, arguments, command, parsed_by
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, write_waves
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
    **plain("cycles"),
    "public": lambda record: _public(record) or "-",
    "public/ours": lambda record: quotient(_public(record), record["cycles"]),
    **plain("instructions"),
    "elements/cyc": "{[macs_per_cycle]:.2f}",
    **RUN,
}


_KERNEL = parsed_by(
    find_kernel,
    accepts_keys=False,
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


@arguments
class CosimOptions(Simulated, ClusterRuns, Precisions, Requantising, Specialising, DataTiming, Seed, Json):
    kernel: Annotated[Kernel, _KERNEL] = field(kw_only=False)
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
    host: HostName | None = None
    """Core of somebody else with our coprocessor (extra xif), which runs the kernel as a program: CV32E40X as
    published, or without its issue 941. --set changes the parameters of the coprocessor."""
    waves: Annotated[NewFile | None, Parameter(metavar="FILE.fst")] = None
    """Waveforms around the first mismatch."""
    wave_window: Annotated[tuple[int, int] | None, parsed_by(Waves.window, metavar="FROM:TO")] = None
    """Write these cycles of the first kernel instead."""

    @property
    def variants(self) -> tuple[str, ...]:
        if not self.variant:
            return ()
        return tuple(select_names("+".join(self.variant), tuple(self.kernel.variants), "--variant"))

    def require_fitting(self) -> None:
        clusters_only = {option.name for option in fields(ClusterRuns)} - {"jobs", "cores"}
        one_core_only = ("grant_stalls", "response_latency", "irq_rate", "halt_rate", "engine", "waves")
        unsuited, when = (one_core_only, "with") if self.cores else (clusters_only, "without")
        refuse(self, unsuited, f"must be left out {when} --cores")
        if self.engine == "core" and self.waves is not None:
            raise InputError("--waves must be left out with --engine core: xpulpnn run writes them for programs")
        require(self.host is None or self.waves is None, "--waves must be left out with --host")
        if self.engine == "stream":
            refuse(self, ("irq_rate", "halt_rate"), "must be left out with --engine stream")
        require(self.random is None or not self.layer, "--layer must be left out with --random")


@command("cosim kernel")
def cosim_kernel_command(options: CosimOptions) -> int:
    """
    xpulpnn cosim conv  # the papers' layer: all widths, the variants of the XpulpNN paper
    xpulpnn cosim matmul --layer 8x40x6 --bits 4 --variant nn_4x4  # one small MatMul
    xpulpnn cosim conv --engine core --bits 8 --variant nn_4x4 --grant-stalls 0.2  # on the whole core
    xpulpnn cosim conv --bits 2 --variant nn_4x4 --cores 1,8 --report build/cores.html  # shared by eight cores
    xpulpnn cosim conv --host cv32e40x --set requantise=plain --variant blkq_4x4 --bits 4  # CV32E40X, our coprocessor
    """
    with_host = None if options.host is None else host_of(options, HOST_NAME)[1]
    options.require_fitting()
    if with_host is not None:
        return _show(options, None, *_cases(options, CoreChoice(with_host)))
    extended = None
    if not options.preset:
        # for variants that need more than both forms of Mac&Load
        with suppress(ConfigError):
            extended = replace(options, preset=DEFAULT_PRESET).simulated_core
        options = replace(options, preset=BOTH_FORMS)
    cluster = options.cluster if options.cores else None
    config = options.simulated_core if cluster is None else cluster.core
    cases, footer = _cases(options, CoreChoice(config, extended))
    return _show(options, cluster, cases, footer)


def _show(options: CosimOptions, cluster: ClusterConfig | None, cases: list[Case], footer: str) -> int:
    """Run the cases, show the table of their records, and return the exit code."""
    name = "{0[kernel]} {0[layer]} {0[precision]} {0[variant]}"
    if cluster is not None:
        cases, name = options.on_clusters(cluster, cases), f"{name} on {{0[cores]}} cores"
    results = run_results("kernels", run_cases(cases, options.jobs, options.engine), len(cases), name.format)
    records = [result.record for result in results]
    if cluster is not None:
        show_clusters(records, options.report)
    elif isinstance(cases[0].layer, MapLayer | WindowLayer):
        tell(record_table(_COLUMNS, records, title=_TITLE))
    else:
        rows = [record | _figures(record) for record in records]
        tell(record_table(_KERNEL_COLUMNS, rows, notes=_NOTES))
    tell(verdict(records))
    if options.waves is not None:
        write_waves(options.waves, options.wave_window, cases, results)
    if footer:
        tell(footer)
    return finish(options.json, records, good=not any(record["mismatches"] for record in records))


def _cases(options: CosimOptions, cores: CoreChoice) -> tuple[list[Case], str]:
    kernel, check = options.kernel, options.check == "all"
    machine = Machine.of(options, max_cycles=MOST_CYCLES)
    if options.random is not None:
        requested: dict[str, Any] = {
            "precisions": options.precisions(kernel) if options.bits or options.precision else (),
            "variants": options.variants,
            "rules": () if options.requantise is None else (options.rule,),
        }
        timing = not options.cores
        cases = random_cases(kernel, cores, options.random, machine=machine, check=check, timing=timing, **requested)
        total = len(turns(kernel, cores, **requested))
        return cases, f"{covered(cases)} of {total} combinations of widths and variant in {len(cases)} random layers"
    layers = options.layer or [kernel.usual_in_cluster if options.cores else kernel.usual]
    precisions = options.precisions(kernel, DEFAULT_WIDTHS)
    variants = cores.runnable(kernel, options.variants) if options.variant == ("all",) else options.variants
    if options.host is not None and not variants:
        able = [name for name, variant in kernel.variants.items() if Extension.XIF in variant.extensions]
        variants = cores.runnable(kernel, able)
    how = {"machine": machine, "checked": check, **pick(options, "specialise", "rule", "tiling", "host")}
    return kernel_cases(kernel, cores, layers, precisions, variants, **how), ""


_LAYER_OF_MATMUL = {"64x288x256": PAPER_LAYER, "64x288x1024": PAPER_LARGE_LAYER}
"""Layers of the XpulpNN paper, by the size of their matrix product."""


def _figures(record: dict[str, Any]) -> dict[str, float | None]:
    name = record["layer"] if record["kernel"] == "conv" else _LAYER_OF_MATMUL.get(record["layer"])
    if name is None or len(set(record["precision"].split("x")[:2])) > 1:
        return {}
    choice = ConvLayer.parse(name), record["bits"], record["variant"]
    estimated, figures = estimate(*choice), {"paper": paper_cycles_per_sdotp(*choice)}
    if estimated is not None:
        figures["model"] = estimated.cycles_per_sdotp
        figures["model_rate"] = estimated.macs_per_cycle if record["kernel"] == "conv" else None
    return figures


_NOTES = (
    "cyc/sdotp: cycles of a dot product, in the MatMul alone",
    "MAC/cyc: multiply-accumulates per cycle of the whole kernel",
    "OPEF: dot products per instruction of the inner loop; above 1 with two in one instruction",
)


def verdict(records: Sequence[dict[str, Any]]) -> str:
    """Return what was compared, and how much of it was wrong."""
    results, retirements, wrong = (
        sum(record[name] for record in records) for name in ("compared_results", "compared_retirements", "mismatches")
    )
    kernels = f"{len(records)} kernel{'s' if len(records) > 1 else ''}"
    return f"{kernels}: {results:,} results and {retirements:,} retirements compared, {wrong:,} wrong"


def _optional(name: str, digits: int) -> Callable[[dict[str, Any]], str]:
    return lambda record: "-" if record.get(name) is None else f"{record[name]:.{digits}f}"


_KERNEL_COLUMNS: Columns = {
    **KERNEL,
    **plain("cycles"),
    "cyc/sdotp": "{[cycles_per_sdotp]:.3f}",
    "paper": _optional("paper", 3),
    "model": _optional("model", 3),
    "MAC/cyc": "{[macs_per_cycle]:.2f}",
    "model ": _optional("model_rate", 2),  # ends in a space to differ from another heading
    "OPEF": "{[opef]:.2f}",
    **RUN,
}
