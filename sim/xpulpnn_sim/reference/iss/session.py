"""Runs whole programs on the simulator of one hart."""

from collections import Counter, deque
from collections.abc import Callable, Sequence

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import CLINT_BASE, CLINT_BYTES, WORD_BYTES
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
        self, executable: Executable, memory: Memory, halt: Callable[[], None], output: Callable[[exits.Output], None]
    ) -> None:
        # `halt` stops the hart or cluster after the current instruction
        self._tohost, self._fromhost = executable.tohost, executable.fromhost
        self._halt, self._memory, self._output = halt, memory, output
        self.final: int | None = None
        memory.watch(self._tohost)
        memory.watchers.append(self._stored)

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
            self._halt()
            return
        self._output(printed)
        memory.write_bytes(tohost, bytes(WORD_BYTES))
        if self._fromhost is not None:
            memory.write_bytes(self._fromhost, exits.FROMHOST_DONE.to_bytes(WORD_BYTES, "little"))


def loaded_memory(
    executable: Executable, ram: Sequence[Window] = (), errors: Sequence[Window] = (), kind: type[Memory] = Memory
) -> Memory:
    """Return the memory of a run with the program loaded and with bus errors in the address ranges ``errors``."""
    memory = kind(windows(executable, ram))
    memory.errors = tuple(errors)
    fill_memory(memory, executable)
    return memory


def fill_memory(memory: Memory, executable: Executable) -> None:
    for segment in executable.segments:
        memory.write_bytes(segment.address, segment.data)


def outside_memory(error: AccessError, iss: Iss, name_of: exits.NameOf) -> exits.Exit:
    pc = iss.state.pc
    if error.kind == "fetch":
        return exits.bad_fetch(pc, iss.last_pc, name_of)
    return exits.bad_access(error.kind, error.address, error.size, pc, name_of)


def last_trap(iss: Iss) -> exits.Trapped | None:
    pc, cause, *before, address = iss.state.exception
    word = exits.fetched_word(iss.memory.read_bytes, pc)
    return exits.Trapped(pc, cause, word, tuple(before), address) if cause else None


class IssSession:
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
        added = [(CLINT_BASE, CLINT_BYTES)] if clint else []
        self.memory = loaded_memory(executable, [*ram, *added], errors, ClintMemory if clint else Memory)
        self.iss = Iss.of(config, executable.entry, hart_id=hart_id, memory=self.memory)
        self.iss.note = None if visits is None else visits.update
        self.executable, self._name_of = executable, executable.symbol_at
        self._observer = observer
        self._irqs = deque(sorted(irqs))
        self._channel = HostChannel(executable, self.memory, self.iss.halt, output)

    def run(self, limit: int, progress: Callable[[int], None] | None = None) -> exits.Exit:
        """Execute until the program ends, is in an endless loop, leaves its memory, or reaches ``limit``."""
        iss, end = self.iss, None
        try:
            while iss.executed < limit and end is None:
                self._advance(min(_CHUNK, limit - iss.executed))
                end = self._ended()
                if progress is not None and end is None:
                    progress(iss.executed)
        except AccessError as error:
            iss.state.executed += 1  # as an instruction that traps
            return outside_memory(error, iss, self._name_of)
        except exits.StoppedError:
            return exits.interrupted(iss.executed, "instructions", iss.state.pc, self._name_of)
        return end or exits.out_of_time(limit, "instructions", iss.state.pc, self._name_of)

    def _advance(self, limit: int) -> None:
        iss = self.iss
        if self._irqs:
            left = self._irqs[0][0] - iss.executed
            if left <= 0 or iss.status == RESTS:
                iss.csrs.pass_time(max(left, 0))
                iss.state.raised |= 1 << self._irqs.popleft()[1]
                iss.csrs.irq |= iss.state.raised
                iss.state.status = DONE
                return
            limit = min(limit, left)
        if self._observer is None:
            iss.run(limit)
            return
        end = iss.executed + min(limit, _OBSERVED_CHUNK)
        while iss.executed < end and iss.status != RESTS and self._ended() is None:
            step = iss.step()
            if step.retired is not None:
                self._observer(step.retired)
                if iss.note is not None:
                    iss.note([step.pc])

    def _ended(self) -> exits.Exit | None:
        iss, last = self.iss, self.iss.state.last_pc
        if self._channel.final is not None:
            return exits.reported(self._channel.final, last, self._name_of)
        if iss.status == TRAPS:
            return exits.trap_loop(last, iss.csrs["mcause"], iss.state.pc, self._name_of)
        rests = iss.status == RESTS and not self._irqs
        return exits.endless_loop(last, self._name_of) if rests else None

    @property
    def executed(self) -> int:
        return self.iss.executed

    @property
    def trapped(self) -> exits.Trapped | None:
        return last_trap(self.iss)
