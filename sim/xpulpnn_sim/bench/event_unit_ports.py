"""Drives an event unit cycle by cycle beside its model, and compares every output."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import EVENT_UNIT, PRIVATE_EVENT_UNIT, EventLine
from xpulpnn_sim.bench.cadence import Dut, drive, pulse_reset, sample
from xpulpnn_sim.bench.scoreboard import Scoreboard
from xpulpnn_sim.golden.event_unit import Access, Answer, EventUnit


@dataclass(frozen=True, slots=True)
class Happening:
    """Inputs of one cycle: accesses by core, event lines, an access of the shared view, fetches under way.

    A core that waits may request as well: it is not granted.
    """

    accesses: Mapping[int, Access] = field(default_factory=dict[int, Access])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    shared: Access | None = None
    fetching: int = 0


class EventUnitPorts:
    """Drives one cycle after the other and compares every output with the model."""

    def __init__(self, dut: Dut, config: ClusterConfig) -> None:
        self.dut = dut
        self.config = config
        self.model = EventUnit(config)
        self.board = Scoreboard()
        self.cycle = 0
        self.answers: list[Answer] = []
        self._ports = {core: f"cores__{core}" for core in range(config.cores)}
        self._requests: set[str] = set()

    async def reset(self) -> None:
        """Begin anew; outstanding accesses are forgotten."""
        self._request({})
        await pulse_reset(self.dut)
        self.model, self.answers = EventUnit(self.config), []

    def free(self) -> list[int]:
        """Cores whose access would be granted."""
        waiting = self.model.waiting()
        return [core for core in self._ports if not waiting >> core & 1]

    async def step(self, now: Happening) -> list[Answer]:
        """One cycle; returns the responses seen in it."""
        requests = {self._ports[core]: (access, PRIVATE_EVENT_UNIT) for core, access in now.accesses.items()}
        if now.shared is not None:
            requests["shared"] = now.shared, EVENT_UNIT
        self._request(requests)
        drive(self.dut, {**self._lines(now.lines), "fetch_idle": ~now.fetching & (1 << self.config.cores) - 1})
        await FallingEdge(self.dut.clk)
        self._compare(now)
        seen, model = self.answers, self.model
        granted = {core: access for core, access in now.accesses.items() if core in self.free()}
        self.answers = model.cycle(granted, self._events(now.lines), now.shared, now.fetching)
        await RisingEdge(self.dut.clk)
        self.cycle += 1
        return seen

    async def idle(self, cycles: int) -> list[Answer]:
        """Cycles without anything new; the responses seen in them."""
        return [answer for _ in range(cycles) for answer in await self.step(Happening())]

    def _request(self, requests: Mapping[str, tuple[Access, int]]) -> None:
        for port in self._requests - set(requests):
            drive(self.dut, {f"{port}__req": 0})
        for port, (access, base) in requests.items():
            values = {"req": 1, "addr": base + access.offset, "we": int(access.write), "wdata": access.data, "be": 15}
            drive(self.dut, {f"{port}__{name}": value for name, value in values.items()})
        self._requests = set(requests)

    def _lines(self, lines: Mapping[str, int]) -> dict[str, int]:
        names = ("dma_events", "dma_interrupts", "timer_events", "cluster_events")
        return {name: lines.get(name, 0) for name in names if self.config.dma or not name.startswith("dma")}

    def _events(self, lines: Mapping[str, int]) -> list[tuple[int, int]]:
        """Core and line of every pulse."""
        own = {"dma_events": EventLine.DMA, "dma_interrupts": EventLine.DMA_INTERRUPT}
        common = {"timer_events": EventLine.TIMER_LOW, "cluster_events": EventLine.CLUSTER}
        found = [
            (core, int(line)) for name, line in own.items() for core in self._ports if lines.get(name, 0) >> core & 1
        ]
        for name, first in common.items():
            found += [(core, first + bit) for bit in range(2) for core in self._ports if lines.get(name, 0) >> bit & 1]
        return found

    def _compare(self, now: Happening) -> None:
        dut, model, where = self.dut, self.model, f"in cycle {self.cycle} with {now}"
        got = {name: sample(getattr(dut, name)) for name in ("irq", "core_clock_en")}
        want = {"irq": model.interrupts(), "core_clock_en": model.awake(now.fetching)}
        expected = {answer.core: answer for answer in self.answers}
        granted = model.waiting()
        for core, port in (*self._ports.items(), (None, "shared")):
            answer = expected.get(core)
            got[f"{port}.rvalid"] = sample(getattr(dut, f"{port}__rvalid"))
            want[f"{port}.rvalid"] = int(answer is not None)
            got[f"{port}.gnt"] = sample(getattr(dut, f"{port}__gnt"))
            want[f"{port}.gnt"] = int(not (model.shared_busy if core is None else granted >> core & 1))
            if answer is not None and got[f"{port}.rvalid"]:
                got[f"{port}.err"] = sample(getattr(dut, f"{port}__err"))
                want[f"{port}.err"] = int(answer.error)
            if answer is not None and answer.data is not None and got[f"{port}.rvalid"]:
                got[f"{port}.rdata"] = sample(getattr(dut, f"{port}__rdata"))
                want[f"{port}.rdata"] = answer.data
        if got != want:
            differing = {name: (got[name], want[name]) for name in want if got[name] != want[name]}
            self.board.equal({n: p[0] for n, p in differing.items()}, {n: p[1] for n, p in differing.items()}, where)
