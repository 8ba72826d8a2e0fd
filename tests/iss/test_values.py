"""Every value function of the fast path against the golden models, over all rows and many operands."""

from random import Random

import numpy as np
import pytest

from xpulpnn.isa.table import INSNS
from xpulpnn_sim.golden.effects import Sources
from xpulpnn_sim.golden.execute import execute
from xpulpnn_sim.iss import packed, scalar
from xpulpnn_sim.stimuli import element_width, instruction_words, operand_columns

pytestmark = pytest.mark.unit

MAKERS = scalar.MAKERS | packed.MAKERS
ROWS = [insn for insn in INSNS if insn.op in MAKERS and insn.size == 4]
WORDS, OPERANDS, SEED = 4, 40, 7


@pytest.mark.parametrize("insn", ROWS, ids=lambda insn: f"{insn.mnemonic} {insn.operands}")
def test_equal_to_the_golden_model(insn):
    rng = Random(f"{SEED} {insn.key}")
    for word in instruction_words(insn, WORDS, rng).tolist():
        rs1, rs2, rd = operand_columns(element_width(insn), OPERANDS, rng)
        column = np.full(OPERANDS, word, np.uint32)
        expected = execute(insn, Sources(word=column, rs1=rs1, rs2=rs2, rd=rd)).rd.tolist()
        value = MAKERS[insn.op](insn, word)
        operands = list(zip(rs1.tolist(), rs2.tolist(), rd.tolist(), strict=True))
        wrong = [
            (hex(word), hex(a), hex(b), hex(d), hex(got), hex(want))
            for (a, b, d), want in zip(operands, expected, strict=True)
            if (got := value(a, b, d)) != want
        ]
        assert not wrong[:3], f"seed {SEED}: word, rs1, rs2, rd, got, expected"


def test_every_row_that_writes_only_rd_is_covered():
    elsewhere = {"auipc", "jal", "jalr", "pv.qnt", "csrrw", "csrrs", "csrrc", "pv.rqu", "pv.rqs"}
    rows = {insn.op for insn in INSNS if insn.writes_rd and not insn.is_load and not insn.is_mac_load}
    assert rows - elsewhere == set(MAKERS)
