"""Bench of the event unit: every response and output in every cycle, and the latencies that programs see."""

from collections.abc import Sequence
from itertools import product

from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.event_unit_env import HABITS, EventUnitEnv, RandomTraffic, store, waiting_offsets
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.reference.golden.event_unit import Access
from xpulpnn_sim.reference.stimuli import near_offsets, separating_words

_PATIENCE = 20
_BARRIER_WAIT = EventRegister.BARRIER + Barrier.TRIGGER_WAIT_CLEAR
_BARRIER_EVENT = 1 << EventLine.BARRIER


@unit_test(habit=list(HABITS), env=EventUnitEnv)
async def random_traffic_is_answered_as_defined(env: EventUnitEnv, habit: str) -> None:
    """Random accesses of all cores and of the shared view, random events, and occasional resets."""
    for _ in range(bench_data()["episodes"]):
        if env.rng.random() < 0.7:
            await env.enable(env.rng.choice((WORD_MASK, env.rng.getrandbits(32))))
        traffic, stuck = RandomTraffic(env, habit), 0
        for _ in range(200):
            await traffic.step()
            stuck = 0 if env.free() else stuck + 1
            if stuck == _PATIENCE:
                await traffic.wake()
            elif stuck > 2 * _PATIENCE:
                break
        await env.reset()


@unit_test(env=EventUnitEnv)
async def barrier_costs_the_last_core_three_cycles(env: EventUnitEnv) -> None:
    """All cores are answered in the third cycle after the last request, in any order, and may then request again."""
    cores = list(env.cores)
    await env.enable(_BARRIER_EVENT)
    for spread in (1, 1, 4, 4, 30):
        arrival = {core: env.rng.randrange(spread) for core in cores}
        last = max(arrival.values())
        for cycle in range(last + 3):
            coming = {core: Access(_BARRIER_WAIT) for core in cores if arrival[core] == cycle}
            env.board.equal(await env.step(coming), [], f"responses in cycle {cycle} of a barrier")
        # the next round begins in the cycle of the responses
        arrival = dict.fromkeys(cores, 0)
        released = await env.step({core: Access(_BARRIER_WAIT) for core in cores})
        env.board.equal({(a.core, a.data) for a in released}, {(core, _BARRIER_EVENT) for core in cores}, "released")
        env.board.equal(await env.idle(2), [], "responses within two cycles")
        released = await env.idle(1)
        env.board.equal({(a.core, a.data) for a in released}, {(core, _BARRIER_EVENT) for core in cores}, "again")
        await env.idle(env.rng.randrange(3))


@unit_test(env=EventUnitEnv)
async def latencies_of_what_waits(env: EventUnitEnv) -> None:
    """Cycles to an answer: 1 for a load, 2 for a pending event, free mutex or queued word, 3 after a software event."""
    await env.enable(WORD_MASK)
    equal, last = env.board.equal, env.config.cores - 1
    equal((await env.answers_after({0: Access(EventRegister.MASK)}))[0][0], 1, "cycles of a load")
    equal(await env.answers_after({last: Access(EventRegister.MUTEX)}), {last: (2, 0)}, "a free mutex")
    equal((await env.answers_after({0: store(EventRegister.DISPATCH_FIFO, 5)}))[0][0], 2, "cycles of a push")
    equal(await env.answers_after({last: Access(EventRegister.DISPATCH_FIFO)}), {last: (2, 5)}, "a word")
    trigger = {0: Access(EventRegister.SW_TRIGGER_WAIT)}
    equal((await env.answers_after(trigger))[0], (3, 1), "a software event to all, by a load")
    equal((await env.answers_after({0: Access(EventRegister.WAIT)}))[0], (2, 1), "an event that is there")
    equal((await env.answers_after({last: Access(EventRegister.WAIT_CLEAR)}))[last], (2, 1), "everybody has it")
    if last:
        await env.step({last: Access(EventRegister.WAIT)})
        triggered = await env.answers_after({0: store(EventRegister.SW_TRIGGER, 1 << last)})
        equal(triggered, {0: (1, None), last: (3, 1)}, "a software event by a store")


async def store_words(env: EventUnitEnv, store_to: int, words: Sequence[int], register: int) -> None:
    cores = env.cores
    await env.step({core: store(store_to, words[core % len(words)]) for core in cores})
    shared = Access(isa.SHARED_CORE_BYTES * env.rng.choice(cores) + register)
    await env.step(dict.fromkeys(cores, Access(register)), shared=shared)
    # the shared view has waited for the cores
    await env.idle(1)


@unit_test(env=EventUnitEnv)
async def every_bit_is_its_own(env: EventUnitEnv) -> None:
    """Masks and buffers hold words; any two bits differ in some word, so that swapped bits are noticed."""
    words = separating_words(env.rng)
    rotated = [words[first:] + words[:first] for first in range(len(words))]
    for register in (EventRegister.MASK, EventRegister.IRQ_MASK, EventRegister.SW_EVENTS_MASK):
        for first, way in product(range(len(words)), range(3)):
            # words to clear or set are independent of the contents
            await store_words(env, register + WORD_BYTES * way, rotated[first - 5 * way], register)
    await env.enable(WORD_MASK)
    cores, events = env.config.cores, range(env.config.sw_events)
    lines = {"dma_events": env.all_cores, "dma_interrupts": env.all_cores, "timer_events": 3, "cluster_events": 3}
    for chosen in rotated:
        for triggered in (events[at : at + cores] for at in events[::cores]):
            triggers = [store(EventRegister.SW_TRIGGER + WORD_BYTES * event, 0) for event in triggered]
            await env.step(dict(enumerate(triggers)))
        await env.step({0: store(EventRegister.BARRIER + Barrier.TRIGGER, env.all_cores)}, lines)
        await env.idle(1)
        await store_words(env, EventRegister.BUFFER_CLEAR, chosen, EventRegister.BUFFER)


@unit_test(env=EventUnitEnv)
async def every_core_triggers_for_any(env: EventUnitEnv) -> None:
    """At every barrier each core triggers for sets of cores; for any two cores, a set contains one of them only."""
    await env.enable(0)
    cores, all_cores = env.config.cores, env.all_cores
    sets = list(dict.fromkeys(word & all_cores for word in separating_words(env.rng)))
    for barrier, core in product(range(env.config.barriers), range(cores)):
        registers = EventRegister.BARRIER + isa.BARRIER_BYTES * barrier
        await env.step({core: store(registers + Barrier.TRIGGER_MASK, all_cores)})
        for named in sets:
            await env.step({core: store(registers + Barrier.TRIGGER, named)})
            await env.idle(1)
            await env.step({core: Access(registers + Barrier.STATUS)})
            await env.step({core: store(registers + Barrier.TRIGGER, all_cores)})


@unit_test(env=EventUnitEnv)
async def interrupted_waits_are_repeated(env: EventUnitEnv) -> None:
    """A halt request aborts each waiting load; the repeated load triggers nothing, but another access does."""
    all_cores = env.all_cores if env.config.core.debug else 0
    await env.enable(0)
    waits = [Access(offset) for offset in waiting_offsets(env.config)]
    others = [Access(offset) for offset in (EventRegister.MUTEX, EventRegister.DISPATCH_FIFO, EventRegister.MASK)]
    for first in waits if all_cores else ():
        for second, between in product((first, env.rng.choice(waits)), (*others, env.rng.choice(waits))):
            for access in (first, between, second):
                await env.all_access(access)
                await env.step(halting=all_cores)
                # accesses in debug mode
                debug = dict.fromkeys(env.cores, env.rng.choice(waits))
                await env.step(debug, debugging=all_cores)
                await env.step(debugging=all_cores)
            cleared = store(EventRegister.BUFFER_CLEAR, WORD_MASK)
            for access in (Access(EventRegister.BUFFER), cleared):
                await env.idle(2)
                await env.all_access(access)


@unit_test(env=EventUnitEnv)
async def mutex_goes_to_the_lowest_core(env: EventUnitEnv) -> None:
    """All cores lock at once: they get the mutex in order, each with the message of the previous owner."""
    cores, order = env.cores, list[tuple[int | None, int | None]]()
    arriving = {core: Access(EventRegister.MUTEX) for core in cores}
    for _ in cores:
        order += [(core, data) for core, (_, data) in (await env.answers_after(arriving)).items() if data is not None]
        owner = order[-1][0]
        assert owner is not None
        arriving = {owner: store(EventRegister.MUTEX, 100 + owner)}
    await env.answers_after(arriving)
    env.board.equal(order, [(core, 99 + core if core else 0) for core in cores], "order and messages")


@unit_test(env=EventUnitEnv)
async def nothing_else_is_a_mutex(env: EventUnitEnv) -> None:
    """Loads one address bit away from a free mutex do not lock it; such stores do not free a locked one."""
    cores = env.cores
    mutexes = [EventRegister.MUTEX + WORD_BYTES * number for number in range(env.config.mutexes)]
    # loads of the dispatch queue would wait
    others = [offset for offset in near_offsets(mutexes) if offset != EventRegister.DISPATCH_FIFO]
    for offset in others:
        await env.step({core: Access(offset) for core in cores})
    await env.idle(2)
    for offset in mutexes:
        locked = await env.answers_after({cores[-1]: Access(offset)})
        env.board.equal(locked, {cores[-1]: (2, 0)}, "a mutex that is free")
    for offset in others:
        await env.step({core: store(offset, WORD_MASK) for core in cores})
    await env.idle(2)
    for offset in mutexes:
        env.board.equal(await env.answers_after({0: Access(offset)}), {}, "a mutex that is locked")
        await env.answers_after({cores[-1]: store(offset, 0)})


@unit_test(env=EventUnitEnv)
async def dispatch_keeps_order_and_waits_for_room(env: EventUnitEnv) -> None:
    """A team pops words in order; a push into a full queue is answered when the slowest core has popped."""
    last, depth = env.config.cores - 1, env.config.dispatch_depth
    await env.answers_after({0: store(EventRegister.DISPATCH_TEAM, 1 << last)})
    for number in range(depth):
        env.board.equal(
            0 in await env.answers_after({0: store(EventRegister.DISPATCH_FIFO, number)}), True, "a push with room"
        )
    full = Access(EventRegister.DISPATCH_FIFO, True, depth)
    if last:
        env.board.equal(await env.answers_after({0: full}), {}, "a push without room")
        popped = await env.answers_after({last: Access(EventRegister.DISPATCH_FIFO)})
        env.board.equal(popped, {last: (2, 0), 0: (3, None)}, "the first word, and the push behind it")
    for number in range(1, depth + (last > 0)):
        popped = await env.answers_after({last: Access(EventRegister.DISPATCH_FIFO)})
        env.board.equal(popped[last][1], number, "a word")


@unit_test(distance=[-2, -1, 0, 1, 2, 3], env=EventUnitEnv)
async def no_event_is_lost_in_a_race(env: EventUnitEnv, distance: int) -> None:
    """An event ``distance`` cycles after a clear, a waiting load or a change of the mask is reported exactly once."""
    line = 1 << EventLine.TIMER_LOW
    clearing = {0: Access(EventRegister.WAIT_CLEAR)}
    for access in (
        store(EventRegister.BUFFER_CLEAR, line),
        store(EventRegister.MASK, line),
        Access(EventRegister.BUFFER),
        Access(EventRegister.WAIT),
    ):
        await env.reset()
        await env.step({0: store(EventRegister.MASK, line)})
        for cycle in range(-3, 5):
            accesses = {0: access} if cycle == 0 else {}
            await env.step(accesses, {"timer_events": int(cycle == distance)})
        # the clear removes the events that are in the buffer by then
        gone = access.offset == EventRegister.BUFFER_CLEAR and distance < 0
        answers = await env.answers_after(clearing)
        env.board.equal(answers, {} if gone else {0: (2, line)}, f"the event after {access}")
        if not gone:
            env.board.equal(await env.answers_after(clearing), {}, "the event told twice")


@unit_test(env=EventUnitEnv)
async def stores_of_one_cycle_to_one_register(env: EventUnitEnv) -> None:
    """The lowest core wins if several store to a register in one cycle; the triggers of all cores count."""
    cores = env.cores
    lowest = min(1, cores[-1])
    for offset in (
        EventRegister.BARRIER + Barrier.TRIGGER_MASK,
        EventRegister.BARRIER + Barrier.TARGET_MASK,
        EventRegister.DISPATCH_TEAM,
    ):
        await env.step({core: store(offset, 1 << core) for core in cores[lowest:]})
        env.board.equal((await env.answers_after({0: Access(offset)}))[0], (1, 1 << lowest), f"{offset:#x}")
    await env.step({core: store(EventRegister.MUTEX, core + 7) for core in cores[lowest:]})
    locked = await env.answers_after({0: Access(EventRegister.MUTEX)})
    env.board.equal(locked, {0: (2, lowest + 7)}, "message of the mutex")
    await env.step({0: store(EventRegister.BARRIER + Barrier.TRIGGER_MASK, 0)})
    trigger = EventRegister.BARRIER + Barrier.TRIGGER
    await env.step({core: store(trigger, 1 << core) for core in cores})
    status = await env.answers_after({0: Access(EventRegister.BARRIER + Barrier.STATUS)})
    env.board.equal(status, {0: (1, (1 << len(cores)) - 1)}, "status of the barrier")
