"""The plain-integer reference against the value functions of the instruction-set simulator."""

import random

import pytest

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.table import INSNS
from xpulpnn_sim.iss import packed, scalar
from xpulpnn_sim.package.arithmetic import computes
from xpulpnn_sim.package.checks import CORNERS
from xpulpnn_sim.package.reference import dot_product, result

pytestmark = pytest.mark.unit

WORDS_PER_ROW = 30


def test_every_instruction_that_computes():
    rng, makers, seen = random.Random(3), {**scalar.MAKERS, **packed.MAKERS}, 0
    for insn in (insn for insn in INSNS if insn.size == 4 and not insn.alias and computes(insn)):
        for _ in range(WORDS_PER_ROW):
            word = insn.match | rng.getrandbits(32) & ~insn.mask
            if not insn.matches(word):
                continue
            a, b, d = (rng.choice((rng.getrandbits(32), *CORNERS)) for _ in range(3))
            expected = makers[insn.op](insn, word)(a, b, d)
            assert result(insn, insn.decode(word), a, b, d) == expected, (
                insn.mnemonic,
                hex(word),
                hex(a),
                hex(b),
                hex(d),
            )
            seen += 1
    assert seen > 400 * WORDS_PER_ROW


def test_dot_product_by_hand():
    # lanes 1, -2, 3, -4 and 255, 1, 2, 3 as bytes
    a, b = 0xFC03_FE01, 0x0302_01FF
    assert dot_product(ElemFmt.B, a, b, a_signed=True, b_signed=False) == 255 - 2 + 6 - 12
    assert dot_product(ElemFmt.B, a, b, a_signed=True, b_signed=True, accumulator=10) == 10 - 1 - 2 + 6 - 12
    assert dot_product(ElemFmt.B, a, b, a_signed=True, b_signed=True) == 2**32 - 1 - 2 + 6 - 12
