"""The ASIC flow on the built-in library: figures, hierarchy, mapped netlists and errors."""

import json
from collections import Counter
from pathlib import Path

import pytest

from xpulpnn.config import preset
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.explorer.asic import ABC_SCRIPTS, AsicFlow, mapped_netlist
from xpulpnn_sim.explorer.builtin import builtin_library
from xpulpnn_sim.explorer.design import emit_design
from xpulpnn_sim.explorer.library import Library
from xpulpnn_sim.explorer.mapped_netlist import GATED, instance_path, read_mapped
from xpulpnn_sim.explorer.results import EmittedDesign, FlowResult, from_json, to_json
from xpulpnn_sim.netlist import read_module
from xpulpnn_sim.yosys import find_yosys

HIERARCHY = """
module leaf (input clk, input rst, input en, input [3:0] d, output reg [3:0] q);
  always @(posedge clk) if (rst) q <= 4'd0; else if (en) q <= d;
endmodule
module wires (input [3:0] a, output [3:0] y);
  assign y = {a[0], a[3:1]};
endmodule
module sum (input [3:0] a, input [3:0] b, output [3:0] y);
  assign y = a + b;
endmodule
module top (input clk, input rst, input en, input [3:0] a, input [3:0] b, output [3:0] y);
  wire [3:0] p, q, s;
  leaf first (.clk(clk), .rst(rst), .en(en), .d(a), .q(p));
  wires turn (.a(p), .y(q));
  sum add (.a(q), .b(b), .y(s));
  leaf second (.clk(clk), .rst(rst), .en(1'b1), .d(s), .q(y));
endmodule
"""

INSTANCES = {
    "top": "top",
    "top.first": "leaf",
    "top.turn": "wires",
    "top.add": "sum",
    "top.second": "leaf",
}


@pytest.fixture(scope="module")
def library() -> Library:
    return builtin_library()


def design(verilog: str = HIERARCHY) -> EmittedDesign:
    manifest = {"top": "top", "hierarchy": INSTANCES}
    return EmittedDesign(top="top", module="top", config=preset("ri5cy"), verilog=verilog, manifest=manifest)


@pytest.fixture(scope="module", params=["native", "wheel"])
def result(request: pytest.FixtureRequest, library: Library) -> FlowResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XPULPNN_YOSYS", request.param)
        try:
            find_yosys()
        except ToolError as error:
            pytest.skip(str(error))
        return AsicFlow(library, "builtin", "area").run(design())


@pytest.mark.flow
def test_totals(result: FlowResult, library: Library) -> None:
    assert result.name == "builtin-area"
    assert result.flip_flops == 8
    assert result.area_um2 is None
    assert result.area_kge is not None
    assert result.cells is not None
    assert result.area_kge > 8e-3 * library.cells[library.flip_flop].area / library.ge_area
    assert result.cells > 8
    assert result.delay_ps is not None
    assert result.delay_fo4 == pytest.approx(result.delay_ps / 50)


@pytest.mark.flow
def test_area_by_instance(result: FlowResult) -> None:
    areas = {area.path: area for area in result.modules}
    assert {path: area.module for path, area in areas.items()} == INSTANCES
    assert areas["top"].total_ge == pytest.approx(sum(area.own_ge for area in result.modules), abs=0.01)
    assert areas["top.turn"].own_cells == 0
    assert areas["top.first"].own_ge > 4 * 13 / 3
    assert areas["top.first"].own_ge == areas["top.second"].own_ge
    assert result.modules[0].path == "top"


@pytest.mark.flow
def test_the_path_runs_by_our_names(result: FlowResult) -> None:
    assert result.path is not None
    assert result.path.netlist == "hierarchical"
    assert result.path.steps
    assert result.path.steps[-1].arrival_ps == result.path.delay_ps
    assert sum(step.delay_ps for step in result.path.steps) <= result.path.delay_ps
    # the sum is what takes longest between the registers; its bit 3 ends there
    assert result.path.end.startswith(("y[", "second.q["))
    assert any(step.net.startswith("add.") or step.net.startswith("s[") for step in result.path.steps)


@pytest.mark.flow
def test_conditions_name_what_a_reader_must_know(result: FlowResult, library: Library) -> None:
    text = " ".join(result.conditions)
    for what in (library.name, ABC_SCRIPTS["area"].removesuffix(" -d"), library.driving_cell, "no wire load", "2 fF"):
        assert what in text
    assert {"yosys", "abc"} <= result.tools.keys()
    assert from_json(FlowResult, json.loads(json.dumps(to_json(result)))) == result


@pytest.mark.flow
def test_scripts_and_delays(library: Library) -> None:
    speed = AsicFlow(library, "builtin", "speed")
    area = AsicFlow(library, "builtin", "area")
    assert speed.settings() != area.settings()
    found = speed.run(emit_design("nnrf", preset("xpulpnn")))
    assert [area.path for area in found.modules] == ["nnrf"]
    assert found.path is not None
    assert found.flip_flops == 192
    assert found.delay_ps is not None


@pytest.mark.flow
def test_mapped_netlists_keep_enables_for_clock_gates(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path))
    path = mapped_netlist(design(), library)
    assert mapped_netlist(design(), library) == path
    cells = read_module(path, "top").cells
    types = Counter(cell.type for cell in cells)
    assert (types[library.flip_flop], types[GATED]) == (0, 8)
    assert {instance_path(cell.name) for cell in cells} == {"first", "add", "second"}


@pytest.mark.flow
@pytest.mark.parametrize(
    ("verilog", "message"),
    [
        (HIERARCHY.replace("leaf first", "missing first"), r"yosys must be able to synthesise top: .*missing.*"),
        (
            HIERARCHY.replace("assign y = a + b;", "assign y = a +;"),
            r"yosys must be able to synthesise top: syntax error.*",
        ),
        # which of the two tells depends on the version of Yosys
        (
            HIERARCHY.replace("posedge clk", "clk"),
            r"(--liberty must hold cells for all of top, not lack one for \$.*|yosys must be .* top: FF .* supported)",
        ),
    ],
)
def test_a_design_that_cannot_be_mapped_is_one_line(library: Library, verilog: str, message: str) -> None:
    broken = design(verilog)
    with pytest.raises(ToolError, match=f"^{message}$") as caught:
        AsicFlow(library, "builtin", "area").run(broken)
    assert "\n" not in str(caught.value)


@pytest.mark.unit
def test_unknown_scripts_and_tools_are_refused(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^script must be one of area, speed, not size$"):
        AsicFlow(library, "asic", "size")
    monkeypatch.setenv("XPULPNN_YOSYS", "mine")
    with pytest.raises(ToolError, match=r"^XPULPNN_YOSYS must be native or wheel, not mine$"):
        AsicFlow(library, "asic", "area").settings()
    monkeypatch.setenv("XPULPNN_YOSYS", "native")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"^yosys must be installed: apt-get install yosys$"):
        AsicFlow(library, "asic", "area").run(design())


@pytest.mark.unit
def test_cells_that_the_library_lacks_and_missing_modules(library: Library, tmp_path: Path) -> None:
    cell = {"type": "$_DLATCH_P_", "connections": {"Q": [2]}}
    path = tmp_path / "netlist.json"
    path.write_text(json.dumps({"modules": {"top": {"ports": {}, "netnames": {}, "cells": {"latch": cell}}}}))
    with pytest.raises(ToolError, match=r"^--liberty must hold cells for all of top, not lack one for \$_DLATCH_P_$"):
        read_mapped(path, "top", library.cells)
    with pytest.raises(ToolError, match=r"^yosys must write a netlist of other, not netlist.json without it$"):
        read_mapped(path, "other", library.cells)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("$abc$1$auto$blifparse.cc:386:parse_blif$2", ""),
        ("$flatten\\dotp.$abc$3$auto$blifparse.cc:386:parse_blif$4", "dotp"),
        ("$flatten\\dotp.\\array.$abc$5$auto$ff.cc:266:slice$6", "dotp.array"),
        ("dotp.array.held", "dotp.array"),
        ("held", ""),
    ],
)
def test_instances_of_flattened_cells(name: str, path: str) -> None:
    assert instance_path(name) == path
