"""Tables, CSV file and HTML text of a made-up run."""

import csv
import io
import re
from dataclasses import replace

import pytest
from rich.console import Console
from tests.programs import plots_of

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.exploration.library import NO_TECHNOLOGY
from xpulpnn_sim.exploration.placement_result import PlacementResult
from xpulpnn_sim.exploration.report import comparison, tables
from xpulpnn_sim.exploration.report.files import write_csv
from xpulpnn_sim.exploration.report.html import write_report
from xpulpnn_sim.exploration.report.trade_offs import trade_offs
from xpulpnn_sim.exploration.results import (
    UNFINISHED,
    Constraint,
)
from xpulpnn_sim.tools import pages
from xpulpnn_sim.tools.named_table import Column, NamedTable, TerminalTable

pytestmark = pytest.mark.flow


def printed(table: object, width: int = 160) -> list[str]:
    console = Console(width=width, highlight=False, color_system=None, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text().splitlines()


def test_main_table(points, run):
    lines = printed(TerminalTable(tables.figure_table(points, run.baseline)))
    first = next(line for line in lines if "ri5cy replicated none tool" in line)
    assert first.split()[:5] == ["1", "ri5cy", "replicated", "none", "tool"]
    assert first.split()[5:] == ["21.07", "-", "88.4", "-", "5198", "-", "24.86", "65.4", "3846"]
    # the lower one of two in the middle
    assert any("5391 612 7 0 31.2 30.4..33.9" in " ".join(line.split()) for line in lines)
    assert any("[kGE] [kGE] [FO4] [FO4] [ps] [ps]" in " ".join(line.split()) for line in lines)
    repeated = next(line for line in lines if "ri5cy replicated none booth" in line)
    assert repeated.split()[5:11] == ["19.24", "18.74..19.49", "91.8", "90.8..93.8", "5398", "+102"]
    assert "* asic-area: clock of 5.5 ns met by ri5cy replicated none booth." in [line.strip() for line in lines]
    headings = {column.heading for column in tables.figure_table(points, run.baseline).columns if column.better}
    assert headings == {
        "area \u2193", "delay \u2193", "slack \u2191", "LUT \u2193", "FF \u2193", "DSP \u2193", "BRAM \u2193",
        "fmax \u2191", "MAC/cycle \u2191", "cycles/sdotp \u2193", "per cycle \u2193", "per MAC \u2193",
    }  # fmt: skip


def test_paths_by_stage_and_module(points, run):
    table = tables.path_table([replace(points[0], top="core")])
    parts = [["asic-area", "dotp", "dotp.array16", 24], ["asic-area", "mult", "mult", 6]]
    assert [row[2:6] for row in table.rows[:2]] == parts
    assert [row[7] for row in table.rows] == pytest.approx([80.0, 20.0, 80.0, 20.0])
    assert (
        table.notes[1]
        == "1 asic-area: operand_a_i[3] to result_o[31], 5198 ps by a timer, mapped netlist; OpenSTA 2.0.17: 5216 ps."
    )
    found = {"backend.ex_stage.alu": "ex_stage", "core3.backend.lsu": "lsu", "tcdm": "tcdm", "": "cluster_axi"}
    steps = [replace(points[0].flows[0].path.steps[0], instance=name) for name in found]
    named = list(comparison.path_parts("cluster-axi", replace(points[0].flows[0].path, steps=steps)))
    assert [stage for stage, *_ in named] == list(found.values())
    assert named[3][1] == "cluster_axi"
    lines = [line for part in replace(run, points=tuple(points)).printed_parts() for line in printed(part)]
    assert "* 92 rows: see results.json." in lines


def test_placements(points, run, tmp_path):
    tiles, sizes = [[-1, 0], [1, 1]], {"width_um": 200.0, "height_um": 100.0, "utilisation": 0.7, "wire_mm": 12.34}
    more = {"resized": 5, "buffers": 3, "wireless_ps": 4158.4, "unsized_ps": 6000.0, "modules": ["", "alu"]}
    placed = PlacementResult(seed=2, tiles=tiles, **sizes, **more)
    (flow, *others), first = points[0].flows, points[0]
    steps = [replace(step, wire_ps=step.delay_ps / 8) for step in flow.path.steps]
    flow = replace(flow, placement=placed, path=replace(flow.path, steps=steps))
    table = tables.placement_table([replace(first, flows=[flow, *others]), *points[1:]])
    assert len(table.rows) == 1
    row = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert (row["core"], row["utilisation"], row["wires"], row["resized"], row["buffers"]) == (
        "200 x 100",
        70,
        12.34,
        5,
        3,
    )
    assert (row["no wires"], row["unsized"], round(row["placed"])) == (4158.4, 6000, 5198)
    assert (row["slower"], row["path in wires"]) == pytest.approx((25, 12.5), abs=0.01)
    assert row["OpenSTA 2.0.17"] == pytest.approx(flow.delay_ps * 59 / 58.8)
    assert tables.placement_table(points) is None
    changed = replace(run, points=(replace(first, flows=[flow, *others]), *points[1:]))
    write_report(tmp_path / "report.html", changed)
    plots = {plot["name"]: plot for plot in plots_of((tmp_path / "report.html").read_text())}
    (trace,) = plots["placement"]["variants"]["asic-area|0"]["data"]
    assert trace["z"] == [[None, 0], [1, 1]]
    assert trace["text"] == [["", "(top itself)"], ["alu", "alu"]]
    write_csv(tmp_path / "results.csv", changed.points, {})
    with (tmp_path / "results.csv").open() as file:
        assert next(csv.DictReader(file))["placement_wire_mm"] == "12.34"


def test_missed_clocks_and_structures_are_told(points):
    area = points[1].flows[0]
    missed = replace(points[2], flows=[replace(area, clock_ps=5000.0, structures={"adders": "inferred"})])
    notes = tables.figure_table([points[1], missed], "").notes
    assert f"asic-area: clock of 5.5 ns met by {points[1].label}." in notes
    assert f"asic-area: clock of 5 ns missed by {missed.label}." in notes
    assert "asic-area: figures with adders=inferred, whatever the preset has." in notes


def test_rates_densities_and_energies(make_point):
    point = make_point(0, "xpulpnn", "replicated", "register", "tool")
    energies = [replace(energy, workload="matmul:8:nn_4x4:64x288x256") for energy in point.energies[:1]]
    table = tables.rate_table([replace(point, energies=energies)])
    names = [column.heading for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    assert len(rows) == 3 * 2
    row = rows[0]
    assert (row["kernel"], row["variant"]) == ("matmul 64x288x256 8 bit", "nn_4x4")
    assert row["clock and area of"] == "ex-stage, asic-area"
    # 90 FO4 of 58.8 ps; 28.1 kGE of 7.2576 um2
    clock = 1e6 / (90 * 58.8)
    assert row["clock \u2191"] == pytest.approx(clock)
    assert row["GMAC/s \u2191"] == pytest.approx(3.9 * clock / 1e3)
    assert row["GMAC/s per mm2 \u2191"] == pytest.approx(3.9 * clock / 1e3 / (28.1e3 * 7.2576e-6))
    assert row["pJ/MAC \u2193"] == pytest.approx(11.8 * 28.1 / 25 / 3.9)
    assert row["energy of"] == "backend, 50.50 kGE"
    assert rows[2]["pJ/MAC \u2193"] is None


def test_no_rates_without_a_technology(make_point):
    point = make_point(0, "xpulpnn", "replicated", "register", "tool")
    assert NO_TECHNOLOGY not in tables.figure_table([point], "").notes
    samples = [replace(energy, conditions=[NO_TECHNOLOGY]) for energy in point.energies]
    assert NO_TECHNOLOGY in tables.figure_table([replace(point, energies=samples)], "").notes
    samples = [replace(flow, area_um2=None) for flow in point.flows]
    assert tables.rate_table([replace(point, flows=samples)]) is None
    assert tables.rate_table([replace(point, kernels=[])]) is None
    wrong = [{**record, "mismatches": 2} for record in point.kernels]
    assert tables.rate_table([replace(point, kernels=wrong)]) is None


def test_best_points(make_point):
    points = [make_point(0, preset, "replicated", "none", "tool") for preset in ("ri5cy", "xpulpnn")]
    table = tables.best_table(points)
    best = {(row[0], row[1]): (row[2], row[3]) for row in table.rows}
    assert best["area \u2193", "asic-area"] == ("21.00 kGE", "1 ri5cy replicated none tool")
    assert best["MAC/cycle \u2191", "matmul 64x288x256 8 bit"] == ("3.90", "2 xpulpnn replicated none tool")
    group = "matmul 64x288x256 8 bit; ex-stage, asic-area"
    assert best["GMAC/s \u2191", group][1] == "2 xpulpnn replicated none tool"
    assert best["per MAC \u2193", "energy, matmul:8"][1] == "2 xpulpnn replicated none tool"
    assert best["per cycle \u2193", "energy, general code"][1] == "1 ri5cy replicated none tool"
    # kernels that do more in a cycle may take more energy for it
    assert ("per cycle \u2193", "energy, matmul:8") not in best
    assert not any("DSP" in str(row[0]) for row in table.rows)
    assert table.title == "Best points"
    assert tables.best_table([points[0], replace(points[1], error=f"{UNFINISHED} b")]).title == "Best points so far"
    assert tables.best_table(points[:1]) is None
    assert tables.best_table([points[0], replace(points[0], label="twin")]) is None


def test_points_that_break_a_constraint_are_not_best(make_point):
    points = [make_point(0, preset, "replicated", "none", "tool") for preset in ("ri5cy", "xpulpnn")]
    # all have 192 flip-flops
    kept = [Constraint(f"flip_flops{limit}").met(points[0]) for limit in ("<192", "<=192", ">=192", ">192")]
    assert kept == [False, True, True, False]
    assert tables.best_table(points, {"area_kge<25": []})
    assert tables.best_table(points, {"area_kge<25": [points[1].label]}) is None
    with pytest.raises(InputError, match=r"^constraint must be one of area_kge, .* and a number, not area<60 kGE$"):
        Constraint("area<60 kGE")


def test_power_at_the_clock_of_a_point(make_point):
    """10 pJ of switching in a cycle of 2 ns, and 2 pJ of leakage in 10 ns."""
    point = make_point(0, "ri5cy", "replicated", "none", "tool")
    module = replace(point.energies[0].modules[0], leakage=2000.0)
    energy = replace(point.energies[0], energy_per_cycle_fj=12000.0, modules=[module])
    flow = replace(point.flows[0], delay_ps=1500.0, register_ps=500.0, leakage_uw=7.0)
    shown = comparison.figures([replace(point, flows=[flow], energies=[energy])])
    values = {figure.column.name: figure.values for figure in shown}
    assert (values["clock"], values["leakage"], values["power"]) == ([500.0], [7.0], [pytest.approx(5.2)])
    asked = replace(point, flows=[replace(flow, clock_ps=4000.0)])
    assert comparison.power_mw(asked, energy) == pytest.approx(2.7)


def test_best_points_within_the_noise_share_a_row(make_point):
    points = [make_point(0, "ri5cy", "replicated", how, "tool") for how in ("none", "and", "register")]
    best = {(row[0], row[1]): row[3] for row in tables.best_table(points).rows}
    # 21.0, 21.7 and 22.6 kGE
    assert best["area \u2193", "asic-area"] == "1 ri5cy replicated none tool, 2 ri5cy replicated and tool"


def test_what_no_kernel_uses_is_said(make_point):
    first = make_point(0, "xpulpnn", "replicated", "none", "tool")
    second = replace(first, configuration={**first.configuration, "rvfi": True})
    notes = tables.figure_table([first, second], "").notes
    assert "matmul 64x288x256 8 bit: no variant uses rvfi here." in notes
    faster = replace(second, kernels=[{**record, "cycles": 1} for record in second.kernels])
    assert not any("no variant uses" in note for note in tables.figure_table([first, faster], "").notes)


def test_a_unit_alone_has_no_rate(make_point):
    point = make_point(0, "xpulpnn", "replicated", "none", "tool")
    assert tables.rate_table([point])
    assert tables.rate_table([replace(point, top="dotp")]) is None


@pytest.mark.parametrize("width", [80, 120, 160, 300])
def test_tables_show_every_point_and_figure_in_any_terminal(points, run, width):
    text = "\n".join(printed(TerminalTable(tables.figure_table(points[:9], run.baseline)), width))
    assert "…" not in text
    for figure in ("21.07", "5198", "3846", "31.2", "1.471", "15.10", "4.080", "11.28", "18.74..19.49"):
        assert figure in text
    # labels fold in the narrowest
    assert text.count("xpulpnn replicated") == text.count("no.  point")


def test_overheads(make_point):
    choices = [("ri5cy", "none"), ("xpulpnn", "register")]
    points = [make_point(0, preset, "replicated", isolation, "tool") for preset, isolation in choices]
    table = tables.overhead_table(points, points[0].label)
    headings = [(column.group, column.name, column.unit) for column in table.columns[2:]]
    row = dict(zip(headings, table.rows[1][2:], strict=True))
    assert row["asic-area", "area", "%"] == pytest.approx(100 * (28.1 / 21.0 - 1))
    assert row["asic-speed", "delay", "%"] == pytest.approx(100 * (90.0 / 88.0 - 1))
    assert row["matmul 64x288x256 8 bit", "MAC/cycle", "%"] == pytest.approx(100 * (1 / 0.7 - 1))
    assert table.rows[0][2] == "21.00 kGE"
    assert table.marked == {0}


def test_no_overheads_without_a_baseline(points):
    assert tables.overhead_table(points, "") is None
    assert tables.overhead_table(points, points[9].label) is not None  # kernels alone
    assert tables.overhead_table(points[:1], points[0].label) is None
    empty = replace(points[0], flows=[], kernels=[], energies=[])
    assert tables.overhead_table([empty, points[1]], empty.label) is None


def test_named_table(paper):
    lines = printed(TerminalTable(paper))
    assert lines[0].strip() == "Table II of the XpulpNN paper"
    assert any(line.split() == ["EX", "stage,", "extended", "26.1", "+22.5", "+32.6"] for line in lines)
    assert lines[-1].strip() == "* The paper's figures are from 22FDX after placement."


def test_a_narrow_table_without_groups_repeats_its_first_column():
    columns = [Column(name="module"), *(Column(name=f"figure {i}", digits=0) for i in range(3))]
    lines = printed(TerminalTable(NamedTable(title="", columns=columns, rows=[["alu", 10, 11, 12]])), 30)
    assert [line.split() for line in lines if "alu" in line] == [["alu", "10", "11"], ["alu", "12"]]


def test_csv(points, run, tmp_path):
    write_csv(tmp_path / "points.csv", points, {"command": run.command})
    rows = list(csv.DictReader((tmp_path / "points.csv").read_text().splitlines()))
    assert len(rows) == 23 * 2 + 1 + 1
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]
    fpga = next(row for row in rows if row["flow"] == "ecp5")
    names = ("luts", "fmax_mhz_min", "fmax_mhz_median", "area_kge")
    assert [fpga[name] for name in names] == ["5391", "30.4", "31.2", ""]
    assert sum(bool(row["conditions"]) for row in rows) == 3  # of two scripts and the FPGA
    assert "4 placement seeds" in fpga["conditions"]
    assert fpga["tools"] == "nextpnr-ecp5 0.9"
    repeated = next(row for row in rows if row["repeat"])
    assert (repeated["repeat"], repeated["clock_ps"]) == ("3", "5500.0")
    assert float(repeated["area_kge"]) - float(repeated["area_kge_min"]) == pytest.approx(0.5)
    assert float(repeated["delay_ps_max"]) - float(repeated["delay_ps"]) == pytest.approx(2 * 58.8)
    assert float(repeated["slack_ps"]) == pytest.approx(5500 - 91.8 * 58.8)
    assert "1 GE = 7.2576 um2" in rows[0]["conditions"]
    assert [row["tools"] for row in rows[:2]] == ["yosys 0.23;abc 1.01;opensta 2.0.17", ""]
    assert repeated["matmul:8: netlist"] == "backend, 50.50 kGE, mapped for area, with clock gates"
    assert float(repeated["matmul 64x288x256 8 bit: gmacs"]) == pytest.approx(2.73e3 / (91.8 * 58.8))
    assert rows[0]["matmul 64x288x256 8 bit: conditions"].startswith("On the RTL, results checked")
    assert [row["command"] for row in rows[:2]] == [run.command, ""]
    failed = next(row for row in rows if row["error"])
    assert failed["flow"] == ""
    assert failed["matmul 64x288x256 8 bit: macs_per_cycle"] == "3.9"
    keys = ("dotp.multipliers", "dotp.isolation", "dotp.recoding")
    assert [rows[0][key] for key in keys] == ["replicated", "none", "tool"]
    assert float(rows[0]["matmul:8: energy_per_mac_fj"]) == pytest.approx(4080.0, rel=1e-3)
    write_csv(tmp_path / "points.csv", [], {})
    assert (tmp_path / "points.csv").read_text() == ""


def test_front():
    xs = [3.0, 1.0, 2.0, 2.0, None, 4.0]
    ys = [1.0, 5.0, 2.0, 3.0, 0.0, 1.0]
    assert comparison.front(xs, ys, more_x=False) == [1, 2, 0]
    assert comparison.front(xs, ys, more_x=True) == [5]
    assert comparison.front([1.0, 2.0, 3.0], [1.0, 0.5, 2.0], more_x=True) == [1, 2]


def test_workload_names_leave_the_variant_out():
    names = ("matmul:8:nn_4x4", "conv 16x16x32:64x3x3 8 bit xpulpv2_4x2", "nn_4x4")
    assert [*map(comparison.without_variant, names)] == ["matmul:8", "conv 16x16x32:64x3x3 8 bit", "nn_4x4"]


def test_what_varies(points):
    varied = comparison.varying([replace(points[0], settings={}), *points[1:]])
    assert list(varied) == ["preset", "dotp.multipliers", "dotp.isolation", "dotp.recoding"]
    assert varied["dotp.recoding"][:3] == ["tool", "booth", "tool"]
    assert comparison.varying(points[:1]) == {}


def test_conditions_name_their_points(points):
    points = points[:3]
    changed = replace(points[2].flows[0], conditions=["No wire load."])
    points[2] = replace(points[2], flows=[changed, *points[2].flows[1:]])
    area, speed, *_ = comparison.conditions(points)
    assert area.name == "asic-area"
    assert area.sentences[0].endswith("(sg13g2_nand2_1). (points 1, 2)")
    assert area.sentences[2] == "No wire load. (point 3)"
    assert not any("(point" in sentence for sentence in speed.sentences)


def test_page_asks_for_nothing(report):
    page = report.read_text()
    # compressed data is not looked into
    scripts = "".join(re.findall(r"(?s)<(?:style|script)\b[^>]*>(.*?)</(?:style|script)>", page))
    markup = re.sub(r"(?s)<(style|script)\b([^>]*)>.*?</\1>", r"<\1\2>", page)
    addresses = re.findall(r"""(?i)<[^>]*\s(?:src|href|srcset|data|action)\s*=\s*["']?([^"'\s>]*)""", markup)
    assert addresses
    assert [address for address in addresses if not address.startswith("#")] == []
    assert re.findall(r"(?i)https?:|//cdn|url\(|@import|\bimport\b|\bfetch\(|XMLHttpRequest|WebSocket", scripts) == []
    assert "default-src 'none'" in page
    assert report.stat().st_size < 3e6


def test_page_has_everything(report, points):
    page = report.read_text()
    assert [heading for heading in re.findall(r"<h2[^>]*>([^<]*)", page) if heading.strip()] == [
        "Failed points", "Table II of the XpulpNN paper", "Trade-offs", "Figures of all points",
        "Rates, densities and energies", "Best points", "Overhead against ri5cy replicated none tool",
        "Area by hierarchy", "Critical path", "Energy", "Configurations",
    ]  # fmt: skip
    assert "yosys must finish the design, not stop: &lt;cell&gt; $_DLATCH_" in page
    machine = comparison.kernel_conditions(points[0].kernels[0])
    for sentence in (*points[0].flows[1].conditions, *points[0].energies[0].conditions, machine):
        assert sentence in page
    assert "Pareto front" in page
    assert "12 min 14 s" in page


def drawn(page):
    return {plot["name"]: plot for plot in plots_of(page)}


@pytest.fixture(scope="module")
def plots(report):
    return drawn(report.read_text())


def test_trade_offs_have_a_variant_for_each_choice(plots):
    assert list(plots) == [
        "area-delay", "area-rate", "area-speed", "delay-rate", "energy-rate", "blocks", "area",
        "energy-points", "energy",
    ]  # fmt: skip
    plot = plots["area-delay"]
    assert plot["choices"] == ["flow", "colour"]
    slow, fast = (plot["variants"][f"asic-{script}|dotp.multipliers"] for script in ("area", "speed"))
    assert slow["layout"]["xaxis"]["title"]["text"] == "delay [FO4] \u2193"
    front, *groups = slow["data"]
    assert front["mode"] == "lines"
    assert [trace["name"] for trace in groups] == ["replicated", "shared"]
    assert sum(len(trace["x"]) for trace in groups) == 23
    assert fast["data"][1]["x"][0] == pytest.approx(88.4 * 0.74)
    # bars from the least to the largest of several runs
    trace = next(group for group in groups if "1" in group["customdata"])
    place = trace["customdata"].index("1")
    bars = [trace[name][end][place] for name in ("error_y", "error_x") for end in ("array", "arrayminus")]
    assert bars == pytest.approx([0.25, 0.5, 2.0, 1.0])
    # most points have their numbers beside them
    assert sum(bool(text) for trace in groups for text in trace["text"]) >= 15
    narrow = plots["area-rate"]["variants"]["asic-speed|matmul 64x288x256 2 bit|dotp.multipliers"]
    assert sum(len(trace["x"]) for trace in narrow["data"][1:]) == 15
    assert plots["area-speed"]["choices"] == ["flow", "kernel", "colour"]
    speed = plots["area-speed"]["variants"]["asic-area|matmul 64x288x256 8 bit|dotp.multipliers"]
    first = next(trace for trace in speed["data"][1:] if "0" in trace["customdata"])
    assert first["x"][first["customdata"].index("0")] == pytest.approx(2.73e3 / (88.4 * 58.8))


def test_a_plot_needs_two_points_that_differ_both_ways(points):
    assert [plot.name for _title, plot in trade_offs(points[:2])] == ["area-delay", "area-speed"]


def test_few_points_have_their_names_in_the_plots(points):
    named = [replace(point, label=f"core {number}") for number, point in enumerate(points[:2])]
    for figure in trade_offs(named)[0][1].variants.values():
        traces = figure["data"][1:]
        assert sorted(text for trace in traces for text in trace["text"]) == ["core 0", "core 1"]
        # a point that is not chosen has its name in the same colour
        assert all(trace["unselected"]["textfont"] == {"color": pages.INK} for trace in traces)


@pytest.fixture
def page_of(run, tmp_path):
    """The HTML report of points."""

    def written(*points, **changes):
        write_report(tmp_path / "report.html", replace(run, points=points, **changes))
        return (tmp_path / "report.html").read_text()

    return written


def test_a_page_without_plots_says_why(points, page_of):
    stopped = replace(points[1], flows=[], kernels=[], energies=[], error="interrupted before the end of asic-area")
    page = page_of(points[0], stopped)
    assert "There are no plots: each takes two points" in page
    assert f"2 {stopped.label}: interrupted before the end of asic-area." in page
    assert "Failed points" not in page


def test_a_page_opens_on_the_flow_that_has_a_clock(points, page_of):
    clockless = [replace(point.flows[0], flow="builtin", area_um2=None) for point in points[:2]]
    samples = zip(points, clockless, strict=False)
    page = page_of(*(replace(point, flows=[first, *point.flows]) for point, first in samples))
    names = re.findall('data-choice="flow" value="([^"]*)"', page)
    assert names[:3] == ["asic-area", "asic-speed", "builtin-area"]
    assert "GMAC/s needs the clock of a technology" in drawn(page)["area-speed"]["nothing"]


def test_no_front_is_told_of_where_none_is_drawn(points, page_of):
    worse = [replace(flow, area_kge=99.0, delay_fo4=99.0, delay_ps=9999.0) for flow in points[0].flows]
    assert "Pareto front" not in page_of(points[0], replace(points[2], flows=worse))


def test_plots_are_what_plotly_takes(plots):
    from plotly.graph_objects import Figure

    for plot in plots.values():
        Figure(next(iter(plot["variants"].values())))


def test_details_of_a_point_say_what_they_are_of(plots):
    tree = plots["area"]["variants"]["asic-area|0"]["data"][0]
    # 11 instances, and the own cells of the three with others below
    assert len(tree["ids"]) == 14
    notes = {at: figure["layout"]["title"]["text"] for at, figure in plots["area"]["variants"].items()}
    assert notes["asic-speed|0"] == "The instances add up to the 24.86 kGE of the tables."
    assert notes["asic-area|1"] == (
        "The instances add up to the 19.24 kGE of the tables (run 2 of 3).<br>Instances told by equal function for "
        "74.0 % of the area, by what reads a gate for 24.5 %; 1.5 % is shared by several."
    )
    assert "ecp5" not in plots["blocks"]["variants"]


def test_plotly_missing(run, tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.resources.files", missing)
    monkeypatch.setattr(pages, "plotly_script", pages.plotly_script.__wrapped__)
    with pytest.raises(ToolError, match=re.escape("plotly must be installed for the HTML report: pip install plotly")):
        write_report(tmp_path / "report.html", run)
    assert list(tmp_path.iterdir()) == []


def test_text_is_escaped(points, page_of):
    label = "</script><script>alert(1)</script>"
    assert "<script>alert" not in page_of(replace(points[0], label=label), title=label)


def test_same_run_same_page(report, points, paper, page_of):
    assert page_of(*points, extra=(paper,)) == report.read_text()
