"""Netlists that follow a module: interpreted by the native code, fed with made-up ports."""

import ctypes
from functools import partial
from pathlib import Path

import pytest
from tests.exploration.test_energy import CYCLES, activity, circuit, counter, fixture_liberty, follow

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.build import Rig
from xpulpnn_sim.exploration.energy import gate_model
from xpulpnn_sim.exploration.energy.gate_model import Circuit, Gates
from xpulpnn_sim.exploration.liberty import Liberty

pytestmark = pytest.mark.flow
liberty = fixture_liberty

ENABLE = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1]


def counted(tmp_path: Path, liberty: Liberty) -> tuple[Circuit, list[int]]:
    """Two bits that count the cycles with an enable, and the outputs in every cycle."""
    inputs, outputs = {"clk": 2, "en": 3}, {"low": 10, "high": 11}
    before = [sum(ENABLE[:cycle]) % 4 for cycle in range(len(ENABLE))]
    return circuit(tmp_path, liberty, counter(2, gated=True), inputs, outputs), before


def test_followed_outputs_are_equal_and_cycles_are_counted(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    design, before = counted(tmp_path, liberty)
    gates = Gates(interpreter)
    gates.create(design, "elsewhere")
    gates.create(design, "here", [2, 9], 3)
    follow(interpreter, design, [enable | count << 1 for enable, count in zip(ENABLE, before, strict=True)])
    (idle, *_), (seen, cycle, _) = map(gates.result, range(2))
    assert (idle.edges, idle.cycles, idle.toggles.sum(), idle.clocked.sum()) == (0, 0, 0, 0)
    assert (seen.edges, seen.cycles, seen.transitions, cycle) == (len(ENABLE), 6, 4, gate_model.NEVER)
    # cycles 2, 3, 4 and 9, 10, 11: enables 0 1 0 and 0 1 1, counts 2 2 3 and 2 2 3
    assert [before[at] for at in (2, 3, 4, 9, 10, 11)] == [2, 2, 3, 2, 2, 3]
    assert seen.toggles[[3, 10, 11]].tolist() == [3, 2, 0]
    # the low bit by next and current state; the high bit is 1 until the last edge
    assert seen.clocked.tolist() == [[[0, 1], [2, 0]], [[0, 1], [0, 2]]]
    assert ctypes.CDLL(str(interpreter)).gate_instance(b"nowhere") == -1


def test_requests_are_counted_by_their_write_enables(tmp_path: Path, liberty: Liberty, interpreter: Path) -> None:
    outputs = {"banks__0__req": 10, "banks__0__we": 11, "lines.read": 11, "other": 10}
    seen = activity(interpreter, circuit(tmp_path, liberty, counter(2, gated=False), {"clk": 2, "en": 3}, outputs), [0])
    # the bank is written where both bits of the counter are 1
    assert seen.requests.tolist() == [[CYCLES / 2, CYCLES / 4], [CYCLES / 2, CYCLES / 2]]


def test_a_difference_ends_the_run(tmp_path, liberty, interpreter, monkeypatch):
    design, before = counted(tmp_path, liberty)
    rig = Rig(verilog="", manifest={"top": "cluster", "ports": []}, adapters=())
    built = []

    def build(rig, added):
        built.append(rig.verilog)
        return interpreter

    monkeypatch.setattr(gate_model, "build_model", build)
    monkeypatch.setattr(gate_model, "cached_emission", lambda top, config: ("", {}))
    monkeypatch.setattr(gate_model, "rig_of", lambda verilog, manifest: rig)
    shadowed = gate_model.ShadowedDesign("cluster", ClusterConfig(), {"counter": design})
    bound = "bind counter gate_shadow #(.WORDS(1)) gate_shadow(.clk(clk), .ports({29'd0, high, low, en}));"
    assert built[0].endswith(f"{bound}\n")

    def run(enables: list[int], model: Path) -> tuple[int, int] | None:
        name = "testbench.testbench.cluster.core0.gate_shadow"
        follow(model, design, [enable | count << 1 for enable, count in zip(enables, before, strict=True)], name)

    instances, starts = {"core0": "counter"}, {"core0": [3]}
    seen = shadowed.watch(partial(run, ENABLE), instances, starts, 1)
    assert seen["core0"].clocked.tolist() == [[[0, 0], [1, 0]], [[0, 0], [0, 1]]]
    # the first enable counts one cycle too late: the low bit is still 0 in cycle 1
    with pytest.raises(ToolError, match=r"core0\.low of the netlist must be what the design has in cycle 1, not "):
        shadowed.watch(partial(run, [0, *ENABLE[:-1]]), instances, starts, 1)
    with pytest.raises(ToolError, match="netlist of core0 must follow the design, not rest"):
        shadowed.watch(lambda model: None, instances, starts, 1)
