"""Clock, reset, driving and sampling, the same in every bench.

Cadence: inputs change right after the rising edge, ports are sampled at the falling edge, when everything has settled.
What is sampled there is what the next rising edge sees, on every simulator. A unit without a clock keeps the same
cadence with plain delays.
"""

from collections import namedtuple
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Self

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, Timer

from xpulpnn_sim.benches.handover import bench_data, seed_from_environment

CLOCK_NS = 10
SETTLE_NS = 1  # time after which outputs that depend on the new inputs are stable; before the middle of the cycle
RESET_CYCLES = 2
Dut = Any  # handle of the unit under test or of a port; ports are attributes known at run time only
Columns = Mapping[str, npt.ArrayLike]  # one array per port; position = beat


async def half_beat(dut: Dut, *, rising: bool) -> None:
    """Wait for the next rising or falling edge, or half a period of a unit that is emitted without a clock."""
    if hasattr(dut, "clk"):
        await (RisingEdge(dut.clk) if rising else FallingEdge(dut.clk))
    else:
        await Timer(CLOCK_NS // 2, unit="ns")


async def pulse_reset(dut: Dut, cycles: int = RESET_CYCLES) -> None:
    """Hold reset for some cycles; returns right after the rising edge that ends it."""
    dut.rst.value = 1
    await ClockCycles(dut.clk, cycles)
    dut.rst.value = 0


async def start(dut: Dut) -> Random:
    """Drive all inputs to 0, start the clock and reset the unit; returns the source of all random stimuli."""
    for name in bench_data()["inputs"]:
        getattr(dut, name).value = 0
    if hasattr(dut, "clk"):
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        await pulse_reset(dut)
    else:
        await half_beat(dut, rising=True)
    return Random(seed_from_environment())


async def until(dut: Dut, holds: Callable[[], object], limit: int, what: str) -> int:
    """Wait for the end of a cycle in the middle of which something holds; returns its number, from 1 on."""
    for cycle in range(1, limit + 1):
        await FallingEdge(dut.clk)
        held = holds()
        await RisingEdge(dut.clk)
        if held:
            return cycle
    raise AssertionError(f"{what} not within {limit} cycles (seed {seed_from_environment()})")


def drive(dut: Dut, ports: Mapping[str, int]) -> None:
    """Set ports by name."""
    for port, value in ports.items():
        getattr(dut, port).value = value


class Driven:
    """Ports that one part of a bench alone drives: a value that stays is not driven again, which saves time."""

    def __init__(self, dut: Dut, prefix: str = "") -> None:
        self.values: dict[str, int] = {}
        self._dut, self._prefix = dut, prefix
        self._handles: dict[str, Dut] = {}

    def drive(self, **values: int) -> None:
        """Set ports by the rest of their names."""
        for name, value in values.items():
            if self.values.get(name) != value:
                self.values[name] = value
                if name not in self._handles:
                    self._handles[name] = getattr(self._dut, self._prefix + name)
                self._handles[name].value = value


def sample(handle: Dut) -> int:
    """The value of a port, one bit or many; raises ``ValueError`` for an undefined bit."""
    # the digits themselves: most of the time of a bench would be spent on objects of cocotb for single bits
    return int(handle._handle.get_signal_val_binstr(), 2)


async def run_vectors(dut: Dut, stimulus: Columns, outputs: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Drive the rows of ``stimulus``, one per beat from the current one on; ``outputs`` sampled in the same beats."""
    inputs = [getattr(dut, name) for name in stimulus]
    observed: dict[str, list[int]] = {name: [] for name in outputs}
    sampled = [(getattr(dut, name), values) for name, values in observed.items()]
    current: tuple[int | None, ...] = (None,) * len(inputs)
    for row in zip(*(np.asarray(column).tolist() for column in stimulus.values()), strict=True):
        for handle, old, new in zip(inputs, current, row, strict=True):
            if old != new:
                handle.value = new
        current = row
        await half_beat(dut, rising=False)
        for handle, values in sampled:
            values.append(sample(handle))
        await half_beat(dut, rising=True)
    return {name: np.array(values) for name, values in observed.items()}


@contextmanager
def beside(running: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Run a coroutine beside a bench, from the current cycle to the end of the block."""
    task = cocotb.start_soon(running)
    try:
        yield
    finally:
        task.cancel()


class Stepwise:
    """A part of a bench that runs in a ``with`` block: drives ports when a cycle begins, then looks at them."""

    settles = False  # whether it drives ports once more when those that come from registers are stable

    def __init__(self, dut: Dut) -> None:
        self._clk = dut.clk
        self._parts: Sequence[Stepwise] = [self]

    def show(self) -> None:
        """Drive ports."""

    def settle(self) -> None:
        """Drive ports by what registers of the unit show in this cycle."""

    def see(self) -> None:
        """Look at ports."""

    def rest(self) -> None:
        """Drive ports as when there is nothing to do."""

    def __enter__(self) -> Self:
        """Begin in the current cycle."""
        self._task = cocotb.start_soon(self._run())
        return self

    def __exit__(self, *error: object) -> None:
        """End at once."""
        self._task.cancel()
        for part in self._parts:
            part.rest()

    async def _run(self) -> None:
        settling = [part for part in self._parts if part.settles]
        while True:
            for part in self._parts:
                part.show()
            if settling:
                await Timer(SETTLE_NS, unit="ns")
            for part in settling:
                part.settle()
            await FallingEdge(self._clk)
            for part in self._parts:
                part.see()
            await RisingEdge(self._clk)


class Together(Stepwise):
    """Parts in step: one coroutine for all of them, which saves time."""

    def __init__(self, dut: Dut, parts: Sequence[Stepwise]) -> None:
        super().__init__(dut)
        self._parts = parts


class PortMonitor(Stepwise):
    """Samples ports in the middle of every cycle, or of those in which one port is high."""

    def __init__(self, dut: Dut, ports: Sequence[str], valid: str = "") -> None:
        super().__init__(dut)
        self.rows: list[Any] = []  # values of the ports, by the names of these
        self.cycles: list[int] = []
        self.cycle = 0
        self._row, self._ports = namedtuple("Row", ports), [getattr(dut, name) for name in ports]
        self._valid = getattr(dut, valid) if valid else None

    def see(self) -> None:
        """Sample the ports of this cycle."""
        if self._valid is None or sample(self._valid):
            self.rows.append(self._row(*map(sample, self._ports)))
            self.cycles.append(self.cycle)
        else:
            self._skip()
        self.cycle += 1

    def _skip(self) -> None:
        """A cycle that does not count."""


_SHOWN_MISMATCHES = 8


def _exact(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """A column of integers: 64 bits, or Python integers if a port is wider than that."""
    column = np.asarray(values)
    if column.dtype in (np.uint64, np.object_):
        return np.array([int(value) for value in column], dtype=np.object_)
    return column.astype(np.int64)


class Scoreboard:
    """Compares observed with expected values and tells the first differences with their stimulus, unit and seed."""

    def __init__(self) -> None:
        self.unit: str = bench_data()["unit"]
        self.seed = seed_from_environment()

    def compare(
        self,
        expected: Mapping[str, npt.ArrayLike],
        observed: Mapping[str, Any],
        context: Columns | None = None,
        label: str = "",
    ) -> None:
        """Raise ``AssertionError`` if a column of ``expected`` differs anywhere from that of ``observed``."""
        for name, column in expected.items():
            want, got = _exact(column), _exact(observed[name])
            assert want.shape == got.shape, f"{self.unit} {label}: {len(got)} values of {name}, expected {len(want)}"
            wrong = np.flatnonzero(want != got)
            lines = [
                f"\n  [{row}] {name}={got[row]:#x}, expected {want[row]:#x}"
                + "".join(f" {key}={np.asarray(value)[row]:#x}" for key, value in (context or {}).items())
                for row in wrong[:_SHOWN_MISMATCHES]
            ]
            count = f"{len(wrong)} of {len(want)} {name} differ (seed {self.seed})"
            assert not len(wrong), f"{self.unit} {label}: {count}{''.join(lines)}"

    def equal(self, got: object, want: object, where: str) -> None:
        """Raise ``AssertionError`` if ``got`` is not ``want``."""
        assert got == want, f"{self.unit} {where}: got {got}, expected {want} (seed {self.seed})"
