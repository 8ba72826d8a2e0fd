"""Cycles add up: the documented costs, each in a program of its own, and everything adding up in any memory."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.designs import FULL as CONFIG

from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.schema import STALLS
from xpulpnn_sim.cosimulation.workloads.program_run import MEANING, Profile, run_program, text_window

pytestmark = pytest.mark.cosim

START = 5
"""Cycles before the first instruction can retire."""

SLOW = Machine(grant_stalls=0.3, response_latency=3, fetch_grant_stalls=0.3, fetch_latency=3, irq_rate=0.02, seed=3)
SETUP = "li x8, data\n li x9, -7\n li x10, 3\n la x11, there\n nop\n nop\n"

EVERYTHING = """
_start: li x8, data
    csrrwi x0, mstatus, 8
    li x9, -1
    csrrw x0, mie, x9
    li x10, 40
loop: lw x6, 0(x8)
    addi x6, x6, 1
    sw x6, 1(x8)
    div x7, x9, x10
    mulh x7, x9, x10
    lp.setupi 0, 3, 77f
    c.nop; c.nop
77: addi x7, x7, 1
    pv.mlsdotusp.b x12, x8, 16
    pv.mlsdotusp.b x12, x8, 0
    ecall
    addi x10, x10, -1
    bne x10, x0, loop
    csrrwi x0, mstatus, 0
    jal x0, done
handler: csrrs x20, mcause, x0
    blt x20, x0, interrupt
    csrrs x20, mepc, x0
    addi x20, x20, 4
    csrrw x0, mepc, x20
interrupt: mret
done: nop
"""


def measured(program, machine=None, **checks):
    result = run_program(program, CONFIG, machine, account=True, **checks)
    assert result.exit.ok, result.difference or result.exit.text
    (account,) = result.accounts
    assert account.sum() == result.cycles
    assert account[:, WaitCause.NONE].sum() == result.instructions
    return Profile(program, account), result


def lost(result):
    return {cause: cycles for cause, cycles in result.stalls.items() if cycles}


@pytest.mark.parametrize(
    ("code", "stalls"),
    [
        ("lw x0, 0(x8)\n addi x5, x0, 1", {}),
        ("pv.mlsdotusp.b x12, x8, 16\n pv.mlsdotusp.b x12, x8, 0", {"mac_load": 1}),
        ("pv.mlsdotusp.b x12, x8, 16\n pv.mlsdotusp.b x12, x9, 2", {}),
        ("lh x5, 1(x8)\n sb x9, 3(x8)", {}),
        ("mulh x5, x9, x10\n mulhu x5, x9, x10", {"multicycle": 8}),
        ("divu x5, x9, x0", {"multicycle": 34}),
        ("bne x9, x10, 55f\n c.nop\n 55: nop\n c.nop", {"branch": 2, "fetch": 1}),
        ("jal x1, 55f\n c.nop\n 55: nop\n c.nop", {"jump": 1, "fetch": 1}),
        ("sw x11, 0(x8)\n lw x11, 0(x8)\n jalr x1, 0(x11)", {"jump": 1, "jump_register": 1, "load_use": 1}),
        ("sw x11, 0(x8)\n lw x11, 0(x8)\n nop\n jalr x1, 0(x11)", {"jump": 1, "jump_register": 1}),
        ("bne x9, x10, 55f\n nop\n 55: mulh x5, x9, x10", {"branch": 2, "multicycle": 4}),
        ("jal x1, 55f\n nop\n 55: mulh x5, x9, x10", {"jump": 1, "multicycle": 4}),
        ("csrrw x0, mscratch, x9\n mulh x5, x9, x10", {"csr": 1, "multicycle": 4}),
        ("lw x5, 0(x8)\n mulh x5, x5, x10", {"load_use": 1, "multicycle": 4}),
        ("sw x8, 0(x8)\n lw x5, 0(x8)\n lw x5, 1(x5)", {"load_use": 1, "misaligned": 1}),
        ("addi x9, x9, 0\n fence.i\n mulh x5, x9, x10", {"sync": 2, "multicycle": 4}),
        ("lp.setupi 0, 10, 77f\n c.nop\n nop\n 77: nop\n c.nop", {}),
    ],
)
def test_costs_that_meet(core_program, code, stalls):
    """Each cost alone is measured by ``xpulpnn verify costs``."""
    _, result = measured(core_program(f"{SETUP}{code}\nthere: nop"))
    assert lost(result) == stalls | {"start": START}


def test_everything_at_once(core_program):
    program = core_program(EVERYTHING, vectors="handler")
    _, quick = measured(program)
    ideal = lost(quick)
    iterations = 40
    # both operands of the division change their size with the counter: the cycles follow from the divisors alone
    divisions = sum(2 + 32 - divisor.bit_length() for divisor in range(1, iterations + 1))
    assert ideal == {
        "start": START,
        "load_use": iterations,
        "mac_load": iterations,
        "misaligned": iterations,
        "multicycle": divisions + 4 * iterations,
        "branch": 2 * (iterations - 1),
        # the way through the vector table, and the jump to the end
        "jump": iterations + 1,
        # entry and mret
        "trap": 2 * iterations,
        "csr": iterations + 3,
    }
    cycles = lost(measured(program, SLOW)[1])
    for cause in ("grant", "response", "fetch"):
        assert cycles[cause] > iterations
    # an instruction that waits while the next is fetched may hide a cost, none is counted that is not there
    assert cycles["multicycle"] <= ideal["multicycle"]
    assert cycles["misaligned"] <= ideal["misaligned"]


def test_interrupts_and_sleep(core_program):
    source = """
        csrrwi x0, mstatus, 8
        li x9, -1
        csrrw x0, mie, x9
        nop
        wfi
        nop
        jal x0, done
    handler: mret
    done: nop
    """
    cycles = lost(measured(core_program(source, vectors="handler"), Machine(irqs=((500, 7),)))[1])
    assert cycles.pop("sleep") > 400
    # three cycles to take the interrupt, one of mret
    assert cycles == {"start": START, "csr": 2, "trap": 3 + 1, "jump": 2, "sync": 1}


def test_retirements_are_counted_where_they_happen(core_program, recorded):
    program = core_program(EVERYTHING, vectors="handler")
    records, _, _ = recorded(program, CONFIG, SLOW)
    profile, result = measured(program, SLOW)
    assert int(records["cycle"][-1]) == result.cycles
    counted = {row["pc"]: row["instructions"] for row in profile.by_instruction()}
    assert counted == Counter(records["pc_rdata"].tolist())
    checked, _ = measured(program, SLOW, check=True, lockstep=True)
    assert list(checked.by_instruction()) == list(profile.by_instruction())


def test_cycles_by_function_and_instruction(core_program):
    program = core_program(EVERYTHING, vectors="handler")
    profile, result = measured(program)
    functions = profile.by_function("outside")
    assert [row["symbol"] for row in functions] == ["loop", "handler", "interrupt", "outside", "_start", "done"]
    assert sum(row["cycles"] for row in functions) == profile.cycles == result.cycles
    assert sum(row["instructions"] for row in functions) == result.instructions
    assert sum(row["share"] for row in functions) == pytest.approx(1, abs=0.001)
    by_name = {row["symbol"]: row for row in functions}
    assert by_name["outside"] == {
        "symbol": "outside",
        "address": None,
        "cycles": 80,
        "share": round(80 / profile.cycles, 4),
        "instructions": 40,
        "cpi": 2.0,
        "stalls": {"jump": 40},
    }
    assert by_name["interrupt"]["stalls"] == {"trap": 40}
    listing = {row["text"].partition("  #")[0]: row for row in profile.by_instruction()}
    assert sum(row["cycles"] for row in listing.values()) <= profile.cycles
    # redirects are charged to what causes them
    assert listing["ecall"]["stalls"] == {"trap": 40}
    assert (listing["ecall"]["instructions"], listing["ecall"]["cycles"], listing["ecall"]["cpi"]) == (40, 80, 2.0)
    assert listing["mulh t2, s1, a0"]["stalls"] == {"multicycle": 160}
    assert listing["addi t1, t1, 1"]["stalls"] == {"load_use": 40}


def test_a_program_that_rewrites_itself(core_program):
    source = """
        la x11, patch
        la x12, other
        lw x13, 0(x12)
        jal x1, patch
        sw x13, 0(x11)
        fence.i
        jal x1, patch
        jal x0, done
    other: mulh x5, x6, x7
    patch: addi x5, x6, 7
        jalr x0, 0(x1)
    done: nop
    """
    _, result = measured(core_program(source), check=True)
    assert result.mismatches == 0
    assert lost(result) == {"start": START, "multicycle": 4, "jump": 5, "sync": 2}


def test_text_without_functions(core_program):
    program = core_program("nop")
    assert text_window(replace(program, functions=())) == text_window(program)


def test_every_cause_has_a_meaning():
    assert list(MEANING) == [cause.name.lower() for cause in STALLS if cause]
