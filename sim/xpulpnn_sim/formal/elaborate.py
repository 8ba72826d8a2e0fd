"""Gate graphs of emitted Verilog, cycle by cycle."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.formal.gate_graph import FALSE, TRUE, GateGraph, extended
from xpulpnn_sim.netlist import ONE, ZERO, NetlistCell, NetlistModule, in_order, read_module
from xpulpnn_sim.yosys import find_yosys

_SCRIPT = """read_verilog design.v
hierarchy -check -top {module}
proc
flatten
pmuxtree
simplemap
techmap t:$sh* t:$lt t:$le t:$gt t:$ge
simplemap
clean
write_json netlist.json
"""
_REGISTER = "$_DFF_P_"


class ClockedGates:
    """Single-bit gates, word adders and word multipliers, operands first, with registers on one clock.

    Raises :class:`ToolError` for combinational loops.
    """

    def __init__(self, module: NetlistModule) -> None:
        self.ports = {name: wire.nets for name, wire in (module.inputs | module.outputs).items()}
        self.words = {name: wire.nets for name, wire in module.wires.items()}
        self.registers = {cell.pins["Q"][0]: cell.pins["D"][0] for cell in module.cells if cell.type == _REGISTER}
        gates = [cell for cell in module.cells if cell.type != _REGISTER]
        self.cells = in_order(gates, lambda cell: cell.read, lambda cell: cell.driven)


@cache
def clocked_gates(verilog: str, module: str) -> ClockedGates:
    """The gates of a module; raises :class:`ToolError` if Yosys does not make them."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-proof-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(verilog)
        find_yosys().run(_SCRIPT.format(module=module), folder, what=module, results=["netlist.json"])
        return ClockedGates(read_module(folder / "netlist.json", module))


class ClockCycle:
    """One clock cycle of gates as nodes of a graph, made when asked for.

    Parameters
    ----------
    graph : GateGraph
        Where the nodes go.
    gates : ClockedGates
        What they are made of.
    inputs : mapping
        Literals of the input ports, lowest bit first; missing ports are new variables.
    state : mapping
        Literal of each register bit; missing ones are new variables.
    """

    def __init__(
        self, graph: GateGraph, gates: ClockedGates, inputs: Mapping[str, Sequence[int]], state: Mapping[int, int]
    ) -> None:
        self._graph = graph
        self._gates = gates
        self._known: dict[int, int] = {ZERO: FALSE, ONE: TRUE, **state}
        for port, literals in inputs.items():
            if port in gates.ports:
                self._known.update(zip(gates.ports[port], literals, strict=True))

    def port(self, name: str) -> list[int]:
        """Literals of a port."""
        return self._literals(self._gates.ports[name])

    def next_state(self) -> dict[int, int]:
        """Literal of each register bit after the cycle."""
        registers = self._gates.registers
        return dict(zip(registers, self._literals(registers.values()), strict=True))

    def _literals(self, nets: Iterable[int]) -> list[int]:
        wanted = list(nets)
        needed = set(wanted)
        cone: list[NetlistCell] = []
        for cell in reversed(self._gates.cells):
            if any(net in needed and net not in self._known for net in cell.driven):
                cone.append(cell)
                needed.update(cell.read)
        for cell in reversed(cone):
            self._known.update(zip(cell.driven, self._outputs(cell), strict=True))
        return [self._literal(net) for net in wanted]

    def _literal(self, net: int) -> int:
        if net not in self._known:
            self._known[net] = self._graph.input()
        return self._known[net]

    def _outputs(self, cell: NetlistCell) -> list[int]:
        graph, width = self._graph, len(cell.pins["Y"])
        a, b, s = ([self._literal(net) for net in cell.pins.get(pin, [])] for pin in "ABS")
        match cell.type:
            case "$_BUF_":
                return a
            case "$_NOT_":
                return [a[0] ^ 1]
            case "$_AND_":
                return [graph.and_(a[0], b[0])]
            case "$_NAND_":
                return [graph.and_(a[0], b[0]) ^ 1]
            case "$_OR_":
                return [graph.or_(a[0], b[0])]
            case "$_NOR_":
                return [graph.or_(a[0], b[0]) ^ 1]
            case "$_ANDNOT_":
                return [graph.and_(a[0], b[0] ^ 1)]
            case "$_ORNOT_":
                return [graph.or_(a[0], b[0] ^ 1)]
            case "$_XOR_":
                return [graph.xor(a[0], b[0])]
            case "$_XNOR_":
                return [graph.xor(a[0], b[0]) ^ 1]
            case "$_MUX_":
                return [graph.mux(s[0], a[0], b[0])]
        signed = [int(cell.parameters.get(f"{pin}_SIGNED", "0"), 2) == 1 for pin in "AB"]
        x, y = (extended(word, width, signed=sign) for word, sign in zip((a, b), signed, strict=True))
        match cell.type:
            case "$pos":
                return x
            case "$add":
                return graph.add(x, y)
            case "$sub":
                return graph.add(x, [bit ^ 1 for bit in y], TRUE)
            case "$neg":
                return graph.add([FALSE] * width, [bit ^ 1 for bit in x], TRUE)
            case "$mul":
                return graph.multiply(_trimmed(x), _trimmed(y), width)
            case kind:
                raise ToolError(f"netlist must consist of gates, adders and multipliers to be proved, not {kind}")


def _trimmed(word: Sequence[int]) -> list[int]:
    end = len(word)
    while end and word[end - 1] == FALSE:
        end -= 1
    return list(word[:end])
