"""Programs on the core and on the instruction-set simulator."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn_sim.api.configuration import resolved
from xpulpnn_sim.elf import Window, load
from xpulpnn_sim.exits import STDOUT, Exit, Output
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.session import RunResult
from xpulpnn_sim.iss.memory import Memory
from xpulpnn_sim.iss.session import Session

DEFAULT_CONFIG = "xpulpnn"
DEFAULT_LIMIT = 1_000_000_000
"""Cycles or instructions after which a program is given up."""


def run(
    program: str | PathLike[str],
    *,
    config: CoreConfig | str = DEFAULT_CONFIG,
    machine: Machine | None = None,
    check: bool = False,
    lockstep: bool = False,
    account: bool = False,
    exact: bool = False,
    progress: Callable[[int], None] | None = None,
) -> RunResult:
    """Run a program on the RTL core, cycle by cycle, until it ends.

    Parameters
    ----------
    program : path
        A 32-bit RISC-V ELF file with a symbol ``tohost``.
    config : CoreConfig or str
        The core, or the name of a preset.
    machine : Machine or None
        Further memory, its timing, interrupts, hart id and limit of cycles; None: what the program's segments cover,
        answering in the next cycle.
    check : bool
        Check every retirement: operands, result, memory access, next address.
    lockstep : bool
        Compare every retirement with the instruction-set simulator.
    account : bool
        Count where the cycles go: ``stalls`` of the result.
    exact : bool
        Simulate the very adders that are emitted (slower, the same results).
    progress : callable or None
        Takes the count of cycles from time to time.

    Returns
    -------
    RunResult
        How it ended, cycles, instructions, what it printed, final memory, differences found.

    Raises
    ------
    InputError
        If the file is no such program.
    ToolError
        If the model cannot be built.
    """
    machine = machine or Machine()
    return run_program(
        load(Path(program), ram=machine.ram),
        resolved(config, exact=exact),
        machine,
        check=check,
        lockstep=lockstep,
        account=account,
        progress=progress,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """What a program did on the instruction-set simulator.

    Members
    -------
    exit : Exit
        How it ended.
    instructions : int
        Instructions executed.
    wall_s : float
        Seconds it took.
    output : bytes
        What the program printed to its standard output.
    memory : Memory
        Its final memory.
    """

    exit: Exit
    instructions: int
    wall_s: float
    output: bytes
    memory: Memory


def simulate(
    program: str | PathLike[str],
    *,
    config: CoreConfig | str = DEFAULT_CONFIG,
    ram: Sequence[Window] = (),
    hart_id: int = 0,
    limit: int = DEFAULT_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> SimulatedRun:
    """Run a program on the instruction-set simulator, where an instruction counts as a cycle.

    Parameters
    ----------
    program : path
        A 32-bit RISC-V ELF file with a symbol ``tohost``.
    config : CoreConfig or str
        Decides which instructions and CSRs there are; or the name of a preset.
    ram : sequence of (int, int)
        Base and size in bytes of memory beside the program's segments.
    hart_id : int
        Value of mhartid.
    limit : int
        Instructions after which it is given up.
    progress : callable or None
        Takes the count of instructions from time to time.

    Raises :class:`~xpulpnn.errors.InputError` if the file is no such program.
    """
    printed = bytearray()

    def keep(output: Output) -> None:
        if output.descriptor == STDOUT:
            printed.extend(output.data)

    executable = load(Path(program), ram=ram)
    session = Session(executable, resolved(config), ram=ram, hart_id=hart_id, output=keep)
    begin = time.perf_counter()
    end = session.run(limit, progress)
    return SimulatedRun(
        exit=end,
        instructions=session.iss.executed,
        wall_s=time.perf_counter() - begin,
        output=bytes(printed),
        memory=session.memory,
    )
