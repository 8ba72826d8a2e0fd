"""Instruction-set simulator of one hart, which executes one instruction per step."""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa import machine
from xpulpnn.isa.csr import MCAUSE_INTERRUPT, CsrGroup
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.table import find
from xpulpnn.xif.config import XifConfig, XifHost
from xpulpnn_sim.reference.iss.csrs import SimulatedCsrs, csr_is_legal
from xpulpnn_sim.reference.iss.fetched import EVENTS, Fetched, decoding, is_absent
from xpulpnn_sim.reference.iss.library import (
    DONE,
    RAISED,
    STOP,
    TRAP,
    NativeHart,
    Operation,
    Translate,
    Write,
    function_of,
    library,
    table,
)
from xpulpnn_sim.reference.iss.memory import BusError, Memory
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS, Records

_NOWHERE = 1  # no address of an instruction
_PATH = 1 << 17  # most instructions of a burst whose addresses are noted
_NOTHING = find("fence")  # a row without effect


@dataclass(frozen=True, slots=True)
class Step:
    pc: int  # address of the instruction, or the one at which the interrupt was taken
    insn: Insn | None = None  # the row executed, compressed rows expanded; None for interrupts, sleep and illegal words
    word: int = 0  # the instruction word, compressed ones expanded; 0 for interrupts and sleep
    cause: int | None = None  # mcause of the trap taken, if any
    endless: bool = False  # it jumped to itself and will do so until an interrupt comes


ALL_WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
DEFAULT_EXTENSIONS = BASE_EXTENSIONS | {
    Extension.XPULPV2,
    Extension.XPULPNN,
    Extension.XPULPML_NN,
    Extension.XPULPML_CU,
}


class Iss:
    """A hart and its memory. The simulator has no notion of time: mcycle and the performance counter of cycles count
    one cycle per step, counters of stalls do not change. Instructions outside ``extensions`` and ``widths`` trap.
    ``xif`` is the coprocessor, if any."""

    def __init__(
        self,
        boot_address: int = 0,
        *,
        extensions: frozenset[Extension] = DEFAULT_EXTENSIONS,
        widths: frozenset[int] = ALL_WIDTHS,
        performance_counters: bool = False,
        groups: frozenset[CsrGroup] | None = None,
        hart_id: int = 0,
        memory: Memory | None = None,
        xif: XifConfig | None = None,
    ) -> None:
        self.memory = Memory() if memory is None else memory
        # pc, registers, the NN-RF and behind it the state of the coprocessor, and whether a wfi waits for an interrupt
        self.state = NativeHart(pc=boot_address & ~1, last_pc=_NOWHERE)
        if groups is None:
            groups = frozenset({CsrGroup.BASE})
            groups |= {CsrGroup.HWLOOP} if Extension.XPULPV2 in extensions else set()
            groups |= {CsrGroup.PERFORMANCE} if performance_counters else set()
        is_xpulp = Extension.XPULPV2 in extensions
        self.csrs = SimulatedCsrs(boot_address, hart_id, groups, self.state, is_xpulp=is_xpulp)
        # address and cause of the last exception, except for a handler that traps at its first instruction
        self.last_exception: tuple[int, int] | None = None
        # takes the addresses of executed instructions, in order
        self.note: Callable[[Sequence[int]], object] | None = None
        self.decode, self._xif = decoding(extensions, widths, xif), xif
        self._library = library()
        self._hart = ctypes.byref(self.state)
        native, state, code = self.memory.native, self.state, table()
        state.code, state.memory, state.next = ctypes.addressof(code), ctypes.addressof(native), native.harts
        state.translate = Translate(partial(Iss._translate, weakref.proxy(self)))
        state.access_csr = Write(self.csrs.access)
        native.harts = ctypes.addressof(state)
        self._bursts = self.memory.keeps_code
        self._fetched: Fetched | None = None  # the instruction that a step executes
        weakref.finalize(self, lambda hart, *_used: library().release(ctypes.byref(hart)), state, native, code)

    @classmethod
    def of(cls, config: CoreConfig, boot_address: int, *, hart_id: int = 0, memory: Memory | None = None) -> "Iss":
        return cls(
            boot_address,
            extensions=config.extensions,
            widths=config.widths,
            groups=config.csr_groups,
            hart_id=hart_id,
            memory=memory,
            xif=config.xif if isinstance(config, XifHost) else None,
        )

    def load(self, address: int, words: list[int]) -> None:
        for index, word in enumerate(words):
            self.memory.write(address + machine.WORD_BYTES * index, machine.WORD_BYTES, word)

    def run(self, limit: int, until: int | None = None) -> int:
        """Step until ``pc`` is ``until`` or ``limit`` steps are done; returns the number of steps."""
        steps = 0
        while steps < limit and self.state.pc != until:
            steps += self.burst(limit - steps, until)
            if steps < limit and self.state.pc != until:
                self.step()
                steps += 1
        return steps

    def burst(self, limit: int, until: int | None = None) -> int:
        """Execute up to ``limit`` instructions fast, at most up to the address ``until``; returns their number. Stops,
        possibly at once, before an instruction that needs :meth:`step`: CSR accesses, traps, mret, wfi, interrupts,
        jumps to themselves; and after :meth:`halt`. An access outside memory leaves ``pc`` at the instruction."""
        csrs, state, path = self.csrs, self.state, None
        if not self._bursts or state.asleep or (csrs.irq and csrs.interrupt() is not None):
            return 0
        csrs.written.clear()
        if self.note is not None:
            limit = min(limit, _PATH)
            path = (ctypes.c_uint32 * limit)()
            state.path = ctypes.addressof(path)
        done = self._library.run(self._hart, ctypes.c_uint64(limit), _NOWHERE if until is None else until)
        csrs.advance(done, done, csrs["mcountinhibit"])
        if path is not None and self.note is not None:
            state.path = None
            self.note(path[:done])
        if state.status == RAISED:
            raise self.memory.raised
        return done

    def halt(self) -> None:
        """End a burst after the current instruction. Watchers of the memory call this."""
        self.state.halted = True

    @property
    def executed(self) -> int:
        """Instructions, including those that trapped."""
        return self.state.executed

    @property
    def last_pc(self) -> int | None:
        """Address of the last executed instruction."""
        return None if self.state.last_pc == _NOWHERE else self.state.last_pc

    def step(self) -> Step:
        """Take an interrupt, wait one cycle in wfi, or execute one instruction."""
        csrs, state = self.csrs, self.state
        if state.asleep and not csrs.wakes:
            csrs.written.clear()
            self._pass_time()
            return Step(state.pc)
        state.asleep = False
        line = csrs.interrupt() if csrs.irq else None
        if line is not None:
            return self._trap(Step(state.pc, cause=MCAUSE_INTERRUPT | line))
        return self.execute(self.peek())

    def execute(self, fetched: Fetched | int | None) -> Step:
        """Execute the instruction at ``pc``, which :meth:`peek` returned, without taking interrupts."""
        csrs, state = self.csrs, self.state
        pc = state.pc
        if fetched is None:
            return self._trap(Step(pc, cause=machine.ExceptionCause.INSTRUCTION_ACCESS_FAULT))
        if isinstance(fetched, int):
            return self._trap(Step(pc, word=fetched, cause=machine.ExceptionCause.ILLEGAL_INSTRUCTION))
        insn, word = fetched.insn, fetched.word
        if insn.op == "dret" or (insn.insn_class is InsnClass.CSR and not csr_is_legal(fetched, csrs)):
            self._library.observe(self._hart)
            return self._trap(Step(pc, insn, word, machine.ExceptionCause.ILLEGAL_INSTRUCTION))
        if not self._bursts:
            self.memory.forget(pc, machine.WORD_BYTES)
        inhibit = csrs["mcountinhibit"]
        csrs.written.clear()
        self._fetched = fetched
        status = self._library.step(self._hart)
        self._fetched = None
        if status == RAISED:
            raise self.memory.raised
        if status != DONE:
            fault = machine.ExceptionCause.LOAD_ACCESS_FAULT + 2 * insn.is_store
            return self._trap(Step(pc, insn, word, state.cause if status == TRAP else fault))
        state.asleep = insn.op == "wfi"
        # a jump through a register that it overwrites has another target the next time
        endless = state.taken and state.pc == pc and not (insn.op == "jalr" and fetched.rd == fetched.rs1 != 0)
        if self.note is not None:
            self.note((pc,))
        csrs.advance(1, 1, inhibit)
        return Step(pc, insn, word, endless=bool(endless))

    @property
    def observed(self) -> dict[str, int]:
        """Fields of the record of the last instruction that was executed by a step."""
        valid, record = self.state.valid, self.state.record
        return {name: getattr(record, name) for place, name in enumerate(WORD_FIELDS) if valid >> place & 1}

    def follow(self, records: Records, lines: NDArray[np.uint32] | None, ready: int, unread: int) -> int:
        """Execute instructions as long as they are plain and equal the records of a design, except for the fields
        ``unread``, and no interrupt line out of ``ready`` is high; returns their number."""
        if not self._bursts:
            return 0
        self.csrs.written.clear()
        given = ctypes.c_void_p(records.ctypes.data), None if lines is None else ctypes.c_void_p(lines.ctypes.data)
        numbers = ctypes.c_uint64(len(records)), ready, ctypes.c_uint64(unread)
        done = self._library.follow(self._hart, *given, *numbers)
        self.csrs.advance(done, done, self.csrs["mcountinhibit"])
        return done

    def peek(self, pc: int | None = None) -> Fetched | int | None:
        """Return the next instruction, or that at ``pc``; its word if it is illegal; None for a bus error."""
        try:
            raw = self.memory.fetch(self.state.pc if pc is None else pc)
        except BusError:
            return None
        if raw & machine.LENGTH_MASK != machine.LENGTH_MASK:
            raw &= machine.HALF_MASK
        fetched = self.decode(raw)
        return raw if fetched is None else fetched

    def _translate(self, pc: int, operation: Any) -> int:
        """Fetch and decode an instruction for compiled code; returns the status of the fetch."""

        def translate() -> None:
            fetched = self._fetched or self.peek(pc)
            operation[0] = fetched.operation if isinstance(fetched, Fetched) else Operation(flags=STOP)
            if not isinstance(fetched, Fetched) or is_absent(fetched, self._xif):
                operation[0].run = function_of(_NOTHING)

        return self.memory.status_of(translate)

    def take_interrupt(self, line: int) -> None:
        """Enter the handler of the interrupt ``line``, whether it is pending and enabled or not; ends sleep."""
        self.state.asleep = False
        self.state.pc = self.csrs.enter_trap(MCAUSE_INTERRUPT | line, self.state.pc)

    def _pass_time(self) -> None:
        csrs = self.csrs
        csrs.advance(1, 0, csrs["mcountinhibit"])
        csrs.count_events((EVENTS["cycles"],), csrs.counted_events, saturates=csrs.saturates)

    def _trap(self, step: Step) -> Step:
        """Enter the exception handler. An instruction that traps counts as executed, but not as retired."""
        assert step.cause is not None
        csrs, state = self.csrs, self.state
        csrs.written.clear()
        if not step.cause & MCAUSE_INTERRUPT:
            state.last_pc = step.pc
            state.executed += 1
            if self.note is not None:
                self.note((step.pc,))
        self.state.pc = csrs.enter_trap(step.cause, step.pc)
        if not step.cause & MCAUSE_INTERRUPT and self.state.pc != step.pc:
            self.last_exception = step.pc, step.cause
        self._pass_time()
        return step
