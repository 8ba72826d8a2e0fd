"""The 32-bit rows without packed SIMD: RV32IM, Zicsr, Zifencei, privileged (guide, "Base instructions"), and XpulpV2.

Those of XpulpV2 are memory access, hardware loops, bits and multiply (guide, "XpulpV2: scalar instructions").
"""

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


LOAD_POST, STORE_POST, HWLOOP, NORMALISE = "0001011", "0101011", "1111011", "1011011"

_INDEXED_LOADS = {"lb": "0000000", "lh": "0001000", "lw": "0010000", "lbu": "0100000", "lhu": "0101000"}
"""funct7 of loads with register offset; their funct3 is 111."""

_INDEXED_STORES = {"sb": "100", "sh": "101", "sw": "110"}  # funct3 of stores with register offset.

_LOOPS = (
    ("starti", "000", "L,lpoff12", "lp.starti"),
    ("endi", "001", "L,lpoff12", "lp.endi"),
    ("count", "010", "L,rs1", "lp.count"),
    ("counti", "011", "L,lpcnt12", "lp.count"),
    ("setup", "100", "L,rs1,lpoff12", "lp.setup"),
    ("setupi", "101", "L,lpcnt12,lpoff5", "lp.setup"),
)

_TWO, _ONE, _BITS = "rd,rs1,rs2", "rd,rs1", "rd,rs1,Is3,Is2"

_COMPARE, _CLIP, _ROTATE, _UNARY, _FIELD = "0000010", "0001010", "0000100", "0001000", "1000000"
"""funct7 of the groups in the OP opcode."""

_ALU = (
    ("slet", _COMPARE, "010", _TWO),
    ("sletu", _COMPARE, "011", _TWO),
    ("min", _COMPARE, "100", _TWO),
    ("minu", _COMPARE, "101", _TWO),
    ("max", _COMPARE, "110", _TWO),
    ("maxu", _COMPARE, "111", _TWO),
    ("abs", _COMPARE, "000", _ONE),
    ("exths", _UNARY, "100", _ONE),
    ("exthz", _UNARY, "101", _ONE),
    ("extbs", _UNARY, "110", _ONE),
    ("extbz", _UNARY, "111", _ONE),
    ("clipi", _CLIP, "001", "rd,rs1,Is2"),
    ("clipui", _CLIP, "010", "rd,rs1,Is2"),
    ("clip", _CLIP, "101", _TWO),
    ("clipu", _CLIP, "110", _TWO),
    ("ror", _ROTATE, "101", _TWO),
    ("ff1", _UNARY, "000", _ONE),
    ("fl1", _UNARY, "001", _ONE),
    ("clb", _UNARY, "010", _ONE),
    ("cnt", _UNARY, "011", _ONE),
)

_BIT_FIELDS = (
    ("extract", "000", "rd"),
    ("extractu", "001", "rd"),
    ("insert", "010", "rd~"),
    ("bclr", "011", "rd"),
    ("bset", "100", "rd"),
)


_HALVES = (("s", "10"), ("u", "00"), ("hhs", "11"), ("hhu", "01"))
"""Bits 31 and 30 of the half-word products: signed, high half-words."""


def _memory() -> Iterator[Insn]:
    ext = Extension.XPULPV2
    for op, funct3 in LOADS.items():
        yield Insn(f"p.{op}", pattern(LOAD_POST, funct3), "rd,imm12(rs1!)", ext, op)
    for opcode, base in ((LOAD_POST, "(rs1!)"), (LOAD, "(rs1)")):
        for op, funct7 in _INDEXED_LOADS.items():
            yield Insn(f"p.{op}", pattern(opcode, "111", funct7), f"rd,rs2{base}", ext, op)
    for op, funct3 in STORES.items():
        yield Insn(f"p.{op}", pattern(STORE_POST, funct3), "rs2,stimm12(rs1!)", ext, op)
    for opcode, base in ((STORE_POST, "(rs1!)"), (STORE, "(rs1)")):
        for op, funct3 in _INDEXED_STORES.items():
            yield Insn(f"p.{op}", pattern(opcode, funct3, "0000000"), f"rs2,rs3{base}", ext, op)
    yield Insn("p.elw", pattern(LOAD, "110"), "rd,imm12(rs1)", ext, "elw")


def _control() -> Iterator[Insn]:
    ext = Extension.XPULPV2
    for name, funct3, operands, op in _LOOPS:
        yield Insn(f"lp.{name}", pattern(HWLOOP, funct3, rd="0000-"), operands, ext, op)
    for op, funct3 in (("beq", "010"), ("bne", "011")):
        yield Insn(f"p.{op}imm", pattern(BRANCH, funct3), "rs1,simm5,boff13", ext, op)


def _alu() -> Iterator[Insn]:
    ext = Extension.XPULPV2
    for name, funct7, funct3, operands in _ALU:
        rs2 = "00000" if operands == _ONE else "-----"
        op = name.removesuffix("i")
        yield Insn(f"p.{name}", pattern(OP, funct3, funct7, rs2=rs2), operands, ext, op)
    for op, funct3, rd in _BIT_FIELDS:
        yield Insn(f"p.{op}i", pattern(OP, funct3, "11-----"), _BITS.replace("rd", rd), ext, op)
    for op, funct3, rd in _BIT_FIELDS:
        yield Insn(f"p.{op}", pattern(OP, funct3, _FIELD), _TWO.replace("rd", rd), ext, op)


def _normalising_add() -> Iterator[Insn]:
    """Add or subtract, round, shift; bit 31 unsigned, bit 30 register form, funct3 {round, 1, subtract}."""
    ext = Extension.XPULPV2
    for name, subtract in (("add", "0"), ("sub", "1")):
        for sign, unsigned in (("", "0"), ("u", "1")):
            for suffix, rounding in (("N", "0"), ("RN", "1")):
                op = f"{name}{sign}{suffix}"
                funct3 = f"{rounding}1{subtract}"
                immediate = pattern(NORMALISE, funct3, f"{unsigned}0-----")
                register = pattern(NORMALISE, funct3, f"{unsigned}100000")
                yield Insn(f"p.{op}i", immediate, "rd,rs1,rs2,Is3", ext, op)
                yield Insn(f"p.{op}", register, "rd~,rs1,rs2", ext, op)


def _multiply() -> Iterator[Insn]:
    """Half-word products; bit 31 signed, bit 30 high half-words, funct3 {round, 0, accumulate}."""
    ext = Extension.XPULPV2
    for name, funct3 in (("mac", "000"), ("msu", "001")):
        yield Insn(f"p.{name}", pattern(OP, funct3, "0100001"), "rd~,rs1,rs2", ext, name)
    for name, accumulate, rd in (("mul", "0", "rd"), ("mac", "1", "rd~")):
        for suffix, select in _HALVES:
            stem = f"{name}{suffix}"
            for rounding, bit in (("N", "0"), ("NR", "1")):
                word = pattern(NORMALISE, f"{bit}0{accumulate}", f"{select}-----")
                yield Insn(f"p.{stem}{rounding}", word, f"{rd},rs1,rs2,Is3", ext, f"{stem}{rounding}")
            word = pattern(NORMALISE, f"00{accumulate}", f"{select}00000")
            yield Insn(f"p.{stem}", word, f"{rd},rs1,rs2", ext, f"{stem}N", alias=True)


SCALAR_ROWS = (*_memory(), *_control(), *_alu(), *_normalising_add(), *_multiply())
"""XpulpV2 without the packed-SIMD instructions."""
