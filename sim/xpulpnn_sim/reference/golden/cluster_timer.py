"""Golden model of the timer of a cluster. A step of the model may take any number of cycles."""

from dataclasses import dataclass

from xpulpnn.isa.cluster import TIMER_PRESCALE_BITS, TIMER_PRESCALE_LSB, Timer, TimerConfig
from xpulpnn.isa.machine import WORD_MASK, XLEN

_STORED = TimerConfig.ENABLE | TimerConfig.EVENT | TimerConfig.CLEAR | TimerConfig.ONE_SHOT | TimerConfig.PRESCALER
_PRESCALE_MASK = (1 << TIMER_PRESCALE_BITS) - 1


@dataclass(slots=True)
class _Half:
    config: int = 0
    count: int = 0
    compare: int = 0
    divider: int = 0

    @property
    def period(self) -> int:
        """Cycles of the prescaler between two counts."""
        return (self.config >> TIMER_PRESCALE_LSB & _PRESCALE_MASK) + 1

    @property
    def position(self) -> int:
        """The count of the prescaler. It is negative if the period was set below the count, which must first wrap."""
        return self.divider if self.divider < self.period else self.divider - _PRESCALE_MASK - 1

    def steps(self, cycles: int) -> int:
        """Return by how much the timer's count increases within ``cycles``."""
        if not self.config & TimerConfig.ENABLE:
            return 0
        passed = max(self.position + cycles, 0) // self.period
        return passed if self.config & TimerConfig.PRESCALER else cycles

    def cycles(self, steps: int) -> int:
        """Return the cycles until the timer's count has increased by ``steps``."""
        return steps * self.period - self.position if self.config & TimerConfig.PRESCALER else steps

    def divide(self, cycles: int) -> None:
        """Advance the prescaler, which stays at 0 while the prescaler is disabled."""
        if not self.config & TimerConfig.PRESCALER:
            self.divider = 0 if cycles else self.divider
            return
        position = self.position + cycles
        self.divider = position % self.period if position >= 0 else position + _PRESCALE_MASK + 1

    def advance(self, count: int, compare: int, bits: int, cycles: int) -> tuple[int, int]:
        """Return the count after ``cycles`` and the number of events; a one-shot timer stops at its event."""
        if not self.config & TimerConfig.ENABLE:
            return count, 0
        events, done, steps = 0, 0, self.steps(cycles)
        while steps - done >= (needed := _steps_to_end(count, compare, bits)):
            done += needed
            events += bool(self.config & TimerConfig.EVENT)
            count = 0 if self.config & TimerConfig.CLEAR else (compare + 1) % (1 << bits)
            if self.config & TimerConfig.ONE_SHOT:
                self.divide(self.cycles(done))
                self.config &= ~TimerConfig.ENABLE
                return count, events
        self.divide(cycles)
        return (count + steps - done) % (1 << bits), events


class ClusterTimerModel:
    """The timer of a cluster: two counters of 32 bits, or one of 64 bits."""

    def __init__(self) -> None:
        self._low, self._high = _Half(), _Half()
        self._cascade = False

    def read(self, offset: int) -> int:
        """Return the register at a byte offset; 0 if there is none."""
        low, high = self._low, self._high
        registers: dict[int, int] = {
            Timer.CONFIG_LOW: low.config | (TimerConfig.CASCADE if self._cascade else 0),
            Timer.CONFIG_HIGH: high.config,
            Timer.COUNT_LOW: low.count,
            Timer.COUNT_HIGH: high.count,
            Timer.COMPARE_LOW: low.compare,
            Timer.COMPARE_HIGH: high.compare,
        }
        return registers.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Store to the register at a byte offset; offsets without a register are ignored."""
        names = {register.value: register for register in Timer}
        if offset not in names:
            return
        what, _, which = names[offset].name.rpartition("_")
        half = self._low if which == "LOW" else self._high
        match what:
            case "CONFIG":
                half.config = value & (_STORED | _PRESCALE_MASK << TIMER_PRESCALE_LSB)
                if half is self._low:
                    self._cascade = bool(value & TimerConfig.CASCADE)
                if value & TimerConfig.RESET:
                    half.count = half.divider = 0
            case "COUNT":
                half.count = value
            case "COMPARE":
                half.compare = value
            case "START":
                half.config |= TimerConfig.ENABLE
            case _:
                half.count = half.divider = 0

    def advance(self, cycles: int) -> list[int]:
        """Advance by ``cycles``; returns for each event the number of its timer, 0 or 1."""
        if self._cascade:
            count, compare = self._whole()
            count, events = self._low.advance(count, compare, 2 * XLEN, cycles)
            self._low.count, self._high.count = count & WORD_MASK, count >> XLEN
            # the prescaler of the high timer runs without effect
            if self._high.config & TimerConfig.ENABLE:
                self._high.divide(cycles)
            return [0] * events
        raised: list[int] = []
        for number, half in enumerate((self._low, self._high)):
            half.count, events = half.advance(half.count, half.compare, XLEN, cycles)
            raised += [number] * events
        return raised

    def until_event(self) -> int | None:
        """Return the cycles until the next event if nothing is written; None if there is no event."""
        if self._cascade:
            count, compare = self._whole()
            halves = [(self._low, count, compare, 2 * XLEN)]
        else:
            halves = [(half, half.count, half.compare, XLEN) for half in (self._low, self._high)]
        required = TimerConfig.ENABLE | TimerConfig.EVENT
        times = [
            half.cycles(_steps_to_end(count, compare, bits))
            for half, count, compare, bits in halves
            if half.config & required == required
        ]
        return min(times, default=None)

    def _whole(self) -> tuple[int, int]:
        low, high = self._low, self._high
        return high.count << XLEN | low.count, high.compare << XLEN | low.compare


def _steps_to_end(count: int, compare: int, bits: int) -> int:
    """Return the number of increments that take a counter of ``bits`` bits from ``count`` to one beyond ``compare``."""
    return (compare - count) % (1 << bits) + 1
