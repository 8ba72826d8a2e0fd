"""One kernel on the design under test: prepare, run, compare the result in memory, put the figures together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.golden import layers
from xpulpnn_sim.harness.engine import BusTiming, Engine, Outcome, Waves
from xpulpnn_sim.harness.models import model_library
from xpulpnn_sim.harness.report import describe
from xpulpnn_sw.kernels.conv import conv_kernel
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.matmul import matmul_kernel
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import variant
from xpulpnn_sw.layer import ConvLayer, Layer

REPORTED = 3
"""Mismatches described in full."""

_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel to run.

    Parameters
    ----------
    layer : ConvLayer or MatmulLayer
        What is computed.
    bits : int
        Operand width.
    variant : str
        How.
    config : CoreConfig
        On which core.
    timing : BusTiming
        With which memory; its seed is also that of the tensors.
    checked : bool
        Whether every retirement is checked.
    """

    layer: Layer
    bits: int
    variant: str
    config: CoreConfig
    timing: BusTiming
    checked: bool

    @property
    def kernel(self) -> str:
        """``conv`` or ``matmul``."""
        return "conv" if isinstance(self.layer, ConvLayer) else "matmul"

    def check(self) -> None:
        """Raise an error unless the variant has the width and the core the instructions."""
        chosen = variant(self.variant)
        chosen.check_width(self.bits)
        missing = sorted(extension.value for extension in chosen.extensions - self.config.extensions)
        if missing:
            raise InputError(
                f"variant must be one that the configuration can run, not {chosen.name} (needs {missing[0]})"
            )
        if chosen.xpulp and chosen.row_bits(self.bits) not in self.config.widths:
            shown = ",".join(map(str, sorted(self.config.widths, reverse=True)))
            raise InputError(f"bits of {chosen.name} must be among the configuration's {shown}, not {self.bits}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Figures of a case, as they go into JSON, its first mismatches as text, and the instruction of the very first."""

    record: dict[str, Any]
    reports: list[str]
    mismatch_position: int | None


def run_case(case: Case, waves: Waves | None = None, progress: Callable[[int], None] | None = None) -> Result:
    """Run a case and check it.

    The memory afterwards is compared with the reference layer in any case. With ``waves`` the same run, cycle by
    cycle, is repeated on a model that writes waveforms.
    """
    tensors = _tensors(case)
    kernel = _kernel(case, tensors)
    memory = kernel.image.data.copy()
    library = model_library(case.config, checked=case.checked, trace=waves is not None)
    window = [(kernel.image.base, memory)]
    with Engine(library, kernel.program, window, checked=case.checked, timing=case.timing, waves=waves) as engine:
        outcome = engine.run(kernel.stream.blocks(), progress=progress)
    reports = [describe(kernel.program, mismatch, outcome) for mismatch in outcome.mismatches[:REPORTED]]
    wrong = _compare(kernel, memory, _reference(case.layer, tensors, case.bits))
    if wrong is not None:
        reports.append(wrong[1])
    record = _record(case, kernel, outcome, wrong[0] if wrong else 0)
    position = min((mismatch.position for mismatch in outcome.mismatches), default=None)
    return Result(record=record, reports=reports, mismatch_position=position)


def _tensors(case: Case) -> LayerTensors:
    rng = np.random.default_rng(case.timing.seed)
    return random_tensors(case.layer, case.bits, rng, requantise=case.kernel == "conv")


def _kernel(case: Case, tensors: LayerTensors) -> KernelRun:
    if isinstance(case.layer, ConvLayer):
        return conv_kernel(case.layer, case.bits, case.variant, tensors)
    return matmul_kernel(case.layer, case.bits, case.variant, tensors)


def _reference(layer: Layer, tensors: LayerTensors, bits: int) -> NDArray[np.int32]:
    """The layer computed by numpy."""
    if isinstance(layer, ConvLayer):
        pads = layers.Pads(*layer.padding)
        accumulators = layers.conv(tensors.activations, tensors.weights, tensors.bias, layer.stride, pads)
    else:
        accumulators = layers.matmul(tensors.weights, tensors.activations)
        if tensors.bias is not None:
            accumulators = (accumulators.astype(np.int64) + tensors.bias).astype(np.int32)
    quantisation = tensors.requantisation
    if quantisation is None:
        return accumulators
    return layers.quantise_bn(accumulators, quantisation.kappa, quantisation.lam, quantisation.shift, bits)


def _compare(kernel: KernelRun, memory: NDArray[np.uint8], expected: NDArray[np.int32]) -> tuple[int, str] | None:
    """Number of wrong results and the first of them, or None."""
    got = kernel.output.decode(kernel.image, memory)
    different = np.argwhere(got != expected)
    if not len(different):
        return None
    at = tuple(different[0].tolist())
    place = "".join(f"[{i}]" for i in at)
    return len(different), f"output{place}: expected {expected[at]}, got {got[at]} ({len(different)} wrong results)"


def _record(case: Case, kernel: KernelRun, outcome: Outcome, wrong: int) -> dict[str, Any]:
    program, layer = kernel.program, kernel.layer
    matmul = int(outcome.cycles_at[program.region("matmul")].sum())
    sdotp = int(outcome.executions[program.is_dotp].sum())
    scalar = int(outcome.executions[program.is_mul].sum())
    return {
        "kernel": case.kernel,
        "layer": str(layer),
        "bits": case.bits,
        "variant": case.variant,
        "cores": 1,
        "engine": "rtl",
        "instructions": outcome.instructions,
        "cycles": outcome.cycles,
        "matmul_cycles": matmul,
        "sdotp": sdotp,
        "macs": layer.macs,
        "cycles_per_sdotp": round(matmul / (sdotp or scalar), _DIGITS),
        "macs_per_cycle": round(layer.macs / outcome.cycles, _DIGITS),
        "opef": round(program.opef, _DIGITS),
        "stalls": outcome.stalls,
        "mismatches": outcome.mismatch_count + wrong,
        "wall_s": round(outcome.wall_s, _DIGITS),
        "sim_cycles_per_s": round(outcome.cycles / outcome.wall_s),
    }
