"""Lock step of a design with the simulator: compares every retirement and reports the first difference."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import (
    CLUSTER_EVENTS,
    CSR_BY_NAME,
    MSTATUS_MIE,
    MTVEC_BASE,
    MTVEC_VECTORED,
    PERFORMANCE_EVENTS,
    TRIGGER_STATE,
)
from xpulpnn.isa.fields import WORD_FIELDS
from xpulpnn.isa.insn import InsnClass
from xpulpnn.isa.machine import ADDRESS_SPACE, BYTE_BITS, IRQ_BITS, IRQ_PRIORITY, VECTOR_BYTES, ExceptionCause
from xpulpnn.isa.retirement import CAUSE_CODE, CAUSE_INTERRUPT, WaitCause
from xpulpnn_sim.reference.iss.clint import ClintMemory
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.fetched import Fetched
from xpulpnn_sim.reference.iss.library import ALWAYS, DIFFERS
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sim.reference.iss.session import HostChannel, Observer, Retired, loaded_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window
from xpulpnn_sim.reference.programs.exits import DifferenceError, place
from xpulpnn_sim.reference.programs.trace import (
    RETIREMENT,
    WIDE_FIELDS,
    Records,
    decoder_of,
    digits_of,
    line_of,
    text_of,
)
from xpulpnn_sw.assembly.disasm import ABI_NAMES

Record = tuple[int, ...]

HISTORY = 8  # retirements shown before the one that differs

PATIENCE = 8  # most retirements while an interrupt is pending and enabled; fewer instructions are in flight

TIMED_EVENTS = tuple(
    event
    for event, name in enumerate(PERFORMANCE_EVENTS)
    if name == "cycles" or name.endswith("_stalls") or name in CLUSTER_EVENTS
)
"""Performance counters of cycles and of events outside the core."""

TIMED_CSRS = frozenset(
    CSR_BY_NAME[name].address
    for name in (
        *("mcycle", "mcycleh", "cycle", "cycleh", "mip"),
        *(f"pccr{event}" for event in TIMED_EVENTS),
        *TRIGGER_STATE,
    )
)
"""CSRs whose value depends on time or on a debugger, so that it is taken from the design. For counters there is a
separate check against retirements and waits."""

_EVENT_CSRS = frozenset(CSR_BY_NAME[f"pccr{event}"].address for event in range(len(PERFORMANCE_EVENTS)))
_MIP = CSR_BY_NAME["mip"].address
_ACCESS_FAULTS = (ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT)


_NAMES = RETIREMENT.names or ()
_AT = {name: position for position, name in enumerate(_NAMES)}
_TRAP, _INTR, _CAUSE, _PC = (_AT[name] for name in ("trap", "intr", "cause", "pc_rdata"))
_RD_WE, _RD_ADDR, _RD_WDATA = (_AT[name] for name in ("rd_we", "rd_addr", "rd_wdata"))
_WAITED = _AT["halt"]  # causes of the waits before a retirement, a bit each
_BASE_WE, _BASE_ADDR = _AT["base_we"], _AT["base_addr"]
_LOAD = tuple(_AT[name] for name in ("mem_addr", "mem_rmask", "mem_rdata"))
_ALWAYS = tuple((name, _AT[name]) for name in ALWAYS)
_ALWAYS_IN_TRAPS = (*_ALWAYS, ("rd_we", _RD_WE), ("base_we", _BASE_WE))  # an instruction that traps writes nothing


def _csr_of(fetched: Fetched | None) -> int | None:
    if fetched is None or fetched.insn.insn_class is not InsnClass.CSR:
        return None
    return WORD_FIELDS["csr"].extract(fetched.word)


class Lockstep:
    """A simulated hart that is stepped by the records of a design. Values that depend on time (cycle counters, pending
    interrupts, the time of a CLINT) and the CSRs ``free`` of a core of somebody else are taken from the records.
    Interrupts are taken where the records show them, and must be allowed there."""

    def __init__(
        self,
        executable: Executable,
        config: CoreConfig,
        *,
        hart_id: int = 0,
        memory: Memory | None = None,
        errors: Sequence[Window] = (),
        who: str = "",
        free: frozenset[str] = frozenset(),
        clint: bool = False,
    ) -> None:
        if memory is None:
            # accesses outside memory are detected by the design's memory
            memory = loaded_memory(executable, ((0, ADDRESS_SPACE),), errors, ClintMemory if clint else Memory)
        self._clint = memory if isinstance(memory, ClintMemory) else None
        self.iss = Iss.of(config, executable.entry, hart_id=hart_id, memory=memory)
        self.compared = 0
        self.harts = (self,)
        self._name_of = executable.symbol_at
        self._who = who
        self._decoder = decoder_of(config)
        self._observer = Observer(self.iss)
        # the output of the program is shown by the run of the design
        self._channel = HostChannel(executable, memory, self.iss.halt, lambda printed: None)
        self._free = TIMED_CSRS | {CSR_BY_NAME[name].address for name in free}
        # another core may expand hints to other fields
        self._unread = ("rs1_addr", "rs2_addr") if free else ()
        self._unread_places = sum(1 << _AT[name] - len(WIDE_FIELDS) for name in self._unread)
        self._history: deque[Records] = deque(maxlen=HISTORY)  # blocks of the last records
        self._waiting = 0
        self._high = (0, 0)  # lines that were high at the last two records; cleared when an interrupt is taken

    def compare(self, records: Records, lines: Any = None) -> DifferenceError | None:
        """Compare the next block of records. Returns the first difference; nothing can be compared afterwards."""
        records = np.ascontiguousarray(records, RETIREMENT)
        levels = None if lines is None else np.ascontiguousarray(lines, np.uint32)
        done = 0
        try:
            while done < len(records):
                done += self._follow_plain(records[done:], None if levels is None else levels[done:])
                if done < len(records):
                    self.follow(records[done].item(), None if levels is None else int(levels[done]))
                    done += 1
        except DifferenceError as difference:
            return difference
        return None

    def _follow_plain(self, records: Records, levels: NDArray[np.uint32] | None) -> int:
        """Follow records of instructions without traps, interrupts and CSRs by compiled code; returns their number."""
        iss, csrs = self.iss, self.iss.csrs
        iss.state.asleep = False
        ready = csrs["mie"] & IRQ_BITS if csrs["mstatus"] & MSTATUS_MIE else 0
        if self._clint is not None:
            self._clint.bursting = True
        done = iss.follow(records, levels, ready, self._unread_places)
        if done:
            self._keep(records[:done])
            self._waiting = 0
            if levels is not None:
                self._high = (self._high[1] if done == 1 else int(levels[done - 2]), int(levels[done - 1]))
        if iss.state.status == DIFFERS:
            self._require_equal(records[done].item(), Retired(iss.decode(iss.state.record.insn), None, iss.observed))
        return done

    def _keep(self, records: Records) -> None:
        self._history.append(records[-HISTORY:])
        self.compared += len(records)

    def follow(self, record: Record, level: int | None = None) -> None:
        """Compare the next record; ``level`` holds the interrupt lines, if known."""
        if level is not None and record[_INTR]:
            self._require_most_urgent(record, level)
        self._advance(record)
        if level is not None:
            self._watch_interrupts(record, level)
            self._check_pending(record, level)
        self._keep(np.array([record], RETIREMENT))

    def _advance(self, record: Record) -> None:
        iss = self.iss
        iss.state.asleep = False
        if self._clint is not None:
            self._clint.bursting = False
            self._clint.take_time(*(record[at] for at in _LOAD))
        if record[_INTR]:
            self._interrupt(record)
        if record[_PC] != iss.state.pc:
            raise self.differs(record, "pc_rdata", iss.state.pc, record[_PC])
        _, retired = self._observer.step()
        assert retired is not None
        self._require_equal(record, retired)

    def _require_equal(self, record: Record, retired: Retired) -> None:
        iss, fetched, expected, traps = self.iss, retired.fetched, retired.record, retired.cause is not None
        self._fetched = fetched
        written, moved = expected.get("rd_addr", 0), expected.get("base_addr", 0)
        if written and _csr_of(fetched) in self._free:
            expected["rd_wdata"] = iss.state.regs[written] = record[_RD_WDATA]
        for name, at in _ALWAYS_IN_TRAPS if traps else _ALWAYS:
            if record[at] != expected.get(name, 0):
                raise self.differs(record, name, expected.get(name, 0), record[at])
        if traps:
            # the instruction dropped behind a faulting access may have been counted
            self._free |= _EVENT_CSRS if retired.cause in _ACCESS_FAULTS else frozenset()
            return
        # writes of x0 do not count; a base that is also rd may be reported or not
        rd = record[_RD_ADDR] if record[_RD_WE] else 0
        base = record[_BASE_ADDR] if record[_BASE_WE] else 0
        if rd != written:
            raise self.differs(record, "rd_addr", written, rd)
        sums = (written, written + 1) if "rd2_we" in expected else (written,)
        if base != moved and not (fetched is not None and base == fetched.base and base in sums):
            raise self.differs(record, "base_addr", moved, base)
        # stored data above the size of the access may have any value
        stored = (1 << BYTE_BITS * expected.get("mem_wmask", 0).bit_length()) - 1
        for name, value in expected.items():
            got = record[_AT[name]]
            if name not in self._unread and (got & stored if name == "mem_wdata" else got) != value:
                raise self.differs(record, name, value, got)

    def _interrupt(self, record: Record) -> None:
        """Take the interrupt of a record, which must be enabled."""
        csrs = self.iss.csrs
        line = self._interrupt_line(record)
        if not csrs["mstatus"] & MSTATUS_MIE:
            raise self.differs(record, "intr", 0, 1, "interrupts are disabled (mstatus.MIE = 0)")
        if not csrs["mie"] >> line & 1:
            raise self.differs(record, "intr", 0, 1, f"interrupt {line} is not enabled (mie = 0x{csrs['mie']:08x})")
        self.iss.take_interrupt(line)
        self._observer.interrupted(line)
        self._waiting = 0

    def _interrupt_line(self, record: Record) -> int:
        """Return the interrupt in the record, or derive it from pc if the first instruction of the handler traps."""
        if not record[_TRAP]:
            return record[_CAUSE] & CAUSE_CODE
        csrs = self.iss.csrs
        if csrs["mtvec"] & MTVEC_VECTORED:
            return (record[_PC] - (csrs["mtvec"] & MTVEC_BASE)) // VECTOR_BYTES & CAUSE_CODE
        # with one handler for all the trap overwrites mcause: any enabled interrupt may have been taken
        return (csrs["mie"] & IRQ_BITS).bit_length() - 1

    def _require_most_urgent(self, record: Record, level: int) -> None:
        """Check that the interrupt has the highest priority of those that were pending and enabled."""
        pending = level & self.iss.csrs["mie"] & IRQ_BITS
        line, urgent = self._interrupt_line(record), [line for line in IRQ_PRIORITY if pending >> line & 1]
        if not urgent:
            raise self.differs(record, "intr", 0, 1, "no enabled interrupt line is high")
        if line != urgent[0] and not record[_TRAP]:
            why = f"interrupt {urgent[0]} is more urgent than {line}"
            raise self.differs(record, "cause", CAUSE_INTERRUPT | urgent[0], record[_CAUSE], why)

    def _watch_interrupts(self, record: Record, level: int) -> None:
        csrs = self.iss.csrs
        if record[_WAITED] >> WaitCause.DEBUG & 1:
            # single steps may disable interrupts
            self._waiting = 0
        ready = level & csrs["mie"] & IRQ_BITS if csrs["mstatus"] & MSTATUS_MIE else 0
        self._waiting = self._waiting + 1 if ready else 0
        if self._waiting > PATIENCE:
            line = ready.bit_length() - 1
            why = f"interrupt {line} has been pending and enabled for {self._waiting} retirements"
            raise self.differs(record, "interrupt", 1, 0, why)

    def _check_pending(self, record: Record, level: int) -> None:
        """Check a word read from mip: lines that were high before must be set, lines that are low now must not."""
        before, last = self._high
        fetched, rd = self._fetched, record[_RD_ADDR] if record[_RD_WE] else 0
        if rd and _csr_of(fetched) == _MIP:
            shown = record[_RD_WDATA]
            if before & ~shown or shown & ~level:
                raise self.differs(record, "rd_wdata", before | shown & level, shown, "of the interrupt lines")
        self._high = (0, 0) if record[_INTR] else (last, level)

    def differs(self, record: Record, field: str, expected: int, got: int, why: str = "") -> DifferenceError:
        """Return the error for a record that differs in one field, or for an interrupt that is not taken."""
        values = dict(zip(_NAMES, record, strict=True))
        pc, order, cycle = values["pc_rdata"], values["order"], values["cycle"]
        lines = [
            f"difference at {self._who}retirement {order}, cycle {cycle}, pc {place(pc, self._name_of)}",
            f"  instruction: {digits_of(values['insn'])}  {text_of(values['insn'], pc, self._decoder)}",
            f"  {field} must be {_shown(field, expected)}, not {_shown(field, got)}{f': {why}' if why else ''}",
        ]
        if field == "pc_rdata":
            lines.append(f"  expected instruction: {place(expected, self._name_of)}")
        lines.append("before it, and as the design reports it:")
        before = [tuple(each) for block in self._history for each in block.tolist()][-HISTORY:]
        lines += [f"  {line_of(dict(zip(_NAMES, each, strict=True)), self._decoder)}" for each in (*before, record)]
        return DifferenceError("\n".join(lines), order, cycle, field, expected, got)


def _shown(name: str, value: int) -> str:
    if name in ("rd_addr", "base_addr", "rs1_addr", "rs2_addr"):
        return ABI_NAMES[value] if value else "none"  # nothing names x0
    return str(value) if name in ("trap", "intr", "nn_we", "nn_addr", "rd_we", "base_we") else f"0x{value:08x}"
