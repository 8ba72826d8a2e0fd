"""Instruction-set simulator of one hart."""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn.isa import machine
from xpulpnn.isa.csr import CsrGroup
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension
from xpulpnn.isa.semantics import STATE
from xpulpnn.xif.config import XifConfig, XifHost
from xpulpnn_sim.reference.iss import library
from xpulpnn_sim.reference.iss.csrs import SimulatedCsrs
from xpulpnn_sim.reference.iss.fetched import Fetched, decoding
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS

_NOWHERE = 1  # no address of an instruction
_NO_CAUSE = machine.WORD_MASK


class Retired(NamedTuple):
    fetched: Fetched | None  # the instruction; None if illegal
    cause: int | None  # mcause if it trapped
    record: dict[str, int]  # valid fields of its record


class Step(NamedTuple):
    pc: int  # address of the instruction, or the one at which the interrupt was taken
    cause: int | None = None  # mcause of the trap taken, if any
    endless: bool = False  # it jumped to itself and will do so until an interrupt comes
    retired: Retired | None = None  # None for interrupts and sleep


ALL_WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
DEFAULT_EXTENSIONS = BASE_EXTENSIONS | {
    Extension.XPULPV2,
    Extension.XPULPNN,
    Extension.XPULPML_NN,
    Extension.XPULPML_CU,
}


def _absent_words(xif: XifConfig | None) -> tuple[int, ...]:
    """Return the places of the words of the state that a coprocessor lacks; they stay 0."""
    if xif is None:
        return ()
    memory = (*range(2, 6), STATE["PTR"], STATE["PTR"] + 1) if xif.memory == "none" else ()
    return (*memory, machine.FIRST_PARAMETER) if xif.requantise == "none" else memory


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
        groups: frozenset[CsrGroup] | None = None,
        hart_id: int = 0,
        memory: Memory | None = None,
        xif: XifConfig | None = None,
    ) -> None:
        self.memory = Memory() if memory is None else memory
        # pc, registers, the NN-RF and behind it the state of the coprocessor, and whether a wfi waits for an interrupt
        self.state = library.NativeHart(pc=boot_address & ~1, last_pc=_NOWHERE, handler=_NOWHERE)
        if groups is None:
            groups = frozenset({CsrGroup.BASE})
            groups |= {CsrGroup.HWLOOP} if Extension.XPULPV2 in extensions else set()
        self.csrs = SimulatedCsrs(boot_address, hart_id, groups, self.state)
        self._note: Callable[[Sequence[int]], object] | None = None
        self._path: Any = None
        self.decode = decoding(extensions, widths, xif)
        self.state.absent = sum(1 << word for word in _absent_words(xif))
        self.fetch: Callable[[int], int] = self.memory.fetch
        self._library = library.library()
        self._hart = ctypes.byref(self.state)
        native, state, code = self.memory.native, self.state, library.table()
        state.code, state.memory, state.next = ctypes.addressof(code), ctypes.addressof(native), native.harts
        state.translate = library.Translate(partial(Iss._translate, weakref.proxy(self)))
        state.fetches_anew = not self.memory.keeps_code
        native.harts = ctypes.addressof(state)
        weakref.finalize(self, lambda hart, *_used: library.library().release(ctypes.byref(hart)), state, native, code)

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
        self.memory.write_bytes(address, b"".join(word.to_bytes(machine.WORD_BYTES, "little") for word in words))

    def run(self, limit: int, until: int | None = None) -> int:
        """Execute up to ``limit`` instructions, at most up to ``until``, :meth:`halt` or where :attr:`status` says so;
        returns their number. An access outside memory leaves ``pc`` at the instruction."""
        done = self._library.run(self._hart, ctypes.c_uint64(limit), _NOWHERE if until is None else until)
        self.report()
        return done

    def observe(self, note: Callable[[Sequence[int]], object]) -> None:
        """Pass the addresses of executed instructions, in order, to ``note`` after each run and step."""
        self._note, self._path = note, (ctypes.c_uint32 * library.PATH)()
        self.state.path = ctypes.addressof(self._path)

    def report(self) -> None:
        """Pass on the addresses of instructions that compiled code has executed, and its exception."""
        if self._note is not None:
            self._note(self._path[: self.state.path_length])
            self.state.path_length = 0
        if self.status == library.RAISED:
            raise self.memory.raised

    @property
    def status(self) -> int:
        """``DONE``, or why a run ended early: ``RESTS``, ``TRAPS``, ``AGAIN`` or ``BREAK`` of the library."""
        return self.state.status

    def halt(self) -> None:
        """End a run after the current instruction. Watchers of the memory call this."""
        self.state.halted = True

    def raise_line(self, line: int) -> None:
        """Raise an interrupt line, which falls when its interrupt is taken."""
        self.state.raised |= 1 << line
        self.csrs["mip"] |= self.state.raised

    @property
    def executed(self) -> int:
        """Instructions, including those that trapped."""
        return self.state.executed

    @property
    def last_pc(self) -> int | None:
        return None if self.state.last_pc == _NOWHERE else self.state.last_pc

    def step(self) -> Step:
        """Take an interrupt, wait one cycle in wfi, or execute one instruction."""
        state, pc = self.state, self.state.pc
        self._library.step(self._hart)
        self.report()
        cause = None if state.cause == _NO_CAUSE else state.cause
        if not state.retired:
            return Step(pc, cause, bool(state.endless))
        valid, fields = state.valid, state.record
        record = {name: getattr(fields, name) for place, name in enumerate(WORD_FIELDS) if valid >> place & 1}
        retired = Retired(self.decode(record["insn"]), record.get("trap") and record["cause"], record)
        return Step(pc, cause, bool(state.endless), retired)

    def _translate(self, pc: int, operation: Any) -> int:
        """Fetch and decode an instruction for compiled code; return the status of the fetch."""
        return self.memory.status_of(lambda: operation.__setitem__(0, self._operation(pc)))

    def _operation(self, pc: int) -> Any:
        raw = self.fetch(pc)
        if raw & machine.LENGTH_MASK != machine.LENGTH_MASK:
            raw &= machine.HALF_MASK
        fetched = self.decode(raw)
        if fetched is None or fetched.insn.op == "dret":
            return library.Operation(raw=raw, flags=library.STOP, run=library.function_of("illegal"))
        return fetched.operation
