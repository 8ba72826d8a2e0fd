"""Which tests of a bench judge mutants."""

import sys
from types import ModuleType

import cocotb
import pytest

from xpulpnn_sim.benches import bench_mutants

pytestmark = pytest.mark.unit


def test_tests_that_the_bench_leaves_out_judge_nothing(monkeypatch):
    bench = ModuleType("bench_of_two")

    @cocotb.test()
    async def taken(dut):
        pass

    @cocotb.test(skip=True)
    async def left_out(dut):
        pass

    vars(bench).update(left_out=left_out, taken=taken)
    monkeypatch.setitem(sys.modules, bench.__name__, bench)
    found = bench_mutants.tests_of(bench.__name__)
    assert [test.name.rpartition(".")[2] for test in found] == ["taken"]
