"""Environment of the event unit: drives unit and model cycle by cycle and compares every output."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import BARRIER_BYTES, EVENT_UNIT, PRIVATE_EVENT_UNIT, Barrier, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.benches.agents.base import Dut, PortDriver, pulse_reset, sample
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import configuration
from xpulpnn_sim.reference.golden.event_unit import Access, Answer, EventUnitModel

_LONGEST = 12  # cycles within which every answerable access is answered, however many cores wait


@dataclass(frozen=True, slots=True)
class CycleInputs:
    """Inputs of a cycle: accesses by core, event lines, an access of the shared view, outstanding fetches."""

    # a waiting core may request too, but is not granted

    accesses: Mapping[int, Access] = field(default_factory=dict[int, Access])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    shared: Access | None = None
    fetching: int = 0
    halting: int = 0  # cores with a halt request; only with debug mode
    debugging: int = 0  # cores in debug mode


class EventUnitEnv:
    """Drives the event unit and its model cycle by cycle and compares every output."""

    def __init__(self, dut: Dut) -> None:
        config: ClusterConfig = configuration()
        self.dut, self.config, self.model = dut, config, EventUnitModel(config)
        self.board, self.cycle, self.answers = Scoreboard(), 0, list[Answer]()
        ports: dict[int | None, str] = {core: f"cores__{core}__" for core in range(config.cores)}
        ports[None] = "shared__"
        self._drivers = {port: PortDriver(dut, name) for port, name in ports.items()}
        self._seen = {
            port: {field: getattr(dut, name + field) for field in ("rvalid", "gnt", "err", "rdata")}
            for port, name in ports.items()
        }
        self._inputs = PortDriver(dut)

    async def reset(self) -> None:
        self._request(CycleInputs())
        await pulse_reset(self.dut)
        self.model, self.answers = EventUnitModel(self.config), []

    def free(self) -> list[int]:
        waiting = self.model.waiting()
        return [core for core in range(self.config.cores) if not waiting >> core & 1]

    async def step(self, now: CycleInputs) -> list[Answer]:
        """Execute one cycle; return the responses in it."""
        self._request(now)
        names = ("timer_events", "cluster_events", *(("dma_events", "dma_interrupts") if self.config.dma else ()))
        lines = {name: now.lines.get(name, 0) for name in names}
        self._inputs.drive(**lines, fetch_idle=~now.fetching & (1 << self.config.cores) - 1)
        if self.config.core.debug:
            self._inputs.drive(halt=now.halting | now.debugging, debug_mode=now.debugging)
        await FallingEdge(self.dut.clk)
        self._compare(now)
        seen, model = self.answers, self.model
        granted = {core: access for core, access in now.accesses.items() if core in self.free()}
        debug = now.halting, now.debugging
        self.answers = model.cycle(granted, self._events(now.lines), now.shared, now.fetching, *debug)
        await RisingEdge(self.dut.clk)
        self.cycle += 1
        return seen

    async def idle(self, cycles: int) -> list[Answer]:
        return [answer for _ in range(cycles) for answer in await self.step(CycleInputs())]

    def _request(self, now: CycleInputs) -> None:
        for port, driven in self._drivers.items():
            access = now.shared if port is None else now.accesses.get(port)
            driven.drive(req=int(access is not None))
            if access is not None:
                base = EVENT_UNIT if port is None else PRIVATE_EVENT_UNIT
                driven.drive(addr=base + access.offset, we=int(access.write), wdata=access.data, be=15)

    def _events(self, lines: Mapping[str, int]) -> list[tuple[int, int]]:
        own = {"dma_events": EventLine.DMA, "dma_interrupts": EventLine.DMA_INTERRUPT}
        common = {"timer_events": EventLine.TIMER_LOW, "cluster_events": EventLine.CLUSTER}
        cores = range(self.config.cores)
        events = [(core, int(line)) for name, line in own.items() for core in cores if lines.get(name, 0) >> core & 1]
        for name, first in common.items():
            events += [(core, first + bit) for bit in range(2) for core in cores if lines.get(name, 0) >> bit & 1]
        return events

    def _compare(self, now: CycleInputs) -> None:
        dut, model, where = self.dut, self.model, f"in cycle {self.cycle} with {now}"
        got = {name: sample(getattr(dut, name)) for name in ("irq", "core_clock_en")}
        want = {"irq": model.interrupts(), "core_clock_en": model.awake(now.fetching, now.halting | now.debugging)}
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


def waiting_offsets(config: ClusterConfig) -> list[int]:
    triggers = (EventRegister.SW_TRIGGER_WAIT, EventRegister.SW_TRIGGER_WAIT_CLEAR)
    barriers = (EventRegister.BARRIER + BARRIER_BYTES * number for number in range(config.barriers))
    offsets = [EventRegister.WAIT, EventRegister.WAIT_CLEAR]
    offsets += [group + WORD_BYTES * event for group in triggers for event in range(config.sw_events)]
    return offsets + [base + at for base in barriers for at in (Barrier.TRIGGER_WAIT, Barrier.TRIGGER_WAIT_CLEAR)]


async def answers_after(env: EventUnitEnv, accesses: dict[int, Access]) -> dict[int | None, tuple[int, int | None]]:
    """Make accesses in one cycle; return cycle and data of each response in the following cycles."""
    await env.step(CycleInputs(accesses))
    answers: dict[int | None, tuple[int, int | None]] = {}
    for cycle in range(1, _LONGEST):
        answers |= {answer.core: (cycle, answer.data) for answer in await env.idle(1)}
    return answers
