import random
from itertools import product

import pytest
from amaranth.sim import Simulator, SimulatorContext

from xpulpnn.core.div import Divider, div_control
from xpulpnn.isa.table import find

pytestmark = pytest.mark.unit

SEED = 20
WORD = 1 << 32
OPS = ("div", "divu", "rem", "remu")
CORNERS = (0, 1, 2, 3, 7, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, WORD - 1, WORD - 2, WORD - 3, WORD - 4)


def expected(op: str, a: int, b: int) -> int:
    if op in ("div", "rem"):
        a, b = (value - WORD if value >> 31 else value for value in (a, b))
    if b == 0:
        return (a if op.startswith("rem") else -1) % WORD
    quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    return (a - quotient * b if op.startswith("rem") else quotient) % WORD


def expected_cycles(op: str, b: int) -> int:
    places = 0
    if op in ("div", "rem") and b >> 31:
        b -= WORD
        while b * 2 >= -(1 << 31):
            b, places = b * 2, places + 1
        return places + 3
    while places < 32 and b * 2 < WORD:
        b, places = b * 2, places + 1
    return places + 3


async def divide(ctx: SimulatorContext, dut: Divider, op: str, a: int, b: int, hold: int = 0) -> tuple[int, int]:
    """Run one division; the result and the cycles up to the first ``done``. ``take`` comes ``hold`` cycles later."""
    ctx.set(dut.ctrl, div_control(find(op)))
    ctx.set(dut.op_a, a)
    ctx.set(dut.op_b, b)
    ctx.set(dut.start, 1)
    cycles = 1
    while not ctx.get(dut.done):
        assert cycles < 40, (op, a, b)
        await ctx.tick()
        cycles += 1
    for _ in range(hold):
        await ctx.tick()
        assert ctx.get(dut.done)
    result = ctx.get(dut.result)
    ctx.set(dut.take, 1)
    await ctx.tick()
    ctx.set(dut.take, 0)
    ctx.set(dut.start, 0)
    return result, cycles


def simulate(testbench) -> None:
    dut = Divider()

    async def bench(ctx: SimulatorContext) -> None:
        await testbench(ctx, dut)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("op", OPS)
def test_corners_and_random(op: str) -> None:
    rng = random.Random(SEED)
    operands = [*product(CORNERS, repeat=2)]
    operands += [(rng.getrandbits(32), rng.getrandbits(32) >> rng.randrange(32)) for _ in range(150)]
    operands += [(rng.getrandbits(32), -rng.getrandbits(32 - rng.randrange(32)) % WORD) for _ in range(50)]

    async def testbench(ctx: SimulatorContext, dut: Divider) -> None:
        for a, b in operands:
            result, cycles = await divide(ctx, dut, op, a, b)
            assert (result, cycles) == (expected(op, a, b), expected_cycles(op, b)), f"{op} {a:#x} {b:#x} seed {SEED}"

    simulate(testbench)


@pytest.mark.parametrize(
    ("op", "a", "b", "result", "cycles"),
    [
        ("divu", 100, 0, WORD - 1, 35),
        ("div", WORD - 100, 0, WORD - 1, 35),
        ("rem", WORD - 100, 0, WORD - 100, 35),
        ("div", 0x8000_0000, WORD - 1, 0x8000_0000, 34),
        ("rem", 0x8000_0000, WORD - 1, 0, 34),
        ("divu", WORD - 1, 0x8000_0000, 1, 3),
        ("div", WORD - 7, 2, WORD - 3, 33),
        ("rem", WORD - 7, 2, WORD - 1, 33),
    ],
)
def test_manual_values(op: str, a: int, b: int, result: int, cycles: int) -> None:
    async def testbench(ctx: SimulatorContext, dut: Divider) -> None:
        assert await divide(ctx, dut, op, a, b) == (result, cycles)

    simulate(testbench)


def test_result_waits_for_take() -> None:
    async def testbench(ctx: SimulatorContext, dut: Divider) -> None:
        assert await divide(ctx, dut, "divu", 1000, 0x4000_0000, hold=3) == (0, 4)
        assert await divide(ctx, dut, "remu", 1000, 0x4000_0000) == (1000, 4)

    simulate(testbench)


def test_back_to_back_without_idle_cycle() -> None:
    async def testbench(ctx: SimulatorContext, dut: Divider) -> None:
        ctx.set(dut.ctrl, div_control(find("divu")))
        ctx.set(dut.op_a, 0xF000_0000)
        ctx.set(dut.op_b, 0x8000_0000)
        ctx.set(dut.start, 1)
        ctx.set(dut.take, 1)
        done = []
        for _ in range(6):
            done.append(ctx.get(dut.done))
            await ctx.tick()
        assert done == [0, 0, 1, 0, 0, 1]

    simulate(testbench)


def test_falling_start_aborts() -> None:
    async def testbench(ctx: SimulatorContext, dut: Divider) -> None:
        ctx.set(dut.ctrl, div_control(find("divu")))
        ctx.set(dut.op_a, 99)
        ctx.set(dut.op_b, 3)
        ctx.set(dut.start, 1)
        await ctx.tick().repeat(5)
        ctx.set(dut.start, 0)
        assert not ctx.get(dut.done)
        await ctx.tick()
        assert await divide(ctx, dut, "div", 21, 7) == (3, 32)

    simulate(testbench)


def test_control_word() -> None:
    assert div_control(find("rem")) == {"signed": True, "remainder": True}
    assert div_control(find("divu")) == {"signed": False, "remainder": False}
    assert div_control(find("mul")) is None
