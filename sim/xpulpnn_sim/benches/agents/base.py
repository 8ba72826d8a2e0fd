"""Clock, reset, driving, sampling, and the base class of all agents.

Inputs change right after the rising edge; ports are sampled at the falling edge, when all signals have settled. The
next rising edge sees the sampled values, on every simulator. A unit without a clock is driven and sampled at the same
times.
"""

from collections import namedtuple
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Self

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer

from xpulpnn_sim.benches.launcher_data import CLOCK_NS, bench_data, seed_from_environment

SETTLE_NS = 1  # time after which outputs that depend on the new inputs are stable; before the middle of the cycle
RESET_CYCLES = 2
Dut = Any  # handle of the unit under test or of a port; ports are attributes known at run time only


async def half_cycle(dut: Dut, *, rising: bool) -> None:
    """Wait for the next rising or falling edge, or half a period of a unit without a clock."""
    if hasattr(dut, "clk"):
        await (RisingEdge(dut.clk) if rising else FallingEdge(dut.clk))
    else:
        await Timer(CLOCK_NS // 2, unit="ns")


async def pulse_reset(dut: Dut, cycles: int = RESET_CYCLES) -> None:
    """Hold reset for some cycles; return right after the rising edge that ends it."""
    port, active = (dut.rst, 1) if hasattr(dut, "rst") else (dut.rst_n, 0)
    port.value = active
    await ClockCycles(dut.clk, cycles)
    port.value = 1 - active


async def start(dut: Dut, *inputs: str) -> Random:
    """Start the clock and reset the unit; return the source of all random stimuli.

    Before the reset ``inputs`` are driven to 0. By default these are the inputs that ``verify unit`` found; other runs
    have no default, since simulators do not tell cocotb the direction of a port. The clock, if any, is ``clk``
    with a period of 10 ns; the reset, if any, is ``rst``, active high, or ``rst_n``, active low, for two cycles.
    """
    for name in inputs or bench_data()["inputs"]:
        getattr(dut, name).value = 0
    if hasattr(dut, "clk"):
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        has_reset = any(hasattr(dut, name) for name in ("rst", "rst_n"))
        await (pulse_reset(dut) if has_reset else RisingEdge(dut.clk))
    else:
        await half_cycle(dut, rising=True)
    return Random(seed_from_environment())


async def wait_until(dut: Dut, condition: Callable[[], object], limit: int, event: str) -> int:
    """Wait until ``condition`` holds at a falling edge, then for the end of that cycle; return the number of cycles.

    Raises ``AssertionError``, which names ``event``, if it does not hold within ``limit`` cycles.
    """
    for cycle in range(1, limit + 1):
        await FallingEdge(dut.clk)
        holds = condition()
        await RisingEdge(dut.clk)
        if holds:
            return cycle
    raise AssertionError(f"{event} not within {limit} cycles (seed {seed_from_environment()})")


@contextmanager
def background(coroutine: Coroutine[Any, Any, None]) -> Iterator[None]:
    task = cocotb.start_soon(coroutine)
    try:
        yield
    finally:
        task.cancel()


def drive(dut: Dut, ports: Mapping[str, int]) -> None:
    """Set inputs, by port name."""
    for port, value in ports.items():
        getattr(dut, port).value = value


def sample(handle: Dut) -> int:
    """Return the value of a port; raise ``ValueError`` for an undefined bit."""
    # the raw digits, as cocotb's objects for single bits would take most of the time of a bench
    return int(handle._handle.get_signal_val_binstr(), 2)


class PortDriver:
    """The only writer of some ports with a common prefix; skips unchanged values to save time."""

    def __init__(self, dut: Dut, prefix: str = "") -> None:
        self.values: dict[str, int] = {}
        self._dut, self._prefix = dut, prefix
        self._handles: dict[str, Dut] = {}

    def drive(self, **values: int) -> None:
        """Set ports, by name without the prefix."""
        for name, value in values.items():
            if self.values.get(name) != value:
                self.values[name] = value
                if name not in self._handles:
                    self._handles[name] = getattr(self._dut, self._prefix + name)
                self._handles[name].value = value


class Agent:
    """Driver and monitor of some ports, active in a ``with`` block.

    A subclass overrides methods: :meth:`drive`, :meth:`respond` and :meth:`sample` run in every cycle, :meth:`release`
    at the end.
    """

    responds = False  # :meth:`respond` is called too

    def __init__(self, dut: Dut) -> None:
        self._clk = dut.clk
        self._agents: Sequence[Agent] = [self]

    def drive(self) -> None:
        """Drive ports right after the rising edge."""

    def respond(self) -> None:
        """Drive ports that depend on outputs of the unit in this cycle, once these outputs have settled."""

    def sample(self) -> None:
        """Sample ports at the falling edge."""

    def release(self) -> None:
        """Drive ports to their idle values."""

    def __enter__(self) -> Self:
        self._task = cocotb.start_soon(self._run())
        return self

    def __exit__(self, *error: object) -> None:
        self._task.cancel()
        for agent in self._agents:
            agent.release()

    async def _run(self) -> None:
        responding = [agent for agent in self._agents if agent.responds]
        while True:
            for agent in self._agents:
                agent.drive()
            if responding:
                await Timer(SETTLE_NS, unit="ns")
            for agent in responding:
                agent.respond()
            await FallingEdge(self._clk)
            for agent in self._agents:
                agent.sample()
            await RisingEdge(self._clk)


class AgentGroup(Agent):
    """Agents that one coroutine runs in the given order, which is faster than a coroutine for each."""

    def __init__(self, dut: Dut, agents: Sequence[Agent]) -> None:
        super().__init__(dut)
        self._agents = agents


class PortMonitor(Agent):
    """Samples ports in every cycle; a row of :attr:`rows` is a named tuple of their values."""

    def __init__(self, dut: Dut, ports: Sequence[str]) -> None:
        super().__init__(dut)
        self.rows: list[Any] = []  # values of the ports in each cycle, by port name
        self._row, self._ports = namedtuple("Row", ports), [getattr(dut, name) for name in ports]

    def sample(self) -> None:
        self.rows.append(self._row(*map(sample, self._ports)))
