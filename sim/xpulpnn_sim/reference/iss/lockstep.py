"""Lock step of a design with the simulator: compares every retirement and reports the first difference."""

import ctypes
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CLUSTER_EVENTS, CSR_BY_NAME, PERFORMANCE_EVENTS, TRIGGER_STATE
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import ADDRESS_SPACE
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn_sim.reference.golden.dotp import unpack
from xpulpnn_sim.reference.iss.clint import ClintMemory
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.library import COMPARED, RAISED, Follower, Walk, library
from xpulpnn_sim.reference.iss.memory import AccessError, Memory
from xpulpnn_sim.reference.iss.session import HostChannel, loaded_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window
from xpulpnn_sim.reference.programs.exits import DifferenceError, place
from xpulpnn_sim.reference.programs.retirements import GRANT, RETIREMENT, Records
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS, decode, decoder_of, digits_of, line_of, text_of
from xpulpnn_sw.assembly.disasm import ABI_NAMES

Record = tuple[int, ...]

HISTORY = 8  # retirements shown before the one that differs

_TIMED_EVENTS = [
    f"pccr{event}"
    for event, name in enumerate(PERFORMANCE_EVENTS)
    if name == "cycles" or name.endswith("_stalls") or name in CLUSTER_EVENTS
]
TIMED_CSRS = ("mcycle", "mcycleh", "cycle", "cycleh", "mip", *_TIMED_EVENTS, *TRIGGER_STATE)
"""CSRs whose value depends on time or on a debugger, so that it is taken from the design. For counters there is a
separate check against retirements and waits."""

_NAMES = RETIREMENT.names or ()
_ADDRESS = _NAMES.index("mem_addr")
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

_OPERANDS = ("rs1_rdata", "rs2_rdata", "rd_rdata", "nn_act_rdata", "nn_wgt_rdata", "mem_rdata")
_FLAGS = ("trap", "intr", "nn_we", "nn_addr", "rd_we", "base_we", "bus_req", "bus_we")  # shown in decimal


class Followers:
    """Simulated harts that share a memory and are stepped by the records of a design. An instruction takes effect when
    the bus grants its access, the second one if there are two."""

    def __init__(self, harts: Sequence["Lockstep"]) -> None:
        self.harts = tuple(harts)
        structures = [hart.iss.state for hart in harts], [hart.follower for hart in harts]
        self._structures = [_pointers(map(ctypes.addressof, kind)) for kind in structures]
        self._walk = Walk(*map(ctypes.addressof, self._structures), hart_count=len(harts))
        self._held = [np.zeros(0, RETIREMENT) for _ in harts]  # records whose accesses have not been granted
        self.grants: NDArray[Any] = np.zeros(0, GRANT)  # accesses that no record has made yet

    def follow(
        self, blocks: Sequence[Records], grants: NDArray[Any] | None = None, lines: Any = None, *, last: bool = False
    ) -> DifferenceError | None:
        """Compare the next records of each hart, and ``grants``, their accesses of the bus. Returns the first
        difference, after which nothing can be compared. ``lines`` are the interrupt lines at the records of a single
        hart; accesses that belong to no record of the ``last`` blocks are made."""
        walk, held = self._walk, self._held
        records = [np.ascontiguousarray(block, RETIREMENT) for block in blocks]
        levels = None if lines is None else np.ascontiguousarray(lines, np.uint32)
        pointers = [_pointers(part.ctypes.data for part in parts) for parts in (held, records)]
        walk.held, walk.records = map(ctypes.addressof, pointers)
        walk.lines, walk.at_end = None if levels is None else levels.ctypes.data, last
        if grants is not None:
            self.grants = np.concatenate([self.grants, grants])
            walk.grants, walk.grant_count = self.grants.ctypes.data, len(self.grants)
        for hart, (left, new) in enumerate(zip(held, records, strict=True)):
            walk.held_counts[hart], walk.counts[hart], walk.done[hart] = len(left), len(left) + len(new), 0
        self.grants = self.grants[library().walk(ctypes.byref(walk)) :]
        self._held = []
        for hart, left, new, done in zip(self.harts, held, records, walk.done, strict=False):
            split = max(done - len(left), 0)
            hart.keep(left[:done])
            hart.keep(new[:split])
            self._held.append(np.concatenate([left[done:], new[split:]]))
        failed = walk.failed
        return self.harts[failed].difference(self._held[failed][0].item()) if failed < len(self.harts) else None

    def finish(self) -> DifferenceError | None:
        """Make the accesses that belong to no record, and compare what remains."""
        return self.follow([np.zeros(0, RETIREMENT) for _ in self.harts], np.zeros(0, GRANT), last=True)


def _pointers(addresses: Iterable[int]) -> Any:
    listed = [*addresses]
    return (ctypes.c_void_p * len(listed))(*listed)


class Lockstep(Followers):
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
        self._name_of = executable.symbol_at
        self._who = who
        self._decoder = decoder_of(config)
        # the output of the program is shown by the run of the design
        if stream is None:
            self._channel = HostChannel(executable, (self.iss,))
        else:
            self.iss.fetch = stream.__getitem__
        # another core may expand hints to other fields
        unread = ("rs1_addr", "rs2_addr") if free else ("pc_wdata",) if stream else ()
        self.follower = Follower(unread=sum(1 << WORD_FIELDS.index(name) for name in unread), streams=bool(stream))
        for name in (*TIMED_CSRS, *free):
            self.follower.free[CSR_BY_NAME[name].address] = 1
        self._history: deque[Records] = deque(maxlen=HISTORY)  # the last records, in blocks
        super().__init__((self,))

    def compare(self, records: Records, lines: Any = None, grants: Any = None) -> DifferenceError | None:
        return self.follow([records], grants, lines)

    def keep(self, records: Records) -> None:
        """Count a block of records without a difference, and keep the last ones for reports."""
        self._history.extend([records[-HISTORY:].copy()] if len(records) else [])
        self.compared += len(records)

    def difference(self, record: Record) -> DifferenceError:
        """Return the difference of the record that was not followed; raise the exception in an access instead."""
        error = self.iss.memory.raised
        if self.iss.status == RAISED and isinstance(error, AccessError):
            return self.differs(record, "mem_addr", error.address, record[_ADDRESS], f"{error.kind} outside memory")
        if self.iss.status == RAISED:
            raise error
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
            f"  operands: {'  '.join(f'{name}=0x{values[name]:08x}' for name in _OPERANDS)}",
            *_lanes_of_factors(values),
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


def _lanes_of_factors(record: dict[str, int]) -> list[str]:
    insn = decode(record["insn"])
    if insn is None or insn.fmt is None or not insn.uses_dotp:
        return []
    first, second = "wgt" if insn.is_mac_load else "rs1", "act" if insn.is_nn_form or insn.is_pair else "rs2"
    words = [(name, record.get(f"{name}_rdata", record.get(f"nn_{name}_rdata", 0))) for name in (first, second)]
    signs = zip(words, (insn.a_signed, insn.b_signed), strict=True)
    return [f"  {name} lanes {_lanes(word, insn, signed=signed)}" for (name, word), signed in signs]


def _shown(name: str, value: int) -> str:
    if name in ("rd_addr", "base_addr", "rs1_addr", "rs2_addr"):
        return ABI_NAMES[value] if value else "none"  # nothing names x0
    return str(value) if name in _FLAGS else f"0x{value:08x}"
