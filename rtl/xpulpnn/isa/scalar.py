"""The 32-bit instructions other than packed SIMD: RV32IM, Zicsr, Zifencei, privileged (guide, "Base instructions"), and
XpulpV2.

XpulpV2 is described in the guide, "XpulpV2: scalar instructions".
"""

from collections.abc import Iterator
from functools import partial

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn, pattern

LOAD, STORE, BRANCH, OP_IMM, OP = "0000011", "0100011", "1100011", "0010011", "0110011"
LUI, AUIPC, JAL, JALR, MISC_MEM, SYSTEM = "0110111", "0010111", "1101111", "1100111", "0001111", "1110011"
LOAD_POST, STORE_POST, HWLOOP, NORMALISE = "0001011", "0101011", "1111011", "1011011"

_TWO, _ONE, _UPDATE, _BITS = "rd,rs1,rs2", "rd,rs1", "rd~,rs1,rs2", "rd,rs1,Is3,Is2"

_BASE, _MINUS, _MULDIV = "0000000", "0100000", "0000001"
_COMPARE, _CLIP, _ROTATE, _UNARY, _FIELD = "0000010", "0001010", "0000100", "0001000", "1000000"
"""funct7 values of the groups in the OP opcode."""


def _rows(
    extension: Extension, names: str, opcode: str, first: int, operands: str, funct7: str = "-------"
) -> Iterator[Insn]:
    """Yield instructions whose funct3 counts up from ``first``, with all other bits equal.

    ``names`` are mnemonics, each followed by ``=`` and the operation if that has another name.
    """
    rs2 = "00000" if operands == _ONE else "-----"
    rd = "0000-" if opcode == HWLOOP else "-----"
    for funct3, name in enumerate(names.split(), first):
        mnemonic, _, op = name.partition("=")
        word = pattern(opcode, f"{funct3:03b}", funct7, rs2=rs2, rd=rd)
        yield Insn(mnemonic, word, operands, extension, op or mnemonic.removeprefix("p."))


def _privileged(name: str, funct7: str, rs2: str, extension: Extension = Extension.PRIV) -> Insn:
    word = pattern(SYSTEM, "000", funct7, rs2=rs2, rs1="00000", rd="00000")
    return Insn(name, word, "", extension, name)


_rv32i = partial(_rows, Extension.RV32I)

INTEGER_ROWS = (
    Insn("lui", pattern(LUI), "rd,uimm20", Extension.RV32I, "lui"),
    Insn("auipc", pattern(AUIPC), "rd,uimm20", Extension.RV32I, "auipc"),
    Insn("jal", pattern(JAL), "rd,joff21", Extension.RV32I, "jal"),
    *_rv32i("jalr", JALR, 0, "rd,imm12(rs1)"),
    *_rv32i("beq bne", BRANCH, 0, "rs1,rs2,boff13"),
    *_rv32i("blt bge bltu bgeu", BRANCH, 4, "rs1,rs2,boff13"),
    *_rv32i("lb lh lw", LOAD, 0, "rd,imm12(rs1)"),
    *_rv32i("lbu lhu", LOAD, 4, "rd,imm12(rs1)"),
    *_rv32i("sb sh sw", STORE, 0, "rs2,stimm12(rs1)"),
    *_rv32i("addi=add", OP_IMM, 0, "rd,rs1,imm12"),
    *_rv32i("slti=slt sltiu=sltu xori=xor", OP_IMM, 2, "rd,rs1,imm12"),
    *_rv32i("ori=or andi=and", OP_IMM, 6, "rd,rs1,imm12"),
    *_rv32i("slli=sll", OP_IMM, 1, "rd,rs1,uimm5", _BASE),
    *_rv32i("srli=srl", OP_IMM, 5, "rd,rs1,uimm5", _BASE),
    *_rv32i("srai=sra", OP_IMM, 5, "rd,rs1,uimm5", _MINUS),
    *_rv32i("add", OP, 0, _TWO, _BASE),
    *_rv32i("sub", OP, 0, _TWO, _MINUS),
    *_rv32i("sll slt sltu xor srl", OP, 1, _TWO, _BASE),
    *_rv32i("sra", OP, 5, _TWO, _MINUS),
    *_rv32i("or and", OP, 6, _TWO, _BASE),
    *_rv32i("fence", MISC_MEM, 0, "pred,succ"),
    *_rows(Extension.RV32M, "mul mulh mulhsu mulhu div divu rem remu", OP, 0, _TWO, _MULDIV),
)
SYSTEM_ROWS = (
    *_rows(Extension.ZICSR, "csrrw csrrs csrrc", SYSTEM, 1, "rd,csr,rs1"),
    *_rows(Extension.ZICSR, "csrrwi=csrrw csrrsi=csrrs csrrci=csrrc", SYSTEM, 5, "rd,csr,zimm5"),
    *_rows(Extension.ZIFENCEI, "fence.i", MISC_MEM, 1, ""),
    _privileged("ecall", "0000000", "00000"),
    _privileged("ebreak", "0000000", "00001"),
    _privileged("mret", "0011000", "00010"),
    _privileged("wfi", "0001000", "00101"),
    _privileged("dret", "0111101", "10010", Extension.SDEXT),
)
_xpulpv2 = partial(_rows, Extension.XPULPV2)


def _indexed_loads() -> Iterator[Insn]:
    for opcode, base in ((LOAD_POST, "(rs1!)"), (LOAD, "(rs1)")):
        for op, funct3 in (("lb", "000"), ("lh", "001"), ("lw", "010"), ("lbu", "100"), ("lhu", "101")):
            word = pattern(opcode, "111", f"0{funct3}000")
            yield Insn(f"p.{op}", word, f"rd,rs2{base}", Extension.XPULPV2, op)


def _normalising_add() -> Iterator[Insn]:
    """Yield shifted additions and subtractions; bit 31 unsigned, bit 30 register form, funct3 {round, 1, subtract}."""
    for name, subtract in (("add", "0"), ("sub", "1")):
        for sign, unsigned in (("", "0"), ("u", "1")):
            for suffix, rounding in (("N", "0"), ("RN", "1")):
                op = f"{name}{sign}{suffix}"
                for letter, funct7, operands in (("i", "0-----", "rd,rs1,rs2,Is3"), ("", "100000", _UPDATE)):
                    word = pattern(NORMALISE, f"{rounding}1{subtract}", unsigned + funct7)
                    yield Insn(f"p.{op}{letter}", word, operands, Extension.XPULPV2, op)


_HALVES = (("s", "10"), ("u", "00"), ("hhs", "11"), ("hhu", "01"))
"""Bits 31 and 30 of the half-word products: signed factors; upper half-words as factors."""


def _half_word_products() -> Iterator[Insn]:
    """Yield products of half-words; bit 31 signed, bit 30 high half-words, funct3 {round, 0, accumulate}."""
    for name, accumulate, operands in (("mul", "0", _TWO), ("mac", "1", _UPDATE)):
        for suffix, select in _HALVES:
            stem = f"{name}{suffix}"
            for rounding, bit in (("N", "0"), ("NR", "1")):
                word = pattern(NORMALISE, f"{bit}0{accumulate}", f"{select}-----")
                yield Insn(f"p.{stem}{rounding}", word, f"{operands},Is3", Extension.XPULPV2, f"{stem}{rounding}")
            word = pattern(NORMALISE, f"00{accumulate}", f"{select}00000")
            yield Insn(f"p.{stem}", word, operands, Extension.XPULPV2, f"{stem}N", alias=True)


SCALAR_ROWS = (
    *_xpulpv2("p.lb p.lh p.lw", LOAD_POST, 0, "rd,imm12(rs1!)"),
    *_xpulpv2("p.lbu p.lhu", LOAD_POST, 4, "rd,imm12(rs1!)"),
    *_indexed_loads(),
    *_xpulpv2("p.sb p.sh p.sw", STORE_POST, 0, "rs2,stimm12(rs1!)"),
    *_xpulpv2("p.sb p.sh p.sw", STORE_POST, 4, "rs2,rs3(rs1!)", _BASE),
    *_xpulpv2("p.sb p.sh p.sw", STORE, 4, "rs2,rs3(rs1)", _BASE),
    *_xpulpv2("p.elw", LOAD, 6, "rd,imm12(rs1)"),
    *_xpulpv2("lp.starti lp.endi", HWLOOP, 0, "L,lpoff12"),
    *_xpulpv2("lp.count", HWLOOP, 2, "L,rs1"),
    *_xpulpv2("lp.counti=lp.count", HWLOOP, 3, "L,lpcnt12"),
    *_xpulpv2("lp.setup", HWLOOP, 4, "L,rs1,lpoff12"),
    *_xpulpv2("lp.setupi=lp.setup", HWLOOP, 5, "L,lpcnt12,lpoff5"),
    *_xpulpv2("p.beqimm=beq p.bneimm=bne", BRANCH, 2, "rs1,simm5,boff13"),
    *_xpulpv2("p.slet p.sletu p.min p.minu p.max p.maxu", OP, 2, _TWO, _COMPARE),
    *_xpulpv2("p.abs", OP, 0, _ONE, _COMPARE),
    *_xpulpv2("p.exths p.exthz p.extbs p.extbz", OP, 4, _ONE, _UNARY),
    *_xpulpv2("p.clipi=clip p.clipui=clipu", OP, 1, "rd,rs1,Is2", _CLIP),
    *_xpulpv2("p.clip p.clipu", OP, 5, _TWO, _CLIP),
    *_xpulpv2("p.ror", OP, 5, _TWO, _ROTATE),
    *_xpulpv2("p.ff1 p.fl1 p.clb p.cnt", OP, 0, _ONE, _UNARY),
    *_xpulpv2("p.extracti=extract p.extractui=extractu", OP, 0, _BITS, "11-----"),
    *_xpulpv2("p.inserti=insert", OP, 2, "rd~,rs1,Is3,Is2", "11-----"),
    *_xpulpv2("p.bclri=bclr p.bseti=bset", OP, 3, _BITS, "11-----"),
    *_xpulpv2("p.extract p.extractu", OP, 0, _TWO, _FIELD),
    *_xpulpv2("p.insert", OP, 2, _UPDATE, _FIELD),
    *_xpulpv2("p.bclr p.bset", OP, 3, _TWO, _FIELD),
    *_normalising_add(),
    *_xpulpv2("p.mac p.msu", OP, 0, _UPDATE, "0100001"),
    *_half_word_products(),
)
