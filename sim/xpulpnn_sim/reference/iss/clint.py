"""A core-local interruptor beside the simulated hart: timer and software interrupt, by the clock of the simulator."""

from collections.abc import Iterable

from xpulpnn.isa.machine import CLINT_BASE, CLINT_BYTES, WORD_BYTES, Clint, Interrupt
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import BusError, Memory

_DOUBLE = 2 * WORD_BYTES
_FOREVER = 1 << 48
RESET = b"\xff" * _DOUBLE  # of mtimecmp


class ClintMemory(Memory):
    """Memory in which accesses to the CLINT end a burst, so that they see the time of their instruction."""

    bursting = False

    def __init__(self, windows: Iterable[tuple[int, int]] | None = None) -> None:
        super().__init__(windows)
        self.write_bytes(CLINT_BASE + Clint.MTIMECMP, RESET)

    def take_time(self, address: int, loaded: int, data: int) -> None:
        """Store what a design has loaded, a bit in ``loaded`` for each byte, if it is the time."""
        if CLINT_BASE + Clint.MTIME - WORD_BYTES < address < CLINT_BASE + CLINT_BYTES:
            self.write_bytes(address, data.to_bytes(WORD_BYTES, "little")[: loaded.bit_count()])

    def _fails(self, address: int, size: int, kind: str = "fetch") -> bool:
        if CLINT_BASE - size < address < CLINT_BASE + CLINT_BYTES:
            # the page of these registers must not be taken for plain memory
            if self.bursting:
                raise BusError
            return kind == "fetch"
        return super()._fails(address, size, kind)


class TimedHart:
    """Runs a hart up to the next change of its timer line, and passes its time in ``wfi``."""

    def __init__(self, iss: Iss, memory: ClintMemory) -> None:
        self._iss, self._memory, self._idle = iss, memory, 0

    def _register(self, place: Clint, size: int) -> int:
        return int.from_bytes(self._memory.read_bytes(CLINT_BASE + place, size), "little")

    def update(self) -> int:
        """Set time and lines; return the cycles until the timer line rises, 0 if it is up."""
        now, compare = self._iss.executed + self._idle, self._register(Clint.MTIMECMP, _DOUBLE)
        self._memory.write_bytes(CLINT_BASE + Clint.MTIME, now.to_bytes(_DOUBLE, "little"))
        software, due = self._register(Clint.MSIP, WORD_BYTES) & 1, now >= compare
        self._iss.csrs.irq = software << Interrupt.SOFTWARE | due << Interrupt.TIMER
        return max(compare - now, 0)

    def burst(self, limit: int) -> None:
        """Execute up to ``limit`` instructions, at most up to the change of the timer line."""
        left = self.update()
        if limit and not self._iss.state.asleep:
            self._memory.bursting = True
            self._iss.burst(min(limit, left or limit))
            self._memory.bursting = False
        self.update()

    def wait(self) -> bool:
        """Pass the time up to the timer interrupt; return whether it can end the wait of the hart."""
        left, csrs = self.update(), self._iss.csrs
        if not csrs.wakes and left < _FOREVER and csrs["mie"] >> Interrupt.TIMER & 1:
            self._idle += left
            csrs.advance(left, 0, csrs["mcountinhibit"])
            self.update()
        return csrs.wakes and bool(self._iss.state.asleep or csrs.flag("MIE"))
