"""The HTML report of a made-up run in a headless browser: what is drawn, what the controls do, what is asked for."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xpulpnn_sim.explorer.report.html import write_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.flow,
    pytest.mark.skipif(BROWSER is None, reason="chromium or google-chrome must be on PATH"),
]

PROBE = """
<pre id="probe"></pre>
<script>
const started = setInterval(() => {
  if (!document.body.dataset.drawn) return;
  clearInterval(started);
  const found = {};
  const drawn = [...document.querySelectorAll(".plot")].filter((plot) => plot.querySelector("svg.main-svg"));
  const plots = () => drawn.map((plot) => plot.id);
  const marks = (id) => document.getElementById(id).data.slice(1).reduce((sum, trace) => sum + trace.x.length, 0);
  const box = (element) => ["left", "right", "top", "bottom"].map((side) => element.getBoundingClientRect()[side]);
  const click = (state, value) => document.querySelector(`[data-state=${state}][value="${value}"]`).click();
  const select = (state, value) => {
    const control = document.querySelector(`select[data-state=${state}]`);
    control.value = value;
    control.dispatchEvent(new Event("change"));
  };
  const column = (id, index) =>
    [...document.querySelectorAll(`#${id} tbody tr`)].map((row) => row.cells[index].textContent.trim());
  BODY
  found.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  document.getElementById("probe").textContent = JSON.stringify(found);
}, 20);
</script>
"""


def probe(report: Path, folder: Path, body: str, size: tuple[int, int] = (1400, 900)) -> dict[str, Any]:
    """Open a copy of the report that runs ``body`` once the plots are drawn; no console message may appear."""
    page = folder / "probed.html"
    page.write_text(report.read_text().replace("</body>", PROBE.replace("BODY", body) + "</body>"))
    command = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0]},{size[1]}", "--enable-logging=stderr",
        "--virtual-time-budget=20000", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    text = re.search(r'<pre id="probe">(.+?)</pre>', done.stdout)
    assert text, "plots must be drawn"
    found = json.loads(text[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["requests"] == []
    return found


def overlaps(boxes: list[list[float]]) -> list[tuple[int, int]]:
    """Pairs of boxes (left, right, top, bottom) that cover more than a pixel of each other."""
    return [
        (i, k)
        for i, (left, right, top, bottom) in enumerate(boxes)
        for k, other in enumerate(boxes[:i])
        if min(right, other[1]) - max(left, other[0]) > 1 and min(bottom, other[3]) - max(top, other[2]) > 1
    ]


def test_everything_is_drawn_and_controls_work(report, tmp_path):
    found = probe(
        report,
        tmp_path,
        """
        found.plots = plots();
        found.marks = marks("plot-area-delay");
        found.title = document.getElementById("plot-area-delay").layout.xaxis.title.text;
        found.tiles = document.querySelectorAll("#plot-area .slice").length;
        found.steps = column("path-steps", 2).length;
        found.texts = ["area-delay", "area-rate", "delay-rate", "energy-rate"].map((name) =>
          [...document.querySelectorAll(`#plot-${name} .textpoint text`)].filter((text) => text.textContent).map(box));
        const traces = document.getElementById("plot-area-delay").data.slice(1);
        const trace = traces.find((one) => one.customdata.includes(1));
        const place = trace.customdata.indexOf(1);
        const bar = (values) => [Math.round(1000 * values[place]) / 1000];
        const {error_x: x, error_y: y} = trace;
        found.bars = [y.array, y.arrayminus, x.array, x.arrayminus].map(bar);
        select("point", "1");
        found.repeated = document.getElementById("area-note").textContent;
        found.path = document.getElementById("path-summary").textContent;
        select("point", "0");
        click("flow", "asic-speed");
        found.faster = document.getElementById("plot-area-delay").data[1].x[0];
        found.heading = document.querySelector("#path h3").textContent;
        found.note = document.getElementById("area-note").textContent;
        select("point", "13");
        found.other = document.querySelector("#path h3").textContent;
        select("kernel", "matmul 64x288x256 2 bit");
        found.narrow = marks("plot-area-rate");
        select("colour", "dotp.multipliers");
        found.groups = document.getElementById("plot-area-delay").data.slice(1).map((trace) => trace.name);
        select("point", "22");
        found.other_netlist = document.getElementById("area-note").textContent;
        select("point", "13");
        click("flow", "ecp5");
        found.nothing = [...document.querySelectorAll(".plot")].map((plot) => plot.dataset.nothing);
        const heading = document.querySelectorAll("#figures thead tr:last-child button")[2];
        heading.click();
        found.ascending = column("figures", 2);
        heading.click();
        found.descending = column("figures", 2);
        """,
    )
    assert found["plots"] == [
        "plot-area-delay", "plot-area-rate", "plot-delay-rate", "plot-energy-rate", "plot-blocks", "plot-area",
        "plot-energy-points", "plot-energy",
    ]  # fmt: skip
    assert found["marks"] == 23
    assert found["title"] == "delay [FO4] \u2193"
    assert found["tiles"] == 14  # 11 instances, and the own cells of the three with others below
    assert found["steps"] == 30
    for boxes in found["texts"]:
        assert len(boxes) >= 15
        assert overlaps(boxes) == []
    assert found["faster"] == pytest.approx(88.4 * 0.74)
    assert found["heading"] == "1 ri5cy replicated none tool, asic-speed"
    assert found["other"] == "14 xpulpnn shared none booth, asic-speed"
    assert found["bars"] == [[0.25], [0.5], [2.0], [1.0]]
    assert found["note"] == "The instances add up to the 24.86 kGE of the tables."
    assert found["repeated"] == (
        "The instances add up to the 19.24 kGE of the tables (run 2 of 3). Instances told by equal function for 74.0 % "
        "of the area, by what reads a gate for 24.5 %; 1.5 % is shared by several."
    )
    assert "The tables show 5398 ps, of the same netlist." in found["path"]
    assert "a timer, mapped netlist (run 1 of 3)." in found["path"]
    assert "Longest path of it by other tools: OpenSTA 2.0.17: 5416 ps." in found["path"]
    assert found["other_netlist"] == "The instances add up to 30.57 kGE; the tables show 40.00 kGE."
    assert found["narrow"] == 15
    assert found["groups"] == ["replicated", "shared"]
    nothing = "No point has both figures with this choice."
    missing = "This flow has no hierarchy of this point."
    assert found["nothing"] == ["", nothing, nothing, "", "This flow has no hierarchy.", missing, "", ""]
    figures = [float(text) for text in found["ascending"] if text != "-"]
    assert figures == sorted(figures)
    assert len(figures) == 23
    assert found["ascending"][-1] == found["descending"][-1] == "-"
    assert found["descending"][0] == found["ascending"][-2]


def test_page_fits_a_phone(report, tmp_path):
    body = """
    found.page = [document.documentElement.scrollWidth, innerWidth];
    found.plots = drawn.map((plot) => box(plot.querySelector("svg.main-svg")).slice(0, 2));
    """
    found = probe(report, tmp_path, body, (500, 900))
    width, inner = found["page"]
    assert width <= inner
    assert all(left >= 0 and right <= inner for left, right in found["plots"])


def test_single_point_without_kernels(points, info, tmp_path):
    lone = replace(points[0], kernels=[], energies=[])
    write_report(tmp_path / "report.html", [lone], replace(info, baseline=""))
    found = probe(tmp_path / "report.html", tmp_path, "found.plots = plots(); found.steps = column('path-steps', 2);")
    assert found["plots"] == ["plot-area"]
    assert len(found["steps"]) == 30


def test_only_failed_points(points, info, tmp_path):
    failed = replace(points[9], kernels=[])
    write_report(tmp_path / "report.html", [failed, replace(failed, label="other")], info)
    found = probe(tmp_path / "report.html", tmp_path, "found.plots = plots(); found.errors = column('figures', 1);")
    assert found["plots"] == []
    assert all("yosys must finish" in error for error in found["errors"])


def test_no_points(info, tmp_path):
    write_report(tmp_path / "report.html", [], info)
    assert probe(tmp_path / "report.html", tmp_path, "found.plots = plots();")["plots"] == []
