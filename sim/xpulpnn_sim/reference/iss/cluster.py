"""Simulator of a cluster: harts that take turns to execute a program on a common memory."""

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import require
from xpulpnn.isa.cluster import hart_number
from xpulpnn_sim.reference.golden.dma import DmaModel
from xpulpnn_sim.reference.iss.cluster_devices import ClusterMemory, Devices
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.library import AGAIN, RESTS, Turns, library
from xpulpnn_sim.reference.iss.memory import PostponedError
from xpulpnn_sim.reference.iss.session import DEFAULT_QUANTUM, Session, loaded_memory
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of, require_fitting
from xpulpnn_sim.reference.programs.objects import SourceLines
from xpulpnn_sw.toolchain.build_options import core_name, require_core

_REPORT = 1 << 17  # instructions between two reports of progress


class ClusterSession(Session):
    """One run of a program on a cluster, whose harts take turns of ``quantum`` instructions, unless they wait. Time is
    one cycle per instruction: all harts have the same mcycle after each round."""

    def __init__(
        self,
        executable: Executable,
        config: ClusterConfig,
        *,
        quantum: int = DEFAULT_QUANTUM,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
        output: Callable[[exits.Output], None],
        visits: Counter[int] | None = None,
        lines: exits.NameOf | None = None,
    ) -> None:
        require(quantum >= 1, f"quantum must be at least 1, not {quantum}")
        require_fitting(executable, config)
        require_core(executable.cores, config.core, str(executable.path), core_name(config.core))
        self.devices = devices = Devices(config, executable.entry)
        kind = partial(ClusterMemory, config=config, reach=lambda *access: devices.access(self._core, *access))
        memory = loaded_memory(executable, (*memory_of(config), *ram), errors, kind)
        if config.dma:
            devices.dma = DmaModel(config, memory.move)
        harts = [
            Iss.of(config.core, executable.entry, hart_id=hart_number(0, core), memory=memory)
            for core in range(config.cores)
        ]
        super().__init__(executable, harts, output, visits)
        self._line_of = lines or SourceLines(executable.path).location
        self._states = (ctypes.c_void_p * len(harts))(*(ctypes.addressof(iss.state) for iss in harts))
        self._turns = Turns(ctypes.addressof(self._states), len(harts), quantum)
        self._skipped = 0  # cycles in which no hart could go on

    @property
    def cycles(self) -> int:
        return self.devices.time

    @property
    def _begin(self) -> int:
        """The time at which the round has begun."""
        return self._skipped + self._turns.quantum * (self._turns.number // len(self.harts))

    def run(self, limit: int, progress: Callable[[int], None] | None = None) -> exits.Exit:
        end = super().run(limit, progress)
        is_common = end.ok or end.reason is exits.Reason.DEADLOCK
        return end if is_common else replace(end, text=f"core {self._core}: {end.text}")

    def _advance(self, limit: int) -> None:
        """Let harts take turns up to a round in which a timer may do something, or an access to a device."""
        turns, devices = self._turns, self.devices
        for core, (iss, lines) in enumerate(zip(self.harts, devices.lines(), strict=True)):
            iss.csrs["mip"], iss.state.waits = lines, devices.waits_at(core) is not None
        rounds, cycles = max(_REPORT // (turns.quantum * len(self.harts)), 1), devices.until_event()
        if cycles is not None:
            rounds = min(rounds, max((devices.time + cycles - 1 - self._begin) // turns.quantum, 1))
        turns.end = (turns.number // len(self.harts) + rounds) * len(self.harts)
        turns.left, turns.idle = limit - self.executed, 0
        completed = library().take_turns(ctypes.byref(turns))
        self._core = turns.number % len(self.harts)
        for iss in self.harts:
            iss.report()
        if completed:
            devices.advance(self._begin)
        elif self.iss.status == AGAIN:
            devices.advance(self._begin + self.iss.executed - self.iss.state.begun)
            try:
                self.iss.step()
            except PostponedError:
                self.iss.state.status = AGAIN

    def _stalled(self) -> exits.Exit | None:
        """Advance to the next event of a timer if no hart can continue; returns a deadlock if there is none."""
        if self._turns.idle < len(self.harts) or any(map(self._goes_on, range(len(self.harts)))):
            return None
        cycles = self.devices.until_event()
        if cycles is None:
            places = [(core, iss.state.pc, self._why_stuck(core)) for core, iss in enumerate(self.harts)]
            return exits.deadlock(places, self._name_of, self._line_of)
        for iss in self.harts:
            iss.csrs.pass_time(cycles)
        self._skipped += cycles
        self.devices.advance(self._begin)
        return None

    def _goes_on(self, core: int) -> bool:
        iss = self.harts[core]
        if self.devices.waits_at(core) is not None:
            return False
        iss.csrs["mip"] = self.devices.lines()[core]
        return iss.status != RESTS or bool(iss.csrs.call("wakes") & 1)

    def _why_stuck(self, core: int) -> str:
        address = self.devices.waits_at(core)
        if address is not None:
            return exits.waits_for(address)
        return "sleeps in wfi" if self.harts[core].state.asleep else "endless loop"
