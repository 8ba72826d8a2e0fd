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
    config: ClusterConfig | CoreConfig | str | None = None,
    machine: Machine | None = None,
    engine: str = "stream",
    check: bool = True,
    specialise: bool = False,
    rule: Rule = Rule.BN32,
    cores: Sequence[int] = (),
    banks: Sequence[int] = (),
    arbiters: Sequence[Arbiter] = (),
    placements: Sequence[Placement] = ("padded",),
    icache: int | None = None,
    tiling: Tiling | None = None,
    exact: bool = False,
    jobs: int = 1,
    progress: Callable[[Result], None] | None = None,
) -> tuple[Result, ...]:
    """Run a kernel on the RTL in every combination of layer, precision, variant and cluster, and check it.

    Tensors are random by ``machine.seed``; results in memory are compared with numpy references. Without ``cores`` a
    core runs alone. With them, the cores of a cluster share the work; operands and results are in the TCDM. If a layer
    with filters does not fit, its operands are in external memory, and the DMA moves tiles while others are computed.
    The first run of a configuration compiles a model, which takes about half a minute, of a cluster a minute.

    Parameters
    ----------
    kernel : str
        One of :data:`xpulpnn_sw.kernels.catalogue.KERNELS`: ``conv``, the convolution with im2col and requantisation,
        ``matmul``, the MatMul alone, ...
    layers : sequence of str
        Layers in the kernel's ``form``, such as ``HxWxC:OxKyxKx[:s=,p=]`` for ``conv``; default: its ``usual`` layer,
        on clusters its ``usual_in_cluster``.
    precisions : sequence of int, str or Precision
        One width for all operands, ``XxWxY`` (inputs, weights, results), or a precision.
    variants : sequence of str
        Names from the kernel's ``variants``; default: the ``usual_variants`` that the core can run.
    config : ClusterConfig, CoreConfig, str or None
        The core, the cluster, or the name of a preset of either; None: the core ``xpulpnn-full``, or ``xpulpnn2`` for
        variants that need it.
    machine : Machine or None
        Seed, memory timing and interrupts, of clusters only the latency of external memory; None: memory that grants at
        once and answers in the next cycle.
    engine : str
        ``stream``: the back end, fed with the executed instructions; ``core``: the whole core runs the kernel as a
        program from memory. Clusters always run programs.
    check : bool
        Check every retirement, not only the results.
    specialise : bool
        Generate kernel functions with the layer's sizes as constants.
    rule : Rule
        Requantisation to results below 32 bits, for kernels with a choice.
    cores, banks : sequence of int
        Clusters of 1 to 16 cores; banks are a power of two, by default those of ``config``.
    arbiters : sequence of str
        Arbitration of a bank: ``counter``, ``strict`` or ``fixed`` (:class:`~xpulpnn.config.ClusterConfig`); default:
        that of ``config``.
    placements : sequence of str
        Alignment of weight streams, buffers and stacks of the cores to banks: ``padded``, each two banks after the
        previous one, or ``aligned``, all from the same bank.
    icache : int or None
        Bytes of each core's instruction cache, in front of a shared cache and external memory; figures are those of a
        second pass. 0: fetches without delay. None: as in ``config``.
    tiling : Tiling or None
        The tiles; None: no tiles if the layer fits into the TCDM, else the fastest tiles.
    exact : bool
        Simulate the emitted adders instead of plain ones (slower, same results).
    jobs : int
        Number of processes.
    progress : callable or None
        Called with each result.

    Returns
    -------
    tuple of Result
        Results by layer, precision, variant, banks, arbiter, placement and cores. A result with ``mismatches`` in its
        ``record`` is wrong; its ``reports`` describe them. A record of a cluster also describes the cluster, and tiles
        under ``tiling``.

    Raises
    ------
    InputError, ConfigError, LayerError
        For a layer, precision or variant that does not exist or that the cores cannot run, and for layers that do not
        fit into the TCDM.
    ToolError
        If a model cannot be built.
    """
    require(engine in ENGINES, f"engine must be one of {', '.join(ENGINES)}, not {engine}")
    is_alone = not (banks or arbiters or tiling or icache is not None)
    require(cores or is_alone, "banks, arbiters, icache and tiling must come with cores, not alone")
    definition = find_kernel(kernel)
    how: dict[str, Any] = {"machine": machine or Machine(max_cycles=MOST_CYCLES), "checked": check, "tiling": tiling}
    layers = layers or [definition.usual_in_cluster if cores else definition.usual]
    choice = _cores(config, exact=exact)
    cases = kernel_cases(definition, choice, layers, precisions, variants, **how, specialise=specialise, rule=rule)
    if cores:
        target = resolve_config(config or BOTH_FORMS, exact=exact)
        cluster = target if isinstance(target, ClusterConfig) else ClusterConfig(core=target)
        cluster = cluster if icache is None else replace(cluster, icache_private=icache)
        cases = cluster_cases(cases, cluster, cores, banks, arbiters, placements)
    collected: list[Result] = []
    for result in run_cases(cases, jobs, engine):
        collected.append(result)
        if progress is not None:
            progress(result)
    return tuple(collected)


def _cores(config: ClusterConfig | CoreConfig | str | None, *, exact: bool) -> CoreChoice:
    if config is not None:
        return CoreChoice(resolve_config(config, exact=exact).core)
    return CoreChoice(resolve_config(BOTH_FORMS, exact=exact).core, resolve_config(DEFAULT_PRESET, exact=exact).core)


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


def cluster_cases(
    cases: Sequence[Case],
    cluster: ClusterConfig,
    cores: Sequence[int],
    banks: Sequence[int],
    arbiters: Sequence[Arbiter],
    placements: Sequence[Placement],
) -> list[Case]:
    """Return every case on every variation of ``cluster``, checked; errors as in :func:`cosim`."""
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
