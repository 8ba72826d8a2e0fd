"""Runs whole programs on the simulator."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.iss.clint import ClintMemory
from xpulpnn_sim.reference.iss.core import Iss, Retired
from xpulpnn_sim.reference.iss.library import DONE, RESTS, TRAPS
from xpulpnn_sim.reference.iss.memory import AccessError, Memory
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.elf import Executable, Window, windows
from xpulpnn_sw.toolchain.build_options import core_name, require_core

DEFAULT_QUANTUM = 64  # instructions of a turn of a hart in a cluster
_CHUNK, _OBSERVED_CHUNK = 1 << 17, 1 << 12  # instructions between two reports of progress


class HostChannel:
    def __init__(
        self, executable: Executable, harts: Sequence[Iss], output: Callable[[exits.Output], None] | None = None
    ) -> None:
        self._tohost, self._fromhost = executable.tohost, executable.fromhost
        self._harts, self._memory, self._output = harts, harts[0].memory, output
        self.final: int | None = None
        self._memory.watch(self._tohost)
        self._memory.watchers.append(self._stored)

    def _stored(self, address: int, size: int) -> None:
        memory, tohost = self._memory, self._tohost
        if address >= tohost + WORD_BYTES or address + size <= tohost:
            return
        value = memory.read(tohost, WORD_BYTES)
        if value == 0:
            return
        printed = exits.host_call(value, memory.read_bytes, memory.inside)
        if printed is None:
            self.final = value
            for iss in self._harts:
                iss.halt()
            return
        if self._output is not None:
            self._output(printed)
        memory.write_bytes(tohost, bytes(WORD_BYTES))
        if self._fromhost is not None:
            memory.write_bytes(self._fromhost, exits.FROMHOST_DONE.to_bytes(WORD_BYTES, "little"))


AnyMemory = TypeVar("AnyMemory", bound=Memory)


def loaded_memory(
    executable: Executable,
    ram: Sequence[Window] = (),
    errors: Sequence[Window] = (),
    kind: Callable[[Sequence[Window], Sequence[Window]], AnyMemory] = Memory,
) -> AnyMemory:
    """Return the memory of a run with the program loaded and with bus errors in the address ranges ``errors``."""
    memory = kind(windows(executable, ram), errors)
    for segment in executable.segments:
        memory.write_bytes(segment.address, segment.data)
    return memory


def outside_memory(error: AccessError, iss: Iss, name_of: exits.NameOf) -> exits.Exit:
    pc = iss.state.pc
    if error.kind == "fetch":
        return exits.bad_fetch(pc, iss.last_pc, name_of)
    return exits.bad_access(error.kind, error.address, error.size, pc, name_of)


class Session(ABC):
    """One run of a program on simulated harts."""

    def __init__(
        self,
        executable: Executable,
        harts: Sequence[Iss],
        output: Callable[[exits.Output], None],
        visits: Counter[int] | None,
    ) -> None:
        self.executable, self.harts, self.memory = executable, harts, harts[0].memory
        self._core = 0  # whose turn it is
        self._name_of = executable.symbol_at
        if visits is not None:
            for iss in harts:
                iss.observe(visits.update)
        self._channel = HostChannel(executable, harts, output)

    @property
    def iss(self) -> Iss:
        return self.harts[self._core]

    @property
    def executed(self) -> int:
        return sum(iss.executed for iss in self.harts)

    @property
    def trapped(self) -> exits.Trapped | None:
        """The last exception of the hart whose turn it is."""
        pc, cause, *before, address = self.iss.state.exception
        word = exits.fetched_word(self.memory.read_bytes, pc)
        return exits.Trapped(pc, cause, word, tuple(before), address) if cause else None

    def run(self, limit: int, progress: Callable[[int], None] | None = None) -> exits.Exit:
        """Execute until the program ends, no hart can go on, one leaves memory, or ``limit`` instructions are done."""
        end = None
        try:
            while self.executed < limit and end is None:
                self._advance(limit)
                end = self._ended()
                if progress is not None and end is None:
                    progress(self.executed)
        except AccessError as error:
            self.iss.state.executed += 1  # as an instruction that traps
            end = outside_memory(error, self.iss, self._name_of)
        except exits.StoppedError:
            end = exits.interrupted(self.executed, "instructions", self.iss.state.pc, self._name_of)
        return end or exits.out_of_time(limit, "instructions", self.iss.state.pc, self._name_of)

    def _ended(self) -> exits.Exit | None:
        iss, last = self.iss, self.iss.state.last_pc
        if self._channel.final is not None:
            return exits.reported(self._channel.final, last, self._name_of)
        if iss.status == TRAPS:
            return exits.trap_loop(last, iss.csrs["mcause"], iss.state.pc, self._name_of)
        return self._stalled()

    @abstractmethod
    def _advance(self, limit: int) -> None:
        """Execute until something is to be looked at."""

    @abstractmethod
    def _stalled(self) -> exits.Exit | None:
        """Return the end of a run that cannot go on."""


class IssSession(Session):
    def __init__(
        self,
        executable: Executable,
        config: CoreConfig,
        *,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
        hart_id: int = 0,
        output: Callable[[exits.Output], None],
        observer: Callable[[Retired], None] | None = None,
        visits: Counter[int] | None = None,
        clint: bool = False,
        irqs: Sequence[tuple[int, int]] = (),
    ) -> None:
        # irqs: number of instructions after which a line rises, and the line
        require_core(executable.cores, config, str(executable.path), core_name(config))
        memory = loaded_memory(executable, ram, errors, ClintMemory if clint else Memory)
        iss = Iss.of(config, executable.entry, hart_id=hart_id, memory=memory)
        super().__init__(executable, (iss,), output, visits)
        self._observer = observer
        self._irqs = deque(sorted(irqs))

    def _advance(self, limit: int) -> None:
        iss = self.iss
        limit = min(_CHUNK, limit - iss.executed)
        if self._irqs:
            left = self._irqs[0][0] - iss.executed
            if left <= 0 or iss.status == RESTS:
                iss.csrs.pass_time(max(left, 0))
                iss.raise_line(self._irqs.popleft()[1])
                iss.state.status = DONE
                return
            limit = min(limit, left)
        if self._observer is None:
            iss.run(limit)
            return
        end = iss.executed + min(limit, _OBSERVED_CHUNK)
        while iss.executed < end and iss.status != RESTS and self._ended() is None:
            retired = iss.step().retired
            if retired is not None:
                self._observer(retired)

    def _stalled(self) -> exits.Exit | None:
        rests = self.iss.status == RESTS and not self._irqs
        return exits.endless_loop(self.iss.state.last_pc, self._name_of) if rests else None
