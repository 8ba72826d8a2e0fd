"""Golden model of a core-local interruptor. A step of the model may take any number of cycles."""

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN, Clint, Interrupt

_HALVES = {Clint.MTIME + WORD_BYTES * half: XLEN * half for half in range(2)}
_TIMES = 1 << 2 * XLEN


class ClintModel:
    """Timer and software interrupts of harts. The time is the number of cycles since an origin, which writes move."""

    def __init__(self, harts: int) -> None:
        self._cycle = self._origin = 0
        self._words = {Clint.MSIP + WORD_BYTES * hart: 0 for hart in range(harts)}
        self._words |= {Clint.MTIMECMP + WORD_BYTES * word: WORD_MASK for word in range(2 * harts)}

    @property
    def _time(self) -> int:
        return (self._cycle - self._origin) % _TIMES

    def _compare(self, hart: int) -> int:
        low, high = (self._words[Clint.MTIMECMP + WORD_BYTES * (2 * hart + half)] for half in range(2))
        return high << XLEN | low

    def read(self, offset: int) -> int:
        """Return the register at a byte offset; raises ``LookupError`` if there is none."""
        return self._time >> _HALVES[offset] & WORD_MASK if offset in _HALVES else self._words[offset]

    def write(self, offset: int, value: int) -> None:
        if offset in _HALVES:
            self._origin -= value - self.read(offset) << _HALVES[offset]
        elif offset in self._words:
            self._words[offset] = value & (WORD_MASK if offset >= Clint.MTIMECMP else 1)
        else:
            raise LookupError

    def advance(self, cycles: int) -> tuple[int, ...]:
        """Advance by ``cycles``; as for the timer of a cluster, returns the events, of which there are none."""
        self._cycle += cycles
        return ()

    def lines(self, hart: int) -> int:
        """Return the interrupt lines of a hart as bits of mip."""
        software = self._words[Clint.MSIP + WORD_BYTES * hart]
        return software << Interrupt.SOFTWARE | (self._time >= self._compare(hart)) << Interrupt.TIMER

    def until_event(self) -> int | None:
        """Return the cycles until the timer interrupt of another hart rises; None if none does."""
        harts = sum(offset < Clint.MTIMECMP for offset in self._words)
        left = [self._compare(hart) - self._time for hart in range(harts)]
        return min((cycles for cycles in left if cycles > 0), default=None)
