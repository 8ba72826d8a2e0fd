"""Peripherals of a cluster on the simulator: event unit, control, timer."""

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import (
    BLOCK_BYTES,
    CONTROL,
    EVENT_UNIT,
    ICACHE_CONTROL,
    PRIVATE_EVENT_UNIT,
    TIMER,
    Control,
    EventLine,
)
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.golden.cluster_timer import ClusterTimer
from xpulpnn_sim.golden.settled_events import SettledEventUnit


class Devices:
    """What answers at the addresses of the peripherals.

    Parameters
    ----------
    config : ClusterConfig
        Of the cluster.
    boot_address : int
        What the boot addresses of the cores read as until they are written.

    Members
    -------
    events : SettledEventUnit
        The event unit.
    timer : ClusterTimer
        The timer, at :attr:`time`.
    time : int
        Cycles since the start.
    """

    def __init__(self, config: ClusterConfig, boot_address: int) -> None:
        self.events = SettledEventUnit(config)
        self.timer = ClusterTimer()
        self.time = 0
        self._cores = config.cores
        self._outstanding: dict[int, int] = {}
        """Address of the access of each core that waits, or is answered and has not taken the answer."""
        self._control: dict[int, int] = {
            Control.EOC: 0,
            Control.FETCH_ENABLE: 0,
            Control.CLOCK_GATE: 1,
            Control.RETURN: 0,
        }
        first = Control.BOOT_ADDRESS
        self._control |= {first + WORD_BYTES * core: boot_address for core in range(config.cores)}
        self._widths: dict[int, int] = {Control.EOC: 1, Control.CLOCK_GATE: 1, Control.FETCH_ENABLE: config.cores}

    def advance(self, time: int) -> None:
        """Let time pass up to ``time``; the timer does not go back."""
        if time > self.time:
            for number in self.timer.advance(time - self.time):
                for core in range(self._cores):
                    self.events.pulse(core, (EventLine.TIMER_LOW, EventLine.TIMER_HIGH)[number])
            self.time = time

    def waits_at(self, core: int) -> int | None:
        """Address of the access that holds a core; None if it may go on."""
        address = self._outstanding.get(core)
        return address if address is not None and self.events.waiting(core) else None

    def access(self, core: int, address: int, value: int | None) -> int | None:
        """A load, or a store of ``value``, of the word at ``address``: the word, 0 for a store; None if it waits.

        An access that waited is answered when it is made again. Raises ``LookupError`` where there is nothing.
        """
        if PRIVATE_EVENT_UNIT <= address < PRIVATE_EVENT_UNIT + BLOCK_BYTES:
            return self._private(core, address, value)
        if CONTROL <= address < CONTROL + BLOCK_BYTES:
            return self._controlled(address - CONTROL, value)
        if TIMER <= address < TIMER + BLOCK_BYTES:
            return self._timed(address - TIMER, value)
        if EVENT_UNIT <= address < ICACHE_CONTROL:
            if value is None:
                return self.events.shared_read(address - EVENT_UNIT)
            self.events.shared_write(address - EVENT_UNIT, value)
            return 0
        raise LookupError

    def _private(self, core: int, address: int, value: int | None) -> int | None:
        offset = address - PRIVATE_EVENT_UNIT
        if core in self._outstanding:
            found = self.events.answer(core)
        elif value is None:
            found = self.events.read(core, offset)
        else:
            found = 0 if self.events.write(core, offset, value) else None
        if found is None:
            self._outstanding[core] = address
        else:
            self._outstanding.pop(core, None)
        return found

    def _controlled(self, offset: int, value: int | None) -> int:
        if value is None:
            return self._control.get(offset, 0)
        if offset in self._control:
            self._control[offset] = value & ((1 << self._widths[offset]) - 1 if offset in self._widths else WORD_MASK)
        return 0

    def _timed(self, offset: int, value: int | None) -> int:
        if value is None:
            return self.timer.read(offset)
        self.timer.write(offset, value)
        return 0
