"""Adders; multipliers and dividers have benches.

The ALU of configurations that no bench has is compared with the golden models: nothing that one needs is missing.
"""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import Cat, Fragment, Module, Signal
from amaranth.sim import SimulatorContext
from tests.rtl.replay import simulate

from xpulpnn.arith.carry_save import carry_save
from xpulpnn.arith.prefix_adder import PrefixAdder
from xpulpnn.config import PRESETS, CoreConfig, DotpConfig
from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.isa.table import Insn, enabled
from xpulpnn_sim.benches.vectors.operands import sources
from xpulpnn_sim.benches.vectors.rows import alu_expectation, operands_of
from xpulpnn_sim.reference.golden.execute import execute

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


VECTORS = 2
PORTS = ("op_a", "op_b", "op_c", "shamt")
CONFIGS = {
    "rv32": replace(PRESETS["ri5cy"], xpulpv2=False),
    "byte and crumb": CoreConfig(dotp=DotpConfig(widths=frozenset({8, 2}))),
    "half and nibble": CoreConfig(dotp=DotpConfig(widths=frozenset({16, 4})), shifter="inferred"),
}


def distinct_users(config: CoreConfig) -> list[Insn]:
    """One instruction for every control word that uses the ALU; branches apart, for they show another output."""
    rows: dict[tuple[str, bool], Insn] = {}
    for insn in enabled(config.extensions, config.widths):
        fields = alu_control(insn)
        if fields is not None and insn.size == 4:
            rows[str(sorted(fields.items())), insn.is_branch] = insn
    return list(rows.values())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.flow
def test_every_instruction_of_the_alu(name: str) -> None:
    rng, dut = random.Random(SEED), Alu(CONFIGS[name])
    ports = Cat(getattr(dut, port) for port in PORTS)

    async def testbench(ctx: SimulatorContext) -> None:
        for insn in distinct_users(CONFIGS[name]):
            executions = sources(insn, VECTORS, rng)
            operands = operands_of(insn, executions)
            expectation = alu_expectation(insn, execute(insn, executions), operands)
            ctx.set(dut.ctrl, AluCtrl.const(alu_control(insn)))
            for number in range(VECTORS):
                given = [int(operands[port][number]) for port in PORTS]
                ctx.set(ports, sum(value << 32 * place for place, value in enumerate(given)))
                got = {output: ctx.get(getattr(dut, output)) for output in expectation}
                right = {output: int(values[number]) for output, values in expectation.items()}
                assert got == right, f"{insn.mnemonic} {given} (seed {SEED})"

    simulate(dut, testbench)
