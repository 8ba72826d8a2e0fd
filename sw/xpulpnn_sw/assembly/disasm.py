"""Disassembler, whose output the assembler accepts, and names of registers."""

from collections.abc import Iterable

from xpulpnn.errors import EncodingError
from xpulpnn.isa.csr import CSR_BY_ADDRESS
from xpulpnn.isa.fields import FUNCT3, FUNCT7, OPCODE, WORD_FIELDS, FieldKind, Operand, Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn.isa.table import ALL_WORDS, INSNS, Decoder

# name of register `i` at index `i`
ABI_NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11"),
    *("t3", "t4", "t5", "t6"),
)
_NUMBERS = {text: number for number, name in enumerate(ABI_NAMES) for text in (name, f"x{number}")}
_NUMBERS["fp"] = _NUMBERS["s0"]
FENCE_LETTERS = "iorw"  # letters of a fence set from bit 3 down to bit 0


def is_register(text: str) -> bool:
    return text.lower() in _NUMBERS


def register_number(text: str) -> int:
    try:
        return _NUMBERS[text.lower()]
    except KeyError:
        raise EncodingError(f"register must be x0..x31 or an ABI name, not {text}") from None


def _value(token: Token, values: dict[str, int]) -> str:
    value = values[token.field.name]
    match token.field.kind:
        case FieldKind.REGISTER:
            return ABI_NAMES[value]
        case FieldKind.TARGET:
            return f"pc{value:+d}"
        case FieldKind.CSR:
            return CSR_BY_ADDRESS[value].name if value in CSR_BY_ADDRESS else f"0x{value:03x}"
        case FieldKind.FENCE:
            return "".join(letter for place, letter in enumerate(FENCE_LETTERS) if value & 8 >> place) or "0"
        case FieldKind.LOOP | FieldKind.IMMEDIATE:
            return str(value)


def _operand(operand: Operand, values: dict[str, int]) -> str:
    text = _value(operand.value, values) if operand.value else ""
    if not operand.is_memory:
        return text
    base = _value(operand.base, values) if operand.base else ABI_NAMES[operand.fixed_base or 0]
    return f"{text}({base}{'!' if operand.increment else ''})"


def render(insn: Insn, word: int, pc: int | None = None) -> str:
    """Return the assembly of ``word``, which ``insn`` describes; with ``pc``, a comment gives the target address."""
    values = insn.decode(word)
    operands = ", ".join(_operand(operand, values) for operand in insn.forms)
    text = f"{insn.mnemonic} {operands}".rstrip()
    targets = [values[t.field.name] for t in insn.tokens if t.field.kind is FieldKind.TARGET]
    if pc is not None and targets:
        text += f"  # 0x{(pc + targets[0]) & WORD_MASK:x}"
    return text


def insn_directive(word: int) -> str:
    """Return the ``.insn`` directive by which any RISC-V assembler emits a 32-bit word."""
    rd, rs1, rs2 = (f"x{WORD_FIELDS[name].extract(word)}" for name in ("rd", "rs1", "rs2"))
    opcode, funct3, funct7 = (field.extract(word) for field in (OPCODE, FUNCT3, FUNCT7))
    return f".insn r {opcode:#x}, {funct3}, {funct7:#x}, {rd}, {rs1}, {rs2}"


def disassemble(word: int, pc: int | None = None, insns: Iterable[Insn] | Decoder = INSNS) -> str:
    """Return the assembly of a word that encodes one of ``insns``.

    Targets are written relative to the instruction (``pc+8``), so the text assembles to the same word anywhere. To
    disassemble many words with a subset of the table, pass a :class:`Decoder`. Raise :class:`EncodingError` for an
    illegal word.
    """
    decoder = ALL_WORDS if insns is INSNS else insns if isinstance(insns, Decoder) else Decoder(insns)
    insn = decoder.decode(word)
    if insn is None:
        raise EncodingError(f"word must be an enabled instruction, not 0x{word:08x}")
    return render(insn, word, pc)
