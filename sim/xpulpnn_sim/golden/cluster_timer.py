"""The cluster's timer, from one moment of interest to the next."""

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
        """Cycles of a step."""
        prescale = self.config >> TIMER_PRESCALE_LSB & _PRESCALE_MASK
        return prescale + 1 if self.config & TimerConfig.PRESCALER else 1

    def steps(self, cycles: int) -> int:
        """Let the prescaler run; returns the steps of the count."""
        if not self.config & TimerConfig.ENABLE:
            return 0
        steps, self.divider = divmod(self.divider + cycles, self.period)
        return steps

    def cycles(self, steps: int) -> int:
        """Cycles until the count has stepped so often."""
        return steps * self.period - self.divider


class ClusterTimer:
    """Two timers of 32 bits, or one of 64, whose time is told by whoever uses them."""

    def __init__(self) -> None:
        self._low, self._high = _Half(), _Half()
        self._cascade = False

    def read(self, offset: int) -> int:
        """The register at a byte offset; 0 where there is none."""
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
        """Store to the register at a byte offset; nothing where there is none."""
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
        """Let cycles pass; returns which of both timers, 0 or 1, have raised an event, once for each event."""
        if self._cascade:
            count, compare = self._whole()
            count, events = _counted(self._low, count, compare, 2 * XLEN, self._low.steps(cycles))
            self._low.count, self._high.count = count & WORD_MASK, count >> XLEN
            return [0] * events
        raised: list[int] = []
        for number, half in enumerate((self._low, self._high)):
            half.count, events = _counted(half, half.count, half.compare, XLEN, half.steps(cycles))
            raised += [number] * events
        return raised

    def until_event(self) -> int | None:
        """Cycles until the next event if nobody writes; None: there will be none."""
        if self._cascade:
            count, compare = self._whole()
            halves = [(self._low, count, compare, 2 * XLEN)]
        else:
            halves = [(half, half.count, half.compare, XLEN) for half in (self._low, self._high)]
        wanted = TimerConfig.ENABLE | TimerConfig.EVENT
        times = [
            half.cycles(_steps_to_end(count, compare, bits))
            for half, count, compare, bits in halves
            if half.config & wanted == wanted
        ]
        return min(times, default=None)

    def _whole(self) -> tuple[int, int]:
        """Count and comparison of both as one."""
        low, high = self._low, self._high
        return high.count << XLEN | low.count, high.compare << XLEN | low.compare


def _steps_to_end(count: int, compare: int, bits: int) -> int:
    """Steps up to and with the one from a count that is equal to the comparison."""
    return (compare - count) % (1 << bits) + 1


def _counted(half: _Half, count: int, compare: int, bits: int, steps: int) -> tuple[int, int]:
    """The count after so many steps, and how many events they raise; stops the timer if it is to."""
    events = 0
    while steps >= (needed := _steps_to_end(count, compare, bits)):
        steps -= needed
        events += bool(half.config & TimerConfig.EVENT)
        count = 0 if half.config & TimerConfig.CLEAR else (compare + 1) % (1 << bits)
        if half.config & TimerConfig.ONE_SHOT:
            half.config &= ~TimerConfig.ENABLE
            return count, events
    return (count + steps) % (1 << bits), events
