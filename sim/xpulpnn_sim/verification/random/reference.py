"""The instruction-set simulator in the place of a design: programs run without RTL, and with a fault on purpose."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import IRQ_PRIORITY, MCAUSE_INTERRUPT
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import AccessError
from xpulpnn_sim.reference.iss.observe import Observer, Retired
from xpulpnn_sim.reference.iss.session import HostChannel, loaded_memory
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import Exit, bad_access, bad_fetch, out_of_time, reported
from xpulpnn_sim.reference.programs.retirement import RETIREMENT, Records
from xpulpnn_sim.verification.random.layout import BUS_ERRORS

Fault = Callable[[Iss, Retired], None]  # Called after every retirement; may change both


def records_of(retirements: list[tuple[int, Retired]]) -> Records:
    """Retirements and the steps in which they happened, as the block of records a design would deliver."""
    records = np.zeros(len(retirements), RETIREMENT)
    names = RETIREMENT.names or ()
    rows: list[tuple[int, ...]] = []
    for order, (cycle, retired) in enumerate(retirements):
        values: dict[str, Any] = {**retired.fields(), "order": order, "cycle": cycle}
        rows.append(tuple(values.get(name, 0) for name in names))
    if rows:
        records[:] = np.array(rows, RETIREMENT)
    return records


class ReferenceDesign:
    """Runs programs like a core, with interrupt lines that rise at random and fall when taken."""

    def __init__(self, config: CoreConfig, fault: Fault | None = None) -> None:
        self._config = config
        self._fault = fault

    def run(
        self, executable: Executable, *, limit: int, irq_rate: float = 0.0, seed: int = 0
    ) -> tuple[Exit, Records, Iss]:
        """Execute until the program reports its end, leaves its memory, or ``limit`` steps are done."""
        iss = Iss.of(self._config, executable.entry, memory=loaded_memory(executable, errors=BUS_ERRORS))
        channel = HostChannel(executable, iss, lambda printed: None)
        observer, rng = Observer(iss), Random(seed)
        name_of = executable.symbol_at
        retirements: list[tuple[int, Retired]] = []
        end = None
        for number in range(limit):
            if irq_rate and rng.random() < irq_rate:
                iss.csrs.irq |= 1 << rng.choice(IRQ_PRIORITY)
            pc = iss.state.pc
            try:
                step, retired = observer.step()
            except AccessError as error:
                if error.kind == "fetch":
                    end = bad_fetch(pc, iss.last_pc, name_of)
                else:
                    end = bad_access(error.kind, error.address, error.size, pc, name_of)
                break
            if step.cause is not None and step.cause & MCAUSE_INTERRUPT:
                iss.csrs.irq &= ~(1 << (step.cause & ~MCAUSE_INTERRUPT))
            if retired is not None:
                if self._fault is not None:
                    self._fault(iss, retired)
                retirements.append((number, retired))
            if channel.final is not None:
                end = reported(channel.final, pc, name_of)
                break
        return end or out_of_time(limit, "steps", iss.state.pc, name_of), records_of(retirements), iss
