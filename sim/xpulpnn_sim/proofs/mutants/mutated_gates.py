"""Gates of a unit and of its mutants in one graph; only gates that depend on a mutation are duplicated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates, netlists
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, OPERATIONS, TRUE, GateGraph
from xpulpnn_sim.tools.netlists import DONT_CARE, ONE, ZERO, NetlistCell, NetlistModule
from xpulpnn_sim.tools.yosys import Yosys

SELECT = "mutant_select"  # input that selects a mutant; 0 is the unit itself

NEXT = "next "  # name prefix of register inputs

Bit = tuple[str, int, int]  # name of an observed bit, its literal in the unit, and in the mutant

_SCRIPT = """read_rtlil base.il
hierarchy -top {top}
{changes}
hierarchy -top {top}
flatten
{ignored}{memories}
opt_expr
opt_clean
pmuxtree
techmap
simplemap
dffunmap
opt_clean
"""

_REGISTER, _MEMORY = "$_DFF_P_", "$mem_v2"
_ADDRESSES = ("RD_ADDR", "WR_ADDR")
_CUTS, _CUT_NETS = 8, 80  # distances from a mutation at which differences are examined, and maximum of nets there


def read_mutated(
    base: Path,
    top: str,
    changes: Mapping[int, str],
    yosys: Yosys,
    *,
    ignored: Sequence[str] = (),
    whole_memories: bool = False,
) -> "MutatedGates":
    """Return the gates of a unit with its mutations, which are Yosys commands (``mutate -mode ...``).

    ``changes`` has the commands by number of the mutant. The input :data:`SELECT` selects a mutation by its position in
    ``changes``, from 1. Outputs matching ``ignored`` are removed. Memories become registers, or stay cells if
    ``whole_memories``.
    """
    width = max(len(changes).bit_length(), 1)
    numbered = enumerate(changes.values(), 1)
    commands = [each.replace("mutate ", f"mutate -ctrl {SELECT} {width} {number} ", 1) for number, each in numbered]
    without = "".join(f"delete -output {top}/w:{pattern}\n" for pattern in ignored)
    ignoring = f"{without}opt_clean -purge\n" if ignored else ""
    memories = "" if whole_memories else "memory_map"
    script = _SCRIPT.format(top=top, changes="\n".join(commands), ignored=ignoring, memories=memories)
    (netlist,) = netlists(script, {"base.il": base.read_text()}, [top], yosys, f"mutants of {top}")
    return MutatedGates(netlist, list(changes))


class MutatedGates:
    def __init__(self, module: NetlistModule, numbers: Sequence[int]) -> None:
        self.graph = GateGraph()
        self._values = {number: value for value, number in enumerate(numbers, 1)}
        self._cut = [cell for cell in module.cells if cell.type not in OPERATIONS]
        cells = [cell for cell in module.cells if cell.type in OPERATIONS]
        self._gates = ClockedGates(replace(module, cells=cells))
        self._select = module.inputs[SELECT].nets if SELECT in module.inputs else []
        # undriven nets are 0
        self._state = dict.fromkeys((DONT_CARE, *self._select), FALSE)
        self._state |= {net: FALSE for cell in cells for net in cell.read if net not in self._gates.drivers}
        self._state |= {ZERO: FALSE, ONE: TRUE}
        self.free = self._variables(module)
        self._unit = ClockCycle(self.graph, self._gates, {}, self._state)
        wires = [*module.inputs.values(), *module.outputs.values()]
        wires += [wire for wire in module.wires.values() if not wire.hidden]
        #: Literals of the unit's named words.
        self.words = {wire.name: self._unit.nets(wire.nets) for wire in wires}
        self._outputs = [net for wire in module.outputs.values() for net in wire.nets]
        self._watched = self._observed(module)
        registers = [cell for cell in self._cut if cell.type == _REGISTER]
        self._registers = {cell.pins["Q"][0]: cell.pins["D"][0] for cell in registers}
        self._clocks = [cell.pins["C"][0] for cell in registers]
        # a mutation of a register's output moves its initial value to another wire
        starts = dict(zip(self._unit.nets(module.initial), module.initial.values(), strict=True))
        literals = zip(self._registers, self._unit.nets(self._registers), strict=True)
        self._starts = {net: starts[literal] for net, literal in literals if literal in starts}
        self.is_clocked = len(set(self._unit.nets(self._clocks))) == 1 and len(registers) == len(self._cut)
        #: Literals of registers without a reset value.
        self.unreset = {self._state[net] for net in self._registers if net not in self._starts}

    def _variables(self, module: NetlistModule) -> dict[str, list[int]]:
        """Add variables for the inputs, and for the outputs of registers and black-boxed cells; return them by name."""
        driven = {net for cell in self._cut for net in (cell.driven or cell.pins.get("Q", []))}
        named = [wire for name, wire in module.inputs.items() if name != SELECT]
        named += [wire for name, wire in module.wires.items() if name not in module.inputs and driven >= {*wire.nets}]
        nets = dict.fromkeys(net for wire in named for net in wire.nets) | dict.fromkeys(
            net for cell in self._cut for net in cell.driven
        )
        self._state |= {net: self.graph.input() for net in nets if net > ONE}
        return {wire.name: [self._state[net] for net in wire.nets] for wire in named}

    def _observed(self, module: NetlistModule) -> list[tuple[str, int]]:
        bits = [(name, net) for wire in module.outputs.values() for name, net in wire.bits]
        wires = sorted(module.wires.values(), key=lambda wire: (not wire.hidden, wire.name not in module.outputs))
        names = {net: name for wire in wires for name, net in wire.bits}
        for cell in self._cut:
            label = names.get(cell.driven[0], cell.name) if cell.driven else cell.name
            bits += [(f"{NEXT}{label}", net) for net in cell.read]
        return bits

    def _mutant(self, number: int, own: Mapping[int, int]) -> ClockCycle:
        """Return a clock cycle of a mutant; ``own`` maps literals of the unit's registers to the mutant's."""
        select = {net: TRUE for place, net in enumerate(self._select) if self._values[number] >> place & 1}
        registers = {net: own[register] for net in self._registers if (register := self._state[net]) in own}
        return ClockCycle(self.graph, self._gates, {}, {**self._state, **select, **registers})

    def _differences(self, mutant: ClockCycle) -> list[Bit]:
        nets = [net for _, net in self._watched]
        pairs = zip(self._watched, self._unit.nets(nets), mutant.nets(nets), strict=True)
        return [(name, bit, other) for (name, _), bit, other in pairs if bit != other]

    def differences(self, number: int) -> list[Bit]:
        return self._differences(self._mutant(number, {}))

    def changed(self, number: int) -> int:
        """Return a literal that is 1 whenever a mutation has an effect, and possibly in other cases.

        The literal requires a difference at several distances from the mutation, which makes the solver's work easier.
        """
        nets = [*self._select, *self._gates.drivers]
        pairs = zip(nets, self._unit.nets(nets), self._mutant(number, {}).nets(nets), strict=True)
        differ = {net: (bit, other) for net, bit, other in pairs if bit != other}
        # the selection, and nets that depend on nothing else
        choice = {net for net, (bit, other) in differ.items() if bit | other <= TRUE}
        levels, starts = dict[int, int](), set[int]()  # distances of nets from the mutation, and nets directly after it
        read_at = {net: len(nets) for _, net in self._watched}  # distance of the last reader of a net
        for cell in self._gates.cells:
            driven = [net for net in cell.driven if net in differ and net not in choice]
            before = [net for net in cell.read if net in levels]
            level = 1 + max((levels[net] for net in before), default=-1)
            if driven and not (before and choice.isdisjoint(cell.read)):
                starts.update(driven)
            levels |= dict.fromkeys(driven, level)
            if driven:
                read_at |= {net: max(read_at.get(net, 0), level) for net in before}
        shows = TRUE
        for level in range(_CUTS):
            cut = [
                net for net, at in levels.items() if at <= level < read_at.get(net, 0) or (at > level and net in starts)
            ]
            if level and len(cut) > _CUT_NETS:
                break
            shows = self.graph.and_(shows, self.graph.any(self.graph.xor(*differ[net]) for net in cut))
        return shows

    def moves_rows(self, number: int) -> bool:
        """Return whether a mutation only permutes the rows of a memory by inverting an address bit.

        The bit must be inverted at all ports of the memory, always or depending on an address bit, and all rows must be
        equal initially.
        """
        mutant = self._mutant(number, {})

        def ports(memory: NetlistCell, cycle: ClockCycle) -> list[list[int]]:
            bits = int(memory.parameters["ABITS"], 2)
            literals = list(cycle.nets(net for pin in _ADDRESSES for net in memory.pins[pin]))
            return [literals[at : at + bits] for at in range(0, len(literals), bits)]

        def moves(memory: NetlistCell) -> bool:
            pairs = list(zip(ports(memory, self._unit), ports(memory, mutant), strict=True))
            places = range(len(pairs[0][0]))

            def inverted(address: list[int], place: int, by: int, flip: int) -> list[int]:
                when = TRUE if by == place else address[by] ^ flip
                return [*address[:place], self.graph.xor(address[place], when), *address[place + 1 :]]

            whole = int(memory.parameters["SIZE"], 2) == 1 << len(places) and "1" not in memory.parameters["INIT"]
            return whole and any(
                all(other == inverted(address, *how) for address, other in pairs)
                for how in product(places, places, (0, 1))
            )

        memories = [cell for cell in self._cut if cell.type == _MEMORY]
        moved = {cell.name for cell in memories if ports(cell, self._unit) != ports(cell, mutant)}
        others = self._outputs + [
            net
            for cell in self._cut
            for pin, nets in cell.pins.items()
            if pin not in cell.outputs and not (cell.name in moved and pin in _ADDRESSES)
            for net in nets
        ]
        same = list(self._unit.nets(others)) == list(mutant.nets(others))
        return same and bool(moved) and all(moves(cell) for cell in memories if cell.name in moved)

    @property
    def register_words(self) -> Mapping[str, Sequence[int]]:
        """Return the literals of registers by name; a register bit inside a wider wire is listed as ``WIRE[BIT]``."""
        names: dict[int, str] = {}
        literals = {self._state[net] for net in self._registers}
        for name, word in self.free.items():
            if literals.issuperset(word):
                names.update((literal, name) for literal in word if literal not in names)
        for name, word in self.words.items():
            for place, literal in enumerate(word):
                if literal in literals:
                    names.setdefault(literal, f"{name}[{place}]")
        words: dict[str, list[int]] = {}
        for net in self._registers:
            literal = self._state[net]
            words.setdefault(names.get(literal, f"net {net}"), []).append(literal)
        return words

    def step(self, number: int, own: Mapping[int, int]) -> tuple[list[Bit], dict[int, tuple[int, int]]]:
        """Return outputs that may differ, and the next values of each register in unit and mutant.

        ``own`` maps literals of the unit's registers to the mutant's, for registers whose values may differ.
        """
        mutant = self._mutant(number, own)
        outputs = [bit for bit in self._differences(mutant) if not bit[0].startswith(NEXT)]
        following = zip(self._unit.nets(self._registers.values()), mutant.nets(self._registers.values()), strict=True)
        return outputs, dict(zip((self._state[net] for net in self._registers), following, strict=True))

    def machine(self, number: int) -> "GateMachine | None":
        """Return unit and mutant side by side; the mutant has separate registers where they may differ from the unit's.

        Returns None if there are black-boxed cells other than registers, or if a register has another clock. Registers
        without a reset value start at 0.
        """
        own: dict[int, int] = {}
        while True:
            if not self.is_clocked or self._mutant(number, own).nets(self._clocks) != self._unit.nets(self._clocks):
                return None
            outputs, following = self.step(number, own)
            more = [register for register, (bit, other) in following.items() if register not in own and bit != other]
            if not more:
                break
            own |= {register: self.graph.input() for register in more}
        starts = {self._state[net]: start for net, start in self._starts.items()}
        unit = {register: (bit, starts.get(register, 0)) for register, (bit, _) in following.items()}
        mutant = {literal: (following[register][1], unit[register][1]) for register, literal in own.items()}
        return GateMachine(outputs=outputs, unit=unit, mutant=mutant)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateMachine:
    # outputs that may differ
    outputs: Sequence[Bit]
    # next value and reset value of each register of the unit, and of each separate register of the mutant
    unit: Mapping[int, tuple[int, int]]
    mutant: Mapping[int, tuple[int, int]]
