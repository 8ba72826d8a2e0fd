"""Verilog expressions for RTLIL values and operators.

RTLIL operators have an explicit result width, Verilog's depend on the context. :mod:`~xpulpnn.emit.fold` has given the
operands the width of the operation, so that an operator means the same in every context of that width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from xpulpnn.emit.names import Enumerations
from xpulpnn.emit.operators import ARITHMETIC, BITWISE, CHAINED, COMPARISONS, REDUCTIONS, SHIFTS, UNARY
from xpulpnn.emit.rtlil import MEMORY_READ, Cell, Enumeration
from xpulpnn.emit.values import Const, Sig, Slice, const_bits, sig_width
from xpulpnn.errors import ToolError

_CHAINED_SIGNS = frozenset((BITWISE | ARITHMETIC)[kind] for kind in CHAINED)


@dataclass(frozen=True, slots=True)
class Text:
    text: str  # Verilog source
    primary: bool = True  # a name, select, literal, concatenation or an inverted one of them: needs no parentheses
    signed: bool = False  # a signed expression; an unsigned operand beside it would change its meaning
    operator: str = ""  # the outermost operator, if it has two operands

    @property
    def operand(self) -> str:
        if self.signed:
            return f"$unsigned({self.text})"
        return self.text if self.primary else f"({self.text})"

    def inverted(self, operator: str) -> str:
        # an active-low reset is read inverted already, and Verilog has no two operators in a row
        return self.text[1:] if self.primary and self.text[0] == "~" else f"{operator}{self.operand}"

    def left_of(self, operator: str) -> str:
        return self.text if self.operator == operator and operator in _CHAINED_SIGNS else self.operand


def verilog_literal(bits: str) -> str:
    """Return a sized literal: binary for a single bit or with don't-care bits, else hexadecimal."""
    if len(bits) > 1 and set(bits) <= {"0", "1"}:
        return f"{len(bits)}'h{int(bits, 2):x}"
    return f"{len(bits)}'b{bits.replace('-', '?')}"


def self_width(cell: Cell) -> int:
    """Return the width that Verilog gives an operator outside of any context."""
    if cell.type in COMPARISONS or cell.type in REDUCTIONS:
        return 1
    if cell.type in SHIFTS or cell.type in UNARY:
        return sig_width(cell.ports["A"])
    if cell.type == MEMORY_READ:
        return sig_width(cell.ports["DATA"])
    return max(sig_width(cell.ports["A"]), sig_width(cell.ports["B"]))


class Printer:
    def __init__(self, name: Callable[[Slice], str], enumerations: Enumerations) -> None:
        self._name, self._enumerations = name, enumerations
        self.inlined: dict[str, Cell] = {}  # operators that are written at the places that read their nets
        self.memories: dict[str, str] = {}

    def sig(self, sig: Sig, enumeration: Enumeration | None = None) -> Text:
        constant = const_bits(sig)
        label = self._enumerations.label(enumeration, constant) if constant is not None else None
        if label is not None:
            return Text(label)
        if len(sig) == 1:
            return self._chunk(sig[0], enumeration)
        parts = []
        for text, run in groupby(self._chunk(chunk).text for chunk in sig):
            count = len(list(run))
            parts.append(text if count == 1 else f"{{{count}{{{text}}}}}")
        return Text(parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}")

    def condition(self, sig: Sig, *, negated: bool = False) -> str:
        """Return the Verilog expression of a condition of one bit, inverted if ``negated``."""
        chunk = sig[0]
        cell = self.inlined.get(chunk.wire) if isinstance(chunk, Slice) else None
        if cell is not None and cell.type == "$not":
            return self.condition(cell.ports["A"], negated=not negated)
        text = self.sig(sig)
        return text.inverted("!") if negated else text.text

    def _chunk(self, chunk: Const | Slice, enumeration: Enumeration | None = None) -> Text:
        if isinstance(chunk, Const):
            return Text(verilog_literal(chunk.bits))
        if chunk.wire in self.inlined:
            return self.cell(self.inlined[chunk.wire], enumeration)
        return Text(self._name(chunk))

    def cell(self, cell: Cell, enumeration: Enumeration | None = None) -> Text:
        kind, ports = cell.type, cell.ports
        if kind == MEMORY_READ:
            return Text(self.word(cell))
        if kind in REDUCTIONS:
            return self._unary(REDUCTIONS[kind], ports["A"])
        if kind in COMPARISONS:
            operands = (ports["A"], ports["B"]) if kind in ("$eq", "$ne") else ()
            enumeration, operator = self._enumerations.of(*operands), COMPARISONS[kind]
            left, right = (self._side(cell, port, enumeration) for port in ("A", "B"))
            return Text(f"{left} {operator} {right}", primary=False, operator=operator)
        if kind == "$mux":
            no = self.sig(ports["A"], enumeration)
            otherwise = no.text if no.operator == "?" else no.operand
            text = f"{self.sig(ports['S']).operand} ? {self.sig(ports['B'], enumeration).operand} : {otherwise}"
            return Text(text, primary=False, operator="?")
        if kind in UNARY:
            return self._unary(UNARY[kind], ports["A"])
        if kind in SHIFTS:
            signed = kind == "$sshr"
            left = self._side(cell, "A") if signed else self.sig(ports["A"]).operand
            return Text(f"{left} {SHIFTS[kind]} {self.sig(ports['B']).operand}", primary=False, signed=signed)
        if kind in BITWISE or kind in ARITHMETIC:
            signed = cell.flag("A_SIGNED")
            operator = (BITWISE | ARITHMETIC)[kind]
            left = self._side(cell, "A") if signed else self.sig(ports["A"]).left_of(operator)
            text = f"{left} {operator} {self._side(cell, 'B')}"
            return Text(text, primary=False, signed=signed, operator="" if signed else operator)
        raise ToolError(f"operator must be one that Verilog has too, not {kind}")

    def word(self, port: Cell) -> str:
        return f"{self.memories[str(port.params['MEMID'])]}[{self.sig(port.ports['ADDR']).text}]"

    def _unary(self, operator: str, sig: Sig) -> Text:
        if operator != "~" and len(sig) > 1 and all(chunk.width == 1 for chunk in sig):
            # single bits joined by the operator
            parts = [self._chunk(chunk) for chunk in reversed(sig)]
            text = f" {operator} ".join(part.left_of(operator) for part in parts)
            return Text(text, primary=False, operator=operator)
        text = self.sig(sig)
        if operator == "~":
            return Text(text.inverted("~"), primary=text.text[0] not in "&|^")
        # adjacent operator characters would be read as one operator
        operand = f"({text.text})" if text.text.startswith("~") else text.operand
        return Text(f"{operator}{operand}", primary=False)

    def _side(self, cell: Cell, port: str, enumeration: Enumeration | None = None) -> str:
        text = self.sig(cell.ports[port], enumeration)
        # the argument of a system function has its own width
        return f"$signed({text.text})" if cell.flag(f"{port}_SIGNED") else text.operand
