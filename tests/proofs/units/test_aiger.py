"""Graphs in the AIGER format, written here by hand, and examples on them."""

from pathlib import Path

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.aiger import UNKNOWN, read_aiger, read_named, read_witness

pytestmark = pytest.mark.unit

# variable 1 is an input, 2 a latch that starts as 1 and takes the gate, 3 the gate: both of them. Outputs: the latch,
# and the gate inverted; bad: the gate; assumed: the input.
COUNTED = b"aig 3 1 1 2 1 1 1\n6 1\n4\n7\n6\n2\n" + bytes([6 - 4, 4 - 2]) + b"c\ncomment\n"


@pytest.fixture
def graph(tmp_path: Path):
    (tmp_path / "graph.aig").write_bytes(COUNTED)
    return read_aiger(tmp_path / "graph.aig")


def test_run(graph):
    """The latch stays 1 until the input is 0 once."""
    assert graph.run([[1], [1], [0], [1]]) == [[1, 0], [1, 0], [1, 1], [0, 1]]


def test_large_distances(tmp_path: Path):
    """A distance of 128 and more takes two bytes: 300 inputs, a gate of the first and the last."""
    gate, last, first = 2 * 301, 2 * 300, 2
    packed = bytes([gate - last, (last - first) & 0x7F | 0x80, (last - first) >> 7])
    (tmp_path / "wide.aig").write_bytes(b"aig 301 300 0 1 1\n602\n" + packed)
    graph = read_aiger(tmp_path / "wide.aig")
    assert graph.gates == [(last, first)]
    assert graph.run([[1] * 300, [0] + [1] * 299]) == [[1], [0]]
    assert graph.binary() == (tmp_path / "wide.aig").read_bytes().replace(b"1 1\n", b"1 1 0 0\n", 1)


def test_written_as_read(graph, tmp_path: Path):
    assert (graph.inputs, graph.latches, graph.gates) == (1, [(6, 1)], [(4, 2)])
    assert (graph.outputs, graph.bad, graph.constraints) == ([4, 7], [6], [2])
    assert graph.binary() == COUNTED.partition(b"c\n")[0]
    (tmp_path / "again.aig").write_bytes(graph.binary())
    assert read_aiger(tmp_path / "again.aig") == graph


def test_free_reset(tmp_path: Path):
    """A latch whose reset value is itself is unknown; after a cycle with the input 0, the gate is 0."""
    text = COUNTED.replace(b"6 1\n", b"6 4\n")
    (tmp_path / "free.aig").write_bytes(text)
    graph = read_aiger(tmp_path / "free.aig")
    assert graph.latches == [(6, UNKNOWN)]
    assert graph.after({0: 0}) == [0]
    assert graph.after({0: 1}) == [UNKNOWN]
    assert graph.binary() == text.partition(b"c\n")[0]


def test_no_aiger(tmp_path: Path):
    (tmp_path / "text.aag").write_text("aag 0 0 0 0 0\n")
    with pytest.raises(ToolError, match=r"^text\.aag must be a binary AIGER file, not begin with b'aag 0 0 0 0 0'$"):
        read_aiger(tmp_path / "text.aag")


def test_names(tmp_path: Path):
    (tmp_path / "graph.aig").write_bytes(COUNTED)
    (tmp_path / "graph.map").write_text(
        "input 0 0 \\go\noutput 0 1 \\rvfi_both\noutput 1 0 \\rvfi_both\nlatch 2 0 state\n"
    )
    named = read_named(tmp_path / "graph.aig", tmp_path / "graph.map")
    assert (named.inputs, named.outputs) == ({"go": {0: 0}}, {"rvfi_both": {1: 0, 0: 1}})
    assert read_witness("1\n1\n0# DONE\n", 1) == [[1], [0]]


def test_witness_of_another_graph():
    with pytest.raises(ToolError, match=r"^the counterexample must have 2 inputs in each cycle, not 1$"):
        read_witness("1\n1\n", 2)
