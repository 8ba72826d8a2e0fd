"""Points in processes: results, resumption, and what a failure leaves of the rest."""

import json

import pytest

from xpulpnn_sim.exploration import task
from xpulpnn_sim.exploration.space import build_space
from xpulpnn_sim.exploration.task import Task, run_tasks

pytestmark = pytest.mark.flow


class Run:
    def __init__(self, folder, *steps, presets="ri5cy,xpulpnn"):
        self.folder = folder
        self.steps = steps
        self.points = build_space("nnrf" if "cu" in presets else "dotp", [presets], [], []).points
        self.reported = []

    def __call__(self, *, fresh_since=None, timeout_s=60.0, jobs=1):
        tasks = [Task(point, self.steps, self.folder, fresh_since=fresh_since) for point in self.points]
        self.reported.clear()
        self.missing = [len(task.missing) for task in tasks]
        run_tasks(tasks, lambda *words: self.reported.append(words), jobs=jobs, timeout_s=timeout_s)
        return [task.result() for task in tasks]

    def record(self, name):
        return json.loads((self.folder / "points" / name / "result.json").read_text())


@pytest.fixture(autouse=True)
def fake_designs(fakes, monkeypatch):
    monkeypatch.setattr(task, "emit_design", fakes.emit)


@pytest.fixture
def diary(tmp_path):
    return tmp_path / "diary"


def lines(diary):
    return diary.read_text().splitlines()


def test_points_are_written_with_their_configuration(fakes, tmp_path, diary, monkeypatch):
    run = Run(tmp_path, fakes.FakeStep("a", diary), fakes.FakeStep("b", diary))
    results = run(jobs=2)
    assert [result.label for result in results] == ["ri5cy", "xpulpnn"]
    assert [[flow.name for flow in result.flows] for result in results] == [["a", "b"]] * 2
    assert not any(result.error for result in results)
    assert [result.configuration for result in results] == [{"xpulpnn": False}, {"xpulpnn": True}]
    folder = tmp_path / "points" / "ri5cy"
    assert {path.name for path in folder.iterdir()} == {"config.json", "dotp.v", "dotp.json", "result.json", "log.txt"}
    assert json.loads((folder / "config.json").read_text()) == {"xpulpnn": False}
    assert results[0].folder == "points/ri5cy"
    assert sorted(lines(diary)) == ["a ri5cy", "a xpulpnn", "b ri5cy", "b xpulpnn"]
    assert sorted(run.reported) == sorted((point, step, False) for point in ("ri5cy", "xpulpnn") for step in "ab")
    # finished points start no process
    monkeypatch.setattr(task, "executor", None)
    assert run() == results
    assert run.reported == [(point, step, True) for point in ("ri5cy", "xpulpnn") for step in "ab"]
    assert len(lines(diary)) == 4


def test_energies_run_after_everything_else(fakes, tmp_path, diary):
    kinds = {"c": "energies", "b": "kernels", "a": "flows"}
    run = Run(tmp_path, *(fakes.FakeStep(name, diary, kind=kind) for name, kind in kinds.items()))
    run()
    assert lines(diary) == [f"{name} {preset}" for name in "abc" for preset in ("ri5cy", "xpulpnn")]


def test_new_step_and_new_settings_run_alone(fakes, tmp_path, diary):
    Run(tmp_path, fakes.FakeStep("a", diary))()
    diary.unlink()
    (first, second) = Run(tmp_path, fakes.FakeStep("a", diary), fakes.FakeStep("b", diary))()
    assert lines(diary) == ["b ri5cy", "b xpulpnn"]
    assert [flow.name for flow in first.flows] == [flow.name for flow in second.flows] == ["a", "b"]
    diary.unlink()
    Run(tmp_path, fakes.FakeStep("a", diary, version="2"), fakes.FakeStep("b", diary))()
    assert lines(diary) == ["a ri5cy", "a xpulpnn"]


def test_fresh_and_lost_files_run_again(fakes, tmp_path, diary):
    run = Run(tmp_path, fakes.FakeStep("a", diary), presets="ri5cy")
    run()
    run(fresh_since=0.0)
    assert len(lines(diary)) == 2
    (tmp_path / "points" / "ri5cy" / "dotp.v").unlink()
    run()
    assert len(lines(diary)) == 3
    (tmp_path / "points" / "ri5cy" / "result.json").write_text('{"keys": 3')
    run()
    assert len(lines(diary)) == 4
    run()
    assert len(lines(diary)) == 4


@pytest.mark.parametrize(
    ("act", "error"),
    [
        ("tool", "bad: yosys must be able to synthesise it"),
        ("bug", "bad: ZeroDivisionError: division by zero"),
        ("wrong", "bad: results must equal the reference, not differ 3 times"),
    ],
)
def test_failing_step_leaves_the_others(fakes, tmp_path, diary, act, error):
    steps = [fakes.FakeStep("a", diary), fakes.FakeStep("bad", diary, act), fakes.FakeStep("c", diary)]
    run = Run(tmp_path, *steps)
    failed, good = run()
    assert failed.error == error
    assert [flow.name for flow in failed.flows] == (["a", "bad", "c"] if act == "wrong" else ["a", "c"])
    assert good.error == ""
    assert len(good.flows) == 3
    diary.unlink()
    assert [result.error for result in run()] == [error, ""]
    assert lines(diary) == ["bad ri5cy"]
    log = (tmp_path / "points" / "ri5cy" / "log.txt").read_text()
    assert ("Traceback" in log) == (act == "bug")


@pytest.mark.parametrize(
    ("act", "error"),
    [
        ("kill", "bad: its process must end by itself, not be killed by SIGKILL (see log.txt)"),
        ("exit", "bad: its process must end with a result, not with exit code 3 (see log.txt)"),
        ("hang", "bad: must end within 6 s, not be stopped then (see log.txt)"),
    ],
)
def test_crashed_process_takes_nothing_with_it(fakes, tmp_path, diary, act, error):
    run = Run(tmp_path, fakes.FakeStep("a", diary), fakes.FakeStep("bad", diary, act))
    crashed, good = run(jobs=2, timeout_s=6.0 if act == "hang" else 60.0)
    assert crashed.error == error
    assert [flow.name for flow in crashed.flows] == ["a"]
    assert (good.error, len(good.flows)) == ("", 2)
    assert run.record("ri5cy")["error"] == error
    assert len(run.reported) == 4
    repaired = Run(tmp_path, fakes.FakeStep("a", diary), fakes.FakeStep("bad", diary))
    assert [result.error for result in repaired()] == ["", ""]
    assert repaired.missing == [1, 0]


def test_crash_of_a_fresh_run_shows_nothing_old(fakes, tmp_path, diary):
    Run(tmp_path, fakes.FakeStep("a", diary), presets="ri5cy")()
    (crashed,) = Run(tmp_path, fakes.FakeStep("a", diary, "kill"), presets="ri5cy")(fresh_since=0.0)
    assert crashed.flows == []


def test_design_that_cannot_be_made(fakes, tmp_path, diary):
    run = Run(tmp_path, fakes.FakeStep("a", diary))
    run.points = build_space("dotp", ["xpulpnn"], [], ["rvfi=true,false"]).points
    bad, good = run()
    assert bad.error == "generate: generator must be able to build this, not rvfi"
    assert (bad.flows, bad.configuration) == ([], {})
    assert (good.error, len(good.flows)) == ("", 1)
