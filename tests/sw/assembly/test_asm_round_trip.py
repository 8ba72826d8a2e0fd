"""Every row: words with random operands disassemble to text that assembles to the same word."""

import random
import zlib
from collections.abc import Sequence

import pytest
from tests.words import encode_line

from xpulpnn.errors import EncodingError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import INSNS, Decoder, find
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.assembly.disasm import disassemble, render

REPEATS = 8


def _random_words(insn: Insn, rng: random.Random) -> list[int]:
    choices: dict[str, Sequence[int]] = {}
    for token in insn.tokens:
        f = token.field
        values = range(f.low, f.high + 1, f.step)
        choices[f.name] = [value for value in values if token.accepts(value)] if f.high < 1 << 13 else values
    return [insn.encode(**{name: rng.choice(values) for name, values in choices.items()}) for _ in range(REPEATS)]


@pytest.mark.parametrize("insn", INSNS, ids=lambda insn: f"{insn.mnemonic} {insn.operands}")
def test_round_trip(insn: Insn):
    seed = zlib.crc32(" ".join(insn.key).encode())
    rng = random.Random(seed)
    words = _random_words(insn, rng)
    # written under the row's own name, aliases included
    own = [render(insn, word) for word in words]
    assert all(text.split()[0] == insn.mnemonic for text in own)
    assert assemble("\n".join(own)).words == words, seed
    # written canonically
    canonical = [disassemble(word) for word in words]
    assert assemble("\n".join(canonical), base=0x100).words == words, seed
    if not insn.alias:
        assert canonical == own, seed


def test_unlisted_bits_do_not_hinder():
    """A legal compressed word, hints included, has a text; reassembled, it has the same meaning."""
    decoder = Decoder(INSNS)
    for half in (half for half in range(0, 1 << 16, 5) if half & 3 != 3):
        insn = decoder.decode(half)
        if insn is not None:
            again = encode_line(disassemble(half))
            assert decoder.decode(again) is insn
            assert insn.decode(again) == insn.decode(half)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x0045_A50B, "p.lw a0, 4(a1!)"),
        (0xE095_8077, "pv.mlsdotup.h zero, (a1!), 9"),
        (0xE0C5_A557, "pv.qnt.n a0, a1, (a2)"),
        (0xE1F5_9577, "pv.mlsdotup.b a0, (a1!), 31"),
        (0x78C5_E577, "pv.rqs.n a0, a1, a2, 7"),
        (0x3403_12F3, "csrrw t0, mscratch, t1"),
        (0x0310_000F, "fence rw, w"),
        (0x40B2, "c.lwsp ra, 12(sp)"),
    ],
)
def test_text(word: int, text: str):
    assert disassemble(word) == text


def test_targets():
    assert disassemble(0xFEB5_0EE3, pc=0x104) == "beq a0, a1, pc-4  # 0x100"
    assert disassemble(0xFEB5_0EE3) == "beq a0, a1, pc-4"


def test_illegal_words():
    with pytest.raises(EncodingError, match=r"^word must be an enabled instruction, not 0xffffffff$"):
        disassemble(0xFFFF_FFFF)


@pytest.mark.parametrize("make", [tuple, Decoder])
def test_subset_of_the_table(make):
    subset = make([find("add")])
    assert disassemble(0x00C5_8533, insns=subset) == "add a0, a1, a2"
    with pytest.raises(EncodingError):
        disassemble(0x0045_A50B, insns=subset)
