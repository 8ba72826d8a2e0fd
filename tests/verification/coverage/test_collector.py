"""Crosses counted in programs of a few instructions, each counted by hand."""

import numpy as np
import pytest

from xpulpnn.config import PRESETS
from xpulpnn.isa.retirement import CAUSE_INTERRUPT, WaitCause
from xpulpnn_sim.cosimulation.model.schema import WAITED
from xpulpnn_sim.reference.bare.program import ProgramBlock, RandomProgram
from xpulpnn_sim.verification.coverage.collector import Collector
from xpulpnn_sim.verification.coverage.crosses import crosses_of
from xpulpnn_sim.verification.random.designs import run_reference_core

CONFIG = PRESETS["xpulpnn"]
FULL = PRESETS["xpulpnn2"]
ADDI, ADD, LW = "addi rd,rs1,imm12", "add rd,rs1,rs2", "lw rd,imm12(rs1)"


def run(text, config=CONFIG):
    """Retirements of the instructions between two labels of a program on the simulator."""
    lines = filter(None, map(str.strip, text.replace("\n", ";").split(";")))
    executable = RandomProgram((ProgramBlock("directed", ("begin:", *lines, "done:")),)).executable()
    end, records, _ = run_reference_core(config, executable, limit=2000)
    assert end.ok, end.text
    pcs = records["pc_rdata"]
    inside = np.flatnonzero((pcs >= executable.symbols["begin"]) & (pcs < executable.symbols["done"]))
    # what a handler does in between is part of it
    return records[inside[0] : inside[-1] + 1].copy()


def counted(records, *families, config=CONFIG):
    """Crosses of some families with their counts, and the collector."""
    collector = Collector(config)
    collector.add(records)
    crosses = crosses_of(config)
    counts = {}
    for number in np.flatnonzero(collector.counts).tolist():
        family, place = crosses.place(number)
        if family.name in families:
            counts[family.label(place)] = int(collector.counts[number])
    return counts, collector


ROW = "pv.mlsdotup.b rd~,(rs1!),nnimm5"
PROGRAMS = {
    "operands come from the last write": (
        """
        addi a0, zero, 1; mul a1, a0, a0; add a0, a1, a0; add a2, a0, a1
        addi zero, zero, 0; addi zero, zero, 0
        add a3, a2, a1; add a4, a2, zero
        """,
        ("operand",),
        {
            "mul rd,rs1,rs2, rs1, ALU, 1 before": 1,
            "mul rd,rs1,rs2, rs2, ALU, 1 before": 1,
            f"{ADD}, rs1, multiply, 1 before": 1,
            f"{ADD}, rs2, ALU, 2 before": 1,
            f"{ADD}, rs1, ALU, 1 before": 1,
            f"{ADD}, rs2, multiply, 2 before": 1,
            f"{ADD}, rs1, ALU, 3 before": 1,
        },
    ),
    "both registers of a post-increment": (
        "addi a1, sp, 0; p.lw a0, 4(a1!); add a2, a0, a1; sw a2, 0(a1)",
        ("operand", "overwrite"),
        {
            "p.lw rd,imm12(rs1!), rs1, ALU, 1 before": 1,
            f"{ADD}, rs1, load, 1 before": 1,
            f"{ADD}, rs2, post-increment, 1 before": 1,
            "sw rs2,stimm12(rs1), rs2, ALU, 1 before": 1,
            "sw rs2,stimm12(rs1), rs1, post-increment, 2 before": 1,
        },
    ),
    "overwrites are no operands": (
        "lw a0, 0(sp); addi a0, zero, 1; addi zero, zero, 0; lw a0, 0(sp); addi a0, a0, 1",
        ("operand", "overwrite"),
        {f"{ADDI}, load, 1 before": 1, f"{LW}, ALU, 2 before": 1, f"{ADDI}, rs1, load, 1 before": 1},
    ),
    "compressed instructions read what their expansions do": (
        "addi a0, zero, 0; c.addi a0, 1; c.mv a1, a0; c.add a1, a0",
        ("operand",),
        {
            "c.addi rd~-0,ci6, rs1, ALU, 1 before": 1,
            "c.mv rd,rs2-0, rs2, ALU, 1 before": 1,
            "c.add rd~,rs2-0, rs1, ALU, 1 before": 1,
            "c.add rd~,rs2-0, rs2, ALU, 2 before": 1,
        },
    ),
    "entries of the register file of Mac&Load": (
        """
        addi a1, sp, 0; pv.mlsdotup.b zero, (a1!), 16; pv.mlsdotup.b zero, (a1!), 8
        addi zero, zero, 0; pv.mlsdotup.b zero, (a1!), 0; pv.mlsdotup.b zero, (a1!), 2
        """,
        ("NN-RF",),
        {f"{ROW}, {entry} before": 1 for entry in ("weight, 1", "weight, 3", "activation, 2", "activation, 3")},
    ),
    "parameters of the requantisation": (
        "addi a1, sp, 0; pv.rqld 0, (a1!); pv.rqld 1, (a1!); pv.rqu.b a0, a2, a3, 1",
        ("NN-RF",),
        {"pv.rqu.b rd~,rs1,rs2,lane2, kappa, 2 before": 1, "pv.rqu.b rd~,rs1,rs2,lane2, lambda, 1 before": 1},
    ),
    "ends of loops": (
        "lp.setupi 0, 3, last; mul a0, a1, a2; add a3, a0, a0; last: sub a1, a3, a0",
        ("loop end", "across a loop end"),
        {"sub rd,rs1,rs2, last of the body": 2, "mul rd,rs1,rs2, first of the body": 2, "multiply, ALU": 2},
    ),
    "registers that are only read, or written, of which handlers use none": (
        """
        csrrs a0, mscratch, zero; csrrw zero, mscratch, a0; csrrci a0, minstret, 0; csrrsi a0, mcycle, 1
        csrrs a0, misa, zero; csrrs a0, mhartid, zero; csrrwi zero, mcountinhibit, 0
        """,
        ("CSR",),
        {
            **{f"{name}, read": 1 for name in ("mscratch", "minstret", "misa", "mhartid")},
            **{f"{name}, written": 1 for name in ("mscratch", "mcycle", "mcountinhibit")},
        },
    ),
    "branches end no loops": ("beq zero, zero, over; addi a0, zero, 1; over: addi a0, zero, 2", ("loop end",), {}),
    "reserved words": (
        ".half 0x8002; addi a0, zero, 1; .half 0x6101; .half 0x0000",
        ("reserved word",),
        {"c.jr rs1-0": 1, "c.addi16sp ci10-0": 1, "c.addi4spn rd',ciw10-0": 1},
    ),
}


@pytest.mark.parametrize(("text", "families", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_crosses_of_a_program(text, families, expected):
    counts, collector = counted(run(text, FULL), *families, config=FULL)
    assert counts == expected
    # loaded values are never there at once on a core, but on the simulator they are
    assert families != ("operand",) or not len(collector.impossible)


@pytest.mark.flow
def test_waits_and_whether_forwarding_was_at_once():
    records = run("lw a0, 0(sp); add a1, a0, a0; add a2, a1, zero")
    records[WAITED] = [1 << WaitCause.GRANT | 1 << WaitCause.RESPONSE, 1 << WaitCause.LOAD_USE, 0]
    counts, collector = counted(records, "wait", "timing")
    assert counts == {
        f"{LW}, grant": 1,
        f"{LW}, response": 1,
        f"{ADD}, load_use": 1,
        "ALU, load, 1 before, after a wait": 2,
        "ALU, ALU, 1 before, at once": 1,
    }
    assert not len(collector.impossible)


def test_what_cannot_be_is_told():
    records = run("add a1, a0, a0")
    records[WAITED] = 1 << WaitCause.MULTICYCLE
    _, collector = counted(records)
    crosses = collector.crosses
    assert [crosses.label(number) for number in collector.impossible] == [f"wait: {ADD}, multicycle"]
    family, place = crosses.place(int(collector.impossible[0]))
    assert family.reasons[family.states.flat[place] - 1] == "the instruction computes for a single cycle"


def test_access_faults():
    counts, _ = counted(run("li a0, 0x10002058; sw zero, 0(a0); mul a1, a0, a0"), "access fault", "operand")
    assert counts["sw rs2,stimm12(rs1), fails"] == 1
    assert counts["mul rd,rs1,rs2, behind what fails"] == 1
    # nothing is forwarded to what is dropped, nor across a handler
    assert "mul rd,rs1,rs2, rs1, ALU, 2 before" not in counts
    assert not any(name.startswith("sw rs2,stimm12(rs1), rs1") for name in counts)


def test_interrupts():
    records = run("mul a0, a1, a1\n addi zero, zero, 0\n addi zero, zero, 0\n add a2, a0, a0")
    # the two in the middle are the handler's
    records["intr"][1] = 1
    records["cause"][1] = CAUSE_INTERRUPT | 7
    records[WAITED][1] = 1 << WaitCause.TRAP
    records["pc_wdata"][0] = records["pc_rdata"][3]
    names = ("interrupt", "interrupt line", "interrupt and wait", "across an interrupt", "wait", "operand")
    counts, collector = counted(records, *names)
    instructions = {"mul rd,rs1,rs2, last retired": 1, f"{ADD}, first not retired": 1}
    assert counts == instructions | {"7": 1, "trap": 1, "ALU, multiply": 2}
    assert not len(collector.impossible)


def test_interrupts_at_the_end_of_a_loop():
    records = run("lp.setupi 0, 4, last; mul a0, a1, a2; last: sub a1, a3, a0")
    # one jump back, the handler in place of what comes next, then once more the end of the loop
    records = records[[1, 2, 0, 3, 4]]
    records["intr"][2] = 1
    records["cause"][2] = CAUSE_INTERRUPT | 11
    assert counted(records, "interrupt in a loop")[0] == {"ALU, behind it": 1}
    assert counted(records[[0, 2, 1, 3, 4]], "interrupt in a loop")[0] == {"ALU, before it": 1}
