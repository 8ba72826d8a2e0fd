"""How the decoder of compressed instructions is derived from the table; its gates have a bench."""

import pytest

from xpulpnn.core.compressed_decoder import excluded_pattern, expansion_wiring
from xpulpnn.isa.table import find

pytestmark = pytest.mark.unit

ZERO, ONE = None, -1


def test_wiring_of_an_immediate_and_two_registers() -> None:
    """``c.lw rd', uimm(rs1')`` as the manual draws it: lw rd, uimm(rs1) from bit 0 up."""
    opcode = [ONE, ONE, ZERO, ZERO, ZERO, ZERO, ZERO]
    rd = [2, 3, 4, ONE, ZERO]
    funct3 = [ZERO, ONE, ZERO]
    rs1 = [7, 8, 9, ONE, ZERO]
    offset = [ZERO, ZERO, 6, 10, 11, 12, 5, ZERO, ZERO, ZERO, ZERO, ZERO]
    assert expansion_wiring(find("c.lw")) == opcode + rd + funct3 + rs1 + offset


def test_wiring_repeats_a_sign() -> None:
    offset = [2, 3, 4, 5, 6] + [12] * 7
    assert expansion_wiring(find("c.li"))[20:] == offset


def test_a_constant_instruction_needs_no_bits() -> None:
    ebreak = 0x0010_0073
    assert expansion_wiring(find("c.ebreak")) == [ONE if ebreak >> bit & 1 else ZERO for bit in range(32)]


def test_pattern_of_an_excluded_value() -> None:
    (rd, *_) = find("c.lui").restricted
    assert excluded_pattern(rd.field.parts, rd.field.insert(2)) == "----00010-------"
