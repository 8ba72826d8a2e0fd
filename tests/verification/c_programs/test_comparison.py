"""Random C programs: the same results on this machine and on the core, and a wrong pass that is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn.config import PRESETS
from xpulpnn.errors import ToolError
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.verification.c_programs.comparison import (
    Setting,
    host_compiler,
    program,
    run_seeds,
    run_texts,
    shrink_c_program,
)
from xpulpnn_sw.assembly.looppass import accesses, hwloops
from xpulpnn_sw.toolchain import compilers

SEED = 70


@pytest.fixture(params=compilers.COMPILERS)
def kind(request: pytest.FixtureRequest) -> str:
    try:
        compilers.find_compiler(request.param)
        host_compiler()
    except ToolError as error:
        pytest.skip(str(error))
    return request.param


@pytest.mark.flow
def test_command(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    level = {"gcc": "2", "zig": "s"}[kind]
    options = ("--seed", SEED, "--compilers", kind, "--levels", level, "--jobs", 1, "--json", tmp_path / "c.json")
    assert main(["verify", "c", "--programs", "4", *map(str, options)]) == 0
    summary = read_results(tmp_path / "c.json")[0]
    assert (summary["programs"], summary["differences"], summary["failing_seeds"]) == (4, 0, [])
    assert summary["hardware_loops"] > summary["loops"] // 2 > 20
    assert summary["increments"] > 20
    assert summary["executed"]["with"] < summary["executed"]["without"]
    assert "hardware loops" in capsys.readouterr().out


@pytest.mark.flow
def test_a_wrong_pass_is_noticed(monkeypatch: pytest.MonkeyPatch):
    setting = Setting(config=PRESETS["xpulpnn"], compiler=compilers.find_compiler().kind, level="-O2")
    # a counter goes away although it is read later
    monkeypatch.setattr(hwloops.HardwareLoops, "_is_private", lambda *arguments: True)
    failures = run_seeds(range(SEED, SEED + 4), setting).failures
    assert failures
    assert all(failure.plain == failure.host != failure.passed for failure in failures)


@pytest.mark.flow
def test_a_failure_becomes_small(monkeypatch: pytest.MonkeyPatch):
    setting = Setting(config=PRESETS["xpulpnn"], compiler=compilers.find_compiler().kind, level="-O2")
    # other accesses keep their offsets when the step of their base moves
    shifted = accesses._shifted
    monkeypatch.setattr(accesses, "_shifted", lambda operation, register, by: shifted(operation, register, 0))
    failure = next(iter(run_seeds(range(SEED, SEED + 4), setting).failures))
    small = shrink_c_program(failure)
    assert len(small.pieces) < len(failure.pieces)
    text = program(small.seed, small.pieces)
    assert run_texts({small.seed: text}, setting).failures == [replace(small, pieces=failure.pieces)]
    assert str(small.seed) in small.text
