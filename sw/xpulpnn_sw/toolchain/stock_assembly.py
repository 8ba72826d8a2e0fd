"""Translation of assembly text for stock assemblers.

Instructions beyond RV32IMC become ``.insn`` directives, and names of this core's CSRs become numbers; all other text is
unchanged, line by line. A loop set-up becomes a data word with the distance to the loop's end. Instructions up to this
end keep their full length, since the linker may move code (relaxation).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.errors import EncodingError
from xpulpnn.isa.csr import CSR_BY_NAME, CsrGroup
from xpulpnn.isa.fields import FieldKind, Token
from xpulpnn.isa.formats import STOCK_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.table import enabled
from xpulpnn_sw.assembly.asm import alternative_row, candidates, operand_texts, select, statement_parts, token_value
from xpulpnn_sw.assembly.disasm import insn_directive
from xpulpnn_sw.assembly.expressions import evaluate
from xpulpnn_sw.assembly.relaxation import at_full_length, filled_alignment
from xpulpnn_sw.toolchain.headers import intrinsics

_MARKER = re.compile(r'\s*#\s*(?:line\s+)?(\d+)\s+"((?:\\.|[^"])*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOOPS = re.compile(r"(?:^|[;:])\s*lp\.(?:setup|start|end)", re.IGNORECASE | re.MULTILINE)
_MACRO = re.compile(r"\.(?:macro|endm)\b")
_OURS = re.compile(r"(?:^|[;:])\s*(?:(?:p|pa|pv|lp)\.\w|csr\w)", re.IGNORECASE)  # lines that may need translation
_LINE_MARKER = re.compile(r"\s*#")
_PIECES = re.compile(r'"(?:\\.|[^"\\])*"?|/\*.*?(?:\*/|$)|(?:#|//).*|;|[^"/#;]+|/')
_LABEL = re.compile(r"\s*([\w.$]+):(?!:)")
_ASSIGNMENT = re.compile(r"\s*(?:\.(?:equ|set|equiv)\s+([\w.$]+)\s*,|([\w.$]+)\s*=(?!=))\s*(.+)")
_LOCAL_TARGET = re.compile(r"(\d+)f")
_MACRO_ARGUMENT = re.compile(r"\\[\w@]+(?:\(\))?")
_OUR_CSRS = "|".join(csr.name for csr in CSR_BY_NAME.values() if csr.group is not CsrGroup.BASE)
_CSR_NAME = re.compile(rf"\b({_OUR_CSRS})\b")
_LOOP_TARGETS = frozenset({"lpoff12", "lpoff5"})  # distances to the end of a loop
_PAIRS = frozenset({"call", "tail", "la", "lla", "li"})  # may expand to two instructions
_NO_CODE = (".loc", ".cfi_", ".file", ".size", ".type", ".globl", ".local", ".option", ".set", ".equ", ".weak")
_POWER_ALIGNMENTS = (".p2align", ".align")


class SourcePlaces:
    """Maps lines of assembly text to source lines by line markers of the preprocessor and ``.loc`` directives."""

    def __init__(self, text: str, source: Path) -> None:
        self._lines, self._source = text.split("\n"), source
        self._files = {
            match[1]: match[3] if match[3] and not match[2] else "/".join(filter(None, match.groups()[1:]))
            for line in self._lines
            if (match := _FILE.match(line))
        }

    def source_line(self, number: int) -> str:
        """Return ``file:line`` in the sources for a line of the text, counted from 1, or the source file alone."""
        for index in range(min(number, len(self._lines)) - 1, -1, -1):
            line = self._lines[index]
            if match := _MARKER.match(line):
                if match[2] and not match[2].startswith("<"):
                    return f"{match[2]}:{int(match[1]) + number - index - 2}"
            elif (match := _LOC.match(line)) and match[1] in self._files:
                return f"{self._shown(self._files[match[1]])}:{match[2]}"
        return str(self._source)

    def _shown(self, path: str) -> str:
        """Return ``path`` for a message; if it is the source file, as the user wrote it."""
        resolved = Path(path)
        return str(self._source) if resolved == self._source or resolved == self._source.absolute() else path

    def in_messages(self, messages: str, assembly: Path) -> str:
        """Replace lines of the file ``assembly`` in messages by lines of the sources."""
        start = re.compile(rf"^{re.escape(str(assembly))}(?::(\d+)(?::\d+)?)?:", re.MULTILINE)
        return start.sub(lambda match: f"{self.source_line(int(match[1])) if match[1] else self._source}:", messages)


@dataclass(frozen=True, slots=True)
class TranslationProblem:
    line: int  # line of the text, counted from 1
    text: str


def translate(text: str, config: CoreConfig) -> tuple[str, list[TranslationProblem]]:
    """Translate assembly text for a stock assembler; return the new text, line by line, and problems."""
    if not any(_OURS.search(line) for line in text.splitlines()):
        return text, []
    return _Translation(text, config).result()


def assembly_statements(line: str) -> list[str]:
    """Return the statements in a line of assembly text, without comments."""
    statements = [""]
    for piece in _PIECES.findall(line):
        if piece == ";":
            statements.append("")
        elif piece.startswith(("#", "//")):
            break
        else:
            statements[-1] += " " if piece.startswith("/*") else piece
    return statements


def _without_blocks(text: str) -> str:
    if "/*" not in text:
        return text
    keep = r'"(?:\\.|[^"\\\n])*"?|#.*|//.*'
    return re.sub(rf"({keep})|/\*.*?\*/", lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)


@dataclass(slots=True)
class _Loop:
    """A hardware loop whose end label the translation has not reached."""

    label: str
    line: int
    limit: int
    name: str
    bytes: int = 0


class _Translation:
    def __init__(self, text: str, config: CoreConfig) -> None:
        self._lines = _without_blocks(text).split("\n")
        with_aliases = enabled(config.extensions, config.widths, aliases=True)
        self._rows = {insn.key: insn for insn in (*with_aliases, *config.insns)}
        self._symbols: dict[str, int] = {}
        self._loops: list[_Loop] = []
        self._is_last = False  # the next instruction is the last of a hardware loop
        self._has_loops = _LOOPS.search(text) is not None
        self._macros: set[str] = set()
        self._in_macro = False  # in a macro that may be used in a hardware loop
        self._problems: list[TranslationProblem] = []
        self._number = 0
        self._line = 0

    def result(self) -> tuple[str, list[TranslationProblem]]:
        lines: list[str] = []
        for number, line in enumerate(self._lines, 1):
            self._line = number
            try:
                lines.append(self._translated(line))
            except EncodingError as error:
                self._problems.append(TranslationProblem(self._line, str(error)))
                lines.append("")
        for loop in self._loops:
            rule = f"end of {loop.name} must be a label after it"
            self._problems.append(TranslationProblem(loop.line, f"{rule}, not {loop.label}"))
        return "\n".join(lines), sorted(self._problems, key=lambda problem: problem.line)

    def _translated(self, line: str) -> str:
        if _LINE_MARKER.match(line):
            return line
        is_fixed = self._loops or self._is_last or self._in_macro or _MACRO.search(line)
        if not is_fixed and not _OURS.search(line):
            if match := _ASSIGNMENT.match(line):
                self._assign(match)
            return line
        return ";".join(self._statement(statement) for statement in assembly_statements(line))

    def _assign(self, match: re.Match[str]) -> None:
        name = match[1] or match[2]
        self._symbols.pop(name, None)
        try:
            self._symbols[name] = evaluate(assembly_statements(match[3])[0], self._symbols, 0)
        except EncodingError:
            # a label or an expression for the assembler
            return

    def _statement(self, text: str) -> str:
        labels = ""
        while match := _LABEL.match(text):
            labels += match[0]
            self._end_loops(match[1])
            text = text[match.end() :]
        if match := _ASSIGNMENT.match(text):
            self._assign(match)
        if not text.strip():
            return labels
        mnemonic, operands = statement_parts(text)
        for loop in self._loops:
            loop.bytes += self._most_bytes(mnemonic, operands)
        is_fixed = bool(self._loops) or self._is_last or self._in_macro
        is_code = not mnemonic.startswith(".") or mnemonic == ".insn"
        self._is_last = self._is_last and not is_code
        if mnemonic.lower().startswith("csr"):
            return labels + _CSR_NAME.sub(lambda name: hex(CSR_BY_NAME[name[1]].address), text)
        rows = candidates(mnemonic) if _OURS.match(text) else ()
        if not any(row.extension not in STOCK_EXTENSIONS for row in rows):
            if mnemonic in (".macro", ".endm"):
                self._in_macro = self._has_loops and mnemonic == ".macro"
                self._macros.update(operands[0].split()[:1] if operands else ())
            elif is_fixed and mnemonic not in self._macros:
                text = at_full_length(text) if is_code else filled_alignment(text) or text
            return f"{labels} {text}" if labels else text
        return f"{labels} {self._instruction(mnemonic, operands)}"

    def _most_bytes(self, mnemonic: str, operands: tuple[str, ...]) -> int:
        if mnemonic.startswith("."):
            if mnemonic in _POWER_ALIGNMENTS and operands[:1] and operands[0].isdecimal():
                return 1 << int(operands[0])
            if mnemonic.startswith(".balign") and operands[:1] and operands[0].isdecimal():
                return int(operands[0])
            return 0 if mnemonic.startswith(_NO_CODE) else WORD_BYTES * max(len(operands), 1)
        return 2 * WORD_BYTES if mnemonic in _PAIRS else WORD_BYTES

    def _end_loops(self, label: str) -> None:
        ended = [loop for loop in self._loops if loop.label in (label, f"{label}f")]
        for loop in ended:
            if loop.bytes > loop.limit:
                # an upper bound, since compressed instructions count in full
                rule = f"end of {loop.name} must be at most {loop.limit} bytes behind it"
                self._problems.append(TranslationProblem(loop.line, f"{rule}, not {loop.bytes}"))
        self._loops = [loop for loop in self._loops if loop not in ended]
        self._is_last = self._is_last or bool(ended)

    def _instruction(self, mnemonic: str, operands: tuple[str, ...]) -> str:
        insn, operands = _chosen(mnemonic, operands)
        if insn.key not in self._rows:
            missing = insn.extension.value
            if insn.fmt is not None:
                missing += f" with elements of {insn.fmt.width} bits"
            raise EncodingError(f"{mnemonic} must be an instruction of the core, which has no {missing}")
        insn = self._rows[insn.key]
        values: dict[str, int] = {}
        written: dict[str, str] = {}
        for token, text in operand_texts(insn, operands):
            value = self._value(token, text)
            if value is None:
                written[token.field.name] = text
            else:
                values[token.field.name] = value
        if not insn.takes(values) and (other := alternative_row(insn, values)):
            insn = self._rows.get(other.key, insn)
        for token in insn.tokens:
            if token.field.name in values:
                token.encode(values[token.field.name])
        if not written:
            return insn_directive(insn.encode(**values))
        for name in _LOOP_TARGETS & written.keys():
            return self._loop_setup(insn, values, name, written[name])
        return _symbolic(insn, values, written)

    def _value(self, token: Token, text: str) -> int | None:
        if "\\" in text:
            return None
        is_target = token.field.kind is FieldKind.TARGET
        try:
            return token_value(token, text, {} if is_target else self._symbols, 0)
        except EncodingError:
            if is_target or token.field.name in (intrinsics.LOAD_OFFSET, intrinsics.STORE_OFFSET):
                return None
            raise

    def _loop_setup(self, insn: Insn, values: Mapping[str, int], field: str, target: str) -> str:
        if "\\" in "".join([target, *map(str, values)]):
            raise EncodingError(f"target of {insn.mnemonic} must be a label, not {target}")
        token = next(token for token in insn.tokens if token.field.name == field)
        word = insn.encode(**values, **{field: 0})
        place, label = f".Lxp_loop{self._number}", f"{target[:-1]}f" if _LOCAL_TARGET.fullmatch(target) else target
        self._number += 1
        self._loops.append(_Loop(label, self._line, token.field.high, insn.mnemonic, WORD_BYTES))
        return f"{place}: .word {word:#x} + (({label} - {place}) << {token.field.shift})"


def _chosen(mnemonic: str, operands: tuple[str, ...]) -> tuple[Insn, tuple[str, ...]]:
    """Return the instruction and its operands; arguments of an assembler macro count as registers if possible."""
    arguments = [match[0] for operand in operands for match in _MACRO_ARGUMENT.finditer(operand)]
    if not arguments:
        return select(mnemonic, operands), operands
    failed: EncodingError | None = None
    for kinds in product(("x1", "1"), repeat=len(arguments)):
        stands = iter(kinds)
        shaped = tuple(_MACRO_ARGUMENT.sub(lambda _match, s=stands: next(s), operand) for operand in operands)
        try:
            return select(mnemonic, shaped), operands
        except EncodingError as error:
            failed = failed or error
    assert failed is not None
    raise failed


def _symbolic(insn: Insn, values: Mapping[str, int], written: Mapping[str, str]) -> str:
    def register(name: str) -> str:
        return written.get(name) or f"x{values[name]}"

    def number(part: intrinsics.InsnPart) -> str:
        (name,) = part.names
        field = next(token.field for token in insn.tokens if token.field.name == name)
        text = written.get(name)
        if text is None:
            bits = values[name] & intrinsics.RS2.high if intrinsics.BRANCH_OFFSET in written else values[name]
            return f"{part.constant | bits}" if part.constant else str(bits)
        if not intrinsics.is_whole(field):
            raise EncodingError(f"{name} of {insn.mnemonic} must be a number known in this line, not {text}")
        return f"{part.constant:#x} + {text}" if part.constant else text

    return intrinsics.directive(insn, register, number).replace("%l2", written.get(intrinsics.BRANCH_OFFSET, ""))
