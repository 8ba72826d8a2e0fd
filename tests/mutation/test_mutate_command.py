"""Mutants of hardware units: made, found by the benches, proved equivalent, and shown."""

import json
import shutil
from pathlib import Path

import pytest

from xpulpnn_sim.bench.runner import available
from xpulpnn_sim.cli import main
from xpulpnn_sim.mutation.equivalence import DIFFERENT, EQUIVALENT, LEGAL, identical, prove
from xpulpnn_sim.mutation.gates import make_gates
from xpulpnn_sim.mutation.legal import Surroundings
from xpulpnn_sim.mutation.mutants import BASE, LIST, SELECT
from xpulpnn_sim.riscv_formal.model_check import ABC_PROGRAMS, find_abc
from xpulpnn_sim.yosys import find_yosys

# y is a & b, which q follows; what the cell $2 makes has no effect
UNIT = """module \\top
  wire input 1 \\a
  wire input 2 \\b
  wire output 3 \\y
  wire input 4 \\clk
  wire output 5 \\q
  wire \\unused
  cell $dff $3
    parameter \\CLK_POLARITY 1
    parameter \\WIDTH 1
    connect \\CLK \\clk
    connect \\D \\y
    connect \\Q \\q
  end
  cell $and $1
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\B_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\a
    connect \\B \\b
    connect \\Y \\y
  end
  cell $or $2
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\B_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\a
    connect \\B \\b
    connect \\Y \\unused
  end
end
"""


CHANGES = [
    ("inv -module top -cell $1 -port Y", DIFFERENT),
    ("inv -module top -cell $2 -port Y", EQUIVALENT),
    ("inv -module top -cell $3 -port D", DIFFERENT),
    # of a & b only b is left: the same where a is 1
    ("const1 -module top -cell $1 -port A", LEGAL),
    # what q holds is what the mutant holds, and nothing else is changed
    ("const0 -module top -cell $2 -port A", EQUIVALENT),
]


@pytest.mark.unit
def test_what_is_proved_about_mutants(tmp_path: Path) -> None:
    if not any(map(shutil.which, ABC_PROGRAMS)):
        pytest.skip("abc is not installed")
    (tmp_path / BASE).write_text(UNIT)
    lines = [
        f"mutate -ctrl {SELECT} 3 {number} -portbit 0 -mode {change}\n" for number, (change, _) in enumerate(CHANGES, 1)
    ]
    (tmp_path / LIST).write_text("".join(lines))
    gates = make_gates("top", tmp_path, find_yosys())

    def a_is_1(around: Surroundings) -> int:
        return around.inputs["a"][0]

    found = [prove(gates.compare(number), a_is_1, find_abc(), 10) for number in range(1, len(CHANGES) + 1)]
    assert [proof.verdict for proof in found] == [verdict for _, verdict in CHANGES]
    # the first one is seen at once, with a = 1, the third one after a step
    assert found[0].example.startswith("cycle 0: a=0x1")
    assert found[2].example.startswith("cycle 1: ")
    assert [identical(gates.compare(number)) for number in (1, 2)] == [False, True]


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
