"""Writes one module as Verilog-2005 text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xpulpnn.emit.clocked import Clocked
from xpulpnn.emit.combinational import Combinational
from xpulpnn.emit.layout import INDENT, Interface, Style, TextPiece, broken_lines, comment, declared_range, ordered
from xpulpnn.emit.names import is_private, port_name
from xpulpnn.emit.netlist import Netlist
from xpulpnn.emit.nets import Nets
from xpulpnn.emit.process import Note, no_note
from xpulpnn.emit.rtlil import Cell, Module
from xpulpnn.emit.values import Sig, Slice, runs


@dataclass(frozen=True, slots=True)
class ModuleText:
    """The Verilog of a module from its parameter list on, and the names declared in it."""

    text: str
    summary: tuple[str, ...]
    registers: list[dict[str, Any]]  # name, width and value after reset of each
    signals: list[dict[str, Any]]  # name and width of each other net with a name from the source
    instances: tuple[tuple[str, str], ...]


class ModuleWriter:
    def __init__(
        self,
        module: Module,
        clocking: Sequence[str],
        meanings: Mapping[str, str],
        known: Mapping[str, Interface],
        style: Style,
        note: Note = no_note,
    ) -> None:
        self._known, self._note = known, note
        self._meanings = meanings  # in the order of the ports
        netlist = Netlist(module, {name: interface.outputs for name, interface in known.items()})
        self._nets = Nets(netlist, list(meanings), clocking, style)

    def write(self, summary: str) -> ModuleText:
        nets = self._nets
        meanings = [self._meanings[port[1:]] for port in nets.ports]
        nets.settle()
        clocked = Clocked(nets, self._note)
        combinational = Combinational(nets, clocked.arrays, self._note)
        submodules = [cell for cell in nets.module.cells if cell.is_submodule]
        operators = [cell for cell in nets.module.cells if cell.is_operator]
        pieces = [self._instance(cell) for cell in submodules]
        pieces += [self._operator(cell) for cell in operators if cell.result not in nets.inlined]
        pieces += combinational.pieces()
        # the first read of a part of a net can add a net to those that are shown
        after = clocked.lines()
        unpacked = self._unpacked()
        pieces += self._aliases()
        pieces = [*unpacked, *pieces]
        hidden = self._hidden()
        body = ordered(pieces, {name for name in nets.names if name in nets.wires and name not in hidden})
        procedural = clocked.targets | combinational.targets
        initial = clocked.initial()
        declared = self._declarations(clocked, combinational, body)
        lines = [*nets.enumerations.declarations(), *declared, *initial]
        lines += [line for piece in body for line in piece.lines] + after
        lines += self._unused(clocked)
        text = [*self._header(procedural, meanings), *(row for line in lines for row in broken_lines(INDENT + line))]
        return ModuleText(
            "\n".join([*text, "endmodule"]) + "\n",
            tuple(comment(summary)),
            clocked.registers(),
            [{"name": nets.names[name], "width": nets.wires[name].width} for name in self._signals(clocked)],
            tuple((nets.names[cell.name], cell.type[1:]) for cell in submodules),
        )

    def _header(self, procedural: Iterable[str], meanings: Sequence[str]) -> list[str]:
        nets, rows = self._nets, [" ("]
        before = [None, *meanings]
        for index, (port, meaning) in enumerate(zip(nets.ports, meanings, strict=True)):
            wire = nets.wires[port]
            kind = "reg" if port in procedural else "wire"
            comma = "," if index < len(nets.ports) - 1 else ""
            # adjacent ports with the same meaning share a comment
            rows += [INDENT + line for line in comment(meaning) if meaning != before[index]]
            rows.append(f"{INDENT}{wire.port} {kind} {declared_range(wire.width)}{nets.names[port]}{comma}")
        return [*rows, ");"]

    def _hidden(self) -> set[str]:
        return {*self._nets.ports, *self._nets.inlined, *self._nets.next_state}

    def _signals(self, clocked: Clocked) -> list[str]:
        names = self._nets.shown()
        hidden = self._hidden() | clocked.targets
        return [name for name in names if name not in hidden and not is_private(name)]

    def _declarations(self, clocked: Clocked, combinational: Combinational, body: Sequence[TextPiece]) -> list[str]:
        """Declare the nets that are not declared together with their assignment."""
        nets = self._nets
        elsewhere = self._hidden() | {piece.wire for piece in body if piece.declares} | clocked.targets
        kinds: dict[str, list[str]] = {}
        for name in nets.shown():
            if name in elsewhere:
                continue
            kind = "reg" if name in combinational.targets else "wire"
            kinds.setdefault(f"{kind} {declared_range(nets.wires[name].width)}", []).append(nets.names[name])
        return [*clocked.declarations(), *(f"{kind}{', '.join(names)};" for kind, names in kinds.items())]

    def _instance(self, cell: Cell) -> TextPiece:
        nets, interface = self._nets, self._known[cell.type[1:]]
        rows = []
        for port, sig in cell.ports.items():
            if not sig:
                continue
            if port in interface.clocking and nets.style.inverts(port):
                wire = nets.whole_net(sig)
                text = nets.names[wire] if wire and nets.is_inverted(wire) else f"~{nets.printer.sig(sig).operand}"
                if wire:
                    nets.note_read(Slice(wire, 0, 1))
                rows.append(f"{INDENT}.{nets.style.clocking_name(port)}({text})")
            elif port in interface.outputs:
                rows.append(f"{INDENT}.{port_name(port)}({self._driven(sig)})")
            else:
                rows.append(f"{INDENT}.{port_name(port)}({nets.printer.sig(sig).text})")
        values = {name: value if isinstance(value, int) else f'"{value}"' for name, value in cell.params.items()}
        settings = ", ".join(f".{name}({value})" for name, value in values.items())
        head = f"{cell.type[1:]} #({settings})" if settings else cell.type[1:]
        lines = [f"{head} {nets.names[cell.name]} (", *",\n".join(rows).split("\n"), ");"]
        return TextPiece("", lines, nets.sources(nets.netlist.inputs(cell)))

    def _driven(self, sig: Sig) -> str:
        chunks = [self._nets.target(chunk) for chunk in sig if isinstance(chunk, Slice)]
        return chunks[0] if len(chunks) == 1 else f"{{{', '.join(chunks)}}}"

    def _operator(self, cell: Cell) -> TextPiece:
        nets = self._nets
        text = nets.printer.cell(cell, nets.enumerations.of(cell.ports[cell.result_port])).text
        return nets.piece(cell.result, text, nets.sources(nets.netlist.inputs(cell)))

    def _aliases(self) -> list[TextPiece]:
        """Assign the aliases that statements read; these assignments may in turn read other aliases."""
        nets, pieces = self._nets, []
        done = set(nets.unpacked_fields)
        while True:
            rest = dict.fromkeys(name for name in (*nets.aliases, *nets.shown_fields) if name not in done)
            needed = [name for name in reversed(rest) if nets.read[name] or name in nets.ports]
            for name in needed:
                done.add(name)
                sig = nets.aliases.get(name) or nets.fields[name]
                if len(sig) == 1 and isinstance(sig[0], Slice) and sig[0].wire not in nets.inlined:
                    # a part has its own name, so the select is written
                    text, sources = nets.select(sig[0]), {sig[0].wire}
                else:
                    own = nets.enumerations.of((Slice(name, 0, nets.wires[name].width),))
                    text, sources = nets.printer.sig(sig, own).text, nets.sources([sig])
                pieces.append(nets.piece(name, text, sources))
            if not needed:
                for name in rest:
                    nets.forget(name)
                return pieces

    def _unpacked(self) -> list[TextPiece]:
        nets, pieces = self._nets, []
        for whole, fields in nets.unpack():
            names = [nets.names[nets.part_names[field]] for field in fields]
            structure = nets.part_names.get(whole, whole.wire)
            nets.note_read(Slice(structure, 0, whole.width))
            pieces.append(TextPiece("", [f"assign {{{', '.join(names)}}} = {nets.names[structure]};"], {structure}))
        return pieces

    def _unused(self, clocked: Clocked) -> list[str]:
        """Declare a net that reads all bits that nothing else reads, so that linters do not report them as unused."""
        nets = self._nets
        hidden = {*nets.inlined, *nets.next_state}
        parts = []
        for name in dict.fromkeys([*nets.shown(), *nets.ports]):
            wire = nets.wires[name]
            if name in hidden or wire.port == "output" or name in clocked.arrays:
                continue
            read = nets.read[name]
            pieces = runs(wire.width, lambda place, read=read: read >> place & 1)
            parts += [nets.target(Slice(name, low, width)) for is_read, low, width in pieces if not is_read]
        parts = list(dict.fromkeys(parts))
        if not parts:
            return []
        name = nets.space.take("unused")
        return [f"wire {name} = &{{1'b0, {', '.join(parts)}}};"]
