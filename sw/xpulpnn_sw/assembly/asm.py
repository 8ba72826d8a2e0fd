"""Two-pass assembler over the instruction table.

Statements are separated by new lines or ``;``, comments start with ``#`` or ``//``. Labels may be names or numbers
(``1:`` reached as ``1b`` and ``1f``). Directives: ``.word``, ``.half``, ``.equ``. The target of a branch or jump is a
label, an expression with ``pc`` (``pc+16``), or a plain number, which counts bytes from the instruction.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from xpulpnn.errors import EncodingError
from xpulpnn.isa.csr import csr_address
from xpulpnn.isa.fields import FieldKind, Operand, Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, WORD_MASK, XLEN
from xpulpnn.isa.table import by_mnemonic
from xpulpnn_sw.assembly.disasm import FENCE_LETTERS, is_register, register_number
from xpulpnn_sw.assembly.expressions import NAMES, NUMBER, evaluate, lower, upper

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
    **{(f"csr{form}", 2): (f"csrr{form} x0, {{0}}, {{1}}",) for form in ("w", "s", "c", "wi", "si", "ci")},
    **{(f"rd{name}", 1): (f"csrrs {{0}}, {name}, x0",) for name in ("cycle", "cycleh", "instret", "instreth")},
    # the GNU spelling names the implied stack pointer
    ("c.addi4spn", 3): ("c.addi4spn {0}, {2}",),
    ("c.addi16sp", 2): ("c.addi16sp {1}",),
}

_FORMAT_FIRST = re.compile(r"^(pv\.\w+)\.([hbnc])\.(sci?)$")
_ROUND_FIRST = re.compile(r"^(p\.(?:mul|mac)\w*)rn$")
Parts = tuple[str, tuple[str, ...]]  # mnemonic and operands of a statement without label and comment
_COMMENT = re.compile(r"(#|//).*")
_LABEL = re.compile(r"\s*([\w.$]+)\s*:")
_SPLIT = re.compile(r",(?![^()]*\))")
MEMORY = re.compile(r"(?P<offset>.*?)\(\s*(?P<base>[\w\\@]+)\s*(?P<increment>!?)\s*\)")
_LOCAL = re.compile(r"(?<![\w.$])(\d+)([bf])(?![\w.$])")
_LOOP_NAMES = {name: number for number in (0, 1) for name in (f"x{number}", f"l{number}", str(number))}
_DATA_SIZES = {".word": 4, ".half": 2}
_LINES = 1 << 14  # statements that are cached, as programs repeat many


@cache
def candidates(mnemonic: str) -> tuple[Insn, ...]:
    """Return the instructions that a mnemonic may mean: a final ``i`` is optional, ``r`` excludes immediate forms."""
    # normalised: the format letter last, and rounding as `nr`
    name = _ROUND_FIRST.sub(r"\1nr", _FORMAT_FIRST.sub(r"\1.\3.\2", mnemonic.lower()))
    name = "pv.pack.h" if name == "pv.pack" else name
    rows = by_mnemonic(name) + by_mnemonic(f"{name}i")
    stem = name.removesuffix("r")
    if not rows and stem != name and by_mnemonic(f"{stem}i"):
        candidates = by_mnemonic(stem)
        rows = tuple(row for row in candidates if all(token.field.kind is FieldKind.REGISTER for token in row.tokens))
    return rows


@dataclass(frozen=True, slots=True)
class Assembled:
    """An assembled program; every list has one item for each instruction or data word."""

    words: list[int] = field(default_factory=list[int])  # instruction or data words; 16 bits where the size is 2
    sizes: list[int] = field(default_factory=list[int])  # bytes of each word: 2 or 4
    pcs: list[int] = field(default_factory=list[int])  # address of each word
    lines: list[int] = field(default_factory=list[int])  # source line of each word, counted from 1
    labels: dict[str, int] = field(default_factory=dict[str, int])  # named labels and constants

    def to_bytes(self) -> bytes:
        return b"".join(word.to_bytes(size, "little") for word, size in zip(self.words, self.sizes, strict=True))


@dataclass(frozen=True, slots=True)
class _Statement:
    mnemonic: str
    operands: tuple[str, ...]
    line: int
    pc: int
    size: int


@lru_cache(_LINES)
def statement_parts(text: str) -> Parts:
    mnemonic, *rest = text.split(maxsplit=1)
    return mnemonic, tuple(part.strip() for part in _SPLIT.split(rest[0])) if rest else ()


def _load_immediate(rd: str, value: int) -> Iterator[str]:
    if not -(1 << XLEN - 1) <= value < 1 << XLEN:
        raise EncodingError(f"constant of li must be a 32-bit value, not {value}")
    signed = (value & WORD_MASK ^ 1 << 31) - (1 << 31)
    low, high = lower(signed), upper(signed)
    if not high:
        yield f"addi {rd}, x0, {low}"
        return
    yield f"lui {rd}, {high}"
    if low:
        yield f"addi {rd}, {rd}, {low}"


def expand(mnemonic: str, operands: tuple[str, ...], constants: Mapping[str, int], pc: int) -> Iterator[Parts]:
    name = mnemonic.lower()
    if name == "li" and len(operands) == 2:
        lines = _load_immediate(operands[0], evaluate(operands[1], constants, pc))
    elif name == "jalr" and len(operands) == 2 and is_register(operands[1]):
        lines = iter((f"jalr {operands[0]}, 0({operands[1]})",))
    elif (name, len(operands)) in PSEUDO:
        lines = (line.format(*operands) for line in PSEUDO[name, len(operands)])
    else:
        return iter(((mnemonic, operands),))
    return (statement_parts(line) for line in lines)


def _size(mnemonic: str) -> int:
    if mnemonic in _DATA_SIZES:
        return _DATA_SIZES[mnemonic]
    rows = candidates(mnemonic)
    if not rows:
        raise EncodingError(f"mnemonic must be an instruction or directive, not {mnemonic}")
    return rows[0].size


def _fits_token(token: Token | None, text: str) -> bool:
    if token is None:
        return text in ("", "0")
    if token.field.kind is FieldKind.LOOP:
        return text.lower() in _LOOP_NAMES
    return is_register(text) == (token.field.kind is FieldKind.REGISTER)


def _fits(operand: Operand, text: str) -> bool:
    memory = MEMORY.fullmatch(text)
    if not operand.is_memory:
        return operand.value is not None and _fits_token(operand.value, text)
    if memory is None or not is_register(memory["base"]):
        # a Mac&Load base may be written without its parentheses
        return operand.increment and operand.value is None and is_register(text)
    if operand.fixed_base is not None and register_number(memory["base"]) != operand.fixed_base:
        return False
    offset = memory["offset"].strip() or ("" if operand.value is None else "0")
    return bool(memory["increment"]) == operand.increment and _fits_token(operand.value, offset)


@lru_cache(_LINES)
def select(mnemonic: str, operands: tuple[str, ...]) -> Insn:
    rows = candidates(mnemonic)
    for insn in rows:
        if len(insn.forms) == len(operands) and all(map(_fits, insn.forms, operands)):
            return insn
    forms = " or ".join(dict.fromkeys(insn.operands or "none" for insn in rows if not insn.reloads_other))
    raise EncodingError(f"operands of {mnemonic} must be {forms}, not {', '.join(operands) or 'none'}")


def alternative_row(insn: Insn, values: Mapping[str, int]) -> Insn | None:
    return next((row for row in by_mnemonic(insn.mnemonic) if row is not insn and row.takes(values)), None)


def token_value(token: Token, text: str, symbols: Mapping[str, int], pc: int) -> int:
    match token.field.kind:
        case FieldKind.REGISTER:
            return register_number(text)
        case FieldKind.LOOP:
            return _LOOP_NAMES[text.lower()]
        case FieldKind.TARGET:
            # a plain number is a distance
            return evaluate(text, symbols, pc) - (0 if all(map(NUMBER.fullmatch, NAMES.findall(text))) else pc)
        case FieldKind.CSR if not text[:1].isdigit():
            return symbols[text] if text in symbols else csr_address(text)
        case FieldKind.FENCE if text and not text.strip(FENCE_LETTERS):
            return sum(8 >> FENCE_LETTERS.index(letter) for letter in set(text))
        case _:
            return evaluate(text, symbols, pc)


def operand_texts(insn: Insn, operands: tuple[str, ...]) -> Iterator[tuple[Token, str]]:
    for operand, text in zip(insn.forms, operands, strict=True):
        outside, base = text, text
        if operand.is_memory and (memory := MEMORY.fullmatch(text)):
            outside, base = memory["offset"].strip() or "0", memory["base"]
        if operand.value is not None:
            yield operand.value, outside
        if operand.base is not None:
            yield operand.base, base


def _encode(insn: Insn, values: Mapping[str, int]) -> int:
    try:
        return insn.encode(**values)
    except EncodingError:
        other = alternative_row(insn, values)
        if other is None:
            raise
        return other.encode(**values)


@lru_cache(_LINES)
def _fixed_word(insn: Insn, operands: tuple[str, ...]) -> int:
    """Return the word of an instruction without symbols or targets, else 0."""
    values: dict[str, int] = {}
    for token, text in operand_texts(insn, operands):
        named = token.field.kind in (FieldKind.REGISTER, FieldKind.LOOP)
        if not named and (token.field.kind is FieldKind.TARGET or not NUMBER.fullmatch(text.removeprefix("-"))):
            return 0
        values[token.field.name] = token_value(token, text, {}, 0)
    return _encode(insn, values)


class _Assembler:
    def __init__(self, base: int) -> None:
        self.pc = base
        self.statements: list[_Statement] = []
        self.symbols: dict[str, int] = {}
        self.locals: dict[str, list[int]] = {}

    def scan(self, text: str, line: int) -> None:
        """Process a statement in the first pass: define its labels and constants, and add its size to the address."""
        while match := _LABEL.match(text):
            self._define(match[1])
            text = text[match.end() :]
        if not text.strip():
            return
        mnemonic, operands = statement_parts(text)
        if mnemonic == ".equ":
            if len(operands) != 2:
                raise EncodingError(f"operands of .equ must be name, value, not {', '.join(operands) or 'none'}")
            self.symbols[operands[0]] = evaluate(operands[1], self.symbols, self.pc)
        elif mnemonic in _DATA_SIZES:
            if not operands:
                raise EncodingError(f"operands of {mnemonic} must be values, not none")
            for operand in operands:
                self._add(mnemonic, (operand,), line)
        else:
            for name, parts in expand(mnemonic, operands, self.symbols, self.pc):
                self._add(name, parts, line)

    def _define(self, label: str) -> None:
        if label.isdecimal():
            self.locals.setdefault(label, []).append(self.pc)
        elif is_register(label):
            raise EncodingError(f"label must be a name that is no register, not {label}")
        elif label in self.symbols:
            raise EncodingError(f"label must be defined once, not again as {label}")
        else:
            self.symbols[label] = self.pc

    def _add(self, mnemonic: str, operands: tuple[str, ...], line: int) -> None:
        size = _size(mnemonic)
        self.statements.append(_Statement(mnemonic, operands, line, self.pc, size))
        self.pc += size

    def _resolve_locals(self, operand: str, pc: int) -> str:
        def address(match: re.Match[str]) -> str:
            places = self.locals.get(match[1], [])
            index = bisect_right(places, pc) - 1 if match[2] == "b" else bisect_left(places, pc + 1)
            if not 0 <= index < len(places):
                raise EncodingError(f"local label must be defined, not {match[0]}")
            return f"pc{places[index] - pc:+d}"

        return _LOCAL.sub(address, operand)

    def encode(self, statement: _Statement) -> int:
        mnemonic, pc = statement.mnemonic, statement.pc
        operands = statement.operands
        if self.locals:
            operands = tuple(self._resolve_locals(operand, pc) for operand in operands)
        if mnemonic in _DATA_SIZES:
            bits = BYTE_BITS * _DATA_SIZES[mnemonic]
            value = evaluate(operands[0], self.symbols, pc)
            if not -(1 << bits - 1) <= value < 1 << bits:
                raise EncodingError(f"{mnemonic} must be a {bits}-bit value, not {value}")
            return value & (1 << bits) - 1
        insn = select(mnemonic, operands)
        if word := _fixed_word(insn, operands):
            return word
        texts = operand_texts(insn, operands)
        return _encode(insn, {token.field.name: token_value(token, text, self.symbols, pc) for token, text in texts})


def assemble(text: str, base: int = 0) -> Assembled:
    """Assemble a program that starts at address ``base``.

    Raise :class:`EncodingError` with the line number for the first mistake.
    """
    assembler = _Assembler(base)
    result = Assembled(labels=assembler.symbols)
    line = 0
    try:
        for line, source in enumerate(text.splitlines(), start=1):
            for statement in _COMMENT.sub("", source).split(";"):
                assembler.scan(statement, line)
        for statement in assembler.statements:
            line = statement.line
            result.words.append(assembler.encode(statement))
            result.sizes.append(statement.size)
            result.pcs.append(statement.pc)
            result.lines.append(line)
    except EncodingError as error:
        raise EncodingError(f"line {line}: {error}") from None
    return result
