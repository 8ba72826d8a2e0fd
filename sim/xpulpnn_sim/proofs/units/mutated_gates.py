"""Gates of a unit and of its mutants in one graph, where only what a change reaches is there twice."""

import heapq
import tempfile
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn_sim.proofs.engine.gate_graph import FALSE, OPERATIONS, TRUE, GateGraph
from xpulpnn_sim.tools.netlists import (
    DONT_CARE,
    ONE,
    ZERO,
    NetlistCell,
    NetlistModule,
    NetlistWire,
    in_order,
    read_module,
)
from xpulpnn_sim.tools.yosys import Yosys

SELECT = "mutant_select"  # input that says which mutant it is; 0 is the unit itself

NEXT = "next "  # what the names of bits that go into registers begin with

Bit = tuple[str, int, int]  # name of a bit that is observed, its literal in the unit and its literal in the mutant

_BASE = "base.il"
_SCRIPT = """read_rtlil {base}
hierarchy -top {top}
{changes}
hierarchy -top {top}
flatten
{ignored}memory_map
opt_expr
opt_clean
pmuxtree
techmap
simplemap
dffunmap
opt_clean
write_json netlist.json
"""

_REGISTER = "$_DFF_P_"


def read_mutated(
    base: Path, top: str, changes: Mapping[int, str], yosys: Yosys, *, ignored: Sequence[str] = ()
) -> "MutatedGates":
    """Gates of a unit with some changes: commands of Yosys (`mutate -mode ...`) by the numbers of the mutants.

    The input :data:`SELECT` has the place of one in ``changes``, from 1 on. Outputs whose names are ``ignored`` go.
    """
    width = max(len(changes).bit_length(), 1)
    commands = [
        command.replace("mutate ", f"mutate -ctrl {SELECT} {width} {place} ", 1)
        for place, command in enumerate(changes.values(), 1)
    ]
    with tempfile.TemporaryDirectory(prefix="xpulpnn-mutants-") as name:
        folder = Path(name)
        (folder / _BASE).write_bytes(base.read_bytes())
        without = "".join(f"delete -output {top}/w:{pattern}\n" for pattern in ignored)
        ignoring = f"{without}opt_clean -purge\n" if ignored else ""
        script = _SCRIPT.format(base=_BASE, top=top, changes="\n".join(commands), ignored=ignoring)
        yosys.run(script, folder, what=f"mutants of {top}", results=["netlist.json"])
        return MutatedGates(read_module(folder / "netlist.json", top), list(changes))


class MutatedGates:
    """Gates with an input that chooses a mutant."""

    def __init__(self, module: NetlistModule, numbers: Sequence[int]) -> None:
        self.graph = GateGraph()
        self._values = {number: value for value, number in enumerate(numbers, 1)}
        gates = [cell for cell in module.cells if cell.type in OPERATIONS]
        self._cut = [cell for cell in module.cells if cell.type not in OPERATIONS]
        self._cells = in_order(gates, lambda cell: cell.read, lambda cell: cell.driven)
        self._readers: dict[int, list[int]] = {}
        for place, cell in enumerate(self._cells):
            for net in cell.read:
                self._readers.setdefault(net, []).append(place)
        select = module.inputs.get(SELECT)
        self._select = select.nets if select else []
        self._known: dict[int, int] = {ZERO: FALSE, ONE: TRUE, DONT_CARE: FALSE, **dict.fromkeys(self._select, FALSE)}
        self.free = self._variables(module)
        for cell in self._cells:
            self._known[cell.pins["Y"][0]] = self._output(cell, self._known)
        self.words = self._words(module)
        self._watched = self._observed(module)
        self._registers = {cell.pins["Q"][0]: cell for cell in self._cut if cell.type == _REGISTER}
        # a change of what a register drives moves the wire with the value after reset behind itself
        starts = {self._known[net]: value for net, value in module.initial.items() if net in self._known}
        self._starts = {net: starts[self._known[net]] for net in self._registers if self._known[net] in starts}
        self.is_clocked = (
            len({self._known[cell.pins["C"][0]] for cell in self._registers.values()}) == 1
            and len(self._registers) == len(self._cut)
            and self._registers.keys() == self._starts.keys()
        )

    def _variables(self, module: NetlistModule) -> dict[str, list[int]]:
        free: dict[str, list[int]] = {}
        for name, wire in module.inputs.items():
            if name != SELECT:
                free[name] = [self._variable(net) for net in wire.nets]
        driven = {net for cell in self._cut for net in (cell.driven or cell.pins.get("Q", []))}
        for wire in module.wires.values():
            if wire.name not in free and driven.issuperset(wire.nets):
                free[wire.name] = [self._variable(net) for net in wire.nets]
        for cell in self._cut:
            for net in cell.driven:
                self._variable(net)
        return free

    def _variable(self, net: int) -> int:
        if net not in self._known:
            self._known[net] = self.graph.input()
        return self._known[net]

    def _words(self, module: NetlistModule) -> dict[str, list[int]]:
        """Literals of each word of the unit itself that has a name."""
        wires: list[NetlistWire] = [*module.inputs.values(), *module.outputs.values()]
        wires += [wire for wire in module.wires.values() if not wire.hidden]
        return {
            wire.name: [self._known.get(net, FALSE) for net in wire.nets]
            for wire in wires
            if self._known.keys() >= set(wire.nets)
        }

    def _observed(self, module: NetlistModule) -> list[tuple[str, int]]:
        """Name and net of each bit that a mutant must leave as it is: outputs, and what cut cells read."""
        found = [(name, net) for wire in module.outputs.values() for name, net in wire.bits]
        wires = sorted(module.wires.values(), key=lambda wire: (not wire.hidden, wire.name not in module.outputs))
        names = {net: name for wire in wires for name, net in wire.bits}
        for cell in self._cut:
            label = names.get(cell.driven[0], cell.name) if cell.driven else cell.name
            found += [(f"{NEXT}{label}", net) for net in cell.read]
        return found

    def _output(self, cell: NetlistCell, known: Mapping[int, int]) -> int:
        pins, operation = OPERATIONS[cell.type]
        return operation(self.graph, *(known.get(cell.pins[pin][0], FALSE) for pin in pins))

    def differences(self, number: int) -> list[Bit]:
        """Name, literal in the unit and literal in the mutant of each observed bit whose gates are not the same."""
        changed = self._changed(number, {})
        return [(name, self._known[net], changed[net]) for name, net in self._watched if net in changed]

    def machine(self, number: int) -> "GateMachine | None":
        """Unit and mutant side by side, each with registers of its own where those of the mutant may be others.

        None if something but registers is cut, a register has no value after reset, or another clock than the others,
        also by the change.
        """
        own: dict[int, int] = {}
        while True:
            changed = self._changed(number, own)
            if not self.is_clocked or any(cell.pins["C"][0] in changed for cell in self._registers.values()):
                return None
            more = [net for net, cell in self._registers.items() if net not in own and cell.pins["D"][0] in changed]
            if not more:
                break
            own.update((net, self.graph.input()) for net in more)
        unit: dict[int, tuple[int, int]] = {}
        mutant: dict[int, tuple[int, int]] = {}
        for net, cell in self._registers.items():
            following, start = cell.pins["D"][0], self._starts[net]
            unit[self._known[net]] = (self._known[following], start)
            if net in own:
                mutant[own[net]] = (changed.get(following, self._known[following]), start)
        outputs = [
            (name, self._known[net], changed[net])
            for name, net in self._watched
            if net in changed and not name.startswith(NEXT)
        ]
        return GateMachine(outputs=outputs, unit=unit, mutant=mutant)

    def _changed(self, number: int, registers: Mapping[int, int]) -> dict[int, int]:
        """Literals of the nets that are not what they are in the unit itself, given those of some registers."""
        value = self._values[number]
        changed = {net: TRUE for place, net in enumerate(self._select) if value >> place & 1}
        changed.update(registers)
        known = ChainMap(changed, self._known)
        waiting: list[int] = []
        queued: set[int] = set()

        def reach(net: int) -> None:
            for place in self._readers.get(net, ()):
                if place not in queued:
                    queued.add(place)
                    heapq.heappush(waiting, place)

        for net in tuple(changed):
            reach(net)
        while waiting:
            cell = self._cells[heapq.heappop(waiting)]
            net = cell.pins["Y"][0]
            literal = self._output(cell, known)
            if literal != self._known[net]:
                changed[net] = literal
                reach(net)
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class GateMachine:
    """A unit and a mutant with their registers."""

    # Name, literal in the unit and literal in the mutant of each bit of an output that may be another
    outputs: Sequence[Bit]
    # next value and value after reset of the variable of each register: of the unit, and of the mutant where it has one
    # of its own
    unit: Mapping[int, tuple[int, int]]
    mutant: Mapping[int, tuple[int, int]]
