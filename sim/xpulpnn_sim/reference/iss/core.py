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
from xpulpnn.isa.table import find
from xpulpnn.xif.config import XifConfig, XifHost
from xpulpnn_sim.reference.iss.csrs import SimulatedCsrs
from xpulpnn_sim.reference.iss.fetched import Fetched, decoding, is_absent
from xpulpnn_sim.reference.iss.library import (
    RAISED,
    STOP,
    NativeHart,
    Operation,
    Translate,
    function_of,
    library,
    table,
)
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS

_NOWHERE = 1  # no address of an instruction
_NO_CAUSE = machine.WORD_MASK
_PATH = 1 << 17  # most instructions of a run whose addresses are noted
_NOTHING = find("fence")  # a row without effect


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
        self.state = NativeHart(pc=boot_address & ~1, last_pc=_NOWHERE, handler=_NOWHERE)
        if groups is None:
            groups = frozenset({CsrGroup.BASE})
            groups |= {CsrGroup.HWLOOP} if Extension.XPULPV2 in extensions else set()
        is_xpulp = Extension.XPULPV2 in extensions
        self.csrs = SimulatedCsrs(boot_address, hart_id, groups, self.state, is_xpulp=is_xpulp)
        # takes the addresses of executed instructions, in order
        self.note: Callable[[Sequence[int]], object] | None = None
        self.decode, self._xif = decoding(extensions, widths, xif), xif
        self.fetch: Callable[[int], int] = self.memory.fetch
        self._library = library()
        self._hart = ctypes.byref(self.state)
        native, state, code = self.memory.native, self.state, table()
        state.code, state.memory, state.next = ctypes.addressof(code), ctypes.addressof(native), native.harts
        state.translate = Translate(partial(Iss._translate, weakref.proxy(self)))
        state.fetches_anew = not self.memory.keeps_code
        native.harts = ctypes.addressof(state)
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
        """Execute up to ``limit`` instructions, at most up to ``until``, :meth:`halt` or where :attr:`status` says so;
        returns their number. An access outside memory leaves ``pc`` at the instruction."""
        path, state = None, self.state
        if self.note is not None:
            limit = min(limit, _PATH)
            path = (ctypes.c_uint32 * limit)()
            state.path = ctypes.addressof(path)
        done = self._library.run(self._hart, ctypes.c_uint64(limit), _NOWHERE if until is None else until)
        if path is not None and self.note is not None:
            state.path = None
            self.note(path[:done])
        self._require_access()
        return done

    def _require_access(self) -> None:
        if self.status == RAISED:
            raise self.memory.raised

    @property
    def status(self) -> int:
        """``DONE``, or why a run ended early: ``RESTS``, ``TRAPS``, ``AGAIN`` or ``BREAK`` of the library."""
        return self.state.status

    def halt(self) -> None:
        """End a run after the current instruction. Watchers of the memory call this."""
        self.state.halted = True

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
        self._require_access()
        cause = None if state.cause == _NO_CAUSE else state.cause
        return Step(pc, cause, bool(state.endless), self.retired if state.retired else None)

    @property
    def retired(self) -> Retired:
        """The last instruction that was executed by a step."""
        valid, fields = self.state.valid, self.state.record
        record = {name: getattr(fields, name) for place, name in enumerate(WORD_FIELDS) if valid >> place & 1}
        return Retired(self.decode(record["insn"]), record.get("trap") and record["cause"], record)

    def _translate(self, pc: int, operation: Any) -> int:
        """Fetch and decode an instruction for compiled code; return the status of the fetch."""

        def translate() -> None:
            raw = self.fetch(pc)
            if raw & machine.LENGTH_MASK != machine.LENGTH_MASK:
                raw &= machine.HALF_MASK
            fetched = self.decode(raw)
            operation[0] = Operation(raw=raw, flags=STOP) if fetched is None else fetched.operation
            if fetched is None or fetched.insn.op == "dret":
                operation[0].run = function_of("illegal")
            elif is_absent(fetched, self._xif):
                operation[0].run = function_of(_NOTHING)

        return self.memory.status_of(translate)
