"""The ALU of configurations that no bench has, against the golden models: nothing that one needs is missing."""

import random
from dataclasses import replace

import pytest
from amaranth.hdl import Cat
from tests.rtl.replay import simulate

from xpulpnn.config import PRESETS, CoreConfig, DotpConfig
from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.isa.table import Insn, enabled
from xpulpnn_sim.benches.row_batches import alu_expectation, operands_of, sources
from xpulpnn_sim.reference.golden.execute import execute

pytestmark = pytest.mark.unit

SEED, VECTORS = 2020, 2
PORTS = ("op_a", "op_b", "op_c", "shamt")
CONFIGS = {
    "inferred": replace(PRESETS["xpulpnn"], shifter="inferred"),
    "ri5cy": PRESETS["ri5cy"],
    "rv32": replace(PRESETS["ri5cy"], xpulpv2=False),
    "byte and crumb": CoreConfig(dotp=DotpConfig(widths=frozenset({8, 2}))),
    "half and nibble": CoreConfig(dotp=DotpConfig(widths=frozenset({16, 4}))),
    "nibble": CoreConfig(dotp=DotpConfig(widths=frozenset({4}))),
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
def test_every_instruction(name: str) -> None:
    rng, dut = random.Random(SEED), Alu(CONFIGS[name])
    ports = Cat(getattr(dut, port) for port in PORTS)

    async def testbench(ctx) -> None:
        for insn in distinct_users(CONFIGS[name]):
            executions = sources(insn, VECTORS, rng)
            operands = operands_of(insn, executions)
            wanted = alu_expectation(insn, execute(insn, executions), operands)
            ctx.set(dut.ctrl, AluCtrl.const(alu_control(insn)))
            for number in range(VECTORS):
                given = [int(operands[port][number]) for port in PORTS]
                ctx.set(ports, sum(value << 32 * place for place, value in enumerate(given)))
                got = {output: ctx.get(getattr(dut, output)) for output in wanted}
                right = {output: int(values[number]) for output, values in wanted.items()}
                assert got == right, f"{insn.mnemonic} {given} (seed {SEED})"

    simulate(dut, testbench)
