"""Gate graphs of emitted Verilog, cycle by cycle."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.explore.proof.circuit import FALSE, TRUE, Circuit
from xpulpnn_sim.explore.yosys import find_yosys

Bit = int | str
"""Number of a net, or a constant."""

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
_CONSTANTS = {"0": FALSE, "1": TRUE}
_SKIPPED = frozenset({"$scopeinfo"})


class Netlist:
    """A flat netlist of single-bit gates, word adders and word multipliers, with registers on one clock."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        self.ports: dict[str, list[Bit]] = {name: port["bits"] for name, port in module["ports"].items()}
        self.registers: dict[Bit, Bit] = {}
        self.drivers: dict[Bit, tuple[Mapping[str, Any], int]] = {}
        for cell in module["cells"].values():
            pins = cell["connections"]
            if cell["type"] == "$_DFF_P_":
                self.registers[pins["Q"][0]] = pins["D"][0]
            elif cell["type"] not in _SKIPPED:
                self.drivers |= {bit: (cell, place) for place, bit in enumerate(pins["Y"])}


@cache
def netlist(verilog: str, module: str) -> Netlist:
    """The netlist of a module; raises :class:`ToolError` if Yosys does not make one."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-proof-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(verilog)
        find_yosys().run(_SCRIPT.format(module=module), folder, what=module, results=["netlist.json"])
        return Netlist(json.loads((folder / "netlist.json").read_text())["modules"][module])


class Cycle:
    """One clock cycle of a netlist as gates of a circuit, made when asked for.

    Parameters
    ----------
    circuit : Circuit
        Where the gates go.
    design : Netlist
        What they are made of.
    inputs : mapping
        Literals of the input ports, lowest bit first; missing ports are new variables.
    state : mapping
        Literal of each register bit; missing ones are new variables.
    name : str
        Prefix of the variables' names.
    """

    def __init__(
        self,
        circuit: Circuit,
        design: Netlist,
        inputs: Mapping[str, Sequence[int]],
        state: Mapping[Bit, int],
        name: str,
    ) -> None:
        self._circuit = circuit
        self._design = design
        self._name = name
        self._known: dict[Bit, int] = {**_CONSTANTS, **state}
        self._words: dict[int, list[int]] = {}
        for port, literals in inputs.items():
            if port in design.ports:
                self._known.update(zip(design.ports[port], literals, strict=True))

    def port(self, name: str) -> list[int]:
        """Literals of a port."""
        return [self._literal(bit) for bit in self._design.ports[name]]

    def next_state(self) -> dict[Bit, int]:
        """Literal of each register bit after the cycle."""
        return {register: self._literal(data) for register, data in self._design.registers.items()}

    def _literal(self, wanted: Bit) -> int:
        stack = [wanted]
        entered: set[Bit] = set()
        while stack:
            bit = stack[-1]
            if bit in self._known:
                stack.pop()
                continue
            driver = self._design.drivers.get(bit)
            if driver is None:
                self._known[bit] = self._circuit.input(f"{self._name}.{bit}")
                continue
            cell, place = driver
            missing = [one for one in _operands(cell) if one not in self._known]
            if missing:
                if bit in entered:
                    raise ToolError("netlist must be free of combinational loops to be proved")
                entered.add(bit)
                stack += missing
                continue
            self._known[bit] = self._gate(cell, place)
        return self._known[wanted]

    def _gate(self, cell: Mapping[str, Any], place: int) -> int:
        circuit = self._circuit
        kind, pins = cell["type"], cell["connections"]
        a, b, s = ([self._known[bit] for bit in pins.get(pin, [])] for pin in "ABS")
        match kind:
            case "$_BUF_" | "$pos" if len(a) > place:
                return a[place]
            case "$_NOT_":
                return a[0] ^ 1
            case "$_AND_":
                return circuit.and_(a[0], b[0])
            case "$_NAND_":
                return circuit.and_(a[0], b[0]) ^ 1
            case "$_OR_":
                return circuit.or_(a[0], b[0])
            case "$_NOR_":
                return circuit.or_(a[0], b[0]) ^ 1
            case "$_ANDNOT_":
                return circuit.and_(a[0], b[0] ^ 1)
            case "$_ORNOT_":
                return circuit.or_(a[0], b[0] ^ 1)
            case "$_XOR_":
                return circuit.xor(a[0], b[0])
            case "$_XNOR_":
                return circuit.xor(a[0], b[0]) ^ 1
            case "$_MUX_":
                return circuit.mux(s[0], a[0], b[0])
            case _:
                return self._word(cell, a, b)[place]

    def _word(self, cell: Mapping[str, Any], a: Sequence[int], b: Sequence[int]) -> list[int]:
        known = self._words.get(id(cell))
        if known is None:
            width = len(cell["connections"]["Y"])
            x, y = (_extend(word, width, cell, pin) for pin, word in (("A", a), ("B", b)))
            match cell["type"]:
                case "$add":
                    known = self._circuit.add(x, y)
                case "$sub":
                    known = self._circuit.add(x, [bit ^ 1 for bit in y], TRUE)
                case "$neg":
                    known = self._circuit.add([FALSE] * width, [bit ^ 1 for bit in x], TRUE)
                case "$mul":
                    known = self._circuit.multiply(_trimmed(x), _trimmed(y), width)
                case kind:
                    raise ToolError(f"netlist must consist of gates, adders and multipliers to be proved, not {kind}")
            self._words[id(cell)] = known
        return known


def _operands(cell: Mapping[str, Any]) -> list[Bit]:
    return [bit for pin, bits in cell["connections"].items() if pin != "Y" for bit in bits]


def _extend(word: Sequence[int], width: int, cell: Mapping[str, Any], pin: str) -> list[int]:
    signed = int(cell["parameters"].get(f"{pin}_SIGNED", "0"), 2)
    fill = word[-1] if signed and word else FALSE
    return [*word, *[fill] * (width - len(word))][:width]


def _trimmed(word: Sequence[int]) -> list[int]:
    end = len(word)
    while end and word[end - 1] == FALSE:
        end -= 1
    return list(word[:end])
