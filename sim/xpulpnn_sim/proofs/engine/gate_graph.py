"""Graphs of AND, XOR and majority gates, for proofs and simulation.

A literal is an integer: twice the number of a node, plus one if it is inverted. Equal gates share a node, constants are
folded, and inversions are moved from the inputs of an XOR to its output.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple

from xpulpnn_sim.tools.netlists import GATES

FALSE = 0
TRUE = 1

Word = list[int]  # literals, lowest bit first


class GateKind(IntEnum):
    """Function of a node; XORs have lower numbers than carries, as ``algebra`` replaces them first."""

    CONSTANT = 0
    INPUT = 1
    XOR = 2
    AND = 3
    MAJORITY = 4


class GateNode(NamedTuple):
    kind: GateKind
    operands: tuple[int, ...]


_INPUT = GateNode(GateKind.INPUT, ())
_BITWISE: Mapping[GateKind, Callable[..., Any]] = {
    GateKind.XOR: operator.xor,
    GateKind.AND: operator.and_,
    GateKind.MAJORITY: lambda x, y, z: x & y | x & z | y & z,
}


class GateGraph:
    def __init__(self) -> None:
        self.nodes: list[GateNode] = [GateNode(GateKind.CONSTANT, ())]
        self._known: dict[tuple[GateKind, tuple[int, ...]], int] = {}

    def input(self) -> int:
        self.nodes.append(_INPUT)
        return len(self.nodes) - 1 << 1

    def inputs(self, width: int) -> list[int]:
        return [self.input() for _ in range(width)]

    def and_(self, x: int, y: int) -> int:
        if x > y:
            x, y = y, x
        if x == FALSE or x ^ y == 1:
            return FALSE
        if x in (TRUE, y):
            return y
        operands = (x, y)
        known = self._known.get((GateKind.AND, operands))
        return self._gate(GateKind.AND, operands) if known is None else known << 1

    def or_(self, x: int, y: int) -> int:
        return self.and_(x ^ 1, y ^ 1) ^ 1

    def xor(self, x: int, y: int) -> int:
        flip, (x, y) = (x ^ y) & 1, sorted((x & ~1, y & ~1))
        if x == y:
            return flip
        if x == FALSE:
            return y ^ flip
        known = self._known.get((GateKind.XOR, (x, y)))
        return (self._gate(GateKind.XOR, (x, y)) if known is None else known << 1) ^ flip

    def mux(self, select: int, low: int, high: int) -> int:
        if select <= TRUE:
            return high if select else low
        if low == high:
            return low
        if low ^ high == 1:
            return self.xor(select, low)
        return self.or_(self.and_(select, high), self.and_(select ^ 1, low))

    def majority(self, x: int, y: int, z: int) -> int:
        x, y, z = sorted((x, y, z))
        for first, other, third in ((x, y, z), (y, z, x)):
            if first == other:
                return first
            if first ^ other == 1:
                return third
        if x <= TRUE:
            return self.or_(y, z) if x else self.and_(y, z)
        flip = x & 1
        operands = (x ^ flip, y ^ flip, z ^ flip)
        known = self._known.get((GateKind.MAJORITY, operands))
        return (self._gate(GateKind.MAJORITY, operands) if known is None else known << 1) ^ flip

    def all(self, literals: Iterable[int]) -> int:
        level = list(literals)
        while len(level) > 1:
            odd = level[len(level) & ~1 :]
            level = [self.and_(level[index], level[index + 1]) for index in range(0, len(level) - 1, 2)] + odd
        return level[0] if level else TRUE

    def any(self, literals: Iterable[int]) -> int:
        return self.all(literal ^ 1 for literal in literals) ^ 1

    def equal(self, x: Iterable[int], y: Iterable[int]) -> int:
        return self.all(self.xor(bit, other) ^ 1 for bit, other in zip(x, y, strict=True))

    def is_value(self, word: Iterable[int], value: int) -> int:
        return self.all(literal ^ (value >> place & 1) ^ 1 for place, literal in enumerate(word))

    def add(self, x: Sequence[int], y: Sequence[int], carry: int = FALSE) -> list[int]:
        """Return the sum of two words and a carry as a chain of full adders; it is as wide as the longer word."""
        total: list[int] = []
        for bit, other in zip_longest(x, y, fillvalue=FALSE):
            total.append(self.xor(self.xor(bit, other), carry))
            carry = self.majority(bit, other, carry)
        return total

    def subtract(self, x: Sequence[int], y: Sequence[int]) -> list[int]:
        return self.add(x, [bit ^ 1 for bit in y], TRUE)

    def choose(self, condition: int, word: Sequence[int], other: Sequence[int]) -> list[int]:
        return [self.mux(condition, low, high) for high, low in zip(word, other, strict=True)]

    def evaluate(self, values: Mapping[int, int], literals: Iterable[int], ones: int = 1) -> list[int]:
        """Return the values of literals for given values of input literals (inputs without a value are 0).

        A value is an integer with one bit per case; ``ones`` is 1 in every case.
        """
        return self._mapped(literals, lambda literal: values.get(literal, 0), _BITWISE, lambda value: value ^ ones)

    def replaced(self, literals: Iterable[int], given: Mapping[int, int], into: "GateGraph | None" = None) -> list[int]:
        """Return the literals with some inputs replaced by ``given``, as gates of this graph or the graph ``into``."""
        graph = into or self
        make = {GateKind.AND: graph.and_, GateKind.XOR: graph.xor, GateKind.MAJORITY: graph.majority}
        return self._mapped(literals, lambda literal: given.get(literal, literal), make, lambda literal: literal ^ 1)

    def _mapped(
        self,
        literals: Iterable[int],
        leaf: Callable[[int], Any],
        gates: Mapping[GateKind, Callable[..., Any]],
        invert: Callable[[Any], Any],
    ) -> list[Any]:
        known: dict[int, Any] = {}

        def image(literal: int) -> Any:
            return invert(known[literal >> 1]) if literal & 1 else known[literal >> 1]

        targets = list(literals)
        for node in self.cone(targets):
            kind, operands = self.nodes[node]
            known[node] = gates[kind](*map(image, operands)) if operands else leaf(node << 1)
        return list(map(image, targets))

    def random_case(self, pairs: Iterable[tuple[int, int]], cases: int, generator: Random) -> frozenset[int] | None:
        """Return the inputs that are 1 in a random case in which a pair of literals differs; None if none is found."""
        flat = [literal for pair in pairs for literal in pair]
        values = {variable: generator.getrandbits(cases) for variable in self.variables(flat)}
        results = self.evaluate(values, flat, (1 << cases) - 1)
        wrong = next((one ^ two for one, two in zip(results[::2], results[1::2], strict=True) if one != two), 0)
        return first_case(values, wrong) if wrong else None

    def number(self, ones: Iterable[int], word: Iterable[int]) -> int:
        return self.numbers(ones, [word])[0]

    def numbers(self, ones: Iterable[int], words: Iterable[Iterable[int]]) -> list[int]:
        word_lists = [list(word) for word in words]
        bits = iter(self.evaluate(dict.fromkeys(ones, 1), [literal for word in word_lists for literal in word]))
        return [sum(next(bits) << place for place in range(len(word))) for word in word_lists]

    def cone(self, literals: Iterable[int]) -> list[int]:
        """Return the nodes that ``literals`` depend on, in topological order."""
        seen: set[int] = set()
        stack = [literal >> 1 for literal in literals]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack += [operand >> 1 for operand in self.nodes[node].operands]
        return sorted(seen)

    def variables(self, literals: Iterable[int]) -> list[int]:
        return [node << 1 for node in self.cone(literals) if self.nodes[node].kind is GateKind.INPUT]

    def _gate(self, kind: GateKind, operands: tuple[int, ...]) -> int:
        node = len(self.nodes)
        self.nodes.append(GateNode(kind, operands))
        self._known[kind, operands] = node
        return node << 1


def first_case(values: Mapping[int, int], wrong: int) -> frozenset[int]:
    case = (wrong & -wrong).bit_length() - 1
    return frozenset(variable for variable, bits in values.items() if bits >> case & 1)


def counting_pattern(place: int, cases: int) -> int:
    """Return an integer of ``cases`` bits; its bit ``i`` is the bit ``place`` of the number ``i``."""
    period = 2 << place
    return ((1 << (1 << place)) - 1 << (1 << place)) * (((1 << cases) - 1) // ((1 << period) - 1))


def literals_of(value: int, width: int) -> list[int]:
    return [value >> bit & 1 for bit in range(width)]


Operation = Callable[..., int]  # returns the output literal of a cell, given the graph and the literals of its pins


def _operation(table: int, inputs: int) -> Operation:
    """Return the graph operation of a gate with one or two inputs, or of a multiplexer, by its truth table."""
    if inputs == 1:
        flip = table & 1
        return lambda graph, a: a ^ flip
    if inputs == 3:
        flip = table & 1
        return lambda graph, a, b, s: graph.mux(s, a, b) ^ flip
    if table.bit_count() == 2:
        flip = table & 1
        return lambda graph, a, b: graph.xor(a, b) ^ flip
    # an AND with some operands and its result inverted
    flip = int(table.bit_count() == 3)
    row = (table ^ 0b1111 * flip).bit_length() - 1
    x, y = row & 1 ^ 1, row >> 1 ^ 1
    return lambda graph, a, b: graph.and_(a ^ x, b ^ y) ^ flip


OPERATIONS: Mapping[str, tuple[str, Operation]] = {
    name: (pins, _operation(table, len(pins))) for name, (pins, table) in GATES.items()
}
"""Input pins and operation of each single-bit Yosys gate, by type."""
