"""Parts every bench is made of: clock and reset, drivers, monitors, scoreboard.

Cadence: a driver changes inputs right after the rising edge, a monitor samples at the falling edge, when everything
has settled. What is sampled there is what the next rising edge sees, on every simulator. A unit without a clock keeps
the same cadence with plain delays.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.task import Task
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotb.types import Logic

from xpulpnn_sim.bench.runner import DATA_VARIABLE, seed_from_environment

CLOCK_NS = 10
RESET_CYCLES = 2
_SHOWN_MISMATCHES = 8

Dut = Any
"""Handle of the unit under test or of a port; ports are attributes known at run time only."""

Columns = Mapping[str, npt.ArrayLike]
"""One array per port; position = beat."""


def bench_data() -> dict[str, Any]:
    """The values the launcher handed over (``data`` of :func:`~xpulpnn_sim.bench.runner.run_bench`)."""
    return json.loads(Path(os.environ[DATA_VARIABLE]).read_text())


def has_clock(dut: Dut) -> bool:
    """Whether the unit has state; a purely combinational one is emitted without clock and reset."""
    return hasattr(dut, "clk")


async def half_beat(dut: Dut, *, rising: bool) -> None:
    """Wait for the next rising or falling edge, or half a period without a clock."""
    if has_clock(dut):
        await (RisingEdge(dut.clk) if rising else FallingEdge(dut.clk))
    else:
        await Timer(CLOCK_NS // 2, unit="ns")


async def pulse_reset(dut: Dut) -> None:
    """Hold reset for :data:`RESET_CYCLES`; returns right after the rising edge that ends it."""
    dut.rst.value = 1
    for _ in range(RESET_CYCLES):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


async def start(dut: Dut) -> None:
    """Drive all inputs to 0, start the clock and reset the unit."""
    for name in bench_data()["inputs"]:
        getattr(dut, name).value = 0
    if has_clock(dut):
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        await pulse_reset(dut)
    else:
        await half_beat(dut, rising=True)


def sample(handle: Dut) -> int:
    """The value of a port, one bit or many; raises ``ValueError`` for an undefined bit."""
    value = handle.value
    return int(value) if isinstance(value, Logic) else value.to_unsigned()


def exact(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """A column of integers: 64 bits, or Python integers if a port is wider than that."""
    column = np.asarray(values)
    if column.dtype in (np.uint64, np.object_):
        return np.array([int(value) for value in column], dtype=np.object_)
    return column.astype(np.int64)


class VectorDriver:
    """Writes one row of stimulus columns per beat; the only writer of its ports."""

    def __init__(self, dut: Dut, stimulus: Columns) -> None:
        self.dut = dut
        self.handles = [getattr(dut, name) for name in stimulus]
        self.rows = list(zip(*(np.asarray(column).tolist() for column in stimulus.values()), strict=True))

    async def run(self) -> None:
        """Drive every row, one per beat, from the current beat on."""
        current: tuple[int | None, ...] = (None,) * len(self.handles)
        for row in self.rows:
            for handle, old, new in zip(self.handles, current, row, strict=True):
                if old != new:
                    handle.value = new
            current = row
            await half_beat(self.dut, rising=False)
            await half_beat(self.dut, rising=True)


class VectorMonitor:
    """Samples ports in the middle of every beat."""

    def __init__(self, dut: Dut, names: Sequence[str]) -> None:
        self.dut = dut
        self.samples: dict[str, list[int]] = {name: [] for name in names}
        self._ports = [(getattr(dut, name), values) for name, values in self.samples.items()]

    async def run(self, beats: int) -> None:
        """Sample ``beats`` beats, from the current one on."""
        for _ in range(beats):
            await half_beat(self.dut, rising=False)
            for handle, values in self._ports:
                values.append(sample(handle))
            await half_beat(self.dut, rising=True)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The samples as arrays."""
        return {name: exact(values) for name, values in self.samples.items()}


async def run_vectors(dut: Dut, stimulus: Columns, outputs: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Drive all rows of ``stimulus`` and sample ``outputs`` in the same beats."""
    driver, monitor = VectorDriver(dut, stimulus), VectorMonitor(dut, outputs)
    tasks: list[Task[None]] = [cocotb.start_soon(driver.run()), cocotb.start_soon(monitor.run(len(driver.rows)))]
    for task in tasks:
        await task
    return monitor.columns()


class Scoreboard:
    """Compares observed columns with expected ones and tells the first differences with their stimulus and the seed."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.seed = seed_from_environment()
        self.compared = 0

    def compare(
        self,
        expected: Mapping[str, npt.ArrayLike],
        observed: Mapping[str, npt.ArrayLike],
        context: Columns | None = None,
        label: str = "",
    ) -> None:
        """Raise ``AssertionError`` if a column of ``expected`` differs anywhere from that of ``observed``."""
        for name, column in expected.items():
            want, got = exact(column), exact(observed[name])
            assert want.shape == got.shape, f"{self.what} {label}: {len(got)} values of {name}, expected {len(want)}"
            wrong = np.flatnonzero(want != got)
            self.compared += len(want)
            if len(wrong):
                lines = [
                    f"  [{row}] {name}={got[row]:#x}, expected {want[row]:#x}"
                    + "".join(f" {key}={np.asarray(value)[row]:#x}" for key, value in (context or {}).items())
                    for row in wrong[:_SHOWN_MISMATCHES]
                ]
                raise AssertionError(
                    f"{self.what} {label}: {len(wrong)} of {len(want)} {name} differ (seed {self.seed})\n"
                    + "\n".join(lines)
                )

    def equal(self, got: object, want: object, where: str) -> None:
        """Raise ``AssertionError`` if ``got`` is not ``want``."""
        self.compared += 1
        assert got == want, f"{self.what} {where}: got {got}, expected {want} (seed {self.seed})"
