"""Simulator of a cluster: harts that take turns to execute a program on a common memory."""

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import hart_number
from xpulpnn_sim.reference.golden.dma import DmaModel
from xpulpnn_sim.reference.iss.cluster_devices import ClusterMemory, Devices
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.library import AGAIN, RESTS, TRAPS, library
from xpulpnn_sim.reference.iss.memory import AccessError, PostponedError
from xpulpnn_sim.reference.iss.session import DEFAULT_QUANTUM, HostChannel, fill_memory, last_trap, outside_memory
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of, require_fitting, windows
from xpulpnn_sim.reference.programs.objects import SourceLines
from xpulpnn_sw.toolchain.build_options import core_name, require_core

_REPORT = 1 << 17  # instructions between two reports of progress
_LOOPS = "endless loop"


@dataclass(slots=True)
class _Hart:
    core: int
    iss: Iss
    stuck: str = ""  # reason why it cannot continue


class ClusterSession:
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
        if quantum < 1:
            raise InputError(f"quantum must be at least 1, not {quantum}")
        require_fitting(executable, config)
        require_core(executable.cores, config.core, str(executable.path), core_name(config.core))
        self.devices = Devices(config, executable.entry)
        self.memory = ClusterMemory(
            windows(executable, (*memory_of(config), *ram)), config, self.devices.access, errors
        )
        if config.dma:
            self.devices.dma = DmaModel(config, self.memory.move)
        fill_memory(self.memory, executable)
        self.harts = tuple(
            Iss.of(config.core, executable.entry, hart_id=hart_number(0, core), memory=self.memory)
            for core in range(config.cores)
        )
        for hart in self.harts:
            hart.note = None if visits is None else visits.update
        self._harts = [_Hart(core, iss) for core, iss in enumerate(self.harts)]
        self._quantum = quantum
        self._name_of = executable.symbol_at
        self._line_of = lines or SourceLines(executable.path).location
        self._channel = HostChannel(executable, self.memory, self._halt, output)

    @property
    def executed(self) -> int:
        return sum(iss.executed for iss in self.harts)

    @property
    def cycles(self) -> int:
        return self.devices.time

    @property
    def trapped(self) -> exits.Trapped | None:
        return last_trap(self.harts[self.memory.core])

    def _halt(self) -> None:
        for hart in self.harts:
            hart.halt()

    def run(self, limit: int, progress: Callable[[int], None] | None = None) -> exits.Exit:
        """Execute until the program ends, no hart can go on, one leaves memory, or ``limit`` instructions are done."""
        reported_at = 0
        while True:
            first, done = self._take_turns(limit)
            begin = self.devices.time
            for hart in self._harts[first:]:
                end = self._guarded(hart, begin, limit, done if hart.core == first else 0)
                if end is not None:
                    return end
                if self.executed >= limit:
                    return self._of_core(exits.out_of_time(limit, "instructions", hart.iss.state.pc, self._name_of))
            self.devices.advance(begin + self._quantum)
            if all(hart.stuck for hart in self._harts):
                end = self._stalled()
                if end is not None:
                    return end
            if progress is not None and self.executed - reported_at >= _REPORT:
                reported_at = self.executed
                try:
                    progress(reported_at)
                except exits.StoppedError:
                    pc = self.harts[0].state.pc
                    return self._of_core(exits.interrupted(reported_at, "instructions", pc, self._name_of))

    def _take_turns(self, limit: int) -> tuple[int, int]:
        """Take turns in compiled code as long as harts do nothing but execute instructions. Returns the number of the
        hart that is left with its turn, and how many instructions of the turn are done."""
        devices, quantum, until = self.devices, self._quantum, self.devices.until_event()
        harts = [hart for hart in self._harts if devices.waits_at(hart.core) is None]
        for hart in harts:
            hart.iss.csrs.irq = devices.lines(hart.core)
        plain = not any(hart.stuck or hart.iss.state.asleep or hart.iss.note for hart in harts)
        rounds = min(limit - self.executed, _REPORT) // (quantum * len(harts)) if harts and plain else 0
        rounds = rounds if until is None else min(rounds, (until - 1) // quantum)
        if rounds <= 0:
            return 0, 0
        before = [hart.iss.executed for hart in self._harts]
        states = (ctypes.c_void_p * len(harts))(*(ctypes.addressof(hart.iss.state) for hart in harts))
        full, left = divmod(library().take_turns(states, len(harts), quantum, rounds * len(harts)), len(harts))
        first = harts[left].core if full < rounds else 0
        for hart in self._harts:
            if hart not in harts:
                hart.iss.csrs.pass_time(quantum * (full + (hart.core < first)))
        devices.advance(devices.time + quantum * full)
        return first, harts[left].iss.executed - before[first] - quantum * full if full < rounds else 0

    def _guarded(self, hart: _Hart, begin: int, limit: int, done: int) -> exits.Exit | None:
        iss = hart.iss
        self.memory.core = hart.core
        try:
            ended = self._channel.final is not None  # by compiled code
            end = None if ended else self._turn(hart, begin, min(self._quantum, limit - self.executed + done), done)
        except AccessError as error:
            return self._of_core(outside_memory(error, iss, self._name_of))
        if self._channel.final is not None:
            end = exits.reported(self._channel.final, iss.state.last_pc, self._name_of)
        return end if end is None or end.ok else self._of_core(end)

    def _turn(self, hart: _Hart, begin: int, quantum: int, done: int) -> exits.Exit | None:
        """Execute up to ``quantum`` instructions of a hart, some of them done; returns the end for a loop of traps."""
        iss, devices = hart.iss, self.devices
        if devices.waits_at(hart.core) is not None:
            iss.csrs.pass_time(quantum)
            return None
        iss.csrs.irq = devices.lines(hart.core)
        start, ended = iss.executed - done, done and iss.status in (RESTS, TRAPS)
        hart.stuck = ""
        while not hart.stuck and (done := iss.executed - start) < quantum:
            if not ended:
                iss.run(quantum - done)
            if self._channel.final is not None:
                return None
            ended = False
            if iss.status == AGAIN:
                self._access_device(hart, begin + iss.executed - start)
            elif iss.status == RESTS:
                hart.stuck = "sleeps in wfi" if iss.state.asleep else _LOOPS
            elif iss.status == TRAPS:
                return exits.trap_loop(iss.state.last_pc, iss.csrs["mcause"], iss.state.pc, self._name_of)
        iss.csrs.pass_time(quantum - (iss.executed - start))
        return None

    def _access_device(self, hart: _Hart, time: int) -> None:
        self.devices.advance(time)
        try:
            hart.iss.step()
        except PostponedError:
            address = self.devices.waits_at(hart.core)
            hart.stuck = "waits" if address is None else exits.waits_for(address)
        else:
            hart.iss.csrs.irq = self.devices.lines(hart.core)

    def _stalled(self) -> exits.Exit | None:
        """Advance to the next event of a timer if no hart can continue; returns a deadlock if there is none."""
        if any(self._goes_on(hart) for hart in self._harts):
            return None
        cycles = self.devices.until_event()
        if cycles is not None:
            for hart in self._harts:
                hart.iss.csrs.pass_time(cycles)
            self.devices.advance(self.devices.time + cycles)
            return None
        places = [(hart.core, hart.iss.state.pc, hart.stuck) for hart in self._harts]
        return exits.deadlock(places, self._name_of, self._line_of)

    def _goes_on(self, hart: _Hart) -> bool:
        if self.devices.waits_at(hart.core) is not None:
            return False
        hart.iss.csrs.irq = self.devices.lines(hart.core)
        rests = hart.iss.state.asleep or hart.stuck == _LOOPS
        return not rests or bool(hart.iss.csrs.call("wakes") & 1)

    def _of_core(self, end: exits.Exit) -> exits.Exit:
        return replace(end, text=f"core {self.memory.core}: {end.text}")
