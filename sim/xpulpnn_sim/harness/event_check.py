"""Judges what the event unit of a cluster answers, and when, by its golden model.

The accesses of all cores are put in the order of their grants and handed to the model, cycle by cycle while anything
is under way in it. Loads that wait are accesses too: the model says in which cycle they must be answered.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa.cluster import (
    BLOCK_BYTES,
    CONTROL,
    EVENT_UNIT,
    EVENT_UNIT_BYTES,
    PRIVATE_EVENT_UNIT,
    EventLine,
    EventRegister,
)
from xpulpnn_sim.exits import NameOf, place
from xpulpnn_sim.golden.event_unit import Access, Answer, EventUnit
from xpulpnn_sim.harness.check import Findings
from xpulpnn_sim.harness.model import Block
from xpulpnn_sim.harness.schema import DEVICE_ACCESS

_UNSEEN = sum(
    1 << line
    for line in (
        *(EventLine.DMA, EventLine.DMA_INTERRUPT, EventLine.TIMER_LOW, EventLine.TIMER_HIGH),
        *range(EventLine.ACCELERATOR, EventLine.BARRIER),
        *(EventLine.CLUSTER, EventLine.CLUSTER + 1),
    )
)
"""Event lines that no access raises."""

_SHARED_ANSWER = 2
"""Cycles between the grant of an access at the shared view's port and its retirement; when the core's own request was
granted says less, for others may be served first."""


class _Accessed(NamedTuple):
    """An access of a core as its record has it, by the cycle in which it was granted."""

    granted: int
    core: int
    retired: int
    shared: bool
    access: Access
    data: int
    order: int
    pc: int


_Difference = tuple[_Accessed, int | None, int | None]
"""An access, and the value and the cycle that the model answers it with; None: it does not."""


class EventUnitCheck:
    """A checker of the accesses of all cores to the event unit.

    Says nothing any more once an event has arrived that no core has raised: those of timers, DMA and the outside.

    Parameters
    ----------
    config : ClusterConfig
        The cluster.
    name_of : callable
        Symbol of an address.
    """

    def __init__(self, config: ClusterConfig, name_of: NameOf = lambda pc: "") -> None:
        self._unit = EventUnit(config)
        self._name_of = name_of
        self._now = 0
        self._last = [0] * config.cores
        self._queue: list[_Accessed] = []
        self._open: dict[int, _Accessed] = {}
        self._open_shared: _Accessed | None = None
        self._judges = True

    def __call__(self, block: Block) -> Findings:
        """Judge what is certain to have happened by the end of the next block."""
        if not self._judges:
            return Findings()
        for core in range(len(self._last)):
            self._take(core, block)
        # an access that a core has made since it retired last is not known before it is answered
        return self._judge(min(self._last) - _SHARED_ANSWER)

    def _take(self, core: int, block: Block) -> None:
        """Queue the accesses of a core."""
        records = block.records(core)
        if not len(records):
            return
        self._last[core] = int(records["cycle"][-1])
        grants = block.grants[block.grants["hart"] == DEVICE_ACCESS + core]
        if not len(grants):
            return
        inside = records["mem_addr"] - np.uint32(CONTROL) < TCDM_SPACE
        devices = records[inside & ((records["mem_rmask"] | records["mem_wmask"]) != 0)]
        for granted, record in zip(grants["cycle"].tolist(), devices, strict=False):
            address = int(record["mem_addr"])
            private, shared = address - PRIVATE_EVENT_UNIT, address - EVENT_UNIT
            if not (0 <= private < BLOCK_BYTES or 0 <= shared < EVENT_UNIT_BYTES):
                continue
            write = bool(record["mem_wmask"])
            data = int(record["mem_wdata"] if write else record["mem_rdata"])
            is_shared = not 0 <= private < BLOCK_BYTES
            access = Access(shared if is_shared else private, write, data if write else 0)
            retired = int(record["cycle"])
            at = retired - _SHARED_ANSWER if is_shared else granted
            order, pc = int(record["order"]), int(record["pc_rdata"])
            heappush(self._queue, _Accessed(at, core, retired, is_shared, access, data, order, pc))

    def _judge(self, end: int) -> Findings:
        """Let the model pass all cycles before ``end``."""
        while self._queue and self._queue[0].granted < end:
            at = self._queue[0].granted
            found = self._pass(at)
            if found is not None:
                return self._stop(found)
            accesses: dict[int, Access] = {}
            shared: Access | None = None
            while self._queue and self._queue[0].granted == at:
                accessed = heappop(self._queue)
                if accessed.shared:
                    self._open_shared, shared = accessed, accessed.access
                    continue
                if accessed.core in self._open:
                    return self._stop((self._open[accessed.core], None, None))
                self._open[accessed.core] = accessed
                accesses[accessed.core] = accessed.access
            found = self._compare(self._unit.cycle(accesses, shared=shared))
            self._now = at + 1
            if found is not None:
                return self._stop(found)
        found = self._pass(end)
        return Findings() if found is None else self._stop(found)

    def _pass(self, end: int) -> _Difference | None:
        """Let the model pass cycles without accesses."""
        while self._now < end and not self._unit.quiet:
            found = self._compare(self._unit.cycle({}))
            self._now += 1
            if found is not None:
                return found
        self._now = max(self._now, end)
        early = [accessed for accessed in self._open.values() if accessed.retired <= self._now]
        return (early[0], None, None) if early else None

    def _compare(self, answers: list[Answer]) -> _Difference | None:
        """The first access that is answered with another value, or in another cycle, than the model does."""
        for answer in answers:
            accessed = self._open_shared if answer.core is None else self._open.pop(answer.core, None)
            if accessed is None or answer.error:
                continue
            unknown = accessed.access.offset == EventRegister.STATUS
            wrong = answer.data is not None and answer.data != accessed.data and not unknown
            if wrong or (not accessed.shared and accessed.retired != self._now + 1):
                return accessed, answer.data, self._now + 1
        return None

    def _stop(self, found: _Difference) -> Findings:
        """The report of the first difference; what comes after it follows from it."""
        self._judges = False
        accessed, data, cycle = found
        if not accessed.access.write and accessed.data & _UNSEEN:
            return Findings()
        when = "wait" if cycle is None else f"be answered in cycle {cycle}"
        value = "" if data is None else f" with 0x{data:x}"
        got = "" if accessed.access.write else f" with 0x{accessed.data:x}"
        text = (
            f"difference at hart {accessed.core}, retirement {accessed.order}, cycle {accessed.retired}, "
            f"pc {place(accessed.pc, self._name_of)}\n"
            f"  event unit: the access of offset 0x{accessed.access.offset:x}, granted in cycle {accessed.granted}, "
            f"must {when}{value}, not be answered in cycle {accessed.retired}{got}"
        )
        return Findings(1, text, accessed.order)
