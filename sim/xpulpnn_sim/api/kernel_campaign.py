"""Random layers for the kernels: sizes, strides and padding that meet all their special cases, all precisions.

Operands are such that the results of a layer spread over their range, or some of them at the ends of theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn_sim.api import channelwise_layers
from xpulpnn_sim.harness.kernel_run import Case, case_tensors
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.references import reference
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.precision import ACCUMULATOR_BITS, Precision

_WIDTHS = (8, 4, 2)
_RAW = 0.1
"""Share of layers whose results are accumulators."""

_TIMED = 0.25
"""Share of layers that run with memory that lets wait."""

_EXTREME = 0.125
"""Share of layers whose operands are at the ends of their ranges."""

_TRIES = 1000
"""Draws for a case; more fail only if nothing that is asked for exists."""

_FEW = 8
"""Results that need not differ; of more no value may be that of more than half."""

_SINGLE_MAP = frozenset({"avgpool", "maxpool", "relu"})
"""Kernels without weights or a second map."""


def _conv(rng: Random) -> str:
    ky, kx = rng.randint(1, 3), rng.randint(1, 3)
    top, bottom, left, right = (rng.randint(0, 2) for _ in range(4))
    height, width = rng.randint(max(1, ky - top - bottom), 6), rng.randint(max(1, kx - left - right), 6)
    stride, padding = f"{rng.randint(1, 3)}x{rng.randint(1, 3)}", f"{top}x{bottom}x{left}x{right}"
    filters = f"{rng.randint(1, 10)}x{ky}x{kx}"
    return f"{height}x{width}x{rng.randint(1, 20)}:{filters}:s={stride},p={padding}"


def _conv1d(rng: Random) -> str:
    kernel, dilation = rng.randint(1, 4), rng.randint(1, 3)
    before, behind = rng.randint(0, 3), rng.randint(0, 3)
    length = rng.randint(max(1, (kernel - 1) * dilation + 1 - before - behind), 14)
    options = f"s={rng.randint(1, 3)},p={before}x{behind},d={dilation}"
    return f"{length}x{rng.randint(1, 20)}:{rng.randint(1, 10)}x{kernel}:{options}"


def _pointwise(rng: Random) -> str:
    text = f"{rng.randint(1, 5)}x{rng.randint(1, 5)}x{rng.randint(1, 40)}:{rng.randint(1, 10)}"
    return text if rng.random() < 0.7 else f"{text}:s={rng.randint(1, 2)},p={rng.randint(0, 1)}"


def _linear(rng: Random) -> str:
    return f"{rng.randint(1, 160)}:{rng.randint(1, 40)}" + (":raw" if rng.random() < _RAW else "")


def _matmul(rng: Random) -> str:
    return f"{rng.randint(1, 10)}x{rng.randint(1, 70)}x{rng.randint(1, 9)}"


LAYERS: Mapping[str, Callable[[Random], str]] = {
    "add": channelwise_layers.add,
    "avgpool": channelwise_layers.avgpool,
    "conv": _conv,
    "conv1d": _conv1d,
    "depthwise": channelwise_layers.depthwise,
    "linear": _linear,
    "matmul": _matmul,
    "maxpool": channelwise_layers.maxpool,
    "pointwise": _pointwise,
    "relu": channelwise_layers.relu,
}
"""By kernel: a random layer, as it is written."""


def random_cases(
    kernel: str,
    count: int,
    *,
    config: CoreConfig,
    machine: Machine,
    precisions: Sequence[Precision] = (),
    variants: Sequence[str] = (),
    rules: Sequence[Rule] = (),
    check: bool = True,
    timing: bool = True,
) -> list[Case]:
    """Cases of a kernel for random layers, the same for the same ``machine.seed``.

    Parameters
    ----------
    kernel : str
        One of :data:`LAYERS`.
    count : int
        Cases.
    config : CoreConfig
        On which core.
    machine : Machine
        Surroundings; seed of the first case, counted up.
    precisions, variants, rules
        What to choose from; none: everything that the kernel has and the core can run.
    check : bool
        Whether every retirement is checked.
    timing : bool
        Whether some run with random memory timing.

    Raises
    ------
    InputError
        For a kernel without random layers, a count below 1, and if nothing that is asked for exists.
    """
    if kernel not in LAYERS:
        raise InputError(f"kernel must be one of {', '.join(LAYERS)} for random layers, not {kernel}")
    if count < 1:
        raise InputError(f"--random must be at least 1, not {count}")
    chosen, cases = kind(kernel), list[Case]()
    for number in range(count):
        seed = machine.seed + number
        rng = Random(f"{kernel} {seed}")
        surroundings = replace(machine, seed=seed)
        if timing and rng.random() < _TIMED:
            surroundings = replace(surroundings, grant_stalls=0.3, response_latency=4)
        cases.append(_case(chosen, rng, config, surroundings, precisions, variants, rules, check))
    return cases


def _case(
    chosen: Kind,
    rng: Random,
    config: CoreConfig,
    machine: Machine,
    precisions: Sequence[Precision],
    variants: Sequence[str],
    rules: Sequence[Rule],
    check: bool,
) -> Case:
    problem: InputError | LayerError | None = None
    extreme = rng.random() < _EXTREME
    for _ in range(_TRIES):
        layer = chosen.layer.parse(LAYERS[chosen.name](rng))
        precision = rng.choice(precisions) if precisions else _precision(rng, single=chosen.name in _SINGLE_MAP)
        try:
            case = Case(
                layer=layer,
                precision=chosen.precision(layer, precision),
                variant=rng.choice(variants or tuple(chosen.variants)),
                config=config,
                machine=machine,
                checked=check,
                specialise=rng.random() < 0.25,
                rule=rng.choice(rules or chosen.rules or (Rule.BN32,)),
                extreme=extreme,
            )
            case.check()
            _check_spread(case)
        except (InputError, LayerError) as error:
            problem = error
            continue
        return case
    raise InputError(str(problem))


def _check_spread(case: Case) -> None:
    """Raise :class:`LayerError` if a kernel that gave always the same might pass for right."""
    results = reference(case.layer, case_tensors(case), case.precision)
    share = np.unique(results, return_counts=True)[1].max() / results.size
    if not case.extreme and results.size >= _FEW and share > 1 / 2:
        raise LayerError(f"results of a random layer must differ, not be alike by {share:.0%} as those of {case.layer}")


def _precision(rng: Random, *, single: bool) -> Precision:
    x, w, y = (rng.choice(_WIDTHS) for _ in range(3))
    signs = [rng.random() < 0.5 for _ in range(3)]
    if single:
        return Precision(x, x, y, signs[0], signs[0], signs[2])
    if rng.random() < _RAW:
        return Precision(x, w, ACCUMULATOR_BITS, signs[0], signs[1], y_signed=True)
    return Precision(x, w, y, *signs)
