"""One generated function as a workload of the whole core: its cycles, part by part, and its results."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads.workload import (
    CommonFigures,
    Compared,
    Progress,
    Result,
    executable_of,
    function_accounts,
    run_workload,
)
from xpulpnn_sw.kernels.kernel import Function
from xpulpnn_sw.kernels.programs.bare import bare_program
from xpulpnn_sw.toolchain.core_note import core_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFigures:
    """Figures of a function."""

    cycles: int  # of the call, by mcycle
    instructions: int  # executed in the function
    region_cycles: Mapping[str, int]  # cycles by part of the function
    stalls: Mapping[str, int]  # cycles without a retirement by cause
    mismatches: int  # retirements and results that differ from the references
    wall_s: float  # seconds of simulation
    sim_cycles_per_s: int  # speed of the simulation


def run_function(
    function: Function,
    expected: NDArray[np.int64],
    config: CoreConfig,
    machine: Machine,
    *,
    check: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Call a function once on one core and compare its results with those expected.

    With ``check`` every retirement is checked too. Raises :class:`InputError` if the core lacks instructions.
    """
    missing = sorted(extension.value for extension in function.extensions - config.extensions)
    if missing:
        raise InputError(f"configuration must be one with {missing[0]}, not {core_name(config)}")
    return run_workload(FunctionWork(function, expected, config, machine, checked=check), progress)


class FunctionWork:
    """A function with the results it must have."""

    def __init__(
        self, function: Function, expected: NDArray[np.int64], config: CoreConfig, machine: Machine, *, checked: bool
    ) -> None:
        self.function, self.expected = function, expected
        self.config, self.machine, self.checked = config, machine, checked
        self.program = bare_program(function)
        self.executable = executable_of(self.program, function.name)

    def compared(self, outcome: RunResult) -> list[Compared]:
        """Compare the results with those expected."""
        image = self.function.image
        return [Compared.of("output", self.expected, self.function.output.decode(image, outcome.memory[image.base]))]

    def figures(self, outcome: RunResult, compared: list[Compared], common: CommonFigures) -> FunctionFigures:
        """Return the figures."""
        text = self.function.function
        (rows,) = function_accounts(outcome, text, self.program.text_base)
        cycles_at = rows.sum(axis=1)
        return FunctionFigures(
            cycles=self.program.measured(outcome.memory[self.program.data_base]),
            instructions=int(rows[:, WaitCause.NONE].sum()),
            region_cycles={name: int(cycles_at[text.region(name)].sum()) for name in dict.fromkeys(text.regions)},
            stalls=stalls_of(rows, devices=False),
            **asdict(common),
        )
