"""A program on the simulator: from the executable to the reason it ended."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import MCAUSE_INTERRUPT
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.retirement import CAUSE_INTERRUPT
from xpulpnn_sim.reference.iss.core import Iss, Step
from xpulpnn_sim.reference.iss.fetched import Fetched
from xpulpnn_sim.reference.iss.memory import AccessError, BusError, Memory
from xpulpnn_sim.reference.programs.elf import Executable, Window, windows
from xpulpnn_sim.reference.programs.exits import (
    FROMHOST_DONE,
    Exit,
    NameOf,
    Output,
    Trapped,
    bad_access,
    bad_fetch,
    endless_loop,
    fetched_word,
    host_call,
    out_of_time,
    reported,
    trap_loop,
)
from xpulpnn_sw.toolchain.core_note import core_name, require_core


@dataclass(slots=True)
class Retired:
    """One retirement. Registers 0 stand for "none"."""

    pc: int  # address of the instruction and of the one after it; after a trap the handler
    raw: int  # the word, 16 bits if compressed
    fetched: Fetched | None = None  # the instruction; None if illegal
    next_pc: int = 0  # address of the instruction and of the one after it; after a trap the handler
    cause: int | None = None  # mcause if it trapped
    interrupt: int | None = None  # number of the interrupt whose handler starts here
    reads: Mapping[str, int] = field(default_factory=dict[str, int])  # old values of the register fields it reads
    rd: int = 0  # register written through field rd
    rd_value: int = 0  # register written through field rd
    base: int = 0  # base register moved
    base_value: int = 0  # base register moved
    address: int | None = None  # address of the memory access; None if it traps
    size: int = 0  # bytes of the access
    is_store: bool = False  # direction of the access
    data: int = 0  # raw data of the access, zero above its size
    activation: int | None = None  # NN-RF factors
    weight: int | None = None  # NN-RF factors
    nn: int | None = None  # NN-RF entry that takes `data`

    def fields(self) -> dict[str, int]:
        """The fields of the record; those left out are zero."""
        taken = 0 if self.interrupt is None else CAUSE_INTERRUPT | self.interrupt
        values = {
            "insn": self.raw,
            "trap": int(self.cause is not None),
            "intr": int(self.interrupt is not None),
            "cause": taken if self.cause is None else self.cause,
            "pc_rdata": self.pc,
            "pc_wdata": self.next_pc,
        }
        for name, value in self.reads.items():
            values[f"{name}_rdata"] = value
        if self.fetched is not None:
            values |= {"rs1_addr": self.fetched.rs1, "rs2_addr": self.fetched.rs2}
        if self.rd:
            values |= {"rd_we": 1, "rd_addr": self.rd, "rd_wdata": self.rd_value}
        if self.base:
            values |= {"base_we": 1, "base_addr": self.base, "base_wdata": self.base_value}
        if self.address is not None:
            mask, data = ("mem_wmask", "mem_wdata") if self.is_store else ("mem_rmask", "mem_rdata")
            values |= {"mem_addr": self.address, mask: (1 << self.size) - 1, data: self.data}
        if self.activation is not None:
            values["nn_act_rdata"] = self.activation
        if self.weight is not None:
            values["nn_wgt_rdata"] = self.weight
        if self.nn is not None:
            values |= {"nn_we": 1, "nn_addr": self.nn, "nn_wdata": self.data}
        return values


class Observer:
    """Steps a hart and tells what each instruction did."""

    def __init__(self, iss: Iss) -> None:
        self._iss = iss
        self._interrupt: int | None = None

    def step(self) -> tuple[Step, Retired | None]:
        """One step; None for what retired if it took an interrupt or slept."""
        iss = self._iss
        state, csrs = iss.state, iss.csrs
        if (state.asleep and not csrs.wakes) or (csrs.irq and csrs.interrupt() is not None):
            step = iss.step()
            if step.cause is not None:
                self.interrupted(step.cause & ~MCAUSE_INTERRUPT)
            return step, None
        fetched = iss.peek()
        retired = self._before(fetched)
        state.asleep = False
        step = iss.execute(fetched)
        retired.next_pc, retired.cause = state.pc, step.cause
        if step.cause is not None:
            retired.address = None
        retired.interrupt, self._interrupt = self._interrupt, None
        if step.cause is None and isinstance(fetched, Fetched):
            self._after(retired, fetched)
        return step, retired

    def interrupted(self, line: int) -> None:
        """The next instruction is the first of the handler of ``line``."""
        self._interrupt = line

    def _before(self, fetched: Fetched | int | None) -> Retired:
        state = self._iss.state
        regs = state.regs
        if not isinstance(fetched, Fetched):
            return Retired(state.pc, fetched or 0)
        retired = Retired(state.pc, fetched.raw, fetched)
        numbers = {"rs1": fetched.rs1, "rs2": fetched.rs2, "rd": fetched.rd}
        retired.reads = {name: regs[numbers[name]] for name in fetched.reads}
        access = fetched.access
        if access is not None:
            retired.address, retired.size = fetched.address(regs), access.size
            retired.is_store = fetched.insn.is_store
            if retired.is_store:
                retired.data = regs[fetched.rs2] & ((1 << 8 * access.size) - 1)
            else:
                with suppress(BusError):
                    retired.data = self._iss.memory.read(retired.address, access.size)
        if fetched.nn_weight is not None:
            retired.weight = state.nn[fetched.nn_weight]
        if fetched.nn_activation is not None:
            retired.activation = state.nn[fetched.nn_activation]
        return retired

    def _after(self, retired: Retired, fetched: Fetched) -> None:
        regs = self._iss.state.regs
        retired.rd, retired.rd_value = fetched.destination, regs[fetched.destination]
        if fetched.base != fetched.destination:
            retired.base, retired.base_value = fetched.base, regs[fetched.base]
        retired.nn = fetched.nn_loaded


_CHUNK = 1 << 17  # instructions between two reports of progress


class HostChannel:
    """Serves the exit channel of a program."""

    def __init__(
        self, executable: Executable, memory: Memory, halt: Callable[[], None], output: Callable[[Output], None]
    ) -> None:
        # ``halt`` stops a hart or a cluster after the instruction under way
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
        printed = host_call(value, memory.read_bytes, memory.inside)
        if printed is None:
            self.final = value
            self._halt()
            return
        self._output(printed)
        memory.write_bytes(tohost, bytes(WORD_BYTES))
        if self._fromhost is not None:
            memory.write_bytes(self._fromhost, FROMHOST_DONE.to_bytes(WORD_BYTES, "little"))


def loaded_memory(executable: Executable, ram: Sequence[Window] = (), errors: Sequence[Window] = ()) -> Memory:
    """The memory of a run with the program in it; the bus answers ``errors`` with an error."""
    memory = Memory(windows(executable, ram))
    memory.errors = tuple(errors)
    fill_memory(memory, executable)
    return memory


def fill_memory(memory: Memory, executable: Executable) -> None:
    """Put a program into memory."""
    for segment in executable.segments:
        memory.write_bytes(segment.address, segment.data)


def outside_memory(error: AccessError, iss: Iss, name_of: NameOf) -> Exit:
    """The end of a run by an access outside memory."""
    pc = iss.state.pc
    if error.kind == "fetch":
        return bad_fetch(pc, iss.last_pc, name_of)
    return bad_access(error.kind, error.address, error.size, pc, name_of)


def last_trap(iss: Iss) -> Trapped | None:
    """The last exception of a hart."""
    last = iss.last_exception
    return None if last is None else Trapped(*last, fetched_word(iss.memory.read_bytes, last[0]))


class IssSession:
    """One run of a program."""

    def __init__(
        self,
        executable: Executable,
        config: CoreConfig,
        *,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
        hart_id: int = 0,
        output: Callable[[Output], None],
        observer: Callable[[Retired], None] | None = None,
        visits: dict[int, int] | None = None,
    ) -> None:
        require_core(executable.cores, config, str(executable.path), core_name(config))
        self.memory = loaded_memory(executable, ram, errors)
        self.iss = Iss.of(config, executable.entry, hart_id=hart_id, memory=self.memory)
        self.iss.visits = visits
        self._name_of = executable.symbol_at
        self._observed = observer
        self._observer = Observer(self.iss)
        self._channel = HostChannel(executable, self.memory, self.iss.halt, output)

    def run(self, limit: int, progress: Callable[[int], None] | None = None) -> Exit:
        """Execute until the program ends, can only go on forever, leaves its memory, or ``limit`` is reached."""
        iss, end, reported_at = self.iss, None, 0
        try:
            while iss.executed < limit and end is None:
                if self._observed is None:
                    iss.burst(min(_CHUNK, limit - iss.executed))
                if self._channel.final is None and iss.executed < limit:
                    end = self._step()
                if self._channel.final is not None:
                    assert iss.last_pc is not None
                    return reported(self._channel.final, iss.last_pc, self._name_of)
                if progress is not None and iss.executed - reported_at >= _CHUNK:
                    reported_at = iss.executed
                    progress(reported_at)
        except AccessError as error:
            return outside_memory(error, iss, self._name_of)
        return end or out_of_time(limit, "instructions", iss.state.pc, self._name_of)

    @property
    def executed(self) -> int:
        """Instructions executed."""
        return self.iss.executed

    @property
    def trapped(self) -> Trapped | None:
        """The last exception; of a loop of traps the one that led to it."""
        return last_trap(self.iss)

    def _step(self) -> Exit | None:
        """One exact step; the end if from here on nothing can change."""
        state = self.iss.state
        if self._observed is None:
            step = self.iss.step()
        else:
            step, retired = self._observer.step()
            if retired is not None:
                self._observed(retired)
        if step.endless or (state.asleep and not self.iss.csrs.wakes):
            return endless_loop(step.pc, self._name_of)
        if step.cause is not None and not step.cause & MCAUSE_INTERRUPT and state.pc == step.pc:
            return trap_loop(step.pc, step.cause, self._name_of)
        return None
