"""Shrinking, proved with faults put into the simulator that stands in for the design."""

from dataclasses import replace
from functools import partial

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.bare.program import ProgramBlock, RandomProgram
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.verification.random.designs import reference_design
from xpulpnn_sim.verification.random.program_runs import CoreSource, ProgramCase
from xpulpnn_sim.verification.random.shrink import Shrinker, minimise_list, program_listing, shrink
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.flow

SOURCE = CoreSource(config=PRESETS["xpulpnn-full"], label="--preset xpulpnn-full", design=reference_design)


def stale_accumulator():
    """A Mac&Load right after a loading one on the same rd gets one bit wrong: what a missing interlock would do."""
    last = [None]

    def fault(iss, retired):
        before, last[0] = last[0], retired
        if before is None or before.fetched is None or retired.fetched is None:
            return
        both = before.fetched.insn.is_mac_load and retired.fetched.insn.is_mac_load
        rd = retired.record.get("rd_addr")
        if both and "nn_addr" in before.record and rd and rd == before.record.get("rd_addr"):
            iss.state.regs[rd] ^= 1
            retired.record["rd_wdata"] ^= 1

    return fault


def clobbered_by_interrupt(iss, retired):
    """The first instruction of an interrupt handler changes a register."""
    if "intr" in retired.record:
        iss.state.regs[10] ^= 1


def faulty(fault):
    return replace(SOURCE, design=partial(reference_design, fault=fault))


def failing(fault):
    for seed in range(60):
        run = faulty(fault()).run(seed)
        if run.verdict.reason is Reason.DIFFERENCE and run.verdict.instructions < 2000:
            return run
    raise AssertionError("no program shows the fault")


def body(case):
    lines = [line for block in (*case.program.main, *case.program.functions) for line in block.lines()]
    return [line for line in lines if not line.endswith(":")]


@pytest.fixture(scope="module")
def stale():
    run = failing(stale_accumulator)
    return run, shrink(run)


def test_mac_load_fault_shrinks_to_two_instructions(stale):
    _, case = stale
    lines = body(case)
    assert len(lines) == 2, lines
    assert all(line.startswith(("pv.mlsdot", "pv.cusdot")) for line in lines)
    assert (case.machine.irq_rate, case.machine.grant_stalls) == (0.0, 0.0)
    assert faulty(stale_accumulator()).check(case).reason is Reason.DIFFERENCE
    assert SOURCE.check(case).ok


def test_interrupt_fault_keeps_the_interrupts():
    run = failing(lambda: clobbered_by_interrupt)
    full = SOURCE.case(run.seed)
    case = shrink(run, runs=60)
    assert case.machine.irq_rate >= full.machine.irq_rate
    assert case.program.statements < full.program.statements // 4
    assert faulty(clobbered_by_interrupt).check(case).reason is Reason.DIFFERENCE


def test_the_listing_tells_how_to_see_it_again(stale):
    run, case = stale
    text = program_listing(case, run)
    assert text.splitlines()[:3] == [
        "# Written by xpulpnn verify: minimal program that fails",
        f"# from: xpulpnn verify --preset xpulpnn-full --seed {run.seed} --instructions 1",
        f"# machine: ideal memory, no interrupts, seed {case.machine.seed}",
    ]
    assert assemble(text, 0x1C000000).words == case.program.assembled().words


def test_minimal_list():
    tried = []
    assert minimise_list(range(20), lambda items: tried.append(items) or {3, 11} <= set(items)) == (3, 11)
    assert len(tried) < 60


def test_a_program_that_does_not_assemble_is_not_tried():
    texts = []

    def fails(case):
        texts.append(case.program.text())
        return "add a0" in case.program.text()

    blocks = (ProgramBlock("branch", ("beq a0, a1, out",), (ProgramBlock("inside", ("add a0, a0, a1",)),), ("out:",)),)
    case = Shrinker(fails).shrink(ProgramCase(RandomProgram(blocks), Machine(grant_stalls=0.5)))
    assert body(case) == ["add a0, a0, a1"]
    assert case.machine.grant_stalls == 0.0
    assert not [text for text in texts if "out" in text.split("main:")[1] and "out:" not in text]
