"""Writes one module as Verilog-2005 text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.emit.expr import Printer, literal, self_width
from xpulpnn.emit.names import NameSpace, field_base, is_private, plain_name, port_name
from xpulpnn.emit.netlist import (
    MEMORY_WRITE,
    REGISTER,
    Netlist,
    is_operator,
    is_submodule,
    process_target,
    write_enable,
)
from xpulpnn.emit.process import INDENT, ProcessPrinter, is_reset
from xpulpnn.emit.rtlil import Assign, Cell, Module, Sig, Slice, Statement, Switch
from xpulpnn.emit.style import Interface, Style, is_reset_port

_MAX_OPERATORS = 6
"""Operators in one expression, beyond which an intermediate net reads better."""


@dataclass(frozen=True, slots=True)
class Net:
    """A register or named signal of a module."""

    name: str
    width: int
    reset: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleText:
    """A module's text from its parameter list on, and the names declared in it."""

    text: str
    registers: tuple[Net, ...]
    signals: tuple[Net, ...]
    instances: tuple[tuple[str, str], ...]


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


class ModuleWriter:
    """Writes one module.

    Parameters
    ----------
    module : Module
        The parsed RTLIL.
    port_names : sequence of str
        Port names in the wanted order.
    known : mapping
        Every module that may be instantiated.
    style : Style
        How the text is to look.
    clocking : sequence of str
        Which of the ports are clocks and resets that clock domains brought.
    """

    def __init__(
        self,
        module: Module,
        port_names: Sequence[str],
        known: Mapping[str, Interface],
        style: Style,
        clocking: Sequence[str] = (),
    ) -> None:
        self._style = style
        self._known = known
        self._netlist = Netlist(module, {name: interface.outputs for name, interface in known.items()})
        self._module = module
        self._wires = module.wires
        self._ports = [f"\\{name}" for name in port_names]
        self._clocking = {f"\\{name}" for name in clocking}
        self._names = {port: self._port_name(port) for port in self._ports}
        self._space = NameSpace(self._names.values())
        shown = {name: sig for name, sig in module.connects.items() if not is_private(name)}
        self._aliases = {name: sig for name, sig in shown.items() if field_base(name) is None}
        self._fields = {name: sig for name, sig in shown.items() if field_base(name) is not None}
        self._part_names: dict[Slice, str] = {}
        self._shown_fields: list[str] = []
        self._inlined: dict[str, Cell] = {}
        self._memories: dict[str, str] = {}
        self._printer = Printer(self._slice, self._inlined, self._memories)
        self._next_state: dict[str, list[Statement]] = {}

    def write(self) -> ModuleText:
        """The text of the module."""
        submodules = [cell for cell in self._module.cells if is_submodule(cell)]
        for cell in submodules:
            self._names[cell.name] = self._space.take(plain_name(cell.name))
        self._memories |= {name: self._space.take(plain_name(name)) for name in self._module.memories}
        for cell in submodules:
            self._name_connections(cell)
        self._adopt_aliases()
        self._share_aliases()
        self._claim_next_states()
        self._choose_inlined()
        self._name_rest()
        body = [line for cell in submodules for line in self._instance(cell)]
        body += self._operators()
        for process in self._module.processes:
            if process_target(process) not in self._next_state:
                body += self._combinational(process)
        registers = self._registers()
        body += [line for cell in registers for line in self._sequential(cell)]
        body += self._memory_writes()
        body += self._assigns()
        declarations = self._declarations(registers)
        text = "\n".join([*self._header(), *(INDENT + line for line in [*declarations, *body]), "endmodule"])
        return ModuleText(
            f"{text}\n",
            tuple(self._register(cell) for cell in registers),
            tuple(Net(self._names[name], self._wires[name].width) for name in self._signals()),
            tuple((self._names[cell.name], cell.type[1:]) for cell in submodules),
        )

    def _port_name(self, wire: str) -> str:
        name = wire[1:]
        return self._style.clocking_name(name) if wire in self._clocking else port_name(name)

    def _inverted(self, wire: str) -> bool:
        """Whether a port has the opposite level of the net that it stands for."""
        return self._style.is_asynchronous and wire in self._clocking and is_reset_port(wire[1:])

    def _whole(self, sig: Sig) -> str | None:
        """The net of which a value is every bit."""
        if len(sig) == 1 and isinstance(sig[0], Slice) and sig[0].width == self._wires[sig[0].wire].width:
            return sig[0].wire
        return None

    # Names

    def _name_connections(self, cell: Cell) -> None:
        """Call the nets at a submodule's ports after both, and forget further names of its operands."""
        instance = self._names[cell.name]
        for port, sig in cell.ports.items():
            same = [name for name, alias in self._aliases.items() if plain_name(name) == port and alias == sig]
            for name in same:
                del self._aliases[name]
                self._fields = {field: part for field, part in self._fields.items() if field_base(field) != name}
            wire = self._whole(sig)
            if wire is None or wire in self._names:
                continue
            if plain_name(wire) == port or (same and is_private(wire)):
                self._names[wire] = self._space.take(f"{instance}_{port}")

    def _adopt_aliases(self) -> None:
        """Give anonymous nets the name under which the source knows their whole value, or a part of a name."""
        ports_first = sorted(self._aliases, key=lambda name: name not in self._ports)
        for table, names in ((self._aliases, ports_first), (self._fields, list(self._fields))):
            for name in names:
                wire = self._whole(table[name])
                if wire is None or not is_private(wire) or wire in self._names:
                    continue
                self._names[wire] = self._names.get(name) or self._field_name(name)
                del table[name]
                if name in self._ports:
                    self._wires[wire].port = self._wires[name].port
                    self._ports[self._ports.index(name)] = wire

    def _share_aliases(self) -> None:
        """Prefer names over selects and concatenations wherever a named value is read."""
        composed: dict[Sig, str] = {}
        for name, sig in [*self._aliases.items(), *self._fields.items()]:
            if name in self._ports:
                continue
            if len(sig) > 1 and any(isinstance(chunk, Slice) for chunk in sig):
                composed.setdefault(sig, name)
            elif len(sig) == 1 and isinstance(sig[0], Slice) and sig[0].width < self._wires[sig[0].wire].width:
                self._part_names.setdefault(sig[0], name)
        self._netlist.share(composed)
        used = {chunk.wire for sig in self._netlist.sigs() for chunk in sig if isinstance(chunk, Slice)}
        self._shown_fields += [name for name in self._fields if name in used]

    def _name_rest(self) -> None:
        for name in [*self._driven(), *self._aliases, *self._shown_fields]:
            if name not in self._names and not is_private(name):
                self._names[name] = self._field_name(name)
        places = {}
        for name, sig in self._aliases.items():
            low = self._wires[name].width
            for chunk in sig:
                low -= chunk.width
                if isinstance(chunk, Slice) and chunk.width == self._wires[chunk.wire].width:
                    high = low + chunk.width - 1
                    places[chunk.wire] = f"{self._names[name]}_{high}" + (f"_{low}" if low < high else "")
        number = 0
        for name in self._driven():
            if name in self._names or name in self._inlined or name in self._next_state:
                continue
            if name in places:
                self._names[name] = self._space.take(places[name])
            else:
                number += 1
                self._names[name] = self._space.take(f"n{number}")

    def _field_name(self, name: str) -> str:
        base = field_base(name)
        if base in self._names:
            return self._space.take(self._names[base] + plain_name(f"\\x{name[len(base) :]}")[1:])
        return self._space.take(plain_name(name))

    def _driven(self) -> list[str]:
        """Nets with a driver, in the order of the RTLIL."""
        driven = {process_target(process) for process in self._module.processes}
        for cell in self._module.cells:
            for port in self._netlist.cell_outputs(cell):
                driven |= {chunk.wire for chunk in cell.ports.get(port, ()) if isinstance(chunk, Slice)}
        return [name for name in self._wires if name in driven]

    def _slice(self, chunk: Slice) -> str:
        """Text of a slice that is read."""
        if self._inverted(chunk.wire):
            return f"~{self._names[chunk.wire]}"
        name = self._part_names.get(chunk)
        if name is None:
            return self._select(chunk)
        if name not in self._names:
            self._names[name] = self._field_name(name)
            self._shown_fields.append(name)
        return self._names[name]

    def _select(self, chunk: Slice) -> str:
        name = self._names[chunk.wire]
        if chunk.width == self._wires[chunk.wire].width:
            return name
        high = chunk.low + chunk.width - 1
        return f"{name}[{high}:{chunk.low}]" if chunk.width > 1 else f"{name}[{high}]"

    # Which nets disappear

    def _uses(self) -> Counter[str]:
        uses: Counter[str] = Counter()
        shown = [self._fields[name] for name in self._shown_fields]
        for sig in (*self._netlist.sigs(), *self._aliases.values(), *shown):
            uses.update(chunk.wire for chunk in sig if isinstance(chunk, Slice))
        return uses

    def _claim_next_states(self) -> None:
        """Move processes that compute nothing but a register's next state into the register's block."""
        uses = self._uses()
        processes = {process_target(process): process for process in self._module.processes}
        for cell in self._registers():
            wire = self._whole(cell.ports["D"])
            if wire in processes and is_private(wire) and wire not in self._names and uses[wire] == 1:
                self._next_state[wire] = processes[wire]

    def _choose_inlined(self) -> None:
        """Write operators that are read once where they are read, up to a readable size."""
        uses = self._uses()
        sizes: dict[str, int] = {}
        cells = {self._netlist.result(cell): cell for cell in self._module.cells if is_operator(cell)}
        clocks = {
            chunk.wire
            for cell in self._module.cells
            if cell.type in (REGISTER, MEMORY_WRITE)
            for chunk in cell.ports["CLK"]
            if isinstance(chunk, Slice)
        }
        whole = {self._whole((chunk,)) for sig in (*self._netlist.sigs(), *self._aliases.values()) for chunk in sig}

        def size(name: str) -> int:
            """Operators in the text of ``name``: 0 for a net with a name."""
            if name not in sizes:
                cell = cells.get(name)
                if cell is None:
                    sizes[name] = 0
                else:
                    output = self._netlist.cell_outputs(cell)
                    operands = [sig for port, sig in cell.ports.items() if port not in output]
                    count = 1 + sum(size(chunk.wire) for sig in operands for chunk in sig if isinstance(chunk, Slice))
                    fits = (
                        is_private(name)
                        and name not in self._names
                        and name not in clocks
                        and uses[name] == 1
                        and name in whole
                        and self_width(cell) == self._wires[name].width
                        and count < _MAX_OPERATORS
                    )
                    sizes[name] = count if fits else 0
            return sizes[name]

        for name, cell in cells.items():
            if size(name):
                self._inlined[name] = cell

    # Text

    def _header(self) -> list[str]:
        procedural = self._procedural()
        rows = []
        for port in self._ports:
            wire = self._wires[port]
            kind = "reg" if port in procedural else "wire"
            rows.append(f"{INDENT}{wire.port} {kind} {_range(wire.width)}{self._names[port]}")
        return [" (", ",\n".join(rows), ");"]

    def _procedural(self) -> set[str]:
        """Nets assigned in ``always`` blocks."""
        clocked = {self._netlist.result(cell) for cell in self._registers()}
        return clocked | {process_target(process) for process in self._module.processes}

    def _registers(self) -> list[Cell]:
        return [cell for cell in self._module.cells if cell.type == REGISTER]

    def _register(self, cell: Cell) -> Net:
        wire = self._wires[self._netlist.result(cell)]
        return Net(self._names[wire.name], wire.width, None if wire.init is None else int(wire.init, 2))

    def _hidden(self) -> set[str]:
        return {*self._ports, *self._inlined, *self._next_state}

    def _signals(self) -> list[str]:
        """Declared nets other than registers and ports that bear a name from the source."""
        clocked = {self._netlist.result(cell) for cell in self._registers()}
        names = dict.fromkeys([*self._driven(), *self._aliases, *self._shown_fields])
        return [name for name in names if name not in self._hidden() | clocked and not is_private(name)]

    def _declarations(self, registers: list[Cell]) -> list[str]:
        procedural = self._procedural()
        clocked = [self._netlist.result(cell) for cell in registers]
        names = dict.fromkeys([*clocked, *self._driven(), *self._aliases, *self._shown_fields])
        hidden = self._hidden()
        arrays = [
            f"reg {_range(memory.width)}{self._memories[memory.name]} [0:{memory.depth - 1}];"
            for memory in self._module.memories.values()
        ]
        return arrays + [
            f"{'reg' if name in procedural else 'wire'} {_range(self._wires[name].width)}{self._names[name]};"
            for name in names
            if name not in hidden
        ]

    def _instance(self, cell: Cell) -> list[str]:
        rows = []
        for port, sig in cell.ports.items():
            name, text = port_name(port), self._printer.sig(sig)
            if self._style.is_asynchronous and port in self._known[cell.type[1:]].resets:
                name, wire = self._style.clocking_name(port), self._whole(sig)
                straight = wire is not None and self._inverted(wire)
                rows.append(f"{INDENT}.{name}({self._names[wire] if wire and straight else f'~{text.operand}'})")
            elif sig:
                rows.append(f"{INDENT}.{name}({text.text})")
        return [f"{cell.type[1:]} {self._names[cell.name]} (", *",\n".join(rows).split("\n"), ");"]

    def _operators(self) -> list[str]:
        return [
            f"assign {self._names[result]} = {self._printer.cell(cell).text};"
            for cell in self._module.cells
            if is_operator(cell) and (result := self._netlist.result(cell)) not in self._inlined
        ]

    def _combinational(self, process: list[Statement]) -> list[str]:
        lines = ProcessPrinter(self._printer, self._select, "=").lines(process)
        return ["always @* begin", *(INDENT + line for line in lines), "end"]

    def _sequential(self, cell: Cell) -> list[str]:
        register = self._netlist.result(cell)
        width = self._wires[register].width
        data = cell.ports["D"]
        process = self._next_state.get(self._whole(data) or "")
        statements = list(process or [Assign(Slice(register, 0, width), data)])
        first = statements[0]
        if isinstance(first, Assign) and first.value == (Slice(register, 0, width),):
            # A register holds its value without being told so.
            del statements[0]

        def target(chunk: Slice) -> str:
            return self._select(Slice(register, chunk.low, chunk.width))

        printer = ProcessPrinter(self._printer, target, "<=")
        reset = statements.pop() if statements and is_reset(statements[-1], width) else None
        lines = printer.lines(statements)
        event = ""
        if isinstance(reset, Switch):
            condition, negated = self._condition(reset.selector)
            lines = printer.if_else(condition, negated, printer.lines(reset.cases[0][1]), lines)
            wire = self._whole(reset.selector)
            if wire is not None and self._inverted(wire):
                event = f" or negedge {self._names[wire]}"
        # An initial value in the declaration would be set before any process waits for its change.
        init = self._wires[register].init if self._style.initial else None
        start = [] if init is None else [f"initial {self._names[register]} = {literal(init)};"]
        return [*start, *self._clocked(cell, lines, event)]

    def _condition(self, sig: Sig) -> tuple[str, str]:
        """A bit and its opposite as conditions."""
        wire = self._whole(sig)
        if wire is not None and self._inverted(wire):
            return f"!{self._names[wire]}", self._names[wire]
        text = self._printer.sig(sig)
        return text.text, f"!{text.operand}"

    def _clocked(self, cell: Cell, lines: list[str], event: str = "") -> list[str]:
        """``lines`` at the clock edge of a register or write port, and at another event."""
        edge = "posedge" if cell.flag("CLK_POLARITY") else "negedge"
        edge = "edge" if self._style.both_edges else edge
        clock = self._printer.sig(cell.ports["CLK"]).text
        return [f"always @({edge} {clock}{event}) begin", *(INDENT + line for line in lines), "end"]

    def _memory_writes(self) -> list[str]:
        """Initial contents and write ports of the memories."""
        lines: list[str] = []
        for memory in self._module.memories.values():
            words = [memory.init[at : at + memory.width] for at in range(0, len(memory.init), memory.width)]
            name = self._memories[memory.name]
            fill = [f"{name}[{index}] = {literal(word)};" for index, word in enumerate(reversed(words))]
            lines += ["initial begin", *(INDENT + line for line in fill), "end"]
        for port in (cell for cell in self._module.cells if cell.type == MEMORY_WRITE):
            enable, data = (self._printer.sig(sig).text for sig in (write_enable(port), port.ports["DATA"]))
            lines += self._clocked(port, [f"if ({enable})", f"{INDENT}{self._printer.word(port)} <= {data};"])
        return lines

    def _assigns(self) -> list[str]:
        lines = []
        for name in [*self._aliases, *self._shown_fields]:
            sig = self._aliases.get(name) or self._fields[name]
            text = self._printer.sig(sig).text
            if len(sig) == 1 and isinstance(sig[0], Slice) and sig[0].wire not in self._inlined:
                # A part bears its own name, so it is written as the select it stands for.
                text = self._select(sig[0])
            lines.append(f"assign {self._names[name]} = {text};")
        return lines
