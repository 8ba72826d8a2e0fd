"""Mutants of hardware units: made, found by the benches, proved equivalent, and shown."""

from pathlib import Path

import pytest

from xpulpnn_sim.benches.runner import available
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import main


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "UNIT must be all, or one that --list shows, not nothing"),
        ([], "UNIT must be given: all, or one or more that --list shows"),
        (["--summary", "-o", "nowhere"], "folder must hold results of campaigns, not none: nowhere"),
    ],
)
def test_bad_input_is_told_in_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", *words]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.bench
def test_the_bench_of_the_control_registers_finds_its_mutants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    if not available("verilator"):
        pytest.skip("verilator is not installed")
    monkeypatch.chdir(tmp_path)
    models, unit, report = pytestconfig.rootpath / "build" / "benches", "cluster-control", tmp_path / "report.json"
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "models").symlink_to(models)
    words = ["mutate", unit, "--mutants", "10", "--proof", "0", "-o", "out", "--json", str(report)]
    assert main(words) == 0
    found = read_results(report)[0]["units"][unit]
    assert found["check"] >= 7
    # what the reset of a register adds belongs to no line
    sources = [mutant["source"] for mutant in found["mutants"] if mutant["source"]]
    assert len(sources) >= 5
    assert all(source.startswith("xpulpnn/c") for source in sources)
    assert all(mutant["port"] != "CLK" for mutant in found["mutants"])
    folder = tmp_path / "out" / unit
    verdicts = {path: path.read_text() for path in (folder / "verdicts").iterdir()}
    # the unit itself is the mutant 0
    assert {path.name for path in verdicts} == {f"{number}.json" for number in range(11)}
    # half of the verdicts are lost: a run that resumes makes them again, and the others stay
    for path in list(verdicts)[:5]:
        path.unlink()
    first = read_results(report)
    assert main([*words, "--resume"]) == 0
    assert read_results(report) == first
    assert {path: path.read_text() for path in (folder / "verdicts").iterdir()} == verdicts
    assert unit in capsys.readouterr().out
    assert main(["mutate", "--summary", "-o", "out", "--json", str(report)]) == 0
    assert read_results(report)[0]["units"][unit] == found
