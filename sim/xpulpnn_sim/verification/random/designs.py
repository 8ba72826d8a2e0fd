"""Designs that random programs run on: the Verilated core, and the simulator, with or without a fault."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn.isa.machine import IRQ_PRIORITY
from xpulpnn.xif.config import XifHost
from xpulpnn_sim.cosimulation.checks.counters import CounterCheck
from xpulpnn_sim.cosimulation.model.host import Host
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.program_run import run_program, text_window
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS
from xpulpnn_sim.reference.iss.core import Iss, Retired
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.iss.memory import AccessError
from xpulpnn_sim.reference.iss.session import HostChannel, loaded_memory, outside_memory
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import Exit, Reason, out_of_time, reported
from xpulpnn_sim.reference.programs.retirements import RETIREMENT, Records
from xpulpnn_sim.tools.component_names import CORE_BUSES
from xpulpnn_sim.verification.costs.block_rows import BlockRow, block_rows
from xpulpnn_sim.verification.costs.cost_rows import cost_rows
from xpulpnn_sim.verification.costs.measurement import CostRow, Measured, cost_program, cycles_of_row, measure

_REFERENCE_STEPS = 100_000  # Steps after which a program on the simulator has failed; a fault may lead it astray
_TIMINGS = {
    "grant_stalls": (0.0, 0.0, 0.1, 0.4),
    "response_latency": (1, 1, 2, 5),
    "fetch_grant_stalls": (0.0, 0.0, 0.1, 0.4),
    "fetch_latency": (1, 1, 2, 5),
}
_IDEAL_CHANCE = 0.2
_NO_RESET_CHANCE, _RESET_BITS = 0.2, (7, 14)
_RATES = (0.0, 0.003, 0.005)
"""Interrupt rates per cycle with an ideal memory; at higher rates, handlers would leave the program no time."""
_HALT_RATES = (0.001, 0.005, 0.02)
_HALT_CYCLES = 400  # that a halt with its single steps takes, about, with an ideal memory
MAX_CYCLES, MAX_INSTRUCTIONS = 2_000_000, 400_000
"""Limits after which a program has failed. Without handlers, a program executes about a hundredth of these
instructions; handlers add about 30 for each trap."""
Fault = Callable[[Iss, Retired], None]  # Called after every retirement; may change both
Listener = Callable[[Records], None]  # Takes the retirements of a run, block by block


def random_machine(seed: int, chosen: Mapping[str, float]) -> Machine:
    rng = Random(f"machine {seed}")
    machine = Machine(seed=seed, max_cycles=MAX_CYCLES, max_instructions=MAX_INSTRUCTIONS, bus_errors=BUS_ERRORS)
    machine = replace(machine, reset_after=reset_cycle(seed))
    if rng.random() >= _IDEAL_CHANCE:
        machine = replace(machine, **{name: rng.choice(values) for name, values in _TIMINGS.items()})
    machine = replace(machine, **chosen)
    if "irq_rate" in chosen:
        return machine
    return replace(machine, irq_rate=round(rng.choice(_RATES) / _slowness(machine), 6))


def reset_cycle(seed: int) -> int:
    rng = Random(f"reset {seed}")
    return 0 if rng.random() < _NO_RESET_CHANCE else rng.randrange(1, 1 << rng.randrange(*_RESET_BITS))


def _slowness(machine: Machine) -> float:
    latency = max(machine.response_latency, machine.fetch_latency)
    return latency / (1 - max(machine.grant_stalls, machine.fetch_grant_stalls))


def with_halts(machine: Machine, seed: int) -> Machine:
    """Return the machine with random halt requests, and with fewer interrupts, as halts take time."""
    rate = machine.halt_rate * _slowness(machine) or Random(f"halts {seed}").choice(_HALT_RATES)
    irq_rate = machine.irq_rate / (1 + _HALT_CYCLES * rate)
    return replace(machine, halt_rate=round(rate / _slowness(machine), 6), irq_rate=round(irq_rate, 6))


def shown_machine(machine: Machine) -> str:
    changed = [
        f"{field.name} {getattr(machine, field.name)}"
        for field in fields(machine)
        if field.name not in ("seed", "max_cycles", "max_instructions", "bus_errors", "debugger")
        and getattr(machine, field.name) != field.default
    ]
    return ", ".join(changed) or "ideal memory, no interrupts"


@dataclass(frozen=True, slots=True)
class Verdict:
    reason: Reason  # PASS if the program ended well and every retirement was right
    text: str  # report for people
    instructions: int  # length of the run
    cycles: int

    @property
    def ok(self) -> bool:
        return self.reason is Reason.PASS

    @classmethod
    def of(cls, result: RunResult) -> "Verdict":
        """Return the verdict on a run on the RTL: a mismatch with the simulator, or else how the program ended."""
        reason = Reason.DIFFERENCE if result.mismatches else result.exit.reason
        return cls(reason, result.difference or result.exit.text, result.instructions, result.cycles)


Design = Callable[[Executable, CoreConfig, Machine, Listener], Verdict]
"""Runs a program on the RTL, or on another simulator, in lock step with the simulator."""


def run_reference_core(
    config: CoreConfig,
    executable: Executable,
    *,
    limit: int,
    irq_rate: float = 0.0,
    seed: int = 0,
    fault: Fault | None = None,
) -> tuple[Exit, Records, Iss]:
    """Run a program on the simulator until it reports its end, leaves its memory, or ``limit`` steps are done."""
    # interrupt lines rise at random and fall when taken
    iss = Iss.of(config, executable.entry, memory=loaded_memory(executable, errors=BUS_ERRORS))
    channel = HostChannel(executable, (iss,))
    rng, name_of = Random(seed), executable.symbol_at
    names, rows, end = RETIREMENT.names or (), list[tuple[int, ...]](), None
    for number in range(limit):
        if irq_rate and rng.random() < irq_rate:
            iss.raise_line(rng.choice(IRQ_PRIORITY))
        pc = iss.state.pc
        try:
            step = iss.step()
        except AccessError as error:
            end = outside_memory(error, iss, name_of)
            break
        if step.retired is not None:
            if fault is not None:
                fault(iss, step.retired)
            values = step.retired.record | {"order": len(rows), "cycle": number}
            rows.append(tuple(values.get(name, 0) for name in names))
        if channel.final is not None:
            end = reported(channel.final, pc, name_of)
            break
    return end or out_of_time(limit, "steps", iss.state.pc, name_of), np.array(rows, RETIREMENT), iss


def reference_design(
    executable: Executable, config: CoreConfig, machine: Machine, listener: Listener, fault: Fault | None = None
) -> Verdict:
    """Run the simulator itself as the design, to test programs and, with a ``fault``, the checks."""
    limit = min(machine.max_cycles, _REFERENCE_STEPS)
    end, records, _ = run_reference_core(
        config, executable, limit=limit, irq_rate=machine.irq_rate, seed=machine.seed, fault=fault
    )
    listener(records)
    difference = Lockstep(executable, config, errors=BUS_ERRORS).compare(records)
    if difference is not None:
        return Verdict(Reason.DIFFERENCE, difference.text, (difference.order or 0) + 1, difference.cycle + 1)
    return Verdict(end.reason, end.text, len(records), int(records["cycle"][-1]) + 1 if len(records) else 0)


_model = cache(model_library)  # without it, looking for the model takes a tenth of the time of a program


def core_design(
    executable: Executable,
    config: CoreConfig,
    machine: Machine,
    listener: Listener,
    library: Path | None = None,
    engine: str = "core",
    host: Host | None = None,
) -> Verdict:
    if library is None:
        library = _model(engine, config) if host is None else host.library()
    return Verdict.of(
        run_program(
            executable,
            config,
            machine,
            check=engine == CORE and host is None,
            lockstep=True,
            observer=lambda blocks: listener(blocks[0]),
            library=library,
            host=host,
        )
    )


CORE, WISHBONE = "rtl", CORE_BUSES[0]
MODELS = {CORE: "core"} | {bus: bus for bus in CORE_BUSES}  # the core alone, or with a cache and bridges to a bus
DESIGNS: dict[str, Design] = {
    **{name: partial(core_design, engine=engine) for name, engine in MODELS.items()},
    "iss": reference_design,
}
"""Designs that `--engine` names."""


def prepare(engine: str, configs: Iterable[CoreConfig]) -> None:
    """Compile the models once, before processes run programs side by side."""
    if engine in MODELS:
        for config in configs:
            _model(MODELS[engine], config)


@cache
def _cost_program(config: CoreConfig) -> tuple[Sequence[CostRow], Executable]:
    rows = cost_rows(config)
    return rows, cost_program(rows, counted=config.performance_counters).executable()


def block_costs(host: Host, config: XifHost) -> list[tuple[BlockRow, float]]:
    """Measure the cycles of a dot product in blocks on a core of somebody else, compared with the simulator."""
    for name, needed in (("accumulators", "true"), ("opcode", "pulp")):
        if (value := str(getattr(config.xif, name)).lower()) != needed:
            raise InputError(f"{name} must be {needed} to measure blocks, not {value}")
    rows = list(block_rows(config))
    executable = cost_program(rows).executable()
    result = run_program(executable, config, Machine(max_cycles=MAX_CYCLES), account=True, lockstep=True, host=host)
    if not result.exit.ok:
        raise ToolError(f"cost program must end with a pass, not with: {result.difference or result.exit.text}")
    base, _ = text_window(executable)
    cycles = (cycles_of_row(number, executable, result.accounts[0], base) for number in range(len(rows)))
    # the marker itself takes one
    return [(row, (int(counts.sum()) - 1) / row.products) for row, counts in zip(rows, cycles, strict=True)]


def cost_run(config: CoreConfig, machine: Machine, library: Path | None = None) -> tuple[RunResult, list[Measured]]:
    """Measure all cycle costs while an interrupt is pending, and check every read of a counter."""
    rows, executable = _cost_program(config)
    counters, waiting = CounterCheck(config, 1, executable.symbol_at), replace(machine, irqs=((0, IRQ_PRIORITY[0]),))
    result = run_program(executable, config, waiting, account=True, library=library, more_checkers=[counters])
    return result, measure(rows, executable, result.accounts[0], text_window(executable)[0])


def measured_costs(config: CoreConfig) -> tuple[list[Measured], str | None]:
    """Measure cycle costs on the Verilated core with an ideal memory; also return the first wrong counter, if any."""
    result, measured = cost_run(config, Machine(max_cycles=MAX_CYCLES))
    if not (result.exit.ok or result.mismatches):
        raise ToolError(f"cost program must end with a pass, not with: {result.exit.text}")
    return measured, result.difference
