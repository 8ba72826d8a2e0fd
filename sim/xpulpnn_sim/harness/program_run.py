"""Runs kernels as programs on the whole core and compares their results with the references."""

from pathlib import Path

import numpy as np

from xpulpnn_sim.elf import Executable, Segment
from xpulpnn_sim.harness.core_run import Machine, RunResult, run
from xpulpnn_sim.harness.kernel_run import Case, Result, case_kernel, case_tensors, figures, wrong_results
from xpulpnn_sim.retirement import Records
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.programs.bare import BareProgram, bare_program

_WORD_BYTES = 4


class KernelCycles:
    """Executions and cycles of each instruction of a kernel, from the retirements of the program around it.

    An instruction takes the cycles from the retirement before it to its own.

    Members
    -------
    executions, cycles : int64[N]
        Per static instruction.
    """

    def __init__(self, kernel: KernelRun) -> None:
        count = len(kernel.function)
        self._base, self._count = int(kernel.function.pcs[0]), count
        self.executions = np.zeros(count, np.int64)
        self.cycles = np.zeros(count, np.int64)
        self._last = 0

    def __call__(self, records: Records) -> None:
        """Add a block."""
        cycles = records["cycle"].astype(np.int64)
        taken = np.diff(cycles, prepend=self._last)
        self._last = int(cycles[-1])
        position = (records["pc_rdata"].astype(np.int64) - self._base) // _WORD_BYTES
        inside = (position >= 0) & (position < self._count)
        self.executions += np.bincount(position[inside], minlength=self._count)
        self.cycles += np.bincount(position[inside], weights=taken[inside], minlength=self._count).astype(np.int64)


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


def run_program_case(case: Case) -> Result:
    """Run a case as a program on the core; the figures are those of the kernel, timed by mcycle around its call."""
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    program = bare_program(kernel)
    machine = Machine(
        grant_stalls=case.timing.grant_stalls,
        response_latency=case.timing.response_latency,
        seed=case.timing.seed,
        irq_rate=case.irq_rate,
        max_cycles=1 << 40,
    )
    counts = KernelCycles(kernel)
    executable = executable_of(program, f"{case.kernel} {case.layer} {case.precision} {case.variant}")
    outcome = run(executable, case.config, machine, check=case.checked, observer=counts)
    memory = outcome.memory[program.data_base]
    wrong = wrong_results(kernel, memory, case, tensors)
    reports = [text for text in (outcome.difference, wrong[1] if wrong else None) if text]
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    record = figures(
        case,
        kernel,
        engine="core",
        executions=counts.executions,
        cycles_at=counts.cycles,
        cycles=program.measured(memory),
        stalls={},
        mismatches=_mismatches(outcome, wrong),
        wall_s=outcome.wall_s,
        simulated_cycles=outcome.cycles,
    )
    return Result(record=record, reports=reports, mismatch_position=None)


def _mismatches(outcome: RunResult, wrong: tuple[int, str] | None) -> int:
    return outcome.mismatches + (wrong[0] if wrong else 0) + (0 if outcome.exit.ok else 1)
