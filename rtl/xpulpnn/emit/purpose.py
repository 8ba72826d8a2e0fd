"""Names for values that the source computes without naming them: after what they are for."""

from collections.abc import Iterator, Mapping

from xpulpnn.emit.netlist import Netlist
from xpulpnn.emit.operators import (
    COMPARISONS,
    REDUCTIONS,
    has_result,
    is_submodule,
    process_target,
    result,
    statement_sigs,
)
from xpulpnn.emit.rtlil import Cell, Sig, Statement, Switch, wires_of

_WORDS = {
    "$add": "sum",
    "$sub": "difference",
    "$mul": "product",
    "$shl": "shifted",
    "$shr": "shifted",
    "$sshr": "shifted",
    "$mux": "choice",
    "$and": "part",
    "$or": "union",
    "$xor": "flipped",
    "$not": "inverted",
    "$neg": "negated",
}


def _selectors(statements: list[Statement]) -> Iterator[Sig]:
    for statement in statements:
        if isinstance(statement, Switch):
            yield statement.selector
            for _patterns, body in statement.cases:
                yield from _selectors(body)


class Purposes:
    """Purposes of the anonymous nets of a module."""

    def __init__(self, netlist: Netlist, names: Mapping[str, str], aliases: Mapping[str, Sig]) -> None:
        self._netlist = netlist
        self._names = names
        self._drivers = {result(cell): cell for cell in netlist.module.cells if has_result(cell)}
        self._readers: dict[str, list[tuple[str, bool]]] = {}
        for name, sig in aliases.items():
            self._read((sig,), name)
        for cell in netlist.module.cells:
            self._read_cell(cell)
        for process in netlist.module.processes:
            target = process_target(process)
            selectors = list(_selectors(process))
            self._read(selectors, target, decides=True)
            self._read([sig for sig in statement_sigs(process) if sig not in selectors], target)

    def _read_cell(self, cell: Cell) -> None:
        if not is_submodule(cell):
            if has_result(cell):
                self._read(self._netlist.inputs(cell), result(cell))
            return
        outputs = self._netlist.cell_outputs(cell)
        for port, sig in cell.ports.items():
            if port not in outputs:
                self._read((sig,), f"{self._names[cell.name]}_{port}")

    def _read(self, sigs: list[Sig] | tuple[Sig, ...], target: str, *, decides: bool = False) -> None:
        for wire in wires_of(*sigs):
            self._readers.setdefault(wire, []).append((target, decides))

    def name(self, wire: str) -> str:
        """A name for a net without one."""
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
            return "value"
        if cell.type in COMPARISONS:
            return "match"
        if cell.type in REDUCTIONS:
            return "any"
        return _WORDS.get(cell.type, "value")
