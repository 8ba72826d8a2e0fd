"""Directed programs on the simulator, and the cost program."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import EVERY_ROW, OPTIONS
from tests.programs import read_results

from xpulpnn.config import PRESETS
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.reference.bare.layout import SIGNATURE, TOHOST
from xpulpnn_sim.reference.directed.case import directed
from xpulpnn_sim.reference.directed.programs import DIRECTED, programs_of
from xpulpnn_sim.verification.costs.cost_rows import cost_rows
from xpulpnn_sim.verification.costs.measurement import CostRow, cost_program, lines_of, measure
from xpulpnn_sim.verification.random.designs import run_reference_core

STEPS = 60_000


@pytest.mark.parametrize("case", DIRECTED, ids=lambda case: case.name)
def test_results(case):
    executable = case.program().executable()
    end, _, iss = run_reference_core(EVERY_ROW, executable, limit=STEPS, irq_rate=0.005 * case.interrupts, seed=1)
    assert end.ok, end.text
    assert case.problems(iss.memory.read_bytes) == []
    assert SIGNATURE + 4 * len(case.expected) < TOHOST


def test_a_wrong_result_is_told():
    case = directed("sum", "addi a0, zero, 5 => a0! 6")
    _, _, iss = run_reference_core(EVERY_ROW, case.program().executable(), limit=STEPS)
    assert case.problems(iss.memory.read_bytes) == ["sum: result 0 must be 0x00000006, not 0x00000005"]


def test_configurations_run_what_they_have():
    names = {case.name.split(":")[0] for case in programs_of(PRESETS["ri5cy"])}
    assert names & {"hardware loops", "Mac&Load", "C&U"} == {"hardware loops"}


@pytest.mark.flow
@pytest.mark.parametrize("preset", ["ri5cy", "xpulpnn-full"])
def test_cost_program_runs(preset):
    rows = cost_rows(PRESETS[preset])
    executable = cost_program(rows).executable()
    end, records, _ = run_reference_core(PRESETS[preset], executable, limit=STEPS, irq_rate=0.1)
    assert end.ok, end.text
    assert not records["trap"].any()
    assert all(executable.symbols[f"from{number}"] % 4 == 0 for number in range(len(rows)))


def test_measured_cycles_are_those_beyond_one_per_instruction():
    rows = [
        CostRow("first", "slow", "mulh a0, a0, a1", {WaitCause.MULTICYCLE: 4}),
        CostRow("second", "use", "lw a0, 0(sp); addi a1, a0, 0", {WaitCause.LOAD_USE: 1}, is_extra=True),
        CostRow("first", "fast", "add a0, a0, a1", {}),
    ]
    executable = cost_program(rows).executable()
    base = executable.entry
    account = np.zeros((1 << 10, len(WaitCause)), np.uint64)
    account[:, WaitCause.NONE] = 1
    for name, cause, cycles in (("from0", WaitCause.MULTICYCLE, 4), ("to1", WaitCause.LOAD_USE, 2)):
        # after the marker before the row; the marker behind it waits for the row too
        account[(executable.symbols[name] - base) // 2 + 2 * (name == "from0"), cause] = cycles
    measured = measure(rows, executable, account, base)
    assert [case.cycles for case in measured] == [5, 2, 1]
    first, second = lines_of(measured)
    assert (first.group, first.documented, first.observed, first.wrong) == ("first", "1 to 5", "1 to 5", [])
    assert [case.row.name for case in second.wrong] == ["use"]


@pytest.mark.cosim
def test_cost_command(tmp_path, capsys):
    path = tmp_path / "costs.json"
    settings = [word for name in OPTIONS for word in ("--set", f"{name}=true")]
    assert main(["verify", "costs", *settings, "--json", str(path)]) == 0
    assert "load, store, post-increment" in capsys.readouterr().out
    lines = read_results(path)
    wrong = [case for line in lines if line["wrong"] for case in line["cases"]]
    assert wrong == []
    figures = {line["event"]: (line["documented"], line["measured"]) for line in lines}
    assert figures["branch, taken"] == ("3", "3")
    assert figures["pv.qnt.n, its result used at once"] == ("9", "9")
    assert figures["pv.qnt.c, its result used at once"] == ("5", "5")
    assert figures["pv.rq* of several registers"] == ("1", "1")
    assert figures["pv.rq*, result used in the next instruction"] == ("1", "1")
    assert figures["pv.rq*, behind pv.rqld"] == ("1", "1")
    assert figures["divu: 3 + places the divisor can move up"] == ("3 to 35", "3 to 35")
    assert {"name", "documented", "measured", "extra", "waits"} == set(lines[0]["cases"][0])


LATE = {
    "xor rd,rs1,rs2": 1,
    "pv.and.sci.b rd,rs1,imm6": 1,
    "sll rd,rs1,rs2": 4,
    "pv.add.h rd,rs1,rs2": 4,
    "pv.sdotsp.b rd~,rs1,rs2": 4,
    "pv.avg.b rd,rs1,rs2": 8,
    "p.subuRN rd~,rs1,rs2": 8,
    "p.cnt rd,rs1": 8,
    "p.mac rd~,rs1,rs2": 8,
    "p.mulsN rd,rs1,rs2,Is3": 8,
}
"""Documented figures of four instructions that depend on each other, but the cycles of three: each waits a cycle for
a result that is late, and those of two cycles take one more."""


def test_documented_costs_of_late_results():
    rows = {row.name: row for row in cost_rows(replace(PRESETS["xpulpnn2"], late_results=True))}
    assert {name: rows[name].documented for name in LATE} == LATE
    assert rows["bodies 8 and 6"].waits == {WaitCause.FETCH: 5 * 5 + 4}
    early = {row.name: row for row in cost_rows(PRESETS["xpulpnn2"])}
    assert {early[name].documented for name in LATE} == {1}
