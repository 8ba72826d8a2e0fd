"""Run every kernel, variant, precision and rule on layers of a few pixels and channels.

A pass computes four layers (1x1, 1x2, 2x1 and 3x3 pixels) for each combination of widths, variant and rule, on the
first core that supports it. The signs of operands alternate from pass to pass. Channels (1 to 9) form a Latin square
over combinations, pixels and passes, and so do two choices: a general or a specialised function, and the whole layer at
once or the parts of eight cores one after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ConfigError, InputError, LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sim.cosimulation.workloads.kernel_series import SharedCase, run_series, shared_case
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.requantisation import EXACT_RULES, Rule
from xpulpnn_sw.layers.layer import Layer
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS, Precision

PIXELS = ((1, 1), (1, 2), (2, 1), (3, 3))  # rows and columns of the maps
CHANNELS = 9  # maximum of input and output channels
WAYS = ((False, 1), (True, 8), (False, 8), (True, 1))  # if the function is specialised, and number of shares
_SIGNS = 8  # maximum of sign combinations of inputs, weights and results
_WIDTHS = (16, 8, 4, 2, SIGN_BITS)
_FORMS = {
    "conv": ("{rows}x{columns}x{inputs}:{outputs}x3x3", "{rows}x{columns}x{inputs}:{outputs}x1x1:p=0"),
    "conv1d": ("{pixels}x{inputs}:{outputs}x3:p=1", "{pixels}x{inputs}:{outputs}x3:p=2,d=2"),
    "pointwise": ("{rows}x{columns}x{inputs}:{outputs}",),
    "linear": ("{elements}:{outputs}",),
    "matmul": ("{outputs}x{inputs}x{pixels}",),
    "add": ("{rows}x{columns}x{inputs}", "{rows}x{columns}x{inputs}:shift"),
    "avgpool": ("{rows}x{columns}x{inputs}:{window}", "{rows}x{columns}x{inputs}:{window}:scaled"),
    "batchmatmul": ("{rows}x{columns}x{inputs}:{outputs}",),
    "depthwise": ("{rows}x{columns}x{inputs}:3x3",),
    "gather": ("{rows}x{columns}x{inputs}:{columns}x{rows}x{outputs}",),
    "maxpool": ("{rows}x{columns}x{inputs}:{window}", "{rows}x{columns}x{inputs}:{window}:relu"),
    **dict.fromkeys(
        ("layernorm", "lookup", "multiply", "relu", "softmax", "transpose"), ("{rows}x{columns}x{inputs}",)
    ),
}
"""Layers of each kernel, with placeholders for sizes; passes and combinations use them in turn."""


def small_layer(kernel: str, pixels: tuple[int, int], inputs: int, outputs: int, turn: int) -> str:
    """Return a layer of the given size; ``turn`` selects one of the kernel's entries in ``_FORMS``."""
    rows, columns = pixels
    forms = _FORMS[kernel]
    return forms[turn % len(forms)].format(
        rows=rows,
        columns=columns,
        pixels=rows * columns,
        elements=rows * columns * inputs,
        inputs=inputs,
        outputs=outputs,
        window=f"{min(rows, 2)}x{min(columns, 2)}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    kernel: str
    precision: Precision
    variant: str
    rule: Rule
    config: CoreConfig
    number: int = 0  # index in a pass

    def cases(self, number: int) -> Iterator[tuple[Case, int]]:
        """Yield the layers of a pass, each with the number of cores among which its work is divided."""
        computing = find_kernel(self.kernel)
        for place, pixels in enumerate(PIXELS):
            outputs, inputs = divmod((32 * self.number + 20 * place + number) % CHANNELS**2, CHANNELS)
            turn = self.number + place + number + number // _SIGNS
            specialise, cores = WAYS[turn % len(WAYS)]
            channels = (inputs + 1, outputs + 1)
            texts = [small_layer(self.kernel, pixels, *channels, turn // len(WAYS) + other) for other in range(2)]
            # one of two forms may need signed elements
            layer = next(layer for layer in map(computing.layer.parse, texts) if self._suits(layer))
            yield self._case(layer, Machine(seed=number), specialise), cores

    def _suits(self, layer: Layer) -> bool:
        with suppress(LayerError):
            return find_kernel(self.kernel).precision(layer, self.precision) is not None
        return False

    def _case(self, layer: Any, machine: Machine, specialise: bool) -> Case:
        precision = find_kernel(self.kernel).precision(layer, self.precision)
        how = {"machine": machine, "checked": False, "specialise": specialise, "rule": self.rule}
        return Case(layer=layer, precision=precision, variant=self.variant, config=self.config, **how)

    @property
    def exists(self) -> bool:
        with suppress(InputError, LayerError):
            computing = find_kernel(self.kernel)
            self._case(computing.layer.parse(computing.usual), Machine(), specialise=False).check()
            return True
        return False


def precisions_of(kernel: Kernel, widths: Sequence[int], results: Sequence[int]) -> Iterator[Precision]:
    """Yield all precisions of a kernel; for kernels of one operand, both widths are the same."""
    for x, w, y in product(widths, widths, results):
        for signs in product((False, True), repeat=3):
            with suppress(LayerError):
                precision = Precision(x, w, y, *signs)
                is_possible = kernel.has_weights or (x, signs[0]) == (w, signs[1])
                if is_possible and (precision.requantised or precision.y_signed):
                    yield precision


def combinations(kernels: Sequence[str], cores: Sequence[CoreConfig]) -> Iterator[Combination]:
    """Yield every combination on the first core that supports it; exact rules also on one with exact requantisation."""
    searching = [*_with_qnt(cores)]
    for name in kernels:
        computing = find_kernel(name)
        precisions = precisions_of(computing, _WIDTHS, (ACCUMULATOR_BITS, *_WIDTHS))
        for precision, (variant, level) in product(precisions, computing.variants.items()):
            if not level.computes(precision):
                continue
            # accumulators need no rule, single bits have one only
            is_open = precision.requantised and precision.y != SIGN_BITS
            for rule in (computing.rules if is_open else ()) or (Rule.BN32,):
                exactness = set[bool]()
                for config in searching if rule is Rule.QNT else cores:
                    is_exact = rule in EXACT_RULES and Extension.XPULPRQ_EXACT in config.extensions
                    is_known = is_exact in exactness or (exactness and rule not in EXACT_RULES)
                    if is_known or level.extensions - config.extensions:
                        continue
                    what = {"kernel": name, "precision": precision, "variant": variant, "rule": rule}
                    combination = Combination(config=config, **what)
                    if combination.exists:
                        exactness.add(is_exact)
                        yield combination


def _with_qnt(cores: Sequence[CoreConfig]) -> Iterator[CoreConfig]:
    for config in cores:
        with suppress(ConfigError):
            yield replace(config, qnt=True)


def select_pass(all_combinations: Iterable[Combination], number: int) -> list[Combination]:
    """Return the combinations of a pass: one of each group of combinations that differ only in signs."""
    groups: dict[tuple[object, ...], list[Combination]] = {}
    for combination in all_combinations:
        precision = combination.precision
        key = combination.kernel, precision.x, precision.w, precision.y, combination.variant, combination.rule
        groups.setdefault((*key, combination.config), []).append(combination)
    chosen = ((place, group[(place + number) % len(group)]) for place, group in enumerate(groups.values()))
    return [replace(combination, number=place) for place, combination in chosen]


@dataclass(slots=True, kw_only=True)
class SweepResult:
    layers: int = 0
    wrong: int = 0  # layers with wrong or missing results
    cycles: int = 0
    refused: dict[str, int] = field(default_factory=dict[str, int])  # layers without a kernel, by reason
    reports: list[str] = field(default_factory=list[str])

    def merge(self, other: "SweepResult") -> None:
        self.layers += other.layers
        self.wrong += other.wrong
        self.cycles += other.cycles
        self.reports += other.reports
        for reason, count in other.refused.items():
            self.refused[reason] = self.refused.get(reason, 0) + count


def run_combinations(chosen: Sequence[Combination], number: int) -> SweepResult:
    """Run the layers of a pass for combinations that all have the same core."""
    total, shared = SweepResult(), list[SharedCase]()
    for case, cores in (pair for combination in chosen for pair in combination.cases(number)):
        try:
            shared.append(shared_case(case, cores))
        except LayerError as error:
            total.merge(SweepResult(layers=1, refused={str(error): 1}))
        except Exception as error:
            report = f"{case.name} {case.rule.value}: {type(error).__name__}: {error}"
            total.merge(SweepResult(layers=1, wrong=1, reports=[report]))
    for cases, result in run_series(shared, chosen[0].config) if shared else ():
        names, reports = {report.partition(": ")[0] for report in result.reports}, result.reports
        if result.record["stopped"]:
            names, reports = {cases[0].name}, [f"{cases[0].name}: {result.reports[-1]}"]
        cycles = result.record["cycles"]
        total.merge(SweepResult(layers=len(cases), wrong=len(names), cycles=cycles, reports=reports))
    return total
