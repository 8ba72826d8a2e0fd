"""Compressed instructions and their 32-bit equivalents (guide, "RV32C")."""

from typing import NamedTuple

from xpulpnn.errors import EncodingError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.scalar import INTEGER_ROWS, SYSTEM_ROWS

_ROWS = (
    ("c.addi4spn", "000-----------00", "rd',ciw10-0", "addi rd=rd rs1=2 imm12=ciw10"),
    ("c.lw", "010-----------00", "rd',cl7(rs1')", "lw rd=rd rs1=rs1 imm12=cl7"),
    ("c.sw", "110-----------00", "rs2',cl7(rs1')", "sw rs2=rs2 rs1=rs1 stimm12=cl7"),
    ("c.nop", "000-00000-----01", "", "addi rd=0 rs1=0 imm12=0"),
    ("c.addi", "000-----------01", "rd~-0,ci6", "addi rd=rd rs1=rd imm12=ci6"),
    ("c.jal", "001-----------01", "cj12", "jal rd=1 joff21=cj12"),
    ("c.li", "010-----------01", "rd,ci6", "addi rd=rd rs1=0 imm12=ci6"),
    ("c.addi16sp", "011-00010-----01", "ci10-0", "addi rd=2 rs1=2 imm12=ci10"),
    ("c.lui", "011-----------01", "rd-2,clui6-0", "lui rd=rd uimm20=clui6"),
    ("c.srli", "100000--------01", "rs1'~,csh5", "srli rd=rs1 rs1=rs1 uimm5=csh5"),
    ("c.srai", "100001--------01", "rs1'~,csh5", "srai rd=rs1 rs1=rs1 uimm5=csh5"),
    ("c.andi", "100-10--------01", "rs1'~,ci6", "andi rd=rs1 rs1=rs1 imm12=ci6"),
    ("c.sub", "100011---00---01", "rs1'~,rs2'", "sub rd=rs1 rs1=rs1 rs2=rs2"),
    ("c.xor", "100011---01---01", "rs1'~,rs2'", "xor rd=rs1 rs1=rs1 rs2=rs2"),
    ("c.or", "100011---10---01", "rs1'~,rs2'", "or rd=rs1 rs1=rs1 rs2=rs2"),
    ("c.and", "100011---11---01", "rs1'~,rs2'", "and rd=rs1 rs1=rs1 rs2=rs2"),
    ("c.j", "101-----------01", "cj12", "jal rd=0 joff21=cj12"),
    ("c.beqz", "110-----------01", "rs1',cb9", "beq rs1=rs1 rs2=0 boff13=cb9"),
    ("c.bnez", "111-----------01", "rs1',cb9", "bne rs1=rs1 rs2=0 boff13=cb9"),
    ("c.slli", "0000----------10", "rd~,csh5", "slli rd=rd rs1=rd uimm5=csh5"),
    ("c.lwsp", "010-----------10", "rd-0,clsp8(x2)", "lw rd=rd rs1=2 imm12=clsp8"),
    ("c.jr", "1000-----0000010", "rs1-0", "jalr rd=0 rs1=rs1 imm12=0"),
    ("c.mv", "1000----------10", "rd,rs2-0", "add rd=rd rs1=0 rs2=rs2"),
    ("c.ebreak", "1001000000000010", "", "ebreak"),
    ("c.jalr", "1001-----0000010", "rs1-0", "jalr rd=1 rs1=rs1 imm12=0"),
    ("c.add", "1001----------10", "rd~,rs2-0", "add rd=rd rs1=rd rs2=rs2"),
    ("c.swsp", "110-----------10", "rs2,cssp8(x2)", "sw rs2=rs2 rs1=2 stimm12=cssp8"),
)
"""Mnemonic, pattern, operands; then the 32-bit mnemonic, and its operands as numbers or compressed fields."""

_BASE = {insn.mnemonic: insn for insn in (*INTEGER_ROWS, *SYSTEM_ROWS)}


class Expansion(NamedTuple):
    """The 32-bit instruction that equals a compressed one, and the source of each of its operands."""

    insn: Insn
    sources: dict[str, str]

    def word(self, values: dict[str, int]) -> int:
        word = self.insn.match
        for token in self.insn.tokens:
            source = self.sources[token.field.name]
            word |= token.field.insert(int(source) if source.isdecimal() else values[source])
        return word


EXPANSIONS = {
    name: Expansion(_BASE[mnemonic], dict(operand.split("=", 1) for operand in operands))
    for name, _, _, expansion in _ROWS
    for mnemonic, *operands in [expansion.split()]
}
"""Expansion of each compressed mnemonic. The link address of compressed jumps is pc + 2, not pc + 4."""

COMPRESSED_ROWS = tuple(
    Insn(name, pattern, operands, Extension.RV32C, EXPANSIONS[name].insn.op) for name, pattern, operands, _ in _ROWS
)


def compressed_insn(half: int) -> Insn | None:
    """Return the instruction of the table that a 16-bit word encodes, or None if the word is reserved."""
    return next((insn for insn in COMPRESSED_ROWS if insn.matches(half)), None)


def expand_compressed(half: int) -> int:
    """Return the 32-bit equivalent of a compressed word; raise :class:`EncodingError` if it is reserved."""
    insn = compressed_insn(half)
    if insn is None:
        raise EncodingError(f"compressed word must be a legal RV32C encoding, not 0x{half:04x}")
    return EXPANSIONS[insn.mnemonic].word(insn.decode(half))
