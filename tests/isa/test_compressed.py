"""Expansion of compressed words, against words assembled by hand from the manual."""

import pytest

from xpulpnn.errors import EncodingError
from xpulpnn.isa.compressed import COMPRESSED_ROWS, EXPANSIONS, compressed_insn
from xpulpnn.isa.table import INSNS, Decoder, expand_compressed

SAMPLES = [
    (0x0001, 0x0000_0013),  # c.nop
    (0x007D, 0x0000_0013),  # c.nop with an immediate, a hint
    (0x1141, 0xFF01_0113),  # c.addi sp, -16
    (0x0808, 0x0101_0513),  # c.addi4spn a0, 16
    (0x7139, 0xFC01_0113),  # c.addi16sp -64
    (0x4188, 0x0005_A503),  # c.lw a0, 0(a1)
    (0xC1C8, 0x00A5_A223),  # c.sw a0, 4(a1)
    (0x4501, 0x0000_0513),  # c.li a0, 0
    (0x757D, 0xFFFF_F537),  # c.lui a0, -1
    (0x8505, 0x4015_5513),  # c.srai a0, 1
    (0x8105, 0x0015_5513),  # c.srli a0, 1
    (0x050E, 0x0035_1513),  # c.slli a0, 3
    (0x9979, 0xFFE5_7513),  # c.andi a0, -2
    (0x8D0D, 0x40B5_0533),  # c.sub a0, a1
    (0x8D2D, 0x00B5_4533),  # c.xor a0, a1
    (0x8D4D, 0x00B5_6533),  # c.or a0, a1
    (0x8D6D, 0x00B5_7533),  # c.and a0, a1
    (0xA001, 0x0000_006F),  # c.j 0
    (0x3FFD, 0xFFFF_F0EF),  # c.jal -2
    (0xC119, 0x0005_0363),  # c.beqz a0, 6
    (0xFD7D, 0xFE05_1FE3),  # c.bnez a0, -2
    (0x40B2, 0x00C1_2083),  # c.lwsp ra, 12(sp)
    (0xC606, 0x0011_2623),  # c.swsp ra, 12(sp)
    (0x8082, 0x0000_8067),  # c.jr ra
    (0x9502, 0x0005_00E7),  # c.jalr a0
    (0x852E, 0x00B0_0533),  # c.mv a0, a1
    (0x952E, 0x00B5_0533),  # c.add a0, a1
    (0x9002, 0x0010_0073),  # c.ebreak
]


@pytest.mark.parametrize(("half", "word"), SAMPLES)
def test_expansions(half: int, word: int):
    assert f"{expand_compressed(half):08x}" == f"{word:08x}"


def test_every_row_has_a_sample():
    assert {compressed_insn(half) for half, _ in SAMPLES} == set(COMPRESSED_ROWS)


@pytest.mark.flow
def test_every_legal_word_expands_to_the_operation_of_its_row():
    decoder = Decoder(INSNS)
    legal = 0
    for half in (half for half in range(1 << 16) if half & 3 != 3):
        row = compressed_insn(half)
        assert decoder.decode(half) is row
        assert sum(other.matches(half) for other in COMPRESSED_ROWS) == (row is not None)
        if row is None:
            with pytest.raises(EncodingError) as caught:
                expand_compressed(half)
            assert str(caught.value) == f"compressed word must be a legal RV32C encoding, not 0x{half:04x}"
            continue
        legal += 1
        assert decoder.decode(expand_compressed(half)) is EXPANSIONS[row.mnemonic].insn
        assert row.op == EXPANSIONS[row.mnemonic].insn.op
    assert legal == 28823
