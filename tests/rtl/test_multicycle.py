"""Hand-computed results and cycles of the multiplier and the divider; their benches run everything else."""

import pytest
from tests.rtl.replay import simulate

from xpulpnn.core.div import Divider, div_control
from xpulpnn.core.mult import Mult, mult_control
from xpulpnn.isa.table import find

pytestmark = pytest.mark.unit

MINUS = -1 & 0xFFFF_FFFF
"""Minus one; a little below it are other small negative numbers."""


@pytest.mark.parametrize(
    ("mnemonic", "a", "b", "shift", "result", "cycles"),
    [
        # the rounded sum wraps before it is shifted
        ("p.mulsNR", 0x8000, 0x8000, 31, MINUS, 1),
        ("mulhu", 1 << 31, 6, 0, 3, 5),
        ("divu", 100, 0, 0, MINUS, 35),
        ("div", MINUS - 99, 0, 0, MINUS, 35),
        ("rem", MINUS - 99, 0, 0, MINUS - 99, 35),
        ("div", 0x8000_0000, MINUS, 0, 0x8000_0000, 34),
        ("rem", 0x8000_0000, MINUS, 0, 0, 34),
        ("divu", MINUS, 0x8000_0000, 0, 1, 3),
        ("div", MINUS - 6, 2, 0, MINUS - 2, 33),
        ("rem", MINUS - 6, 2, 0, MINUS, 33),
    ],
)
def test_hand_values(mnemonic: str, a: int, b: int, shift: int, result: int, cycles: int) -> None:
    insn = find(mnemonic)
    control = mult_control(insn)
    dut, control = (Divider(), div_control(insn)) if control is None else (Mult("booth"), control)

    async def testbench(ctx) -> None:
        values = {"ctrl": control, "op_a": a, "op_b": b, "start": 1} | ({"shamt": shift} if shift else {})
        for port, value in values.items():
            ctx.set(getattr(dut, port), value)
        done = []
        for _ in range(cycles):
            done.append(ctx.get(dut.done))
            found = ctx.get(dut.result)
            await ctx.tick()
        assert (done, found) == ([0] * (cycles - 1) + [1], result)

    simulate(dut, testbench, clocked=True)
