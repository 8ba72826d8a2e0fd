"""Lock step of a cluster with the simulator: compares retirements in the order in which the bus granted their
accesses."""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import NO_MASTER, hart_number
from xpulpnn_sim.reference.iss.cluster_devices import ClusterMemory
from xpulpnn_sim.reference.iss.library import Walk, library
from xpulpnn_sim.reference.iss.lockstep import Lockstep, Record
from xpulpnn_sim.reference.iss.memory import AccessError
from xpulpnn_sim.reference.iss.session import fill_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of, windows
from xpulpnn_sim.reference.programs.trace import RETIREMENT, Records

_ADDRESS = (RETIREMENT.names or ()).index("mem_addr")


class ClusterLockstep:
    """Simulated harts that share a memory and are stepped by the retirements of all cores of a cluster. An instruction
    takes effect when the bus grants its access, the second one if there are two. Writes of DMA engine and host are
    taken from the bus, responses of peripherals from the retirements."""

    def __init__(
        self,
        executable: Executable,
        config: ClusterConfig,
        *,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
    ) -> None:
        pieces = windows(executable, (*memory_of(config), *ram))
        memory = ClusterMemory(pieces, config, lambda *_: None, errors)
        # loads from peripherals have the response of the design; stores to them have no effect here
        memory.native.answers = 1
        fill_memory(memory, executable)
        self.harts = tuple(
            Lockstep(executable, config.core, hart_id=hart_number(0, core), memory=memory, who=f"hart {core}, ")
            for core in range(config.cores)
        )
        self._harts = _pointers(lockstep.iss.state for lockstep in self.harts)
        self._followers = _pointers(lockstep.follower for lockstep in self.harts)
        self._walked = Walk(ctypes.addressof(self._harts), ctypes.addressof(self._followers), hart_count=config.cores)
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
        self._walk(self._ordered(own, claims, end, last=last))
        self._grants = self._grants[end:]

    def _ordered(
        self, own: Sequence[NDArray[Any]], claims: Sequence[NDArray[Any]], end: int, *, last: bool
    ) -> NDArray[np.int64]:
        """Return in order all actions before the access ``end`` of the log: hart, number of its retirement (-1 for an
        access without one), and number of the access. A hart that does not exist stands for DMA and host."""
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
        return np.ascontiguousarray(actions[1:, order].T)

    def _walk(self, actions: NDArray[np.int64]) -> None:
        assert self._grants is not None
        walked, grants = self._walked, np.ascontiguousarray(self._grants)
        pointers = (ctypes.c_void_p * len(self.harts))(*(waiting.ctypes.data for waiting in self._records))
        walked.records, walked.grants = ctypes.addressof(pointers), grants.ctypes.data
        walked.done[:] = [0] * len(walked.done)
        given = ctypes.c_void_p(actions.ctypes.data), ctypes.c_uint64(len(actions))
        is_equal = library().walk(ctypes.byref(walked), *given)
        for lockstep, waiting, done in zip(self.harts, self._records, walked.done, strict=False):
            lockstep.keep(waiting[:done])
        if not is_equal:
            self._report(self.harts[walked.failed], self._records[walked.failed][walked.done[walked.failed]].item())
        self._records = [waiting[done:] for waiting, done in zip(self._records, walked.done, strict=False)]

    def _report(self, lockstep: Lockstep, record: Record) -> None:
        try:
            raise lockstep.difference(record)
        except AccessError as error:
            why = f"{error.kind} outside memory"
            raise lockstep.differs(record, "mem_addr", error.address, record[_ADDRESS], why) from None


def _pointers(structures: Iterable[ctypes.Structure]) -> Any:
    addresses = [ctypes.addressof(structure) for structure in structures]
    return (ctypes.c_void_p * len(addresses))(*addresses)
