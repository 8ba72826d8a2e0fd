"""Hardware loops: every statement about them (guide, "Hardware loops")."""

import pytest

pytestmark = pytest.mark.unit


def pcs(iss, count):
    return [iss.step().pc for _ in range(count)]


@pytest.fixture
def count_up(asm):
    return lambda rd: asm("addi", rd=rd, rs1=rd, imm12=1)


@pytest.mark.parametrize(("count", "runs", "left"), [(0, 1, 0), (1, 1, 1), (2, 2, 1), (5, 5, 1)])
def test_a_body_of_one_instruction_after_setup(machine, asm, count_up, count, runs, left):
    iss = machine(asm("lp.setupi", L=0, lpcnt12=count, lpoff5=4), count_up(5), count_up(6))
    iss.run(50, until=0x8C)
    assert (iss.state.regs[5], iss.state.regs[6], iss.csrs["lpcount0"]) == (runs, 1, left)


def test_setup_from_a_register_and_separately(machine, asm, count_up):
    iss = machine(asm("lp.setup", L=1, rs1=7, lpoff12=8), count_up(5), count_up(6))
    iss.state.regs[7] = 3
    iss.run(50, until=0x8C)
    assert (iss.state.regs[5], iss.state.regs[6]) == (3, 3)
    iss = machine(
        asm("lp.starti", L=0, lpoff12=12),
        asm("lp.endi", L=0, lpoff12=12),
        asm("lp.counti", L=0, lpcnt12=4),
        count_up(5),
        count_up(6),
    )
    iss.run(50, until=0x94)
    assert (iss.state.regs[5], iss.state.regs[6]) == (4, 4)


def test_loops_with_a_common_end(machine, asm, count_up):
    """The outer body sets the inner loop up again: 3 * 4 turns."""
    iss = machine(
        asm("lp.setupi", L=1, lpcnt12=3, lpoff5=12),
        count_up(6),
        asm("lp.setupi", L=0, lpcnt12=4, lpoff5=4),
        count_up(5),
    )
    iss.run(100, until=0x90)
    assert (iss.state.regs[6], iss.state.regs[5]) == (3, 12)


def test_the_inner_counter_stays_at_one(machine, asm, count_up):
    """Without a new setup the inner loop passes once per turn of the outer one."""
    iss = machine(
        asm("lp.starti", L=0, lpoff12=16),
        asm("lp.endi", L=0, lpoff12=12),
        asm("lp.counti", L=0, lpcnt12=4),
        asm("lp.setupi", L=1, lpcnt12=3, lpoff5=4),
        count_up(5),
    )
    iss.run(100, until=0x94)
    assert (iss.state.regs[5], iss.csrs["lpcount0"], iss.csrs["lpcount1"]) == (4 + 2, 1, 1)


def test_taken_branch_at_the_end_does_not_count(machine, asm, count_up):
    iss = machine(
        asm("lp.setupi", L=0, lpcnt12=5, lpoff5=8), count_up(5), asm("beq", rs1=0, rs2=0, boff13=8), 0, count_up(6)
    )
    assert pcs(iss, 4) == [0x80, 0x84, 0x88, 0x90]
    assert iss.csrs["lpcount0"] == 5


def test_untaken_branch_at_the_end_counts(machine, asm, count_up):
    iss = machine(asm("lp.setupi", L=0, lpcnt12=2, lpoff5=8), count_up(5), asm("bne", rs1=0, rs2=0, boff13=8))
    assert pcs(iss, 5) == [0x80, 0x84, 0x88, 0x84, 0x88]
    assert (iss.csrs["lpcount0"], iss.state.pc) == (1, 0x8C)


def test_exception_at_the_end_does_not_count(machine, asm, count_up):
    iss = machine(asm("lp.setupi", L=0, lpcnt12=2, lpoff5=8), count_up(5), asm("ecall"))
    iss.load(0, [asm("mret")])
    assert pcs(iss, 3) == [0x80, 0x84, 0x88]
    assert (iss.csrs["lpcount0"], iss.state.pc) == (2, 0)
    iss.memory.write(0x88, 4, count_up(6))
    assert pcs(iss, 5) == [0, 0x88, 0x84, 0x88, 0x8C]
    assert iss.csrs["lpcount0"] == 1


def test_interrupt_after_the_end_returns_to_the_start(machine, asm, count_up):
    iss = machine(asm("lp.setupi", L=0, lpcnt12=2, lpoff5=8), count_up(5), count_up(6))
    pcs(iss, 3)
    iss.csrs["mstatus"] |= 8
    iss.csrs["mie"], iss.csrs.irq = 1 << 7, 1 << 7
    step = iss.step()
    assert (step.cause, iss.csrs["mepc"], iss.csrs["lpcount0"]) == (0x8000_0007, 0x84, 1)


def test_write_by_the_last_instruction_counts_from_the_next(machine, asm, count_up):
    """The old count decides and the written one stays."""
    iss = machine(asm("lp.setupi", L=0, lpcnt12=2, lpoff5=8), count_up(5), asm("lp.counti", L=0, lpcnt12=9))
    assert pcs(iss, 4) == [0x80, 0x84, 0x88, 0x84]
    assert iss.csrs["lpcount0"] == 9


def test_compressed_body_at_half_word_addresses(machine, asm):
    iss = machine(asm("lp.setupi", L=0, lpcnt12=3, lpoff5=6))
    iss.memory.write(0x84, 2, 0x0285)  # c.addi x5, 1
    iss.memory.write(0x86, 2, 0x0305)  # c.addi x6, 1
    iss.run(50, until=0x88)
    assert iss.state.regs[5:7] == [3, 3]


def test_jump_into_the_body_matches_by_address(machine, asm, count_up):
    iss = machine(asm("lp.setupi", L=0, lpcnt12=2, lpoff5=12), asm("jal", rd=0, joff21=8), 0, count_up(5))
    assert pcs(iss, 5) == [0x80, 0x84, 0x8C, 0x84, 0x8C]
