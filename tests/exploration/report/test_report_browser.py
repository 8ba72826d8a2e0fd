"""The HTML report of a made-up run in a headless browser: what is drawn, what the controls do, what is asked for."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.programs import plots_of

from xpulpnn_sim.exploration.report.html import write_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
pytestmark = [pytest.mark.flow, pytest.mark.skipif(BROWSER is None, reason="chromium or google-chrome must be on PATH")]

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
  const click = (state, value) => document.querySelector(`[data-choice=${state}][value="${value}"]`).click();
  const select = (state, value) => {
    const control = document.querySelector(`select[data-choice=${state}]`);
    control.value = value;
    control.dispatchEvent(new Event("change"));
  };
  const column = (id, index) =>
    [...document.querySelector(`#${id} tbody`).rows].map((row) => row.cells[index].textContent.trim());
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
    reply = json.loads(text[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert reply["requests"] == []
    return reply


def test_everything_is_drawn_and_controls_work(report, tmp_path):
    page = probe(
        report,
        tmp_path,
        """
        found.plots = plots();
        found.tiles = document.querySelectorAll("#plot-area .slice").length;
        found.texts = ["area-delay", "area-rate", "delay-rate", "energy-rate"].map((name) =>
          [...document.querySelectorAll(`#plot-${name} .textpoint text`)].filter((text) => text.textContent).map(box));
        click("flow", "asic-speed");
        found.faster = document.getElementById("plot-area-delay").data[1].x[0];
        found.heading = [...document.querySelectorAll("#area h3")].at(-1).textContent;
        select("point", "13");
        found.other = [...document.querySelectorAll("#area h3")].at(-1).textContent;
        select("kernel", "matmul 64x288x256 2 bit");
        found.narrow = marks("plot-area-rate");
        select("colour", "dotp.multipliers");
        found.groups = document.getElementById("plot-area-delay").data.slice(1).map((trace) => trace.name);
        click("flow", "ecp5");
        found.nothing = [...document.querySelectorAll(".plot")].map((plot) => plot.dataset.nothing);
        const heading = document.querySelectorAll("#figures thead tr:last-child button")[2];
        found.cut = [...document.querySelectorAll(".wide")].filter((table) => table.scrollWidth > table.clientWidth)
          .map((table) => table.closest("section").id);
        found.overlong = document.documentElement.scrollWidth - innerWidth;
        heading.click();
        found.ascending = column("figures", 2);
        heading.click();
        found.descending = column("figures", 2);
        """,
        (1024, 900),
    )
    # no table scrolls to the side
    assert page["cut"] == []
    assert page["overlong"] <= 0
    assert page["plots"] == [f"plot-{plot['name']}" for plot in plots_of(report.read_text())]
    assert page["tiles"] == 14
    assert all(len(boxes) >= 12 for boxes in page["texts"])
    assert page["faster"] == pytest.approx(88.4 * 0.74)
    assert page["heading"] == "Hierarchy of 1 ri5cy replicated none tool, asic-speed"
    assert page["other"] == "Hierarchy of 14 xpulpnn shared none booth, asic-speed"
    assert page["narrow"] == 15
    assert page["groups"] == ["replicated", "shared"]
    # a flow for FPGAs has no figures of cells
    assert [bool(text) for text in page["nothing"]] == [False, True, True, True, False, True, True, False, False]
    figures = [float(text) for text in page["ascending"] if text != "-"]
    assert figures == sorted(figures)
    assert len(figures) == 23
    assert page["ascending"][-1] == page["descending"][-1] == "-"
    assert page["descending"][0] == page["ascending"][-2]


def test_page_fits_a_phone(report, tmp_path):
    body = """
    found.page = [document.documentElement.scrollWidth, innerWidth];
    found.plots = drawn.map((plot) => box(plot.querySelector("svg.main-svg")).slice(0, 2));
    """
    page = probe(report, tmp_path, body, (500, 900))
    width, inner = page["page"]
    assert width <= inner
    assert all(left >= 0 and right <= inner for left, right in page["plots"])


@pytest.mark.parametrize(("numbers", "plots"), [([0], ["plot-area"]), ([9, 9], []), ([], [])])
def test_small_runs(points, run, tmp_path, numbers, plots):
    """One point without kernels, two that failed, and none."""
    small = [replace(points[number], label=str(at), kernels=[], energies=[]) for at, number in enumerate(numbers)]
    write_report(tmp_path / "report.html", replace(run, points=tuple(small), baseline=""))
    failed = "found.failed = [...document.querySelectorAll('#failed li span')].map((error) => error.textContent);"
    page = probe(tmp_path / "report.html", tmp_path, f"found.plots = plots(); {failed}")
    assert page["plots"] == plots
    assert page["failed"] == [points[9].error] * numbers.count(9)
