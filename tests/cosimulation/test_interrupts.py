"""Which interrupt is taken, and when: on the core, and by the checks with what the lines were."""

import numpy as np
import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine, Target
from xpulpnn_sim.cosimulation.workloads.program_run import retirement_check, run_program
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.exits import Reason

pytestmark = pytest.mark.cosim

FULL = PRESETS["xpulpnn-full"]
DATA = 0x1000_0000
RAISED = (3, 7, 11, 16, 20, 31)
IN_ORDER = (31, 20, 16, 11, 3, 7)
"""The same from the most to the least urgent (guide, "Exceptions and interrupts")."""

HANDLER = """
    li x8, data
    li x5, 0xffff0888; csrrw x0, mie, x5
    li x9, 60
wait: addi x9, x9, -1
    bne x9, x0, wait
    csrrsi x0, mstatus, 8
    li x9, 60
work: addi x9, x9, -1
    bne x9, x0, work
    jal x0, done
handler: csrrs x6, mcause, x0
    sb x6, 0(x8)
    addi x8, x8, 1
    mret
done: nop
"""
SELF = "loop: {}\n"


@pytest.fixture
def program(core_program):
    return core_program(HANDLER, vectors="handler")


MACHINE = Machine(irqs=tuple((20, line) for line in RAISED))


def test_most_urgent_first(program):
    result = run_program(program, FULL, MACHINE, check=True, lockstep=True)
    assert result.exit.ok, result.difference
    assert (result.interrupts, result.mismatches) == (len(RAISED), 0)
    assert tuple(result.read(DATA, len(RAISED))) == IN_ORDER


def test_lines_rise_behind_their_cycles(core_program, recorded):
    records, _, driven = recorded(core_program("nop\n" * 40), FULL, Machine(irqs=((40, 3), (30, 7))))
    assert driven.tolist() == [(cycle > 30) << 7 | (cycle > 40) << 3 for cycle in records["cycle"].tolist()]


@pytest.fixture
def checked(program, recorded):
    """What the checks say of the same retirements with other interrupt lines."""
    records, grants, driven = recorded(program, FULL, MACHINE)
    taken = np.flatnonzero(records["intr"])
    pending = [sum(1 << line for line in IN_ORDER[count:]) for count in range(len(IN_ORDER))]
    assert driven[taken].tolist() == pending

    def check(change):
        lines = np.zeros(len(records), np.uint32)
        lines[taken] = pending
        change(lines, taken)
        check = retirement_check(program, Target.of(FULL, MACHINE), MACHINE, model_library("core", FULL))
        found = check.check([records], grants, [lines])
        return Lockstep(program, FULL).compare(records, lines), found.count, found.text

    return check


CHANGES = {
    "nothing else": (0, 0, ~0, None, None),
    "a more urgent one was passed over": (
        2,
        1 << 30,
        ~0,
        ("cause", 1 << 5 | 30, 1 << 5 | 16),
        "cause must be 0x3e, not 0x30",
    ),
    "less urgent and disabled ones do not matter": (2, 1 << 3 | 1 << 5, ~0, None, None),
    "no line was high": (1, 0, 0, ("intr", 0, 1), "intr must be 0x0, not 0x1"),
}
"""At which interrupt lines rise, and which of the others stay; the field that is wrong, and what the check tells."""


@pytest.mark.parametrize("case", CHANGES)
def test_lines_that_explain_the_interrupts(checked, case):
    number, rising, staying, wrong, told = CHANGES[case]

    def change(lines, taken):
        lines[taken[number]] = int(lines[taken[number]]) & staying | rising

    difference, total, text = checked(change)
    assert total == (wrong is not None)
    assert wrong == (difference and (difference.field, difference.expected, difference.got))
    assert text is told is None or told in text


def test_never_taken(checked):
    difference, total, text = checked(lambda lines, taken: lines[taken[-1] + 10 : taken[-1] + 25].fill(1 << 16))
    assert difference.field == "interrupt"
    assert total
    assert "intr must be 0x1, not 0x0" in text


@pytest.mark.parametrize(
    "jump", ["jal x0, loop", "c.j loop", "beq x0, x0, loop", "bge x5, x0, loop", "c.beqz x8, loop"]
)
def test_every_jump_to_itself_ends(core_program, jump):
    result = run_program(core_program(SELF.format(jump)), FULL, Machine(max_cycles=2000))
    assert result.exit.reason is Reason.ENDLESS_LOOP
    assert "(loop)" in result.exit.text


def test_branch_to_itself_that_falls_through(core_program):
    result = run_program(core_program(SELF.format("bne x5, x0, loop")), FULL, Machine(max_cycles=2000))
    assert result.exit.ok


def test_jump_to_itself_that_an_interrupt_ends(core_program):
    source = """
        li x5, 0x80; csrrw x0, mie, x5
        la x6, done
        csrrsi x0, mstatus, 8
    loop: jal x0, loop
    handler: csrrw x0, mepc, x6
        mret
    done: csrrwi x0, mstatus, 0
    """
    result = run_program(core_program(source, vectors="handler"), FULL, Machine(irqs=((300, 7),), max_cycles=2000))
    assert result.exit.ok, result.exit.text
    assert (result.interrupts, result.cycles > 300) == (1, True)
