"""Hardware loops in every corner (guide, "Hardware loops"), once in single steps and once in bursts."""

from typing import NamedTuple

import pytest
from tests.reference.iss.conftest import booted

from xpulpnn_sw.assembly.asm import assemble

BASE = 0x1000
START = BASE + 0x80
LIMIT = 2000


class Corner(NamedTuple):
    """A program, and what it leaves in registers (by number) and CSRs (by name)."""

    source: str
    expected: dict[int | str, int]
    given: dict[int, int] = {}  # registers at the beginning
    handler: str = ""


@pytest.fixture(params=["steps", "bursts"])
def run(request):
    """Runs a program until the label ``stop`` behind it; ``handler`` is at the exception entry. x5 = -1."""

    def execute(corner):
        text = f"{corner.source}\nstop: ebreak"
        iss, stop = booted(text, START), assemble(text, START).labels["stop"]
        iss.memory.write_bytes(BASE, assemble(corner.handler, BASE).to_bytes())
        for number, value in ({5: 0xFFFF_FFFF} | corner.given).items():
            iss.state.regs[number] = value
        if request.param == "bursts":
            iss.run(LIMIT, until=stop)
        for _ in range(LIMIT):
            if iss.state.pc == stop:
                break
            iss.step()
        assert iss.state.pc == stop, "did not end"
        actual = {key: iss.csrs[key] if isinstance(key, str) else iss.state.regs[key] for key in corner.expected}
        assert actual == corner.expected

    return execute


@pytest.mark.parametrize("inner", [0, 1, 3])
@pytest.mark.parametrize("outer", [0, 1, 2, 4])
@pytest.mark.parametrize("end", ["1", "2"], ids=["common end", "own end"])
def test_nested(run, inner, outer, end):
    source = f"""
        lp.setupi 1, {outer}, {end}f
        addi x10, x10, 1
        lp.setupi 0, {inner}, 1f
        addi x11, x11, 1
    1:  addi x12, x12, 1
    2:  addi x13, x13, 1
    """
    turns, inside = max(1, outer), max(1, inner)
    last = turns if end == "2" else 1
    run(Corner(source, {10: turns, 11: turns * inside, 12: turns * inside, 13: last}))


ADVANCE = "csrrs x28, mepc, x0; addi x28, x28, 4; csrrw x0, mepc, x28; addi x29, x29, 1; mret"
REPAIR = "csrrs x28, mepc, x0; sw x27, 0(x28); addi x29, x29, 1; fence.i; mret"
NAMES = [f"lp{part}{loop}" for loop in (0, 1) for part in ("start", "end", "count")]
SAVE = "; ".join(f"csrrs x{20 + i}, {name}, x0" for i, name in enumerate(NAMES))
RESTORE = "; ".join(f"csrrw x0, {name}, x{20 + i}" for i, name in enumerate(NAMES))

CORNERS = {
    "a long instruction across a word boundary at the end": Corner(
        "lp.setupi 0, 4, pc+6; c.addi x10, 1; addi x11, x11, 1; c.addi x12, 1", {10: 4, 11: 4, 12: 1}
    ),
    # 4294967295 turns; left by a branch
    "the count is unsigned": Corner(
        "lp.setup 0, x5, 1f; addi x10, x10, 1; beq x10, x6, stop; 1: nop", {"lpcount0": 0xFFFF_FFFF - 8}, {6: 9}
    ),
    # one body of one instruction: loop 0 first, then loop 1 counts its own turns, whose body sets loop 0 up again
    "both loops the same": Corner("lp.setupi 1, 3, pc+8; lp.setupi 0, 4, pc+4; addi x10, x10, 1", {10: 12}),
    "both loops the same, by their registers": Corner(
        "lp.starti 0, 1f; lp.endi 0, 1f; lp.setupi 1, 3, 1f; lp.counti 0, 4; 1: addi x10, x10, 1", {10: 12}
    ),
    # without a new setup the inner loop passes once per turn of the outer one
    "the inner counter stays at one": Corner(
        "lp.starti 0, 1f; lp.endi 0, 1f; lp.counti 0, 4; lp.setupi 1, 3, 1f; 1: addi x10, x10, 1",
        {10: 4 + 2, "lpcount0": 1, "lpcount1": 1},
    ),
    # nothing but the priority at a common end makes loop 0 the inner one
    "loop 1 inside loop 0": Corner(
        "lp.setupi 0, 3, 2f; lp.setupi 1, 4, 1f; 1: addi x10, x10, 1; 2: addi x11, x11, 1", {10: 12, 11: 3}
    ),
    # the old count decides; the new one is there at the next turn, here until a branch leaves
    **{
        f"the last instruction writes the count: {write}": Corner(
            f"lp.setupi 0, 3, 1f; addi x10, x10, 1; beq x10, x6, stop; 1: {write}", {10: 5, "lpcount0": 2}, {6: 5}
        )
        for write in ("lp.counti 0, 2", "csrrwi x0, lpcount0, 2")
    },
    # the turn decided by the old end happens; at the next pass the end is elsewhere
    "the last instruction writes the end": Corner(
        "lp.setupi 0, 5, 1f; addi x10, x10, 1; 1: csrrw x0, lpend0, x0; addi x11, x11, 1",
        {10: 2, 11: 1, "lpcount0": 4, "lpend0": 0},
    ),
    "the last instruction writes the start": Corner(
        "lp.setupi 0, 3, 1f; addi x10, x10, 1; addi x11, x11, 1; 1: csrrw x0, lpstart0, x6; addi x12, x12, 1",
        {10: 2, 11: 3, 12: 1},
        {6: START + 8},
    ),
    "loop registers by CSR": Corner(
        "csrrw x0, lpstart0, x6; csrrw x0, lpend0, x7; csrrwi x0, lpcount0, 5; addi x10, x10, 1; addi x11, x11, 1;"
        "csrrs x12, lpstart0, x0; csrrs x13, lpend0, x0; csrrs x14, lpcount0, x0",
        {10: 5, 11: 5, 12: START + 12, 13: START + 16, 14: 1},
        {6: START + 13, 7: START + 17},
    ),
    # the address alone decides: the loop jumps forward
    "the end is below the start": Corner(
        "csrrw x0, lpstart0, x6; csrrw x0, lpend0, x7; lp.counti 0, 2;"
        "addi x10, x10, 1; addi x11, x11, 1; addi x12, x12, 1",
        {10: 1, 11: 0, 12: 1},
        {6: START + 20, 7: START + 12},
    ),
    **{
        f"{jump} at the end does not count": Corner(
            f"lp.setupi 0, 5, 1f; auipc x20, 0; addi x20, x20, 20; addi x10, x10, 1; 1: {jump}; addi x11, x11, 1",
            {10: 1, 11: 0, "lpcount0": 5},
        )
        for jump in ("beq x0, x0, stop", "jal x0, stop", "jalr x0, 0(x20)")
    },
    # it goes where it would go anyway, but it is taken
    "a taken branch to the next instruction does not count": Corner(
        "lp.setupi 0, 5, 1f; addi x10, x10, 1; 1: beq x0, x0, pc+4; addi x11, x11, 1", {10: 1, 11: 1, "lpcount0": 5}
    ),
    # every taken turn leaves the count, the untaken one uses it
    "branching at the end until it is not taken": Corner(
        "lp.setupi 0, 2, 1f; addi x10, x10, 1; andi x11, x10, 3; 1: bne x11, x0, pc-8", {10: 8, "lpcount0": 1}
    ),
    "calls inside": Corner(
        "lp.setupi 0, 3, 1f; jal x1, function; 1: addi x10, x10, 1; jal x0, stop;"
        "function: addi x11, x11, 1; jalr x0, 0(x1)",
        {10: 3, 11: 3},
    ),
    "jumping out and into the body again": Corner(
        "lp.setupi 0, 4, 1f; addi x10, x10, 1; beq x10, x6, outside; 1: addi x11, x11, 1; jal x0, stop;"
        "outside: csrrs x12, lpcount0, x0; addi x10, x10, 10; jal x0, pc-16",
        {10: 14, 11: 4, 12: 3},
        {6: 2},
    ),
    **{
        f"{trap} inside": Corner(f"lp.setupi 0, 3, 1f; {trap}; 1: addi x10, x10, 1", {10: 3, 29: 3}, handler=ADVANCE)
        for trap in ("ecall", "ebreak", ".word 0", "csrrw x0, 0xf14, x0")
    },
    # the exception does not count, and the handler returns behind the end
    "a trap at the end that is skipped leaves the loop": Corner(
        "lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: ecall; addi x11, x11, 1",
        {10: 1, 11: 1, 29: 1, "lpcount0": 3},
        handler=ADVANCE,
    ),
    # the handler mends the word; executed again, it is the end of the loop
    "a trap at the end that is repeated counts then": Corner(
        "lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: .word 0; addi x11, x11, 1",
        {10: 3, 11: 1, 29: 1, "lpcount0": 1},
        {27: assemble("nop").words[0]},
        REPAIR,
    ),
    "mret at the end does not count": Corner(
        "auipc x20, 0; addi x20, x20, 28; csrrw x0, mepc, x20; lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: mret; nop",
        {10: 1, "lpcount0": 3},
    ),
    **{
        f"{last} at the end counts": Corner(
            f"lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: {last}; addi x11, x11, 1", {10: 3, 11: 1, "lpcount0": 1}
        )
        for last in ("fence", "fence.i", "csrrs x12, minstret, x0")
    },
    # the value from before the instruction itself
    "the count is read at the end": Corner(
        "lp.setupi 0, 3, 1f; add x12, x12, x11; 1: csrrs x11, lpcount0, x0; add x12, x12, x11",
        {11: 1, 12: 3 + 2 + 1, "lpcount0": 1},
    ),
    "a handler with loops of its own saves the registers": Corner(
        "lp.setupi 1, 2, 2f; lp.setupi 0, 3, 1f; ecall; 1: addi x10, x10, 1; 2: addi x11, x11, 1",
        {10: 6, 11: 2, 29: 6, 30: 36},
        handler=f"{SAVE}; lp.setupi 0, 6, pc+4; addi x30, x30, 1; {RESTORE}; {ADVANCE}",
    ),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corner(run, name):
    run(CORNERS[name])


def test_wfi_at_the_end_of_a_loop():
    """It counts when it is executed; waking up continues at the start."""
    iss = booted("lp.setupi 0, 3, 1f; addi x10, x10, 1; 1: wfi; nop", START)
    iss.csrs["mie"] = 1 << 16
    for _ in range(5):
        iss.step()
    assert (iss.state.asleep, iss.state.pc, iss.csrs["lpcount0"]) == (True, START + 4, 2)
    iss.csrs["mip"] = 1 << 16
    assert iss.step().pc == START + 4


def interruptible(source, vectors):
    iss = booted(source, START)
    iss.memory.write_bytes(BASE, assemble(vectors, BASE).to_bytes())
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
    disturbed.csrs["mip"] = 1 << 16
    step = disturbed.step()
    assert (step.cause, disturbed.csrs["mepc"]) == (0x8000_0010, plain.state.pc)
    disturbed.csrs["mip"] = 0
    for _ in range(2):
        disturbed.step()
    assert disturbed.state.pc == plain.state.pc
    assert disturbed.state.regs[20] == 1
    end = START + 4 * 7
    plain.run(100, until=end)
    disturbed.run(100, until=end)
    disturbed.state.regs[20] = 0
    assert (disturbed.state.pc, disturbed.state.regs[:]) == (plain.state.pc, plain.state.regs[:])
    assert plain.state.regs[10:14] == [3, plain.state.regs[11], 3, 1]
    assert (disturbed.csrs["lpcount0"], disturbed.csrs["lpcount1"]) == (plain.csrs["lpcount0"], plain.csrs["lpcount1"])
