"""Lock step of a design with the simulator: compares every retirement and reports the first difference."""

import ctypes
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CLUSTER_EVENTS, CSR_BY_NAME, PERFORMANCE_EVENTS, TRIGGER_STATE
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import ADDRESS_SPACE, BYTE_BITS, WORD_BYTES
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn_sim.reference.golden.dotp import unpack
from xpulpnn_sim.reference.iss.clint import ClintMemory
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.library import COMPARED, RAISED, Follower, library
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sim.reference.iss.session import HostChannel, loaded_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window
from xpulpnn_sim.reference.programs.exits import DifferenceError, place
from xpulpnn_sim.reference.programs.retirements import GRANT, RETIREMENT, Records
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS, decode, decoder_of, digits_of, line_of, text_of
from xpulpnn_sw.assembly.disasm import ABI_NAMES

Record = tuple[int, ...]

HISTORY = 8  # retirements shown before the one that differs

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

_NAMES = RETIREMENT.names or ()
_WHYS = (
    "",
    "interrupts are disabled (mstatus.MIE = 0)",
    "interrupt {line} is not enabled (mie = 0x{mie:08x})",
    "no enabled interrupt line is high",
    "interrupt {urgent} is more urgent than {line}",
    "interrupt {line} has been pending and enabled for {waiting} retirements",
    "of the interrupt lines",
    "the bus has granted an access that the instruction does not make",
    "a test&set marks the bytes that it has read",
)
"""Explanations by number in the compiled simulator."""

_OPERANDS = {
    "rs1": "rs1_rdata",
    "rs2": "rs2_rdata",
    "rd": "rd_rdata",
    "act": "nn_act_rdata",
    "wgt": "nn_wgt_rdata",
    "loaded": "mem_rdata",
}


class Lockstep:
    """A simulated hart that is stepped by the records of a design. Values that depend on time (cycle counters, pending
    interrupts, the time of a CLINT) and the CSRs ``free`` of a core of somebody else are taken from the records.
    Interrupts are taken where the records show them, and must be allowed there. ``stream`` has the instructions by
    address if they come from a stream: then nothing may trap, and the next address is not compared."""

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
        stream: Mapping[int, int] | None = None,
    ) -> None:
        if memory is None:
            # accesses outside memory are detected by the design's memory
            memory = loaded_memory(executable, ((0, ADDRESS_SPACE),), errors, ClintMemory if clint else Memory)
        self.iss = Iss.of(config, executable.entry, hart_id=hart_id, memory=memory)
        self.compared = 0
        self.harts = (self,)
        self._name_of = executable.symbol_at
        self._who = who
        self._decoder = decoder_of(config)
        # the output of the program is shown by the run of the design
        if stream is None:
            self._channel = HostChannel(executable, memory, self.iss.halt, lambda printed: None)
        else:
            self.iss.fetch = stream.__getitem__
        # another core may expand hints to other fields
        unread = ("rs1_addr", "rs2_addr") if free else ("pc_wdata",) if stream else ()
        self.follower = Follower(unread=sum(1 << WORD_FIELDS.index(name) for name in unread), streams=bool(stream))
        for address in TIMED_CSRS | {CSR_BY_NAME[name].address for name in free}:
            self.follower.free[address] = 1
        self._history: deque[Records] = deque(maxlen=HISTORY)  # the last records, in blocks
        self.grants: NDArray[Any] = np.zeros(0, GRANT)  # accesses that no record has made yet

    def compare(
        self, records: Records, lines: Any = None, grants: NDArray[Any] | None = None
    ) -> DifferenceError | None:
        """Compare the next block of records, with ``grants`` its accesses of the bus too. Returns the first difference;
        nothing can be compared afterwards."""
        records, follower = np.ascontiguousarray(records, RETIREMENT), self.follower
        levels = None if lines is None else np.ascontiguousarray(lines, np.uint32)
        given = ctypes.c_void_p(records.ctypes.data), None if levels is None else ctypes.c_void_p(levels.ctypes.data)
        if grants is not None:
            self.grants = np.concatenate([self.grants, grants])
            follower.next = self.grants.ctypes.data
            follower.end = follower.next + self.grants.nbytes
        hart = ctypes.byref(self.iss.state)
        done = library().follow(hart, ctypes.byref(follower), *given, ctypes.c_uint64(len(records)))
        if grants is not None:
            self.grants = self.grants[len(self.grants) - (follower.end - follower.next) // GRANT.itemsize :]
        self.keep(records[:done])
        return None if done == len(records) else self.difference(records[done].item())

    def finish(self) -> None:
        """Make the accesses that belong to no record."""
        for grant in self.grants[self.grants["we"] != 0]:
            for byte in range(WORD_BYTES):
                if grant["be"] >> byte & 1:
                    self.iss.memory.write(int(grant["address"]) + byte, 1, int(grant["wdata"]) >> BYTE_BITS * byte)

    def keep(self, records: Records) -> None:
        """Count a block of records without a difference, and keep the last ones for reports."""
        self._history.extend([records[-HISTORY:].copy()] if len(records) else [])
        self.compared += len(records)

    def difference(self, record: Record) -> DifferenceError:
        """Return the difference of the record that was not followed; raise the exception in an access instead."""
        if self.iss.status == RAISED:
            raise self.iss.memory.raised
        found, csrs = self.follower, self.iss.csrs
        why, field = _WHYS[found.why], COMPARED[found.place]
        urgent = found.expected & CAUSE_CODE
        why = why.format(line=found.detail, mie=csrs["mie"], urgent=urgent, waiting=found.waiting)
        return self.differs(record, field, found.expected, found.got, why)

    def differs(self, record: Record, field: str, expected: int, got: int, why: str = "") -> DifferenceError:
        """Return the error for a record that differs in one field, or for an interrupt that is not taken."""
        values = dict(zip(_NAMES, record, strict=True))
        pc, order, cycle = values["pc_rdata"], values["order"], values["cycle"]
        address = f", address 0x{values['mem_addr']:08x}" if field.startswith(("mem_", "bus_")) else ""
        lines = [
            f"difference at {self._who}retirement {order}, cycle {cycle}, pc {place(pc, self._name_of)}",
            f"  instruction: {digits_of(values['insn'])}  {text_of(values['insn'], pc, self._decoder)}",
            f"  {field} must be {_shown(field, expected)}, not {_shown(field, got)}{address}{f': {why}' * bool(why)}",
            *(_lanes_of_result(values["insn"], expected, got) if field == "rd_wdata" else ()),
            f"  operands: {'  '.join(f'{name}=0x{values[name]:08x}' for name in _OPERANDS.values())}",
            *_lanes_of_factors(values["insn"], {name: values[operand] for name, operand in _OPERANDS.items()}),
        ]
        if field == "pc_rdata":
            lines.append(f"  expected instruction: {place(expected, self._name_of)}")
        lines.append("before it, and as the design reports it:")
        before = [tuple(each) for block in self._history for each in block.tolist()][-HISTORY:]
        lines += [f"  {line_of(dict(zip(_NAMES, each, strict=True)), self._decoder)}" for each in (*before, record)]
        return DifferenceError("\n".join(lines), order, cycle, field, expected, got)


def _lanes(word: int, insn: Insn, *, signed: bool) -> list[int]:
    return unpack(np.array([word], np.uint32), insn.elements, signed=signed)[:, 0].tolist()


def _lanes_of_result(raw: int, expected: int, got: int) -> list[str]:
    insn = decode(raw)
    if insn is None or insn.fmt is None or insn.uses_dotp or "extract" in insn.op:
        return []
    words = (("must be", expected), ("are", got))
    return [f"  {name} lanes {_lanes(word, insn, signed=False)}" for name, word in words]


def _lanes_of_factors(raw: int, operands: dict[str, int]) -> list[str]:
    insn = decode(raw)
    if insn is None or insn.fmt is None or not insn.uses_dotp:
        return []
    second = "act" if insn.is_nn_form or insn.is_pair else "rs2"
    names = "wgt" if insn.is_mac_load else "rs1", second
    signs = zip(names, (insn.a_signed, insn.b_signed), strict=True)
    return [f"  {name} lanes {_lanes(operands[name], insn, signed=signed)}" for name, signed in signs]


def _shown(name: str, value: int) -> str:
    if name in ("rd_addr", "base_addr", "rs1_addr", "rs2_addr"):
        return ABI_NAMES[value] if value else "none"  # nothing names x0
    return (
        str(value)
        if name in ("trap", "intr", "nn_we", "nn_addr", "rd_we", "base_we", "bus_req", "bus_we")
        else f"0x{value:08x}"
    )
