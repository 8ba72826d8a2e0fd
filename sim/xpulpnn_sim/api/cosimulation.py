"""Kernels on the design, every retirement and result checked, and the configurations that functions of the API take."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.libraries import model_library, simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import ENGINES, Case, Result, run_case
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sw.kernels.kernel import Kind
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision


def core_for(chosen: Kind, variant: str, config: CoreConfig, beyond: CoreConfig | None) -> CoreConfig:
    """The core that a variant of a kernel runs on: ``config``, or ``beyond`` if only that has the instructions.

    Raises :class:`~xpulpnn.errors.LayerError` for an unknown variant.
    """
    needed = chosen.variant(variant).extensions
    if beyond is not None and needed <= beyond.extensions and not needed <= config.extensions:
        return beyond
    return config


def able_variants(chosen: Kind, names: Sequence[str], config: CoreConfig, beyond: CoreConfig | None) -> tuple[str, ...]:
    """The variants that one of the cores can run; all of them if there is none, for whoever reports it."""
    able = [
        name for name in names if chosen.variant(name).extensions <= core_for(chosen, name, config, beyond).extensions
    ]
    return tuple(able or names)


def resolved(config: CoreConfig | str, *, exact: bool = True) -> CoreConfig:
    """A configuration, or that of a preset given by name.

    Parameters
    ----------
    config : CoreConfig or str
        The configuration or the name of a preset.
    exact : bool
        Whether it is to be simulated with the adders that :func:`~xpulpnn_sim.api.generation.generate` emits;
        otherwise sums are left to the simulator, which is faster and computes the same.

    Raises :class:`~xpulpnn.errors.ConfigError` for an unknown preset.
    """
    chosen = preset(config) if isinstance(config, str) else config
    return chosen if exact else simulated(chosen)


def resolved_target(config: CoreConfig | ClusterConfig | str, *, exact: bool = True) -> CoreConfig | ClusterConfig:
    """As :func:`resolved`, of one core or of a cluster, which may be the name of a preset of clusters."""
    chosen = CLUSTER_PRESETS.get(config, config) if isinstance(config, str) else config
    if isinstance(chosen, ClusterConfig):
        return chosen if exact else simulated(chosen)
    return resolved(chosen, exact=exact)


DEFAULT_WIDTHS = (8, 4, 2)

DEFAULT_CONFIG = "xpulpnn-full"  # the preset that all variants of the paper run on: they use both forms of Mac&Load

BEYOND_CONFIG = "xpulpnn2"  # that of the variants beyond the paper, where none was asked for

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
        One of :data:`xpulpnn_sw.kernels.kinds.KINDS`: ``conv``, the whole convolution with im2col and requantisation,
        ``matmul``, the MatMul alone, ...
    layers : sequence of str
        Written as the ``form`` of the kind says, such as ``HxWxC:OxKyxKx[:s=,p=]`` for ``conv``; empty: its ``usual``
        one.
    precisions : sequence of int, str or Precision
        One width for all, ``XxWxY`` (inputs, weights, results), or a precision.
    variants : sequence of str
        Names out of the ``variants`` of the kind; empty: those of its ``usual_variants`` that the core can run.
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
        kernel,
        layers=layers,
        precisions=precisions,
        variants=variants,
        config=resolved(config or DEFAULT_CONFIG, exact=exact),
        beyond=None if config else resolved(BEYOND_CONFIG, exact=exact),
        machine=machine or Machine(max_cycles=MOST_CYCLES),
        check=check,
        specialise=specialise,
        rule=rule,
    )
    return told(run_cases(cases, engine, jobs), progress)


def told(results: Iterable[Result], progress: Callable[[Result], None] | None) -> tuple[Result, ...]:
    """The results, each told as it is there."""
    found: list[Result] = []
    for result in results:
        found.append(result)
        if progress is not None:
            progress(result)
    return tuple(found)


def kernel_cases(
    kernel: str,
    *,
    layers: Sequence[str],
    precisions: Iterable[int | str | Precision],
    variants: Sequence[str],
    config: CoreConfig,
    machine: Machine,
    check: bool,
    specialise: bool,
    rule: Rule = Rule.BN32,
    beyond: CoreConfig | None = None,
) -> list[Case]:
    """Every combination, checked before anything runs; parameters and errors as in :func:`cosim`.

    With ``beyond`` variants that ``config`` cannot run have that core.
    """
    chosen = kind(kernel)
    names = variants or able_variants(chosen, chosen.usual_variants, config, beyond)
    cases = [
        Case(
            layer=layer,
            precision=chosen.precision(layer, precision),
            variant=name,
            config=core_for(chosen, name, config, beyond),
            machine=machine,
            checked=check,
            specialise=specialise,
            rule=rule,
        )
        for layer in map(chosen.layer.parse, layers or [chosen.usual])
        for precision in [_precision(chosen, one) for one in precisions]
        for name in names
    ]
    for case in cases:
        case.check()
    return cases


def _precision(chosen: Kind, given: int | str | Precision) -> Precision:
    if isinstance(given, Precision):
        return given
    return chosen.uniform(given) if isinstance(given, int) else Precision.parse(given)


def run_cases(cases: Sequence[Case], engine: str, jobs: int) -> Iterator[Result]:
    """Run cases on ``jobs`` processes, results in order; the models are compiled first."""
    with executor(min(jobs, max(len(cases), 1))) as pool:
        for config in dict.fromkeys(case.config for case in cases):
            model_library(engine, config)
        yield from pool.map(partial(run_case, engine=engine), cases)
