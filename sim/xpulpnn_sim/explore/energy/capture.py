"""Workloads on gate-level models: the values of a window of clock cycles, the results checked as ever."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.elf import Executable
from xpulpnn_sim.explore.energy.circuit import Circuit
from xpulpnn_sim.explore.energy.model import GateModel
from xpulpnn_sim.explore.energy.toggles import BITS
from xpulpnn_sim.harness.core_run import Machine, run
from xpulpnn_sim.harness.engine import Engine
from xpulpnn_sim.harness.kernel_run import Case, case_kernel, case_tensors, wrong_results
from xpulpnn_sim.harness.program_run import executable_of
from xpulpnn_sim.iss.kernel import executed, kernel_memory
from xpulpnn_sw.kernels.call import kernel_call
from xpulpnn_sw.programs.bare import bare_program

CHUNK_CYCLES = 512
"""Cycles of a window that follow each other; the chunks of a window are spread evenly over the run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """Values in a window of a run.

    Members
    -------
    sources, states : uint8[cycles, bits]
        Of the inputs and registers before each clock edge.
    chunk_cycles : int
        Cycles that follow each other.
    run_cycles : int
        Cycles of the whole run, reset included.
    """

    sources: NDArray[np.uint8]
    states: NDArray[np.uint8]
    chunk_cycles: int
    run_cycles: int


def kernel_on_backend(case: Case) -> Callable[[Path], None]:
    """How to run a kernel on a model of the back end; raises :class:`ToolError` if the results are wrong."""
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)

    def run_kernel(library: Path) -> None:
        memory = kernel.image.data.copy()
        call, window = kernel_call(kernel), [(kernel.image.base, memory)]
        with Engine(library, call.program, window, checked=False, timing=case.timing) as engine:
            outcome = engine.run(executed(kernel, call, kernel_memory(kernel), products=False))
        wrong = wrong_results(kernel, memory, case, tensors)
        if outcome.mismatch_count or wrong:
            what = wrong[1] if wrong else outcome.mismatches[0].what
            raise ToolError(f"the netlist must compute what the reference does, not {what}")

    return run_kernel


def kernel_on_core(case: Case) -> Callable[[Path], None]:
    """How to run a kernel as a program on a model of the core."""
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    program = bare_program(kernel)
    executable = executable_of(program, f"{case.kernel} {case.layer} {case.precision} {case.variant}")

    def run_kernel(library: Path) -> None:
        pieces = _run(executable, case.config, library)
        if wrong := wrong_results(kernel, pieces[program.data_base], case, tensors):
            raise ToolError(f"the netlist must compute what the reference does, not {wrong[1]}")

    return run_kernel


def program_on_core(executable: Executable, config: CoreConfig) -> Callable[[Path], None]:
    """How to run a program that checks itself on a model of the core."""

    def run_program(library: Path) -> None:
        _run(executable, config, library)

    return run_program


def _run(executable: Executable, config: CoreConfig, library: Path) -> dict[int, NDArray[np.uint8]]:
    outcome = run(executable, replace(config, rvfi=True), Machine(), library=library)
    if not outcome.exit.ok:
        raise ToolError(f"the netlist must run the program to its end, not {outcome.exit.text}")
    return outcome.memory


def capture(circuit: Circuit, workload: Callable[[Path], None], window: int) -> Window:
    """Values of about ``window`` cycles spread over a run, or of all if there are not that many.

    Raises :class:`ToolError` if the run fails.
    """
    model = GateModel(circuit)
    cycles = model.count(workload)
    chunk = min(CHUNK_CYCLES, cycles // BITS * BITS)
    if not chunk:
        raise ToolError(f"workload must take at least {BITS} cycles, not {cycles}")
    count = max(min(window, cycles) // chunk, 1)
    starts = [(cycles - chunk) * number // max(count - 1, 1) for number in range(count)]
    if count == 1:
        starts = [(cycles - chunk) // 2]
    rows = model.watch(workload, starts, chunk)
    sources = len(circuit.sources)
    return Window(sources=rows[:, :sources], states=rows[:, sources:], chunk_cycles=chunk, run_cycles=cycles)
