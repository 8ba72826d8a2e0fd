"""Memory and peripherals of the simulated cluster: TCDM, event unit, control, timer, DMA engine."""

from collections.abc import Callable, Iterable

from xpulpnn.config import TCDM_SPACE, ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.machine import ADDRESS_SPACE, BYTE_BITS, CLINT_SPACE, WORD_BYTES, WORD_MASK, Interrupt
from xpulpnn_sim.reference.golden.clint import ClintModel
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimerModel
from xpulpnn_sim.reference.golden.dma import DmaModel, Moves
from xpulpnn_sim.reference.golden.event_unit import Access, Answer, EventUnitModel
from xpulpnn_sim.reference.golden.tcdm import destination
from xpulpnn_sim.reference.iss.library import PAGE_BITS
from xpulpnn_sim.reference.iss.memory import AccessError, BusError, Memory, PostponedError

_VIEW = 1 << isa.TEST_SET_BIT
_TEST_SET = isa.TCDM_BASE | _VIEW
_DEVICES_END = isa.CONTROL + _VIEW

# load at an address, or store of a value; returns the word (any for a store), or None if the access waits; raises
# LookupError if there is no register
PeripheralAccess = Callable[[int, int | None], int | None]


class ClusterMemory(Memory):
    """Memory as the harts of a cluster see it, with the alias and the test&set view of the TCDM. Accesses to
    peripherals call ``reach``; they raise :class:`PostponedError` if they must wait."""

    def __init__(
        self,
        windows: Iterable[tuple[int, int]],
        errors: Iterable[tuple[int, int]],
        *,
        config: ClusterConfig,
        reach: PeripheralAccess,
    ) -> None:
        super().__init__([*windows, (isa.TCDM_ALIAS, config.tcdm_bytes)], errors)
        self._config = config
        self._reach = reach
        self.native.devices, self.native.device_bytes = isa.CONTROL, _VIEW
        self._tcdm_bytes = self.native.twin_bytes = config.tcdm_bytes
        self.native.twins[:] = isa.TCDM_BASE, isa.TCDM_ALIAS
        for offset in range(0, config.tcdm_bytes, 1 << PAGE_BITS):
            self._share((isa.TCDM_BASE + offset) >> PAGE_BITS, (isa.TCDM_ALIAS + offset) >> PAGE_BITS)

    def move(self, moves: Moves) -> None:
        for source, target, size in moves.pieces():
            for address, kind in ((source, "load"), (target, "store")):
                if address < isa.TCDM_ALIAS + TCDM_SPACE or not self.inside(address, size):
                    raise AccessError(kind, address, size)
            super()._write(target, size, super()._read(source, size, "load").to_bytes(size, "little"))

    def watch(self, address: int) -> None:
        """Report stores to the page of ``address``, also through the alias of the TCDM."""
        for same in self._same(address):
            super().watch(same)

    def _same(self, address: int) -> tuple[int, ...]:
        offset = address - (isa.TCDM_BASE if address >= isa.TCDM_BASE else isa.TCDM_ALIAS)
        return (isa.TCDM_BASE + offset, isa.TCDM_ALIAS + offset) if offset < self._tcdm_bytes else (address,)

    def _tell(self, address: int, size: int) -> None:
        for same in self._same(address):
            super()._tell(same, size)

    def _read(self, address: int, size: int, kind: str) -> int:
        if kind == "load":
            if _TEST_SET <= address and address + size <= _TEST_SET + self._tcdm_bytes:
                plain = address - _VIEW
                value = super()._read(plain, size, kind)
                self.write(plain, size, -1)
                return value
            if isa.CONTROL <= address < _DEVICES_END:
                word = self._access(address, size, None, kind)
                return word >> BYTE_BITS * (address % WORD_BYTES) & ((1 << BYTE_BITS * size) - 1)
        return super()._read(address, size, kind)

    def _write(self, address: int, size: int, data: bytes) -> None:
        if _TEST_SET <= address and address + size <= _TEST_SET + self._tcdm_bytes:
            self.write(address - _VIEW, size, int.from_bytes(data, "little"))
        elif isa.CONTROL <= address < _DEVICES_END:
            value = int.from_bytes(data, "little") << BYTE_BITS * (address % WORD_BYTES)
            self._access(address, size, value, "store")
        else:
            super()._write(address, size, data)

    def _fails(self, address: int, size: int, kind: str = "fetch") -> bool:
        """Return whether the bus answers with an error, as it does at unmapped addresses inside the cluster."""
        if super()._fails(address, size):
            return True
        if kind == "fetch" or self.inside(address, size):
            return False
        ends = (address, (address + size - 1) % ADDRESS_SPACE)
        return any(not self.inside(at, 1) and destination(at, self._config) == "unmapped" for at in ends)

    def _access(self, address: int, size: int, value: int | None, kind: str) -> int:
        if address % WORD_BYTES + size > WORD_BYTES:
            raise AccessError(kind, address, size)
        try:
            word = self._reach(address // WORD_BYTES * WORD_BYTES, value)
        except LookupError:
            raise BusError from None
        if word is None:
            raise PostponedError
        return word


_TIMER_REGISTERS = frozenset(isa.Timer)
_CACHE_REGISTERS = frozenset(isa.Icache) | {
    first + WORD_BYTES * counter
    for first in (isa.Icache.PRIVATE_COUNTERS, isa.Icache.SHARED_COUNTERS)
    for counter in isa.IcacheCounter
}


def _timed(timer: ClusterTimerModel | ClintModel, offset: int, value: int | None) -> int:
    if value is None:
        return timer.read(offset)
    timer.write(offset, value)
    return 0


class Devices:
    """Peripherals of the cluster, by address. After each access the event unit runs until it is idle. An access that
    waits must be repeated until it is answered; the core must make no other access before."""

    def __init__(self, config: ClusterConfig, boot_address: int) -> None:
        self._events = EventUnitModel(config)
        self._answers: dict[int | None, Answer] = {}
        self.timer = ClusterTimerModel()
        self.clint = ClintModel(config.cores) if config.clint else None
        self.dma: DmaModel | None = None  # set when there is memory for its transfers
        self.time = 0
        self._cores = config.cores
        self._outstanding: dict[int, int] = {}  # address of the waiting access of each core
        boot = [isa.CONTROL + isa.Control.BOOT_ADDRESS + WORD_BYTES * core for core in range(config.cores)]
        # plain registers by address: writable bits, and values other than 0
        self._masks = dict.fromkeys([isa.CONTROL + isa.Control.CONFIG, isa.CONTROL + isa.Control.DEBUG_STATUS], 0)
        self._masks |= dict.fromkeys([isa.CONTROL + isa.Control.RETURN, *boot], WORD_MASK)
        self._masks |= {isa.CONTROL + isa.Control.EOC: 1, isa.CONTROL + isa.Control.CLOCK_GATE: 1}
        self._masks[isa.CONTROL + isa.Control.FETCH_ENABLE] = (1 << config.cores) - 1
        self._values = dict.fromkeys(boot, boot_address) | {isa.CONTROL + isa.Control.CLOCK_GATE: 1}
        if config.icache_private:
            # caches are not simulated: their counters stay 0
            self._masks |= {isa.ICACHE_CONTROL + offset: 0 for offset in _CACHE_REGISTERS}
            enabled = [isa.Icache.ENABLE, *([isa.Icache.PREFETCH] if config.prefetch else [])]
            self._masks |= {isa.ICACHE_CONTROL + offset: 1 for offset in (*enabled, isa.Icache.COUNT)}
            self._values |= {isa.ICACHE_CONTROL + offset: 1 for offset in enabled}

    def lines(self) -> list[int]:
        """Return the interrupt lines of each core as bits of mip."""
        raised, cores = self._events.interrupts(), range(self._cores)
        own = [0 if self.clint is None else self.clint.lines(core) for core in cores]
        return [own[core] | (raised >> core & 1) << Interrupt.EXTERNAL for core in cores]

    def until_event(self) -> int | None:
        """Return the cycles until a timer does something if nothing is written; None if none does."""
        timers = [timer.until_event() for timer in (self.timer, self.clint) if timer is not None]
        return min((cycles for cycles in timers if cycles is not None), default=None)

    def _settle(
        self, accesses: dict[int, Access], events: Iterable[tuple[int, int]] = (), shared: Access | None = None
    ) -> None:
        answers = self._events.cycle(accesses, events, shared)
        while not self._events.quiet:
            answers += self._events.cycle({})
        self._answers |= {answer.core: answer for answer in answers}

    def _answered(self, core: int | None) -> int | None:
        """Return the response of the event unit, 0 for a store; None if there is none yet."""
        answer = self._answers.pop(core, None)
        if answer is not None and answer.error:
            raise LookupError
        return None if answer is None else answer.data or 0

    def advance(self, time: int) -> None:
        """Advance the timers to ``time``, unless they are there already."""
        if time > self.time:
            for number in self.timer.advance(time - self.time):
                for core in range(self._cores):
                    self._settle({}, [(core, (isa.EventLine.TIMER_LOW, isa.EventLine.TIMER_HIGH)[number])])
            if self.clint is not None:
                self.clint.advance(time - self.time)
            self.time = time

    def waits_at(self, core: int) -> int | None:
        """Return the address of the waiting access of a core; None if the core can continue."""
        address = self._outstanding.get(core)
        if address is None:
            return None
        dma = self._dma_at(core, address)
        waiting = self._events.waiting() >> core & 1 if dma is None else dma[0].waiting(dma[1])
        return address if waiting else None

    def _dma_at(self, core: int, address: int) -> tuple[DmaModel, int, int] | None:
        """Return DMA engine, port and offset of an address; None outside the command ports."""
        for block, port in ((isa.PRIVATE_DMA, core), (isa.DMA, self._cores)):
            if self.dma is not None and block <= address < block + isa.BLOCK_BYTES:
                return self.dma, port, address - block
        return None

    def access(self, core: int, address: int, value: int | None) -> int | None:
        """Load the word at ``address``, or store ``value``; returns the word (any for a store), or None if the access
        waits and must be repeated. Raises ``LookupError`` if there is no register."""
        if isa.PRIVATE_EVENT_UNIT <= address < isa.PRIVATE_EVENT_UNIT + isa.BLOCK_BYTES:
            if core not in self._outstanding:
                self._settle({core: Access(address - isa.PRIVATE_EVENT_UNIT, value is not None, value or 0)})
            return self._response(core, address, self._answered(core))
        if (command := self._dma_at(core, address)) is not None:
            return self._commanded(core, address, value, *command)
        if (mask := self._masks.get(address)) is not None:
            if value is not None:
                self._values[address] = value & mask
            return self._values.get(address, 0)
        if address - isa.TIMER in _TIMER_REGISTERS:
            return _timed(self.timer, address - isa.TIMER, value)
        if self.clint is not None and isa.CLINT <= address < isa.CLINT + CLINT_SPACE:
            return _timed(self.clint, address - isa.CLINT, value)
        if isa.EVENT_UNIT <= address < isa.ICACHE_CONTROL:
            self._settle({}, shared=Access(address - isa.EVENT_UNIT, value is not None, value or 0))
            return self._answered(None)
        raise LookupError

    def _response(self, core: int, address: int, answer: int | None) -> int | None:
        if answer is None:
            self._outstanding[core] = address
        else:
            self._outstanding.pop(core, None)
        return answer

    def _commanded(
        self, core: int, address: int, value: int | None, dma: DmaModel, port: int, offset: int
    ) -> int | None:
        if offset not in tuple(isa.Dma):
            raise LookupError
        if value is None:
            word = dma.answer(port) if core in self._outstanding else dma.read(port, offset)
            return self._response(core, address, word)
        for line, notified in zip(
            (isa.EventLine.DMA, isa.EventLine.DMA_INTERRUPT), dma.write(port, offset, value), strict=True
        ):
            for listener in range(self._cores):
                if notified >> listener & 1:
                    self._settle({}, [(listener, line)])
        return 0
