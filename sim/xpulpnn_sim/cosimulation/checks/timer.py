"""Judges what the timer of a cluster answers, and when it raises its events, by its golden model."""

from collections import deque

from xpulpnn.isa.cluster import BLOCK_BYTES, TIMER
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES
from xpulpnn_sim.cosimulation.checks.device_log import DeviceAccess, device_accesses, line_events
from xpulpnn_sim.cosimulation.checks.retirements import Findings
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimer
from xpulpnn_sim.reference.programs.exits import NameOf

_ANSWER = 1  # cycles between the grant of an access at the timer's own port and its retirement

_TIMERS = 2  # kind of event line


class TimerCheck:
    """A checker of the accesses of all cores to the timer, and of its events."""

    def __init__(self, cores: int, name_of: NameOf = lambda pc: "") -> None:
        self._timer = ClusterTimer()
        self._cores = range(cores)
        self._name_of = name_of
        self._now = 0
        self._waiting: list[DeviceAccess] = []
        self._events = deque[tuple[int, int]]()
        self._judges = True

    def __call__(self, block: Block) -> Findings:
        """Judge the accesses and events of a block, but for its last cycle."""
        last = [int(block.records(core)["cycle"][-1]) for core in self._cores if block.filled[core]]
        if not self._judges or not last:
            return Findings()
        for core in self._cores:
            self._waiting += [one for one in device_accesses(block, core) if TIMER <= one.address < TIMER + BLOCK_BYTES]
        self._waiting.sort(key=lambda one: one.retired)
        self._events += [(cycle, word) for cycle, kind, word in line_events(block.grants) if kind == _TIMERS]
        end = max(last)
        text = self._judge(end - _ANSWER)
        if text is None:
            return Findings()
        self._judges = False
        return Findings(1, text)

    def _judge(self, end: int) -> str | None:
        """Pass all cycles before ``end``; the report of the first difference."""
        while self._waiting and (at := self._waiting[0].retired - _ANSWER) < end:
            one = self._waiting.pop(0)
            # a store takes effect behind the step of its cycle
            text = self._pass(at + one.write) or self._access(one)
            if text is not None:
                return text
        return self._pass(end)

    def _access(self, one: DeviceAccess) -> str | None:
        offset = (one.address - TIMER) // WORD_BYTES * WORD_BYTES
        shift = BYTE_BITS * (one.address % WORD_BYTES)
        bits = (1 << BYTE_BITS * one.mask.bit_count()) - 1
        word = self._timer.read(offset)
        if one.write:
            self._timer.write(offset, word & ~(bits << shift) | (one.data & bits) << shift)
            return None
        expected = word >> shift & bits
        if expected == one.data:
            return None
        return (
            f"{one.where(self._name_of)}\n"
            f"  timer: the load of offset 0x{offset:x} must find 0x{expected:x}, not 0x{one.data:x}"
        )

    def _pass(self, end: int) -> str | None:
        """Let the timer count up to the beginning of cycle ``end``; its events must be those of the design."""
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
                wanted, found = (_shown(events) for events in (expected, got))
                first = (got or expected)[0][0]
                return f"difference in cycle {first}: the events of the timer must be {wanted}, not {found}"
        return None


def _shown(events: list[tuple[int, int]]) -> str:
    """Events for people."""
    return ", ".join(f"0x{word:x} in cycle {cycle}" for cycle, word in events) or "none"
