"""Cycle-accurate golden model of the cluster's event unit."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import (
    BARRIER_BYTES,
    SHARED_BARRIERS,
    SHARED_CORE_BYTES,
    SHARED_SW_TRIGGERS,
    Barrier,
    EventLine,
    EventRegister,
)
from xpulpnn.isa.machine import WORD_BYTES

_BARRIER_TRIGGERS = (Barrier.TRIGGER_SELF, Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR)
_GROUP = 0x40  # bytes of a group of registers

_SENDING = (EventRegister.SW_TRIGGER, EventRegister.SW_TRIGGER_WAIT, EventRegister.SW_TRIGGER_WAIT_CLEAR)
_TRIGGERS = tuple(register // _GROUP for register in _SENDING)
"""Numbers of the register groups that send software events: those that only send, that then wait, and that wait and
clear."""


class Access(NamedTuple):
    offset: int  # in bytes within the view
    write: bool = False
    data: int = 0


class Answer(NamedTuple):
    core: int | None  # None: shared view
    data: int | None  # None: store
    error: bool = False  # no such register


@dataclass(slots=True)
class _Core:
    mask: set[int] = field(default_factory=set[int])
    irq_mask: set[int] = field(default_factory=set[int])
    buffer: set[int] = field(default_factory=set[int])
    targets: set[int] = field(default_factory=set[int])
    waits: str = ""  # for "event", "mutex", "word" (of the dispatch queue), "room" (in that queue)
    clears: bool = False
    waited_at: int = 0  # offset of the last load that waited for events
    has_triggered: bool = False  # such a load was cancelled by a halt request after its trigger
    mutex: int = 0
    word: int = 0
    # remaining words of the dispatch queue, and whether the core is in their team
    queue: deque[tuple[int, bool]] = field(default_factory=deque[tuple[int, bool]])


@dataclass(slots=True)
class _Barrier:
    trigger_mask: set[int] = field(default_factory=set[int])
    target_mask: set[int] = field(default_factory=set[int])
    status: set[int] = field(default_factory=set[int])


@dataclass(slots=True)
class _Mutex:
    locked: bool = False
    message: int = 0


def numbers(word: int) -> set[int]:
    return {bit for bit in range(word.bit_length()) if word >> bit & 1}


def _word(bits: Iterable[int]) -> int:
    return sum(1 << bit for bit in bits)


class EventUnitModel:
    """The event unit of a cluster. Loads and waiting accesses read the registers as they are at the start of the cycle;
    then the stores of the cycle take effect, then its events arrive."""

    def __init__(self, config: ClusterConfig) -> None:
        self.cores = [_Core() for _ in range(config.cores)]
        self._everybody = set(range(config.cores))
        self._barriers = [_Barrier() for _ in range(config.barriers)]
        self._mutexes = [_Mutex() for _ in range(config.mutexes)]
        self._sw_events = config.sw_events
        self._depth = config.dispatch_depth
        self._team = set(self._everybody)
        self._sent: list[tuple[int, int]] = []  # software events that arrive in the next cycle: core and line
        self._lines = {EventLine.TIMER_LOW, EventLine.TIMER_HIGH, EventLine.BARRIER}
        self._lines |= {EventLine.CLUSTER, EventLine.CLUSTER + 1, *range(config.sw_events)}
        if config.dma:
            self._lines |= {EventLine.DMA, EventLine.DMA_INTERRUPT}
        self._shared: Access | None = None

    def interrupts(self) -> int:
        """Return a bit mask of the cores whose interrupt line is high."""
        return _word(number for number, core in enumerate(self.cores) if core.buffer & core.irq_mask)

    def waiting(self) -> int:
        """Return a bit mask of the cores with a waiting access."""
        return _word(number for number, core in enumerate(self.cores) if core.waits)

    @property
    def shared_busy(self) -> bool:
        return self._shared is not None

    @property
    def quiet(self) -> bool:
        """Return whether nothing changes until the next access or event."""
        passing = any(core.queue and not core.queue[0][1] for core in self.cores)
        complete = any(self._complete(barrier) for barrier in self._barriers)
        return not (self._sent or passing or complete or self._ready_cores() or self.shared_busy)

    def awake(self, fetching: int, halting: int = 0) -> int:
        """Return a bit mask of the cores that need their clock; ``fetching`` are those with an outstanding instruction
        fetch."""
        asleep = self.waiting() & ~fetching & ~halting & ~_word(self._ready_cores())
        return _word(self._everybody) & ~asleep

    def cycle(
        self,
        accesses: Mapping[int, Access],
        events: Iterable[tuple[int, int]] = (),
        shared: Access | None = None,
        fetching: int = 0,
        halting: int = 0,
        debugging: int = 0,
    ) -> list[Answer]:
        """Simulate a cycle; ``halting`` are cores with a halt request, ``debugging`` cores in debug mode."""
        awake = self.awake(fetching, halting | debugging)
        broken_off = numbers((halting | debugging) & self.waiting()) - self._ready_cores()
        answers: list[Answer] = []
        arriving = [*self._sent, *events]
        self._sent = []
        slots = {core: (access, True) for core, access in accesses.items()}
        if self._shared is not None:
            core, access = self._translated(self._shared)
            if core is None:
                answers.append(Answer(None, None if access.write else 0, error=True))
            elif core not in slots:
                slots[core] = access, False
            if core is None or not slots[core][1]:
                self._shared = None
        if shared is not None:
            self._shared = shared
        values = {core: self._value(core, access.offset, awake) for core, (access, _) in slots.items()}
        arriving += self._completed_barriers()
        granted = self._end_waits(answers)
        for core in broken_off:
            if core not in numbers(debugging):
                self.cores[core].has_triggered |= self.cores[core].waits == "event"
            self.cores[core].waits = ""
            answers.append(Answer(core, None, error=True))
        # of several stores to the same register the lowest core's wins
        for core in sorted(slots, reverse=True):
            access, own = slots[core]
            if own:
                self._load(core, access, core in numbers(debugging))
            if access.write:
                self._store(core, access, granted)
            if not (own and self.cores[core].waits):
                data = None if access.write else values[core]
                answers.append(Answer(core if own else None, data, error=not self._exists(access.offset)))
        for core, line in arriving:
            if line in self._lines:
                self.cores[core].buffer.add(line)
        return answers

    def _exists(self, offset: int) -> bool:
        group, rest = divmod(offset, _GROUP)
        if offset >= EventRegister.BARRIER:
            return (offset - EventRegister.BARRIER) // BARRIER_BYTES < len(self._barriers)
        if group in _TRIGGERS:
            return rest < WORD_BYTES * self._sw_events
        if group == EventRegister.MUTEX // _GROUP:
            return rest < WORD_BYTES * len(self._mutexes)
        return group == 0 or offset in (EventRegister.DISPATCH_FIFO, EventRegister.DISPATCH_TEAM)

    def _barrier(self, offset: int) -> tuple[_Barrier, int] | None:
        if offset < EventRegister.BARRIER or not self._exists(offset):
            return None
        number, register = divmod(offset - EventRegister.BARRIER, BARRIER_BYTES)
        return self._barriers[number], register

    @staticmethod
    def _complete(barrier: _Barrier) -> bool:
        return bool(barrier.trigger_mask) and barrier.status == barrier.trigger_mask

    def _completed_barriers(self) -> list[tuple[int, int]]:
        complete = [barrier for barrier in self._barriers if self._complete(barrier)]
        for barrier in complete:
            barrier.status = set()
        return [(core, int(EventLine.BARRIER)) for barrier in complete for core in barrier.target_mask]

    def _translated(self, access: Access) -> tuple[int | None, Access]:
        """Return core and private access equivalent to an access of the shared view; no core if there is no such
        register."""
        offset = access.offset
        if offset < SHARED_BARRIERS:
            core, there = divmod(offset, SHARED_CORE_BYTES)
            exists = core < len(self.cores) and there < EventRegister.WAIT
        elif offset < SHARED_SW_TRIGGERS:
            core, there = 0, offset - SHARED_BARRIERS + EventRegister.BARRIER
            exists = there < EventRegister.BARRIER + len(self._barriers) * BARRIER_BYTES
            exists = exists and there % BARRIER_BYTES < Barrier.TRIGGER_SELF
        else:
            core, there = 0, offset - SHARED_SW_TRIGGERS + EventRegister.SW_TRIGGER
            exists = there < EventRegister.SW_TRIGGER + WORD_BYTES * self._sw_events
        return (core if exists else None), access._replace(offset=there)

    def _value(self, number: int, offset: int, awake: int) -> int:
        core = self.cores[number]
        active = _word(core.buffer & core.mask)
        if selected := self._barrier(offset):
            barrier, register = selected
            registers: dict[int, int] = {
                Barrier.TRIGGER_MASK: _word(barrier.trigger_mask),
                Barrier.STATUS: _word(barrier.status),
                Barrier.SUMMARY: _word(set[int]().union(*(each.status for each in self._barriers))),
                Barrier.TARGET_MASK: _word(barrier.target_mask),
                Barrier.TRIGGER_SELF: active,
            }
            return registers.get(register, 0)
        registers = {
            EventRegister.MASK: _word(core.mask),
            EventRegister.IRQ_MASK: _word(core.irq_mask),
            EventRegister.STATUS: awake >> number & 1,
            EventRegister.BUFFER: _word(core.buffer),
            EventRegister.BUFFER_MASKED: active,
            EventRegister.BUFFER_IRQ_MASKED: _word(core.buffer & core.irq_mask),
            EventRegister.SW_EVENTS_MASK: _word(core.targets),
            EventRegister.DISPATCH_TEAM: _word(self._team),
        }
        return registers.get(offset, 0)

    def _load(self, number: int, access: Access, in_debug: bool) -> None:
        """Let a core wait, and trigger its software event or barrier, if the accessed register demands this."""
        core, offset = self.cores[number], access.offset
        repeats = core.has_triggered and core.waited_at == offset and not in_debug
        if access.write:
            if offset == EventRegister.DISPATCH_FIFO:
                core.waits, core.word = "room", access.data
            return
        if not self._exists(offset):
            return
        group, rest = divmod(offset, _GROUP)
        if selected := self._barrier(offset):
            barrier, register = selected
            if register in _BARRIER_TRIGGERS and not repeats:
                barrier.status.add(number)
            if register in (Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR):
                core.waits, core.clears = "event", register == Barrier.TRIGGER_WAIT_CLEAR
        elif offset in (EventRegister.WAIT, EventRegister.WAIT_CLEAR):
            core.waits, core.clears = "event", offset == EventRegister.WAIT_CLEAR
        elif offset == EventRegister.DISPATCH_FIFO:
            core.waits = "word"
        elif group == EventRegister.MUTEX // _GROUP:
            core.waits, core.mutex = "mutex", rest // WORD_BYTES
        elif group in _TRIGGERS[1:]:
            if not repeats:
                self._send(rest // WORD_BYTES, core.targets)
            core.waits, core.clears = "event", group == _TRIGGERS[2]
        if core.waits == "event" and not in_debug:
            core.waited_at, core.has_triggered = offset, False

    def _store(self, number: int, access: Access, granted: set[int]) -> None:
        """Store to a register; ``granted`` are the mutexes locked in this cycle."""
        core, offset, bits = self.cores[number], access.offset, numbers(access.data)
        group, rest = divmod(offset, _GROUP)
        cores = bits & self._everybody
        if not self._exists(offset):
            return
        if selected := self._barrier(offset):
            barrier, register = selected
            if register == Barrier.TRIGGER_MASK:
                barrier.trigger_mask = cores
            elif register == Barrier.TARGET_MASK:
                barrier.target_mask = cores
            elif register == Barrier.TRIGGER:
                barrier.status |= cores
        elif group == _TRIGGERS[0]:
            self._send(rest // WORD_BYTES, cores)
        elif group == EventRegister.MUTEX // _GROUP:
            mutex = self._mutexes[rest // WORD_BYTES]
            mutex.message = access.data
            mutex.locked = rest // WORD_BYTES in granted
        elif offset == EventRegister.DISPATCH_TEAM:
            self._team = cores
        elif offset == EventRegister.BUFFER_CLEAR:
            core.buffer -= bits
        elif offset <= EventRegister.MASK_OR:
            core.mask = _masked(core.mask, offset - EventRegister.MASK, bits & self._lines)
        elif offset <= EventRegister.IRQ_MASK_OR:
            core.irq_mask = _masked(core.irq_mask, offset - EventRegister.IRQ_MASK, bits & self._lines)
        elif EventRegister.SW_EVENTS_MASK <= offset <= EventRegister.SW_EVENTS_MASK_OR:
            core.targets = _masked(core.targets, offset - EventRegister.SW_EVENTS_MASK, cores)

    def _send(self, event: int, cores: set[int]) -> None:
        self._sent += [(core, event) for core in cores or self._everybody]

    def _ready_cores(self) -> set[int]:
        ready: set[int] = set()
        full = any(len(core.queue) == self._depth for core in self.cores)
        pushing = [number for number, core in enumerate(self.cores) if core.waits == "room"]
        ready |= set() if full else set(pushing[:1])
        for number, mutex in enumerate(self._mutexes):
            waiting = [at for at, core in enumerate(self.cores) if core.waits == "mutex" and core.mutex == number]
            ready |= set() if mutex.locked else set(waiting[:1])
        for number, core in enumerate(self.cores):
            if core.waits == "event" and core.buffer & core.mask:
                ready.add(number)
            if core.waits == "word" and core.queue and core.queue[0][1]:
                ready.add(number)
        return ready

    def _end_waits(self, answers: list[Answer]) -> set[int]:
        """Answer the accesses that need not wait any more; return the mutexes that they lock."""
        taken: set[int] = set()
        pushed: list[int] = []
        ready = self._ready_cores()
        for number, core in enumerate(self.cores):
            passes = core.queue and not core.queue[0][1]
            if number in ready:
                data: int | None = None
                match core.waits:
                    case "event":
                        data = _word(core.buffer & core.mask)
                        core.buffer -= core.mask if core.clears else set()
                    case "mutex":
                        data = self._mutexes[core.mutex].message
                        self._mutexes[core.mutex].locked = True
                        taken.add(core.mutex)
                    case "word":
                        data = core.queue.popleft()[0]
                    case _:
                        pushed.append(core.word)
                core.waits = ""
                answers.append(Answer(number, data))
            if passes:
                core.queue.popleft()
        for pushed_word in pushed:
            for number, core in enumerate(self.cores):
                core.queue.append((pushed_word, number in self._team))
        return taken


def _masked(old: set[int], way: int, bits: set[int]) -> set[int]:
    return (bits, old - bits, old | bits)[way // WORD_BYTES]
