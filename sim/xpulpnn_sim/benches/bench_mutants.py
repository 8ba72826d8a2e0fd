"""Runs the bench of a unit on every mutant of its model, each in a forked process.

A forked process inherits simulator, model and bench in their state before the first event, so it needs no start-up and
disturbs no other process. Verdicts are written at once, so that an interrupted run loses nothing.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import cocotb
from cocotb.triggers import with_timeout

from xpulpnn_sim.benches.agents.base import Dut
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.tools.processes import Forks, limit_computing, silence
from xpulpnn_sim.tools.results import Results

_PASSED = 42  # exit status of a process whose test has passed: no simulator uses it


def tests_of(bench: str) -> list[Any]:
    module = import_module(bench)
    decorated = [value for value in vars(module).values() if hasattr(value, "generate_tests")]
    return [test for item in decorated for test in item.generate_tests() if not test.skip]


@cocotb.test()
async def every_mutant(dut: Dut) -> None:
    """Fork a process for each mutant, ``jobs`` of them at a time."""
    data = bench_data()
    tests = tests_of(data["bench"])
    assert tests, f"{data['bench']} must have tests"
    forks: Forks[int] = Forks(data["jobs"])
    for mutant in data["mutants"]:
        if forks.start(mutant):
            await _judge(dut, mutant, tests)
    forks.wait()


async def _judge(dut: Dut, mutant: int, tests: Sequence[Any]) -> NoReturn:
    for test in tests:
        forks: Forks[str] = Forks(1)
        if forks.start(test.name):
            await _run(dut, mutant, test)
        (code,) = forks.wait()
        if code != _PASSED:
            reason = "check" if code >= 0 else "time" if -code == signal.SIGPROF else "simulator"
            _tell(mutant, {"killed": reason, "test": test.name})
            os._exit(0)
    _tell(mutant, {"killed": "", "test": ""})
    os._exit(0)


def _tell(mutant: int, verdict: dict[str, Any]) -> None:
    data = bench_data()
    Results(Path(data["verdicts"])).store(str(mutant), {**verdict, "tests": data["tests"]}, data["key"])


async def _run(dut: Dut, mutant: int, test: Any) -> NoReturn:
    data = bench_data()
    sys.stdout.flush()
    silence()
    # on some mutants the bench never ends
    limit_computing(data["limit_s"])
    getattr(dut, data["select"]).value = mutant
    status = 1
    try:
        running = test.func(dut, *test.args, **test.kwargs)
        await (with_timeout(running, *test.timeout) if test.timeout else running)
        status = _PASSED
    finally:
        os._exit(status)
