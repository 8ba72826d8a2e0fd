"""Programs on the Verilated core; which interrupt is taken, and when, by the core and by the checks."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import EVERY_ROW, OPTIONS
from tests.designs import FULL as USUAL
from tests.programs import read_results

from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS
from xpulpnn_sim.reference.directed.programs import DIRECTED
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.exits import Reason

pytestmark = pytest.mark.cosim

DESIGN = ["--preset", "xpulpnn-full", *(word for name in OPTIONS for word in ("--set", f"{name}=true"))]
MAX_CYCLES = 500_000
MACHINES = {
    "ideal": Machine(max_cycles=MAX_CYCLES, bus_errors=BUS_ERRORS, hart_id=0x5A3C_69F0),
    "slow": Machine(
        bus_errors=BUS_ERRORS,
        grant_stalls=0.3,
        response_latency=5,
        fetch_grant_stalls=0.3,
        fetch_latency=4,
        seed=3,
        max_cycles=MAX_CYCLES,
        hart_id=0xA5C3_960F,
    ),
}
IRQ_RATES = {"ideal": 0.002, "slow": 0.0004}


def machine_for(timing, case):
    """Interrupts only where the program enables them."""
    return replace(MACHINES[timing], irq_rate=IRQ_RATES[timing] * case.interrupts)


# with slow memory some: the bench of the core and random programs have it too
RUNS = [*((case, "ideal") for case in DIRECTED), *((case, "slow") for case in DIRECTED[::3])]


@pytest.mark.parametrize(("case", "timing"), RUNS, ids=lambda each: getattr(each, "name", each))
def test_directed(case, timing):
    machine = machine_for(timing, case)
    # the simulator is the same whatever the memory does: once is enough
    result = run_program(case.program().executable(), EVERY_ROW, machine, lockstep=timing == "ideal", check=True)
    assert result.difference is None, result.difference
    assert result.exit.ok, result.exit.text
    assert case.problems(result.read) == []


def test_interrupts_are_taken():
    taken = sum(
        run_program(case.program().executable(), EVERY_ROW, machine_for("ideal", case)).interrupts
        for case in DIRECTED
        if case.interrupts
    )
    assert taken > 10


def test_verify_command(tmp_path, capsys):
    path = tmp_path / "verify.json"
    words = ["verify", *DESIGN, "--instructions", "40000", "--seed", "5", "--jobs", "1", "--json", str(path)]
    assert main(words) == 0
    assert "differences" in capsys.readouterr().out
    result = read_results(path)[0]
    assert result["instructions"] >= 40000
    assert result["differences"] == 0
    assert np.sum([row["retirements"] for row in result["rows"].values()]) > 0


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


@pytest.fixture
def program(core_program):
    return core_program(HANDLER, vectors="handler")


RISING = Machine(irqs=tuple((20, line) for line in RAISED))


def test_most_urgent_first(program):
    result = run_program(program, USUAL, RISING, check=True)
    assert result.exit.ok, result.difference
    assert (result.interrupts, result.mismatches) == (len(RAISED), 0)
    assert tuple(result.read(DATA, len(RAISED))) == IN_ORDER


def test_lines_rise_behind_their_cycles(core_program, recorded):
    records, _, driven = recorded(core_program("nop\n" * 40), USUAL, Machine(irqs=((40, 3), (30, 7))))
    assert driven.tolist() == [(cycle > 30) << 7 | (cycle > 40) << 3 for cycle in records["cycle"].tolist()]


@pytest.fixture
def checked(program, recorded):
    """The difference that the check finds in the same retirements with other interrupt lines."""
    records, grants, driven = recorded(program, USUAL, RISING)
    taken = np.flatnonzero(records["intr"])
    pending = [sum(1 << line for line in IN_ORDER[count:]) for count in range(len(IN_ORDER))]
    assert driven[taken].tolist() == pending

    def check(change):
        lines = np.zeros(len(records), np.uint32)
        lines[taken] = pending
        change(lines, taken)
        return Lockstep(program, USUAL).compare(records, lines, grants)

    return check


CHANGES = {
    "nothing else": (0, 0, ~0, None),
    "a more urgent one was passed over": (
        2,
        1 << 30,
        ~0,
        ("cause", 1 << 5 | 30, 1 << 5 | 16),
    ),
    "less urgent and disabled ones do not matter": (2, 1 << 3 | 1 << 5, ~0, None),
    "no line was high": (1, 0, 0, ("intr", 0, 1)),
}
"""At which interrupt lines rise, and which of the others stay; the field that is wrong."""


@pytest.mark.parametrize("case", CHANGES)
def test_lines_that_explain_the_interrupts(checked, case):
    number, rising, staying, wrong = CHANGES[case]

    def change(lines, taken):
        lines[taken[number]] = int(lines[taken[number]]) & staying | rising

    difference = checked(change)
    assert wrong == (difference and (difference.field, difference.expected, difference.got))


def test_never_taken(checked):
    assert checked(lambda lines, taken: lines[taken[-1] + 10 : taken[-1] + 25].fill(1 << 16)).field == "interrupt"


@pytest.mark.parametrize(
    "jump", ["jal x0, loop", "c.j loop", "beq x0, x0, loop", "bge x5, x0, loop", "c.beqz x8, loop", "bne x5, x0, loop"]
)
def test_every_jump_to_itself_ends(core_program, jump):
    result = run_program(core_program(f"loop: {jump}\n"), USUAL, Machine(max_cycles=2000))
    assert (result.exit.reason is Reason.ENDLESS_LOOP) == ("(loop)" in result.exit.text) == (not jump.startswith("bne"))
    assert result.exit.ok == jump.startswith("bne")


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
    result = run_program(core_program(source, vectors="handler"), USUAL, Machine(irqs=((300, 7),), max_cycles=2000))
    assert result.exit.ok, result.exit.text
    assert (result.interrupts, result.cycles > 300) == (1, True)
