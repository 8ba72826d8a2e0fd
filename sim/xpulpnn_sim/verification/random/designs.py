"""The designs that random programs run on: the Verilated core, and the simulator itself."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program, text_window
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.retirement import Records
from xpulpnn_sim.verification.costs.measurement import CostRow, Measured, cost_program, measure
from xpulpnn_sim.verification.random.layout import BUS_ERRORS
from xpulpnn_sim.verification.random.stress import Stress
from xpulpnn_sim.verification.random.trials import Design, Observer, Verdict, reference_design


def machine_of(stress: Stress) -> Machine:
    """The surroundings of the core that random programs run on."""
    return Machine(
        bus_errors=BUS_ERRORS,
        grant_stalls=stress.grant_stalls,
        response_latency=stress.response_latency,
        fetch_grant_stalls=stress.fetch_grant_stalls,
        fetch_latency=stress.fetch_latency,
        irq_rate=stress.irq_rate,
        seed=stress.seed,
        max_cycles=stress.max_cycles,
    )


@dataclass(frozen=True, slots=True)
class Listener:
    """Passes retirements on to a function."""

    observer: Observer

    def __call__(self, records: Sequence[Records]) -> None:
        """One block of the only hart."""
        self.observer(records[0])


def core_design() -> Design:
    """The Verilated core in lock step with the simulator."""

    def run_core(executable: Executable, config: CoreConfig, stress: Stress, observer: Observer) -> Verdict:
        result = run_program(executable, config, machine_of(stress), lockstep=True, observer=Listener(observer))
        return Verdict.of(result)

    return run_core


DESIGNS: dict[str, Callable[[], Design]] = {"rtl": core_design, "iss": reference_design}  # what `--engine` names


def prepare(engine: str, configs: Iterable[CoreConfig]) -> None:
    """Compile what the processes will share."""
    if engine == "rtl":
        for config in configs:
            model_library("core", config)


def measured_costs(config: CoreConfig, rows: Sequence[CostRow]) -> list[Measured]:
    """Measure cost rows on the Verilated core with an ideal memory."""
    executable = cost_program(rows).executable()
    result = run_program(executable, config, Machine(), account=True)
    if not result.exit.ok:
        raise ToolError(f"cost program must end with a pass, not with: {result.exit.text}")
    return measure(rows, executable, result.accounts[0], text_window(executable)[0])
