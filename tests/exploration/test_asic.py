"""The ASIC flow on the built-in library: one netlist behind all figures, repeated runs, files, clocks and errors."""

import csv
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

import pytest
from tests.exploration import sample_results
from tests.exploration.sample_results import mapped_cells, mapped_ge

from xpulpnn.config import preset
from xpulpnn.errors import InputError, ToolError
from xpulpnn.field_values import apply_settings
from xpulpnn_sim.exploration.asic import AsicFlow, shuffled
from xpulpnn_sim.exploration.energy.estimate import clock_gated_netlist
from xpulpnn_sim.exploration.library import FlowError, Library, abc_commands, load_corners
from xpulpnn_sim.exploration.mapped_netlist import GATED, instance_path, mapped_module
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.report import comparison, tables
from xpulpnn_sim.exploration.report.files import write_csv
from xpulpnn_sim.exploration.results import Constraint, EmittedDesign, FlowOutput, FlowResult, emit_design, from_json
from xpulpnn_sim.tools.netlists import read_module
from xpulpnn_sim.tools.yosys import find_yosys

pytestmark = pytest.mark.flow

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

INSTANCES = {"top": "top", "top.first": "leaf", "top.turn": "wires", "top.add": "sum", "top.second": "leaf"}


def design(verilog: str = HIERARCHY) -> EmittedDesign:
    return sample_results.design(verilog, hierarchy=INSTANCES)


@pytest.fixture(scope="module", params=["native", "wheel"])
def output(
    request: pytest.FixtureRequest, library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlowOutput]:
    try:
        find_yosys(request.param)
    except ToolError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        place = str(tmp_path_factory.mktemp("t m\xfc & (p)"))
        patch.setenv("TMPDIR", place)
        patch.setattr(tempfile, "tempdir", place)
        yield AsicFlow(library, "builtin", "area", yosys=request.param).run(design())


def test_totals_are_those_of_the_netlist_that_is_kept(output: FlowOutput, library: Library) -> None:
    result = output.result
    assert result.name == "builtin-area"
    assert result.flip_flops == 8
    assert result.area_um2 is None
    assert result.area_kge > 8e-3 * library.cells[library.flip_flop].area / library.ge_area
    assert result.delay_fo4 == pytest.approx(result.delay_ps / 50)
    netlist = output.files["mapped.v"]
    assert result.area_kge == pytest.approx(mapped_ge(netlist, library) / 1e3, rel=1e-9)
    assert result.cells == len(mapped_cells(netlist, library))


def test_scripts_logs_and_conditions_are_kept(output: FlowOutput, library: Library) -> None:
    assert {"yosys.ys", "yosys.log", "flat.abc", "library.constr", "mapped.log", "mapped.v"} <= output.files.keys()
    assert re.search(r"^(tee .* )?abc -liberty \S*library.lib", output.files["yosys.ys"], re.MULTILINE)
    assert "ABC RESULTS" in output.files["mapped.log"]
    assert "Executing HIERARCHY pass" in output.files["yosys.log"]
    # the library is the user's
    assert not any(name.endswith(".lib") for name in output.files)
    text = " ".join(output.result.conditions)
    for what in (library.name, abc_commands("area"), library.driving_cell, "no wire load", "2 fF", "One run"):
        assert what in text
    assert {"yosys", "abc"} <= output.result.tools.keys()
    assert from_json(FlowResult, json.loads(json.dumps(asdict(output.result)))) == output.result


def test_area_by_instance(output: FlowOutput) -> None:
    result = output.result
    areas = {area.path: area for area in result.modules}
    assert {path: area.module for path, area in areas.items() if "(shared)" not in path} == INSTANCES
    assert sum(area.own_ge for area in result.modules) == pytest.approx(1e3 * (result.area_kge or 0), rel=1e-9)
    assert areas["top"].total_ge == pytest.approx(1e3 * (result.area_kge or 0), rel=1e-9)
    assert sum(area.own_cells for area in result.modules) == result.cells
    assert areas["top.turn"].own_cells == 0
    assert areas["top.first"].own_ge > 4 * 13 / 3
    assert areas["top.add"].own_ge > 4
    assert result.modules[0].path == "top"
    assert sum(result.origins.values()) == pytest.approx(1.0)
    assert result.origins["function"] > 0.5


def test_the_path_is_that_of_the_delay_and_runs_by_our_names(output: FlowOutput) -> None:
    path, delay_ps = output.result.path, output.result.delay_ps
    assert path.netlist == "mapped"
    assert path.steps[-1].arrival_ps == path.delay_ps
    assert sum(step.delay_ps for step in path.steps) <= path.delay_ps
    assert path.delay_ps == pytest.approx(delay_ps, rel=0.01)
    assert path.others["ABC"] == delay_ps
    # the sum is what takes longest between the registers; its bit 3 ends there
    assert path.end.startswith("second.q[")
    assert {step.instance for step in path.steps} <= {"add", "second", "(shared)"}
    assert any(step.net.lstrip("!").startswith(("add.", "s[")) for step in path.steps)


SETUP = "timing () { related_pin : CK; timing_type : setup_rising; rise_constraint (scalar) { values (0.02); } }"


@pytest.fixture(name="corner_files")
def fixture_corner_files(library: Library, tmp_path: Path) -> tuple[Path, Path]:
    """Two libraries with setup times, the second 1.5 times as slow and with 8 times the leakage."""
    text = library.content.decode()
    at = text.index("pin (D)", text.index("cell (DFF_X1)")) + len("pin (D) {")
    typical = f"{text[:at]} {SETUP} {text[at:]}"
    slow = (
        typical.replace('"1ns"', '"1.5ns"')
        .replace('"1nW"', '"8nW"')
        .replace("nom_temperature : 25", "nom_temperature : 125")
    )
    slow = slow.replace("  delay_model", "  default_operating_conditions : worst;\n  delay_model", 1)
    paths = tmp_path / "typical.lib", tmp_path / "slow.lib"
    for path, content in zip(paths, (typical, slow), strict=True):
        path.write_text(content)
    return paths


def test_the_same_netlist_at_two_corners(corner_files: tuple[Path, Path], tmp_path: Path) -> None:
    typical, slow = load_corners(corner_files)
    result = AsicFlow(typical, "asic", "area", other_corners=[slow], clock_ns=0.5).run(design()).result
    first, other = result.corners
    assert (first.corner, other.corner) == ("typical", "worst")
    assert other.delay_ps == pytest.approx(1.5 * result.path.delay_ps, rel=1e-3)
    assert other.register_ps == pytest.approx(1.5 * first.register_ps)
    assert other.leakage_uw == pytest.approx(8 * first.leakage_uw)
    assert other.delay_fo4 == pytest.approx(first.delay_fo4, rel=0.01)
    assert first.slack_ps == 500 - first.delay_ps - first.register_ps
    assert "worst: xpulpnn_builtin at 1 V and 125 degrees Celsius" in result.conditions[1]
    point = sample_results.point("one", flows=[replace(result, clock_ps=1.2 * first.delay_ps + first.register_ps)])
    point.flows[0].other_corners[0] = replace(other, clock_ps=point.flows[0].clock_ps)
    table = tables.figure_table([point], "")
    clocks = {
        column.group: cell for column, cell in zip(table.columns, table.rows[0], strict=True) if column.name == "clock"
    }
    assert clocks == {f"asic-area, {corner.corner}": corner.clock_mhz for corner in (first, other)}
    verdicts = [(verdict["of"], verdict["met"], verdict["missed"]) for verdict in comparison.clock_verdicts([point])]
    assert verdicts == [("asic-area, typical", ["one"], []), ("asic-area, worst", [], ["one"])]
    assert not Constraint(f"clock_mhz>{first.clock_mhz - 1:.0f}").met(point)
    write_csv(tmp_path / "points.csv", [point], {})
    (row,) = csv.DictReader((tmp_path / "points.csv").read_text().splitlines())
    assert (row["corner"], float(row["leakage_uw"])) == ("typical", first.leakage_uw)
    assert float(row["worst: clock_mhz"]) == other.clock_mhz


def test_corners_that_do_not_belong_together(corner_files: tuple[Path, Path], tmp_path: Path) -> None:
    typical, slow = corner_files
    other = tmp_path / "other.lib"
    other.write_text(slow.read_text().replace("XNOR2_X2", "XNOR2_X3"))
    with pytest.raises(InputError, match=rf"^liberty must hold XNOR2_X2 with .* every corner, not another as {other}$"):
        load_corners([typical, other])
    with pytest.raises(
        InputError, match=r"^liberty must be files of different names or operating conditions, not slow.lib twice$"
    ):
        load_corners([slow, slow])


def test_repeated_runs_for_a_clock(library: Library) -> None:
    unit = emit_design("dotp", apply_settings(preset("xpulpnn"), {"widths": "2"}))
    repeated = AsicFlow(library, "builtin", "area", repeat=3, clock_ns=1.0).run(unit)
    result = repeated.result
    assert [run.number for run in result.runs] == [1, 2, 3]
    areas = [run.area_kge or 0.0 for run in result.runs]
    delays = [run.delay_ps or 0.0 for run in result.runs]
    assert min(areas) < max(areas)
    assert (result.area_kge, result.delay_ps) == (sorted(areas)[1], sorted(delays)[1])
    assert areas[result.area_run - 1] == result.area_kge
    assert delays[result.delay_run - 1] == result.delay_ps
    for run in result.runs:
        netlist = repeated.files[f"run{run.number}/mapped.v"]
        assert run.area_kge == pytest.approx(mapped_ge(netlist, library) / 1e3, rel=1e-9)
    assert sum(area.own_ge for area in result.modules) == pytest.approx(1e3 * (result.area_kge or 0), rel=1e-9)
    # ABC writes whole ps, and delays of this library do not depend on slews
    assert result.path.delay_ps == pytest.approx(result.delay_ps, abs=1.0)
    assert "Median of 3 runs" in " ".join(result.conditions)
    assert result.clock_ps == 1000.0
    assert result.slack_ps == 1000.0 - (result.delay_ps or 0.0)
    assert "map -B 0.9 -D 1000" in repeated.files["run1/flat.abc"]
    assert repeated.files["run1/flat.abc"].count("-D 1000") == 3
    assert "Clock: 1 ns" in " ".join(result.conditions)


def test_another_order_is_the_same_netlist() -> None:
    cells = {f"c{number}": {"type": "$_NOT_", "connections": {"A": [number]}} for number in range(20)}
    module = {"ports": {}, "cells": cells, "netnames": {"a": {}, "b": {}, "c": {}}}
    text = json.dumps({"creator": "x", "modules": {"top": module, "leaf": {"cells": {}, "netnames": {}}}})
    orders = [shuffled(text, seed) for seed in (2, 2, 3)]
    assert [json.loads(order) for order in orders] == [json.loads(text)] * 3
    assert [len(list(same)) for _, same in groupby(orders)] == [2, 1]


@pytest.mark.usefixtures("own_cache")
def test_mapped_netlists_keep_enables_for_clock_gates(library: Library) -> None:
    path, files = clock_gated_netlist(design(), library)
    assert clock_gated_netlist(design(), library) == (path, files)
    cells = read_module(path, "top").cells
    types = Counter(cell.type for cell in cells)
    assert (types[library.flip_flop], types[GATED]) == (0, 8)
    assert {instance_path(cell.name) for cell in cells} == {"first", "add", "second"}


@pytest.mark.parametrize(
    ("verilog", "message"),
    [
        (HIERARCHY.replace("leaf first", "missing first"), r"yosys must be able to synthesise top: .*missing.*"),
        (HIERARCHY.replace("a + b;", "a +;"), r"yosys must be able to synthesise top: syntax error.*"),
        # which of the two tells depends on the version of Yosys
        (
            HIERARCHY.replace("posedge clk", "clk"),
            r"(liberty must hold cells for all of top, not lack one for \$.*|yosys must be .* top: FF .* supported)",
        ),
    ],
)
def test_a_design_that_cannot_be_mapped_is_one_line_with_its_log(library: Library, verilog: str, message: str) -> None:
    with pytest.raises(FlowError, match=f"^{message}$") as caught:
        AsicFlow(library, "builtin", "area").run(design(verilog))
    assert "\n" not in str(caught.value)
    assert {"yosys.ys", "yosys.log", "design.v"} <= caught.value.files.keys()


def test_unknown_scripts_and_tools_are_refused(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^script must be one of area, speed, both, not size$"):
        ExploreOptions(script="size").check()
    choices = "wheel, native or the path of a program"
    with pytest.raises(ToolError, match=rf"^yosys must be {choices}, not mine$"):
        AsicFlow(library, "asic", "area", yosys="mine").settings()
    monkeypatch.setenv("XPULPNN_YOSYS", "./mine")
    with pytest.raises(ToolError, match=rf"^XPULPNN_YOSYS must be {choices}, not ./mine$"):
        AsicFlow(library, "asic", "area").settings()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"^yosys must be installed: apt-get install yosys berkeley-abc$"):
        AsicFlow(library, "asic", "area", yosys="native").run(design())


def test_the_wheel_runs_unless_another_yosys_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "yosys"
    program.write_text("#!/bin/sh\necho 'Yosys 9.8 (git sha1 0)'\n")
    program.chmod(0o755)
    monkeypatch.delenv("XPULPNN_YOSYS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "wheel" in find_yosys().tools["yosys"]
    monkeypatch.setenv("XPULPNN_YOSYS", "native")
    assert find_yosys().tools["yosys"] == "9.8 (native)"
    assert find_yosys(str(program)).command == find_yosys().command == (str(program),)
    assert not find_yosys("wheel").native


def test_cells_that_the_library_lacks(library: Library, tmp_path: Path) -> None:
    cell = {"type": "$_DLATCH_P_", "connections": {"Q": [2]}}
    path = tmp_path / "netlist.json"
    path.write_text(json.dumps({"modules": {"top": {"ports": {}, "netnames": {}, "cells": {"latch": cell}}}}))
    with pytest.raises(ToolError, match=r"^liberty must hold cells for all of top, not lack one for \$_DLATCH_P_$"):
        mapped_module(read_module(path, "top"), library.cells)
