"""Writes registers, memories, and arrays of similar registers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from xpulpnn.emit.expr import verilog_literal
from xpulpnn.emit.layout import INDENT, declared_range, rows
from xpulpnn.emit.nets import Nets
from xpulpnn.emit.process import Note, ProcessPrinter, guarded, if_else
from xpulpnn.emit.rtlil import MEMORY_READ, MEMORY_WRITE, REGISTER, Assign, Cell, Statement, Switch
from xpulpnn.emit.tree import Node, merged, tree
from xpulpnn.emit.values import Sig, Slice, bits, const_bits, runs, sig_width

MIN_ELEMENTS = 8  # a shorter array with a loop is harder to read than single registers

_NUMBERED = re.compile(r"(.*?)(\d+)")
_TOKEN = re.compile(r"\d+'h[0-9a-f]+|\w+|\W")
_LITERAL = re.compile(r"(\d+)'h([0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class Loop:
    elements: range
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrayOfRegisters:
    name: str  # common beginning of the names of the elements
    first: int
    last: int
    loops: tuple[Loop, ...]  # assignments at a clock edge


def _common(name: str, texts: dict[int, str], index: str) -> tuple[str, ...] | None:
    """Return the lines of array elements, with ``index`` for the element number; None if they differ elsewhere."""
    tokens = {number: _TOKEN.findall(text) for number, text in texts.items()}
    if len({len(row) for row in tokens.values()}) > 1:
        return None
    columns = (list(zip(tokens, column, strict=True)) for column in zip(*tokens.values(), strict=True))
    result = [_generic(name, column, index) for column in columns]
    return None if None in result else tuple("".join(filter(None, result)).split("\n"))


def _loops(name: str, texts: dict[int, str], index: str) -> tuple[Loop, ...]:
    """Return one loop over all array elements, or one over even and one over odd; the first element may be separate."""
    numbers = sorted(texts)
    for step in (1, 2):
        loops: list[Loop] = []
        for elements in (numbers[start::step] for start in range(step)):
            common = _common(name, {number: texts[number] for number in elements}, index)
            if common is None:
                first, *elements = elements
                separate = re.sub(rf"\b{name}{first}\b", f"{name}[{first}]", texts[first]).split("\n")
                common = _common(name, {number: texts[number] for number in elements}, index) if step > 1 else None
                loops += [Loop(range(first, first + 1), tuple(separate))] if common else []
            loops += [Loop(range(elements[0], elements[-1] + 1, step), common)] if common else []
        if sum(len(loop.elements) for loop in loops) == len(texts):
            return tuple(loops)
    return ()


def _generic(name: str, column: list[tuple[int, str]], index: str) -> str | None:
    """Return the token of array elements, with ``index`` for the element number; None if it differs elsewhere."""
    if len({token for _, token in column}) == 1:
        return column[0][1]
    if all(token == f"{name}{number}" for number, token in column):
        return f"{name}[{index}]"
    literals = [(number, match) for number, token in column if (match := _LITERAL.fullmatch(token))]
    widths = {int(match[1]) for _, match in literals}
    offsets = {number - int(match[2], 16) for number, match in literals}
    if len(literals) < len(column) or len(widths) > 1 or offsets not in ({0}, {1}):
        return None
    width = widths.pop()
    value = f"{index}[{width - 1}:0]"
    return value if offsets == {0} else f"({value} - {verilog_literal(f'{1:0{width}b}')})"


@dataclass(slots=True)
class _Block:
    event: str
    reset: Sig | None
    resets: list[Assign]
    nodes: list[Node]


class Clocked:
    def __init__(self, nets: Nets, note: Note) -> None:
        self._nets = nets
        self._cells = [cell for cell in nets.module.cells if cell.type == REGISTER]
        self._reads = [cell for cell in nets.module.cells if cell.type == MEMORY_READ and cell.is_clocked]
        self._writes = [cell for cell in nets.module.cells if cell.type == MEMORY_WRITE]
        self.targets = {cell.result for cell in (*self._cells, *self._reads)}
        self._print = ProcessPrinter(nets, "<=", note)
        self._blocks = {cell.result: self._block(cell) for cell in self._cells}
        self._index = ""
        self.arrays: dict[str, tuple[ArrayOfRegisters, int]] = {}
        self._find_arrays()

    def _find_arrays(self) -> None:
        """Replace numbered registers with similar statements by arrays."""
        nets = self._nets
        index = "i" if nets.space.is_free("i") else "index"
        wires = {nets.names[name]: name for name in self._blocks if name not in nets.ports}
        nodes = {name: self._blocks[wire].nodes for name, wire in wires.items() if name[-1].isdigit()}
        texts = {name: "\n".join(self._print.lines(nodes[name])) for name in nodes if nodes[name]}
        numbered = [match for name in texts if (match := _NUMBERED.fullmatch(name))]
        for name, run in groupby(numbered, key=lambda match: match[1]):
            members = {int(match[2]): wires[match[0]] for match in run}
            first, last = min(members), max(members)
            if len(members) < MIN_ELEMENTS or last - first + 1 != len(members) or not nets.space.is_free(name):
                continue
            of = [(nets.wires[wire], self._blocks[wire]) for wire in members.values()]
            if len({(wire.width, wire.init, block.event, block.reset) for wire, block in of}) > 1:
                continue
            bodies = {number: texts[nets.names[wire]] for number, wire in members.items()}
            loops = _loops(name, bodies, index)
            if not loops:
                continue
            self._index = self._index or nets.space.take(index)
            nets.space.take(name)
            array = ArrayOfRegisters(name, first, last, loops)
            for number, wire in members.items():
                nets.names[wire] = f"{name}[{number}]"
                self.arrays[wire] = array, number

    def registers(self) -> list[dict[str, Any]]:
        wires = (self._nets.wires[cell.result] for cell in self._cells)
        return [
            {"name": self._nets.names[wire.name], "width": wire.width, "reset": wire.init and int(wire.init, 2)}
            for wire in wires
        ]

    def declarations(self) -> list[str]:
        nets = self._nets
        lines = [
            f"reg {declared_range(memory.width)}{nets.memories[memory.name]} [0:{memory.depth - 1}];"
            for memory in nets.module.memories.values()
        ]
        kinds: dict[str, list[str]] = {}
        for wire in (*self._blocks, *(cell.result for cell in self._reads)):
            if wire not in nets.ports and wire not in self.arrays:
                kind = f"{nets.wires[wire].hint}reg {declared_range(nets.wires[wire].width)}"
                kinds.setdefault(kind, []).append(nets.names[wire])
        lines += [f"{kind}{', '.join(names)};" for kind, names in kinds.items()]
        lines += [
            f"reg {declared_range(nets.wires[wire].width)}{array.name} [{array.first}:{array.last}];"
            for array, wire in self._array_wires()
        ]
        return [*lines, *([f"integer {self._index};"] if self._index else [])]

    def _array_wires(self) -> list[tuple[ArrayOfRegisters, str]]:
        return [(array, wire) for wire, (array, number) in self.arrays.items() if number == array.first]

    def _loop(self, loop: Loop) -> list[str]:
        first, last, step = loop.elements[0], loop.elements[-1], loop.elements.step
        if first == last:
            return list(loop.lines)
        head = f"for ({self._index} = {first}; {self._index} <= {last}; {self._index} = {self._index} + {step})"
        return guarded(head, loop.lines)

    def _filled(self, array: ArrayOfRegisters, operator: str, value: str) -> list[str]:
        line = f"{array.name}[{self._index}] {operator} {verilog_literal(value)};"
        return self._loop(Loop(range(array.first, array.last + 1), (line,)))

    def initial(self) -> list[str]:
        nets = self._nets
        single, loops = [], []
        if nets.style.initial:
            for cell in self._cells:
                wire = nets.wires[cell.result]
                if wire.init is not None and wire.name not in self.arrays:
                    value = nets.enumerations.label(wire.enumeration, wire.init) or verilog_literal(wire.init)
                    single.append(f"{nets.names[wire.name]} = {value};")
            for array, name in self._array_wires():
                init = nets.wires[name].init
                if init is not None:
                    loops += self._filled(array, "=", init)
        for memory in nets.module.memories.values():
            words = [memory.init[at : at + memory.width] for at in range(0, len(memory.init), memory.width)]
            name = nets.memories[memory.name]
            if len(set(words)) == 1 and len(words) >= MIN_ELEMENTS:
                self._index = self._index or nets.space.take("i")
                line = f"{name}[{self._index}] = {verilog_literal(words[0])};"
                loops += self._loop(Loop(range(len(words)), (line,)))
                continue
            single += [f"{name}[{index}] = {verilog_literal(word)};" for index, word in enumerate(reversed(words))]
        lines = [*rows(single), *loops]
        # an initial value in a declaration can be set before a process starts to wait for changes
        return ["initial begin", *(INDENT + line for line in lines), "end"] if lines else []

    def lines(self) -> list[str]:
        blocks: list[_Block] = []
        for block in (block for wire, block in self._blocks.items() if wire not in self.arrays):
            for known in blocks:
                if (known.event, known.reset) == (block.event, block.reset):
                    nodes = merged(known.nodes, block.nodes)
                    if nodes is not None:
                        known.nodes = nodes
                        known.resets += block.resets
                        break
            else:
                blocks.append(block)
        lines = [
            line for block in blocks for line in _at(block.event, self._body(block), is_single=block.reset is not None)
        ]
        for array, wire in self._array_wires():
            block, loops = self._blocks[wire], [self._loop(loop) for loop in array.loops]
            if block.reset is not None:
                # tools look for an asynchronous reset outside of loops
                resets = self._filled(array, "<=", const_bits(block.resets[0].value) or "")
                loops = [if_else(self._nets.condition(block.reset), resets, [line for loop in loops for line in loop])]
            for loop in loops:
                lines += _at(block.event, loop, is_single=block.reset is not None)
        return lines + self._memory_ports()

    def _block(self, cell: Cell) -> _Block:
        register = cell.result
        width = self._nets.wires[register].width
        data = cell.ports["D"]
        process = self._nets.next_state.get(self._nets.whole_net(data) or "")
        statements = list(process or [Assign(Slice(register, 0, width), data)])
        first = statements[0]
        if isinstance(first, Assign) and first.value == (Slice(register, 0, width),):
            # a register holds its value without an assignment
            del statements[0]
        reset: Sig | None = None
        resets: list[Assign] = []
        event = self._event(cell)
        if statements and (async_reset := _reset(statements[-1], width)):
            del statements[-1]
            reset, value = async_reset
            resets.append(Assign(Slice(register, 0, width), value))
            wire = self._nets.whole_net(reset)
            name = self._nets.names.get(wire or "", "")
            if self._nets.is_inverted(wire):
                event += f" or negedge {name}"
            elif self._nets.style.inverts(name):
                # the reset of a domain that the component has made
                event += f" or posedge {name}"
        return _Block(event, reset, resets, [_retarget(node, register) for node in tree(statements)])

    def _event(self, cell: Cell) -> str:
        edge = "posedge" if cell.flag("CLK_POLARITY") else "negedge"
        clock = self._nets.printer.sig(cell.ports["CLK"]).text
        # the clocks of other domains are independent
        edge = "edge" if self._nets.style.both_edges and clock == "clk" else edge
        return f"{edge} {clock}"

    def _body(self, block: _Block) -> list[str]:
        lines = self._print.lines(block.nodes)
        if block.reset is not None:
            lines = if_else(self._nets.condition(block.reset), self._print.lines(block.resets), lines)
        return lines

    def _memory_ports(self) -> list[str]:
        lines: list[str] = []
        for port in self._writes:
            body = [
                line for part in write_enables(port) for line in self._write(port, self._nets.printer.word(port), part)
            ]
            lines += _at(self._event(port), body)
        for port in self._reads:
            lines += _at(self._event(port), self._read(port))
        return lines

    def _write(self, port: Cell, word: str, part: tuple[Sig, int, int], guard: str = "") -> list[str]:
        """Write a part of a memory word if its enable and the condition ``guard`` hold."""
        enable, low, width = part
        data = port.ports["DATA"]
        if width < sig_width(data):
            word += f"[{low + width - 1}:{low}]" if width > 1 else f"[{low}]"
        line = f"{word} <= {self._nets.printer.sig(bits(data, low, width)).text};"
        conditions = [guard] if guard else []
        if const_bits(enable) != "1":
            text = self._nets.printer.sig(enable)
            conditions.append(text.left_of("&") if guard else text.text)
        return guarded(f"if ({' & '.join(conditions)})", [line]) if conditions else [line]

    def _read(self, port: Cell) -> list[str]:
        """Read a memory word, with the parts that transparent write ports write in the same cycle."""
        printer, register = self._nets.printer, port.result
        name = self._nets.names[register]
        lines = [f"{name} <= {printer.word(port)};"]
        seen = int(port.params.get("TRANSPARENCY_MASK", 0))
        address = port.ports["ADDR"]
        for write in (cell for cell in self._writes if cell.params["MEMID"] == port.params["MEMID"]):
            if seen >> int(write.params["PORTID"]) & 1:
                other = write.ports["ADDR"]
                same = "" if other == address else f"({printer.sig(other).operand} == {printer.sig(address).operand})"
                lines += [line for part in write_enables(write) for line in self._write(write, name, part, same)]
        enable = port.ports["EN"]
        return lines if const_bits(enable) == "1" else guarded(f"if ({printer.condition(enable)})", lines)


def _at(event: str, lines: list[str], *, is_single: bool = False) -> list[str]:
    """Wrap the statements in an ``always`` block; ``is_single`` is true if they are one statement on several lines."""
    if is_single or len(lines) == 1 or lines[0].startswith("for ("):
        return [f"always @({event})", *(INDENT + line for line in lines)]
    return [f"always @({event}) begin", *(INDENT + line for line in lines), "end"]


def _reset(statement: Statement, width: int) -> tuple[Sig, Sig] | None:
    """Return condition and value if the statement resets a whole register on a one-bit condition."""
    match statement:
        case Switch(selector, [(("1",), [Assign(target, value)])]):
            if sig_width(selector) == 1 and target.width == width and const_bits(value) is not None:
                return selector, value
    return None


def _retarget(node: Node, register: str) -> Node:
    if isinstance(node, Assign):
        return Assign(Slice(register, node.target.low, node.target.width), node.value)
    return node.with_bodies(lambda body: [_retarget(inner, register) for inner in body])


def write_enables(port: Cell) -> Iterator[tuple[Sig, int, int]]:
    """Yield each enable bit of a write port, with lowest bit and width of the bits of the word that it enables."""
    enables = port.ports["EN"]
    return runs(sig_width(enables), lambda place: bits(enables, place, 1))
