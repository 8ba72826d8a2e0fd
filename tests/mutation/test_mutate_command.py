"""Mutants of hardware units: made, found by the benches, proved equivalent, and shown."""

import json
from pathlib import Path

import pytest

from xpulpnn_sim.bench.runner import available
from xpulpnn_sim.cli import main


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "UNIT must be all, or one that --list shows, not nothing"),
        ([], "UNIT must be given: all, or one or more that --list shows"),
        (["--summary", "-o", "nowhere"], "--output must hold results of campaigns, not none: nowhere"),
        (["regfile", "--mutants", "0"], "--mutants must be at least 1, not 0"),
    ],
)
def test_bad_input_is_told_in_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", *words]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.bench
def test_the_bench_of_the_nn_rf_finds_its_mutants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not available("verilator"):
        pytest.skip("verilator is not installed")
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "report.json"
    words = ["mutate", "nnrf-4", "--mutants", "30", "--proof", "0", "-o", "out", "--json", str(report)]
    assert main(words) == 0
    found = json.loads(report.read_text())["units"]["nnrf-4"]
    assert found["check"] >= 25
    # what the reset of a register adds belongs to no line
    sources = [mutant["source"] for mutant in found["mutants"] if mutant["source"]]
    assert len(sources) > 15
    assert all(source.startswith("xpulpnn/dotp/nnrf.py:") for source in sources)
    verdicts = (tmp_path / "out" / "nnrf-4" / "verdicts.jsonl").read_text().splitlines()
    # the unit itself is the mutant 0
    assert sorted(json.loads(line)["mutant"] for line in verdicts) == list(range(31))
    # half of the verdicts are lost: a run that resumes makes them again, and the others stay
    (tmp_path / "out" / "nnrf-4" / "verdicts.jsonl").write_text("\n".join([*verdicts[:15], ""]))
    first = report.read_text()
    assert main([*words, "--resume"]) == 0
    assert report.read_text() == first
    assert (tmp_path / "out" / "nnrf-4" / "verdicts.jsonl").read_text().startswith("\n".join(verdicts[:15]))
    assert "nnrf-4" in capsys.readouterr().out
    assert main(["mutate", "--summary", "-o", "out", "--json", str(report)]) == 0
    assert json.loads(report.read_text())["units"]["nnrf-4"] == found
