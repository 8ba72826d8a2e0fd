"""Checks the counter values that programs read against retirements and the causes of waits.

Events that retirements show are counted from the retirements, cycles from the cycle of the reading instruction. A stall
is a cycle in which ID issues no instruction and so makes a bubble. The bubble is reported as a wait of the same name,
or, while an older instruction stalls, as a wait with the cause of that older stall. Stall counters are therefore
checked against a least and a greatest value, which are equal if no older instruction stalls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa import csr as isa
from xpulpnn.isa.csr import CLUSTER_EVENTS, CSR_BY_ADDRESS, CSR_BY_NAME, PERFORMANCE_EVENTS, CsrGroup, csr_address
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN, ExceptionCause
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.checks.retirements import Checker
from xpulpnn_sim.cosimulation.model.model import U32, Block
from xpulpnn_sim.cosimulation.model.schema import BEHIND_TRANSFER
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute
from xpulpnn_sim.reference.iss.fetched import decoding
from xpulpnn_sim.reference.programs import trace
from xpulpnn_sim.reference.programs.exits import DifferenceError, NameOf, place
from xpulpnn_sim.reference.programs.retirements import Records

Sums = dict[str, NDArray[np.int64]]
"""For each event the number of times it has happened before each retirement of a block and after the last one."""

_OPCODE, _SYSTEM, _FUNCT3, _WRITES, _SETS, _CLEARS = 0x7F, 0x73, 12, 1, 2, 3
_CSR, _RS1, _FIELD, _IMMEDIATE = 20, 15, 31, 1 << 14
_MACHINE = ("mcycle", "minstret")
_COUNTERS = {f"pccr{number}": event for number, event in enumerate(PERFORMANCE_EVENTS)}
_PARTS = {
    f"{mode}{name.removeprefix('m')}{half}": (name, bool(half))
    for name in _MACHINE
    for mode in ("m", "")
    for half in ("", "h")
}
"""For each CSR of a machine counter the name of the counter, and whether the CSR is its upper half."""
_CONTROL = ("mcountinhibit", "pcer", "pcmr", "pccrall")
_WATCHED = np.zeros(1 << 12, np.bool_)
_WATCHED[[csr_address(name) for name in (*_PARTS, *_COUNTERS, *_CONTROL)]] = True

_BLOCKED = (WaitCause.RESPONSE, WaitCause.GRANT, WaitCause.MISALIGNED, WaitCause.MULTICYCLE)
_KEPT = (*_BLOCKED, WaitCause.CSR, WaitCause.TRAP, WaitCause.LOOP, WaitCause.SYNC)
_LATE = (WaitCause.LOAD_USE, WaitCause.MAC_LOAD)
_STALLS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "load_use_stalls": (_LATE, _KEPT),
    "jump_register_stalls": ((WaitCause.JUMP_REGISTER,), (*_LATE, *_KEPT)),
    "fetch_stalls": (
        (WaitCause.FETCH,),
        (*_BLOCKED, WaitCause.TRAP, WaitCause.LOOP, WaitCause.SYNC, WaitCause.SLEEP, BEHIND_TRANSFER),
    ),
}
"""For each stall counter the causes of waits that it counts, and the causes that may conceal such a stall."""

_FAULTS = (ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT)
_DROPPED = {"loads": 3, "stores": 3, "compressed": 2, "instructions": 1, "jumps": 1}
"""Greatest number of events that an access fault and the next instruction, which is dropped, may have counted."""


@dataclass(slots=True)
class _Counter:
    """Bounds of the value of a counter, which lies between ``least`` and ``most``, modulo 2**``bits``."""

    name: str
    bits: int
    least: int = 0
    most: int = 0
    counts: bool = False
    known: bool = True  # False: it may hold any value
    seen: tuple[int, int] = (0, 0)  # least and greatest sum of its events that are counted already

    def move(self, sums: tuple[int, int], *, saturates: bool = False) -> None:
        if self.counts:
            self.least += sums[0] - self.seen[0]
            self.most += sums[1] - self.seen[1]
        self.seen = sums
        if saturates:
            self.least, self.most = (min(bound, (1 << self.bits) - 1) for bound in (self.least, self.most))
        elif self.least >> self.bits:
            self.most -= self.least >> self.bits << self.bits
            self.least &= (1 << self.bits) - 1

    def forget(self) -> None:
        self.known = False

    def set(self, value: int) -> None:
        self.least = self.most = value
        self.known = True


class _Hart:
    def __init__(self, config: CoreConfig, *, in_cluster: bool) -> None:
        self._in_cluster, self._performance = in_cluster, CsrGroup.PERFORMANCE in config.csr_groups
        self._decode = decoding(config.extensions, config.widths)
        self._machine = {name: _Counter(name, 2 * XLEN, counts=True) for name in _MACHINE}
        self._counters = {name: _Counter(name, XLEN) for name in _COUNTERS if self._performance}
        self._control = {name: CSR_BY_NAME[name].reset for name in ("mcountinhibit", "pcer", "pcmr")}
        self._done: dict[str, tuple[int, int]] = {}
        self._debugged = 0
        self._waited: dict[WaitCause, int] = {}

    def follow(self, records: Records, waits: U32) -> tuple[int, str, int, int] | None:
        """Check the next block. Returns the position, register and bounds of the first wrong value, or None."""
        words = records["insn"]
        is_access = (words & _OPCODE == _SYSTEM) & (words >> _FUNCT3 & 3 != 0) & (records["trap"] == 0)
        places = np.flatnonzero(is_access & _WATCHED[words >> _CSR])
        least, most = self._sums(records, waits)
        for at in places.tolist():
            if (halted := int(waits[at, WaitCause.DEBUG])) != self._debugged:
                # a debugger may have changed the counters since the last access
                for counter in (*self._machine.values(), *self._counters.values()):
                    counter.forget()
                self._debugged = halted
            wrong = self._access(records[at], at, least, most)
            if wrong is not None:
                return at, *wrong
        self._done = {name: (int(least[name][-1]), int(most[name][-1])) for name in least}
        return None

    def _sums(self, records: Records, waits: U32) -> tuple[Sums, Sums]:
        trapped = records["trap"] != 0
        happened: dict[str, NDArray[np.int64]] = {"retired": (~trapped).astype(np.int64)}
        if self._performance:
            happened |= self._events(records, waits, trapped)
        least = {name: self._added(name, each, 0) for name, each in happened.items()}
        most = {**least}
        # a reader is in EX in the cycle before it retires, and the count was 0 in the first cycle after reset
        most["cycles"] = self._padded(records["cycle"].astype(np.int64) - 2) - self._padded(waits[:, WaitCause.NONE])
        asleep = self._padded(waits[:, WaitCause.SLEEP]) if self._in_cluster else 0
        least["cycles"] = most["cycles"] - asleep
        if not self._performance:
            return least, most
        faulted = trapped & np.isin(records["cause"], _FAULTS)
        for name, number in _DROPPED.items():
            dropped = faulted.astype(np.int64) * number
            if name == "loads":
                dropped += faulted * happened["thresholds"]
            most[name] = self._added(name, happened[name] + dropped, 1)
        stalled = waits.astype(np.int64)
        for name, (surely, perhaps) in _STALLS.items():
            least[name] = self._padded(stalled[:, list(surely)].sum(axis=1))
            most[name] = least[name] + self._padded(stalled[:, list(perhaps)].sum(axis=1))
        # ID may be empty in the cycle in which a branch leaves EX, the first of two waits at least
        most["fetch_stalls"] += self._padded((stalled[:, WaitCause.BRANCH] + 1) // 2)
        # a load beside a computation is in WB, and answered by the second cycle
        computed = np.maximum(self._waits_of(stalled, WaitCause.MULTICYCLE) - 1, 0)
        least["computed"] = most["computed"] = self._added("computed", computed, 0)
        most["load_use_stalls"] -= least["computed"]
        waiting = happened["elw_stalls"] * self._waits_of(stalled, WaitCause.RESPONSE)
        crosses = records["mem_addr"] % WORD_BYTES != 0
        least["elw_stalls"] = self._added("elw_stalls", waiting * ~(crosses | trapped), 0)
        # the cycle of a fault is a wait for the trap
        most["elw_stalls"] = self._added("elw_stalls", waiting + happened["elw_stalls"] * faulted, 1)
        return least, most

    def _waits_of(self, sums: NDArray[np.int64], cause: WaitCause) -> NDArray[np.int64]:
        each = np.diff(sums[:, cause], prepend=self._waited.get(cause, 0))
        self._waited[cause] = self._waited.get(cause, 0) + int(each.sum())
        return each

    def _added(self, name: str, each: NDArray[np.int64], side: int) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(each)]) + self._done.get(name, (0, 0))[side]

    @staticmethod
    def _padded(sums: NDArray[Any]) -> NDArray[np.int64]:
        """Repeat the last sum, so that the array has one entry more than there are retirements, as all sums have."""
        return np.concatenate([sums, sums[-1:]]).astype(np.int64)

    def _events(self, records: Records, waits: U32, trapped: NDArray[np.bool_]) -> dict[str, NDArray[np.int64]]:
        words, which = np.unique(records["insn"], return_inverse=True)
        decoded = [self._decode(int(word)) for word in words]

        def of_words(values: Sequence[int]) -> NDArray[np.int64]:
            return np.array(values, np.int64)[which]

        def flags(values: Sequence[int]) -> NDArray[np.int64]:
            return of_words(values) * ~trapped

        def accesses(mask: str) -> NDArray[np.int64]:
            size = np.bitwise_count(records[mask]).astype(np.int64)
            return (size > 0).astype(np.int64) + (records["mem_addr"] % WORD_BYTES + size > WORD_BYTES)

        quantised = [fetched.insn.fmt if fetched and fetched.insn.op == "pv.qnt" else None for fetched in decoded]
        thresholds = of_words([2 * fmt.width if fmt else 0 for fmt in quantised])
        branches = flags([fetched is not None and fetched.insn.is_branch for fetched in decoded])
        taken = np.zeros(len(records), np.int64)
        for number in np.unique(which[branches > 0]).tolist():
            fetched, positions = decoded[number], np.flatnonzero((which == number) & (branches > 0))
            assert fetched is not None
            first, second = (records[f"{name}_rdata"][positions] for name in ("rs1", "rs2"))
            sources = Sources(word=np.full(len(positions), fetched.word, np.uint32), rs1=first, rs2=second)
            decided = execute(fetched.insn, sources).taken
            assert decided is not None
            taken[positions] = decided
        return {
            "instructions": (~trapped).astype(np.int64),
            "loads": np.where(thresholds > 0, thresholds, accesses("mem_rmask")) * ~trapped,
            "stores": accesses("mem_wmask") * ~trapped,
            "jumps": flags([fetched is not None and fetched.insn.is_jump for fetched in decoded]),
            "branches": branches,
            "taken_branches": taken,
            "compressed": flags([fetched is not None and fetched.length < WORD_BYTES for fetched in decoded]),
            "thresholds": thresholds,
            "elw_stalls": of_words([fetched is not None and fetched.insn.mnemonic == "p.elw" for fetched in decoded]),
            **dict.fromkeys(CLUSTER_EVENTS, np.zeros(len(records), np.int64)),
        }

    def _access(self, record: Records, at: int, least: Sums, most: Sums) -> tuple[str, int, int] | None:
        word = int(record["insn"])
        name, funct3, source = CSR_BY_ADDRESS[word >> _CSR].name, word >> _FUNCT3 & 3, word >> _RS1 & _FIELD
        read = int(record["rd_wdata"]) if record["rd_we"] and record["rd_addr"] else None
        operand = source if word & _IMMEDIATE else int(record["rs1_rdata"])
        writes = funct3 == _WRITES or source != 0

        def sums(counter: _Counter, *, offset: int) -> tuple[int, int]:
            # after a retirement its own events and cycle are counted; its waits are counted before it
            event = _COUNTERS.get(counter.name, "retired" if counter.name == "minstret" else "cycles")
            place, more = (at, offset) if event == "cycles" else (at + (offset and event not in _STALLS), 0)
            return int(least[event][place]) + more, int(most[event][place]) + more

        def move(counter: _Counter, *, offset: int) -> None:
            counter.move(sums(counter, offset=offset), saturates=self._saturates and counter.bits == XLEN)

        if name not in _PARTS and name not in self._counters:
            if writes:
                for each in (*self._counters.values(), *self._machine.values()):
                    move(each, offset=1)
                self._write_control(name, _written(funct3, self._control.get(name, 0), operand) or 0)
            return None
        part, high = _PARTS.get(name, (name, False))
        counter, old = (self._machine | self._counters)[part], read
        move(counter, offset=0)
        if not (self._in_cluster and _COUNTERS.get(name) in CLUSTER_EVENTS):
            wrong = _read(counter, read, high=high)
            if wrong is not None:
                return name, *wrong
        if writes:
            if old is None and counter.known and counter.least == counter.most:
                old = counter.least >> XLEN * high & WORD_MASK
            # the write wins over an event in its cycle
            _write(counter, _written(funct3, old, operand), high=high)
            counter.seen = sums(counter, offset=1)
            if _COUNTERS.get(name) == "fetch_stalls":
                # a stall in the cycle of the write is not counted, but reported as a wait
                counter.least -= 1
        return None

    @property
    def _saturates(self) -> bool:
        return bool(self._control["pcmr"] & isa.PCMR_SATURATES)

    def _write_control(self, name: str, value: int) -> None:
        if name == "pccrall":
            for counter in self._counters.values():
                counter.set(value)
                counter.least -= _COUNTERS[counter.name] == "fetch_stalls"
            return
        if not self._performance and name != "mcountinhibit":
            return
        wrapped = not self._saturates
        self._control[name] = value & CSR_BY_NAME[name].writable
        for counter in self._machine.values():
            counter.counts = not self._control["mcountinhibit"] & isa.INHIBIT[counter.name]
        enabled = self._control["pcer"] if self._control["pcmr"] & isa.PCMR_COUNTS else 0
        for number, counter in enumerate(self._counters.values()):
            before, counter.counts = counter.counts, bool(enabled >> number & 1)
            if _COUNTERS[counter.name] in _STALLS and before != counter.counts:
                # a stall in the cycle of the write is reported behind it
                counter.most += before
                counter.least -= counter.counts
            if wrapped and self._saturates and counter.most >> counter.bits:
                # it may or may not have wrapped before it was set to saturate
                counter.forget()


def _written(funct3: int, old: int | None, operand: int) -> int | None:
    if funct3 == _WRITES:
        return operand
    if old is None:
        return None
    return old | operand if funct3 == _SETS else old & ~operand


def _read(counter: _Counter, read: int | None, *, high: bool) -> tuple[int, int] | None:
    """Return the bounds if the value read violates them; otherwise set the counter to a value that is not a high
    half."""
    if read is None or not (counter.known or counter.bits == XLEN):
        return None
    least, most = counter.least, counter.most
    if high:
        upper = (read - (least >> XLEN)) % (1 << XLEN) <= (most >> XLEN) - (least >> XLEN)
        return None if upper else (least >> XLEN, most >> XLEN)
    value = least + (read - least) % (1 << XLEN)
    if counter.known and value > most:
        return least & WORD_MASK, most & WORD_MASK
    counter.set(value % (1 << counter.bits))
    return None


def _write(counter: _Counter, value: int | None, *, high: bool) -> None:
    if value is None or (counter.bits > XLEN and not (counter.known and counter.least == counter.most)):
        counter.forget()
    elif counter.bits == XLEN:
        counter.set(value)
    else:
        other_half = counter.least & WORD_MASK if high else counter.least & ~WORD_MASK
        counter.set(other_half | value << XLEN * high)


class CounterCheck(Checker):
    def __init__(self, config: CoreConfig, harts: int, name_of: NameOf, *, in_cluster: bool = False) -> None:
        # in a cluster records show neither when a core sleeps nor the events of the cluster
        self._name_of = name_of
        self._harts = [_Hart(config, in_cluster=in_cluster) for _ in range(harts)]

    def __call__(self, block: Block) -> None:
        for number, hart in enumerate(self._harts):
            records = block.records(number)
            wrong = hart.follow(records, block.waits(number)) if len(records) else None
            if wrong is not None:
                raise self._difference(number, records[wrong[0]], *wrong[1:])

    def _difference(self, number: int, record: Records, name: str, least: int, most: int) -> DifferenceError:
        order, cycle, pc = (int(record[field]) for field in ("order", "cycle", "pc_rdata"))
        raw, got = int(record["insn"]), int(record["rd_wdata"])
        who = f"hart {number}, " if len(self._harts) > 1 else ""
        expected = str(least % (1 << XLEN)) if least == most else f"{least % (1 << XLEN)} to {most % (1 << XLEN)}"
        event = f" ({_COUNTERS[name]})" if name in _COUNTERS else ""
        text = (
            f"difference at {who}retirement {order}, cycle {cycle}, pc {place(pc, self._name_of)}\n"
            f"  instruction: {trace.digits_of(raw)}  {trace.text_of(raw, pc)}\n"
            f"  {name}{event} must be {expected}, not {got}: counted from retirements and waits"
        )
        return DifferenceError(text, order, cycle, "rd_wdata", least, got)
