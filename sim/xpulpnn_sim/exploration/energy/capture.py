"""Workloads on gate-level models, the results checked as ever, and the values of a window of clock cycles."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import (
    Case,
    case_kernel,
    case_tensors,
    compared_results,
    kernel_stream,
)
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.cosimulation.workloads.workload import executable_of, run_stream
from xpulpnn_sim.exploration.energy.model import Circuit, GateModel
from xpulpnn_sim.exploration.energy.toggles import BITS
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sw.kernels.programs.bare import bare_program

Top = Literal["backend", "core"]

_CHUNK_CYCLES = 512  # cycles of a window that follow each other; the chunks of a window are spread evenly over the run


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CapturedWindow:
    """Values in a window of a run."""

    # values before each clock edge
    sources: NDArray[np.uint8]  # of the inputs
    states: NDArray[np.uint8]  # of the registers
    chunk_cycles: int  # cycles that follow each other
    run_cycles: int  # cycles of the whole run, reset included


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A program or kernel that a netlist is to run."""

    name: str  # kernel specification as on the command line, or name of the program
    top: Top  # `backend` or `core`: the netlist
    key: str  # text that is the same for the same workload
    macs: float  # Multiply-accumulates; 0 for general code
    # returns what runs it on a compiled model, and raises ToolError if the results are wrong
    prepare: Callable[[], Callable[[Path], object]]


def kernel_workload(case: Case, top: Top) -> Workload:
    """A kernel on the back end, or as a program on the core; raises InputError if the configuration cannot run it."""
    case.check()
    name = f"{case.kernel}:{case.bits}:{case.variant}:{case.layer}"
    prepare = _kernel_on_core if top == "core" else _kernel_on_backend
    return Workload(
        name=name, top=top, key=f"{name} {case.machine}", macs=float(case.layer.macs), prepare=lambda: prepare(case)
    )


def program_workload(executable: Executable, config: CoreConfig) -> Workload:
    """A program that checks itself, on the core."""
    return Workload(
        name=executable.path.name,
        top="core",
        key=repr(executable),
        macs=0.0,
        prepare=lambda: lambda model: run_on_gates(executable, config, model),
    )


def _kernel_on_backend(case: Case) -> Callable[[Path], None]:
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    stream = kernel_stream(kernel)

    def run_kernel(library: Path) -> None:
        memory = {base: content.copy() for base, content in stream.memory.items()}
        outcome = run_stream(replace(stream, memory=memory), case.config, case.machine, check=False, library=library)
        wrong = compared_results(kernel, memory[kernel.image.base], case, tensors).report
        if wrong or not outcome.exit.ok:
            what = wrong or outcome.exit.text
            raise ToolError(f"the netlist must compute what the reference does, not {what}")

    return run_kernel


def _kernel_on_core(case: Case) -> Callable[[Path], None]:
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    program = bare_program(kernel)
    executable = executable_of(program, case.name)

    def run_kernel(library: Path) -> None:
        memory = run_on_gates(executable, case.config, library)
        if wrong := compared_results(kernel, memory[program.data_base], case, tensors).report:
            raise ToolError(f"the netlist must compute what the reference does, not {wrong}")

    return run_kernel


def run_on_gates(executable: Executable, config: CoreConfig, library: Path) -> dict[int, NDArray[np.uint8]]:
    """The memory after a program on the gate-level model ``library``; raises :class:`ToolError` if it does not pass."""
    outcome = run_program(executable, replace(config, rvfi=True), Machine(), library=library)
    if not outcome.exit.ok:
        raise ToolError(f"the netlist must run the program to its end, not {outcome.exit.text}")
    return outcome.memory


def capture(circuit: Circuit, workload: Workload, window: int) -> CapturedWindow:
    """Values of about ``window`` cycles spread over a run, or of all if there are not that many.

    Raises :class:`ToolError` if the run fails.
    """
    model, run_workload = GateModel(circuit), workload.prepare()
    cycles = model.count(run_workload)
    chunk = min(_CHUNK_CYCLES, cycles // BITS * BITS)
    if not chunk:
        raise ToolError(f"workload must take at least {BITS} cycles, not {cycles}")
    count = max(min(window, cycles) // chunk, 1)
    starts = [(cycles - chunk) * number // max(count - 1, 1) for number in range(count)]
    if count == 1:
        starts = [(cycles - chunk) // 2]
    rows = model.watch(run_workload, starts, chunk)
    sources = len(circuit.sources)
    return CapturedWindow(sources=rows[:, :sources], states=rows[:, sources:], chunk_cycles=chunk, run_cycles=cycles)
