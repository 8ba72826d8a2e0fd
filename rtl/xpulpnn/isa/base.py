"""The 32-bit rows of RV32IM, Zicsr, Zifencei and the privileged instructions (guide, "Base instructions")."""

from collections.abc import Iterator

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn, pattern

LOAD, STORE, BRANCH, OP_IMM, OP = "0000011", "0100011", "1100011", "0010011", "0110011"
LUI, AUIPC, JAL, JALR, MISC_MEM, SYSTEM = "0110111", "0010111", "1101111", "1100111", "0001111", "1110011"

LOADS = {"lb": "000", "lh": "001", "lw": "010", "lbu": "100", "lhu": "101"}  # funct3 of the loads.
STORES = {"sb": "000", "sh": "001", "sw": "010"}  # funct3 of the stores.

_BRANCHES = {"beq": "000", "bne": "001", "blt": "100", "bge": "101", "bltu": "110", "bgeu": "111"}

_IMMEDIATE = (
    ("addi", "000", "add"),
    ("slti", "010", "slt"),
    ("sltiu", "011", "sltu"),
    ("xori", "100", "xor"),
    ("ori", "110", "or"),
    ("andi", "111", "and"),
)

_SHIFTS = {"sll": ("0000000", "001"), "srl": ("0000000", "101"), "sra": ("0100000", "101")}

_REGISTER = {
    "add": ("0000000", "000"),
    "sub": ("0100000", "000"),
    "sll": ("0000000", "001"),
    "slt": ("0000000", "010"),
    "sltu": ("0000000", "011"),
    "xor": ("0000000", "100"),
    "srl": ("0000000", "101"),
    "sra": ("0100000", "101"),
    "or": ("0000000", "110"),
    "and": ("0000000", "111"),
}

_MULDIV = ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu")  # In the order of funct3.
_CSR = {"csrrw": "01", "csrrs": "10", "csrrc": "11"}  # Low bits of funct3; the high bit selects the immediate form.

_PRIVILEGED = {
    "ecall": ("0000000", "00000"),
    "ebreak": ("0000000", "00001"),
    "mret": ("0011000", "00010"),
    "wfi": ("0001000", "00101"),
}


def _rv32im() -> Iterator[Insn]:
    ext = Extension.RV32I
    yield Insn("lui", pattern(LUI), "rd,uimm20", ext, "lui")
    yield Insn("auipc", pattern(AUIPC), "rd,uimm20", ext, "auipc")
    yield Insn("jal", pattern(JAL), "rd,joff21", ext, "jal")
    yield Insn("jalr", pattern(JALR, "000"), "rd,imm12(rs1)", ext, "jalr")
    for name, funct3 in _BRANCHES.items():
        yield Insn(name, pattern(BRANCH, funct3), "rs1,rs2,boff13", ext, name)
    for name, funct3 in LOADS.items():
        yield Insn(name, pattern(LOAD, funct3), "rd,imm12(rs1)", ext, name)
    for name, funct3 in STORES.items():
        yield Insn(name, pattern(STORE, funct3), "rs2,stimm12(rs1)", ext, name)
    for name, funct3, op in _IMMEDIATE:
        yield Insn(name, pattern(OP_IMM, funct3), "rd,rs1,imm12", ext, op)
    for op, (funct7, funct3) in _SHIFTS.items():
        yield Insn(f"{op}i", pattern(OP_IMM, funct3, funct7), "rd,rs1,uimm5", ext, op)
    for name, (funct7, funct3) in _REGISTER.items():
        yield Insn(name, pattern(OP, funct3, funct7), "rd,rs1,rs2", ext, name)
    yield Insn("fence", pattern(MISC_MEM, "000"), "pred,succ", ext, "fence")
    for funct3, name in enumerate(_MULDIV):
        yield Insn(name, pattern(OP, f"{funct3:03b}", "0000001"), "rd,rs1,rs2", Extension.RV32M, name)


def _system() -> Iterator[Insn]:
    for suffix, high, source in (("", "0", "rs1"), ("i", "1", "zimm5")):
        for op, low in _CSR.items():
            yield Insn(f"{op}{suffix}", pattern(SYSTEM, high + low), f"rd,csr,{source}", Extension.ZICSR, op)
    yield Insn("fence.i", pattern(MISC_MEM, "001"), "", Extension.ZIFENCEI, "fence.i")
    for name, (funct7, rs2) in _PRIVILEGED.items():
        word = pattern(SYSTEM, "000", funct7, rs2=rs2, rs1="00000", rd="00000")
        yield Insn(name, word, "", Extension.PRIV, name)


INTEGER_ROWS = tuple(_rv32im())  # RV32I and RV32M.
SYSTEM_ROWS = tuple(_system())  # Zicsr, Zifencei and the privileged instructions.
