"""Mutants of a core: where they are, how they are found, what is kept, and what the command says."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.programs import read_results

import xpulpnn_sim.proofs.mutants
import xpulpnn_sim.verification.mutants
from xpulpnn.config import PRESETS
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.proofs.mutants.mutant_comparison import DIFFERENT, EQUIVALENT, MutantComparer
from xpulpnn_sim.proofs.mutants.mutated_gates import read_mutated
from xpulpnn_sim.reference.programs.exits import Exit, Reason
from xpulpnn_sim.reference.programs.retirements import RETIREMENT
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sim.tools.yosys import find_yosys
from xpulpnn_sim.verification.mutants import core_mutants, programs
from xpulpnn_sim.verification.mutants.core_mutants import MutatedCore, chosen_places, command_in, write_part
from xpulpnn_sim.verification.mutants.judgement import MutationSettings
from xpulpnn_sim.verification.mutants.programs import CHECK, TIME, CoreModel, Finding, cost_programs
from xpulpnn_sim.verification.random.program_runs import CoreSource

MRET = 0x3020_0073
SMALL = ("xpulpv2=false", "multiplier=inferred", "shifter=inferred")
"""Settings of a core that is compiled in less time than others."""


def inverter(name: str, source: str, result: str) -> str:
    sizes = "".join(f"    parameter \\{size}\n" for size in ("A_SIGNED 0", "A_WIDTH 1", "Y_WIDTH 1"))
    return f"  cell $not {name}\n{sizes}    connect \\A \\{source}\n    connect \\Y \\{result}\n  end\n"


INNER = f"""module \\core.lsu.inner
  wire input 1 \\a
  wire output 2 \\y
{inverter("$1", "a", "y")}end
module \\core.lsu
  wire input 1 \\a
  wire output 2 \\y
  wire \\b
  wire \\unused
  cell \\core.lsu.inner \\inner
    connect \\a \\a
    connect \\y \\b
  end
{inverter("$2", "b", "y")}{inverter("$3", "b", "unused")}end
module \\core
  wire input 1 \\a
  wire output 2 \\y
  cell \\core.lsu \\lsu
    connect \\a \\a
    connect \\y \\y
  end
end
"""


def place(cell: str, bit: int = 0, port: str = "A") -> str:
    return f"mutate -mode inv -module core -cell {cell} -port {port} -portbit {bit} -wire w -wirebit 0 -src /a.py:3"


@pytest.mark.flow
def test_parts_get_shares_by_the_roots_of_their_places() -> None:
    large = [place(f"$flatten\\backend.\\alu.${number}") for number in range(100)]
    small = [place(f"$flatten\\controller.${number}") for number in range(25)]
    top = [place("$7"), place("$8", port="CLK")]
    taken = chosen_places([*large, *small, *top], 16, 1)
    parts = [mutant.module for mutant in taken]
    assert {name: parts.count(name) for name in parts} == {"backend.alu": 10, "controller": 5, "core": 1}
    assert [mutant.number for mutant in taken] == list(range(1, 17))
    assert len({mutant.cell for mutant in taken}) == 16
    # what only documents is left out, and sources of others are none
    assert taken[-1].command == f"mutate -mode inv -module core -cell {taken[-1].cell} -port A -portbit 0"
    assert {mutant.source for mutant in taken} == {""}
    assert chosen_places([*large, *small, *top], 16, 1) == taken
    assert chosen_places([*large, *small, *top], 16, 2) != taken
    assert len(chosen_places([*large, *small, *top], 500, 1)) == 126


@pytest.mark.flow
def test_a_mutant_of_a_unit_is_one_of_the_unit_alone(tmp_path: Path) -> None:
    (tmp_path / "unit.il").write_text(INNER)
    cells = ("$flatten\\lsu.\\inner.$1", "$flatten\\lsu.$2", "$flatten\\lsu.$3")
    mutants = chosen_places([place(cell, port="Y") for cell in cells], 3, 1)
    yosys = find_yosys()
    part = write_part("lsu", tmp_path, yosys)
    changes = {mutant.number: command_in(part, "lsu", mutant) for mutant in mutants}
    gates = read_mutated(tmp_path / f"{part}.il", part, changes, yosys)
    judge = MutantComparer(gates=gates, abc="", timeout_s=1)
    verdicts = {mutant.cell: judge.compare(mutant.number).verdict for mutant in mutants}
    assert verdicts == dict(zip(cells, (DIFFERENT, DIFFERENT, EQUIVALENT), strict=True))


@pytest.mark.flow
def test_what_was_not_found_runs_again_when_there_is_more_to_run(tmp_path, monkeypatch):
    mutants = chosen_places([place(f"$flatten\\lsu.${number}") for number in range(4)], 4, 1)
    core = MutatedCore(library=tmp_path / "none.so", digest="", mutants=mutants)
    calls: list[tuple[int, ...]] = []

    def judged(*args: Any) -> None:
        *_, waiting, tell = args
        calls.append(tuple(waiting))
        for mutant in waiting:
            tell(mutant, Finding("check" if mutant % 2 else "", "a program"))

    monkeypatch.setattr(core_mutants, "mutated_core", lambda *_: core)
    monkeypatch.setattr(core_mutants, "judge_all", judged)
    monkeypatch.setattr(core_mutants, "executor", lambda *_, **__: executor(1))
    source, yosys = CoreSource(config=PRESETS["ri5cy"]), find_yosys()

    def run(*, instructions: int, resume: bool, proof_s: int = 0) -> list[str]:
        settings = MutationSettings(count=4, seed=1, jobs=1, limit_s=1, proof_s=proof_s)
        how = {"resume": resume, "progress": lambda *_: None}
        results = core_mutants.judge_core(source, settings, instructions, tmp_path, yosys, **how)
        return [result.killed or result.proof for result in results]

    runs = [run(instructions=many, resume=again) for many, again in ((5, False), (5, True), (6, True), (6, False))]
    assert runs == [["check", "", "check", ""]] * 4
    assert calls == [(1, 2, 3, 4), (2, 4), (1, 2, 3, 4)]
    # what is known to change nothing does not
    proofs, key = Results(tmp_path / "proofs"), digest(core.mutants, core.digest)
    method = digest(xpulpnn_sim.proofs.mutants, xpulpnn_sim.verification.mutants)
    proofs.store("2", {"proof": "legal", "example": "", "proof_s": 1, "method": method}, key)
    proofs.store("unchanged", [4], key)
    assert run(instructions=7, resume=True, proof_s=1) == ["check", "legal", "check", "equivalent"]
    assert len(calls) == 3


@pytest.mark.parametrize(("reason", "how"), [(Reason.STUCK, CHECK), (Reason.MAX_CYCLES, TIME)])
def test_a_core_that_stands_still_fails_a_check(monkeypatch: pytest.MonkeyPatch, reason: Reason, how: str) -> None:
    result = SimpleNamespace(exit=Exit(reason, 0, 0, None, "why"))
    monkeypatch.setattr(programs, "cost_run", lambda *_: (result, []))
    assert cost_programs(CoreModel(PRESETS["ri5cy"], Path())) == Finding(how, "cycle costs", "why")


def test_buses_look_at_what_goes_with_a_request() -> None:
    constraints = core_mutants.core_constraints(PRESETS["ri5cy"])
    cases = constraints.cases
    seen = [({name: each for name, each in case.values.items() if name != "rst"}, case.outputs) for case in cases]
    assert seen[1:] == [
        ({"instr__req": {1}}, ("instr__addr",)),
        ({"data__req": {1}}, ("data__addr", "data__we", "data__be")),
        ({"data__req": {1}, "data__we": {1}}, ("data__wdata",)),
    ]
    assert {"instr__req", "data__req"} < set(seen[0][1] or ())
    assert all(case.values["rst"] == {0} for case in constraints.cases)
    assert [port.answer for port in constraints.answered] == ["instr__rvalid", "data__rvalid"]


def test_a_program_goes_on_outside_of_handlers() -> None:
    # pc 0 and 4 are the program, 8 and 12 the handler; the second block begins in it, the last one in its exception's
    steps = [(0, 0, 0, 0x13), (4, 0, 0, MRET), (8, 1, 0, 0x13), (12, 0, 0, MRET), (4, 0, 0, 0x13), (8, 1, 0, 0x13)]
    steps += [(12, 0, 0, MRET), (8, 1, 0, 0x13), (12, 0, 1, 0x13), (8, 0, 0, MRET), (12, 0, 0, 0x13), (12, 0, 0, MRET)]
    records = np.zeros(len(steps), RETIREMENT)
    records["intr"], records["trap"], records["insn"] = ([step[place] for step in steps] for place in (1, 2, 3))
    records["cycle"] = range(10, 10 * len(steps) + 10, 10)
    advance = programs.Advance()
    for begin, end, last in ((0, 3, 20), (3, 6, 50), (6, 9, 50), (9, 12, 50)):
        advance(SimpleNamespace(records=lambda at=slice(begin, end): records[at]))
        assert advance.last == last


@pytest.mark.cosim
def test_programs_find_mutants_of_a_core(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "report.json"
    words = ["mutate", "core", "--preset", "ri5cy", "--mutants", "4", "--proof", "0", "--instructions", "500"]
    words += [word for setting in SMALL for word in ("--set", setting)]
    assert main([*words, "--jobs", "1", "-o", "out", "--json", str(report)]) == 0
    result = read_results(report)[0]["cores"]["ri5cy"]
    killed = [mutant for mutant in result["mutants"] if mutant["killed"]]
    assert len(result["mutants"]) == 4
    assert len(killed) >= 2
    assert result["random"] + result["directed"] + result["costs"] == len(killed)
    assert result["alive"] == 4 - len(killed)
    assert "ri5cy" in capsys.readouterr().out
    assert main(["mutate", "--summary", "-o", "out"]) == 0
    assert f"core-ri5cy-{'-'.join(SMALL).replace('=', '-')}" in capsys.readouterr().out
