"""Gate graphs that keep their full adders visible.

A literal is an integer: twice the number of a node, plus one if it is inverted. Equal gates are one node, constants are
folded away, inversions are moved out of exclusive-ors. Majorities, the carries of full adders, are nodes of their own,
also where the netlist writes them as ANDs and ORs; what the algebra of :mod:`~xpulpnn_sim.formal.algebra` needs.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

FALSE = 0
TRUE = 1


class GateKind(IntEnum):
    """What a node computes. Exclusive-ors precede the carries that algebra makes of them."""

    CONSTANT = 0
    INPUT = 1
    XOR = 2
    AND = 3
    MAJORITY = 4


class GateNode(NamedTuple):
    """A gate, its operands as literals, and how many gates are below it."""

    kind: GateKind
    operands: tuple[int, ...]
    level: int


Cut = tuple[tuple[int, ...], int]
"""Up to three nodes and the truth table of a node over them: bit i for the values i of the leaves, first one lowest."""

_LEAF_TABLES = (0b10101010, 0b11001100, 0b11110000)
_ALL = 0b11111111
_MOST_CUTS = 8


@cache
def _table(function: int, where: tuple[int, ...]) -> int:
    """Truth table ``function`` over leaves that are at the places ``where`` of a longer list."""
    found = 0
    for row in range(8):
        index = sum((row >> place & 1) << number for number, place in enumerate(where))
        found |= (function >> index & 1) << row
    return found


def _majority_tables() -> dict[int, tuple[int, int, int]]:
    """Truth tables of majorities, with the inversions of the three leaves."""
    found: dict[int, tuple[int, int, int]] = {}
    for pattern in range(8):
        flips = (pattern & 1, pattern >> 1 & 1, pattern >> 2)
        x, y, z = (table ^ _ALL * flip for table, flip in zip(_LEAF_TABLES, flips, strict=True))
        found[x & y | x & z | y & z] = flips
    return found


_MAJORITIES = _majority_tables()


class GateGraph:
    """A graph of gates, built from the inputs up."""

    def __init__(self, *, adders: bool = True) -> None:
        self._adders = adders
        self.nodes: list[GateNode] = [GateNode(GateKind.CONSTANT, (), 0)]
        self._known: dict[tuple[GateKind, tuple[int, ...]], int] = {}
        self._cuts: dict[int, tuple[Cut, ...]] = {0: ()}

    def input(self) -> int:
        """A new variable."""
        node = len(self.nodes)
        self.nodes.append(GateNode(GateKind.INPUT, (), 0))
        self._cuts[node] = (((node,), _LEAF_TABLES[0]),)
        return node << 1

    def inputs(self, width: int) -> list[int]:
        """A word of new variables."""
        return [self.input() for _ in range(width)]

    def has_majority(self, operands: Iterable[int]) -> bool:
        """Whether a node computes the majority of three literals or its inverse."""
        x, y, z = sorted(operands)
        flip = x & 1
        return (GateKind.MAJORITY, (x ^ flip, y ^ flip, z ^ flip)) in self._known

    def has_half_adder(self, operands: tuple[int, ...], *, inverted: bool) -> bool:
        """Whether a node is the conjunction of two upright literals, or of both of them inverted."""
        x, y = sorted(operand & ~1 for operand in operands)
        return (GateKind.AND, (x | inverted, y | inverted)) in self._known

    def and_(self, x: int, y: int) -> int:
        """Both."""
        if x > y:
            x, y = y, x
        if x == FALSE or x ^ y == 1:
            return FALSE
        if x in (TRUE, y):
            return y
        known = self._known.get((GateKind.AND, (x, y)))
        if known is not None:
            return known << 1
        cuts = self._merged(x, y, GateKind.AND)
        for leaves, table in cuts:
            if len(leaves) == 3 and table in _MAJORITIES:
                x, y, z = (leaf << 1 | flip for leaf, flip in zip(leaves, _MAJORITIES[table], strict=True))
                return self.majority(x, y, z)
        return self._add(GateKind.AND, (x, y), cuts) << 1

    def or_(self, x: int, y: int) -> int:
        """At least one."""
        return self.and_(x ^ 1, y ^ 1) ^ 1

    def xor(self, x: int, y: int) -> int:
        """Exactly one."""
        flip, (x, y) = (x ^ y) & 1, sorted((x & ~1, y & ~1))
        if x == y:
            return flip
        if x == FALSE:
            return y ^ flip
        known = self._known.get((GateKind.XOR, (x, y)))
        node = self._add(GateKind.XOR, (x, y), self._merged(x, y, GateKind.XOR)) if known is None else known
        return node << 1 ^ flip

    def mux(self, select: int, low: int, high: int) -> int:
        """``high`` if ``select``, else ``low``."""
        if select <= TRUE:
            return high if select else low
        if low == high:
            return low
        if low ^ high == 1:
            return self.xor(select, low)
        return self.or_(self.and_(select, high), self.and_(select ^ 1, low))

    def majority(self, x: int, y: int, z: int) -> int:
        """At least two."""
        x, y, z = sorted((x, y, z))
        for one, other, third in ((x, y, z), (y, z, x)):
            if one == other:
                return one
            if one ^ other == 1:
                return third
        if x <= TRUE:
            return self.or_(y, z) if x else self.and_(y, z)
        flip = x & 1
        operands = (x ^ flip, y ^ flip, z ^ flip)
        known = self._known.get((GateKind.MAJORITY, operands))
        if known is None:
            known = self._add(GateKind.MAJORITY, operands, self._majority_cuts(operands))
        return known << 1 ^ flip

    def add(self, x: Sequence[int], y: Sequence[int], carry: int = FALSE) -> list[int]:
        """Sum of two words and a carry, modulo the width of the longer one, as a row of full adders."""
        width = max(len(x), len(y))
        total: list[int] = []
        for one, other in zip(extended(x, width), extended(y, width), strict=True):
            total.append(self.xor(self.xor(one, other), carry))
            carry = self.majority(one, other, carry)
        return total

    def multiply(self, x: Sequence[int], y: Sequence[int], width: int) -> list[int]:
        """Product of two unsigned words modulo ``2**width``, as an array of full adders."""
        total = [FALSE] * width
        for place, bit in enumerate(y[:width]):
            end = min(place + len(x), width)
            row = [self.and_(bit, other) for other in x[: end - place]]
            total[place : end + 1] = self.add(total[place:end], [*row, FALSE])[: width - place]
        return total

    def evaluate(self, values: Mapping[int, int], wanted: Iterable[int], mask: int = 1) -> list[int]:
        """Values of literals, given those of the inputs (as literals; others are 0).

        A value is an integer whose bits are independent cases, as many as ``mask`` has.
        """
        known: dict[int, int] = {0: 0}

        def literal(one: int) -> int:
            return known[one >> 1] ^ (mask if one & 1 else 0)

        targets = list(wanted)
        for node in self.cone(targets):
            kind, operands, _ = self.nodes[node]
            if kind is GateKind.INPUT:
                known[node] = values.get(node << 1, 0)
            elif kind is GateKind.XOR:
                known[node] = literal(operands[0]) ^ literal(operands[1])
            elif kind is GateKind.AND:
                known[node] = literal(operands[0]) & literal(operands[1])
            elif kind is GateKind.MAJORITY:
                x, y, z = map(literal, operands)
                known[node] = x & y | x & z | y & z
        return [literal(one) for one in targets]

    def cone(self, literals: Iterable[int]) -> list[int]:
        """Nodes that ``literals`` depend on, operands first."""
        seen: set[int] = set()
        stack = [literal >> 1 for literal in literals]
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack += [operand >> 1 for operand in self.nodes[node].operands]
        return sorted(seen)

    def cuts(self, node: int) -> tuple[Cut, ...]:
        """Ways to write a node as a function of up to three others."""
        return self._cuts[node]

    def _add(self, kind: GateKind, operands: tuple[int, ...], cuts: Iterable[Cut]) -> int:
        node = len(self.nodes)
        self.nodes.append(GateNode(kind, operands, 1 + max(self.nodes[one >> 1].level for one in operands)))
        self._known[kind, operands] = node
        self._cuts[node] = (((node,), _LEAF_TABLES[0]), *cuts)
        return node

    def _merged(self, x: int, y: int, kind: GateKind) -> list[Cut]:
        if not self._adders:
            return []
        found: dict[tuple[int, ...], int] = {}
        for leaves_x, table_x in self._cuts[x >> 1]:
            for leaves_y, table_y in self._cuts[y >> 1]:
                leaves = tuple(sorted({*leaves_x, *leaves_y}))
                if len(leaves) > 3 or leaves in found:
                    continue
                one = _table(table_x, tuple(map(leaves.index, leaves_x))) ^ (_ALL if x & 1 else 0)
                other = _table(table_y, tuple(map(leaves.index, leaves_y))) ^ (_ALL if y & 1 else 0)
                found[leaves] = one & other if kind is GateKind.AND else one ^ other
        return list(found.items())[:_MOST_CUTS]

    @staticmethod
    def _majority_cuts(operands: Sequence[int]) -> list[Cut]:
        leaves = tuple(sorted(operand >> 1 for operand in operands))
        x, y, z = (_LEAF_TABLES[leaves.index(operand >> 1)] ^ (_ALL if operand & 1 else 0) for operand in operands)
        return [(leaves, x & y | x & z | y & z)]


def extended(word: Sequence[int], width: int, *, signed: bool = False) -> list[int]:
    """Literals of a word as long as ``width``: continued by its sign or by zeros, or cut."""
    fill = word[-1] if signed and word else FALSE
    return [*word, *[fill] * (width - len(word))][:width]
