"""Reader of Yosys netlists: ports, wires, constants, cells, and the order of their evaluation."""

import json
import random
from pathlib import Path

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.netlists import DONT_CARE, ONE, ZERO, read_module, sort_gates

CONTENT = {
    "ports": {"a": {"direction": "input", "bits": [2, 3]}, "y": {"direction": "output", "bits": [5]}},
    "netnames": {
        "part.a": {"hide_name": 0, "bits": [2, 3], "offset": 4},
        "y": {"hide_name": 0, "bits": [5]},
        "$1": {"hide_name": 1, "bits": [4]},
    },
    "cells": {
        "scope": {"type": "$scopeinfo", "connections": {}},
        "known": {
            "type": "$and",
            "parameters": {"A_SIGNED": "0"},
            "port_directions": {"A": "input", "B": "input", "Y": "output"},
            "connections": {"A": [2, "1"], "B": ["x", "0"], "Y": [4, 5]},
        },
        "box": {"type": "MINE", "connections": {"I": [4], "O": [6], "N": []}},
    },
}


def test_everything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "netlist.json"
    path.write_text(json.dumps({"modules": {"top": CONTENT}}))
    top = read_module(path, "top")
    assert (list(top.inputs), list(top.outputs)) == (["a"], ["y"])
    assert list(top.wires["part.a"].bits) == [("part.a[4]", 2), ("part.a[5]", 3)]
    assert list(top.outputs["y"].bits) == [("y", 5)]
    assert [wire.name for wire in top.wires.values() if wire.hidden] == ["$1"]
    known, box = top.cells
    assert known.pins == {"A": [2, ONE], "B": [DONT_CARE, ZERO], "Y": [4, 5]}
    assert (known.driven, known.read) == ([4, 5], [2, ONE, DONT_CARE, ZERO])
    assert (box.driven, box.read, box.pins) == ([], [4, 6], {"I": [4], "O": [6]})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"modules": {"other": {}}}'])
def test_a_missing_module_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "netlist.json"
    path.write_text(text)
    with pytest.raises(ToolError, match=r"^yosys must write a netlist of top, not netlist.json without it$"):
        read_module(path, "top")


def test_gates_come_after_their_drivers() -> None:
    # gate i drives net i + 2 and reads some nets below it, constants among them
    rng = random.Random(1)
    gates = [(number + 2, [rng.randrange(-1, number + 2) for _ in range(3)]) for number in range(200)]
    rng.shuffle(gates)
    ordered = sort_gates(gates, lambda gate: gate[1], lambda gate: [gate[0]])
    assert sorted(ordered) == sorted(gates)
    known = {DONT_CARE, ZERO, ONE}
    for driven, read in ordered:
        assert known.issuperset(read)
        known.add(driven)


def test_loops_have_no_order() -> None:
    gates = [(2, [4]), (3, [2]), (4, [3]), (5, [4])]
    with pytest.raises(ToolError, match=r"^netlist must be free of combinational loops, not have one of 3 gates$"):
        sort_gates(gates, lambda gate: gate[1], lambda gate: [gate[0]])
