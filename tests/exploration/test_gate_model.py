"""Netlists that follow a module: interpreted by the native code, fed with made-up ports."""

import ctypes
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.exploration.test_energy import circuit, counter, fixture_liberty

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.build import Rig
from xpulpnn_sim.exploration.energy import gate_model
from xpulpnn_sim.exploration.energy.gate_model import Circuit, Gates, gate_sources
from xpulpnn_sim.exploration.liberty import Liberty
from xpulpnn_sim.tools.yosys import require_verilator

pytestmark = pytest.mark.flow
liberty = fixture_liberty

ENABLE = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1]


@pytest.fixture(name="library", scope="module")
def fixture_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gates")
    ((name, source),) = gate_sources().items()
    (folder / name).write_text(source)
    include = require_verilator() / "include" / "vltstd"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{include}", name, "-o", "gates.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "gates.so"


def counted(tmp_path: Path, liberty: Liberty) -> tuple[Circuit, list[int]]:
    """Two bits that count the cycles with an enable, and the outputs in every cycle."""
    inputs, outputs = {"clk": 2, "en": 3}, {"low": 10, "high": 11}
    before = [sum(ENABLE[:cycle]) % 4 for cycle in range(len(ENABLE))]
    return circuit(tmp_path, liberty, counter(2, gated=True), inputs, outputs), before


def follow(library: Path, words: list[int], name: bytes = b"here") -> None:
    native = ctypes.CDLL(str(library))
    number = native.gate_instance(name)
    for word in words:
        native.gate_port(number, 0, word)
        native.gate_follow(number)


def test_followed_outputs_are_equal_and_cycles_are_kept(tmp_path: Path, liberty: Liberty, library: Path) -> None:
    design, before = counted(tmp_path, liberty)
    gates = Gates(library)
    idle = gates.create(design, "elsewhere")
    rows = gates.create(design, "here", [2, 9], 3)
    follow(library, [enable | count << 1 for enable, count in zip(ENABLE, before, strict=True)])
    assert (gates.cycles(0), gates.cycles(1), gates.difference(1)) == (0, len(ENABLE), None)
    assert not idle.size
    # the input, the two bits of the state, and the outputs that show them
    expected = [[ENABLE[at], *[before[at] & 1, before[at] >> 1] * 2] for at in (2, 3, 4, 9, 10, 11)]
    assert rows.tolist() == np.array(expected).tolist()
    assert ctypes.CDLL(str(library)).gate_instance(b"nowhere") == -1


def test_a_difference_ends_the_run(tmp_path, liberty, library, monkeypatch):
    design, before = counted(tmp_path, liberty)
    rig = Rig(verilog="", manifest={"top": "cluster", "ports": []}, adapters=())
    built = []

    def build(rig, added):
        built.append(rig.verilog)
        return library

    monkeypatch.setattr(gate_model, "build_model", build)
    monkeypatch.setattr(gate_model, "cached_emission", lambda top, config: ("", {}))
    monkeypatch.setattr(gate_model, "rig_of", lambda verilog, manifest: rig)
    shadowed = gate_model.ShadowedDesign("cluster", ClusterConfig(), {"counter": design})
    bound = "bind counter gate_shadow #(.WORDS(1)) gate_shadow(.clk(clk), .ports({29'd0, high, low, en}));"
    assert built[0].endswith(f"{bound}\n")

    def run(enables: list[int], model: Path) -> None:
        name = b"testbench.testbench.cluster.core0.gate_shadow"
        follow(model, [enable | count << 1 for enable, count in zip(enables, before, strict=True)], name)

    instances, starts = {"core0": "counter"}, {"core0": [3]}
    rows = shadowed.watch(partial(run, ENABLE), instances, starts, 1)
    assert rows["core0"].tolist() == [[1, 0, 1, 0, 1]]
    # the first enable counts one cycle too late: the low bit is still 0 in cycle 1
    with pytest.raises(ToolError, match=r"core0\.low of the netlist must be what the design has in cycle 1, not "):
        shadowed.watch(partial(run, [0, *ENABLE[:-1]]), instances, starts, 1)
    with pytest.raises(ToolError, match="netlist of core0 must follow the design, not rest"):
        shadowed.watch(lambda model: None, instances, starts, 1)
