"""Kernels on the cores of a cluster, every retirement and result checked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from xpulpnn.config import CLUSTER_PRESETS, Arbiter, ClusterConfig, CoreConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import BEYOND_CONFIG, DEFAULT_CONFIG, DEFAULT_WIDTHS, MOST_CYCLES, kernel_cases, told
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import check_cluster_case, run_cluster_case
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, Result
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.layout import PLACEMENTS, Placement
from xpulpnn_sw.kernels.programs.tiled import Tiling
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision

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
        kind's ``usual_in_cluster``.
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
    cluster = cluster_of(config or DEFAULT_CONFIG, exact=exact)
    cases = kernel_cases(
        kernel,
        layers=layers or (kind(kernel).usual_in_cluster,),
        precisions=precisions,
        variants=variants,
        config=cluster.core,
        beyond=None if config else cluster_of(BEYOND_CONFIG, exact=exact).core,
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
    return told(run_cluster_cases(clustered, jobs), progress)


def cluster_of(config: ClusterConfig | CoreConfig | str, *, exact: bool) -> ClusterConfig:
    """The cluster that :func:`cosim_cluster` means by its ``config``, unless ``exact`` with sums left to the simulator.

    Raises :class:`~xpulpnn.errors.ConfigError` for an unknown preset.
    """
    if isinstance(config, str):
        config = CLUSTER_PRESETS.get(config) or preset(config)
    if isinstance(config, CoreConfig):
        config = ClusterConfig(core=config)
    return config if exact else simulated(config)


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
    clustered: list[Case] = []
    for case in cases:
        variations = product(banks or [cluster.banks], arbiters or [cluster.arbiter], placements, cores)
        for number, arbiter, placement, count in variations:
            varied = replace(cluster, core=case.config.core, cores=count, banks=number, arbiter=arbiter)
            clustered.append(replace(case, config=varied, placement=placement, tiling=tiling))
    for chosen in clustered:
        check_cluster_case(chosen)
    return clustered


def run_cluster_cases(cases: Sequence[Case], jobs: int) -> Iterator[Result]:
    """Run cases on ``jobs`` processes, results in order; models are compiled as they are needed."""
    with executor(min(jobs, max(len(cases), 1))) as pool:
        yield from pool.map(run_cluster_case, cases)
