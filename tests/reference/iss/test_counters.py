"""PULP performance counters and the machine counters over whole programs (guide, "Performance counters")."""

import pytest

from xpulpnn.isa.csr import PERFORMANCE_EVENTS
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.unit

BASE = 0x1000
ALL = 0x1_FFFF


@pytest.fixture
def run():
    """Registers after a program that ends at ``ebreak``; x5 = all ones, x8 points to data."""

    def execute(source, **settings):
        iss = Iss(BASE, performance_counters=True, **settings)
        iss.memory.write_bytes(BASE, assemble(source + "; ebreak", BASE).to_bytes())
        iss.state.regs[5], iss.state.regs[8] = 0xFFFF_FFFF, 0x2000
        iss.run(10_000, until=BASE + len(assemble(source, BASE).to_bytes()))
        return iss

    return execute


def counts(iss):
    values = {name: iss.csrs[f"pccr{event}"] for event, name in enumerate(PERFORMANCE_EVENTS)}
    return {name: value for name, value in values.items() if value}


def test_they_exist_only_on_request():
    iss = Iss(BASE)
    iss.memory.write(BASE, 4, assemble("csrrs x6, 0x780, x0").words[0])
    assert iss.step().cause == 2


def test_reset_values_and_fields(run):
    iss = run(
        "csrrw x6, 0xcc0, x5; csrrw x7, 0xcc1, x5; csrrs x9, 0xcc0, x0; csrrwi x0, 0xcc0, 0; csrrs x10, 0xcc1, x0"
    )
    assert iss.state.regs[6:8] == [0, 3]
    assert iss.state.regs[9:11] == [ALL, 3]


def test_nothing_counts_before_it_is_enabled(run):
    assert counts(run("lw x6, 0(x8); addi x6, x6, 1; lw x6, 0(x8)")) == {}


BODY = """
    lw x6, 0(x8)
    lh x6, 3(x8)
    p.lw x6, 2(x8!)
    pv.mlsdotsup.b x0, (x8!), 8
    pv.mlsdotsup.b x0, (x8!), 0
    sw x6, 0(x8)
    sw x6, 2(x8)
    sb x6, 3(x8)
    jal x1, pc+4
    beq x0, x0, pc+4
    bne x0, x0, pc+4
    c.nop
    lp.setupi 0, 3, pc+4
    addi x7, x7, 1
"""


def test_every_event(run):
    """Misaligned accesses count twice, Mac&Load and store at offset 2 included; a Mac&Load without update is none."""
    iss = run(f"csrrw x0, 0xcc0, x5; {BODY}; csrrwi x0, 0xcc0, 0; lw x6, 0(x8)")
    assert counts(iss) == {
        "cycles": 17,
        "instructions": 17,
        "loads": 1 + 2 + 1 + 2,
        "stores": 2 + 1 + 1,
        "jumps": 1,
        "branches": 2,
        "taken_branches": 1,
        "compressed": 1,
    }


def test_chosen_events_only(run):
    iss = run(f"li x6, 0x42; csrrw x0, 0xcc0, x6; {BODY}; csrrwi x0, 0xcc0, 0")
    assert set(counts(iss)) == {"instructions", "stores"}


def test_the_global_enable_stops_all(run):
    iss = run(f"csrrw x0, 0xcc0, x5; csrrwi x0, 0xcc1, 0; {BODY}")
    assert counts(iss) == {"cycles": 1, "instructions": 1}


def test_instructions_that_trap_are_not_counted(run):
    iss = Iss(BASE + 0x80, performance_counters=True)
    handler = "csrrs x6, mepc, x0; addi x6, x6, 4; csrrw x0, mepc, x6; mret"
    iss.memory.write_bytes(BASE, assemble(handler, BASE).to_bytes())
    iss.memory.write_bytes(BASE + 0x80, assemble("csrrw x0, 0xcc0, x5; ecall; nop; csrrwi x0, 0xcc0, 0").to_bytes())
    iss.state.regs[5] = 0xFFFF_FFFF
    iss.run(8)
    assert counts(iss) == {"cycles": 7, "instructions": 6}
    assert iss.csrs["minstret"] == 7


def test_a_written_counter_keeps_the_value(run):
    iss = run("csrrwi x0, 0xcc0, 2; csrrwi x0, 0x781, 9; csrrs x6, 0x781, x0; nop; csrrs x7, 0x781, x0")
    assert iss.state.regs[6:8] == [9, 11]


def test_write_all(run):
    iss = run("li x6, 77; csrrw x7, 0x79f, x6; csrrs x9, 0x79f, x0; csrrs x10, 0x78b, x0")
    assert iss.state.regs[7] == 0
    assert iss.state.regs[9:11] == [0, 77]
    assert [iss.csrs[f"pccr{event}"] for event in range(17)] == [77] * 17


@pytest.mark.parametrize(("mode", "value"), [(3, 0xFFFF_FFFF), (1, 1)])
def test_saturation(run, mode, value):
    iss = run(
        f"csrrwi x0, 0xcc1, {mode}; li x6, -2; csrrw x0, 0x781, x6; csrrwi x0, 0xcc0, 2; nop; nop; csrrwi x0, 0xcc0, 0"
    )
    assert iss.csrs["pccr1"] == value


def test_bursts_count_the_machine_counters(run):
    iss = run("li x6, 7; lp.setupi 0, 100, pc+4; addi x6, x6, 1; csrrs x9, minstret, x0; csrrs x10, mcycle, x0")
    assert iss.state.regs[9:11] == [102, 103]


def test_machine_counters_carry_into_the_upper_half(run):
    iss = run("csrrw x0, minstret, x5; nop; nop; csrrs x6, minstreth, x0; csrrs x7, minstret, x0")
    assert iss.state.regs[6:8] == [1, 2]


def test_sleep_counts_cycles_only(run):
    iss = Iss(BASE, performance_counters=True)
    iss.memory.write_bytes(BASE, assemble("csrrwi x0, 0xcc0, 3; wfi").to_bytes())
    for _ in range(6):
        iss.step()
    assert counts(iss) == {"cycles": 5, "instructions": 1}
