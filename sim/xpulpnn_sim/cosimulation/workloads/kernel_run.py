"""Runs kernels on one core, as a program or as an instruction stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.host import Host
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads.workload import (
    DIGITS,
    Comparison,
    ExecutedStream,
    Progress,
    Result,
    Workload,
    executable_of,
    function_cycles,
)
from xpulpnn_sim.reference.golden.network import stage_results
from xpulpnn_sim.reference.iss.kernel_calls import executed, kernel_memory
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sw.kernels.catalogue import kernel_of
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_call
from xpulpnn_sw.kernels.layout import Ints, Placement
from xpulpnn_sw.kernels.operands import check_rule
from xpulpnn_sw.kernels.programs.bare import bare_program
from xpulpnn_sw.kernels.programs.tiled import Tiling
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import for_core
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.layer import Layer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision
from xpulpnn_sw.networks.network import Stage
from xpulpnn_sw.toolchain.build_options import presets_with

_Results = NDArray[np.int32]
_BEFORE, _AFTER = 50, 20  # instructions in the waveforms before and after a mismatch
_BEGINNING = 2000  # cycles of waveforms without a mismatch


def reference(layer: Layer, tensors: Any, precision: Precision) -> _Results:
    """Return the results that a layer must have, with the width and sign of the precision."""
    stage = Stage(name=str(layer), layer=layer, precision=precision, tensors=tensors)
    return stage_results(stage, *(operand[np.newaxis] for operand in stage.maps))[0]


_PRECISION_FIELDS = {
    "activations": ("x", "x_signed"),
    "first": ("x", "x_signed"),
    "weights": ("w", "w_signed"),
    "second": ("w", "w_signed"),
}


def with_extremes(tensors: Any, precision: Precision, rng: np.random.Generator) -> Any:
    changed: dict[str, Ints] = {}
    for operand in fields(tensors):
        if operand.name in _PRECISION_FIELDS:
            width, sign = (getattr(precision, name) for name in _PRECISION_FIELDS[operand.name])
            least = -(1 << (width - 1)) if sign else 0
            greatest = least + (1 << width) - 1
            if width == SIGN_BITS:
                least, greatest = -1, 1
            shape = getattr(tensors, operand.name).shape
            share = float(rng.choice((0, 1 / 2, 1)))
            changed[operand.name] = np.where(rng.random(shape) < share, least, greatest)
    return replace(tensors, **changed)


MAX_IRQ_RATE = 0.03  # with more interrupts their handlers take all the time

ENGINES = ("stream", "core")  # Engines of kernels: the back end with an instruction stream, or the core with a program


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    layer: Layer
    precision: Precision  # widths of inputs, weights and results
    variant: str
    config: CoreConfig | ClusterConfig  # all cores of a cluster share the work
    machine: Machine = field(default_factory=Machine)  # its seed is also that of the tensors
    checked: bool = True  # whether every retirement is checked
    specialise: bool = False  # whether the sizes of the layer are constants in the kernel function
    rule: Rule = Rule.BN32  # requantisation, in kernels with a choice; results of one bit always take a threshold
    extreme: bool = False  # whether all elements of the operands are at the ends of their ranges
    placement: Placement = "padded"  # layout in the banks of operands that the cores of a cluster read at the same time
    # tiles of a layer on a cluster, whose operands are in external memory; None: no tiles if it fits into the TCDM,
    # otherwise the fastest ones
    tiling: Tiling | None = None
    host: str | None = None  # core of somebody else, with the coprocessor of the configuration

    @property
    def bits(self) -> int:
        return self.precision.w

    @property
    def kernel(self) -> str:
        return kernel_of(self.layer).name

    @property
    def name(self) -> str:
        where = f" on {self.config.cores} cores" if isinstance(self.config, ClusterConfig) else ""
        return f"{self.kernel} {self.layer} {self.precision} {self.variant}{where}"

    def check(self) -> None:
        if not 0 <= self.machine.irq_rate <= MAX_IRQ_RATE:
            raise InputError(
                f"interrupt rate must be a probability from 0 to {MAX_IRQ_RATE}, not {self.machine.irq_rate}"
            )
        computing, core = kernel_of(self.layer), self.config.core
        computing.require_rule(self.rule, self.precision)
        if self.rule is Rule.QNT and Extension.XPULPQNT not in core.extensions:
            raise InputError("requantisation must be a rule without pv.qnt, unless the core has qnt, not qnt")
        chosen = computing.variant(self.variant)
        chosen.check_precision(self.precision)
        check_rule(chosen, self.precision, self.rule)
        missing = sorted(extension.value for extension in chosen.extensions - core.extensions)
        if missing:
            having = " or ".join(presets_with(missing[0]))
            raise InputError(
                f"variant must be one that the configuration can run, not {chosen.name} (needs {missing[0]}"
                f"{f': preset {having}' if having else ''})"
            )
        if chosen.vectors(self.precision) - core.widths:
            shown = ",".join(map(str, sorted(core.widths, reverse=True)))
            raise InputError(f"bits of {chosen.name} must be among the configuration's {shown}, not {self.bits}")


def run_case(
    case: Case, engine: str = "stream", waves: Waves | None = None, progress: Progress | None = None
) -> Result:
    """Run a case on one of :data:`ENGINES` and compare its results with the reference layer."""
    return kernel_work(case, engine).run(progress, waves)


def kernel_work(case: Case, engine: str) -> "KernelWork":
    tensors = case_tensors(case)
    work = {work_class.engine: work_class for work_class in (KernelStream, KernelProgram)}[engine]
    if case.host is not None:
        work = HostProgram
    return work(case, tensors, case_kernel(case, tensors))


def write_waves(path: Path, window: tuple[int, int] | None, cases: Sequence[Case], results: Sequence[Result]) -> None:
    """Write waveforms of the first case in the cycles ``window``, or without ``window`` of the first mismatch."""
    wrong = next((number for number, result in enumerate(results) if result.record["mismatches"]), 0)
    position = results[wrong].mismatch_position
    if window is not None:
        wrong, waves = 0, Waves(path=path, first=window[0], last=window[1])
    elif position is None:
        waves = Waves(path=path, first=0, last=_BEGINNING)
    else:
        waves = Waves(path=path, first=max(position - _BEFORE, 0), last=position + _AFTER, by_instruction=True)
    run_case(cases[wrong], waves=waves)


class KernelWork(Workload):
    engine = ""
    output = "output"  # name of the results in reports

    def __init__(self, case: Case, tensors: Any, kernel: KernelRun, executable: Executable | ExecutedStream) -> None:
        super().__init__(case.config, case.machine, executable, macs=case.layer.macs, checked=case.checked)
        self.case, self.tensors, self.kernel = case, tensors, kernel

    def memory(self, outcome: RunResult) -> NDArray[np.uint8]:
        return outcome.memory[self.kernel.image.base]

    def compared(self, outcome: RunResult) -> list[Comparison]:
        return [compared_results(self.kernel, self.memory(outcome), self.case, self.tensors, self.output)]

    def kernel_figures(self, rows: NDArray[np.uint64], cycles: int) -> dict[str, Any]:
        """Return the record of a kernel from the cycles spent in its function, ``[core][instruction][cause]``."""
        case, kernel = self.case, self.kernel
        program, layer, total = kernel.function, kernel.layer, rows.sum(axis=0)
        executions, cycles_at = total[:, WaitCause.NONE], total.sum(axis=1)
        matmul = int(cycles_at[program.region("matmul")].sum())
        sdotp = _dot_products(kernel, executions)
        scalar = int(executions[program.is_mul].sum())
        return {
            "kernel": case.kernel,
            "layer": str(layer),
            "bits": case.bits,  # of the weights
            "precision": str(case.precision),
            "variant": case.variant,
            "rule": "" if kernel.rule is None else kernel.rule.value,
            "cores": len(rows),
            "engine": self.engine,
            "instructions": int(executions.sum()),  # of the kernel function, on all cores together
            "cycles": cycles,
            "matmul_cycles": matmul,  # of the MatMul alone, of all cores together
            "sdotp": sdotp,  # dot products of words
            "macs": layer.macs,
            # of the MatMul alone; without dot products per multiplication
            "cycles_per_sdotp": round(matmul / (sdotp or scalar or 1), DIGITS),
            "macs_per_cycle": round(layer.macs / max(cycles, 1), DIGITS),
            "opef": round(program.opef, DIGITS),  # dot products for an instruction of the innermost loop
            "stalls": stalls_of(total, devices=self.engine not in ENGINES),
        }


class KernelStream(KernelWork):
    engine = ENGINES[0]

    def __init__(self, case: Case, tensors: Any, kernel: KernelRun) -> None:
        super().__init__(case, tensors, kernel, kernel_stream(kernel))

    def figures(self, outcome: RunResult, compared: Sequence[Comparison]) -> dict[str, Any]:
        """Return the record of the kernel, with the cycles of the function's instructions."""
        rows = function_cycles(outcome, self.kernel.function, int(self.kernel.function.pcs[0]))
        return self.kernel_figures(rows, int(rows.sum()))


def kernel_stream(kernel: KernelRun) -> ExecutedStream:
    """Compute the executed instructions of a call in advance, so that a run measures simulation only."""
    call, image = kernel_call(kernel), kernel.image
    sequence = np.concatenate(list(executed(kernel, call, kernel_memory(kernel))))
    return ExecutedStream(call.program.words, call.program.pcs, sequence, {image.base: image.data.copy()})


class KernelProgram(KernelWork):
    engine = ENGINES[1]
    prepare = ""  # statements before the call

    def __init__(self, case: Case, tensors: Any, kernel: KernelRun) -> None:
        self.program = bare_program(kernel, self.prepare)
        super().__init__(case, tensors, kernel, executable_of(self.program, case.name))

    def figures(self, outcome: RunResult, compared: Sequence[Comparison]) -> dict[str, Any]:
        """Return the record of the kernel; its cycles are read from mcycle before and after the call."""
        rows = function_cycles(outcome, self.kernel.function, self.program.text_base)
        return self.kernel_figures(rows, self.program.measured_cycles(self.memory(outcome)))


_COUNTING = "csrw 0x320, zero"  # clears mcountinhibit


class HostProgram(KernelProgram):
    prepare = _COUNTING

    def __init__(self, case: Case, tensors: Any, kernel: KernelRun) -> None:
        super().__init__(case, tensors, kernel)
        self.engine = str(case.host)
        self.host = Host.of(self.engine, case.config.core)


def _dot_products(kernel: KernelRun, executions: NDArray[np.uint64]) -> int:
    program, variant = kernel.function, kernel.variant
    if not isinstance(variant, Variant) or not variant.has_coprocessor:
        return int((executions * program.dotps).sum())
    words = zip(program.insns, program.words, strict=True)
    reads = [insn.op == "pa.rd" and not insn.decode(int(word))["r"] for insn, word in words]
    steps = kernel.arguments["row_words"] * variant.row_bits(kernel.precision) // kernel.precision.w
    return int(executions[reads].sum()) * variant.nch * variant.npx * steps


def case_tensors(case: Case) -> Any:
    rng = np.random.default_rng(case.machine.seed)
    tensors = kernel_of(case.layer).tensors(case.layer, case.precision, rng, case.rule)
    return with_extremes(tensors, case.precision, rng) if case.extreme else tensors


def case_kernel(case: Case, tensors: Any, cores: int | None = None) -> KernelRun:
    """Build the kernel of a case for ``cores`` cores, by default for those of its configuration."""
    return kernel_of(case.layer).build(
        case.layer,
        case.precision,
        case.variant,
        for_core(tensors, case.precision, case.config.core.extensions),
        cores=case.config.cores if cores is None else cores,
        specialise=case.specialise,
        placement=case.placement,
    )


def compared_results(
    kernel: KernelRun, memory: NDArray[np.uint8], case: Case, tensors: Any, name: str = "output"
) -> Comparison:
    got = kernel.output.decode(kernel.image, memory)
    return Comparison.of(name, reference(case.layer, tensors, case.precision).reshape(got.shape), got)
