"""Structs, enumerations and constants shared by Python and the compiled models, and their C++ header.

Structs are numpy dtypes; the header declares the same fields in the same order and asserts the same size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag, auto

import numpy as np

from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa import cluster, machine
from xpulpnn.isa.insn import InsnClass
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.reference.programs.exits import MOST_STEPS, MOST_TRAPS
from xpulpnn_sim.reference.programs.retirements import GRANT, RETIREMENT
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS


class Event(IntFlag):
    CYCLE_LIMIT = auto()
    RECORDS_FULL = auto()
    TOHOST = auto()
    BAD_ACCESS = auto()
    BAD_FETCH = auto()
    TRAP_LOOP = auto()
    ENDLESS_LOOP = auto()
    STUCK = auto()
    WRONG_REDIRECT = auto()
    STREAM_DONE = auto()
    BAD_TRANSFER = auto()  # access of a DMA engine outside the memory
    # protocol errors, only checked without cluster
    LOST_REQUEST = auto()  # request dropped before it was granted
    EARLY_SLEEP = auto()  # core_sleep with a pending request or response
    WRONG_WAKE = auto()  # core_sleep despite a pending interrupt that is taken next or right after the wake-up
    MANY_FETCHES = auto()  # fetch request while four are outstanding
    LOST_RESULT = auto()  # the core does not write the result of a coprocessor, or gave it an old operand
    DEBUGGER_CAME = auto()
    DEBUGGER_LEFT = auto()
    DEBUGGER_RESTS = auto()  # all harts are halted, and the debugger is idle


OUTSIDE = Event.BAD_ACCESS | Event.BAD_FETCH
"""Events after which a reference cannot execute the last instruction of the hart."""


class DeviceWait(IntEnum):
    """Causes of waits in a cluster that the port of a core by itself reports as GRANT or RESPONSE. The numbers continue
    after those of :class:`~xpulpnn.isa.retirement.WaitCause`."""

    BANK_CONFLICT = len(WaitCause)
    BARRIER = auto()
    EVENT = auto()  # event unit without barriers: events, mutexes, dispatch
    PERIPHERAL = auto()  # other registers inside the cluster
    EXTERNAL = auto()  # memory outside the cluster


DEVICE_ACCESS = 64
"""In a log of grants, the number that stands for accesses of hart 0 to devices; those of the other harts follow. Such
accesses are logged when they are answered, with the cycle of the grant."""

LINE_EVENT = 128
"""In a log of grants, the number that stands for event lines of the DMA engine that are high in a cycle; the next
numbers stand for lines of DMA interrupts and of timers. ``address`` holds the lines."""

WAITED = "halt"
"""Record field with a bit for each :class:`WaitCause` that occurred since the previous retirement. It replaces the
field ``halt``, which no core sets."""

BEHIND_TRANSFER = len(WaitCause)  # Column of WAITS after those of :class:`WaitCause`

WAITS = np.dtype((np.uint32, BEHIND_TRANSFER + 1))
"""Number of cycles without a retirement from reset to a retirement, by cause; NONE counts cycles with core_sleep. FETCH
does not include waits after a cause that refills the pipeline. Waits for the fetch after an instruction that is not
followed by the next one in memory count in the column BEHIND_TRANSFER."""

STALLS: Sequence[WaitCause | DeviceWait] = (*WaitCause, *DeviceWait)  # columns of an account

_REFILLS = (WaitCause.JUMP, WaitCause.BRANCH, WaitCause.TRAP, WaitCause.LOOP, WaitCause.SYNC, WaitCause.DEBUG)
"""Causes of waits after which the pipeline fetches from another address."""

_CHARGED_BEFORE = (WaitCause.JUMP, WaitCause.BRANCH, WaitCause.TRAP, WaitCause.LOOP, WaitCause.CSR)
"""Causes of waits that are counted for the instruction before the wait."""


def _dtype(wide: str, words: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.uint64) for name in wide.split()] + [(name, np.uint32) for name in words.split()])


SETTINGS = _dtype(
    "dump_from dump_to",
    "grant_stall response_latency fetch_grant_stall fetch_latency irq_rate seed boot_addr hart_id tohost "
    "collect watchdog sparse dump_instructions data_latency bank_hash tcdm_bytes "
    "halt_rate debug_halt_addr debug_exception_addr jtag held reset_after clint unused",
)
"""Parameters of a run. Probabilities are in units of 2**-32. ``collect``: record retirements and grants; ``sparse``:
addresses outside every window are memory too, initially 0; ``dump_*``: cycles or instructions in the waveform;
``data_latency``: fewest cycles of a response, to which up to ``response_latency`` - 1 are added at random;
``bank_hash``, ``tcdm_bytes``: of a cluster; ``reset_after``: cycles until the design is reset and
starts again; ``clint``: address of a CLINT beside the core or in the cluster, or 0."""

STATUS = _dtype(
    "cycles accepted first_offered position", "events hart value grants expected got transfer transfer_writes"
)
"""State of a run: cycles since reset; number of instructions accepted from the stream, and the cycle in which the first
one was offered; last events and the hart of the last event; word written to tohost; number of recorded grants; position
and next pc of a wrong redirect; address of a transfer outside the memory, and whether it writes."""

HART_STATUS = _dtype(
    "retired interrupts bad_since last_cycle",
    "pc previous_pc next_pc cause address write mask records lines trap_from trap_jump trap_pc trap_cause resting "
    "wait_cause wait_address jumped trap_address",
)
"""State of a hart: pc of the last, the previous and the next instruction; cause of the last retirement if it trapped;
access outside memory; number of records in the buffer; interrupt lines; the instruction before
the last exception, the last jump to a register before it, its address and cause (0: none yet); the
event that stops the hart, or 0; the cause of the last wait, and the address if the hart waits for a response;
the last jump to a register; the data address of the last exception."""

ACTIVITY = _dtype("first last", "read written")
"""A burst of a DMA engine from or to external memory: cycles of the first and the last grant, bytes read and
written."""

WINDOW = _dtype("place", "base size")
"""A range of memory; ``place`` is the address of its content on the host, or 0 if accesses cause bus errors."""

INTERRUPT = _dtype("cycle", "line unused")
"""An interrupt line of hart 0 and the cycle in which it rises; line IRQ_LINES is the halt request."""

STREAM_INSN = _dtype("", "word pc insn_class")
"""An instruction of a stream; ``insn_class`` is its class if it is a branch or jump, else 0."""

POKE = _dtype("position", "address word")
"""A word written to memory just before the stream position ``position`` executes."""


@dataclass(frozen=True, slots=True)
class PortKind:
    name: str  # prefix of its structs in C++
    seen: Sequence[str]  # fields that the driver samples at a clock edge
    driven: Sequence[str]  # fields that it drives in the next cycle


_OBI_DRIVEN = ("gnt", "rvalid", "err", "rdata", "rdata_high")
FETCH = PortKind("fetch", ("req", "addr"), _OBI_DRIVEN)
DATA = PortKind("data", ("req", "addr", "we", "be", "wdata", "hart"), _OBI_DRIVEN)
STREAM = PortKind("stream", ("ready", "jump", "jump_target", "branch", "branch_target"), ("valid", "word", "pc"))
DEBUG_DRIVEN = ("debug_req", "debug_halt_addr", "debug_exception_addr")
HART = PortKind(
    "hart",
    ("irq_ack", "irq_id", "core_sleep", "debug_mode", "lost"),
    ("irq", "boot_addr", "hart_id", "fetch_enable", *DEBUG_DRIVEN),
)
_RETIRE_SEEN = (
    *("valid", "wait", "trap", "intr", "cause", "pc_rdata", "pc_wdata", "insn"),
    *("mem_addr", "mem_rmask", "mem_wmask"),
)
RETIRE = PortKind("retire", _RETIRE_SEEN, ())
BANK = PortKind("bank", ("req", "we", "be", "addr", "wdata", "master", "sharers"), ("rdata",))
DMA = PortKind("dma", ("req", "addr", "we", "be", "wdata", "wdata_high"), _OBI_DRIVEN)
REFILL = PortKind("refill", ("req", "addr"), _OBI_DRIVEN)
LINES = PortKind("lines", ("dma", "dma_interrupt", "timer", "timer_armed"), ())
"""Sources of event lines inside a cluster: DMA lines with a bit for each core, timer lines with a bit for each
timer."""

JTAG = PortKind("jtag", ("tdo", "debug_req"), ("tck", "tms", "tdi", "trst"))
"""A test access port and the halt request of the debug module. Its inputs may change between clock edges."""

KINDS = (FETCH, DATA, STREAM, HART, RETIRE, BANK, DMA, REFILL, LINES, JTAG)  # in the order of the C++ structs

_STRUCTS = {
    "Retirement": RETIREMENT,
    "Settings": SETTINGS,
    "Status": STATUS,
    "HartStatus": HART_STATUS,
    "Grant": GRANT,
    "Activity": ACTIVITY,
    "Window": WINDOW,
    "Interrupt": INTERRUPT,
    "StreamInsn": STREAM_INSN,
    "Poke": POKE,
}
_ENUMS = (Event, WaitCause, DeviceWait)
_CONSTANTS = {
    "JUMP_INSN": InsnClass.JUMP,
    "BRANCH_INSN": InsnClass.BRANCH,
    "MOST_STEPS": MOST_STEPS,
    "MOST_TRAPS": MOST_TRAPS,
    "WAIT_CAUSES": len(WaitCause),
    "BEHIND_TRANSFER": BEHIND_TRANSFER,
    "STALLS": len(STALLS),
    "DEVICE_ACCESS": DEVICE_ACCESS,
    "LINE_EVENT": LINE_EVENT,
    "CHARGED_BEFORE": sum(1 << cause for cause in _CHARGED_BEFORE),
    "REFILLS": sum(1 << cause for cause in _REFILLS),
    "INSN_BYTES": machine.WORD_BYTES,
    "IRQ_LINES": machine.IRQ_LINES,
    **{f"CLINT_{register.name}": register.value for register in machine.Clint},
    **{f"LINE_{line.name}": line.value for line in machine.Interrupt},
    "RECORD_WORDS": len(WORD_FIELDS),
    **{
        name: getattr(cluster, name)
        for name in (
            *("TCDM_BASE", "TCDM_ALIAS", "TEST_SET_BIT", "CONTROL", "TIMER", "EVENT_UNIT"),
            *("PRIVATE_EVENT_UNIT", "DMA", "PRIVATE_DMA", "ICACHE_CONTROL", "BLOCK_BYTES"),
        )
    },
    "TCDM_SPACE": TCDM_SPACE,
    "CLINT_SPACE": machine.CLINT_SPACE,
    "PRIVATE_BARRIERS": cluster.EventRegister.BARRIER,
}
_TYPES = {8: "uint64_t", 4: "uint32_t", 1: "uint8_t"}


def _struct(name: str, dtype: np.dtype[np.void]) -> str:
    members = "".join(f"    {_TYPES[kind.itemsize]} {field};\n" for field, (kind, *_) in (dtype.fields or {}).items())
    return f"struct {name} {{\n{members}}};\nstatic_assert(sizeof({name}) == {dtype.itemsize});\n"


def _ports(counts: Mapping[str, int]) -> Iterator[str]:
    for kind in KINDS:
        for direction, fields in (("Out", kind.seen), ("In", kind.driven)):
            if fields:
                yield f"struct {kind.name.capitalize()}{direction} {{ uint32_t {', '.join(fields)}; }};\n"
    for name, direction in (("Observed", "Out"), ("Driven", "In")):
        members = [
            f"    {kind.name.capitalize()}{direction} {kind.name}[{max(counts[kind.name], 1)}];\n"
            for kind in KINDS
            if (kind.seen if direction == "Out" else kind.driven)
        ]
        extra = "" if direction == "Out" else "    uint32_t collect;\n"
        yield f"struct {name} {{\n{''.join(members)}{extra}}};\n"


def cpp_header(counts: Mapping[str, int], *, both_edges: bool) -> str:
    constants = _CONSTANTS | {
        "FETCH_PORTS": counts["fetch"],
        "DATA_PORTS": counts["data"],
        "STREAMS": counts["stream"],
        "HARTS": counts["retire"],
        "BANKS": counts["bank"],
        "DMA_PORTS": counts["dma"],
        "REFILL_PORTS": counts["refill"],
        "LINE_PORTS": counts["lines"],
        "JTAG_PORTS": counts["jtag"],
        "BOTH_EDGES": int(both_edges),
    }
    lines = [f"constexpr uint32_t {name} = {value}u;\n" for name, value in constants.items()]
    lines.append(f"constexpr uint32_t USABLE_LINES[] = {{{', '.join(map(str, sorted(machine.IRQ_PRIORITY)))}}};\n")
    enums = [
        f"enum {enum.__name__} : uint32_t {{ {', '.join(f'{member.name} = {member.value}' for member in enum)} }};\n"
        for enum in _ENUMS
    ]
    structs = [_struct(name, dtype) for name, dtype in _STRUCTS.items()]
    body = "\n".join(["".join(lines), "".join(enums), *structs, *_ports(counts)])
    return (
        "// Generated by xpulpnn_sim.cosimulation.model.schema.\n#pragma once\n#include <cstdint>\n\n"
        f"namespace harness {{\n\n{body}\n}}  // namespace harness\n"
    )
