"""One kernel on the design under test: prepare, run, compare the result in memory, put the figures together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.golden import layers
from xpulpnn_sim.harness.engine import BusTiming, Engine, Waves
from xpulpnn_sim.harness.models import model_library
from xpulpnn_sim.harness.report import describe
from xpulpnn_sim.iss.kernel import executed, kernel_memory
from xpulpnn_sw.kernels.call import kernel_call
from xpulpnn_sw.kernels.conv import conv_kernel
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.matmul import matmul_kernel
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import variant
from xpulpnn_sw.layer import ConvLayer, Layer
from xpulpnn_sw.precision import Precision

REPORTED = 3
"""Mismatches described in full."""

MAX_IRQ_RATE = 0.03
"""Interrupts must not come faster than their handler takes."""

_DIGITS = 4


def short_precision(kernel: str, bits: int) -> Precision:
    """What one width for all means: a ``matmul`` leaves its results in 32 bits."""
    uniform = Precision.uniform(bits)
    return uniform if kernel == "conv" else uniform.accumulators


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel to run.

    Parameters
    ----------
    layer : ConvLayer or MatmulLayer
        What is computed.
    precision : Precision
        Widths of inputs, weights and results.
    variant : str
        How.
    config : CoreConfig
        On which core.
    timing : BusTiming
        With which memory; its seed is also that of the tensors.
    checked : bool
        Whether every retirement is checked.
    specialise : bool
        Whether the kernel function is for this layer only, its sizes constants.
    irq_rate : float
        Probability per cycle that an interrupt line rises; for kernels as programs.
    """

    layer: Layer
    precision: Precision
    variant: str
    config: CoreConfig
    timing: BusTiming
    checked: bool
    specialise: bool = False
    irq_rate: float = 0.0

    @property
    def bits(self) -> int:
        """Width of the weights."""
        return self.precision.w

    @property
    def kernel(self) -> str:
        """``conv`` or ``matmul``."""
        return "conv" if isinstance(self.layer, ConvLayer) else "matmul"

    def check(self) -> None:
        """Raise an error unless the variant has the precision and the core the instructions."""
        if not 0 <= self.irq_rate <= MAX_IRQ_RATE:
            raise InputError(f"--irq-rate must be a probability from 0 to {MAX_IRQ_RATE}, not {self.irq_rate}")
        chosen = variant(self.variant)
        chosen.check_precision(self.precision)
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
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    memory = kernel.image.data.copy()
    library = model_library(case.config, checked=case.checked, trace=waves is not None)
    call, window = kernel_call(kernel), [(kernel.image.base, memory)]
    # all of it at once, so that the time of the run is that of the simulation
    sequence = list(executed(kernel, call, kernel_memory(kernel), products=False))
    with Engine(library, call.program, window, checked=case.checked, timing=case.timing, waves=waves) as engine:
        outcome = engine.run(sequence, progress=progress)
    reports = [describe(call.program, mismatch, outcome) for mismatch in outcome.mismatches[:REPORTED]]
    wrong = wrong_results(kernel, memory, case, tensors)
    if wrong is not None:
        reports.append(wrong[1])
    record = figures(
        case,
        kernel,
        engine="rtl",
        executions=outcome.executions[: call.entry],
        cycles_at=outcome.cycles_at[: call.entry],
        cycles=int(outcome.cycles_at[: call.entry].sum()),
        stalls=outcome.stalls,
        mismatches=outcome.mismatch_count + (wrong[0] if wrong else 0),
        wall_s=outcome.wall_s,
        simulated_cycles=outcome.cycles,
    )
    position = min((mismatch.position for mismatch in outcome.mismatches), default=None)
    return Result(record=record, reports=reports, mismatch_position=position)


def case_tensors(case: Case) -> LayerTensors:
    """The random tensors of a case."""
    return random_tensors(case.layer, case.precision, np.random.default_rng(case.timing.seed))


def case_kernel(case: Case, tensors: LayerTensors) -> KernelRun:
    """The kernel of a case."""
    if isinstance(case.layer, ConvLayer):
        return conv_kernel(case.layer, case.precision, case.variant, tensors, specialise=case.specialise)
    return matmul_kernel(case.layer, case.precision, case.variant, tensors, specialise=case.specialise)


def reference(layer: Layer, tensors: LayerTensors, bits: int) -> NDArray[np.int32]:
    """The layer computed by numpy, its results of ``bits`` bits."""
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


def wrong_results(
    kernel: KernelRun, memory: NDArray[np.uint8], case: Case, tensors: LayerTensors
) -> tuple[int, str] | None:
    """Number of results in ``memory`` that differ from the reference layer and the first of them, or None."""
    expected = reference(case.layer, tensors, case.precision.y)
    got = kernel.output.decode(kernel.image, memory)
    different = np.argwhere(got != expected)
    if not len(different):
        return None
    at = tuple(different[0].tolist())
    place = "".join(f"[{i}]" for i in at)
    return len(different), f"output{place}: expected {expected[at]}, got {got[at]} ({len(different)} wrong results)"


def figures(
    case: Case,
    kernel: KernelRun,
    *,
    engine: str,
    executions: NDArray[np.integer[Any]],
    cycles_at: NDArray[np.integer[Any]],
    cycles: int,
    stalls: Mapping[str, int],
    mismatches: int,
    wall_s: float,
    simulated_cycles: int,
) -> dict[str, Any]:
    """The record of a case.

    Parameters
    ----------
    case : Case
        What was run.
    kernel : KernelRun
        Its kernel.
    engine : str
        ``rtl`` (back end and stream) or ``core``.
    executions, cycles_at : integers[N]
        Per static instruction.
    cycles : int
        Of the kernel function.
    stalls : mapping of str to int
        Lost cycles by cause.
    mismatches : int
        Everything that was wrong.
    wall_s : float
        Seconds of simulation.
    simulated_cycles : int
        Cycles simulated in them.
    """
    program, layer = kernel.function, kernel.layer
    matmul = int(cycles_at[program.region("matmul")].sum())
    sdotp = int(executions[program.is_dotp].sum())
    scalar = int(executions[program.is_mul].sum())
    return {
        "kernel": case.kernel,
        "layer": str(layer),
        "bits": case.bits,
        "precision": str(case.precision),
        "variant": case.variant,
        "cores": 1,
        "engine": engine,
        "instructions": int(executions.sum()),
        "cycles": cycles,
        "matmul_cycles": matmul,
        "sdotp": sdotp,
        "macs": layer.macs,
        "cycles_per_sdotp": round(matmul / (sdotp or scalar or 1), _DIGITS),
        "macs_per_cycle": round(layer.macs / max(cycles, 1), _DIGITS),
        "opef": round(program.opef, _DIGITS),
        "stalls": dict(stalls),
        "mismatches": mismatches,
        "wall_s": round(wall_s, _DIGITS),
        "sim_cycles_per_s": round(simulated_cycles / wall_s),
    }
