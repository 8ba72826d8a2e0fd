"""Adders, and sums of many words."""

import random

import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.sim import SimulatorContext
from tests.rtl.replay import simulate

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import PrefixAdder

SEED = 29


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 32, 46])
def test_prefix_adder(width: int) -> None:
    dut = PrefixAdder(width)
    rng = random.Random(SEED)
    top = (1 << width) - 1
    pairs = [(a, b) for a in range(8) for b in range(8) if max(a, b) <= top]
    pairs += [(top, 1), (top, top), (top >> 1, 1), (0, top)]
    pairs += [(rng.getrandbits(width), rng.getrandbits(width)) for _ in range(100)]

    async def testbench(ctx: SimulatorContext) -> None:
        for a, b in pairs:
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            assert ctx.get(dut.result) == (a + b) & top, f"{a} + {b} seed {SEED}"

    simulate(dut, testbench)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 12])
def test_carry_save_keeps_the_sum(count: int) -> None:
    m = Module()
    words = [Signal(8, name=f"word{i}") for i in range(count)]
    (_, x), (_, y) = carry_save(m, words, 8, "tree")
    result = Signal(8)
    m.d.comb += result.eq(x + y)
    rng = random.Random(SEED)

    async def testbench(ctx: SimulatorContext) -> None:
        for _ in range(50):
            values = [rng.choice((0, 255, rng.getrandbits(8))) for _ in words]
            for word, value in zip(words, values, strict=True):
                ctx.set(word, value)
            assert ctx.get(result) == sum(values) % 256, f"{values} seed {SEED}"

    simulate(m, testbench)


def levels(rows: list) -> list[int]:
    m = Module()
    (first, _), (second, _) = carry_save(m, rows, 8, "tree")
    Fragment.get(m, None)
    return sorted((first, second))


def test_late_words_enter_late() -> None:
    words = [Signal(8, name=f"word{i}") for i in range(7)]
    # six words take three levels, which leaves one more for the seventh
    assert levels([*words[:6], (3, words[6])]) == [4, 4]
    assert levels([(9, words[0]), (2, words[1])]) == [2, 9]
