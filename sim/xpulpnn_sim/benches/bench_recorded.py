"""Runs the bench of a unit on the unit itself, and writes down its inputs, and where the bench looked at which outputs.

Each test runs in a forked process, from the state at the start, and leaves a file of numpy arrays: ``test``, its name,
``kind`` of each frame (see :data:`LOOK`), ``inputs`` of each frame, a byte per bit of all input ports in the order of
the launcher, and for each output port at which the bench looked, by its number, ``looks``: rows of frame and what the
bench did with the value (see :data:`COMPARED`), and ``bits``: the value, a byte per bit.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, with_timeout
from cocotb.utils import get_sim_time

from xpulpnn_sim.benches.bench_mutants import tests_of
from xpulpnn_sim.benches.cadence import Dut, unsigned, witness
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.scoreboard import audit
from xpulpnn_sim.tools.forks import Forks

LOOK, CLOCK = 0, 1  # frames in which outputs were looked at, and frames at a rising edge of the clock

COMPARED, DECIDES, NEITHER = 0, 1, 2
"""An observed value is compared with an expected one, or the bench may depend on it, or it is not used."""

_PASSED = 42


class _Seen(int):
    """A value that knows where it was seen."""

    look: int


class _Recorder:
    """Writes down frames and looks."""

    def __init__(self, dut: Dut) -> None:
        data = bench_data()
        self._dut = dut
        self._inputs = [getattr(dut, name) for name in data["inputs"] if name != "clk"]
        self._outputs = {name: number for number, name in enumerate(data["outputs"])}
        self._time = -1
        self.kinds: list[int] = []
        self.frames: list[tuple[int, ...]] = []
        self.looks: list[list[int]] = []

    def _frame(self, kind: int) -> None:
        self.kinds.append(kind)
        self.frames.append(tuple(unsigned(handle) for handle in self._inputs))

    async def clocks(self) -> None:
        """A frame at every rising edge."""
        while True:
            await RisingEdge(self._dut.clk)
            self._frame(CLOCK)

    def seen(self, handle: Dut, value: int, *, decides: bool) -> int:
        """A look at an output."""
        number = self._outputs.get(handle._name)
        if number is None:
            return value
        now = get_sim_time("step")
        if now != self._time:
            self._time = now
            self._frame(LOOK)
        seen = _Seen(value)
        seen.look = len(self.looks)
        self.looks.append([len(self.frames) - 1, number, DECIDES if decides else NEITHER, value])
        return seen

    def checked(self, value: object) -> None:
        """A comparison with what is expected."""
        if isinstance(value, _Seen):
            self.looks[value.look][2] = COMPARED

    def keep(self, path: Path, test: str) -> None:
        """Write the file."""
        arrays: dict[str, Any] = {"kind": np.array(self.kinds, np.uint8), "test": np.array(test)}
        inputs = zip(self._inputs, zip(*self.frames, strict=True), strict=True)
        arrays["inputs"] = np.concatenate([_bits(values, len(handle)) for handle, values in inputs], axis=1)
        for name, number in self._outputs.items():
            mine = [look for look in self.looks if look[1] == number]
            if mine:
                arrays[f"looks{number}"] = np.array([(look[0], look[2]) for look in mine], np.int32)
                arrays[f"bits{number}"] = _bits([look[3] for look in mine], len(getattr(self._dut, name)))
        np.savez(path, **arrays)


def _bits(values: Sequence[int], width: int) -> np.ndarray:
    """A row of bits, lowest one first, for each value."""
    size = -(-width // 8)
    raw = np.frombuffer(b"".join(value.to_bytes(size, "little") for value in values), np.uint8)
    return np.unpackbits(raw.reshape(len(values), size), axis=1, bitorder="little")[:, :width]


@cocotb.test()
async def every_trace(dut: Dut) -> None:
    """A process for each test, one after the other."""
    tests = tests_of(bench_data()["bench"])
    for number, test in enumerate(tests):
        forks: Forks[str] = Forks(1)
        if forks.start(test.name):
            await _run(dut, test, Path(bench_data()["traces"]) / f"{number}.npz")
        assert forks.wait() == [_PASSED], f"{test.name} must pass on the unit itself"


async def _run(dut: Dut, test: Any, path: Path) -> NoReturn:
    """One test; ends the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(bench_data()["limit_s"])
    recorder = _Recorder(dut)
    witness(recorder)
    audit(recorder)
    status = 1
    try:
        if hasattr(dut, "clk"):
            cocotb.start_soon(recorder.clocks())
        running = test.func(dut, *test.args, **test.kwargs)
        await (with_timeout(running, *test.timeout) if test.timeout else running)
        recorder.keep(path, test.name)
        status = _PASSED
    finally:
        sys.stdout.flush()
        os._exit(status)
