import random
from itertools import cycle, product

import pytest
from amaranth.sim import Simulator, SimulatorContext

from xpulpnn.core.mult import Mult
from xpulpnn.core.mult_ctrl import MultCtrl, MultOp, mult_control
from xpulpnn.isa.table import INSNS, find

pytestmark = pytest.mark.unit

SEED = 21
WORD = 1 << 32
HIGH_SIGNS = {"mulh": (True, True), "mulhsu": (True, False), "mulhu": (False, False)}
HALF_FORMS = [
    f"{kind}{upper}{sign}N{rounding}"
    for kind, upper, sign, rounding in product(("mul", "mac"), ("", "hh"), "us", ("", "R"))
]
WORD_FORMS = ("mul", "mac", "msu")
CORNERS = (0, 1, WORD - 1, 0x7FFF_FFFF, 0x8000_0000, 0x7FFF_8000, 0x8000_7FFF, 0xFFFF_0000, 0x0000_FFFF, 0x0001_0001)


def to_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def expected(op: str, a: int, b: int, c: int, shamt: int) -> int:
    if op in WORD_FORMS:
        return {"mul": a * b, "mac": c + a * b, "msu": c - a * b}[op] % WORD
    if op in HIGH_SIGNS:
        a_signed, b_signed = HIGH_SIGNS[op]
        a, b = to_signed(a, 32) if a_signed else a, to_signed(b, 32) if b_signed else b
        return (a * b >> 32) % WORD
    signed = "s" in op
    if "hh" in op:
        a, b = a >> 16, b >> 16
    a, b = (to_signed(x, 16) if signed else x % (1 << 16) for x in (a, b))
    total = a * b + (c if op.startswith("mac") else 0)
    if op.endswith("R") and shamt:
        total += 1 << (shamt - 1)
    total %= WORD
    return ((to_signed(total, 32) if signed else total) >> shamt) % WORD


def instruction(op: str):
    return next(insn for insn in INSNS if insn.op == op and not insn.alias)


def simulate(testbench, multiplier: str = "booth", *, requantises: bool = False) -> None:
    dut = Mult(multiplier, requantises=requantises)

    async def bench(ctx: SimulatorContext) -> None:
        await testbench(ctx, dut)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


async def multiply(ctx, dut, op: str, a: int, b: int, c: int, shamt: int, hold: int = 0) -> tuple[int, int]:
    """Run one operation; the result and the cycles up to the first ``done``. ``take`` comes ``hold`` cycles later."""
    ctx.set(dut.ctrl, MultCtrl.const(mult_control(instruction(op))))
    for port, value in ((dut.op_a, a), (dut.op_b, b), (dut.op_c, c), (dut.shamt, shamt), (dut.start, 1)):
        ctx.set(port, value)
    cycles = 1
    while not ctx.get(dut.done):
        assert cycles < 10
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


@pytest.mark.parametrize(
    ("op", "multiplier"),
    [
        *((op, "booth") for op in (*WORD_FORMS, *HIGH_SIGNS, *HALF_FORMS)),
        *((op, "inferred") for op in ("msu", "mulhsu", "machhsNR")),
    ],
)
def test_against_integers(op: str, multiplier: str) -> None:
    rng = random.Random(SEED)
    addends = cycle(((0, 0), (WORD - 1, 31), (1 << 31, 1)))
    # few of each: the benches of both structures run thousands
    operands = [(a, b, *next(addends)) for a, b in rng.sample(list(product(CORNERS, repeat=2)), 6)]
    operands += [(*(rng.getrandbits(32) for _ in range(3)), rng.randrange(32)) for _ in range(4)]
    cycles = 5 if op in HIGH_SIGNS else 1

    async def testbench(ctx: SimulatorContext, dut: Mult) -> None:
        for a, b, c, shamt in operands:
            outcome = await multiply(ctx, dut, op, a, b, c, shamt)
            assert outcome == (expected(op, a, b, c, shamt), cycles), f"{op} {a:#x} {b:#x} {c:#x} {shamt} seed {SEED}"

    simulate(testbench, multiplier)


def test_rounded_sum_wraps_before_the_shift() -> None:
    async def testbench(ctx: SimulatorContext, dut: Mult) -> None:
        assert await multiply(ctx, dut, "mulsNR", 0x8000, 0x8000, 0, 31) == (WORD - 1, 1)

    simulate(testbench)


@pytest.mark.parametrize("multiplier", ["booth", "inferred"])
def test_requantisation_takes_factor_and_summand_from_the_nnrf(multiplier: str) -> None:
    rng = random.Random(SEED)

    async def testbench(ctx: SimulatorContext, dut: Mult) -> None:
        for number in range(20):
            a, b, c, kappa, lam = (rng.choice(CORNERS) if rng.random() < 0.4 else rng.getrandbits(32) for _ in range(5))
            ctx.set(dut.nn_kappa, kappa)
            ctx.set(dut.nn_lambda, lam)
            requantises = number % 3 > 0
            ctx.set(dut.requantise, requantises)
            outcome = await multiply(ctx, dut, "pv.rqu" if requantises else "mac", a, b, c, 7)
            total = kappa * b + lam if requantises else c + a * b
            assert outcome == (total % WORD, 1), f"{a:#x} {b:#x} {c:#x} {kappa:#x} {lam:#x} seed {SEED}"

    simulate(testbench, multiplier, requantises=True)


def test_high_result_waits_for_take_and_restarts() -> None:
    async def testbench(ctx: SimulatorContext, dut: Mult) -> None:
        assert await multiply(ctx, dut, "mulh", WORD - 5, 1 << 31, 0, 0, hold=3) == (2, 5)
        ctx.set(dut.start, 1)
        ctx.set(dut.take, 1)
        done = []
        for _ in range(10):
            done.append(ctx.get(dut.done))
            if done[-1]:
                assert ctx.get(dut.result) == 2
            await ctx.tick()
        assert done == [0, 0, 0, 0, 1] * 2

    simulate(testbench)


def test_falling_start_aborts() -> None:
    async def testbench(ctx: SimulatorContext, dut: Mult) -> None:
        ctx.set(dut.ctrl, MultCtrl.const(mult_control(find("mulhu"))))
        ctx.set(dut.op_a, WORD - 1)
        ctx.set(dut.op_b, WORD - 1)
        ctx.set(dut.start, 1)
        await ctx.tick().repeat(3)
        ctx.set(dut.start, 0)
        await ctx.tick()
        assert await multiply(ctx, dut, "mulhu", 1 << 31, 6, 0, 0) == (3, 5)

    simulate(testbench)


def test_control_word_covers_the_table() -> None:
    ops = {insn.op for insn in INSNS if mult_control(insn) is not None}
    assert ops == {*WORD_FORMS, *HIGH_SIGNS, *HALF_FORMS, "pv.rqu", "pv.rqs"}
    assert mult_control(find("p.msu")) == {"op": MultOp.WORD, "accumulate": True, "subtract": True}
    assert mult_control(find("p.mulhhsNR"))["upper"]
