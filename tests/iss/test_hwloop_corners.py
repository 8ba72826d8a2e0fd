"""Hardware loops in every corner (guide, "Hardware loops"), once in single steps and once in bursts."""

import pytest

from xpulpnn_sim.iss.core import Iss
from xpulpnn_sw.asm import assemble

pytestmark = pytest.mark.unit

BASE = 0x1000
START = BASE + 0x80


@pytest.fixture(params=["steps", "bursts"])
def run(request):
    """A program until ``ebreak``; ``handler`` is at the exception entry. x5 = -1."""

    def execute(source, handler="", limit=2000, **regs):
        iss = Iss(START)
        assembled = assemble(f"{source}\nstop: ebreak", START)
        iss.memory.write_bytes(START, assembled.to_bytes())
        iss.memory.write_bytes(BASE, assemble(handler, BASE).to_bytes())
        iss.state.regs[5] = 0xFFFF_FFFF
        for name, value in regs.items():
            iss.state.regs[int(name[1:])] = value
        stop = assembled.labels["stop"]
        if request.param == "bursts":
            iss.run(limit, until=stop)
        for _ in range(limit):
            if iss.state.pc == stop:
                break
            iss.step()
        assert iss.state.pc == stop, "did not end"
        return iss

    return execute


def regs(iss, *numbers):
    return [iss.state.regs[number] for number in numbers]


def loops(iss):
    return [iss.csrs[name] for name in ("lpcount0", "lpcount1")]


@pytest.mark.parametrize("body", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("loop", [0, 1])
def test_bodies_and_counts(run, body, count, loop):
    iss = run(f"lp.setup {loop}, x6, pc+{4 * body}; " + "addi x10, x10, 1;" * body + "addi x11, x11, 1", x6=count)
    assert regs(iss, 10, 11) == [body * max(1, count), 1]
    assert loops(iss)[loop] == min(count, 1)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_compressed_bodies(run, count):
    iss = run(f"c.nop; lp.setupi 0, {count}, pc+6; c.addi x10, 1; c.addi x11, 1; c.addi x12, 1")
    assert regs(iss, 10, 11, 12) == [max(1, count)] * 2 + [1]


def test_a_long_instruction_across_a_word_boundary_at_the_end(run):
    iss = run("lp.setupi 0, 4, pc+6; c.addi x10, 1; addi x11, x11, 1; c.addi x12, 1")
    assert regs(iss, 10, 11, 12) == [4, 4, 1]


def test_the_count_is_unsigned(run):
    """4294967295 turns; left by a branch."""
    iss = run("lp.setup 0, x5, 1f; addi x10, x10, 1; beq x10, x6, stop; 1: nop", x6=9)
    assert loops(iss)[0] == 0xFFFF_FFFF - 8


@pytest.mark.parametrize("inner", [0, 1, 3])
@pytest.mark.parametrize("outer", [0, 1, 2, 4])
def test_nested(run, inner, outer):
    source = f"""
        lp.setupi 1, {outer}, 2f
        addi x10, x10, 1
        lp.setupi 0, {inner}, 1f
        addi x11, x11, 1
    1:  addi x12, x12, 1
    2:  addi x13, x13, 1
    """
    iss = run(source)
    turns, inside = max(1, outer), max(1, inner)
    assert regs(iss, 10, 11, 12, 13) == [turns, turns * inside, turns * inside, turns]


@pytest.mark.parametrize("inner", [0, 1, 3])
@pytest.mark.parametrize("outer", [0, 1, 2, 4])
def test_nested_with_a_common_end(run, inner, outer):
    source = f"""
        lp.setupi 1, {outer}, 1f
        addi x10, x10, 1
        lp.setupi 0, {inner}, 1f
        addi x11, x11, 1
    1:  addi x12, x12, 1
    """
    iss = run(source)
    turns, inside = max(1, outer), max(1, inner)
    assert regs(iss, 10, 11, 12) == [turns, turns * inside, turns * inside]


def test_both_loops_the_same(run):
    """One body of one instruction: loop 0 first, then loop 1 counts its own turns."""
    iss = run("lp.setupi 1, 3, pc+8; lp.setupi 0, 4, pc+4; addi x10, x10, 1")
    # the outer body sets the inner loop up again
    assert regs(iss, 10) == [12]
    iss = run("lp.starti 0, 1f; lp.endi 0, 1f; lp.setupi 1, 3, 1f; lp.counti 0, 4; 1: addi x10, x10, 1")
    assert regs(iss, 10) == [12]


def test_the_inner_counter_stays_at_one(run):
    """Without a new setup the inner loop passes once per turn of the outer one."""
    iss = run("lp.starti 0, 1f; lp.endi 0, 1f; lp.counti 0, 4; lp.setupi 1, 3, 1f; 1: addi x10, x10, 1")
    assert (regs(iss, 10), loops(iss)) == ([4 + 2], [1, 1])


def test_loop_1_inside_loop_0_works_as_well(run):
    """Nothing but the priority at a common end makes loop 0 the inner one."""
    iss = run("lp.setupi 0, 3, 2f; lp.setupi 1, 4, 1f; 1: addi x10, x10, 1; 2: addi x11, x11, 1")
    assert regs(iss, 10, 11) == [12, 3]


@pytest.mark.parametrize("write", ["lp.counti 0, 2", "csrrwi x0, lpcount0, 2"])
def test_a_count_written_by_the_last_instruction_counts_from_the_next(run, write):
    """The old count decides; the new one is there at the next turn, here until a flag ends it."""
    source = f"""
        lp.setupi 0, 3, 1f
        addi x10, x10, 1
        beq x10, x6, stop
    1:  {write}
    """
    iss = run(source, x6=5)
    assert (regs(iss, 10), loops(iss)[0]) == ([5], 2)


def test_an_end_written_by_the_last_instruction_counts_from_the_next(run):
    """The turn decided by the old end happens; at the next pass the end is elsewhere."""
    source = """
        lp.setupi 0, 5, 1f
        addi x10, x10, 1
    1:  csrrw x0, lpend0, x0
        addi x11, x11, 1
    """
    iss = run(source)
    assert regs(iss, 10, 11) == [2, 1]
    assert (loops(iss)[0], iss.csrs["lpend0"]) == (4, 0)


def test_a_start_written_by_the_last_instruction_counts_from_the_next(run):
    source = """
        lp.setupi 0, 3, 1f
        addi x10, x10, 1
        addi x11, x11, 1
    1:  csrrw x0, lpstart0, x6
        addi x12, x12, 1
    """
    iss = run(source, x6=START + 8)
    assert regs(iss, 10, 11, 12) == [2, 3, 1]


def test_loop_registers_by_csr(run):
    source = """
        csrrw x0, lpstart0, x6
        csrrw x0, lpend0, x7
        csrrwi x0, lpcount0, 5
        addi x10, x10, 1
        addi x11, x11, 1
        csrrs x12, lpstart0, x0
        csrrs x13, lpend0, x0
        csrrs x14, lpcount0, x0
    """
    # bit 0 is dropped
    iss = run(source, x6=START + 13, x7=START + 17)
    assert regs(iss, 10, 11, 12, 13, 14) == [5, 5, START + 12, START + 16, 1]


def test_setting_the_end_below_the_start(run):
    """The address alone decides: the loop jumps forward."""
    source = """
        csrrw x0, lpstart0, x6
        csrrw x0, lpend0, x7
        lp.counti 0, 2
        addi x10, x10, 1
        addi x11, x11, 1
        addi x12, x12, 1
    """
    iss = run(source, x6=START + 20, x7=START + 12)
    assert regs(iss, 10, 11, 12) == [1, 0, 1]


@pytest.mark.parametrize(
    "leave", ["beq x0, x0, stop", "jal x0, stop", "auipc x20, 0; addi x20, x20, 12; jalr x0, 4(x20)"]
)
def test_leaving_at_the_end_does_not_count(run, leave):
    *before, last = leave.split("; ")
    lines = ["lp.setupi 0, 5, 1f", "addi x10, x10, 1", *before, f"1: {last}", "addi x11, x11, 1"]
    if before:
        # target: the instruction after the one skipped
        lines[2:4] = ["auipc x20, 0", "addi x20, x20, 16"]
        lines[4] = "1: jalr x0, 0(x20)"
    iss = run("\n".join(lines))
    assert regs(iss, 10, 11) == [1, 0]
    assert loops(iss)[0] == 5


def test_a_taken_branch_to_the_next_instruction_does_not_count(run):
    """It goes where it would go anyway, but it is taken."""
    iss = run("lp.setupi 0, 5, 1f; addi x10, x10, 1; 1: beq x0, x0, pc+4; addi x11, x11, 1")
    assert (regs(iss, 10, 11), loops(iss)[0]) == ([1, 1], 5)


def test_branching_at_the_end_until_it_is_not_taken(run):
    """Every taken turn leaves the count, the untaken one uses it."""
    source = """
        lp.setupi 0, 2, 1f
        addi x10, x10, 1
        andi x11, x10, 3
    1:  bne x11, x0, pc-8
    """
    iss = run(source)
    assert (regs(iss, 10), loops(iss)[0]) == ([8], 1)


def test_calls_inside(run):
    source = """
        lp.setupi 0, 3, 1f
        jal x1, function
    1:  addi x10, x10, 1
        jal x0, stop
    function: addi x11, x11, 1
        jalr x0, 0(x1)
    """
    assert regs(run(source), 10, 11) == [3, 3]


def test_jumping_out_and_into_the_body_again(run):
    source = """
        lp.setupi 0, 4, 1f
        addi x10, x10, 1
        beq x10, x6, outside
    1:  addi x11, x11, 1
        jal x0, stop
    outside: csrrs x12, lpcount0, x0
        addi x10, x10, 10
        jal x0, pc-16
    """
    iss = run(source, x6=2)
    assert regs(iss, 10, 11, 12) == [14, 4, 3]


ADVANCE = "csrrs x28, mepc, x0; addi x28, x28, 4; csrrw x0, mepc, x28; addi x29, x29, 1; mret"


@pytest.mark.parametrize("trap", ["ecall", "ebreak", ".word 0", "csrrw x0, 0xf14, x0"])
def test_traps_inside(run, trap):
    iss = run(f"lp.setupi 0, 3, 1f; {trap}; 1: addi x10, x10, 1", handler=ADVANCE)
    assert regs(iss, 10, 29) == [3, 3]


def test_a_trap_at_the_end_that_is_skipped_leaves_the_loop(run):
    """The exception does not count, and the handler returns behind the end."""
    iss = run("lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: ecall; addi x11, x11, 1", handler=ADVANCE)
    assert (regs(iss, 10, 11, 29), loops(iss)[0]) == ([1, 1, 1], 3)


def test_a_trap_at_the_end_that_is_repeated_counts_then(run):
    """The handler mends the word; executed again, it is the end of the loop."""
    handler = "csrrs x28, mepc, x0; sw x27, 0(x28); addi x29, x29, 1; fence.i; mret"
    nop = assemble("nop").words[0]
    iss = run("lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: .word 0; addi x11, x11, 1", handler=handler, x27=nop)
    assert (regs(iss, 10, 11, 29), loops(iss)[0]) == ([3, 1, 1], 1)


def test_mret_at_the_end_does_not_count(run):
    source = "auipc x20, 0; addi x20, x20, 28; csrrw x0, mepc, x20; lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: mret; nop"
    iss = run(source)
    assert (regs(iss, 10), loops(iss)[0]) == ([1], 3)


@pytest.mark.parametrize("last", ["csrrs x12, lpcount0, x0", "fence", "fence.i", "csrrs x12, minstret, x0"])
def test_system_instructions_at_the_end_count(run, last):
    iss = run(f"lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: {last}; addi x11, x11, 1")
    assert (regs(iss, 10, 11), loops(iss)[0]) == ([3, 1], 1)
    if "lpcount" in last:
        # the value from before the instruction itself
        assert regs(iss, 12) == [1]


def test_reading_the_count_at_the_end(run):
    iss = run("lp.setupi 0, 3, 1f; add x12, x12, x11; 1: csrrs x11, lpcount0, x0; add x12, x12, x11")
    assert regs(iss, 12) == [3 + 2 + 1]


def test_a_handler_with_loops_of_its_own_saves_the_registers(run):
    names = [f"lp{part}{loop}" for loop in (0, 1) for part in ("start", "end", "count")]
    save = "; ".join(f"csrrs x{20 + i}, {name}, x0" for i, name in enumerate(names))
    restore = "; ".join(f"csrrw x0, {name}, x{20 + i}" for i, name in enumerate(names))
    handler = f"{save}; lp.setupi 0, 6, pc+4; addi x30, x30, 1; {restore}; {ADVANCE}"
    iss = run(
        "lp.setupi 1, 2, 2f; lp.setupi 0, 3, 1f; ecall; 1: addi x10, x10, 1; 2: addi x11, x11, 1", handler=handler
    )
    assert regs(iss, 10, 11, 29, 30) == [6, 2, 6, 36]


def test_wfi_at_the_end_of_a_loop():
    """It counts when it is executed; waking up continues at the start."""
    iss = Iss(START)
    iss.memory.write_bytes(START, assemble("lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: wfi; nop").to_bytes())
    iss.csrs["mie"] = 1 << 16
    for _ in range(5):
        iss.step()
    assert (iss.state.asleep, iss.state.pc, iss.csrs["lpcount0"]) == (True, START + 4, 2)
    iss.csrs.irq = 1 << 16
    assert iss.step().pc == START + 4


def interruptible(source, vectors):
    iss = Iss(START)
    iss.memory.write_bytes(BASE, assemble(vectors, BASE).to_bytes())
    iss.memory.write_bytes(START, assemble(source, START).to_bytes())
    iss.csrs["mstatus"], iss.csrs["mie"] = 0x1888, 0xFFFF_0888
    return iss


LOOPS = """
    lp.setupi 1, 3, 2f
    addi x10, x10, 1
    lp.setupi 0, 4, 1f
    pv.mlsdotsup.b x11, (x8!), 8
1:  pv.mlsdotsup.b x11, (x8!), 16
2:  addi x12, x12, 1
    addi x13, x13, 1
"""


@pytest.mark.parametrize("moment", range(35))
def test_an_interrupt_at_every_point_of_nested_loops(moment):
    """The result is that of a run without, and mepc is the next instruction of the loops."""
    vectors = "; ".join(["mret"] * 16 + ["addi x20, x20, 1"] + ["mret"] * 15)
    plain, disturbed = interruptible(LOOPS, vectors), interruptible(LOOPS, vectors)
    for iss in (plain, disturbed):
        iss.state.regs[8] = 0x8000
        iss.memory.write_bytes(0x8000, bytes(range(200)))
    for _ in range(moment):
        plain.step()
        disturbed.step()
    disturbed.csrs.irq = 1 << 16
    step = disturbed.step()
    assert (step.cause, disturbed.csrs["mepc"]) == (0x8000_0010, plain.state.pc)
    disturbed.csrs.irq = 0
    for _ in range(2):
        disturbed.step()
    assert disturbed.state.pc == plain.state.pc
    assert disturbed.state.regs[20] == 1
    end = START + 4 * 7
    plain.run(100, until=end)
    disturbed.run(100, until=end)
    disturbed.state.regs[20] = 0
    assert disturbed.state == plain.state
    assert plain.state.regs[10:14] == [3, plain.state.regs[11], 3, 1]
    assert loops(disturbed) == loops(plain)
