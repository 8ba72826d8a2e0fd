"""Shrinking, proved with faults put into the simulator that stands in for the design."""

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.bare.program import ProgramBlock, RandomProgram
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.verification.random.designs import reference_design
from xpulpnn_sim.verification.random.shrink import ShrinkCase, Shrinker, minimise_list
from xpulpnn_sim.verification.random.trials import Plan, program_listing, run_seed, run_trial_case, shrink
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.flow

SHORT = 2000
"""Steps of a program that is quick to shrink."""
PLAN = Plan(config=PRESETS["xpulpnn-full"], label="--preset xpulpnn-full")


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


def failing(fault, longest=SHORT, seeds=range(60)):
    """The first random program that shows a fault and is quick to shrink."""
    for seed in seeds:
        result = run_seed(seed, PLAN, reference_design(fault()))
        if result.verdict.reason is Reason.DIFFERENCE and result.verdict.instructions < longest:
            return result
    raise AssertionError("no program shows the fault")


def body(case):
    """The lines that are left, without labels."""
    lines = [line for block in (*case.program.main, *case.program.functions) for line in block.lines()]
    return [line for line in lines if not line.endswith(":")]


@pytest.fixture(scope="module")
def stale():
    """A failure of the first fault and its minimal form."""
    result = failing(stale_accumulator)
    return result, shrink(result, reference_design(stale_accumulator()))


def test_mac_load_fault_shrinks_to_two_instructions(stale):
    _, case = stale
    lines = body(case)
    assert len(lines) == 2, lines
    assert all(line.startswith(("pv.mlsdot", "pv.cusdot")) for line in lines)
    assert (case.machine.irq_rate, case.machine.grant_stalls) == (0.0, 0.0)
    assert run_trial_case(case, PLAN, reference_design(stale_accumulator())).reason is Reason.DIFFERENCE
    assert run_trial_case(case, PLAN, reference_design()).reason is Reason.PASS


def test_interrupt_fault_keeps_the_interrupts():
    result = failing(lambda: clobbered_by_interrupt)
    full = PLAN.case(result.seed)
    case = shrink(result, reference_design(clobbered_by_interrupt), runs=60)
    assert case.machine.irq_rate >= full.machine.irq_rate
    assert case.program.statements < full.program.statements // 4
    assert run_trial_case(case, PLAN, reference_design(clobbered_by_interrupt)).reason is Reason.DIFFERENCE


def test_the_listing_tells_how_to_see_it_again(stale):
    result, case = stale
    text = program_listing(case, result)
    assert text.splitlines()[:3] == [
        "# Written by xpulpnn verify: minimal program that fails",
        f"# from: xpulpnn verify --preset xpulpnn-full --seed {result.seed} --instructions 1",
        f"# machine: ideal memory, no interrupts, seed {case.machine.seed}",
    ]
    assert assemble(text, 0x1C000000).words == case.program.assembled().words


def test_minimal_list():
    tried = []
    assert minimise_list(range(20), lambda items: tried.append(items) or {3, 11} <= set(items)) == (3, 11)
    assert len(tried) < 60


def test_a_program_that_does_not_assemble_is_not_tried():
    asked = []

    def fails(case):
        asked.append(case.program.text())
        return "add a0" in case.program.text()

    blocks = (ProgramBlock("branch", ("beq a0, a1, out",), (ProgramBlock("inside", ("add a0, a0, a1",)),), ("out:",)),)
    case = Shrinker(fails).shrink(ShrinkCase(RandomProgram(blocks), Machine(grant_stalls=0.5)))
    assert body(case) == ["add a0, a0, a1"]
    assert case.machine.grant_stalls == 0.0
    assert not [text for text in asked if "out" in text.split("main:")[1] and "out:" not in text]
