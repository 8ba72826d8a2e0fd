"""Longest paths: our estimate against a path reckoned by hand, OpenSTA and ABC against the estimate."""

import re
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from xpulpnn.config import preset
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.exploration.asic import AsicFlow
from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.liberty import Table, TimingArc
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist
from xpulpnn_sim.exploration.results import emit_design
from xpulpnn_sim.exploration.timing import TOOL, OpenSta, find_opensta, longest_paths

pytestmark = pytest.mark.flow

CELLS = generic_library().cells
NAMES = {2: "clk", 3: "a", 4: "b", 5: "n5", 6: "n6", 7: "y", 8: "held"}
GATES = [
    MappedGate("g0", "", CELLS["NAND2_X1"], {"A": 3, "B": 4, "Y": 5}),
    MappedGate("g1", "", CELLS["INV_X2"], {"A": 5, "Y": 6}),
    MappedGate("g2", "", CELLS["NOR2_X1"], {"A": 6, "B": 8, "Y": 7}),
    MappedGate("g3", "", CELLS["DFF_X1"], {"D": 6, "CK": 2, "Q": 8}),
]
NETLIST = MappedNetlist(module="chain", gates=GATES, inputs={"clk": 2, "a": 3, "b": 4}, outputs={"y": 7}, names=NAMES)

# In tau of 10 ps: the driver, a buffer of size 4, at 4/3 C; NAND2 with 2 C; INV_X2 with the register (2 C) and
# the NOR (5/3 C); NOR2 with the output, 2 C.
ARRIVALS = [(4 / 3) / 4 + 2 + 2, 0.0, 0.0]
ARRIVALS[1] = ARRIVALS[0] + 1 + (2 + 5 / 3) / 2
ARRIVALS[2] = ARRIVALS[1] + 2 + 2


@pytest.fixture(scope="module")
def opensta() -> OpenSta:
    installed = find_opensta()
    if installed is None:
        pytest.skip("OpenSTA is not installed")
    return installed


def test_the_estimate_is_the_sum_of_the_tables(library: Library) -> None:
    path = longest_paths(NETLIST, library)[0]
    assert (path.start in {"a", "b"}, path.end) == (True, "y")
    assert [step.net for step in path.steps] == ["n5", "n6", "y"]
    assert [step.cell for step in path.steps] == ["NAND2_X1", "INV_X2", "NOR2_X1"]
    assert [step.arrival_ps for step in path.steps] == pytest.approx([10 * at for at in ARRIVALS], abs=0.01)
    assert path.delay_ps == path.steps[-1].arrival_ps
    # registers are cut
    path = longest_paths(replace(NETLIST, gates=[GATES[0], GATES[1], GATES[3]], outputs={"y": 8}), library)[0]
    assert (path.end, len(path.steps)) == ("held", 2)
    assert longest_paths(replace(NETLIST, gates=[], outputs={}), library)[0] is None


WIRES = """
  wire_load ("near") {{ capacitance : {c}; resistance : 0; slope : 2; fanout_length (1, 1); fanout_length (3, 2); }}
  wire_load ("far") {{ capacitance : {c}; resistance : 0; slope : 3; fanout_length (1, 2); fanout_length (4, 8); }}
  wire_load_selection ("areas") {{ wire_load_from_area (0, 50, near); wire_load_from_area (50, 5000, far); }}
  default_wire_load_selection : "areas";
}}
"""


@pytest.fixture(scope="module")
def wired(library: Library) -> Library:
    """The built-in library with two wire loads, in input capacitances of an inverter."""
    text = library.content.decode().rstrip().removesuffix("}")
    pin = re.search(r"capacitance : ([\d.e-]+)", text[text.index("cell (INV_X1)") :])
    return Library((text + WIRES.format(c=pin[1])).encode(), "wired", physical=False)


def test_wires_add_the_load_of_their_fan_out(wired: Library, opensta: OpenSta, tmp_path: Path) -> None:
    near = wired.with_wires("near")
    # one sink has length 1, the two of n6 have 1.5; the driver has size 4 and the inverter 2
    expected = ARRIVALS[-1] + 1 / 4 + 1 + 1.5 / 2 + 1
    assert longest_paths(NETLIST, near)[0].delay_ps == pytest.approx(10 * expected, abs=0.01)
    assert opensta.delay_ps(NETLIST, near, tmp_path) == pytest.approx(10 * expected, abs=0.05)
    pin = near.wire_load(0).capacitance_ff(1)
    assert [near.wire_load(0).capacitance_ff(count) / pin for count in (0, 2, 3, 5)] == [1, 1.5, 2, 6]
    by_area = wired.with_wires("library")
    assert [by_area.wire_load(area).name for area in (0, 49, 50, 1e6)] == ["near", "near", "far", "far"]
    assert wired.wire_load(0) is None
    with pytest.raises(InputError, match=r"^wire_load must be one of none, library, near, far, not middle$"):
        wired.with_wires("middle")


def test_opensta_agrees_on_the_chain(library: Library, opensta: OpenSta, tmp_path: Path) -> None:
    assert opensta.delay_ps(NETLIST, library, tmp_path) == pytest.approx(10 * ARRIVALS[-1], abs=0.02)


def test_opensta_abc_and_the_estimate_agree_on_a_component(library, wired, opensta, monkeypatch):
    design = emit_design("nnrf", preset("xpulpnn"))
    timed = AsicFlow(library, "builtin", "area").run(design)
    path = timed.result.path
    assert path.tool == TOOL
    far = AsicFlow(wired.with_wires("library"), "builtin", "area").run(design).result
    assert far.delay_ps > 1.2 * path.delay_ps
    assert "wire load by area, as the library says" in " ".join(far.conditions)
    assert far.path.delay_ps == pytest.approx(far.delay_ps, abs=1.0)
    assert far.path.others[f"OpenSTA {opensta.version}"] == pytest.approx(far.delay_ps, rel=0.001)
    assert path.others[f"OpenSTA {opensta.version}"] == pytest.approx(path.delay_ps, abs=0.05)
    assert path.others["ABC"] == timed.result.delay_ps
    assert path.others["ABC"] == pytest.approx(path.delay_ps, abs=1.0)
    assert {"timing.tcl", "timing.v", "timing.rpt"} <= timed.files.keys()
    for module in ("asic", "timing"):
        monkeypatch.setattr(f"xpulpnn_sim.exploration.{module}.find_opensta", lambda: None)
    flow = AsicFlow(library, "builtin", "area")
    alone = flow.run(design).result
    assert alone.path == replace(path, others={"ABC": path.others["ABC"]})
    assert flow.settings()["opensta"] == "none"
    assert "opensta" not in alone.tools


def test_the_worst_of_several_arcs_counts_with_the_sense_of_the_first(library: Library) -> None:
    cell = deepcopy(library.cells["BUF_X1"])
    pin = cell.pins["Y"]

    def arc(sense: str, rise: float, fall: float) -> TimingArc:
        changed, (up, down, none) = copy(pin.timing[0]), (Table([0.0], [0.0], [[at]]) for at in (rise, fall, 0.0))
        changed.timing_sense, changed.cell_rise, changed.cell_fall = sense, up, down
        changed.rise_transition = changed.fall_transition = none
        return changed

    pin.timing = [arc("positive_unate", 1.0, 2.0), arc("negative_unate", 3.0, 1.5)]
    unloaded = copy(library)
    unloaded.output_load_ff = 0.0
    gates = [MappedGate("g0", "", cell, {"A": 3, "Y": 5}), MappedGate("g1", "", cell, {"A": 5, "Y": 7})]
    path = longest_paths(replace(NETLIST, gates=gates, inputs={"a": 3}), unloaded)[0]
    # 3 ns rising twice, with the driver's load in front
    assert [step.delay_ps for step in path.steps][1:] == [3000.0]
    assert path.delay_ps == pytest.approx(6000.0, abs=50)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("sta", "echo 'Error: timing.tcl, 3 no cell found'", "be able to time chain: timing.tcl, 3 no cell found"),
        ("sta", "exit 0", "be able to time chain: it wrote no report"),
        ("none", "", r"be runnable, not .*/none \(No such file or directory\)"),
    ],
)
def test_opensta_that_fails_is_one_line(library: Library, tmp_path: Path, name: str, line: str, message: str) -> None:
    program = tmp_path / "sta"
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    with pytest.raises(ToolError, match=rf"^opensta must {message}$"):
        OpenSta(str(tmp_path / name), "0").delay_ps(NETLIST, library, tmp_path)
