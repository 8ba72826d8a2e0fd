"""Crosses, those out of reach, and programs that aim at crosses: they end well and reach them."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from xpulpnn.config import PRESETS
from xpulpnn.isa.insn import InsnClass
from xpulpnn.isa.table import find
from xpulpnn_sim.verification.coverage import kinds
from xpulpnn_sim.verification.coverage.collector import Collector
from xpulpnn_sim.verification.coverage.coverage_runs import BATCH, CoverageSource, Need, batch, need
from xpulpnn_sim.verification.coverage.crosses import NO_CROSS, REACHABLE, crosses_of
from xpulpnn_sim.verification.coverage.kinds import Producer, RegisterReads
from xpulpnn_sim.verification.random.designs import run_reference_core

RI5CY = PRESETS["ri5cy"]
LARGEST = PRESETS["xpulpnn2"]


def state(config, family, *names):
    """State of a place by the names of its values, and the reason if it is out of reach."""
    grid = crosses_of(config).families[family]
    place = tuple(axis.index(name) for axis, name in zip(grid.axes, names, strict=True))
    number = int(grid.states[place])
    return grid.reasons[number - 1] if number > 0 else {REACHABLE: "to reach", NO_CROSS: "no cross"}[number]


@pytest.mark.parametrize(
    ("mnemonic", "operands", "slots", "entries"),
    [
        ("add", None, ("rs1", "rs2"), ()),
        ("lui", None, (), ()),
        ("p.mac", None, ("rs1", "rs2", "rd"), ()),
        ("p.sw", "rs2,rs3(rs1!)", ("rs1", "rs2", "rd"), ()),
        ("c.lwsp", None, ("rs1",), ()),
        ("c.addi4spn", None, ("rs1",), ()),
        ("c.mv", None, ("rs2",), ()),
        ("c.addi", None, ("rs1",), ()),
        ("c.swsp", None, ("rs1", "rs2"), ()),
        ("c.jal", None, (), ()),
        ("csrrwi", None, (), ()),
        ("pv.mlsdotup.b", None, ("rs1", "rd"), ("activation", "weight")),
        ("pv.rqu.b", None, ("rs1", "rs2", "rd"), ("kappa", "lambda")),
    ],
)
def test_what_rows_read(mnemonic, operands, slots, entries):
    assert kinds.reads_of(find(mnemonic, operands)) == RegisterReads(slots, entries)


@pytest.mark.parametrize(
    ("mnemonic", "operands", "kind", "producers"),
    [
        ("mul", None, InsnClass.MULTIPLY, (Producer.MULTIPLY,)),
        ("mulhsu", None, InsnClass.MULTIPLY_HIGH, (Producer.MULTIPLY_HIGH,)),
        ("pv.sdotsp.b", None, InsnClass.MULTIPLY, (Producer.MULTIPLY,)),
        ("remu", None, InsnClass.DIVISION, (Producer.DIVISION,)),
        ("p.lw", "rd,imm12(rs1!)", InsnClass.LOAD, (Producer.LOAD, Producer.BASE)),
        ("p.sb", "rs2,stimm12(rs1!)", InsnClass.STORE, (Producer.BASE,)),
        ("pv.mlsdotup.b", None, InsnClass.MAC_LOAD, (Producer.MAC_LOAD, Producer.MAC_LOAD_BASE)),
        ("pv.rqld", None, InsnClass.PARAMETER, (Producer.BASE,)),
        ("c.jal", None, InsnClass.JUMP, (Producer.LINK,)),
        ("lp.setup", None, InsnClass.LOOP, ()),
        ("sw", None, InsnClass.STORE, ()),
    ],
)
def test_kinds_and_producers(mnemonic, operands, kind, producers):
    row = find(mnemonic, operands)
    assert (row.insn_class, kinds.producers_of(row)) == (kind, producers)


@pytest.mark.parametrize(
    ("config", "family", "names", "expected"),
    [
        (RI5CY, "operand", ("add rd,rs1,rs2", "rs2", "load", "3 before"), "to reach"),
        (RI5CY, "operand", ("add rd,rs1,rs2", "rd", "load", "3 before"), "no cross"),
        (RI5CY, "operand", ("add rd,rs1,rs2", "rs2", "Mac&Load", "3 before"), "no cross"),
        (RI5CY, "wait", ("add rd,rs1,rs2", "mac_load"), "no cross"),
        (LARGEST, "wait", ("add rd,rs1,rs2", "mac_load"), "to reach"),
        (RI5CY, "wait", ("add rd,rs1,rs2", "grant"), "the instruction does not access memory"),
        (RI5CY, "wait", ("lw rd,imm12(rs1)", "grant"), "to reach"),
        (RI5CY, "wait", ("lui rd,uimm20", "load_use"), "an instruction that reads no register waits for none"),
        (RI5CY, "wait", ("lbu rd,imm12(rs1)", "misaligned"), "the instruction does not access memory across words"),
        (RI5CY, "wait", ("c.jr rs1-0", "jump_register"), "to reach"),
        (RI5CY, "wait", ("jal rd,joff21", "jump_register"), "only jalr waits for its base apart from others"),
        (RI5CY, "interrupt", ("ecall", "first not retired"), "to reach"),
        (RI5CY, "loop end", ("c.j cj12", "last of the body"), "it goes to its own target"),
        (RI5CY, "timing", ("ALU", "load", "1 before", "at once"), "the value is late by a cycle"),
        (RI5CY, "timing", ("ALU", "load", "2 before", "at once"), "to reach"),
        (RI5CY, "timing", ("system", "load", "2 before", "at once"), "no cross"),
        (LARGEST, "NN-RF", ("pv.rqu.n rd~,rs1,rs2,lane3", "lambda", "1 before"), "to reach"),
        (LARGEST, "NN-RF", ("pv.rqu.n rd~,rs1,rs2,lane3", "weight", "1 before"), "no cross"),
    ],
)
def test_states(config, family, names, expected):
    assert state(config, family, *names) == expected


def test_every_place_has_a_number_of_its_own():
    crosses = crosses_of(RI5CY)
    assert sum(family.states.size for family in crosses.families.values()) == crosses.count == len(crosses.states)
    family = crosses.families["loop end"]
    number = crosses.starts["loop end"] + 3
    assert crosses.place(number) == (family, 3)
    assert crosses.label(number) == f"loop end: {family.axes[0][1]}, first of the body"


SOURCE = CoverageSource(config=LARGEST, label="--preset xpulpnn2")
AIMS = 90
SURE = ("instruction", "operand", "overwrite", "NN-RF", "access fault", "across a loop end")
"""Families whose crosses depend on nothing but the program."""

LUCKY = ("wait", "interrupt", "loop end", "timing", "across an interrupt", "interrupt in a loop")
"""Families whose crosses depend on when memory answers and interrupts come, or on operands."""


def reachable(family):
    crosses = crosses_of(LARGEST)
    grid, start = crosses.families[family], crosses.starts[family]
    return [start + place for place in np.flatnonzero(grid.states.ravel() == REACHABLE).tolist()]


def chosen(family, needs, most):
    """Some crosses of a family that are likely on one kind of machine."""
    numbers = [number for number in reachable(family) if need(crosses_of(LARGEST), number) is needs]
    return tuple(Random(family).sample(numbers, min(most, len(numbers))))


def run(aims, seed):
    """The crosses that the program with aims reaches on the simulator."""
    case = replace(SOURCE, aims=aims).case(seed)
    executable, rate = case.program.executable(), case.machine.irq_rate
    end, records, _ = run_reference_core(LARGEST, executable, limit=60_000, irq_rate=rate, seed=seed)
    assert end.ok, f"seed {seed}: {end.text}"
    collector = Collector(LARGEST)
    collector.add(records)
    return collector


@pytest.mark.flow
@pytest.mark.parametrize("family", SURE)
def test_what_is_aimed_at_is_reached(family):
    crosses = crosses_of(LARGEST)
    aims = chosen(family, Need.ANY, AIMS)
    collector = run(aims, 5)
    assert [crosses.label(number) for number in aims if not collector.counts[number]] == []


@pytest.mark.flow
@pytest.mark.parametrize("family", LUCKY)
def test_programs_that_need_luck_end_well(family):
    for needs in Need:
        if aims := chosen(family, needs, 30):
            assert run(aims, 6).counts.any()


@pytest.mark.flow
def test_batches_depend_on_holes_alone():
    collectors = [Collector(LARGEST), Collector(LARGEST)]
    first, second = (batch(SOURCE, collector, 32) for collector in collectors)
    assert first == second
    assert len(first) == BATCH
    aims = [aim for source in first for aim in source.aims]
    collectors[1].counts[aims] = 1
    after = batch(SOURCE, collectors[1], 32)
    left = {aim for source in after for aim in source.aims}
    assert left
    assert not left & {*aims}


def test_few_holes_are_aimed_at_by_several_programs():
    collector = Collector(LARGEST)
    collector.counts[:] = 1
    cross = reachable("operand")[77]
    collector.counts[cross] = 0
    sources = [source for source in batch(SOURCE, collector, 16) if source.aims]
    assert len(sources) > 1
    assert {aim for source in sources for aim in source.aims} == {cross}
    collector.counts[cross] = 1
    assert not any(source.aims for source in batch(SOURCE, collector, 16))


def test_a_failing_program_is_repeated_by_its_aims():
    source = replace(SOURCE, aims=(3, 5))
    assert source.command(7) == "xpulpnn verify coverage --preset xpulpnn2 --seed 7 --instructions 1 --aim 3,5"
    assert source.case(7) == replace(source).case(7)
