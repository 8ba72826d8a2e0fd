"""Bench of the event unit: every response and output in every cycle, and the latencies that programs pay."""

from collections.abc import Sequence
from itertools import product
from random import Random

import cocotb

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.cadence import Dut, start
from xpulpnn_sim.benches.event_unit_ports import EventUnitPorts, Happening, answers_after, waiting_offsets
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.reference.golden.event_unit import Access
from xpulpnn_sim.reference.stimuli import OFFSET_BITS, near_offsets, separating_words

_PATIENCE = 20
_IMPATIENCE = 0.02  # how often a core that waits requests again
_REGISTERS = range(0, EventRegister.WAIT, WORD_BYTES)
_BARRIER_REGISTERS = range(0, isa.BARRIER_BYTES, WORD_BYTES)
_BARRIER_WAIT = EventRegister.BARRIER + Barrier.TRIGGER_WAIT_CLEAR
_BARRIER_EVENT = 1 << EventLine.BARRIER

_HABITS: dict[str, dict[str, int]] = {
    "everything": {
        "registers": 4,
        "waits": 2,
        "barriers": 3,
        "sw": 3,
        "mutex": 2,
        "dispatch": 3,
        "holes": 1,
        "near": 4,
    },
    "barriers": {"registers": 1, "barriers": 8},
    "events": {"registers": 3, "waits": 3, "sw": 4, "near": 2},
    "mutex": {"mutex": 8, "registers": 1, "near": 2},
    "dispatch": {"dispatch": 8, "registers": 1, "near": 2},
}
"""Frequency of accesses to each register."""


def _store(offset: int, data: int) -> Access:
    """A store."""
    return Access(offset, True, data)


async def _start(dut: Dut) -> tuple[Random, EventUnitPorts]:
    return await start(dut), EventUnitPorts(dut)


class RandomTraffic:
    """Random accesses and events of a cycle."""

    def __init__(self, rng: Random, config: ClusterConfig, habit: str) -> None:
        self._rng, self._config = rng, config
        self._kinds = list(_HABITS[habit])
        self._weights = list(_HABITS[habit].values())
        self._rate = rng.choice((0.1, 0.4, 0.9))
        self._held: dict[int, Access] = {}
        """Requests that must stay until they are granted."""
        self._halting, self._debugging = 0, 0

    def happening(self, ports: EventUnitPorts) -> Happening:
        """Stimulus of a cycle: accesses of cores that may make one, pulses, fetches."""
        rng = self._rng
        free = ports.free()
        rates = {core: self._rate if core in free else _IMPATIENCE for core in range(self._config.cores)}
        accesses = {core: self._access() for core, rate in rates.items() if rng.random() < rate}
        if self._config.core.debug:
            # a core that resumes makes its access again
            again = {core: Access(ports.model.cores[core].waited_at) for core in accesses if rng.random() < 0.4}
            accesses |= again
            self._halt(free)
        accesses |= self._held
        self._held = {core: access for core, access in accesses.items() if core not in free}
        everybody = (1 << self._config.cores) - 1
        lines = {name: self._cores() & everybody for name in ("dma_events", "dma_interrupts") if rng.random() < 0.05}
        lines |= {name: rng.randrange(1, 4) for name in ("timer_events", "cluster_events") if rng.random() < 0.03}
        shared = self._shared() if rng.random() < 0.3 and not ports.model.shared_busy else None
        fetching = rng.getrandbits(self._config.cores)
        return Happening(accesses, lines, shared, fetching, self._halting, self._debugging)

    def _halt(self, free: Sequence[int]) -> None:
        """Requests to halt at random; a core with one that waits for nothing enters debug mode, and leaves it again."""
        for core in range(self._config.cores):
            bit, draw = 1 << core, self._rng.random()
            if self._debugging & bit:
                self._debugging ^= bit * (draw < 0.2)
            elif self._halting & bit and core in free and draw < 0.5:
                self._halting, self._debugging = self._halting ^ bit, self._debugging | bit
            elif draw < 0.02:
                self._halting |= bit

    async def wake(self, ports: EventUnitPorts) -> None:
        """Everybody who waits for an event gets one, by the shared view."""
        cores = self._config.cores
        masks = [_store(isa.SHARED_CORE_BYTES * core + EventRegister.MASK, WORD_MASK) for core in range(cores)]
        for access in (*masks, _store(isa.SHARED_SW_TRIGGERS, 0)):
            while ports.model.shared_busy:
                await ports.step(Happening(self._held))
            await ports.step(Happening(self._held, shared=access))

    def _cores(self) -> int:
        """A set of cores, often everybody."""
        everybody = (1 << self._config.cores) - 1
        return self._rng.choice((everybody, everybody, self._rng.getrandbits(isa.MAX_CORES), self._rng.getrandbits(2)))

    def _data(self) -> int:
        """Data of a store, often many ones or a set of cores."""
        rng = self._rng
        return rng.choice((WORD_MASK, rng.getrandbits(32), rng.getrandbits(32) | rng.getrandbits(32), self._cores()))

    def _access(self) -> Access:
        rng, config = self._rng, self._config
        kind = rng.choices(self._kinds, self._weights)[0]
        writes = rng.random() < 0.5
        match kind:
            case "registers":
                # what is cleared may just arrive
                often = (EventRegister.BUFFER_CLEAR, EventRegister.MASK)
                return Access(rng.choice((*_REGISTERS, *often, *often)), writes, self._data())
            case "waits":
                return Access(rng.choice((EventRegister.WAIT, EventRegister.WAIT_CLEAR)))
            case "barriers":
                offset = EventRegister.BARRIER + isa.BARRIER_BYTES * rng.randrange(config.barriers)
                # waiting is what they are for
                register = rng.choice((*_BARRIER_REGISTERS, Barrier.TRIGGER_WAIT_CLEAR, Barrier.TRIGGER_WAIT_CLEAR))
                return Access(offset + register, register < Barrier.TRIGGER_SELF and writes, self._cores())
            case "sw":
                group = rng.choice(
                    (EventRegister.SW_TRIGGER, EventRegister.SW_TRIGGER_WAIT, EventRegister.SW_TRIGGER_WAIT_CLEAR)
                )
                event = group + WORD_BYTES * rng.randrange(config.sw_events)
                return Access(event, group == EventRegister.SW_TRIGGER or writes, self._cores())
            case "mutex":
                return Access(EventRegister.MUTEX + WORD_BYTES * rng.randrange(config.mutexes), writes, self._data())
            case "dispatch":
                team = rng.random() < 0.3
                offset = EventRegister.DISPATCH_TEAM if team else EventRegister.DISPATCH_FIFO
                return Access(offset, writes, self._cores() if team else self._data())
            case "near":
                # a bit away from something: nothing must take it for that
                access = self._access()
                return Access(access.offset ^ 1 << rng.choice(OFFSET_BITS), access.write, access.data)
            case _:
                return Access(rng.randrange(0, isa.BLOCK_BYTES, WORD_BYTES), writes, self._data())

    def _shared(self) -> Access:
        rng = self._rng
        barrier = isa.BARRIER_BYTES * rng.randrange(self._config.barriers) + rng.choice(_BARRIER_REGISTERS)
        offset = rng.choice(
            (
                isa.SHARED_CORE_BYTES * rng.randrange(isa.MAX_CORES) + rng.choice(_REGISTERS),
                isa.SHARED_BARRIERS + barrier,
                isa.SHARED_SW_TRIGGERS + WORD_BYTES * rng.randrange(self._config.sw_events),
                rng.randrange(0, 3 * isa.BLOCK_BYTES, WORD_BYTES),
            )
        )
        return Access(offset, rng.random() < 0.6, self._data())


async def enable(ports: EventUnitPorts, mask: int) -> None:
    """All cores set their event mask; barrier 0 is for everybody."""
    everybody = (1 << ports.config.cores) - 1
    await ports.step(Happening({core: _store(EventRegister.MASK, mask) for core in range(ports.config.cores)}))
    for register in (Barrier.TRIGGER_MASK, Barrier.TARGET_MASK):
        await ports.step(Happening({0: _store(EventRegister.BARRIER + register, everybody)}))
    await ports.idle(1)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(habit=list(_HABITS))
async def random_traffic_is_answered_as_defined(dut: Dut, habit: str) -> None:
    """All cores, event lines and the shared view at random, with a reset in flight now and then."""
    rng, ports = await _start(dut)
    for _ in range(bench_data()["episodes"]):
        if rng.random() < 0.7:
            await enable(ports, rng.choice((WORD_MASK, rng.getrandbits(32))))
        traffic, stuck = RandomTraffic(rng, ports.config, habit), 0
        for _ in range(200):
            await ports.step(traffic.happening(ports))
            stuck = 0 if ports.free() else stuck + 1
            if stuck == _PATIENCE:
                await traffic.wake(ports)
            elif stuck > 2 * _PATIENCE:
                break
        await ports.reset()


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def barrier_costs_the_last_core_three_cycles(dut: Dut) -> None:
    """Everybody is answered in the third cycle after the last request and may come back at once, whoever comes when."""
    rng, ports = await _start(dut)
    cores = list(range(ports.config.cores))
    await enable(ports, _BARRIER_EVENT)
    for spread in (1, 1, 4, 4, 30):
        arrival = {core: rng.randrange(spread) for core in cores}
        last = max(arrival.values())
        for cycle in range(last + 3):
            coming = {core: Access(_BARRIER_WAIT) for core in cores if arrival[core] == cycle}
            ports.board.equal(await ports.step(Happening(coming)), [], f"responses in cycle {cycle} of a barrier")
        # the next round begins in the cycle of the responses
        arrival = dict.fromkeys(cores, 0)
        released = await ports.step(Happening({core: Access(_BARRIER_WAIT) for core in cores}))
        ports.board.equal({(a.core, a.data) for a in released}, {(core, _BARRIER_EVENT) for core in cores}, "released")
        ports.board.equal(await ports.idle(2), [], "responses within two cycles")
        released = await ports.idle(1)
        ports.board.equal({(a.core, a.data) for a in released}, {(core, _BARRIER_EVENT) for core in cores}, "again")
        await ports.idle(rng.randrange(3))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def latencies_of_what_waits(dut: Dut) -> None:
    """A load takes a cycle, an event that is there two, a software event three after its trigger; so do words."""
    _, ports = await _start(dut)
    await enable(ports, WORD_MASK)
    equal, last = ports.board.equal, ports.config.cores - 1
    equal((await answers_after(ports, {0: Access(EventRegister.MASK)}))[0][0], 1, "cycles of a load")
    equal(await answers_after(ports, {last: Access(EventRegister.MUTEX)}), {last: (2, 0)}, "a free mutex")
    equal((await answers_after(ports, {0: _store(EventRegister.DISPATCH_FIFO, 5)}))[0][0], 2, "cycles of a push")
    equal(await answers_after(ports, {last: Access(EventRegister.DISPATCH_FIFO)}), {last: (2, 5)}, "a word")
    trigger = {0: Access(EventRegister.SW_TRIGGER_WAIT)}
    equal((await answers_after(ports, trigger))[0], (3, 1), "a software event to all, by a load")
    equal((await answers_after(ports, {0: Access(EventRegister.WAIT)}))[0], (2, 1), "an event that is there")
    equal((await answers_after(ports, {last: Access(EventRegister.WAIT_CLEAR)}))[last], (2, 1), "everybody has it")
    if last:
        await ports.step(Happening({last: Access(EventRegister.WAIT)}))
        triggered = await answers_after(ports, {0: _store(EventRegister.SW_TRIGGER, 1 << last)})
        equal(triggered, {0: (1, None), last: (3, 1)}, "a software event by a store")


async def store_words(ports: EventUnitPorts, rng: Random, store_to: int, words: Sequence[int], register: int) -> None:
    """All cores store, each the next word, and load a register; the shared view loads that of one of them."""
    cores = range(ports.config.cores)
    await ports.step(Happening({core: _store(store_to, words[core % len(words)]) for core in cores}))
    shared = Access(isa.SHARED_CORE_BYTES * rng.choice(cores) + register)
    await ports.step(Happening(dict.fromkeys(cores, Access(register)), shared=shared))
    # now nobody is in its way
    await ports.idle(1)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def every_bit_is_its_own(dut: Dut) -> None:
    """Masks are written, cleared and set, and events cleared, by words in which any two bits differ both ways."""
    rng, ports = await _start(dut)
    words = separating_words(rng)
    rotated = [words[first:] + words[:first] for first in range(len(words))]
    for register in (EventRegister.MASK, EventRegister.IRQ_MASK, EventRegister.SW_EVENTS_MASK):
        for first, way in product(range(len(words)), range(3)):
            # what is cleared or set has nothing to do with what is there
            await store_words(ports, rng, register + WORD_BYTES * way, rotated[first - 5 * way], register)
    await enable(ports, WORD_MASK)
    cores, events = ports.config.cores, range(ports.config.sw_events)
    everybody = (1 << cores) - 1
    lines = {"dma_events": everybody, "dma_interrupts": everybody, "timer_events": 3, "cluster_events": 3}
    for chosen in rotated:
        for triggered in (events[at : at + cores] for at in events[::cores]):
            triggers = [_store(EventRegister.SW_TRIGGER + WORD_BYTES * event, 0) for event in triggered]
            await ports.step(Happening(dict(enumerate(triggers))))
        await ports.step(Happening({0: _store(EventRegister.BARRIER + Barrier.TRIGGER, everybody)}, lines))
        await ports.idle(1)
        await store_words(ports, rng, EventRegister.BUFFER_CLEAR, chosen, EventRegister.BUFFER)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def what_was_broken_off_is_made_again(dut: Dut) -> None:
    """Each load that waits for events is broken off by a halt; made again it triggers nothing, what differs does."""
    rng, ports = await _start(dut)
    everybody = (1 << ports.config.cores) - 1 if ports.config.core.debug else 0
    await enable(ports, 0)
    waits = [Access(offset) for offset in waiting_offsets(ports.config)]
    others = [Access(offset) for offset in (EventRegister.MUTEX, EventRegister.DISPATCH_FIFO, EventRegister.MASK)]
    for first in waits if everybody else ():
        for second, between in product((first, rng.choice(waits)), (*others, rng.choice(waits))):
            for access in (first, between, second):
                await ports.step(Happening(dict.fromkeys(range(ports.config.cores), access)))
                await ports.step(Happening(halting=everybody))
                # in debug mode nobody wants to know
                debug = dict.fromkeys(range(ports.config.cores), rng.choice(waits))
                await ports.step(Happening(debug, debugging=everybody))
                await ports.step(Happening(debugging=everybody))
            cleared = _store(EventRegister.BUFFER_CLEAR, WORD_MASK)
            for access in (Access(EventRegister.BUFFER), cleared):
                await ports.idle(2)
                await ports.step(Happening(dict.fromkeys(range(ports.config.cores), access)))


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def mutex_goes_to_the_lowest_core(dut: Dut) -> None:
    """All cores lock at once: each gets it with the message of the core before it, in the order of the numbers."""
    _, ports = await _start(dut)
    cores, order = range(ports.config.cores), list[tuple[int | None, int | None]]()
    arriving = {core: Access(EventRegister.MUTEX) for core in cores}
    for _ in cores:
        order += [
            (core, data) for core, (_, data) in (await answers_after(ports, arriving)).items() if data is not None
        ]
        owner = order[-1][0]
        assert owner is not None
        arriving = {owner: _store(EventRegister.MUTEX, 100 + owner)}
    await answers_after(ports, arriving)
    ports.board.equal(order, [(core, 99 + core if core else 0) for core in cores], "order and messages")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def nothing_else_is_a_mutex(dut: Dut) -> None:
    """Loads a bit away from a free mutex do not lock it, stores a bit away from a locked one do not free it."""
    _, ports = await _start(dut)
    cores = range(ports.config.cores)
    mutexes = [EventRegister.MUTEX + WORD_BYTES * number for number in range(ports.config.mutexes)]
    # words of the dispatch queue are waited for
    others = [offset for offset in near_offsets(mutexes) if offset != EventRegister.DISPATCH_FIFO]
    for offset in others:
        await ports.step(Happening({core: Access(offset) for core in cores}))
    await ports.idle(2)
    for offset in mutexes:
        locked = await answers_after(ports, {cores[-1]: Access(offset)})
        ports.board.equal(locked, {cores[-1]: (2, 0)}, "a mutex that is free")
    for offset in others:
        await ports.step(Happening({core: _store(offset, WORD_MASK) for core in cores}))
    await ports.idle(2)
    for offset in mutexes:
        ports.board.equal(await answers_after(ports, {0: Access(offset)}), {}, "a mutex that is locked")
        await answers_after(ports, {cores[-1]: _store(offset, 0)})


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def dispatch_keeps_order_and_waits_for_room(dut: Dut) -> None:
    """A team pops what is pushed for it, in order; a push too many is answered when the slowest has made room."""
    _, ports = await _start(dut)
    last, depth = ports.config.cores - 1, ports.config.dispatch_depth
    await answers_after(ports, {0: _store(EventRegister.DISPATCH_TEAM, 1 << last)})
    for number in range(depth):
        ports.board.equal(
            0 in await answers_after(ports, {0: _store(EventRegister.DISPATCH_FIFO, number)}), True, "a push with room"
        )
    full = Access(EventRegister.DISPATCH_FIFO, True, depth)
    if last:
        ports.board.equal(await answers_after(ports, {0: full}), {}, "a push without room")
        popped = await answers_after(ports, {last: Access(EventRegister.DISPATCH_FIFO)})
        ports.board.equal(popped, {last: (2, 0), 0: (3, None)}, "the first word, and the push behind it")
    for number in range(1, depth + (last > 0)):
        popped = await answers_after(ports, {last: Access(EventRegister.DISPATCH_FIFO)})
        ports.board.equal(popped[last][1], number, "a word")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(distance=[-2, -1, 0, 1, 2, 3])
async def no_event_is_lost_in_a_race(dut: Dut, distance: int) -> None:
    """An event so many cycles after a clear, a waiting load or a change of the mask is told exactly once."""
    _, ports = await _start(dut)
    line = 1 << EventLine.TIMER_LOW
    clearing = {0: Access(EventRegister.WAIT_CLEAR)}
    for access in (
        _store(EventRegister.BUFFER_CLEAR, line),
        _store(EventRegister.MASK, line),
        Access(EventRegister.BUFFER),
        Access(EventRegister.WAIT),
    ):
        await ports.reset()
        await ports.step(Happening({0: _store(EventRegister.MASK, line)}))
        for cycle in range(-3, 5):
            accesses = {0: access} if cycle == 0 else {}
            await ports.step(Happening(accesses, {"timer_events": int(cycle == distance)}))
        # what came before the clear, or with it not yet in the buffer, is gone
        gone = access.offset == EventRegister.BUFFER_CLEAR and distance < 0
        told = await answers_after(ports, clearing)
        ports.board.equal(told, {} if gone else {0: (2, line)}, f"the event after {access}")
        if not gone:
            ports.board.equal(await answers_after(ports, clearing), {}, "the event told twice")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def stores_of_one_cycle_to_one_register(dut: Dut) -> None:
    """The lowest core's store stays where only one can win; triggers of all count."""
    _, ports = await _start(dut)
    cores = range(ports.config.cores)
    lowest = min(1, cores[-1])
    for offset in (
        EventRegister.BARRIER + Barrier.TRIGGER_MASK,
        EventRegister.BARRIER + Barrier.TARGET_MASK,
        EventRegister.DISPATCH_TEAM,
    ):
        await ports.step(Happening({core: _store(offset, 1 << core) for core in cores[lowest:]}))
        ports.board.equal((await answers_after(ports, {0: Access(offset)}))[0], (1, 1 << lowest), f"{offset:#x}")
    await ports.step(Happening({core: _store(EventRegister.MUTEX, core + 7) for core in cores[lowest:]}))
    locked = await answers_after(ports, {0: Access(EventRegister.MUTEX)})
    ports.board.equal(locked, {0: (2, lowest + 7)}, "message of the mutex")
    await ports.step(Happening({0: _store(EventRegister.BARRIER + Barrier.TRIGGER_MASK, 0)}))
    trigger = EventRegister.BARRIER + Barrier.TRIGGER
    await ports.step(Happening({core: _store(trigger, 1 << core) for core in cores}))
    status = await answers_after(ports, {0: Access(EventRegister.BARRIER + Barrier.STATUS)})
    ports.board.equal(status, {0: (1, (1 << len(cores)) - 1)}, "status of the barrier")
