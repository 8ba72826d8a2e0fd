"""Kernels on the design, every retirement and result checked, and the configurations that functions of the API take."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from xpulpnn.config import BOTH_FORMS, CLUSTER_PRESETS, DEFAULT_PRESET, Arbiter, ClusterConfig, CoreConfig, preset
from xpulpnn.errors import InputError
from xpulpnn.isa.formats import Extension
from xpulpnn_sim.cosimulation.model.libraries import model_library, simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import check_cluster_case, run_cluster_case
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, Result, run_case
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.layout import PLACEMENTS, Placement
from xpulpnn_sw.kernels.programs.tiled import Tiling
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision


@dataclass(frozen=True, slots=True)
class CoreChoice:
    """The core to run kernels on, and another one for the variants that it cannot run."""

    config: CoreConfig
    beyond: CoreConfig | None = None

    def core_for(self, kernel: Kernel, variant: str) -> CoreConfig:
        """The core that a variant runs on: ``beyond`` if only that has the instructions; for Mac&Load of two products
        it gets the options of XpulpNN 3. Raises :class:`~xpulpnn.errors.LayerError` for an unknown variant."""
        needed, beyond = kernel.variant(variant).extensions, self.beyond
        if beyond is None or needed <= self.config.extensions:
            return self.config
        if Extension.XPULPML_PAIR in needed and beyond.mac_load_nn:
            beyond = replace(beyond, mac_load_pair=True, mixed_weights=True, requantise_exact=beyond.requantise)
        return beyond if needed <= beyond.extensions else self.config

    def runnable(self, kernel: Kernel, names: Sequence[str]) -> tuple[str, ...]:
        """The variants that one of the cores can run; without any all names, for an error to be raised."""
        runnable = [name for name in names if kernel.variant(name).extensions <= self.core_for(kernel, name).extensions]
        return tuple(runnable or names)


def resolved(config: CoreConfig | ClusterConfig | str, *, exact: bool = True) -> CoreConfig | ClusterConfig:
    """A configuration of a core or of a cluster, or that of a preset; unless ``exact`` its sums are left to the
    simulator, which is faster and computes the same. Raises :class:`~xpulpnn.errors.ConfigError` for an unknown preset.
    """
    chosen = CLUSTER_PRESETS.get(config) or preset(config) if isinstance(config, str) else config
    return chosen if exact else simulated(chosen)


DEFAULT_WIDTHS = (8, 4, 2)

MOST_CYCLES = 1 << 40  # No kernel is given up


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
    """Run a kernel in every combination of layer, precision and variant on the RTL, and check it.

    Random tensors come from ``machine.seed``; the results in memory are compared with numpy references. The first run
    of a configuration compiles a model, which takes about half a minute.

    Parameters
    ----------
    kernel : str
        One of :data:`xpulpnn_sw.kernels.catalogue.KERNELS`: ``conv``, the whole convolution with im2col and
        requantisation, ``matmul``, the MatMul alone, ...
    layers : sequence of str
        Written as the ``form`` of the kernel says, such as ``HxWxC:OxKyxKx[:s=,p=]`` for ``conv``; empty: its ``usual``
        one.
    precisions : sequence of int, str or Precision
        One width for all, ``XxWxY`` (inputs, weights, results), or a precision.
    variants : sequence of str
        Names out of the ``variants`` of the kernel; empty: those of its ``usual_variants`` that the core can run.
    config : CoreConfig, str or None
        The core, or the name of a preset; None: the preset ``xpulpnn-full``, and ``xpulpnn2`` for the variants that
        need it.
    machine : Machine or None
        Memory timing, interrupts and seed; None: memory that grants at once and answers in the next cycle.
    engine : str
        ``stream``: the back end, fed with the executed instructions; ``core``: the whole core runs the kernel as a
        program from memory.
    check : bool
        Check every retirement, not only the results.
    specialise : bool
        Kernel functions for the one layer, its sizes constants.
    rule : Rule
        How results below 32 bits come of the accumulators, in kernels that have a choice.
    exact : bool
        Simulate the very adders that are emitted (slower, the same results).
    jobs : int
        Processes.
    progress : callable or None
        Takes each result as it is there.

    Returns
    -------
    tuple of Result
        In the order layer, precision, variant. A result is wrong if its ``record`` has ``mismatches``; its ``reports``
        say where.

    Raises
    ------
    InputError, ConfigError, LayerError
        For a layer, precision or variant that does not exist or that the core cannot run.
    ToolError
        If the model cannot be built.
    """
    if engine not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, not {engine}")
    cases = kernel_cases(
        find_kernel(kernel),
        _cores(config, exact=exact),
        layers=layers,
        precisions=precisions,
        variants=variants,
        machine=machine or Machine(max_cycles=MOST_CYCLES),
        check=check,
        specialise=specialise,
        rule=rule,
    )
    return _collected(run_cases(cases, engine, jobs), progress)


def _cores(config: ClusterConfig | CoreConfig | str | None, *, exact: bool) -> CoreChoice:
    if config is not None:
        return CoreChoice(resolved(config, exact=exact).core)
    return CoreChoice(resolved(BOTH_FORMS, exact=exact).core, resolved(DEFAULT_PRESET, exact=exact).core)


def _collected(results: Iterable[Result], progress: Callable[[Result], None] | None) -> tuple[Result, ...]:
    collected: list[Result] = []
    for result in results:
        collected.append(result)
        if progress is not None:
            progress(result)
    return tuple(collected)


def kernel_cases(
    kernel: Kernel,
    cores: CoreChoice,
    *,
    layers: Sequence[str],
    precisions: Iterable[int | str | Precision],
    variants: Sequence[str],
    machine: Machine,
    check: bool,
    specialise: bool,
    rule: Rule = Rule.BN32,
) -> list[Case]:
    """Every combination, checked before anything runs; parameters and errors as in :func:`cosim`."""
    cases = [
        Case(
            layer=layer,
            precision=kernel.precision(layer, precision),
            variant=variant,
            config=cores.core_for(kernel, variant),
            machine=machine,
            checked=check,
            specialise=specialise,
            rule=rule,
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


def run_cases(cases: Sequence[Case], engine: str, jobs: int) -> Iterator[Result]:
    """Run cases on ``jobs`` processes, results in order; the models are compiled first."""
    with executor(min(jobs, max(len(cases), 1))) as pool:
        for config in dict.fromkeys(case.config for case in cases):
            model_library(engine, config)
        yield from pool.map(partial(run_case, engine=engine), cases)


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
    """Run a kernel on clusters in every combination of what is given, and check it.

    The cores share the work; operands and results lie in the TCDM. Where they do not fit, those of a layer with filters
    lie in the memory outside, and the DMA engine moves tiles of them while others are computed. The first run of a
    cluster compiles a model, which takes about a minute.

    Parameters
    ----------
    kernel, layers, precisions, variants, check, specialise, rule, exact, jobs, progress
        As of :func:`xpulpnn_sim.api.cosimulation.cosim`, but for the layers meant by none: the
        kernel's ``usual_in_cluster``.
    cores, banks : sequence of int
        1 to 16 cores, banks a power of two; empty: the banks of ``config``.
    arbiters : sequence of str
        Who is granted a bank: ``counter``, ``strict`` or ``fixed`` (:class:`~xpulpnn.config.ClusterConfig`); empty: as
        in ``config``.
    placements : sequence of str
        How weight streams, and buffers and stacks of the cores, lie in the banks: ``padded``, each two banks further
        than the one before, or ``aligned``, all from the same bank on.
    icache : int or None
        Bytes of the instruction cache of each core, in front of one that all share and the program in the memory
        outside; the figures are then those of a second pass. 0: instructions are fetched without delay. None: as
        ``config`` says.
    config : ClusterConfig, CoreConfig, str or None
        The cluster in all else; or every core of it; or the name of a preset of either. None: of cores as in
        :func:`~xpulpnn_sim.api.cosimulation.cosim`.
    tiling : Tiling or None
        The tiles; None: none where the layer fits into the TCDM, else as they take least time.
    machine : Machine or None
        Seed, latency of the memory outside; None: that memory answers in the next cycle.

    Returns
    -------
    tuple of Result
        In the order layer, precision, variant, banks, arbiter, placement, cores; their ``record`` also
        tells of the cluster, and of layers in tiles under ``tiling``.

    Raises
    ------
    InputError, ConfigError, LayerError
        For what does not exist, what the cores cannot run, and what does not fit into the TCDM.
    ToolError
        If a model cannot be built.
    """
    target = resolved(config or BOTH_FORMS, exact=exact)
    cluster = target if isinstance(target, ClusterConfig) else ClusterConfig(core=target)
    computed = find_kernel(kernel)
    cases = kernel_cases(
        computed,
        _cores(config, exact=exact),
        layers=layers or (computed.usual_in_cluster,),
        precisions=precisions,
        variants=variants,
        machine=machine or Machine(max_cycles=MOST_CYCLES),
        check=check,
        specialise=specialise,
        rule=rule,
    )
    clustered = cluster_cases(
        cases,
        cluster,
        cores=cores,
        banks=banks,
        arbiters=arbiters,
        placements=placements,
        icache=icache,
        tiling=tiling,
    )
    return _collected(run_cluster_cases(clustered, jobs), progress)


def cluster_cases(
    cases: Sequence[Case],
    cluster: ClusterConfig,
    *,
    cores: Sequence[int],
    banks: Sequence[int],
    arbiters: Sequence[Arbiter],
    placements: Sequence[Placement],
    icache: int | None = None,
    tiling: Tiling | None = None,
) -> list[Case]:
    """Every combination on variations of ``cluster``, checked before anything runs.

    Other parameters and errors as in :func:`cosim_cluster`.
    """
    for placement in placements:
        if placement not in PLACEMENTS:
            raise InputError(f"placement must be one of {', '.join(PLACEMENTS)}, not {placement}")
    if icache is not None:
        cluster = replace(cluster, icache_private=icache)
    clustered = [
        replace(
            case,
            config=replace(cluster, core=case.config.core, cores=count, banks=number, arbiter=arbiter),
            placement=placement,
            tiling=tiling,
        )
        for case in cases
        for number, arbiter, placement, count in product(
            banks or [cluster.banks], arbiters or [cluster.arbiter], placements, cores
        )
    ]
    for case in clustered:
        check_cluster_case(case)
    return clustered


def run_cluster_cases(cases: Sequence[Case], jobs: int) -> Iterator[Result]:
    """Run cases on ``jobs`` processes, results in order; models are compiled as they are needed."""
    with executor(min(jobs, max(len(cases), 1))) as pool:
        yield from pool.map(run_cluster_case, cases)
