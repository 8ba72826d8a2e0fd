"""Random accesses of all cores and random events for the event unit."""

from collections.abc import Sequence
from random import Random

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.event_unit_env import CycleInputs, EventUnitEnv
from xpulpnn_sim.reference.golden.event_unit import Access
from xpulpnn_sim.reference.stimuli import OFFSET_BITS

_IMPATIENCE = 0.02  # probability that a waiting core requests again
_REGISTERS = range(0, EventRegister.WAIT, WORD_BYTES)
_BARRIER_REGISTERS = range(0, isa.BARRIER_BYTES, WORD_BYTES)

HABITS: dict[str, dict[str, int]] = {
    "everything": {
        "registers": 4,
        "waits": 2,
        "barriers": 3,
        "sw": 3,
        "mutex": 2,
        "dispatch": 3,
        "unmapped": 1,
        "near": 4,
    },
    "barriers": {"registers": 1, "barriers": 8},
    "events": {"registers": 3, "waits": 3, "sw": 4, "near": 2},
    "mutex": {"mutex": 8, "registers": 1, "near": 2},
    "dispatch": {"dispatch": 8, "registers": 1, "near": 2},
}
"""Relative frequency of accesses to each register."""


def store(offset: int, data: int) -> Access:
    return Access(offset, True, data)


class RandomTraffic:
    def __init__(self, rng: Random, config: ClusterConfig, habit: str) -> None:
        self._rng, self._config = rng, config
        self._kinds = list(HABITS[habit])
        self._weights = list(HABITS[habit].values())
        self._rate = rng.choice((0.1, 0.4, 0.9))
        self._held: dict[int, Access] = {}
        """Requests not yet granted, which must stay unchanged until then."""
        self._halting, self._debugging = 0, 0

    def cycle_inputs(self, env: EventUnitEnv) -> CycleInputs:
        """Return the inputs of a cycle: accesses of cores without a pending access, event pulses, fetches."""
        rng = self._rng
        free = env.free()
        rates = {core: self._rate if core in free else _IMPATIENCE for core in range(self._config.cores)}
        accesses = {core: self._access() for core, rate in rates.items() if rng.random() < rate}
        if self._config.core.debug:
            # a core that resumes repeats its access
            again = {core: Access(env.model.cores[core].waited_at) for core in accesses if rng.random() < 0.4}
            accesses |= again
            self._halt(free)
        accesses |= self._held
        self._held = {core: access for core, access in accesses.items() if core not in free}
        all_cores = (1 << self._config.cores) - 1
        lines = {name: self._cores() & all_cores for name in ("dma_events", "dma_interrupts") if rng.random() < 0.05}
        lines |= {name: rng.randrange(1, 4) for name in ("timer_events", "cluster_events") if rng.random() < 0.03}
        shared = self._shared() if rng.random() < 0.3 and not env.model.shared_busy else None
        fetching = rng.getrandbits(self._config.cores)
        return CycleInputs(accesses, lines, shared, fetching, self._halting, self._debugging)

    def _halt(self, free: Sequence[int]) -> None:
        """Raise halt requests at random; a core that does not wait enters debug mode, and leaves it again."""
        for core in range(self._config.cores):
            bit, draw = 1 << core, self._rng.random()
            if self._debugging & bit:
                self._debugging ^= bit * (draw < 0.2)
            elif self._halting & bit and core in free and draw < 0.5:
                self._halting, self._debugging = self._halting ^ bit, self._debugging | bit
            elif draw < 0.02:
                self._halting |= bit

    async def wake(self, env: EventUnitEnv) -> None:
        """Raise an event for every waiting core through the shared view."""
        cores = self._config.cores
        masks = [store(isa.SHARED_CORE_BYTES * core + EventRegister.MASK, WORD_MASK) for core in range(cores)]
        for access in (*masks, store(isa.SHARED_SW_TRIGGERS, 0)):
            while env.model.shared_busy:
                await env.step(CycleInputs(self._held))
            await env.step(CycleInputs(self._held, shared=access))

    def _cores(self) -> int:
        all_cores = (1 << self._config.cores) - 1
        return self._rng.choice((all_cores, all_cores, self._rng.getrandbits(isa.MAX_CORES), self._rng.getrandbits(2)))

    def _data(self) -> int:
        rng = self._rng
        return rng.choice((WORD_MASK, rng.getrandbits(32), rng.getrandbits(32) | rng.getrandbits(32), self._cores()))

    def _access(self) -> Access:
        rng, config = self._rng, self._config
        kind = rng.choices(self._kinds, self._weights)[0]
        writes = rng.random() < 0.5
        match kind:
            case "registers":
                # events may arrive in the cycle in which they are cleared
                often = (EventRegister.BUFFER_CLEAR, EventRegister.MASK)
                return Access(rng.choice((*_REGISTERS, *often, *often)), writes, self._data())
            case "waits":
                return Access(rng.choice((EventRegister.WAIT, EventRegister.WAIT_CLEAR)))
            case "barriers":
                offset = EventRegister.BARRIER + isa.BARRIER_BYTES * rng.randrange(config.barriers)
                # waiting triggers are drawn more often
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
                # one bit away from a register
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
