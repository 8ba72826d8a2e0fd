"""Peripherals of a cluster on the simulator: event unit, control, timer, DMA engine."""

from collections.abc import Callable

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import (
    BLOCK_BYTES,
    CONTROL,
    DMA,
    EVENT_UNIT,
    ICACHE_CONTROL,
    PRIVATE_DMA,
    PRIVATE_EVENT_UNIT,
    TIMER,
    Control,
    Dma,
    EventLine,
    Icache,
    IcacheCounter,
    Timer,
)
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimer
from xpulpnn_sim.reference.golden.dma import DmaModel, Moves
from xpulpnn_sim.reference.golden.settled_events import SettledEventUnit

_TIMER_REGISTERS = frozenset(Timer)
_CACHE_REGISTERS = frozenset(Icache) | {
    first + WORD_BYTES * counter
    for first in (Icache.PRIVATE_COUNTERS, Icache.SHARED_COUNTERS)
    for counter in IcacheCounter
}


class Devices:
    """Peripherals of the cluster, by address."""

    def __init__(self, config: ClusterConfig, boot_address: int) -> None:
        self.events = SettledEventUnit(config)
        self.timer = ClusterTimer()
        self.dma: DmaModel | None = None
        self._config = config
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
        self._cache: dict[int, int] = {Icache.ENABLE: 1, Icache.COUNT: 0}
        self._cache |= {Icache.PREFETCH: 1} if config.prefetch else {}
        first = Control.BOOT_ADDRESS
        self._control |= {first + WORD_BYTES * core: boot_address for core in range(config.cores)}
        self._widths: dict[int, int] = {Control.EOC: 1, Control.CLOCK_GATE: 1, Control.FETCH_ENABLE: config.cores}

    def connect_dma(self, move: Callable[[Moves], None]) -> None:
        """Make the DMA engine, if there is one, with what makes its transfers."""
        if self._config.dma:
            self.dma = DmaModel(self._config, move)

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
        if address is None:
            return None
        dma = self._dma_at(core, address)
        waiting = self.events.waiting(core) if dma is None else dma[0].waiting(dma[1])
        return address if waiting else None

    def _dma_at(self, core: int, address: int) -> tuple[DmaModel, int, int] | None:
        """The DMA engine, if it answers at ``address``, with the number of its port and the offset there."""
        for block, port in ((PRIVATE_DMA, core), (DMA, self._cores)):
            if self.dma is not None and block <= address < block + BLOCK_BYTES:
                return self.dma, port, address - block
        return None

    def access(self, core: int, address: int, value: int | None) -> int | None:
        """A load, or a store of ``value``, of the word at ``address``: the word, 0 for a store; None if it waits.

        An access that waited is answered when it is made again. Raises ``LookupError`` where there is nothing.
        """
        if PRIVATE_EVENT_UNIT <= address < PRIVATE_EVENT_UNIT + BLOCK_BYTES:
            return self._private(core, address, value)
        if self._dma_at(core, address) is not None:
            return self._commanded(core, address, value)
        if CONTROL <= address < CONTROL + BLOCK_BYTES:
            return self._controlled(address - CONTROL, value)
        if TIMER <= address < TIMER + BLOCK_BYTES:
            return self._timed(address - TIMER, value)
        if self._config.icache_private and ICACHE_CONTROL <= address < DMA:
            return self._cached(address - ICACHE_CONTROL, value)
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

    def _commanded(self, core: int, address: int, value: int | None) -> int | None:
        found = self._dma_at(core, address)
        assert found is not None
        dma, port, offset = found
        if offset not in tuple(Dma):
            raise LookupError
        if value is None:
            word = dma.answer(port) if core in self._outstanding else dma.read(port, offset)
            if word is None:
                self._outstanding[core] = address
            else:
                self._outstanding.pop(core, None)
            return word
        for line, told in zip((EventLine.DMA, EventLine.DMA_INTERRUPT), dma.write(port, offset, value), strict=True):
            for listener in range(self._cores):
                if told >> listener & 1:
                    self.events.pulse(listener, line)
        return 0

    def _controlled(self, offset: int, value: int | None) -> int:
        if offset not in self._control and offset not in (Control.CONFIG, Control.DEBUG_STATUS):
            raise LookupError
        if value is None:
            return self._control.get(offset, 0)
        if offset in self._control:
            self._control[offset] = value & ((1 << self._widths[offset]) - 1 if offset in self._widths else WORD_MASK)
        return 0

    def _cached(self, offset: int, value: int | None) -> int:
        """Control of the caches: there are none here, so their counters stay 0."""
        if offset not in _CACHE_REGISTERS:
            raise LookupError
        if value is not None and offset in self._cache:
            self._cache[offset] = value & 1
        return 0 if value is not None else self._cache.get(offset, 0)

    def _timed(self, offset: int, value: int | None) -> int:
        if offset not in _TIMER_REGISTERS:
            raise LookupError
        if value is None:
            return self.timer.read(offset)
        self.timer.write(offset, value)
        return 0
