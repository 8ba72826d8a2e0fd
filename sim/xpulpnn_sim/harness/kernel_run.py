"""One kernel on the design under test: prepare, run, compare the result in memory, put the figures together."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.elf import Executable, Segment
from xpulpnn_sim.harness.extremes import at_the_ends
from xpulpnn_sim.harness.machine import Machine, Waves
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.references import reference
from xpulpnn_sim.harness.session import RunResult
from xpulpnn_sim.harness.stream_run import run_stream
from xpulpnn_sim.iss.kernel import executed, kernel_memory
from xpulpnn_sw.kernels.call import kernel_call
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.kinds import kind, kind_of
from xpulpnn_sw.kernels.operands import check_rule
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layout import Placement
from xpulpnn_sw.precision import SIGN_BITS, Precision
from xpulpnn_sw.programs.bare import BareProgram, bare_program

MAX_IRQ_RATE = 0.03
"""Interrupts must not come faster than their handler takes."""

_DIGITS = 4


def short_precision(kernel: str, bits: int) -> Precision:
    """What one width for all means: a ``matmul`` leaves its results in 32 bits."""
    return kind(kernel).uniform(bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel to run."""

    layer: Layer
    precision: Precision  # widths of inputs, weights and results
    variant: str
    config: CoreConfig  # on which core
    # with which memory and interrupts; its seed is also that of the tensors
    machine: Machine = field(default_factory=Machine)
    checked: bool = True  # whether every retirement is checked
    specialise: bool = False  # whether the kernel function is for this layer only, its sizes constants
    # how results below 32 bits come of the accumulators, in kernels that have a choice; of one bit always by a
    # threshold
    rule: Rule = Rule.BN32
    extreme: bool = False  # whether all elements of the operands are at the ends of their ranges

    @property
    def bits(self) -> int:
        """Width of the weights."""
        return self.precision.w

    @property
    def kernel(self) -> str:
        """Its name."""
        return kind_of(self.layer).name

    def check(self) -> None:
        """Raise an error unless the variant has the precision and the core the instructions."""
        if not 0 <= self.machine.irq_rate <= MAX_IRQ_RATE:
            raise InputError(f"--irq-rate must be a probability from 0 to {MAX_IRQ_RATE}, not {self.machine.irq_rate}")
        computing = kind_of(self.layer)
        if self.rule is not Rule.BN32 and self.rule not in computing.rules:
            if not computing.rules:
                raise InputError(f"--requantise must be left out with {computing.name}")
            known = ", ".join(rule.value for rule in computing.rules)
            raise InputError(f"--requantise must be one of {known} with {computing.name}, not {self.rule.value}")
        if self.rule is Rule.QNT and Extension.XPULPQNT not in self.config.extensions:
            raise InputError("--requantise must be a rule without pv.qnt, unless --set qnt=true, not qnt")
        if self.precision.y == SIGN_BITS and self.rule not in (Rule.BN32, Rule.THRESHOLDS):
            raise InputError(f"--requantise must be thresholds for results of one bit, not {self.rule.value}")
        chosen = computing.variant(self.variant)
        chosen.check_precision(self.precision)
        check_rule(chosen, self.precision, self.rule)
        missing = sorted(extension.value for extension in chosen.extensions - self.config.extensions)
        if missing:
            raise InputError(
                f"variant must be one that the configuration can run, not {chosen.name} (needs {missing[0]})"
            )
        if chosen.vectors(self.precision) - self.config.widths:
            shown = ",".join(map(str, sorted(self.config.widths, reverse=True)))
            raise InputError(f"bits of {chosen.name} must be among the configuration's {shown}, not {self.bits}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFigures:
    """Figures of a case, under the names of its JSON record."""

    kernel: str  # what was computed and how
    layer: str  # what was computed and how
    bits: int  # width of the weights
    precision: str  # what was computed and how
    variant: str  # what was computed and how
    rule: str  # how the results come of accumulators, in kernels that have a choice; empty if they do not
    cores: int  # cores that shared the work
    engine: str
    instructions: int  # of the kernel function, on all cores together
    cycles: int  # of the kernel function
    matmul_cycles: int  # of its MatMul alone, of all cores together
    sdotp: int  # Dot-product instructions executed, and multiply-accumulates of the layer
    macs: int  # Dot-product instructions executed, and multiply-accumulates of the layer
    cycles_per_sdotp: float  # of the MatMul alone; without dot products per multiplication
    macs_per_cycle: float  # of the whole kernel
    opef: float  # share of dot products among the instructions of the innermost loop
    stalls: dict[str, int]  # cycles without a retirement by cause
    mismatches: int  # retirements and results that differ from the references
    wall_s: float  # seconds of simulation and its speed
    sim_cycles_per_s: int  # seconds of simulation and its speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a case."""

    figures: KernelFigures
    reports: list[str]  # its first mismatches
    mismatch_position: int | None  # number of the instruction of the very first

    @property
    def record(self) -> dict[str, Any]:
        """The figures as JSON types."""
        return asdict(self.figures)


ENGINES = ("stream", "core")
"""What runs a kernel: the back end fed with the executed instructions, or the core with the kernel as a program."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """What came of a kernel: the run, its data memory, cycles of the function, and where its text was counted from."""

    outcome: RunResult
    memory: NDArray[np.uint8]
    cycles: int
    text_base: int


def run_case(
    case: Case, engine: str = "stream", waves: Waves | None = None, progress: Callable[[int], None] | None = None
) -> Result:
    """Run a case on one of :data:`ENGINES` and check it.

    The memory afterwards is compared with the reference layer in any case. With ``waves`` the same run, cycle by
    cycle, is repeated on a model that writes waveforms.
    """
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    runs = {"stream": _run_stream, "core": _run_program}
    ran = runs[engine](case, kernel, waves, progress)
    outcome, function = ran.outcome, kernel.function
    first = (int(function.pcs[0]) - ran.text_base) // HALF_BYTES
    rows = outcome.accounts[0][first :: WORD_BYTES // HALF_BYTES][: len(function)]
    wrong = wrong_results(kernel, ran.memory, case, tensors)
    reports = [text for text in (outcome.difference, wrong[1] if wrong else None) if text]
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    mismatches = outcome.mismatches + (wrong[0] if wrong else 0)
    totals = rows.sum(axis=0)
    result = figures(
        case,
        kernel,
        engine=engine,
        executions=rows[:, WaitCause.NONE],
        cycles_at=rows.sum(axis=1),
        cycles=ran.cycles,
        stalls={cause.name.lower(): int(totals[cause]) for cause in WaitCause if cause},
        mismatches=mismatches if outcome.exit.ok else max(mismatches, 1),
        wall_s=outcome.wall_s,
        simulated_cycles=outcome.cycles,
    )
    return Result(figures=result, reports=reports, mismatch_position=outcome.mismatch_position)


def _run_stream(case: Case, kernel: KernelRun, waves: Waves | None, progress: Callable[[int], None] | None) -> _Ran:
    """The executed instructions of a call on the back end; the cycles are those of the function's instructions."""
    call, memory = kernel_call(kernel), kernel.image.data.copy()
    program, function = call.program, kernel.function
    # all of it at once, so that the time of the run is that of the simulation
    sequence = list(executed(kernel, call, kernel_memory(kernel), products=False))
    outcome = run_stream(
        program.words,
        program.pcs,
        sequence,
        case.config,
        case.machine,
        memory={kernel.image.base: memory},
        check=case.checked,
        account=True,
        progress=progress,
        waves=waves,
    )
    rows = outcome.accounts[0][: len(function) * WORD_BYTES // HALF_BYTES]
    return _Ran(outcome, memory, int(rows.sum()), int(program.pcs[0]))


def _run_program(case: Case, kernel: KernelRun, waves: Waves | None, progress: Callable[[int], None] | None) -> _Ran:
    """A program that calls the kernel once on the core; the cycles are those of mcycle around the call."""
    program = bare_program(kernel)
    executable = executable_of(program, f"{case.kernel} {case.layer} {case.precision} {case.variant}")
    outcome = run_program(
        executable, case.config, case.machine, check=case.checked, account=True, progress=progress, waves=waves
    )
    memory = outcome.memory[program.data_base]
    return _Ran(outcome, memory, program.measured(memory), program.text_base)


def executable_of(program: BareProgram, name: str) -> Executable:
    """The program as the runner takes it."""
    return Executable(
        path=Path(name),
        entry=program.entry,
        segments=(
            Segment(program.data_base, program.data, len(program.data)),
            Segment(program.text_base, program.text, len(program.text)),
        ),
        symbols={"tohost": program.tohost},
        functions=(),
        tohost=program.tohost,
        fromhost=None,
    )


def case_tensors(case: Case) -> Any:
    """The random tensors of a case."""
    rng = np.random.default_rng(case.machine.seed)
    tensors = kind_of(case.layer).tensors(case.layer, case.precision, rng, case.rule)
    return at_the_ends(tensors, case.precision, rng) if case.extreme else tensors


def case_kernel(case: Case, tensors: Any, *, cores: int = 1, placement: Placement = "padded") -> KernelRun:
    """The kernel of a case, with room for ``cores`` cores."""
    return kind_of(case.layer).build(
        case.layer,
        case.precision,
        case.variant,
        tensors,
        cores=cores,
        specialise=case.specialise,
        placement=placement,
    )


def wrong_results(kernel: KernelRun, memory: NDArray[np.uint8], case: Case, tensors: Any) -> tuple[int, str] | None:
    """Number of results in ``memory`` that differ from the reference layer and the first of them, or None."""
    expected = reference(case.layer, tensors, case.precision)
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
    cores: int = 1,
) -> KernelFigures:
    """The figures of a case."""
    program, layer = kernel.function, kernel.layer
    matmul = int(cycles_at[program.region("matmul")].sum())
    sdotp = int(executions[program.is_dotp].sum())
    scalar = int(executions[program.is_mul].sum())
    return KernelFigures(
        kernel=case.kernel,
        layer=str(layer),
        bits=case.bits,
        precision=str(case.precision),
        variant=case.variant,
        rule="" if kernel.rule is None else kernel.rule.value,
        cores=cores,
        engine=engine,
        instructions=int(executions.sum()),
        cycles=cycles,
        matmul_cycles=matmul,
        sdotp=sdotp,
        macs=layer.macs,
        cycles_per_sdotp=round(matmul / (sdotp or scalar or 1), _DIGITS),
        macs_per_cycle=round(layer.macs / max(cycles, 1), _DIGITS),
        opef=round(program.opef, _DIGITS),
        stalls=dict(stalls),
        mismatches=mismatches,
        wall_s=round(wall_s, _DIGITS),
        sim_cycles_per_s=round(simulated_cycles / wall_s),
    )
