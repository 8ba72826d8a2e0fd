"""Simplifies one module before it is written: narrows operators, folds comparisons, names nets."""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from functools import cache
from itertools import chain

from xpulpnn.emit import rtlil
from xpulpnn.emit.fold import absorb_literals, inverted, known_result, normalise
from xpulpnn.emit.names import is_private
from xpulpnn.emit.operators import ARITHMETIC, BITWISE, COMPARISONS, LOW_BITS_SUFFICE, REDUCTIONS, UNARY
from xpulpnn.emit.values import Const, Sig, Slice, bits, joined, sig_width, wires_of

_TRUNCATED_PORTS = dict.fromkeys((*BITWISE, *ARITHMETIC, "$mux"), ("A", "B")) | dict.fromkeys((*UNARY, "$shl"), ("A",))


def _overlaid(statements: list[rtlil.Statement]) -> Sig | None:
    """Return the value of a net after these assignments, the last one wins; None if a statement is conditional."""
    value: Sig = ()
    for statement in statements:
        if not isinstance(statement, rtlil.Assign):
            return None
        low, width = statement.target.low, statement.target.width
        above = bits(value, low + width, max(0, sig_width(value) - low - width))
        value = above + statement.value + bits(value, 0, low)
    return joined(value)


class Netlist:
    """A module with one driver per net and every value expressed in driven nets."""

    def __init__(self, module: rtlil.Module, outputs: Mapping[str, frozenset[str]]) -> None:
        self.module = module
        self.outputs = outputs
        self.wires = module.wires
        self.aliases: dict[str, Sig] = module.connects
        self._widen_shifts()
        self._settle_processes()
        changed = True
        while changed:
            self._narrow()
            for cell in self.module.cells:
                normalise(cell)
            changed = self._fold()
        self._merge_replicas()

    def sigs(self) -> Iterator[Sig]:
        for cell in self.module.cells:
            yield from self.inputs(cell)
        for process in self.module.processes:
            yield from rtlil.statement_sigs(process)

    def cell_outputs(self, cell: rtlil.Cell) -> frozenset[str]:
        return self.outputs[cell.type[1:]] if cell.is_submodule else frozenset({cell.result_port})

    def inputs(self, cell: rtlil.Cell) -> list[Sig]:
        outputs = self.cell_outputs(cell)
        return [sig for port, sig in cell.ports.items() if port not in outputs]

    def _rewrite(self, substitute: dict[str, Sig], *tables: dict[str, Sig]) -> None:
        """Replace nets, given as keys, by other values wherever they are read, also in further tables of values."""
        if not substitute:
            return

        def new(sig: Sig) -> Sig:
            if substitute.keys().isdisjoint(wires_of(sig)):
                return sig
            chunks: list[Const | Slice] = []
            for chunk in sig:
                if isinstance(chunk, Slice) and chunk.wire in substitute:
                    chunks += bits(new(substitute[chunk.wire]), chunk.low, chunk.width)
                else:
                    chunks.append(chunk)
            return joined(tuple(chunks))

        self._replace(new, self.aliases, *tables)

    def _replace(self, new: Callable[[Sig], Sig], *tables: dict[str, Sig]) -> None:
        for cell in self.module.cells:
            outputs = self.cell_outputs(cell)
            cell.ports = {port: sig if port in outputs else new(sig) for port, sig in cell.ports.items()}
        for statement in rtlil.all_statements(chain(*self.module.processes)):
            if isinstance(statement, rtlil.Assign):
                statement.value = new(statement.value)
            else:
                statement.selector = new(statement.selector)
        for table in tables:
            for name, sig in table.items():
                table[name] = new(sig)

    def _settle_processes(self) -> None:
        """Replace processes without conditions by the values that they assign."""
        substitute: dict[str, Sig] = {}
        processes = []
        for process in self.module.processes:
            value = _overlaid(process)
            if value is None:
                processes.append(process)
            else:
                self._define(rtlil.process_target(process), value, substitute)
        self.module.processes = processes
        self._rewrite(substitute)

    def _define(self, wire: str, value: Sig, substitute: dict[str, Sig]) -> None:
        """Make a net an alias of a value; a net without a source name is replaced by the value."""
        if not is_private(wire):
            self.aliases[wire] = value
        # an anonymous net takes the name of its whole value, so readers of the name must read that net; a constant
        # needs no name
        whole = len(value) == 1 and isinstance(value[0], Slice) and is_private(value[0].wire)
        if is_private(wire) or whole or all(isinstance(chunk, Const) for chunk in value):
            substitute[wire] = value

    def _fold(self) -> bool:
        """Replace operators that need no gate by their results; return whether any was replaced."""
        substitute: dict[str, Sig] = {}
        cells = []
        drivers = {cell.result: cell for cell in self.module.cells if cell.is_operator}
        for cell in self.module.cells:
            for port in ("A", "B") if cell.type in BITWISE or cell.type in COMPARISONS else ():
                driver = self._driver(cell.ports[port], drivers)
                if driver is not None:
                    absorb_literals(cell, driver, port)
            value = known_result(cell)
            if value is None and cell.type == "$not":
                driver = self._driver(cell.ports["A"], drivers)
                value = inverted(cell, driver) if driver is not None else None
            if value is None:
                cells.append(cell)
            else:
                self._define(cell.result, value, substitute)
        changed = len(cells) < len(self.module.cells)
        self.module.cells = cells
        self._rewrite(substitute)
        return changed

    def _driver(self, sig: Sig, drivers: Mapping[str, rtlil.Cell]) -> rtlil.Cell | None:
        """Return the operator that drives the whole value, if its result has no name in the source."""
        if len(sig) != 1 or not isinstance(sig[0], Slice) or not is_private(sig[0].wire):
            return None
        driver = drivers.get(sig[0].wire)
        return driver if driver is not None and driver.ports[driver.result_port] == sig else None

    def _widen_shifts(self) -> None:
        """Widen results of shifts to the width of the shifted operand; readers use only the low bits."""
        for cell in self.module.cells:
            width = sig_width(cell.ports["A"]) if "A" in cell.ports else 0
            if cell.type == "$shift":
                cell.type = "$sshr" if cell.flag("A_SIGNED") else "$shr"
            if cell.type not in ("$shr", "$sshr"):
                continue
            wire = self.wires[cell.result]
            if width <= wire.width:
                continue
            if is_private(wire.name):
                wire.width = width
            else:
                full = rtlil.Wire(f"$w{len(self.wires)}", width, "")
                self.aliases[wire.name] = (Slice(full.name, 0, wire.width),)
                self._rewrite({wire.name: (Slice(full.name, 0, wire.width),)})
                self.wires[full.name] = wire = full
            cell.ports["Y"] = (Slice(wire.name, 0, width),)

    def _needed(self) -> Counter[str]:
        needed: Counter[str] = Counter()
        for sig in (*self.sigs(), *self.aliases.values()):
            for chunk in sig:
                if isinstance(chunk, Slice):
                    needed[chunk.wire] = max(needed[chunk.wire], chunk.low + chunk.width)
        return needed

    def _narrow(self) -> None:
        """Drop unread results without a source name, unread result bits, and operand bits without effect."""
        changed = True
        while changed:
            changed = self._drop_unread()
            needed = self._needed()
            for cell in self.module.cells:
                if cell.type not in LOW_BITS_SUFFICE:
                    continue
                wire = self.wires[cell.result]
                if is_private(wire.name) and needed[wire.name] < wire.width:
                    wire.width = needed[wire.name]
                    cell.ports["Y"] = (Slice(wire.name, 0, wire.width),)
                    changed = True
                changed |= self._trim_operands(cell)

    def _drop_unread(self) -> bool:
        """Drop operators and processes that no output, register or instance depends on, and their aliases."""
        sources: dict[str, list[str]] = {name: wires_of(sig) for name, sig in self.aliases.items()}
        stack = [name for name, wire in self.wires.items() if wire.port == "output"]
        for cell in self.module.cells:
            if cell.is_operator:
                sources[cell.result] = wires_of(*self.inputs(cell))
            else:
                stack += wires_of(*self.inputs(cell))
        for process in self.module.processes:
            sources[rtlil.process_target(process)] = wires_of(*rtlil.statement_sigs(process))
        live: set[str] = set()
        while stack:
            wire = stack.pop()
            if wire not in live:
                live.add(wire)
                stack += sources.get(wire, ())
        cells = [cell for cell in self.module.cells if not cell.is_operator or cell.result in live]
        processes = [process for process in self.module.processes if rtlil.process_target(process) in live]
        dropped = len(cells) < len(self.module.cells) or len(processes) < len(self.module.processes)
        dead = {cell.result for cell in self.module.cells if cell.is_operator} - live
        dead.update(target for target in map(rtlil.process_target, self.module.processes) if target not in live)
        self.module.cells, self.module.processes = cells, processes
        for name in [name for name, sig in self.aliases.items() if not dead.isdisjoint(wires_of(sig))]:
            del self.aliases[name]
        return dropped

    def _merge_replicas(self) -> None:
        """Merge the equal operators that Amaranth makes for the bits of ``{32{a == b}}``."""
        operators = [cell for cell in self.module.cells if cell.is_operator and cell.type != rtlil.MEMORY_READ]
        drivers = {cell.result: cell for cell in operators if is_private(cell.result)}
        structure = self.structure(drivers, drivers)
        twins: dict[str, str] = {}
        for sig in (*self.sigs(), *self.aliases.values()):
            first: dict[Hashable, str] = {}
            for wire in wires_of(sig) if len(sig) > 1 else ():
                twin = first.setdefault(structure(wire) if wire in drivers else wire, wire)
                if twin != wire:
                    twins.setdefault(wire, twin)
        self.merge({wire: twin for wire, twin in twins.items() if twin not in twins})
        self._drop_unread()

    def structure(self, cells: Mapping[str, rtlil.Cell], expanded: Container[str]) -> Callable[[str], Hashable]:
        """Return a function that maps nets driven by ``cells`` to keys, equal for equal expressions.

        A net in ``expanded``, which ``cells`` drive too, enters a key by its expression, any other net by name.
        """

        @cache
        def key(wire: str) -> Hashable:
            cell = cells[wire]
            operands = [
                (key(chunk.wire), chunk.low, chunk.width)
                if isinstance(chunk, Slice) and chunk.wire in expanded
                else chunk
                for port, sig in cell.ports.items()
                for chunk in (port, *sig)
                if port != cell.result_port
            ]
            return cell.type, self.wires[wire].width, tuple(cell.params.items()), *operands

        return key

    def merge(self, twins: Mapping[str, str], *tables: dict[str, Sig]) -> None:
        """Replace each key of ``twins`` by its value, an equal net, wherever it is read, also in further ``tables``."""
        self.module.cells = [cell for cell in self.module.cells if not (cell.is_operator and cell.result in twins)]
        self._rewrite({twin: (Slice(name, 0, self.wires[name].width),) for twin, name in twins.items()}, *tables)

    def share(self, names: Mapping[Sig, str]) -> None:
        """Replace each key of ``names``, a concatenation or slice, by the net with that value wherever it is read."""
        self._replace(lambda sig: (Slice(names[sig], 0, sig_width(sig)),) if sig in names else sig)

    def _trim_operands(self, cell: rtlil.Cell) -> bool:
        trimmed = False
        for port in _TRUNCATED_PORTS.get(cell.type, ()):
            width = sig_width(cell.ports["Y"])
            if sig_width(cell.ports[port]) > width:
                cell.ports[port] = bits(cell.ports[port], 0, width)
                trimmed = True
        return trimmed


_WORDS = {
    "$add": "sum",
    "$sub": "difference",
    "$mul": "product",
    **dict.fromkeys(("$shl", "$shr", "$sshr"), "shifted"),
    "$mux": "mux",
    "$and": "and",
    "$or": "or",
    "$xor": "xor",
    "$not": "inverted",
    "$neg": "negated",
}


class Purposes:
    def __init__(self, netlist: Netlist, names: Mapping[str, str], aliases: Mapping[str, Sig]) -> None:
        self._netlist = netlist
        self._names = names
        self._drivers = {cell.result: cell for cell in netlist.module.cells if cell.has_result}
        self._readers: dict[str, list[tuple[str, bool]]] = {}
        for name, sig in aliases.items():
            self._read((sig,), name)
        for cell in netlist.module.cells:
            self._read_cell(cell)
        for process in netlist.module.processes:
            target = rtlil.process_target(process)
            selectors = [
                statement.selector for statement in rtlil.all_statements(process) if isinstance(statement, rtlil.Switch)
            ]
            self._read(selectors, target, decides=True)
            self._read([sig for sig in rtlil.statement_sigs(process) if sig not in selectors], target)

    def _read_cell(self, cell: rtlil.Cell) -> None:
        if not cell.is_submodule:
            if cell.has_result:
                self._read(self._netlist.inputs(cell), cell.result)
            return
        outputs = self._netlist.cell_outputs(cell)
        for port, sig in cell.ports.items():
            if port not in outputs:
                self._read((sig,), f"{self._names[cell.name]}_{port}")

    def _read(self, sigs: list[Sig] | tuple[Sig, ...], target: str, *, decides: bool = False) -> None:
        for wire in wires_of(*sigs):
            self._readers.setdefault(wire, []).append((target, decides))

    def name(self, wire: str) -> str:
        """Return a name for an anonymous net, from the nearest named net that reads it and the type of its driver."""
        seen, level, decides = {wire}, [wire], False
        while level:
            following = []
            for net in level:
                for target, condition in self._readers.get(net, ()):
                    decides = decides or (condition and net == wire)
                    known = self._names.get(target) or (target if target[0] not in "\\$" else None)
                    if known is not None:
                        return f"{known}_{self._word(wire, decides)}"
                    if target not in seen:
                        seen.add(target)
                        following.append(target)
            level = following
        return self._word(wire, decides)

    def _word(self, wire: str, decides: bool) -> str:
        cell = self._drivers.get(wire)
        if decides:
            return "condition"
        if cell is None:
            return "selected"
        if cell.type in COMPARISONS:
            return "match"
        if cell.type in REDUCTIONS:
            return "any"
        return _WORDS.get(cell.type, "value")
