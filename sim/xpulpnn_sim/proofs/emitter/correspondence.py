"""Sequential equivalence of two modules by induction over clock edges.

Register bits of both modules form classes of bits that are assumed equal. The members of a class are equal if they
start equal, and if equality before a clock edge implies equality after it. The modules are equivalent if their outputs
are equal for all inputs and all states in which the members of each class are equal. Registers of equal names start in
a class without other members; others (arrays, renamed registers) are distinguished by their next values in random
states (C. A. J. van Eijk, Sequential Equivalence Checking Based on Structural Similarities, 2000).
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xpulpnn.emit.names import plain_name
from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph, GateKind
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

StateBit = tuple[int, int]  # side and net of a register bit

Prover = Callable[[GateGraph, Sequence[tuple[int, int]]], frozenset[int] | None]
"""A function that proves pairs of literals equal; it returns None, or the inputs that are 1 in a counterexample."""

_CASES = 1 << 12


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
    alone: tuple[str, ...] = ()  # registers of the definition without an equal register in the image


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def register(self, bit: StateBit) -> RegisterBit:
        return self.sides[bit[0]].registers[bit[1]]

    @property
    def bits(self) -> list[StateBit]:
        return [(side, net) for side, logic in enumerate(self.sides) for net in logic.registers]


def net_difference(task: CorrespondenceTask, prover: Prover) -> NetDifference | None:
    """Return None if the Verilog (image) is proved equal to the RTLIL (definition), else a difference."""
    difference = _Induction(task, prover, named=True).run()
    if difference is None:
        return None
    # names may belong to other registers
    return difference if _Induction(task, prover, named=False).run() is not None else None


class _Word:
    """The bits of one signal as pairs of literals (of definition and image) that must be equal."""

    def __init__(self, signal: str) -> None:
        self.signal = signal
        self.members: list[StateBit] = []
        self.places: list[int] = []
        self.pairs: list[tuple[int, int]] = []

    def add(self, place: int, literal: int, other: int) -> None:
        self.places.append(place)
        self.pairs.append((literal, other))


class _Gates:
    def __init__(self, task: CorrespondenceTask, state: Mapping[StateBit, int]) -> None:
        self.graph = GateGraph()
        self.ports: dict[str, list[int]] = {}
        variables: dict[int, int] = {}
        for number in state.values():
            if number not in variables:
                variables[number] = self.graph.input()
        self.state = {bit: variables[number] for bit, number in state.items()}
        known: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for (side, net), literal in self.state.items():
            known[side][net] = literal
        for pair in task.inputs:
            nets, others = task.definition.inputs[pair.definition], task.image.inputs[pair.image]
            literals = self.graph.inputs(len(nets))
            self.ports[pin_name(pair.definition)] = literals
            known[DEFINITION].update(zip(nets, literals, strict=True))
            known[IMAGE].update(zip(others, (literal ^ pair.inverted for literal in literals), strict=True))
        self.sides = tuple(
            ClockCycle(self.graph, logic.gates, {}, state) for logic, state in zip(task.sides, known, strict=True)
        )
        self.next = {bit: self._next(task.register(bit), self.sides[bit[0]]) for bit in task.bits}
        self.outputs: list[_Word] = []
        for pair in task.outputs:
            word = _Word(pin_name(pair.definition))
            expected = self.sides[DEFINITION].nets(task.definition.outputs[pair.definition])
            actual = self.sides[IMAGE].nets(task.image.outputs[pair.image])
            for place, (literal, other) in enumerate(zip(expected, actual, strict=True)):
                word.add(place, literal, other ^ pair.inverted)
            self.outputs.append(word)

    def _next(self, bit: RegisterBit, literals: ClockCycle) -> int:
        if bit.reset is None:
            return literals.nets([bit.next])[0]
        net, active, value = bit.reset
        following, resets = literals.nets([bit.next, net])
        return self.graph.mux(resets ^ active ^ 1, following, value)

    def random_values(self, patterns: Sequence[Mapping[int, int]], generator: random.Random) -> dict[int, int]:
        values: dict[int, int] = {}
        for node, gate in enumerate(self.graph.nodes):
            if gate.kind is GateKind.INPUT:
                literal = node << 1
                value = generator.getrandbits(_CASES)
                for pattern in patterns:
                    value = value << 1 | pattern.get(literal, 0)
                values[literal] = value
        return values


def pin_name(pin: Pin) -> str:
    return ".".join(filter(None, pin))


class _Induction:
    """One attempt at the induction; classes of bits assumed equal are split until the classes are inductive."""

    def __init__(self, task: CorrespondenceTask, prover: Prover, *, named: bool) -> None:
        self._task = task
        self._prover = prover
        self._named = named
        self._generator = random.Random(1)
        self._bits = task.bits
        self._free = _Gates(task, {bit: number for number, bit in enumerate(self._bits)})
        self._patterns: list[dict[int, int]] = []
        self._classes = self._first_classes()

    def run(self) -> NetDifference | None:
        wrong = self._wrong_start()
        if wrong is not None:
            return wrong
        self._refine()
        while True:
            gates = _Gates(self._task, self._classes)
            words = [*self._registers(gates), *gates.outputs]
            pairs = [pair for word in words for pair in word.pairs if pair[0] != pair[1]]
            ones = gates.graph.random_case(pairs, _CASES, self._generator)
            ones = ones or (self._prover(gates.graph, pairs) if pairs else None)
            if ones is None:
                return None
            difference, final = self._different(gates, words, ones)
            if final or not self._refined_by(gates, ones):
                return difference

    def _wrong_start(self) -> NetDifference | None:
        for (_, net), (_, other) in self._same_names() if self._named and self._task.starts else ():
            register, image = self._task.definition.registers[net], self._task.image.registers[other]
            if register.start != image.start:
                name, place = register.names[0]
                expected, actual = (-1 if bit.start is None else bit.start for bit in (register, image))
                signal = f"initial value of {name}[{place}]"
                return NetDifference(signal=signal, expected=expected, actual=actual, given={})
        return None

    def _first_classes(self) -> dict[StateBit, int]:
        """Return the initial class of each bit; bits with equal names get classes below 0, never to be split.

        Bits without a register of the same name are classified by clock, initial value and reset.
        """
        keys: dict[StateBit, tuple[object, ...]] = {}
        cleared = self._cleared()
        for bit in self._bits:
            register = self._task.register(bit)
            clock = self._free.sides[bit[0]].nets([register.clock[0]])[0] ^ register.clock[1]
            asynchronous = bit in cleared if bit[0] == DEFINITION else register.reset is not None
            keys[bit] = (clock, register.start if self._task.starts else None, asynchronous)
        if self._named:
            for bit, other in self._same_names():
                if keys[bit] == keys[other]:
                    keys[bit] = keys[other] = ("named", bit)
        numbers: dict[tuple[object, ...], int] = {}
        for key in keys.values():
            numbers.setdefault(key, (-1 if key[0] == "named" else 1) * (1 + len(numbers)))
        return {bit: numbers[key] for bit, key in keys.items()}

    def _cleared(self) -> set[StateBit]:
        """Return the definition's register bits that become constant under a reset that is active-low in the image."""
        resets = [pin_name(pair.definition) for pair in self._task.inputs if pair.inverted and not pair.definition[0]]
        values = self._free.random_values((), self._generator)
        mask = (1 << _CASES) - 1
        values.update((literal, mask) for name in resets for literal in self._free.ports[name])
        bits = [bit for bit in self._bits if bit[0] == DEFINITION] if resets else []
        following = self._free.graph.evaluate(values, [self._free.next[bit] for bit in bits], mask)
        return {bit for bit, value in zip(bits, following, strict=True) if value in (0, mask)}

    def _same_names(self) -> Iterable[tuple[StateBit, StateBit]]:
        images: dict[tuple[str, int], int] = {}
        for net, register in self._task.image.registers.items():
            for name in register.names:
                images.setdefault(name, net)
        taken: set[int] = set()
        for net, register in self._task.definition.registers.items():
            names = ((plain_name(f"\\{name}"), place) for name, place in register.names)
            net_of_image = next((images[name] for name in names if name in images), None)
            if net_of_image is not None and net_of_image not in taken:
                taken.add(net_of_image)
                yield (DEFINITION, net), (IMAGE, net_of_image)

    def _refine(self) -> None:
        """Split classes whose members have different next values in random states, until no class is split."""
        count = 0
        while count != (count := len(set(self._classes.values()))):
            graph = self._free.graph
            values = self._free.random_values(self._patterns, self._generator)
            shared: dict[int, int] = {}
            for bit, number in self._classes.items():
                literal = self._free.state[bit]
                values[literal] = shared.setdefault(number, values[literal])
            cases = _CASES + len(self._patterns)
            following = graph.evaluate(values, [self._free.next[bit] for bit in self._bits], (1 << cases) - 1)
            numbers: dict[tuple[int, int], int] = {}
            for bit, value in zip(self._bits, following, strict=True):
                number = self._classes[bit]
                if number > 0:
                    self._classes[bit] = numbers.setdefault((number, value), 1 + len(numbers))

    def _registers(self, gates: _Gates) -> list[_Word]:
        words: dict[str, _Word] = {}
        first: dict[int, StateBit] = {}
        for bit in self._bits:
            leader = first.setdefault(self._classes[bit], bit)
            if leader == bit:
                continue
            name, place = self._task.register(leader).names[0]
            word = words.setdefault(name, _Word(f"{name} after the clock edge"))
            word.add(place, gates.next[leader], gates.next[bit])
            word.members.append(bit)
        return list(words.values())

    def _different(self, gates: _Gates, words: Iterable[_Word], ones: frozenset[int]) -> tuple[NetDifference, bool]:
        values = dict.fromkeys(ones, 1)
        coarse: NetDifference | None = None
        for word in words:
            results = gates.graph.evaluate(values, [literal for pair in word.pairs for literal in pair])
            wrong = [index for index in range(len(word.pairs)) if results[2 * index] != results[2 * index + 1]]
            if not wrong:
                continue
            expected, actual = (
                sum(bit << place for place, bit in zip(word.places, results[side::2], strict=True)) for side in (0, 1)
            )
            given = self._counterexample_values(gates, word, ones)
            difference = NetDifference(
                signal=word.signal, expected=expected, actual=actual, given=given, alone=tuple(sorted(self._single()))
            )
            if not word.members or any(self._classes[word.members[index]] < 0 for index in wrong):
                return difference, True
            coarse = coarse or difference
        assert coarse is not None
        return coarse, False

    def _refined_by(self, gates: _Gates, ones: frozenset[int]) -> bool:
        pattern = {self._free.state[bit]: int(literal in ones) for bit, literal in gates.state.items()}
        for name, literals in gates.ports.items():
            pattern.update(zip(self._free.ports[name], (int(literal in ones) for literal in literals), strict=True))
        self._patterns.append(pattern)
        before = len(set(self._classes.values()))
        self._refine()
        return len(set(self._classes.values())) > before

    def _single(self) -> set[str]:
        images = {number for bit, number in self._classes.items() if bit[0] == IMAGE}
        bits = [bit for bit, number in self._classes.items() if bit[0] == DEFINITION and number not in images]
        return {self._task.register(bit).names[0][0] for bit in bits}

    def _counterexample_values(self, gates: _Gates, word: _Word, ones: frozenset[int]) -> dict[str, int]:
        needed = set(gates.graph.variables(literal for pair in word.pairs for literal in pair))
        given: dict[str, int] = {}
        for name, literals in gates.ports.items():
            if needed.intersection(literals):
                given[name] = gates.graph.number(ones, literals)
        for bit, literal in gates.state.items():
            if literal in needed and bit[0] == DEFINITION:
                name, place = self._task.register(bit).names[0]
                given[name] = given.get(name, 0) | (literal in ones) << place
        return given
