"""Run kernels on the design with every retirement and result checked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from xpulpnn.config import BOTH_FORMS, CLUSTER_PRESETS, DEFAULT_PRESET, Arbiter, ClusterConfig, CoreConfig, preset
from xpulpnn.errors import require
from xpulpnn.isa.formats import Extension
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import check_cluster_case, run_kernel
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, Result
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.layout import PLACEMENTS, Placement
from xpulpnn_sw.kernels.programs.tiled import Tiling
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision


@dataclass(frozen=True, slots=True)
class CoreChoice:
    """A core for kernels, and another core for variants that the first cannot run."""

    config: CoreConfig
    extended: CoreConfig | None = None

    def core_for(self, kernel: Kernel, variant: str) -> CoreConfig:
        """Return the core for a variant: ``extended`` if only it has the instructions.

        For Mac&Loads of two activations with one weight, ``extended`` gets the options of XpulpNN 3. Raises
        :class:`~xpulpnn.errors.LayerError` for an unknown variant.
        """
        needed, extended = kernel.variant(variant).extensions, self.extended
        if extended is None or needed <= self.config.extensions:
            return self.config
        if Extension.XPULPML_PAIR in needed and extended.mac_load_nn:
            extended = replace(extended, mac_load_pair=True, mixed_weights=True, requantise_exact=extended.requantise)
        return extended if needed <= extended.extensions else self.config

    def runnable(self, kernel: Kernel, names: Sequence[str]) -> tuple[str, ...]:
        """Return the variants in ``names`` that a core can run; if none, return all, so that the caller reports it."""
        runnable = [name for name in names if kernel.variant(name).extensions <= self.core_for(kernel, name).extensions]
        return tuple(runnable or names)


def resolve_config(config: CoreConfig | ClusterConfig | str, *, exact: bool = True) -> CoreConfig | ClusterConfig:
    """Return ``config`` or the preset of that name; unless ``exact``, with plain adders, which simulate faster.

    Raises :class:`~xpulpnn.errors.ConfigError` for an unknown preset.
    """
    chosen = CLUSTER_PRESETS.get(config) or preset(config) if isinstance(config, str) else config
    return chosen if exact else simulated(chosen)


DEFAULT_WIDTHS = (8, 4, 2)
MOST_CYCLES = 1 << 40  # no limit of its own: each run gets one from its kernel's number of MACs


def cosim(
    kernel: str = "conv",
    *,
    layers: Sequence[str] = (),
    precisions: Sequence[int | str | Precision] = DEFAULT_WIDTHS,
    variants: Sequence[str] = (),
    config: CoreConfig | str | None = None,
    machine: Machine | None = None,
    engine: str = "stream",
    check: bool = True,
    specialise: bool = False,
    rule: Rule = Rule.BN32,
    exact: bool = False,
    jobs: int = 1,
    progress: Callable[[Result], None] | None = None,
) -> tuple[Result, ...]:
    """Run a kernel on the RTL in every combination of layer, precision and variant, and check it.

    Tensors are random by ``machine.seed``; results in memory are compared with numpy references. The first run of a
    configuration compiles a model, which takes about half a minute.

    Parameters
    ----------
    kernel : str
        One of :data:`xpulpnn_sw.kernels.catalogue.KERNELS`: ``conv``, the convolution with im2col and requantisation,
        ``matmul``, the MatMul alone, ...
    layers : sequence of str
        Layers in the kernel's ``form``, such as ``HxWxC:OxKyxKx[:s=,p=]`` for ``conv``; default: its ``usual`` layer.
    precisions : sequence of int, str or Precision
        One width for all operands, ``XxWxY`` (inputs, weights, results), or a precision.
    variants : sequence of str
        Names from the kernel's ``variants``; default: the ``usual_variants`` that the core can run.
    config : CoreConfig, str or None
        The core, or the name of a preset; None: the preset ``xpulpnn-full``, or ``xpulpnn2`` for variants that need it.
    machine : Machine or None
        Memory timing, interrupts and seed; None: memory that grants at once and answers in the next cycle.
    engine : str
        ``stream``: the back end, fed with the executed instructions; ``core``: the whole core runs the kernel as a
        program from memory.
    check : bool
        Check every retirement, not only the results.
    specialise : bool
        Generate kernel functions with the layer's sizes as constants.
    rule : Rule
        Requantisation to results below 32 bits, for kernels with a choice.
    exact : bool
        Simulate the emitted adders instead of plain ones (slower, same results).
    jobs : int
        Number of processes.
    progress : callable or None
        Called with each result.

    Returns
    -------
    tuple of Result
        Results by layer, precision and variant. A result with ``mismatches`` in its ``record`` is wrong; its
        ``reports`` describe them.

    Raises
    ------
    InputError, ConfigError, LayerError
        For a layer, precision or variant that does not exist or that the core cannot run.
    ToolError
        If the model cannot be built.
    """
    require(engine in ENGINES, f"engine must be one of {', '.join(ENGINES)}, not {engine}")
    how = _case_fields(machine, checked=check, specialise=specialise, rule=rule)
    cases = kernel_cases(find_kernel(kernel), _cores(config, exact=exact), layers, precisions, variants, **how)
    return _collect(run_cases(cases, jobs, engine), progress)


def _case_fields(machine: Machine | None, **settings: Any) -> dict[str, Any]:
    return {"machine": machine or Machine(max_cycles=MOST_CYCLES), **settings}


def _cores(config: ClusterConfig | CoreConfig | str | None, *, exact: bool) -> CoreChoice:
    if config is not None:
        return CoreChoice(resolve_config(config, exact=exact).core)
    return CoreChoice(resolve_config(BOTH_FORMS, exact=exact).core, resolve_config(DEFAULT_PRESET, exact=exact).core)


def _collect(results: Iterable[Result], progress: Callable[[Result], None] | None) -> tuple[Result, ...]:
    collected: list[Result] = []
    for result in results:
        collected.append(result)
        if progress is not None:
            progress(result)
    return tuple(collected)


def kernel_cases(
    kernel: Kernel,
    cores: CoreChoice,
    layers: Sequence[str],
    precisions: Iterable[int | str | Precision],
    variants: Sequence[str],
    **how: Any,
) -> list[Case]:
    """Return a checked case, with the fields ``how``, for every combination; errors as in :func:`cosim`."""
    cases = [
        Case(
            layer=layer,
            precision=kernel.precision(layer, precision),
            variant=variant,
            config=cores.core_for(kernel, variant),
            **how,
        )
        for layer in map(kernel.layer.parse, layers or [kernel.usual])
        for precision in [_precision(kernel, given) for given in precisions]
        for variant in variants or cores.runnable(kernel, kernel.usual_variants)
    ]
    for case in cases:
        case.check()
    return cases


def _precision(kernel: Kernel, given: int | str | Precision) -> Precision:
    if isinstance(given, Precision):
        return given
    return kernel.uniform(given) if isinstance(given, int) else Precision.parse(given)


def run_cases(cases: Sequence[Case], jobs: int, engine: str = "stream") -> Iterator[Result]:
    """Yield the results of cases in order, with ``jobs`` processes; models are compiled when needed."""
    with executor(min(jobs, max(len(cases), 1))) as pool:
        yield from pool.map(partial(run_kernel, engine=engine), cases)


DEFAULT_CORES = (1, 2, 4, 8, 16)


def cosim_cluster(
    kernel: str = "conv",
    *,
    layers: Sequence[str] = (),
    precisions: Sequence[int | str | Precision] = DEFAULT_WIDTHS,
    variants: Sequence[str] = (),
    cores: Sequence[int] = DEFAULT_CORES,
    banks: Sequence[int] = (),
    arbiters: Sequence[Arbiter] = (),
    placements: Sequence[Placement] = ("padded",),
    icache: int | None = None,
    tiling: Tiling | None = None,
    config: ClusterConfig | CoreConfig | str | None = None,
    machine: Machine | None = None,
    check: bool = True,
    specialise: bool = False,
    rule: Rule = Rule.BN32,
    exact: bool = False,
    jobs: int = 1,
    progress: Callable[[Result], None] | None = None,
) -> tuple[Result, ...]:
    """Run a kernel on clusters in every combination of the arguments, and check it.

    The cores share the work; operands and results are in the TCDM. If a layer with filters does not fit, its operands
    are in external memory, and the DMA moves tiles while others are computed. The first run of a cluster compiles a
    model, which takes about a minute.

    Parameters
    ----------
    kernel, layers, precisions, variants, check, specialise, rule, exact, jobs, progress
        As for :func:`xpulpnn_sim.api.cosimulation.cosim`; the default layer is the kernel's ``usual_in_cluster``.
    cores, banks : sequence of int
        1 to 16 cores; banks are a power of two, by default those of ``config``.
    arbiters : sequence of str
        Arbitration of a bank: ``counter``, ``strict`` or ``fixed`` (:class:`~xpulpnn.config.ClusterConfig`); default:
        that of ``config``.
    placements : sequence of str
        Alignment of weight streams, buffers and stacks of the cores to banks: ``padded``, each two banks after the
        previous one, or ``aligned``, all from the same bank.
    icache : int or None
        Bytes of each core's instruction cache, in front of a shared cache and external memory; figures are those of a
        second pass. 0: fetches without delay. None: as in ``config``.
    config : ClusterConfig, CoreConfig, str or None
        The cluster, or its cores, or the name of a preset of either. None: cores as in
        :func:`~xpulpnn_sim.api.cosimulation.cosim`.
    tiling : Tiling or None
        The tiles; None: no tiles if the layer fits into the TCDM, else the fastest tiles.
    machine : Machine or None
        Seed and latency of external memory; None: it answers in the next cycle.

    Returns
    -------
    tuple of Result
        Results by layer, precision, variant, banks, arbiter, placement and cores. A ``record`` also describes the
        cluster, and tiles under ``tiling``.

    Raises
    ------
    InputError, ConfigError, LayerError
        For unknown names, for kernels that the cores cannot run, and for layers that do not fit into the TCDM.
    ToolError
        If a model cannot be built.
    """
    target = resolve_config(config or BOTH_FORMS, exact=exact)
    cluster = target if isinstance(target, ClusterConfig) else ClusterConfig(core=target)
    definition = find_kernel(kernel)
    if icache is not None:
        cluster = replace(cluster, icache_private=icache)
    how = _case_fields(machine, checked=check, specialise=specialise, rule=rule, tiling=tiling)
    layers = layers or (definition.usual_in_cluster,)
    cases = kernel_cases(definition, _cores(config, exact=exact), layers, precisions, variants, **how)
    return _collect(run_cases(cluster_cases(cases, cluster, cores, banks, arbiters, placements), jobs), progress)


def cluster_cases(
    cases: Sequence[Case],
    cluster: ClusterConfig,
    cores: Sequence[int],
    banks: Sequence[int],
    arbiters: Sequence[Arbiter],
    placements: Sequence[Placement],
) -> list[Case]:
    """Return every case on every variation of ``cluster``, checked; errors as in :func:`cosim_cluster`."""
    for placement in placements:
        require(placement in PLACEMENTS, f"placement must be one of {', '.join(PLACEMENTS)}, not {placement}")
    clusters = product(banks or [cluster.banks], arbiters or [cluster.arbiter], placements, cores)
    clustered = [
        replace(
            case,
            config=replace(cluster, core=case.config.core, cores=count, banks=number, arbiter=arbiter),
            placement=placement,
        )
        for case, (number, arbiter, placement, count) in product(cases, clusters)
    ]
    for case in clustered:
        check_cluster_case(case)
    return clustered
