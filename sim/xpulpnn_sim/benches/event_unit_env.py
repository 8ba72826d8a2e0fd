"""Environment of the event unit: drives unit and model cycle by cycle and compares every output; random traffic."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents import Dut, PortDriver, Scoreboard, pulse_reset, sample
from xpulpnn_sim.benches.launcher_data import configuration
from xpulpnn_sim.reference.golden.event_unit import Access, Answer, EventUnitModel
from xpulpnn_sim.reference.stimuli import OFFSET_BITS

_LONGEST = 12  # cycles within which every answerable access is answered, however many cores wait


def store(offset: int, data: int) -> Access:
    return Access(offset, True, data)


class EventUnitEnv:
    def __init__(self, dut: Dut, rng: Random) -> None:
        config: ClusterConfig = configuration()
        self.dut, self.rng, self.config, self.model = dut, rng, config, EventUnitModel(config)
        self.cores, self.all_cores = range(config.cores), (1 << config.cores) - 1
        self.board, self.cycle, self.answers = Scoreboard(), 0, list[Answer]()
        ports: dict[int | None, str] = {core: f"cores__{core}__" for core in self.cores}
        ports[None] = "shared__"
        self._drivers = {port: PortDriver(dut, name) for port, name in ports.items()}
        self._seen = {
            port: {field: getattr(dut, name + field) for field in ("rvalid", "gnt", "err", "rdata")}
            for port, name in ports.items()
        }
        self._inputs = PortDriver(dut)

    async def reset(self) -> None:
        self._request({}, None)
        await pulse_reset(self.dut)
        self.model, self.answers = EventUnitModel(self.config), []

    def free(self) -> list[int]:
        waiting = self.model.waiting()
        return [core for core in self.cores if not waiting >> core & 1]

    async def step(
        self,
        accesses: Mapping[int, Access] = {},
        lines: Mapping[str, int] = {},
        shared: Access | None = None,
        fetching: int = 0,
        halting: int = 0,
        debugging: int = 0,
    ) -> list[Answer]:
        """Execute one cycle; return the responses in it.

        ``accesses`` are those of cores; a core that waits may request one too, which is not granted. ``lines`` are
        event lines, ``shared`` is an access through the shared registers. ``fetching``, ``halting`` and ``debugging``
        are bit masks of cores with an outstanding fetch, with a halt request, and in debug mode.
        """
        inputs = (accesses, lines, shared, fetching, halting, debugging)
        self._request(accesses, shared)
        names = ("timer_events", "cluster_events", *(("dma_events", "dma_interrupts") if self.config.dma else ()))
        self._inputs.drive(**{name: lines.get(name, 0) for name in names}, fetch_idle=~fetching & self.all_cores)
        if self.config.core.debug:
            self._inputs.drive(halt=halting | debugging, debug_mode=debugging)
        await FallingEdge(self.dut.clk)
        self._compare(fetching, halting | debugging, f"in cycle {self.cycle} with {inputs}")
        seen, free = self.answers, self.free()
        granted = {core: access for core, access in accesses.items() if core in free}
        self.answers = self.model.cycle(granted, self._events(lines), shared, fetching, halting, debugging)
        await RisingEdge(self.dut.clk)
        self.cycle += 1
        return seen

    async def all_access(self, access: Access, **inputs: Any) -> list[Answer]:
        return await self.step(dict.fromkeys(self.cores, access), **inputs)

    async def idle(self, cycles: int) -> list[Answer]:
        return [answer for _ in range(cycles) for answer in await self.step()]

    def _request(self, accesses: Mapping[int, Access], shared: Access | None) -> None:
        for port, driven in self._drivers.items():
            access = shared if port is None else accesses.get(port)
            driven.drive(req=int(access is not None))
            if access is not None:
                base = isa.EVENT_UNIT if port is None else isa.PRIVATE_EVENT_UNIT
                driven.drive(addr=base + access.offset, we=int(access.write), wdata=access.data, be=15)

    def _events(self, lines: Mapping[str, int]) -> list[tuple[int, int]]:
        own = {"dma_events": EventLine.DMA, "dma_interrupts": EventLine.DMA_INTERRUPT}
        common = {"timer_events": EventLine.TIMER_LOW, "cluster_events": EventLine.CLUSTER}
        events = [
            (core, int(line)) for name, line in own.items() for core in self.cores if lines.get(name, 0) >> core & 1
        ]
        for name, first in common.items():
            events += [(core, first + bit) for bit in range(2) for core in self.cores if lines.get(name, 0) >> bit & 1]
        return events

    def _compare(self, fetching: int, halting: int, where: str) -> None:
        dut, model = self.dut, self.model
        got: dict[str, int] = {name: sample(getattr(dut, name)) for name in ("irq", "core_clock_en")}
        want = {"irq": model.interrupts(), "core_clock_en": model.awake(fetching, halting)}
        expected = {answer.core: answer for answer in self.answers}
        waiting = model.waiting()
        for port, seen in self._seen.items():
            answer = expected.get(port)
            busy = model.shared_busy if port is None else waiting >> port & 1
            expected_port = {"rvalid": int(answer is not None), "gnt": int(not busy)}
            if answer is not None:
                expected_port |= {"err": int(answer.error)} | ({} if answer.data is None else {"rdata": answer.data})
            got |= {f"{port} {name}": sample(seen[name]) for name in expected_port}
            want |= {f"{port} {name}": value for name, value in expected_port.items()}
        differing = [name for name in want if got[name] != want[name]]
        self.board.equal({name: got[name] for name in differing}, {name: want[name] for name in differing}, where)

    async def enable(self, mask: int) -> None:
        await self.all_access(store(EventRegister.MASK, mask))
        for register in (Barrier.TRIGGER_MASK, Barrier.TARGET_MASK):
            await self.step({0: store(EventRegister.BARRIER + register, self.all_cores)})
        await self.idle(1)

    async def answers_after(self, accesses: Mapping[int, Access]) -> dict[int | None, tuple[int, int | None]]:
        """Make accesses in one cycle; return, by core, cycle and data of each response in the following cycles."""
        await self.step(accesses)
        answers: dict[int | None, tuple[int, int | None]] = {}
        for cycle in range(1, _LONGEST):
            answers |= {answer.core: (cycle, answer.data) for answer in await self.idle(1)}
        return answers


def waiting_offsets(config: ClusterConfig) -> list[int]:
    triggers = (EventRegister.SW_TRIGGER_WAIT, EventRegister.SW_TRIGGER_WAIT_CLEAR)
    barriers = (EventRegister.BARRIER + isa.BARRIER_BYTES * number for number in range(config.barriers))
    offsets = [EventRegister.WAIT, EventRegister.WAIT_CLEAR]
    offsets += [group + WORD_BYTES * event for group in triggers for event in range(config.sw_events)]
    return offsets + [base + at for base in barriers for at in (Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR)]


_IMPATIENCE = 0.02  # probability that a waiting core requests again
_REGISTERS = range(0, EventRegister.WAIT, WORD_BYTES)
_BARRIER_REGISTERS = range(0, isa.BARRIER_BYTES, WORD_BYTES)

HABITS: dict[str, dict[str, int]] = {
    "everything": dict.fromkeys(("registers", "waits", "barriers", "sw", "mutex", "dispatch", "unmapped", "near"), 1),
    "barriers": {"registers": 1, "barriers": 8},
    "events": {"registers": 3, "waits": 3, "sw": 4, "near": 2},
    "mutex": {"mutex": 8, "registers": 1, "near": 2},
    "dispatch": {"dispatch": 8, "registers": 1, "near": 2},
}
"""Relative frequency of accesses to each register."""


class RandomTraffic:
    def __init__(self, env: EventUnitEnv, habit: str) -> None:
        self._rng, self._env, self._config = env.rng, env, env.config
        self._kinds, self._weights = list(HABITS[habit]), list(HABITS[habit].values())
        self._rate = self._rng.choice((0.1, 0.4, 0.9))
        self._held: dict[int, Access] = {}
        """Requests not yet granted, which must stay unchanged until then."""
        self._halting, self._debugging = 0, 0

    async def step(self) -> None:
        """Execute a cycle with accesses of cores without a pending access, event pulses and fetches."""
        rng, env = self._rng, self._env
        free = env.free()
        rates = {core: self._rate if core in free else _IMPATIENCE for core in env.cores}
        accesses = {core: self._access() for core, rate in rates.items() if rng.random() < rate}
        if self._config.core.debug:
            # a core that resumes repeats its access
            again = {core: Access(env.model.cores[core].waited_at) for core in accesses if rng.random() < 0.4}
            accesses |= again
            self._halt(free)
        accesses |= self._held
        self._held = {core: access for core, access in accesses.items() if core not in free}
        lines = {
            name: self._cores() & env.all_cores for name in ("dma_events", "dma_interrupts") if rng.random() < 0.05
        }
        lines |= {name: rng.randrange(1, 4) for name in ("timer_events", "cluster_events") if rng.random() < 0.03}
        shared = self._shared() if rng.random() < 0.3 and not env.model.shared_busy else None
        fetching = rng.getrandbits(self._config.cores)
        await env.step(accesses, lines, shared, fetching, self._halting, self._debugging)

    def _halt(self, free: Sequence[int]) -> None:
        for core in self._env.cores:
            bit, draw = 1 << core, self._rng.random()
            if self._debugging & bit:
                self._debugging ^= bit * (draw < 0.2)
            elif self._halting & bit and core in free and draw < 0.5:
                self._halting, self._debugging = self._halting ^ bit, self._debugging | bit
            elif draw < 0.02:
                self._halting |= bit

    async def wake(self) -> None:
        masks = [isa.SHARED_CORE_BYTES * core + EventRegister.MASK for core in self._env.cores]
        for access in (*(store(mask, WORD_MASK) for mask in masks), store(isa.SHARED_SW_TRIGGERS, 0)):
            while self._env.model.shared_busy:
                await self._env.step(self._held)
            await self._env.step(self._held, shared=access)

    def _cores(self) -> int:
        every = self._env.all_cores
        return self._rng.choice((every, every, self._rng.getrandbits(isa.MAX_CORES), self._rng.getrandbits(2)))

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
                groups = (EventRegister.SW_TRIGGER, EventRegister.SW_TRIGGER_WAIT, EventRegister.SW_TRIGGER_WAIT_CLEAR)
                group = rng.choice(groups)
                event = group + WORD_BYTES * rng.randrange(config.sw_events)
                return Access(event, group == EventRegister.SW_TRIGGER or writes, self._cores())
            case "mutex":
                return Access(EventRegister.MUTEX + WORD_BYTES * rng.randrange(config.mutexes), writes, self._data())
            case "dispatch" if rng.random() < 0.3:
                return Access(EventRegister.DISPATCH_TEAM, writes, self._cores())
            case "dispatch":
                return Access(EventRegister.DISPATCH_FIFO, writes, self._data())
            case "near":
                # one bit away from a register
                access = self._access()
                return access._replace(offset=access.offset ^ 1 << rng.choice(OFFSET_BITS))
            case _:
                return Access(rng.randrange(0, isa.BLOCK_BYTES, WORD_BYTES), writes, self._data())

    def _shared(self) -> Access:
        rng = self._rng
        barrier = isa.BARRIER_BYTES * rng.randrange(self._config.barriers) + rng.choice(_BARRIER_REGISTERS)
        offsets = (
            isa.SHARED_CORE_BYTES * rng.randrange(isa.MAX_CORES) + rng.choice(_REGISTERS),
            isa.SHARED_BARRIERS + barrier,
            isa.SHARED_SW_TRIGGERS + WORD_BYTES * rng.randrange(self._config.sw_events),
            rng.randrange(0, 3 * isa.BLOCK_BYTES, WORD_BYTES),
        )
        return Access(rng.choice(offsets), rng.random() < 0.6, self._data())
