"""Verilog expressions for RTLIL values and operators.

RTLIL operators have an explicit result width, Verilog's take theirs from the context. An operator is written in place
only where both agree; a text whose value depends on the context is put in braces, which make it self-determined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from xpulpnn.emit.netlist import ARITHMETIC, BITWISE, COMPARISONS, MEMORY_READ, REDUCTIONS, SHIFTS, UNARY
from xpulpnn.emit.rtlil import Cell, Const, Sig, Slice, const_bits, sig_width
from xpulpnn.errors import ToolError


@dataclass(frozen=True, slots=True)
class Text:
    """An expression.

    Parameters
    ----------
    text : str
        Verilog source.
    primary : bool
        A name, select, literal or concatenation: needs no parentheses, means the same in every context.
    stable : bool
        Zero-extends in a wider context as RTLIL does.
    signed : bool
        A signed expression; an unsigned operand beside it would change its meaning.
    """

    text: str
    primary: bool = True
    stable: bool = True
    signed: bool = False

    @property
    def operand(self) -> str:
        """The expression as operand of an operator of its own width."""
        if self.signed:
            return f"{{{self.text}}}"
        return self.text if self.primary else f"({self.text})"

    @property
    def alone(self) -> str:
        """The expression with its own width and sign whatever the context."""
        return self.operand if self.stable else f"{{{self.text}}}"


def literal(bits: str) -> str:
    """A sized literal: hexadecimal, binary when it has don't-care bits."""
    if set(bits) <= {"0", "1"}:
        return f"{len(bits)}'h{int(bits, 2):x}"
    return f"{len(bits)}'b{bits.replace('-', '?')}"


def self_width(cell: Cell) -> int:
    """The width Verilog gives an operator on its own."""
    if cell.type in COMPARISONS or cell.type in REDUCTIONS:
        return 1
    if cell.type in SHIFTS or cell.type in UNARY:
        return sig_width(cell.ports["A"])
    if cell.type == MEMORY_READ:
        return sig_width(cell.ports["DATA"])
    return max(sig_width(cell.ports["A"]), sig_width(cell.ports["B"]))


class Printer:
    """Writes values and operators.

    Parameters
    ----------
    name : callable
        Text of a slice: a net's name, a select of it or the name of a field.
    inlined : dict
        Operators written where their result is read, by result net.
    memories : dict
        Names of the memories, by their names in RTLIL.
    """

    def __init__(self, name: Callable[[Slice], str], inlined: dict[str, Cell], memories: dict[str, str]) -> None:
        self._name = name
        self._inlined = inlined
        self._memories = memories

    def sig(self, sig: Sig) -> Text:
        """A value."""
        if len(sig) == 1:
            return self._chunk(sig[0])
        parts = []
        for text, run in groupby(self._chunk(chunk).text for chunk in sig):
            count = len(list(run))
            parts.append(text if count == 1 else f"{{{count}{{{text}}}}}")
        return Text(parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}")

    def _chunk(self, chunk: Const | Slice) -> Text:
        if isinstance(chunk, Const):
            return Text(literal(chunk.bits))
        if chunk.wire in self._inlined:
            return self.cell(self._inlined[chunk.wire])
        return Text(self._name(chunk))

    def cell(self, cell: Cell) -> Text:
        """An operator."""
        kind = cell.type
        if kind == MEMORY_READ:
            if cell.flag("CLK_ENABLE"):
                raise ToolError("read port of a memory must be in the domain comb, not clocked")
            return Text(self.word(cell))
        if kind in REDUCTIONS:
            return Text(REDUCTIONS[kind] + self.sig(cell.ports["A"]).operand, primary=False)
        if kind in COMPARISONS:
            return Text(self._comparison(cell), primary=False)
        width = sig_width(cell.ports["Y"])
        if kind == "$mux":
            select = self.sig(cell.ports["S"]).operand
            text = f"{select} ? {self._fit(cell.ports['B'], width)} : {self._fit(cell.ports['A'], width)}"
            return Text(text, primary=False, stable=False)
        signed = cell.flag("A_SIGNED")
        left = self._operand(cell, "A", width)
        if kind in UNARY:
            return Text(UNARY[kind] + left, primary=False, stable=False, signed=signed)
        if kind in SHIFTS:
            text = f"{left} {SHIFTS[kind]} {self.sig(cell.ports['B']).operand}"
            return Text(text, primary=False, stable=False, signed=signed)
        if kind in BITWISE or kind in ARITHMETIC:
            text = f"{left} {(BITWISE | ARITHMETIC)[kind]} {self._operand(cell, 'B', width)}"
            return Text(text, primary=False, stable=False, signed=signed)
        raise ToolError(f"operator must be one that Verilog has too, not {kind}")

    def word(self, port: Cell) -> str:
        """The word of a memory that a port addresses."""
        return f"{self._memories[str(port.params['MEMID'])]}[{self.sig(port.ports['ADDR']).text}]"

    def _fit(self, sig: Sig, width: int) -> str:
        """A value as operand in a context of ``width`` bits."""
        text = self.sig(sig)
        return text.operand if sig_width(sig) == width else text.alone

    def _operand(self, cell: Cell, port: str, width: int) -> str:
        sig = cell.ports[port]
        if not sig:
            return literal("0" * width)
        if cell.flag(f"{port}_SIGNED"):
            # A system function's argument is self-determined.
            return f"$signed({self.sig(sig).text})"
        return self._fit(sig, width)

    def _comparison(self, cell: Cell) -> str:
        width = max(sig_width(cell.ports["A"]), sig_width(cell.ports["B"]))
        sides = []
        for port in ("A", "B"):
            sig = cell.ports[port]
            signed = cell.flag(f"{port}_SIGNED")
            bits = const_bits(sig)
            if bits is not None:
                text = literal(bits.rjust(width, bits[0] if signed and bits else "0"))
                sides.append(f"$signed({text})" if signed else text)
            else:
                sides.append(self._operand(cell, port, width))
        return f"{sides[0]} {COMPARISONS[cell.type]} {sides[1]}"
