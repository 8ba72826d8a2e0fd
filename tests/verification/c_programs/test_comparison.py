"""Random C programs: the same results on this machine and on the core, and a wrong pass that is noticed."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn.config import PRESETS
from xpulpnn.errors import ToolError
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.verification.c_programs.comparison import (
    _LONG,
    GENERATORS,
    Setting,
    host_compiler,
    run_seeds,
    run_texts,
    shrink_c_program,
)
from xpulpnn_sim.verification.c_programs.loop_programs import program
from xpulpnn_sw.assembly import relaxation
from xpulpnn_sw.assembly.looppass import accesses, hwloops
from xpulpnn_sw.assembly.looppass.operation import ListedOperation
from xpulpnn_sw.toolchain import compilers

pytestmark = pytest.mark.flow

SEED = 70


@pytest.fixture(params=compilers.COMPILERS)
def kind(request: pytest.FixtureRequest) -> str:
    try:
        compilers.find_compiler(request.param)
        host_compiler()
    except ToolError as error:
        pytest.skip(str(error))
    return request.param


def test_command(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    level = {"gcc": "2", "zig": "s", "clang": "3"}[kind]
    options = ("--seed", SEED, "--compilers", kind, "--levels", level, "--jobs", 1, "--json", tmp_path / "c.json")
    assert main(["verify", "c", "--programs", "4", *map(str, options)]) == 0
    summary = read_results(tmp_path / "c.json")[0]
    assert (summary["programs"], summary["differences"], summary["failing_seeds"]) == (4, 0, [])
    assert summary["hardware_loops"] > summary["loops"] // 2 > 20
    assert summary["increments"] > 20
    assert summary["executed"]["with"] < summary["executed"]["without"]
    assert "hardware loops" in capsys.readouterr().out


def test_a_wrong_pass_is_noticed(monkeypatch: pytest.MonkeyPatch):
    setting = Setting(config=PRESETS["xpulpnn"], compiler=compilers.find_compiler().kind, level="-O2")
    # a counter goes away although it is read later
    monkeypatch.setattr(hwloops.HardwareLoops, "_is_private", lambda *arguments: True)
    failures = run_seeds([SEED], [setting]).failures
    assert failures
    assert all(failure.plain == failure.host != failure.passed for failure in failures)


def test_a_failure_becomes_small(monkeypatch: pytest.MonkeyPatch):
    setting = Setting(config=PRESETS["xpulpnn"], compiler=compilers.find_compiler().kind, level="-O2")
    # other accesses keep their offsets when the step of their base moves
    shifted = accesses._shifted
    monkeypatch.setattr(accesses, "_shifted", lambda operation, register, by: shifted(operation, register, 0))
    failure = next(iter(run_seeds([SEED], [setting]).failures))
    small = shrink_c_program(failure)
    assert len(small.pieces) < len(failure.pieces)
    text = program(small.seed, small.pieces)
    assert run_texts({small.seed: text}, [setting]).failures == [replace(small, pieces=failure.pieces)]
    assert str(small.seed) in small.text


def test_an_address_in_reach_of_gp_is_noticed(monkeypatch: pytest.MonkeyPatch):
    setting = Setting(config=PRESETS["xpulpnn"], compiler=compilers.find_compiler("gcc").kind, level="-Os")
    # the lower part of an address stays as it is in a hardware loop, although the linker may remove the upper part
    monkeypatch.setattr(ListedOperation, "may_shrink", property(lambda operation: "%" in operation.text))
    monkeypatch.setattr(relaxation, "_LOWER_PART", re.compile("no part"))
    assert run_seeds(range(16, 20), [setting]).failures


@pytest.fixture
def csmith(kind: str) -> str:
    try:
        GENERATORS["csmith"].folder()
    except ToolError as error:
        pytest.skip(str(error))
    return kind


def test_programs_of_csmith(csmith: str, tmp_path: Path):
    words = f"verify c --generator csmith --programs 5 --seed 20 --levels 2+s --every --compilers {csmith} --jobs 1"
    assert main([*words.split(), "--json", str(tmp_path / "c.json")]) == 0
    summary = read_results(tmp_path / "c.json")[0]
    assert summary["programs"] + summary["dropped"] == 5
    assert summary["runs"] == 2 * summary["programs"] > 0 == summary["differences"]
    assert summary["hardware_loops"] > 5


def test_what_is_too_long_is_left_out():
    host_compiler()
    bodies = {1: "for (;;) ;", 2: "volatile int n = 0; while (n < 1000000) n++;", 3: ""}
    head = "#include <stdint.h>\n"
    texts = {seed: f"{head}uint32_t program_{seed}(void) {{ {body} return {seed}; }}" for seed, body in bodies.items()}
    setting = Setting(config=PRESETS["xpulpnn"], compiler=compilers.find_compiler().kind, level="-O2")
    result = run_texts(texts, [setting])
    assert (result.programs, result.dropped, result.runs, result.failures) == (1, 2, 1, [])


def test_csmith_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    host_compiler()
    monkeypatch.setattr(shutil, "which", lambda name, which=shutil.which: None if name == "csmith" else which(name))
    assert main(["verify", "c", "--generator", "csmith", "--programs", "1"]) != 0
    assert "csmith and its headers must be installed (apt-get" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "portable"),
    [("0xAFL", "0xAF"), ("65535UL", "65535U"), ("0x1LL", "0x1LL"), ("1ULL", "1ULL"), ("(-9L)", "(-9)")],
)
def test_numbers_have_the_same_type_everywhere(number: str, portable: str):
    assert _LONG.sub(r"\1\2", number) == portable
