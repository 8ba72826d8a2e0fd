"""The nets that the Verilog of a module shows, and their names."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from xpulpnn.emit import rtlil
from xpulpnn.emit.expr import Printer, self_width
from xpulpnn.emit.layout import Style, TextPiece, declared_range
from xpulpnn.emit.names import Enumerations, NameSpace, field_base, is_private, plain_name, port_name
from xpulpnn.emit.netlist import Netlist, Purposes
from xpulpnn.emit.operators import CHAINED, COMPARISONS, REDUCTIONS
from xpulpnn.emit.unpack import Unpacked, unpacked
from xpulpnn.emit.values import Sig, Slice, wires_of

_MAX_OPERATORS, _MAX_DEPTH = 12, 4  # limits of an expression: operators, and their nesting depth
_MAX_CHAINED = 60  # operators in an AND-OR selection of one of several words
_MAX_COPIES = 3  # places where a single operator is repeated rather than given a net


class _Size(NamedTuple):
    operators: int
    depth: int  # nesting depth of operators; 1 for a chain such as ``a | b | c``


class Nets:
    def __init__(self, netlist: Netlist, port_names: Sequence[str], clocking: Sequence[str], style: Style) -> None:
        self.module, self.netlist, self.style = netlist.module, netlist, style
        self.wires = self.module.wires
        self.ports = [f"\\{name}" for name in port_names]
        self.clocking = {f"\\{name}" for name in clocking}
        self.names = {
            port: style.clocking_name(port[1:]) if port in self.clocking else port_name(port[1:], style.separator)
            for port in self.ports
        }
        self.space = NameSpace(self.names.values())
        shown = {name: sig for name, sig in self.module.connects.items() if not is_private(name)}
        self.aliases = {name: sig for name, sig in shown.items() if field_base(name) is None}
        self.fields = {name: sig for name, sig in shown.items() if field_base(name) is not None}
        self.enumerations = Enumerations(self.wires, shown, self.space)
        self.shown_fields: list[str] = []
        self.unpacked_fields: set[str] = set()
        self.next_state: dict[str, list[rtlil.Statement]] = {}
        self.read: Counter[str] = Counter()
        self.part_names: dict[Slice, str] = {}
        self.printer = Printer(self._slice, self.enumerations)
        self.inlined, self.memories = self.printer.inlined, self.printer.memories

    def settle(self) -> None:
        """Decide which operators are written inside other expressions, and name all nets."""
        submodules = [cell for cell in self.module.cells if cell.is_submodule]
        for cell in submodules:
            self.names[cell.name] = self.space.take(plain_name(cell.name))
        self.memories |= {name: self.space.take(plain_name(name)) for name in self.module.memories}
        for cell in submodules:
            self._name_connections(cell)
        self._adopt_aliases()
        self._share_aliases()
        self._claim_next_states()
        self._choose_inlined()
        while twins := self._twins():
            self.netlist.merge(twins, self.aliases, self.fields)
            self._choose_inlined()
        self._name_rest()

    def is_inverted(self, wire: str | None) -> bool:
        return wire is not None and wire in self.clocking and self.style.inverts(wire[1:])

    def whole_net(self, sig: Sig) -> str | None:
        """Return the net that equals the whole value; None for parts of nets and concatenations."""
        if len(sig) == 1 and isinstance(sig[0], Slice) and sig[0].width == self.wires[sig[0].wire].width:
            return sig[0].wire
        return None

    def _name_connections(self, cell: rtlil.Cell) -> None:
        """Name the nets at the ports of a submodule after instance and port, and drop aliases called like the port."""
        instance = self.names[cell.name]
        for port, sig in cell.ports.items():
            same = [
                name
                for name, alias in self.aliases.items()
                if plain_name(name) == port and alias == sig and name not in self.ports
            ]
            for name in same:
                del self.aliases[name]
                self.fields = {field: part for field, part in self.fields.items() if field_base(field) != name}
            wire = self.whole_net(sig)
            if wire is None or wire in self.names:
                continue
            if plain_name(wire) == port or (same and is_private(wire)):
                self.names[wire] = self.space.take(f"{instance}_{port}")

    def _adopt_aliases(self) -> None:
        """Name a net without a source name after a net or field that is an alias of the whole net."""
        ports_first = sorted(self.aliases, key=lambda name: name not in self.ports)
        for table, names in ((self.aliases, ports_first), (self.fields, list(self.fields))):
            for name in names:
                wire = self.whole_net(table[name])
                if wire is None or not is_private(wire) or wire in self.names:
                    continue
                self.names[wire] = self.names.get(name) or self._field_name(name)
                del table[name]
                if name in self.ports:
                    self.wires[wire].port = self.wires[name].port
                    self.ports[self.ports.index(name)] = wire

    def _share_aliases(self) -> None:
        """Replace selects and concatenations by a net with the same value and a source name wherever they are read."""
        composed: dict[Sig, str] = {}
        for name, sig in [*self.aliases.items(), *self.fields.items()]:
            if name in self.ports:
                continue
            if len(sig) > 1 and any(isinstance(chunk, Slice) for chunk in sig):
                composed.setdefault(sig, name)
            elif len(sig) == 1 and isinstance(sig[0], Slice) and sig[0].width < self.wires[sig[0].wire].width:
                self.part_names.setdefault(sig[0], name)
        self.netlist.share(composed)
        used = set(wires_of(*self.netlist.sigs()))
        self.shown_fields += [name for name in self.fields if name in used]

    def _name_rest(self) -> None:
        for name in self.shown():
            if name not in self.names and not is_private(name):
                self.names[name] = self._field_name(name)
        places = {}
        for name, sig in self.aliases.items():
            low = self.wires[name].width
            for chunk in sig:
                low -= chunk.width
                if isinstance(chunk, Slice) and chunk.width == self.wires[chunk.wire].width:
                    high = low + chunk.width - 1
                    places[chunk.wire] = f"{self.names[name]}_{high}" + (f"_{low}" if low < high else "")
        purposes = Purposes(self.netlist, self.names, self.aliases)
        for name in self.driven():
            if name not in self.names and name not in self.inlined and name not in self.next_state:
                self.names[name] = self.space.take(places.get(name) or purposes.name(name))

    def _field_name(self, name: str) -> str:
        base = field_base(name)
        if base in self.names:
            return self.space.take(self.names[base] + plain_name(f"\\x{name[len(base) :]}")[1:])
        return self.space.take(plain_name(name))

    def driven(self) -> list[str]:
        driven = {rtlil.process_target(process) for process in self.module.processes}
        for cell in self.module.cells:
            driven.update(wires_of(*(cell.ports.get(port, ()) for port in self.netlist.cell_outputs(cell))))
        return [name for name in self.wires if name in driven]

    def shown(self) -> list[str]:
        """Return the nets that the Verilog may declare: driven nets, aliases and fields of structures."""
        return list(dict.fromkeys([*self.driven(), *self.aliases, *self.shown_fields]))

    def _slice(self, chunk: Slice) -> str:
        if self.is_inverted(chunk.wire):
            self.note_read(chunk)
            return f"~{self.names[chunk.wire]}"
        name = self.part_names.get(chunk)
        if name is None:
            return self.select(chunk)
        if name not in self.names:
            self.names[name] = self._field_name(name)
            self.shown_fields.append(name)
        self.note_read(Slice(name, 0, chunk.width))
        return self.names[name]

    def unpack(self) -> list[Unpacked]:
        """Assign structures whose fields are mostly read to one net per field; return the assignments."""
        read: dict[str, set[Slice]] = {}
        for name in self.shown_fields:
            chunk, *others = self.fields[name]
            if not others and isinstance(chunk, Slice) and self.part_names.get(chunk) == name:
                read.setdefault(chunk.wire, set()).add(chunk)
        assignments: list[Unpacked] = []
        for wire, parts in read.items():
            if wire not in self.names:
                continue
            known = [part for part in self.part_names if part.wire == wire]
            assignments += unpacked(Slice(wire, 0, self.wires[wire].width), known, parts)
        for field in (field for _, fields in assignments for field in fields):
            name = self.part_names[field]
            self.unpacked_fields.add(name)
            if name not in self.names:
                self.names[name] = self._field_name(name)
                self.shown_fields.append(name)
        return assignments

    def select(self, chunk: Slice) -> str:
        self.note_read(chunk)
        return self.target(chunk)

    def note_read(self, chunk: Slice) -> None:
        self.read[chunk.wire] |= ((1 << chunk.width) - 1) << chunk.low

    def condition(self, sig: Sig) -> str:
        """Return the Verilog expression of a one-bit condition; an active-low reset port is inverted."""
        wire = self.whole_net(sig)
        if wire is not None and self.is_inverted(wire):
            self.note_read(Slice(wire, 0, 1))
            return f"!{self.names[wire]}"
        return self.printer.condition(sig)

    def forget(self, name: str) -> None:
        self.aliases.pop(name, None)
        if name in self.shown_fields:
            self.shown_fields.remove(name)

    def target(self, chunk: Slice) -> str:
        name = self.names[chunk.wire]
        if chunk.width == self.wires[chunk.wire].width:
            return name
        high = chunk.low + chunk.width - 1
        return f"{name}[{high}:{chunk.low}]" if chunk.width > 1 else f"{name}[{high}]"

    def field_of(self, chunk: Slice) -> str:
        name = self.part_names.get(chunk, "")
        base = field_base(name) if name else None
        return "" if base is None else name[len(base) :].lstrip(".")

    def sources(self, sigs: Iterable[Sig]) -> set[str]:
        """Return the nets that the Verilog expressions of the values read."""
        wires: set[str] = set()
        stack = list(sigs)
        while stack:
            for chunk in stack.pop():
                if not isinstance(chunk, Slice):
                    continue
                cell = self.inlined.get(chunk.wire)
                if cell is None:
                    wires.add(self.part_names.get(chunk, chunk.wire))
                else:
                    stack += self.netlist.inputs(cell)
        return wires

    def piece(self, wire: str, text: str, sources: set[str]) -> TextPiece:
        declaration = f"wire {declared_range(self.wires[wire].width)}{self.names[wire]}"
        return TextPiece(wire, [f"assign {self.names[wire]} = {text};"], sources - {wire}, declaration=declaration)

    def _uses(self) -> Counter[str]:
        """Count the reads of each net; a condition that registers of one block share counts once."""
        shown = [self.fields[name] for name in self.shown_fields]
        uses = Counter(
            chunk.wire
            for sig in (*self.netlist.sigs(), *self.aliases.values(), *shown)
            for chunk, _repeats in groupby(sig)
            if isinstance(chunk, Slice)
        )
        conditions = Counter(
            statement.selector
            for process in self.next_state.values()
            for statement in rtlil.all_statements(process)
            if isinstance(statement, rtlil.Switch)
        )
        for condition, count in conditions.items():
            for wire in wires_of(condition):
                uses[wire] -= count - 1
        return uses

    def _claim_next_states(self) -> None:
        """Move processes that only compute the next state of a register into the block of the register."""
        uses = self._uses()
        processes = {rtlil.process_target(process): process for process in self.module.processes}
        for cell in (cell for cell in self.module.cells if cell.type == rtlil.REGISTER):
            wire = self.whole_net(cell.ports["D"])
            if wire in processes and is_private(wire) and wire not in self.names and uses[wire] == 1:
                self.next_state[wire] = processes[wire]

    def _choose_inlined(self) -> None:
        self.inlined.clear()
        uses = self._uses()
        sizes: dict[str, _Size] = {}
        cells = {cell.result: cell for cell in self.module.cells if cell.is_operator}
        clocked = (cell for cell in self.module.cells if cell.is_clocked or cell.type == rtlil.MEMORY_WRITE)
        held = set(wires_of(*(cell.ports["CLK"] for cell in clocked)))
        for sig in (*self.netlist.sigs(), *self.aliases.values(), *self.fields.values()):
            held |= {chunk.wire for chunk in sig if isinstance(chunk, Slice) and self.whole_net((chunk,)) is None}

        def measure(name: str) -> _Size:
            if name in sizes:
                return sizes[name]
            sizes[name] = _Size(0, 0)
            cell = cells.get(name)
            if cell is not None and is_private(name) and name not in self.names and name not in held:
                operators, depth = 1, 0
                for wire in dict.fromkeys(wires_of(*self.netlist.inputs(cell))):
                    inner = measure(wire)
                    is_chain = inner.operators and cell.type in CHAINED and cells[wire].type == cell.type
                    operators += inner.operators
                    depth = max(depth, inner.depth - 1 if is_chain else inner.depth)
                size = _Size(operators, depth + (cell.type not in COMPARISONS and cell.type != "$not"))
                if self_width(cell) == self.wires[name].width and self._fits(cell, size, uses[name]):
                    sizes[name] = size
            return sizes[name]

        for name, cell in cells.items():
            if measure(name).operators:
                self.inlined[name] = cell

    def _twins(self) -> dict[str, str]:
        """Map each net without a source name that needs a declaration to a declared net with the same value."""
        cells = {cell.result: cell for cell in self.module.cells if cell.is_operator and cell.type != rtlil.MEMORY_READ}
        operator = self.netlist.structure(cells, self.inlined.keys() & cells.keys())
        first: dict[Hashable, str] = {}
        for name in sorted((name for name in cells if name not in self.inlined), key=is_private):
            first.setdefault(operator(name), name)
        declared = (name for name in cells if name not in self.inlined and name not in self.names and is_private(name))
        return {name: twin for name in declared if (twin := first[operator(name)]) != name}

    @staticmethod
    def _fits(cell: rtlil.Cell, size: _Size, uses: int) -> bool:
        if uses <= 1:
            operators = _MAX_CHAINED if cell.type == "$or" else _MAX_OPERATORS
            return size.operators <= operators and size.depth <= _MAX_DEPTH
        repeats_well = cell.type in COMPARISONS or cell.type in REDUCTIONS or cell.type == "$not"
        return size.operators <= 1 and (repeats_well or uses <= _MAX_COPIES)
