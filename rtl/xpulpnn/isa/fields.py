"""Operand fields of instruction words: bit positions, legal values, encoding and extraction.

The names are the operand tokens of the instruction table. A field is written as two equally long lists of bit ranges,
the bits of the value and the instruction bits they come from, so each line reads like the row of a manual.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from xpulpnn.errors import EncodingError


class FieldKind(Enum):
    """Meaning of the value of a field, which determines how an operand is written in assembly."""

    REGISTER = "register"
    IMMEDIATE = "immediate"
    TARGET = "target"  # byte distance from the pc of the instruction
    CSR = "csr"
    LOOP = "loop"
    FENCE = "fence"


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = [(part.split(":") * 2)[:2] for part in text.split()]
    return [(int(low), int(high) - int(low) + 1) for high, low in pairs]


def _fits(value: int, text: str) -> bool:
    bits = f"{value:0{len(text)}b}"
    return len(bits) == len(text) and all(mark in ("-", bit) for mark, bit in zip(text, bits, strict=True))


@dataclass(frozen=True, slots=True)
class Field:
    """One operand field; legal values are ``low, low + step, ..., high``."""

    name: str  # key of the value in :meth:`xpulpnn.isa.insn.Insn.decode`
    kind: FieldKind
    value_bits: str  # bit ranges of the value, in the order of ``word_bits``; other value bits are 0
    word_bits: str
    signed: bool = False  # the most significant value bit is a sign
    # added to the field: 8 for three-bit register fields, or value bits that the pattern of the instruction fixes
    base: int = 0
    not_both: int = 0  # bits of the value that must not all be set
    only: tuple[str, ...] = ()  # patterns of the value bits, one of which must match
    parts: tuple[tuple[int, int, int], ...] = field(init=False, repr=False)  # lowest word bit, value bit, width
    low: int = field(init=False, repr=False)
    high: int = field(init=False, repr=False)
    step: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pairs = zip(_ranges(self.word_bits), _ranges(self.value_bits), strict=True)
        parts = tuple((word, value, width) for (word, width), (value, _) in pairs)
        step = 1 << min(value for _, value, _ in parts)
        size = 1 << max(value + width for _, value, width in parts)
        low = -(size >> 1) if self.signed else self.base
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", low + size - step)

    def extract(self, word: int) -> int:
        value = 0
        for low, position, width in self.parts:
            value |= (word >> low & (1 << width) - 1) << position
        value += self.base
        return value - (self.high - self.low + self.step) if value > self.high else value

    def insert(self, value: int) -> int:
        """Return the instruction bits of ``value``; bits outside the field are dropped."""
        value -= self.base
        word = 0
        for low, position, width in self.parts:
            word |= (value >> position & (1 << width) - 1) << low
        return word

    def accepts(self, value: int) -> bool:
        if self.not_both and value & self.not_both == self.not_both:
            return False
        if self.only and not any(_fits(value, text) for text in self.only):
            return False
        return self.low <= value <= self.high and value % self.step == 0

    @property
    def shift(self) -> int:
        ((low, position, _),) = self.parts
        return low - position

    @property
    def values(self) -> list[int]:
        return [value for value in range(self.low, self.high + 1, self.step) if self.accepts(value)]

    @property
    def legal(self) -> tuple[str, ...]:
        """Patterns of the legal values of a restricted field; empty if every value is legal."""
        # the two bits of not_both are the upper bits of their field
        return self.only or (("0----", "10---") if self.not_both else ())

    @property
    def rule(self) -> str:
        """The legal values in words, for messages."""
        if self.kind is FieldKind.REGISTER:
            return "x8..x15" if self.base else "x0..x31" if self.step == 1 else "one of x0, x2, ..., x30"
        if self.only:
            return f"one of {', '.join(map(str, self.values))}"
        multiple = f" and a multiple of {self.step}" if self.step > 1 else ""
        bits = " and ".join(str(1 << bit) for bit in range(self.not_both.bit_length()) if self.not_both >> bit & 1)
        return f"{self.low}..{self.high}{multiple}{f' with at most one of the update bits {bits}' if bits else ''}"

    def show(self, value: int) -> str:
        return f"x{value}" if self.kind is FieldKind.REGISTER else str(value)


_REG, _IMM, _TARGET = FieldKind.REGISTER, FieldKind.IMMEDIATE, FieldKind.TARGET

OPCODE = Field("opcode", _IMM, "6:0", "6:0")
FUNCT3 = Field("funct3", _IMM, "2:0", "14:12")
FUNCT7 = Field("funct7", _IMM, "6:0", "31:25")

WORD_FIELDS = {
    f.name: f
    for f in (
        Field("rd", _REG, "4:0", "11:7"),
        Field("rs1", _REG, "4:0", "19:15"),
        Field("rs2", _REG, "4:0", "24:20"),
        Field("rs3", _REG, "4:0", "11:7"),
        Field("imm12", _IMM, "11:0", "31:20", signed=True),
        Field("stimm12", _IMM, "11:5 4:0", "31:25 11:7", signed=True),
        Field("uimm20", _IMM, "19:0", "31:12"),
        Field("boff13", _TARGET, "12 11 10:5 4:1", "31 7 30:25 11:8", signed=True),
        Field("joff21", _TARGET, "20 19:12 11 10:1", "31 19:12 20 30:21", signed=True),
        Field("uimm5", _IMM, "4:0", "24:20"),
        Field("simm5", _IMM, "4:0", "24:20", signed=True),
        Field("Is2", _IMM, "4:0", "24:20"),
        Field("Is3", _IMM, "4:0", "29:25"),
        Field("imm6", _IMM, "5:1 0", "24:20 25", signed=True),
        Field("uimm6", _IMM, "5:1 0", "24:20 25"),
        Field("csr", FieldKind.CSR, "11:0", "31:20"),
        Field("zimm5", _IMM, "4:0", "19:15"),
        Field("pred", FieldKind.FENCE, "3:0", "27:24"),
        Field("succ", FieldKind.FENCE, "3:0", "23:20"),
        Field("L", FieldKind.LOOP, "0", "7"),
        Field("lpoff12", _TARGET, "12:1", "31:20"),
        Field("lpoff5", _TARGET, "5:1", "19:15"),
        Field("lpcnt12", _IMM, "11:0", "31:20"),
        Field("nnimm5", _IMM, "4:0", "24:20", not_both=0b11000),
        Field("uimm1", _IMM, "0", "20"),
        # weight, pair of activations and loaded entry of a Mac&Load of two products
        Field("w", _IMM, "1:0", "22:21"),
        Field("p", _IMM, "0", "20"),
        Field("t", _IMM, "3:2 1:0", "30:29 24:23", only=("00--", "010-", "100-")),
        # coprocessor: accumulator, half of the filters, pair of words, filter, word of its state
        Field("k", _IMM, "3:0", "30:27"),
        Field("h", _IMM, "0", "31"),
        Field("e", _IMM, "2:0", "27:25", only=("0--", "100")),
        Field("f", _IMM, "1:0", "26:25"),
        Field("r", _IMM, "4:0", "29:25", only=("0----", "100--", "1010-", "10110", "110--")),
    )
} | {
    # the pattern holds both update bits of the selector, and the bits above a lane number
    "nnimm5'": Field("nnimm5", _IMM, "2:0", "22:20", base=0b11000),
    # the first register of an even-odd pair
    "rd2": Field("rd", _REG, "4:1", "11:8"),
    "lane2": Field("lane", _IMM, "1:0", "29:28"),
    "lane3": Field("lane", _IMM, "2:0", "30:28"),
    "lane4": Field("lane", _IMM, "3:0", "31:28"),
    "lane2'": Field("lane", _IMM, "1:0", "28:27"),
    "lane3'": Field("lane", _IMM, "2:0", "29:27"),
    "lane4'": Field("lane", _IMM, "3:0", "30:27"),
}
HALF_FIELDS = {
    "rd": Field("rd", _REG, "4:0", "11:7"),
    "rs1": Field("rs1", _REG, "4:0", "11:7"),
    "rs2": Field("rs2", _REG, "4:0", "6:2"),
    "rd'": Field("rd", _REG, "2:0", "4:2", base=8),
    "rs1'": Field("rs1", _REG, "2:0", "9:7", base=8),
    "rs2'": Field("rs2", _REG, "2:0", "4:2", base=8),
} | {
    f.name: f
    for f in (
        Field("ciw10", _IMM, "5:4 9:6 2 3", "12:11 10:7 6 5"),
        Field("cl7", _IMM, "5:3 2 6", "12:10 6 5"),
        Field("ci6", _IMM, "5 4:0", "12 6:2", signed=True),
        Field("ci10", _IMM, "9 4 6 8:7 5", "12 6 5 4:3 2", signed=True),
        Field("clui6", _IMM, "5 4:0", "12 6:2", signed=True),
        Field("csh5", _IMM, "4:0", "6:2"),
        Field("cj12", _TARGET, "11 4 9:8 10 6 7 3:1 5", "12 11 10:9 8 7 6 5:3 2", signed=True),
        Field("cb9", _TARGET, "8 4:3 7:6 2:1 5", "12 11:10 6:5 4:3 2", signed=True),
        Field("clsp8", _IMM, "5 4:2 7:6", "12 6:4 3:2"),
        Field("cssp8", _IMM, "5:2 7:6", "12:9 8:7"),
    )
}


@dataclass(frozen=True, slots=True)
class Token:
    field: Field
    excluded: int | None = None  # a value that the instruction does not take (`rd-0`, `ciw10-0`)
    updated: bool = False  # the register is both read and written (`rd~`)

    @property
    def restricted(self) -> bool:
        """True if the field can hold bits that the instruction excludes."""
        return self.excluded is not None or bool(self.field.legal)

    def accepts(self, value: int) -> bool:
        return self.field.accepts(value) and value != self.excluded

    def encode(self, value: int) -> int:
        """Return the instruction bits of ``value``; raise :class:`EncodingError` if it is illegal."""
        if not self.accepts(value):
            rule = self.field.rule
            if self.excluded is not None:
                rule += f" except {self.field.show(self.excluded)}"
            raise EncodingError(f"{self.field.name} must be {rule}, not {self.field.show(value)}")
        return self.field.insert(value)


@dataclass(frozen=True, slots=True)
class Operand:
    """One comma-separated operand: ``rd``, ``imm12``, ``imm12(rs1!)``, ``(rs1!)``, ``clsp8(x2)``."""

    value: Token | None  # the register or immediate outside the parentheses
    base: Token | None = None  # the base register, if it is a field
    fixed_base: int | None = None  # number of an implied base register
    increment: bool = False  # the base is written back

    @property
    def is_memory(self) -> bool:
        return self.base is not None or self.fixed_base is not None


_OPERAND = re.compile(r"(?P<value>[^()]*)(?:\((?P<base>[^()!]+)(?P<increment>!?)\))?")
_TOKEN = re.compile(r"(?P<name>\w+'?)(?P<updated>~?)(?:-(?P<excluded>\d+))?")


def _token(text: str, fields: dict[str, Field]) -> Token:
    match = _TOKEN.fullmatch(text)
    assert match, text
    excluded = match["excluded"]
    return Token(fields[match["name"]], None if excluded is None else int(excluded), bool(match["updated"]))


@cache
def parse_operands(text: str, size: int) -> tuple[Operand, ...]:
    """Parse the operand column of an instruction of ``size`` bytes, in assembler order."""
    fields = WORD_FIELDS if size == 4 else HALF_FIELDS
    operands: list[Operand] = []
    for part in text.split(",") if text else ():
        match = _OPERAND.fullmatch(part)
        assert match, part
        value = _token(match["value"], fields) if match["value"] else None
        fixed = re.fullmatch(r"x(\d+)", match["base"] or "")
        base = _token(match["base"], fields) if match["base"] and not fixed else None
        operands.append(Operand(value, base, int(fixed[1]) if fixed else None, bool(match["increment"])))
    return tuple(operands)


@cache
def parse_tokens(text: str, size: int) -> tuple[Token, ...]:
    operands = parse_operands(text, size)
    return tuple(token for operand in operands for token in (operand.value, operand.base) if token is not None)
