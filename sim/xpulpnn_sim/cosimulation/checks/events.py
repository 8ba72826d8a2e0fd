"""Judges what the event unit of a cluster answers, and when, by its golden model.

The accesses of all cores are put in the order of their grants and handed to the model, cycle by cycle while anything
is under way in it. Loads that wait are accesses too: the model says in which cycle they must be answered.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from xpulpnn_sim.cosimulation.checks.retirements import Findings
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.cosimulation.model.schema import DEVICE_ACCESS, LINE_EVENT
from xpulpnn_sim.reference.golden.event_unit import Access, Answer, EventUnit, numbers
from xpulpnn_sim.reference.programs.exits import NameOf, place


class DeviceAccess(NamedTuple):
    """A load or store of a register."""

    granted: int  # cycle in which the core's own request was granted
    retired: int  # cycle of the retirement
    core: int
    address: int
    mask: int  # A bit for each byte
    write: bool
    data: int  # what is loaded or stored
    order: int  # number and address of the instruction
    pc: int  # number and address of the instruction

    def where(self, name_of: NameOf) -> str:
        """The head of a report about it."""
        return (
            f"difference at hart {self.core}, retirement {self.order}, cycle {self.retired}, "
            f"pc {place(self.pc, name_of)}"
        )


def device_accesses(block: Block, core: int) -> Iterator[DeviceAccess]:
    """The accesses of a core to registers inside the cluster, in order."""
    records = block.records(core)
    grants = block.grants[block.grants["hart"] == DEVICE_ACCESS + core]
    if not len(grants):
        return
    inside = records["mem_addr"] - np.uint32(CONTROL) < TCDM_SPACE
    devices = records[inside & ((records["mem_rmask"] | records["mem_wmask"]) != 0)]
    for granted, record in zip(grants["cycle"].tolist(), devices, strict=False):
        write = bool(record["mem_wmask"])
        yield DeviceAccess(
            granted=granted,
            retired=int(record["cycle"]),
            core=core,
            address=int(record["mem_addr"]),
            mask=int(record["mem_rmask"] | record["mem_wmask"]),
            write=write,
            data=int(record["mem_wdata"] if write else record["mem_rdata"]),
            order=int(record["order"]),
            pc=int(record["pc_rdata"]),
        )


def line_events(grants: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Event lines in a log of grants: cycle, kind (0 of the DMA engine, 1 as interrupt, 2 of the timers), word."""
    chosen = grants[grants["hart"] >= LINE_EVENT]
    return zip(
        chosen["cycle"].tolist(), (chosen["hart"] - LINE_EVENT).tolist(), chosen["address"].tolist(), strict=True
    )


_KINDS = ((EventLine.DMA,), (EventLine.DMA_INTERRUPT,), (EventLine.TIMER_LOW, EventLine.TIMER_HIGH))
"""Event lines by the number of their kind behind ``LINE_EVENT``: of a core each, or of all."""

_SHARED_ANSWER = 2
"""Cycles between the grant of an access at the shared view's port and its retirement; when the core's own request was
granted says less, for others may be served first."""


class _Accessed(NamedTuple):
    """An access of a core as its record has it, by the cycle in which it was granted."""

    granted: int
    core: int
    shared: bool
    access: Access
    record: DeviceAccess


_Difference = tuple[_Accessed, int | None, int | None]
"""An access, and the value and the cycle that the model answers it with; None: it does not."""


class EventUnitCheck:
    """A checker of the accesses of all cores to the event unit. Events of DMA engine and timers arrive as the design
    shows them."""

    def __init__(self, config: ClusterConfig, name_of: NameOf = lambda pc: "") -> None:
        self._unit = EventUnit(config)
        self._name_of = name_of
        self._now = 0
        self._last = [0] * config.cores
        self._queue: list[_Accessed] = []
        self._lines = deque[tuple[int, list[tuple[int, int]]]]()
        self._open: dict[int, _Accessed] = {}
        self._open_shared: _Accessed | None = None
        self._judges = True

    def __call__(self, block: Block) -> Findings:
        """Judge what is certain to have happened by the end of the next block."""
        if not self._judges:
            return Findings()
        for core in range(len(self._last)):
            self._take(core, block)
        self._hear(block)
        # an access that a core has made since it retired last is not known before it is answered
        return self._judge(min(self._last) - _SHARED_ANSWER)

    def _take(self, core: int, block: Block) -> None:
        """Queue the accesses of a core."""
        records = block.records(core)
        if not len(records):
            return
        self._last[core] = int(records["cycle"][-1])
        for one in device_accesses(block, core):
            private, shared = one.address - PRIVATE_EVENT_UNIT, one.address - EVENT_UNIT
            is_shared = not 0 <= private < BLOCK_BYTES
            if is_shared and not 0 <= shared < EVENT_UNIT_BYTES:
                continue
            access = Access(shared if is_shared else private, one.write, one.data if one.write else 0)
            at = one.retired - _SHARED_ANSWER if is_shared else one.granted
            heappush(self._queue, _Accessed(at, core, is_shared, access, one))

    def _hear(self, block: Block) -> None:
        """Queue the events of DMA engine and timers."""
        for cycle, kind, lines in line_events(block.grants):
            raised = _KINDS[kind]
            if len(raised) == 1:
                events = [(core, int(raised[0])) for core in numbers(lines)]
            else:
                events = [(core, int(raised[timer])) for core in range(len(self._last)) for timer in numbers(lines)]
            self._lines.append((cycle, events))

    def _arriving(self) -> list[tuple[int, int]]:
        """The events of the present cycle, by core and line."""
        events: list[tuple[int, int]] = []
        while self._lines and self._lines[0][0] == self._now:
            events += self._lines.popleft()[1]
        return events

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
            found = self._compare(self._unit.cycle(accesses, self._arriving(), shared=shared))
            self._now = at + 1
            if found is not None:
                return self._stop(found)
        found = self._pass(end)
        return Findings() if found is None else self._stop(found)

    def _pass(self, end: int) -> _Difference | None:
        """Let the model pass cycles without accesses."""
        while self._now < end:
            if self._unit.quiet:
                self._now = max(self._now, min(end, self._lines[0][0]) if self._lines else end)
            if self._now < end:
                found = self._compare(self._unit.cycle({}, self._arriving()))
                self._now += 1
                if found is not None:
                    return found
        early = [accessed for accessed in self._open.values() if accessed.record.retired <= self._now]
        return (early[0], None, None) if early else None

    def _compare(self, answers: list[Answer]) -> _Difference | None:
        """The first access that is answered with another value, or in another cycle, than the model does."""
        for answer in answers:
            accessed = self._open_shared if answer.core is None else self._open.pop(answer.core, None)
            if accessed is None or answer.error:
                continue
            unknown = accessed.access.offset == EventRegister.STATUS
            wrong = answer.data is not None and answer.data != accessed.record.data and not unknown
            if wrong or (not accessed.shared and accessed.record.retired != self._now + 1):
                return accessed, answer.data, self._now + 1
        return None

    def _stop(self, found: _Difference) -> Findings:
        """The report of the first difference; what comes after it follows from it."""
        self._judges = False
        accessed, data, cycle = found
        when = "wait" if cycle is None else f"be answered in cycle {cycle}"
        value = "" if data is None else f" with 0x{data:x}"
        got = "" if accessed.access.write else f" with 0x{accessed.record.data:x}"
        text = (
            f"{accessed.record.where(self._name_of)}\n"
            f"  event unit: the access of offset 0x{accessed.access.offset:x}, granted in cycle {accessed.granted}, "
            f"must {when}{value}, not be answered in cycle {accessed.record.retired}{got}"
        )
        return Findings(1, text, accessed.record.order)
