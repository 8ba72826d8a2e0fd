"""Gate graphs of emitted Verilog, for one clock cycle or for all cycles from reset."""

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from xpulpnn.errors import ToolError, require
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, OPERATIONS, TRUE, GateGraph, Word
from xpulpnn_sim.proofs.engine.integers import Integers, Number, constant, low, trimmed, unsigned
from xpulpnn_sim.proofs.engine.solvers import Aiger, cycles_from_reset, to_aiger
from xpulpnn_sim.tools.netlists import DONT_CARE, ONE, ZERO, NetlistCell, NetlistModule, read_modules, sort_gates
from xpulpnn_sim.tools.yosys import Yosys, find_yosys

_SCRIPT = """read_verilog design.v
hierarchy -check -top {module}
{left_out}
proc
flatten
{expose}
memory_map
pmuxtree
simplemap
techmap t:$sh* t:$lt t:$le t:$gt t:$ge
simplemap
clean
"""
_REGISTER, _CONSTANT, _FREE, _ASSERT, _ASSUME = "$_DFF_P_", "$anyconst", "$anyseq", "$assert", "$assume"


class ClockedGates:
    """Gates, word-level adders and multipliers in topological order, and registers with one clock.

    Raises :class:`ToolError` for combinational loops.
    """

    def __init__(self, module: NetlistModule) -> None:
        self.inputs = {name: wire.nets for name, wire in module.inputs.items()}
        self.outputs = {name: wire.nets for name, wire in module.outputs.items()}
        self.ports = self.inputs | self.outputs
        self.words = {name: wire.nets for name, wire in module.wires.items()}
        of = {kind: [cell.pins for cell in module.cells if cell.type == kind] for kind in (_REGISTER, _CONSTANT)}
        self.registers = {pins["Q"][0]: pins["D"][0] for pins in of[_REGISTER]}
        self.registers |= {net: net for pins in of[_CONSTANT] for net in pins["Y"]}
        #: Reset values of registers; missing registers have any value.
        self.initial = module.initial
        #: Nets of each assertion and assumption, and of its enable.
        self.asserted, self.assumed = (
            [(cell.pins["A"][0], cell.pins["EN"][0]) for cell in module.cells if cell.type == kind]
            for kind in (_ASSERT, _ASSUME)
        )
        others = (_REGISTER, _CONSTANT, _FREE, _ASSERT, _ASSUME)
        gates = [cell for cell in module.cells if cell.type not in others]
        self.cells = sort_gates(gates, lambda cell: cell.read, lambda cell: cell.driven)
        self.drivers = {net: place for place, cell in enumerate(self.cells) for net in cell.driven}
        self.reads = [cell.read for cell in self.cells]


@cache
def clocked_gates(verilog: str, module: str, free: tuple[str, ...] = ()) -> ClockedGates:
    """Return the gates of a module; outputs of the submodules ``free`` are free in every cycle."""
    cut = f"cutpoint {' '.join(f't:{each}' for each in free)}" if free else ""
    (netlist,) = netlists(
        _SCRIPT.format(module=module, left_out=cut, expose=""), {"design.v": verilog}, [module], find_yosys()
    )
    return ClockedGates(netlist)


def gates_between(verilog: str, module: str, left_out: Collection[str], yosys: Yosys) -> ClockedGates:
    """Return the gates of a module; pins of the black-boxed submodules ``left_out`` and all signals are ports."""
    cuts = (f"blackbox {' '.join(left_out)}", "expose -evert") if left_out else ("", "")
    script = _SCRIPT.format(module=module, left_out=cuts[0], expose=cuts[1])
    (netlist,) = netlists(script, {"design.v": verilog}, [module], yosys)
    return ClockedGates(netlist)


def netlists(
    script: str, files: Mapping[str, str], modules: Sequence[str], yosys: Yosys, what: str = ""
) -> list[NetlistModule]:
    with tempfile.TemporaryDirectory(prefix="xpulpnn-proof-") as name:
        folder = Path(name)
        for file, text in files.items():
            (folder / file).write_text(text)
        script += "write_json netlist.json\n"
        yosys.run(script, folder, what=what or modules[0], results=["netlist.json"])
        return read_modules(folder / "netlist.json", modules)


class ClockCycle:
    """One clock cycle of a netlist as nodes of a gate graph, which are added when they are requested."""

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
        return self.nets(self._gates.ports[name])

    def next_state(self) -> dict[int, int]:
        registers = self._gates.registers
        return dict(zip(registers, self.nets(registers.values()), strict=True))

    def variables(self) -> dict[int, int]:
        return {net: literal for net, literal in self._known.items() if net not in self._gates.drivers}

    def nets(self, nets: Iterable[int]) -> list[int]:
        """Return the literals of nets; undriven nets and undefined bits become variables."""
        targets = list(nets)
        known, drivers, reads = self._known, self._gates.drivers, self._gates.reads
        cone: set[int] = set()
        open_nets = [net for net in targets if net not in known]
        while open_nets:
            place = drivers.get(open_nets.pop())
            if place is not None and place not in cone:
                cone.add(place)
                open_nets += [net for net in reads[place] if net not in known]
        for place in sorted(cone):
            cell = self._gates.cells[place]
            known.update(zip(cell.driven, cell_outputs(self._graph, cell, self._literal), strict=True))
        return [self._literal(net) for net in targets]

    def _literal(self, net: int) -> int:
        if net == DONT_CARE and net not in self._known:
            return self._graph.input()
        if net not in self._known:
            self._known[net] = self._graph.input()
        return self._known[net]


class ClockedGraph(GateGraph):
    def __init__(self) -> None:
        super().__init__()
        self.latches: dict[int, tuple[int, int]] = {}
        self._latch_of: dict[int, int] = {}
        self.first = self.register(1)  # literal that is 1 in the first cycle
        self.follow(self.first, FALSE)

    def register(self, reset: int | None) -> int:
        """Return a new register with the reset value 0, 1 or, for None, any; :meth:`follow` sets its next value."""
        latch = value = self.input()
        self.latches[latch] = (FALSE, reset or 0)
        if reset is None:
            value = self.mux(self.first, latch, self.input())
            self._latch_of[value] = latch
        return value

    def follow(self, register: int, following: int) -> None:
        latch = self._latch_of.get(register, register)
        self.latches[latch] = (following, self.latches[latch][1])

    def constants(self, width: int) -> Word:
        word = [self.register(None) for _ in range(width)]
        for literal in word:
            self.follow(literal, literal)
        return word

    def place(self, gates: ClockedGates, given: Mapping[str, Word], starts: Mapping[int, int | None]) -> ClockCycle:
        """Add an instance of a netlist with registers; those not in ``starts`` have any initial value."""
        state = {net: self.register(starts.get(net)) for net in gates.registers}
        cycle = ClockCycle(self, gates, given, state)
        for net, following in cycle.next_state().items():
            self.follow(state[net], following)
        return cycle

    def after_reset(self, gates: ClockedGates, reset: str) -> dict[int, int]:
        """Return the registers to which a cycle of reset gives a fixed value from any state, with these values."""
        following = ClockCycle(self, gates, {reset: [TRUE]}, {}).next_state()
        return {net: literal for net, literal in following.items() if literal <= TRUE}

    def aiger(self, outputs: Sequence[int]) -> Aiger:
        return to_aiger(self, outputs, self.latches)

    def replay(self, frames: Iterable[Collection[int]], signals: Mapping[str, Word]) -> list[dict[str, int]]:
        values_of_cycles: list[dict[str, int]] = []
        for given in cycles_from_reset(self, self.latches, frames):
            values = iter(self.evaluate(given, [literal for word in signals.values() for literal in word]))
            values_of_cycles.append(
                {name: sum(next(values) << place for place, _ in enumerate(word)) for name, word in signals.items()}
            )
        return values_of_cycles


_ARITHMETIC: Mapping[str, Callable[[Integers, Number, Number], Number]] = {
    "$pos": lambda _z, x, _y: x,
    "$neg": lambda z, x, _y: z.subtract(constant(0), x),
    "$add": Integers.add,
    "$sub": Integers.subtract,
    "$mul": Integers.multiply,
}


def cell_outputs(graph: GateGraph, cell: NetlistCell, literal: Callable[[int], int]) -> Word:
    if cell.type in OPERATIONS:
        pins, operation = OPERATIONS[cell.type]
        return [operation(graph, *(literal(cell.pins[pin][0]) for pin in pins))]
    rule = f"netlist must consist of gates, adders and multipliers to be proved, not {cell.type}"
    require(cell.type in _ARITHMETIC, rule, ToolError)
    bits = {pin: list(map(literal, cell.pins.get(pin, []))) or [FALSE] for pin in "AB"}
    signed = {pin: int(cell.parameters.get(f"{pin}_SIGNED", "0"), 2) == 1 for pin in "AB"}
    x, y = (trimmed(word) if signed[pin] else unsigned(word) for pin, word in bits.items())
    return low(_ARITHMETIC[cell.type](Integers(graph), x, y), len(cell.pins["Y"]))
