"""Runs: the same as single steps, faster; and where they stop."""

from functools import partial
from random import Random

import pytest
from tests.reference.iss.conftest import booted

from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.assembly.asm import assemble

BASE = 0x1000


boot = partial(booted, at=BASE)


def block(rng, depth):
    """Random straight code, loops, branches and calls; x8 is the data pointer, x9 a small number."""

    def r():
        return f"x{rng.randrange(10, 16)}"

    simple = (
        lambda: f"add {r()}, {r()}, {r()}",
        lambda: f"c.addi {r()}, {rng.randrange(1, 32)}",
        lambda: f"mul {r()}, {r()}, {r()}",
        lambda: f"pv.sdotusp.n {r()}, {r()}, {r()}",
        lambda: f"sw {r()}, {4 * rng.randrange(8)}(x8)",
        lambda: f"lh {r()}, {rng.randrange(32)}(x8)",
        lambda: f"pv.mlsdotsup.b {r()}, (x8!), {rng.choice((0, 9, 18))}; addi x8, x8, -4",
        lambda: f"csrrs {r()}, lpcount{rng.randrange(2)}, x0",
        lambda: f"csrrs {r()}, minstret, x0",
        lambda: f"csrrw {r()}, mscratch, {r()}",
        lambda: f"bne {r()}, {r()}, pc+8; addi x15, x15, 3",
        lambda: "jal x1, function",
    )
    lines = [rng.choice(simple)() for _ in range(rng.randint(1, 6))]
    if depth:
        loop = depth - 1
        lines.append(f"lp.setupi {loop}, {rng.randrange(4)}, 1f" if rng.random() < 0.5 else f"lp.setup {loop}, x9, 1f")
        lines += [
            *block(rng, loop),
            f"1: {rng.choice(('addi x14, x14, 1', 'c.addi x14, 1', 'csrrs x13, minstret, x0'))}",
        ]
        lines += block(rng, 0)
    return lines


def random_source(seed):
    rng = Random(seed)
    body = [line for _ in range(6) for line in block(rng, rng.randrange(3))]
    head = ["li x8, 0x2000", "li x9, 3", *(f"li x{i}, {rng.getrandbits(31)}" for i in range(10, 16))]
    tail = ["ebreak", "function: addi x13, x13, 7", "c.jr x1"]
    return "\n".join(head + body + tail)


def snapshot(iss):
    state = iss.state
    return state.pc, state.regs[:], state.nn[:], state.csr[:], iss.memory.read_bytes(0x2000, 64)


@pytest.mark.parametrize("seed", range(8))
def test_equal_to_single_steps(seed):
    source = random_source(seed)
    fast, slow = boot(source), boot(source)
    rng = Random(seed)
    while slow.csrs["mcause"] != 3:
        steps = rng.choice((1, 7, 100))
        assert fast.run(steps) == steps
        for _ in range(steps):
            slow.step()
        assert snapshot(fast) == snapshot(slow), f"seed {seed}"
        assert fast.executed == slow.executed


def test_stored_instructions_are_executed():
    source = """
    again: addi x10, x10, 1
        addi x11, x11, 1
        bne x12, x0, done
        li x12, 1
        sw x9, 0(x8)
        sh x13, 6(x8)
        jal x0, again
    done: ebreak
    """
    iss = boot(source)
    new = [assemble(text).words[0] for text in ("addi x10, x10, 100", "addi x11, x11, 50")]
    iss.state.regs[8:10], iss.state.regs[13] = [BASE, new[0]], new[1] >> 16
    iss.run(100, until=assemble(source, BASE).labels["done"])
    assert iss.state.regs[10:12] == [101, 51]


def test_an_instruction_across_pages_follows_stores_to_both():
    """The only instruction in the second page is the upper half of a jump that closes a loop."""
    source = "addi x11, x11, 1; addi x10, x10, 1; jal x0, pc-4"
    iss = Iss(0x1FFA)
    iss.memory.write_bytes(0x1FF6, assemble(source).to_bytes())
    iss.run(20)
    assert iss.state.regs[10:12] == [10, 0]
    iss.memory.write(0x2000, 2, assemble("jal x0, pc-8").words[0] >> 16)
    iss.run(30)
    assert iss.state.regs[10:12] == [20, 10]
    iss.memory.write(0x1FFE, 2, assemble("jal x5, pc-8").words[0] & 0xFFFF)
    iss.run(3)
    assert iss.state.regs[5] == 0x2002


def test_moving_a_loop_end_in_the_middle():
    """The same code is executed as the body's end, then not, then again."""
    iss = boot(
        """
        lp.setupi 0, 3, 1f
        addi x10, x10, 1
    1:  addi x11, x11, 1
        addi x13, x13, 1
        lp.setupi 0, 3, 1f
    1:  addi x12, x12, 1
        li x5, 2
        blt x13, x5, pc-28
        ebreak
        """
    )
    iss.run(1000, until=BASE + 32)
    assert iss.state.regs[10:14] == [6, 6, 6, 2]


@pytest.mark.parametrize(
    "setup",
    [
        "lp.starti 0, body; lp.endi 0, last; lp.counti 0, 3",
        "csrrw x0, lpstart0, x6; csrrw x0, lpend0, x7; csrrwi x0, lpcount0, 3",
    ],
)
def test_code_executed_before_becomes_a_loop(setup):
    source = f"""
        jal x1, body
        {setup}
        jal x1, body
        ebreak
    body: addi x10, x10, 1
    last: addi x11, x11, 1
        jalr x0, 0(x1)
    """
    labels = assemble(source, BASE).labels
    iss = boot(source)
    iss.state.regs[6:8] = [labels["body"], labels["last"]]
    iss.run(100, until=labels["body"] - 4)
    assert iss.state.regs[10:12] == [4, 4]


def test_until_stops_before_the_address():
    iss = boot("1: addi x10, x10, 1; addi x11, x11, 1; c.j 1b")
    assert iss.run(100, until=BASE + 4) == 1
    assert iss.run(7) == 7
    assert iss.run(100, until=BASE + 4) == 2
    assert iss.state.regs[10:12] == [4, 3]


def test_a_jump_to_itself_that_goes_on_is_not_endless():
    """The link register is the target: the second time it is another one. The loop counts."""
    iss = boot("auipc x1, 0; jalr x1, 4(x1); li x5, 1")
    assert [iss.step().endless for _ in range(3)] == [False] * 3
    assert iss.state.pc == BASE + 12
    iss = boot("lp.setupi 0, 5, 1f; 1: bne x0, x0, pc+0; li x5, 1")
    assert [iss.step().endless for _ in range(7)] == [False] * 7
    assert iss.state.regs[5] == 1


def test_halt_ends_a_run_after_the_store():
    iss = boot("li x8, 0x2000; sw x8, 0(x8); li x5, 1; li x5, 2")
    iss.memory.watch(0x2000)
    iss.memory.watchers.append(lambda address, size: iss.halt() if address == 0x2000 else None)
    length = len(assemble("li x8, 0x2000").words)
    assert iss.run(100) == length + 1
    assert iss.memory.read(0x2000, 4) == 0x2000
    assert iss.run(2) == 2
    assert iss.state.regs[5] == 2


def test_halt_ends_a_run_in_code_executed_before():
    iss = boot("li x8, 0x2000; 1: addi x5, x5, 1; sw x5, 0(x8); c.j 1b")
    iss.memory.watch(0x2000)
    iss.memory.watchers.append(lambda address, size: iss.halt() if iss.memory.read(0x2000, 4) == 5 else None)
    iss.run(100)
    assert iss.state.regs[5] == 5
    assert iss.run(30) == 30


def test_interrupts_are_taken_before_the_next_instruction():
    iss = boot("1: addi x10, x10, 1; c.j 1b")
    iss.memory.write_bytes(64, assemble("mret").to_bytes())
    iss.csrs["mstatus"], iss.csrs["mie"], iss.csrs["mtvec"] = 0x1808, 1 << 16, 1
    iss.run(10)
    iss.csrs["mip"] = 1 << 16
    assert iss.step().cause == 0x8000_0010
    assert (iss.executed, iss.last_pc, iss.run(6)) == (10, BASE + 4, 6)
    assert (iss.executed, iss.csrs["mepc"], iss.state.regs[10]) == (16, BASE, 5)


def test_memories_with_bytes_of_their_own_are_stepped():
    class Own(Memory):
        def read(self, address, size):
            return super().read(address, size)

    iss = boot("1: addi x10, x10, 1; c.j 1b", memory=Own())
    assert (iss.run(6), iss.executed, iss.state.regs[10]) == (6, 6, 3)


def test_harts_see_each_others_stores_to_code():
    memory = Memory()
    first, second = Iss(BASE, memory=memory), Iss(0x3000, memory=memory, hart_id=1)
    memory.write_bytes(BASE, assemble("1: addi x10, x10, 1; c.j 1b", BASE).to_bytes())
    first.run(10)
    memory.write_bytes(0x3000, assemble("sw x11, 0(x12); ebreak", 0x3000).to_bytes())
    second.state.regs[11:13] = [assemble("addi x10, x10, 64").words[0], BASE]
    second.run(1)
    first.run(2)
    assert first.state.regs[10] == 5 + 64
