"""Checks the responses of a cluster's event unit and timer, and their cycles, against golden models.

The golden model receives the accesses of all cores in the order of their grants, cycle by cycle unless it is idle. For
loads that wait it determines the cycle in which they must be answered.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa import cluster
from xpulpnn.isa.machine import BYTE_BITS, CLINT_SPACE, WORD_BYTES
from xpulpnn_sim.cosimulation.checks.retirements import Checker
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.cosimulation.model.schema import DEVICE_ACCESS, LINE_EVENT
from xpulpnn_sim.reference.golden.clint import ClintModel
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimerModel
from xpulpnn_sim.reference.golden.event_unit import Access, Answer, EventUnitModel, numbers
from xpulpnn_sim.reference.programs.exits import DifferenceError, NameOf, place


class DeviceAccess(NamedTuple):
    granted: int  # cycle in which the core's own request was granted
    retired: int  # cycle of the retirement
    core: int
    address: int
    mask: int  # a bit for each byte
    write: bool
    data: int  # loaded or stored
    order: int  # number of the retirement
    pc: int

    def where(self, name_of: NameOf) -> str:
        return (
            f"difference at hart {self.core}, retirement {self.order}, cycle {self.retired}, "
            f"pc {place(self.pc, name_of)}"
        )


def device_accesses(block: Block, core: int) -> Iterator[DeviceAccess]:
    records = block.records(core)
    grants = block.grants[block.grants["hart"] == DEVICE_ACCESS + core]
    if not len(grants):
        return
    inside = records["mem_addr"] - np.uint32(cluster.CONTROL) < TCDM_SPACE
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
    """Extract cycle, kind (0 DMA event, 1 DMA interrupt, 2 timers) and bit mask of lines from a log of grants."""
    chosen = grants[grants["hart"] >= LINE_EVENT]
    return zip(
        chosen["cycle"].tolist(), (chosen["hart"] - LINE_EVENT).tolist(), chosen["address"].tolist(), strict=True
    )


_DMA_LINES = (cluster.EventLine.DMA, cluster.EventLine.DMA_INTERRUPT)  # by kind in the log
_TIMER_LINES = (cluster.EventLine.TIMER_LOW, cluster.EventLine.TIMER_HIGH)

_TIMER_ANSWER = 1  # cycles between the grant of an access at the timer's own port and its retirement
_TIMERS = 2  # kind of event line

_SHARED_ANSWER = 2
"""Cycles between the grant at the port of the shared view and the retirement. Since that port may serve other cores
first, the grant of the core's request does not count."""


class _Request(NamedTuple):
    """An access of a core to the event unit, ordered by the cycle of its grant."""

    granted: int
    core: int
    shared: bool
    access: Access
    record: DeviceAccess


class EventUnitCheck(Checker):
    """Checks the accesses of all cores to the event unit; events of DMA engine and timers are taken from the design."""

    def __init__(self, config: ClusterConfig, name_of: NameOf = lambda pc: "") -> None:
        self._unit = EventUnitModel(config)
        # cycles between the grant of a core's request and its access
        self._later = int(config.core.late_results)
        self._name_of = name_of
        self._now = 0
        self._last = [0] * config.cores
        self._queue: list[_Request] = []
        self._lines = deque[tuple[int, list[tuple[int, int]]]]()
        self._open: dict[int, _Request] = {}
        self._open_shared: _Request | None = None

    def __call__(self, block: Block) -> None:
        for core in range(len(self._last)):
            self._take(core, block)
        for cycle, kind, lines in line_events(block.grants):
            if kind == _TIMERS:
                raised = [
                    (core, int(_TIMER_LINES[timer])) for core in range(len(self._last)) for timer in numbers(lines)
                ]
            else:
                raised = [(core, int(_DMA_LINES[kind])) for core in numbers(lines)]
            self._lines.append((cycle, raised))
        # an access after a core's last retirement is not known before it is answered
        end = min(self._last) - _SHARED_ANSWER
        while self._queue and self._queue[0].granted < end:
            at = self._queue[0].granted
            self._pass(at)
            accesses: dict[int, Access] = {}
            shared: Access | None = None
            while self._queue and self._queue[0].granted == at:
                request = heappop(self._queue)
                if request.shared:
                    self._open_shared, shared = request, request.access
                    continue
                if request.core in self._open:
                    raise self._wrong(self._open[request.core])
                self._open[request.core] = request
                accesses[request.core] = request.access
            answers = self._unit.cycle(accesses, self._arriving(), shared=shared)
            self._compare(answers)
            self._now = at + 1
        self._pass(end)

    def _take(self, core: int, block: Block) -> None:
        records = block.records(core)
        if not len(records):
            return
        self._last[core] = int(records["cycle"][-1])
        for record in device_accesses(block, core):
            private, shared = record.address - cluster.PRIVATE_EVENT_UNIT, record.address - cluster.EVENT_UNIT
            is_shared = not 0 <= private < cluster.BLOCK_BYTES
            if is_shared and not 0 <= shared < cluster.EVENT_UNIT_BYTES:
                continue
            access = Access(shared if is_shared else private, record.write, record.data if record.write else 0)
            at = record.retired - _SHARED_ANSWER if is_shared else record.granted + self._later
            heappush(self._queue, _Request(at, core, is_shared, access, record))

    def _arriving(self) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = []
        while self._lines and self._lines[0][0] == self._now:
            events += self._lines.popleft()[1]
        return events

    def _pass(self, end: int) -> None:
        while self._now < end:
            if self._unit.quiet:
                self._now = max(self._now, min(end, self._lines[0][0]) if self._lines else end)
            if self._now < end:
                self._compare(self._unit.cycle({}, self._arriving()))
                self._now += 1
        for request in self._open.values():
            if request.record.retired <= self._now:
                raise self._wrong(request)

    def _compare(self, answers: list[Answer]) -> None:
        for answer in answers:
            request = self._open_shared if answer.core is None else self._open.pop(answer.core, None)
            if request is None or answer.error:
                continue
            unknown = request.access.offset == cluster.EventRegister.STATUS
            wrong = answer.data is not None and answer.data != request.record.data and not unknown
            if wrong or (not request.shared and request.record.retired != self._now + 1):
                raise self._wrong(request, answer.data, self._now + 1)

    def _wrong(self, request: _Request, data: int | None = None, cycle: int | None = None) -> DifferenceError:
        """Return the error for an access that the model answers in ``cycle`` with ``data``, or not at all."""
        when = "wait" if cycle is None else f"be answered in cycle {cycle}"
        value = "" if data is None else f" with 0x{data:x}"
        got = "" if request.access.write else f" with 0x{request.record.data:x}"
        text = (
            f"{request.record.where(self._name_of)}\n"
            f"  event unit: the access of offset 0x{request.access.offset:x}, granted in cycle {request.granted}, "
            f"must {when}{value}, not be answered in cycle {request.record.retired}{got}"
        )
        return DifferenceError(text, request.record.order)


class TimerCheck(Checker):
    """Checks the timer of a cluster, or with ``clint`` the registers of its core-local interruptor."""

    def __init__(self, cores: int, name_of: NameOf = lambda pc: "", *, clint: bool = False) -> None:
        self._timer = ClintModel(cores) if clint else ClusterTimerModel()
        self._window = (cluster.CLINT, CLINT_SPACE) if clint else (cluster.TIMER, cluster.BLOCK_BYTES)
        self._cores = range(cores)
        self._name_of = name_of
        # the time of a CLINT begins a cycle later
        self._now = int(clint)
        self._waiting: list[DeviceAccess] = []
        self._events = deque[tuple[int, int]]()

    def __call__(self, block: Block) -> None:
        """Check the accesses and events of a block; those of the last cycle are checked with the next block."""
        last = [int(block.records(core)["cycle"][-1]) for core in self._cores if block.filled[core]]
        if not last:
            return
        for core in self._cores:
            self._waiting += [
                access
                for access in device_accesses(block, core)
                if 0 <= access.address - self._window[0] < self._window[1]
            ]
        self._waiting.sort(key=lambda access: access.retired)
        if isinstance(self._timer, ClusterTimerModel):
            self._events += [(cycle, word) for cycle, kind, word in line_events(block.grants) if kind == _TIMERS]
        end = max(last) - _TIMER_ANSWER
        while self._waiting and (at := self._waiting[0].retired - _TIMER_ANSWER) < end:
            access = self._waiting.pop(0)
            # a store takes effect after the step of its cycle
            self._pass(at + access.write)
            self._access(access)
        self._pass(end)

    def _access(self, access: DeviceAccess) -> None:
        offset = (access.address - self._window[0]) // WORD_BYTES * WORD_BYTES
        shift = BYTE_BITS * (access.address % WORD_BYTES)
        bits = (1 << BYTE_BITS * access.mask.bit_count()) - 1
        word = self._timer.read(offset)
        expected = word >> shift & bits
        if access.write:
            self._timer.write(offset, word & ~(bits << shift) | (access.data & bits) << shift)
        elif expected != access.data:
            raise DifferenceError(
                f"{access.where(self._name_of)}\n"
                f"  timer: the load of offset 0x{offset:x} must find 0x{expected:x}, not 0x{access.data:x}"
            )

    def _pass(self, end: int) -> None:
        while self._now < end:
            cycles = self._timer.until_event()
            step = end - self._now if cycles is None else min(cycles, end - self._now)
            raised = sum(1 << number for number in self._timer.advance(step))
            self._now += step
            at = self._now - 1
            expected = [(at, raised)] if raised else []
            got: list[tuple[int, int]] = []
            while self._events and self._events[0][0] <= at:
                got.append(self._events.popleft())
            if got != expected:
                expected_text, actual_text = (
                    ", ".join(f"0x{word:x} in cycle {cycle}" for cycle, word in events) or "none"
                    for events in (expected, got)
                )
                first = (got or expected)[0][0]
                raise DifferenceError(
                    f"difference in cycle {first}: the events of the timer must be {expected_text}, not {actual_text}"
                )
