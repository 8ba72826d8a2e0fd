"""Writes registers and memories."""

from collections.abc import Iterator
from dataclasses import dataclass

from xpulpnn.emit.expr import literal
from xpulpnn.emit.layout import INDENT, declared_range
from xpulpnn.emit.nets import Nets
from xpulpnn.emit.operators import MEMORY_WRITE, write_enable
from xpulpnn.emit.process import Note, ProcessPrinter, guarded, if_else
from xpulpnn.emit.rtlil import Assign, Cell, Module, Sig, Slice, Statement, Switch, const_bits, sig_width
from xpulpnn.emit.style import Style
from xpulpnn.emit.tree import Node, merged, tree


@dataclass(slots=True)
class _Block:
    """Registers in one ``always`` block: at which event, with which reset, and what they do otherwise."""

    event: str
    reset: Sig | None
    resets: list[Assign]
    nodes: list[Node]


class Clocked:
    """The registers and memories of a module.

    Parameters
    ----------
    module : Module
        The module.
    nets : Nets
        Its names.
    style : Style
        How the text is to look.
    note : callable
        Comment on a case.
    """

    def __init__(self, module: Module, nets: Nets, style: Style, note: Note) -> None:
        self._module = module
        self._nets = nets
        self._style = style
        self._cells = list(nets.registers())
        self.targets = {self._register(cell) for cell in self._cells}
        self.elements: set[str] = set()
        self._print = ProcessPrinter(nets.printer, nets.enumerations, nets.target, "<=", note)

    def _register(self, cell: Cell) -> str:
        chunk = cell.ports["Q"][0]
        assert isinstance(chunk, Slice)
        return chunk.wire

    def registers(self) -> Iterator[tuple[str, int, int | None]]:
        """Name, width and reset value of each register."""
        for cell in self._cells:
            wire = self._nets.wires[self._register(cell)]
            yield self._nets.names[wire.name], wire.width, None if wire.init is None else int(wire.init, 2)

    def declarations(self) -> list[str]:
        """Memories, and registers that are not ports."""
        nets = self._nets
        rows = [
            f"reg {declared_range(memory.width)}{nets.memories[memory.name]} [0:{memory.depth - 1}];"
            for memory in self._module.memories.values()
        ]
        for cell in self._cells:
            wire = nets.wires[self._register(cell)]
            if wire.name not in nets.ports:
                rows.append(f"reg {declared_range(wire.width)}{nets.names[wire.name]};")
        return rows

    def initial(self) -> list[str]:
        """Values before the first clock edge."""
        nets, rows = self._nets, []
        if self._style.initial:
            for cell in self._cells:
                wire = nets.wires[self._register(cell)]
                if wire.init is not None:
                    value = nets.enumerations.label(wire.enumeration, wire.init) or literal(wire.init)
                    rows.append(f"{nets.names[wire.name]} = {value};")
        for memory in self._module.memories.values():
            words = [memory.init[at : at + memory.width] for at in range(0, len(memory.init), memory.width)]
            name = nets.memories[memory.name]
            rows += [f"{name}[{index}] = {literal(word)};" for index, word in enumerate(reversed(words))]
        # initial values in declarations would be set before any process waits for their change
        return ["initial begin", *(INDENT + row for row in rows), "end"] if rows else []

    def lines(self) -> list[str]:
        """The blocks."""
        blocks: list[_Block] = []
        for cell in self._cells:
            block = self._block(cell)
            for known in blocks:
                if (known.event, known.reset) == (block.event, block.reset):
                    nodes = merged(known.nodes, block.nodes)
                    if nodes is not None:
                        known.nodes = nodes
                        known.resets += block.resets
                        break
            else:
                blocks.append(block)
        return [line for block in blocks for line in self._written(block)] + self._memory_writes()

    def _block(self, cell: Cell) -> _Block:
        """A block with one register."""
        register = self._register(cell)
        width = self._nets.wires[register].width
        data = cell.ports["D"]
        process = self._nets.next_state.get(self._nets.whole(data) or "")
        statements = list(process or [Assign(Slice(register, 0, width), data)])
        first = statements[0]
        if isinstance(first, Assign) and first.value == (Slice(register, 0, width),):
            # a register holds its value without being told so
            del statements[0]
        reset: Sig | None = None
        resets: list[Assign] = []
        event = self._event(cell)
        if statements and _is_reset(statements[-1], width):
            last = statements.pop()
            assert isinstance(last, Switch)
            reset = last.selector
            resets = [
                Assign(Slice(register, 0, width), value.value)
                for value in last.cases[0][1]
                if isinstance(value, Assign)
            ]
            wire = self._nets.whole(reset)
            if wire is not None and self._nets.is_inverted(wire):
                event += f" or negedge {self._nets.names[wire]}"
        return _Block(event, reset, resets, [_moved(node, register) for node in tree(statements)])

    def _event(self, cell: Cell) -> str:
        edge = "posedge" if cell.flag("CLK_POLARITY") else "negedge"
        edge = "edge" if self._style.both_edges else edge
        return f"{edge} {self._nets.printer.sig(cell.ports['CLK']).text}"

    def _written(self, block: _Block) -> list[str]:
        lines = self._print.lines(block.nodes)
        if block.reset is not None:
            lines = if_else(self._nets.condition(block.reset), self._print.lines(block.resets), lines)
        return [f"always @({block.event}) begin", *(INDENT + line for line in lines), "end"]

    def _memory_writes(self) -> list[str]:
        """Write ports of the memories."""
        lines: list[str] = []
        for port in (cell for cell in self._module.cells if cell.type == MEMORY_WRITE):
            data = self._nets.printer.sig(port.ports["DATA"]).text
            body = guarded(
                f"if ({self._nets.printer.condition(write_enable(port))})",
                [f"{self._nets.printer.word(port)} <= {data};"],
            )
            lines += [f"always @({self._event(port)}) begin", *(INDENT + line for line in body), "end"]
        return lines


def _is_reset(statement: Statement, width: int) -> bool:
    """Whether a last statement loads a whole register with a constant on a single-bit condition."""
    if not isinstance(statement, Switch) or sig_width(statement.selector) != 1 or len(statement.cases) != 1:
        return False
    patterns, body = statement.cases[0]
    if patterns != ("1",) or len(body) != 1 or not isinstance(body[0], Assign):
        return False
    return body[0].target.width == width and const_bits(body[0].value) is not None


def _moved(node: Node, register: str) -> Node:
    """The same with assignments to the register itself instead of to its next value."""
    if isinstance(node, Assign):
        return Assign(Slice(register, node.target.low, node.target.width), node.value)
    return node.with_bodies(lambda body: [_moved(inner, register) for inner in body])
