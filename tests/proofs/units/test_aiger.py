"""Graphs in the AIGER format, and examples on them."""

from pathlib import Path

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.proofs.engine.solvers import read_outputs, read_witness, to_aiger


def test_written(tmp_path: Path):
    """A register that starts as 1 and takes the gate: both of it and an input. What is not needed is left out."""
    graph = GateGraph()
    unused, register, given = graph.inputs(3)
    gate = graph.and_(register, given)
    written = to_aiger(graph, [register, gate ^ 1, 0], {register: (gate, 1), unused: (given, 0)})
    assert written == (b"aig 3 1 1 3 1\n6 1\n4\n7\n0\n" + bytes([6 - 4, 4 - 2]), [given])
    (tmp_path / "graph.aig").write_bytes(written.content)
    assert read_outputs(tmp_path / "graph.aig") == [4, 7, 0]


def test_large_distances():
    """A distance of 128 and more takes two bytes: a gate of the first and the last of 300 inputs."""
    graph = GateGraph()
    inputs = graph.inputs(300)
    content, origins = to_aiger(graph, [graph.and_(inputs[0], inputs[-1]), graph.any(inputs[1:-1])])
    assert (origins, content.partition(b"\n")[0]) == (inputs, b"aig 598 300 0 2 298")
    last, first = 2 * 300, 2
    assert bytes([2 * 301 - last, (last - first) & 0x7F | 0x80, (last - first) >> 7]) in content


def test_witness():
    assert read_witness("1\n1\n0# DONE\n", [8]) == [{8}, frozenset()]
    with pytest.raises(ToolError, match=r"^the counterexample must have 2 inputs in each cycle, not 1$"):
        read_witness("1\n1\n", [2, 4])
