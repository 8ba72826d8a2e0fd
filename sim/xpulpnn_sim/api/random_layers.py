"""Random layers for kernels: sizes, strides and padding that cover special cases, and all precisions.

A quarter of the layers have few pixels and channels, often a single one. Operands are chosen so that results spread
over their range, or that some results are at the ends of the range.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product
from operator import attrgetter
from random import Random
from typing import Any

from xpulpnn.errors import InputError, LayerError, require
from xpulpnn_sim.api.cosimulation import CoreChoice
from xpulpnn_sim.api.kernel_sweep import CHANNELS, PIXELS, precisions_of, small_layer
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_tensors, reference
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS, Precision

_WIDTHS = (8, 4, 2)
_SINGLE_BITS = ("1x1x1", "1x1xi32", "1x1x8", "1x1x4", "1x1x2", "8x1x8", "8x1x1", "1x2x1", "1x4x4", "4x4x1")
"""Precisions with single-bit numbers; they take turns with the precisions of all other widths."""

Turn = tuple[tuple[Precision, ...], str]  # precisions of equal widths, and a variant
_TIMED = 0.25  # fraction of layers with random memory timing
_EXTREME = 0.125  # fraction of layers with operands at the ends of their ranges
_UNSURROUNDED = 0.5  # fraction of layers with zero padding, of those that support other values
_SMALL = 0.25  # fraction of layers with few pixels and channels
_TRIES = 1000  # attempts per layer; all fail only if no layer has varying results
_FEW = 8  # number of results that need not vary
_MOST_ALIKE, _MOST_SIGNS_ALIKE = 1 / 2, 4 / 5
"""Maximum fraction of results that are equal, and for single-bit results of equal signs."""


def random_cases(
    kernel: Kernel,
    cores: CoreChoice,
    count: int,
    *,
    machine: Machine,
    precisions: Sequence[Precision] = (),
    variants: Sequence[str] = (),
    rules: Sequence[Rule] = (),
    check: bool = True,
    timing: bool = True,
) -> list[Case]:
    """Return cases with random layers, determined by ``machine.seed``; raise :class:`InputError` if none exists."""
    require(count >= 1, f"number of random layers must be at least 1, not {count}")
    cases: list[Case] = []
    all_turns = turns(kernel, cores, precisions=precisions, variants=variants, rules=rules)
    for number in range(count):
        seed = machine.seed + number
        rng = Random(f"{kernel.name} {seed}")
        surroundings = replace(machine, seed=seed)
        if timing and rng.random() < _TIMED:
            surroundings = replace(surroundings, grant_stalls=0.3, response_latency=4)
        possible, variant = all_turns[seed % len(all_turns)]
        case = Case(
            layer=kernel.layer.parse(kernel.usual),
            precision=rng.choice(possible),
            variant=variant,
            config=cores.core_for(kernel, variant),
            machine=surroundings,
            checked=check,
            specialise=rng.random() < 0.25,
        )
        known = rules or kernel.rules or (Rule.BN32,)
        runnable = [rule for rule in known if _problem_of(replace(case, rule=rule)) is None]
        case = replace(case, rule=rng.choice(runnable), extreme=rng.random() < _EXTREME)
        cases.append(_with_random_layer(case, kernel, rng))
    return cases


def _problem_of(case: Case) -> InputError | LayerError | None:
    try:
        case.check()
    except (InputError, LayerError) as error:
        return error
    return None


def turns(
    kernel: Kernel,
    cores: CoreChoice,
    *,
    precisions: Sequence[Precision] = (),
    variants: Sequence[str] = (),
    rules: Sequence[Rule] = (),
) -> list[Turn]:
    """Return the widths and variants for :func:`random_cases`, shuffled; raise :class:`InputError` if there are
    none."""
    layer, all_turns = kernel.layer.parse(kernel.usual), list[Turn]()
    problem: InputError | LayerError | None = None
    groups = [(precision,) for precision in precisions] or _groups(kernel)
    for group, variant in product(groups, variants or tuple(kernel.variants)):
        possible: list[Precision] = []
        for precision in group:
            try:
                precision = kernel.precision(layer, precision)
                core = cores.core_for(kernel, variant)
                case = Case(layer=layer, precision=precision, variant=variant, config=core)
                problems = [_problem_of(replace(case, rule=rule)) for rule in rules or (Rule.BN32,)]
                if all(problems) and problems[0]:
                    raise problems[0]
                possible.append(precision)
            except (InputError, LayerError) as error:
                problem = error
        if possible:
            all_turns.append((tuple(possible), variant))
    if not all_turns:
        raise InputError(str(problem))
    Random(kernel.name).shuffle(all_turns)
    return all_turns


def covered(cases: Sequence[Case]) -> int:
    return len({(case.precision.x, case.precision.w, case.precision.y, case.variant) for case in cases})


def _groups(kernel: Kernel) -> list[tuple[Precision, ...]]:
    known = precisions_of(kernel, _WIDTHS, (*_WIDTHS, ACCUMULATOR_BITS))
    groups = [tuple(group) for _, group in groupby(known, attrgetter("x", "w", "y"))]
    # kernels without products have no single-bit operands
    return [*groups, *((Precision.parse(text),) for text in _SINGLE_BITS if kernel.has_weights)]


def _with_random_layer(case: Case, kernel: Kernel, rng: Random) -> Case:
    problem: InputError | LayerError | None = None
    # generators of their own leave other draws unchanged
    values, small = (Random(f"{kernel.name} {case.machine.seed} {what}") for what in ("outside", "small"))
    is_small = small.random() < _SMALL
    for _ in range(_TRIES):
        layer = kernel.layer.parse(_small_layer(kernel.name, small) if is_small else kernel.random_text(rng))
        drawn = replace(case, layer=_with_random_padding(layer, case.precision, values))
        try:
            if kernel.precision(layer, case.precision) == case.precision:
                drawn.check()
                _check_spread(drawn)
                return drawn
        except (InputError, LayerError) as error:
            problem = error
    raise InputError(str(problem))


def _small_layer(kernel: str, rng: Random) -> str:
    inputs, outputs = (rng.choice((1, rng.randint(1, CHANNELS))) for _ in range(2))
    return small_layer(kernel, rng.choice(PIXELS), inputs, outputs, rng.randint(0, 1))


def _with_random_padding(layer: Any, precision: Precision, rng: Random) -> Any:
    if not hasattr(layer, "outside") or precision.x == SIGN_BITS:
        return layer
    if rng.random() < _UNSURROUNDED:
        return layer
    return replace(layer, outside=rng.randint(*precision.input_range))


def _check_spread(case: Case) -> None:
    """Raise :class:`LayerError` if the results vary so little that a kernel with constant results might pass."""
    results = reference(case.layer, case_tensors(case), case.precision)
    # fraction of results equal to the most frequent one
    share = max(Counter(results.ravel().tolist()).values()) / results.size
    most = _MOST_SIGNS_ALIKE if case.precision.y == SIGN_BITS else _MOST_ALIKE
    if not case.extreme and results.size >= _FEW and share > most:
        raise LayerError(f"results of a random layer must differ, not be alike by {share:.0%} as those of {case.layer}")
