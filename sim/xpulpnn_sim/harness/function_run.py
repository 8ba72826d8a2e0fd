"""One generated function on the whole core, as a program: its cycles, part by part, and its memory afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.harness.kernel_run import executable_of
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sw.core_note import core_name
from xpulpnn_sw.kernels.function import Function
from xpulpnn_sw.programs.bare import bare_program


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionResult:
    """What came of a function."""

    cycles: int  # of the call, by mcycle
    instructions: int  # executed in the function
    region_cycles: Mapping[str, int]  # cycles by part of the function
    stalls: Mapping[str, int]  # cycles without a retirement by cause
    mismatches: int  # retirements and results that differ from the references
    reports: list[str]  # the first of them
    wall_s: float  # seconds of simulation and its speed
    sim_cycles_per_s: int  # seconds of simulation and its speed


def run_function(
    function: Function,
    expected: NDArray[np.int64],
    config: CoreConfig,
    machine: Machine,
    *,
    check: bool = True,
    progress: Callable[[int], None] | None = None,
) -> FunctionResult:
    """Call a function once on one core and compare its results with those expected.

    With ``check`` every retirement is checked too. Raises :class:`InputError` if the core lacks instructions.
    """
    missing = sorted(extension.value for extension in function.extensions - config.extensions)
    if missing:
        raise InputError(f"configuration must be one with {missing[0]}, not {core_name(config)}")
    program = bare_program(function)
    executable = executable_of(program, function.name)
    outcome = run_program(executable, config, machine, check=check, account=True, progress=progress)
    memory = outcome.memory[program.data_base]
    text, first = function.function, (int(function.function.pcs[0]) - program.text_base) // HALF_BYTES
    rows = outcome.accounts[0][first :: WORD_BYTES // HALF_BYTES][: len(text)]
    got = function.output.decode(function.image, memory)
    wrong = np.argwhere(got != expected)
    reports = [outcome.difference] if outcome.difference else []
    if len(wrong):
        at = tuple(wrong[0].tolist())
        place = "".join(f"[{i}]" for i in at)
        reports.append(f"output{place}: expected {expected[at]}, got {got[at]} ({len(wrong)} wrong results)")
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    mismatches = outcome.mismatches + len(wrong)
    cycles_at, totals = rows.sum(axis=1), rows.sum(axis=0)
    return FunctionResult(
        cycles=program.measured(memory),
        instructions=int(rows[:, WaitCause.NONE].sum()),
        region_cycles={name: int(cycles_at[text.region(name)].sum()) for name in dict.fromkeys(text.regions)},
        stalls={cause.name.lower(): int(totals[cause]) for cause in WaitCause if cause},
        mismatches=mismatches if outcome.exit.ok else max(mismatches, 1),
        reports=reports,
        wall_s=round(outcome.wall_s, 4),
        sim_cycles_per_s=round(outcome.cycles / outcome.wall_s),
    )
