"""Sequential equivalence of two modules by induction over clock edges.

Each register bit of one module has a partner in the other one: that of the same name, where word 3 of the array ``x``
is the register ``x3``, or else one with the same next values in random states. Partners are equal in every cycle if
they start equal, and if equality of all partners before a clock edge implies their equality after it. The modules are
equivalent if their outputs are equal for all inputs and all states in which partners are equal.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import NamedTuple

from xpulpnn.emit.names import plain_name
from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.tools.netlists import NetlistCell, NetlistModule

_REGISTER = re.compile(r"\$_DFF_(?P<edge>[NP])(?:(?P<active>[NP])(?P<value>[01]))?_")

Pin = tuple[str, str]  # instance (empty for the module itself) and port


class RegisterBit(NamedTuple):
    # wires and bit numbers of the bit, source names first
    names: tuple[tuple[str, int], ...]
    start: int | None  # initial value, or None
    # asynchronous reset: net, active value, and value after reset; or None
    reset: tuple[int, int, int] | None
    clock: tuple[int, int]  # net of the clock, and its value after the active edge
    next: int  # net of the next value


class ModuleLogic:
    """The combinational logic of a module; the pins of registers and submodule instances become ports."""

    def __init__(self, module: NetlistModule, directions: Mapping[str, Mapping[str, str]]) -> None:
        self.inputs: dict[Pin, list[int]] = {("", name): wire.nets for name, wire in module.inputs.items()}
        self.outputs: dict[Pin, list[int]] = {("", name): wire.nets for name, wire in module.outputs.items()}
        self.instances: dict[str, str] = {}
        self.registers: dict[int, RegisterBit] = {}
        operators: list[NetlistCell] = []
        names = _names(module)
        for cell in module.cells:
            if kind := _REGISTER.fullmatch(cell.type):
                (net,), (following,), (clock,) = (cell.pins[pin] for pin in ("Q", "D", "C"))
                value, edge, start = kind["value"], int(kind["edge"] == "P"), module.initial.get(net)
                reset = (cell.pins["R"][0], int(kind["active"] == "P"), int(value)) if value else None
                self.registers[net] = RegisterBit(tuple(names[net]), start, reset, (clock, edge), following)
            elif cell.type in directions:
                self.instances[cell.name] = cell.type
                for port, nets in cell.pins.items():
                    if port not in directions[cell.type]:
                        raise ToolError(f"{cell.name} of {module.name} must use ports of {cell.type}, not {port}")
                    side = self.outputs if directions[cell.type][port] == "input" else self.inputs
                    side[cell.name, port] = nets
            elif "Y" in cell.pins:
                operators.append(cell)
            else:
                raise ToolError(
                    f"{module.name} must consist of operators and registers, not of {cell.type} {cell.name}"
                )
        self.gates = ClockedGates(replace(module, cells=operators))


def _names(module: NetlistModule) -> dict[int, list[tuple[str, int]]]:
    names: dict[int, list[tuple[str, int]]] = {}
    for wire in sorted(module.wires.values(), key=lambda wire: wire.hidden):
        for place, net in enumerate(wire.nets):
            names.setdefault(net, []).append((wire.name, place))
    return names


DEFINITION, IMAGE = 0, 1  # sides: the reference module, and the module that shall be equal

Prover = Callable[[GateGraph, Sequence[tuple[int, int]]], frozenset[int] | None]
"""A function that proves pairs of literals equal; it returns None, or the inputs that are 1 in a counterexample."""

_CASES = 1 << 12
_ALL = (1 << _CASES) - 1
_ARRAY_WORD = re.compile(r"\[(\d+)\]$")


class Pair(NamedTuple):
    definition: Pin
    image: Pin
    inverted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetDifference:
    signal: str  # output, or register at the next clock edge
    # values of both sides
    expected: int
    actual: int
    given: dict[str, int]  # inputs and registers that the signal depends on, by name
    alone: tuple[str, ...] = ()  # registers of the definition without a partner in the image


@dataclass(frozen=True, kw_only=True)
class CorrespondenceTask:
    definition: ModuleLogic
    image: ModuleLogic
    # corresponding ports; inputs of one module only are free
    inputs: Sequence[Pair]
    outputs: Sequence[Pair]
    starts: bool = True  # if initial values must be equal

    @property
    def sides(self) -> tuple[ModuleLogic, ModuleLogic]:
        return self.definition, self.image

    @cached_property
    def partners(self) -> dict[int, int]:
        """The partner in the definition of each register bit of the image, by nets."""
        gates = _Gates(self, {})
        keys = gates.keys(DEFINITION), gates.keys(IMAGE)
        partners: dict[int, int] = {}
        for net, other in self._same_names():
            if keys[DEFINITION][net] == keys[IMAGE][other]:
                partners.setdefault(other, net)
        gates, left = _Gates(self, partners), dict[object, list[int]]()
        for side, taken in ((DEFINITION, {*partners.values()}), (IMAGE, {*partners})):
            values = gates.next_values(side, sorted(keys[side].keys() - taken), dict.fromkeys(gates.alone, 0))
            for net, value in values.items():
                similar = left.setdefault((keys[side][net], self.sides[side].registers[net].start, value), [])
                if side == DEFINITION:
                    similar.append(net)
                elif similar:
                    partners[net] = similar.pop(0)
        return partners

    def _same_names(self) -> Iterator[tuple[int, int]]:
        images: dict[tuple[str, int], int] = {}
        for net, register in self.image.registers.items():
            for name, place in register.names:
                images.setdefault((_flat(name), place), net)
        # Of several signals of one name, that without Amaranth's counter keeps the name.
        for net, register in sorted(self.definition.registers.items(), key=lambda item: "$" in item[1].names[0][0]):
            names = ((plain_name(rf"\{_flat(name)}"), place) for name, place in register.names)
            image = next((images[name] for name in names if name in images), None)
            if image is not None:
                yield net, image


def _flat(name: str) -> str:
    """Return the name of a word of an array, ``x[3]``, as that of a single register, ``x3``."""
    return _ARRAY_WORD.sub(r"\1", name)


def net_difference(task: CorrespondenceTask, prover: Prover) -> NetDifference | None:
    """Return None if the Verilog (image) is proved equal to the RTLIL (definition), else a difference."""
    for other, net in task.partners.items() if task.starts else ():
        register, image = task.definition.registers[net], task.image.registers[other]
        if register.start != image.start:
            name, place = register.names[0]
            expected, actual = (-1 if bit.start is None else bit.start for bit in (register, image))
            signal = f"initial value of {name}[{place}]"
            return NetDifference(signal=signal, expected=expected, actual=actual, given={})
    gates = _Gates(task, task.partners)
    pairs = [pair for word in gates.words.values() for pair in word.values() if pair[0] != pair[1]]
    ones = gates.graph.random_case(pairs, _CASES, Random(1))
    ones = ones or (prover(gates.graph, pairs) if pairs else None)
    return None if ones is None else gates.difference(ones)


class _Gates:
    """Both modules with the same inputs and, in partners, the same state."""

    def __init__(self, task: CorrespondenceTask, partners: Mapping[int, int]) -> None:
        self._task, self._partners, self.graph = task, partners, GateGraph()
        self._state = {net: self.graph.input() for net in task.definition.registers}
        fresh = {net: self.graph.input() for net in task.image.registers if net not in partners}
        known = dict(self._state), fresh | {net: self._state[other] for net, other in partners.items()}
        #: Register bits without a partner.
        self.alone = [*(self._state[net] for net in self._state.keys() - partners.values()), *fresh.values()]
        self._ports: dict[str, list[int]] = {}
        for pair in task.inputs:
            nets, others = task.definition.inputs[pair.definition], task.image.inputs[pair.image]
            literals = self._ports[pin_name(pair.definition)] = self.graph.inputs(len(nets))
            known[DEFINITION].update(zip(nets, literals, strict=True))
            known[IMAGE].update(zip(others, (literal ^ pair.inverted for literal in literals), strict=True))
        self._sides = [
            ClockCycle(self.graph, logic.gates, {}, state) for logic, state in zip(task.sides, known, strict=True)
        ]

    @cached_property
    def words(self) -> dict[str, dict[int, tuple[int, int]]]:
        """By signal and place of the bit, literals of definition and image that must be equal."""
        words: dict[str, dict[int, tuple[int, int]]] = {}
        for other, net in self._partners.items():
            name, place = self._task.definition.registers[net].names[0]
            pair = self._next(DEFINITION, net), self._next(IMAGE, other)
            words.setdefault(f"{name} after the clock edge", {})[place] = pair
        for pair in self._task.outputs:
            expected = self._sides[DEFINITION].nets(self._task.definition.outputs[pair.definition])
            actual = self._sides[IMAGE].nets(self._task.image.outputs[pair.image])
            bits = ((literal, other ^ pair.inverted) for literal, other in zip(expected, actual, strict=True))
            words[pin_name(pair.definition)] = dict(enumerate(bits))
        return words

    def _next(self, side: int, net: int) -> int:
        register = self._task.sides[side].registers[net]
        if register.reset is None:
            return self._sides[side].nets([register.next])[0]
        net, active, value = register.reset
        following, resets = self._sides[side].nets([register.next, net])
        return self.graph.mux(resets ^ active ^ 1, following, value)

    def next_values(self, side: int, nets: Iterable[int], fixed: Mapping[int, int]) -> dict[int, int]:
        """Return the next values of register bits in random cases, with fixed values of some literals."""
        following = {net: self._next(side, net) for net in nets}
        values = {each: Random(each).getrandbits(_CASES) for each in self.graph.variables(following.values())}
        found = self.graph.evaluate({**values, **fixed}, following.values(), _ALL)
        return dict(zip(following, found, strict=True))

    def keys(self, side: int) -> dict[int, tuple[int, bool]]:
        """Return what partners must have in common: the clock and its edge, and whether a reset acts at once.

        A reset that is active-low in the image acts at once on what the definition makes constant at the next edge.
        """
        at_once = {net for net, bit in self._task.sides[side].registers.items() if bit.reset}
        resets = [pin_name(pair.definition) for pair in self._task.inputs if pair.inverted and not pair.definition[0]]
        if side == DEFINITION and resets:
            reset = {literal: _ALL for name in resets for literal in self._ports[name]}
            values = self.next_values(side, self._state, reset)
            at_once = {net for net, value in values.items() if value in (0, _ALL)}
        return {
            net: (self._sides[side].nets([bit.clock[0]])[0] ^ bit.clock[1], net in at_once)
            for net, bit in self._task.sides[side].registers.items()
        }

    def difference(self, ones: frozenset[int]) -> NetDifference:
        """Return the first word that differs in the case in which the inputs ``ones`` are 1."""

        def value(word: Mapping[int, tuple[int, int]], side: int) -> int:
            bits = self.graph.evaluate(dict.fromkeys(ones, 1), [pair[side] for pair in word.values()])
            return sum(bit << place for place, bit in zip(word, bits, strict=True))

        signal, word = next(item for item in self.words.items() if value(item[1], DEFINITION) != value(item[1], IMAGE))
        needed = {*self.graph.variables(literal for pair in word.values() for literal in pair)}
        ports = {name: bits for name, bits in self._ports.items() if needed.intersection(bits)}
        shown = {name: self.graph.number(ones, literals) for name, literals in ports.items()}
        registers = self._task.definition.registers
        for net, literal in self._state.items():
            if literal in needed:
                name, place = registers[net].names[0]
                shown[name] = shown.get(name, 0) | (literal in ones) << place
        alone = {registers[net].names[0][0] for net in registers.keys() - {*self._partners.values()}}
        return NetDifference(
            signal=signal,
            expected=value(word, DEFINITION),
            actual=value(word, IMAGE),
            given=shown,
            alone=tuple(sorted(alone)),
        )


def pin_name(pin: Pin) -> str:
    return ".".join(filter(None, pin))
