"""Lock step of a cluster with the simulator: compares retirements in the order in which the bus granted their
accesses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import CONTROL, NO_MASTER, TCDM_BASE, TEST_SET_BIT, hart_number
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.reference.iss.cluster_devices import ClusterMemory, canonical
from xpulpnn_sim.reference.iss.lockstep import Lockstep, Record
from xpulpnn_sim.reference.iss.memory import AccessError
from xpulpnn_sim.reference.iss.session import fill_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of, windows
from xpulpnn_sim.reference.programs.trace import RETIREMENT, Records

_NAMES = RETIREMENT.names or ()
_ADDRESS, _RDATA, _RMASK, _WMASK = (_NAMES.index(f"mem_{name}") for name in ("addr", "rdata", "rmask", "wmask"))
_TEST_SET = TCDM_BASE | 1 << TEST_SET_BIT


class OrderedMemory(ClusterMemory):
    """Memory of harts that execute one access after the other."""

    def apply(self, address: int, enables: int, value: int) -> None:
        """Apply a store of the bus to the enabled bytes of a word."""
        for byte in range(WORD_BYTES):
            if enables >> byte & 1:
                self.write(address + byte, 1, value >> BYTE_BITS * byte)

    def word_bytes(self, address: int) -> bytes:
        return self.read_bytes(canonical(address) & -WORD_BYTES, WORD_BYTES)

    def exchange(self, address: int, content: bytes) -> bytes:
        """Replace the bytes of an aligned word and return the old ones."""
        place = canonical(address) & -WORD_BYTES
        old = self.read_bytes(place, WORD_BYTES)
        self.write_bytes(place, content)
        return old


@dataclass(slots=True)
class _Half:
    """The word that the first of the two accesses of an instruction uses, before and after this access."""

    before: bytes
    after: bytes


class ClusterLockstep:
    """Simulated harts that share a memory and are stepped by the retirements of all cores of a cluster.

    An instruction with a memory access takes effect when the bus grants it. An access across two words takes effect
    with the grant of the second half, while its first half uses memory at the grant of the first half. Writes of DMA
    engine and host are taken from the bus, responses of peripherals from the retirements.
    """

    def __init__(
        self,
        executable: Executable,
        config: ClusterConfig,
        *,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
    ) -> None:
        self._recorded = 0  # response of a peripheral in the design; stores to peripherals have no effect here
        pieces = windows(executable, (*memory_of(config), *ram))
        self._memory = OrderedMemory(pieces, config, lambda *access: self._recorded * (access[2] is None), errors)
        self._memory.exact = True
        fill_memory(self._memory, executable)
        self.harts = tuple(
            Lockstep(executable, config.core, hart_id=hart_number(0, core), memory=self._memory, who=f"hart {core}, ")
            for core in range(config.cores)
        )
        self._halves: list[_Half | None] = [None] * config.cores
        self._records = [np.zeros(0, RETIREMENT) for _ in self.harts]
        self._grants: NDArray[Any] | None = None

    def compare(self, records: Sequence[Records], grants: NDArray[Any], *, last: bool = False) -> None:
        """Compare the next block. Raises :class:`DifferenceError`, after which nothing can be compared."""
        grants = grants[grants["hart"] <= NO_MASTER]
        self._grants = grants.copy() if self._grants is None else np.concatenate([self._grants, grants])
        self._records = [np.concatenate(pair) for pair in zip(self._records, records, strict=True)]
        owners, cycles = self._grants["hart"], self._grants["cycle"]
        own = [np.flatnonzero(owners == hart) for hart in range(len(self.harts))]
        # an access belongs to the first instruction that retires after its grant
        claims = [
            np.searchsorted(waiting["cycle"], cycles[at], side="right")
            for waiting, at in zip(self._records, own, strict=True)
        ]
        end = len(self._grants)
        if not last:
            for waiting, at, claimed in zip(self._records, own, claims, strict=True):
                end = min([end, *at[claimed == len(waiting)][:1].tolist()])
        self._walk(self._ordered(own, claims, end, last=last), end)
        self._grants = self._grants[end:]

    def _ordered(
        self, own: Sequence[NDArray[Any]], claims: Sequence[NDArray[Any]], end: int, *, last: bool
    ) -> list[tuple[int, int, int]]:
        """Return in order all actions before the access ``end`` of the log: hart, number of its retirement (-1 for an
        access without one), and number of the access."""
        parts: list[NDArray[np.int64]] = []
        others = np.ones(end, np.bool_)
        for hart, (at, claimed) in enumerate(zip(own, claims, strict=True)):
            count = len(self._records[hart])
            belongs = claimed < count
            last_access = np.full(count, -1)
            last_access[claimed[belongs]] = at[belongs]
            first_half = np.zeros(len(at), np.bool_)
            first_half[:-1] = (claimed[:-1] == claimed[1:]) & belongs[:-1]
            others[at[belongs & (at < end)]] = False
            halves = at[first_half & (at < end)]
            effective = np.maximum.accumulate(last_access)
            position = np.flatnonzero(effective < end)
            parts.append(np.stack([effective[position], np.full(len(position), hart), position, last_access[position]]))
            parts.append(np.stack([halves, np.full(len(halves), hart), np.full(len(halves), -1), halves]))
        assert self._grants is not None
        rest = np.flatnonzero(others)
        # the write of a test&set is made with its read
        rest = rest[(self._grants["we"][rest] != 0) & (self._grants["hart"][rest] != NO_MASTER)]
        parts.append(np.stack([rest, np.full(len(rest), len(self.harts)), np.full(len(rest), -1), rest]))
        actions = np.concatenate(parts, axis=1)
        order = np.lexsort((actions[2], actions[1], actions[0]))
        return list(zip(*actions[1:, order].tolist(), strict=True))

    def _walk(self, actions: Sequence[tuple[int, int, int]], end: int) -> None:
        assert self._grants is not None
        records: list[list[Record]] = [list(map(tuple, waiting.tolist())) for waiting in self._records]
        grants: list[Record] = list(map(tuple, self._grants[:end].tolist()))
        harts, memory = self.harts, self._memory
        done = [0] * len(harts)
        for hart, position, access in actions:
            if position < 0:
                _, _, address, write, enables, value, *_ = grants[access]
                if hart == len(harts):
                    memory.apply(address, enables, value)
                else:
                    self._halves[hart] = self._first_half(records[hart][done[hart]], address, write, enables, value)
                continue
            record = records[hart][position]
            done[hart] = position + 1
            address = record[_ADDRESS]
            if record[_RMASK] | record[_WMASK]:
                inside = CONTROL <= address < CONTROL + TCDM_SPACE
                if inside:
                    self._recorded = record[_RDATA] << BYTE_BITS * (address % WORD_BYTES)
                self._follow_access(hart, record, access >= 0 or inside)
            else:
                # an instruction that traps may have made the first of two accesses
                self._halves[hart] = None
                self._follow(hart, record)
        self._records = [waiting[count:] for waiting, count in zip(self._records, done, strict=True)]

    def _first_half(self, record: Record, address: int, write: int, enables: int, value: int) -> _Half:
        """Make the first of two accesses: save the word of a load, make a store or the write of a test&set."""
        memory = self._memory
        before = memory.word_bytes(address)
        if write:
            memory.apply(address, enables, value)
        elif _TEST_SET <= record[_ADDRESS] < _TEST_SET + TCDM_SPACE:
            memory.apply(address, enables, -1)
        return _Half(before, memory.word_bytes(address))

    def _follow_access(self, hart: int, record: Record, granted: bool) -> None:
        """Step a hart through an instruction whose only or second access the bus grants now."""
        lockstep, memory = self.harts[hart], self._memory
        address = record[_ADDRESS]
        crosses = address % WORD_BYTES + (record[_RMASK] | record[_WMASK]).bit_count() > WORD_BYTES
        half, self._halves[hart] = self._halves[hart], None
        if not granted or crosses != (half is not None):
            expected = 2 if crosses else 1
            got = granted + (half is not None)
            why = "accesses that the bus has granted for the instruction"
            raise lockstep.differs(record, "grants", expected, got, why)
        if half is None:
            self._follow(hart, record)
            return
        # the instruction sees the first word as it was at its grant, other accesses see it as it is now
        now = memory.exchange(address, half.before)
        self._follow(hart, record)
        left = memory.exchange(address, now)
        if left != half.after:
            expected, got = (int.from_bytes(word, "little") for word in (left, half.after))
            why = "the first of the two words after the access"
            raise lockstep.differs(record, "mem_wdata", expected, got, why)

    def _follow(self, hart: int, record: Record) -> None:
        lockstep = self.harts[hart]
        try:
            lockstep.follow(record)
        except AccessError as error:
            why = f"{error.kind} outside memory"
            raise lockstep.differs(record, "mem_addr", error.address, record[_ADDRESS], why) from None
