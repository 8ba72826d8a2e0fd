"""Standard RISC-V pseudo-instructions and the other spellings of the Xpulp instructions (guide, "Other spellings")."""

import re

from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import by_mnemonic

# expansion by mnemonic and number of operands. `li` depends on its value and is expanded by the assembler.
PSEUDO: dict[tuple[str, int], tuple[str, ...]] = {
    ("nop", 0): ("addi x0, x0, 0",),
    ("la", 2): ("auipc {0}, %pcrel_hi({1})", "addi {0}, {0}, %pcrel_lo({1})"),
    ("mv", 2): ("addi {0}, {1}, 0",),
    ("zext.b", 2): ("andi {0}, {1}, 255",),
    ("not", 2): ("xori {0}, {1}, -1",),
    ("neg", 2): ("sub {0}, x0, {1}",),
    ("seqz", 2): ("sltiu {0}, {1}, 1",),
    ("snez", 2): ("sltu {0}, x0, {1}",),
    ("sltz", 2): ("slt {0}, {1}, x0",),
    ("sgtz", 2): ("slt {0}, x0, {1}",),
    ("sgt", 3): ("slt {0}, {2}, {1}",),
    ("sgtu", 3): ("sltu {0}, {2}, {1}",),
    ("beqz", 2): ("beq {0}, x0, {1}",),
    ("bnez", 2): ("bne {0}, x0, {1}",),
    ("blez", 2): ("bge x0, {0}, {1}",),
    ("bgez", 2): ("bge {0}, x0, {1}",),
    ("bltz", 2): ("blt {0}, x0, {1}",),
    ("bgtz", 2): ("blt x0, {0}, {1}",),
    ("bgt", 3): ("blt {1}, {0}, {2}",),
    ("ble", 3): ("bge {1}, {0}, {2}",),
    ("bgtu", 3): ("bltu {1}, {0}, {2}",),
    ("bleu", 3): ("bgeu {1}, {0}, {2}",),
    ("j", 1): ("jal x0, {0}",),
    ("jal", 1): ("jal x1, {0}",),
    ("jr", 1): ("jalr x0, 0({0})",),
    ("jalr", 1): ("jalr x1, 0({0})",),
    ("jalr", 3): ("jalr {0}, {2}({1})",),
    ("ret", 0): ("jalr x0, 0(x1)",),
    ("call", 1): ("auipc x1, %pcrel_hi({0})", "jalr x1, %pcrel_lo({0})(x1)"),
    ("tail", 1): ("auipc x6, %pcrel_hi({0})", "jalr x0, %pcrel_lo({0})(x6)"),
    ("fence", 0): ("fence iorw, iorw",),
    ("csrr", 2): ("csrrs {0}, {1}, x0",),
    ("csrw", 2): ("csrrw x0, {0}, {1}",),
    ("csrs", 2): ("csrrs x0, {0}, {1}",),
    ("csrc", 2): ("csrrc x0, {0}, {1}",),
    ("csrwi", 2): ("csrrwi x0, {0}, {1}",),
    ("csrsi", 2): ("csrrsi x0, {0}, {1}",),
    ("csrci", 2): ("csrrci x0, {0}, {1}",),
    ("rdcycle", 1): ("csrrs {0}, cycle, x0",),
    ("rdcycleh", 1): ("csrrs {0}, cycleh, x0",),
    ("rdinstret", 1): ("csrrs {0}, instret, x0",),
    ("rdinstreth", 1): ("csrrs {0}, instreth, x0",),
    # the GNU spelling names the implied stack pointer
    ("c.addi4spn", 3): ("c.addi4spn {0}, {2}",),
    ("c.addi16sp", 2): ("c.addi16sp {1}",),
}

_FORMAT_FIRST = re.compile(r"(pv\.\w+)\.([hbnc])\.(sci?)")
_ROUND_FIRST = re.compile(r"(p\.(?:mul|mac)\w*)rn")


def _canonical_mnemonic(mnemonic: str) -> str:
    """Lower-case mnemonic with the format letter last and rounding as ``nr``."""
    name = mnemonic.lower()
    if match := _FORMAT_FIRST.fullmatch(name):
        return f"{match[1]}.{match[3]}.{match[2]}"
    if match := _ROUND_FIRST.fullmatch(name):
        return f"{match[1]}nr"
    return "pv.pack.h" if name == "pv.pack" else name


def _takes_register(insn: Insn) -> bool:
    return all(token.field.kind is FieldKind.REGISTER for token in insn.tokens)


def candidates(mnemonic: str) -> tuple[Insn, ...]:
    """The rows a written mnemonic may mean; the operands decide among them.

    An immediate form may drop its final ``i`` (``p.clip rd, rs1, 5``); the register form beside an immediate form may
    add an ``r`` (``p.clipr``).
    """
    name = _canonical_mnemonic(mnemonic)
    rows = by_mnemonic(name) + by_mnemonic(f"{name}i")
    stem = name.removesuffix("r")
    if not rows and stem != name and by_mnemonic(f"{stem}i"):
        rows = tuple(insn for insn in by_mnemonic(stem) if _takes_register(insn))
    return rows
