"""Instructions a stock assembler does not know, as ``.insn`` directives derived from the table row.

The general form is ``.insn r opcode, funct3, funct7, rd, rs1, rs2``, whose six numbers cover the whole word. A register
slot that holds bits of an immediate is written as the register of that number. Offsets of twelve bits have their own
forms, and so do branches, whose target the assembler must resolve.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from xpulpnn.isa.fields import Field, FieldKind
from xpulpnn.isa.insn import Insn

_WORD_BITS = 32
BRANCH_OFFSET, LOAD_OFFSET, STORE_OFFSET = "boff13", "imm12", "stimm12"


class Slot(NamedTuple):
    """A part of the word that ``.insn r`` takes as one number."""

    low: int
    width: int

    def bits(self, word: int) -> int:
        """What stands here in a word."""
        return word >> self.low & (1 << self.width) - 1


OPCODE, RD, FUNCT3, RS1, RS2, FUNCT7 = Slot(0, 7), Slot(7, 5), Slot(12, 3), Slot(15, 5), Slot(20, 5), Slot(25, 7)
_REGISTER_SLOTS = {"rd": RD, "rs1": RS1, "rs2": RS2, "rs3": RD}


@dataclass(frozen=True, slots=True)
class InsnPart:
    """One number of a directive."""

    operand: str = ""  # register operand, or empty
    constant: int = 0  # bits that are the same in every word of the row
    names: tuple[str, ...] = ()  # operands that have bits here
    immediates: tuple[str, ...] = ()  # those bits as C expressions, to be or-ed to the constant

    @property
    def expression(self) -> str:
        """The number as a C expression."""
        parts = [*self.immediates, *([hex(self.constant)] if self.constant else [])]
        return " | ".join(parts) or "0"


def immediate_fields(insn: Insn) -> list[Field]:
    """The operands that are constants in C, in assembler order: immediates, loop numbers, offsets."""
    return [token.field for token in insn.tokens if token.field.kind is not FieldKind.REGISTER]


def _checked(field: Field, bits: str) -> str:
    """C expression of ``bits``, or of a number no slot takes if the operand of this field is out of range."""
    name = field.name
    rule = f"XP_WITHIN({name}, {field.low}, {field.high})"
    if field.not_both:
        rule += f" && XP_UPDATES({name}, {field.not_both})"
    elif field.step > 1:
        rule += f" && ({name}) % {field.step} == 0"
    return f"XP_CHECKED({rule}, {bits})"


def _piece_of(field: Field, slot: Slot) -> str | None:
    terms: list[str] = []
    for word_low, value_low, width in field.parts:
        low, high = max(word_low, slot.low), min(word_low + width, slot.low + slot.width)
        if low < high:
            shift, mask = value_low + low - word_low, (1 << (high - low)) - 1
            term = f"XP_BITS({field.name}, {shift}, {mask})"
            terms.append(f"{term} << {low - slot.low}" if low > slot.low else term)
    return _checked(field, " | ".join(terms)) if terms else None


def piece(insn: Insn, slot: Slot) -> InsnPart:
    """Return the number that stands in a slot of the words of ``insn``."""
    for token in insn.tokens:
        if _REGISTER_SLOTS.get(token.field.name) == slot:
            return InsnPart(operand=token.field.name)
    fixed = insn.pattern[_WORD_BITS - slot.low - slot.width : _WORD_BITS - slot.low].replace("-", "0")
    found = {field.name: _piece_of(field, slot) for field in immediate_fields(insn)}
    bits = {name: text for name, text in found.items() if text is not None}
    return InsnPart(constant=int(fixed, 2), names=tuple(bits), immediates=tuple(bits.values()))


def is_whole(field: Field) -> bool:
    """Return whether the number of a directive for an operand is its value, so that a string can be put there."""
    if field.name in (LOAD_OFFSET, STORE_OFFSET):
        return True
    (low, value_low, width), *others = field.parts
    # the number of a slot counts from the slot's lowest bit
    return (
        not (others or value_low or field.low) and width <= RS2.width and low in (RD.low, RS1.low, RS2.low, FUNCT7.low)
    )


def directive(insn: Insn, register: Callable[[str], str], number: Callable[[InsnPart], str]) -> str:
    """The ``.insn`` directive of a row."""
    start = f"{piece(insn, OPCODE).constant:#04x}, {piece(insn, FUNCT3).constant}"
    fields = {field.name: field for field in immediate_fields(insn)}
    if BRANCH_OFFSET in fields:
        compared = next(field for name, field in fields.items() if name != BRANCH_OFFSET)
        bits = InsnPart(names=(compared.name,), immediates=(_checked(compared, f"XP_BITS({compared.name}, 0, 31)"),))
        # labels are numbered after the operands: the register and the constant
        return f".insn sb {start}, {register('rs1')}, x{number(bits)}, %l2"
    if STORE_OFFSET in fields:
        offset = number(InsnPart(names=(STORE_OFFSET,), immediates=(STORE_OFFSET,)))
        return f".insn s {start}, {register('rs2')}, {offset}({register('rs1')})"
    if LOAD_OFFSET in fields:
        offset = number(InsnPart(names=(LOAD_OFFSET,), immediates=(LOAD_OFFSET,)))
        return f".insn i {start}, {register('rd')}, {register('rs1')}, {offset}"
    slots: list[str] = []
    for slot, mark in ((FUNCT7, ""), (RD, "x"), (RS1, "x"), (RS2, "x")):
        part = piece(insn, slot)
        if part.operand:
            slots.append(register(part.operand))
        elif part.immediates:
            slots.append(mark + number(part))
        else:
            slots.append(f"{mark}{part.constant}" if mark else f"{part.constant:#04x}")
    return f".insn r {start}, {', '.join(slots)}"
