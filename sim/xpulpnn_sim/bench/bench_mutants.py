"""Runs the bench of a unit on every mutant that its model holds: a forked process each, from the state at the start.

A forked process has the simulator, the model and the bench as they are before the first event; it needs no start and
disturbs no other. What it finds goes as one line of JSON to a file, at once, so that an interrupted run loses nothing.
"""

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import cocotb
from cocotb.triggers import with_timeout

from xpulpnn_sim.bench.cadence import Dut
from xpulpnn_sim.bench.handover import bench_data

_PASSED = 42
"""Exit status of a process whose test has passed: no simulator ends with it by itself."""


def tests_of(bench: str) -> list[Any]:
    """The tests of a bench that are for its unit, in order; ``bench`` is the name of its module."""
    module = import_module(bench)
    decorated = [value for value in vars(module).values() if hasattr(value, "generate_tests")]
    return [test for each in decorated for test in each.generate_tests() if not test.skip]


@cocotb.test()
async def every_mutant(dut: Dut) -> None:
    """A process for each mutant, ``jobs`` of them at a time."""
    data = bench_data()
    tests = tests_of(data["bench"])
    assert tests, f"{data['bench']} must have tests"
    waiting, running = deque(data["mutants"]), 0
    while waiting or running:
        if waiting and running < data["jobs"]:
            mutant = waiting.popleft()
            if not os.fork():
                await _judge(dut, mutant, tests)
            running += 1
        else:
            os.wait()
            running -= 1


async def _judge(dut: Dut, mutant: int, tests: Sequence[Any]) -> NoReturn:
    """The tests one after the other, each from the start, until one fails."""
    for test in tests:
        child = os.fork()
        if not child:
            await _run(dut, mutant, test)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != _PASSED:
            _tell({"mutant": mutant, "killed": _how(status), "test": test.name})
            os._exit(0)
    _tell({"mutant": mutant, "killed": "", "test": ""})
    os._exit(0)


def _how(status: int) -> str:
    """What ended a test: a check of the bench, its limit of computing time, or the simulator itself."""
    code = os.waitstatus_to_exitcode(status)
    return "check" if code >= 0 else "time" if -code == signal.SIGPROF else "simulator"


def _tell(verdict: dict[str, Any]) -> None:
    """Append a line in one step."""
    data = bench_data()
    handle = os.open(data["verdicts"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, f"{json.dumps({**verdict, 'benches': data['benches']})}\n".encode())
    os.close(handle)


async def _run(dut: Dut, mutant: int, test: Any) -> NoReturn:
    """One test on one mutant; ends the process."""
    data = bench_data()
    sys.stdout.flush()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    # a mutant may keep the bench from ever getting on; the default action ends the process
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, data["limit_s"])
    getattr(dut, data["select"]).value = mutant
    status = 1
    try:
        running = test.func(dut, *test.args, **test.kwargs)
        await (with_timeout(running, *test.timeout) if test.timeout else running)
        status = _PASSED
    finally:
        os._exit(status)
