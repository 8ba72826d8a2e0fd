"""Gate graphs in which full adders stay visible, and recognition of a final adder of any structure.

Majorities (the carries of full adders) are nodes even if the netlist computes them with ANDs and ORs, as
:mod:`~xpulpnn_sim.proofs.engine.algebra` needs them. Binary decision diagrams prove that carries are equal.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, GateKind
from xpulpnn_sim.proofs.engine.solvers import GaveUpError

Cut = tuple[tuple[int, ...], int]
"""A cut of a node: up to three leaf nodes, and the node's truth table over them (first leaf least significant)."""

_LEAF_TABLES = (0b10101010, 0b11001100, 0b11110000)
_ALL = 0b11111111
_MOST_CUTS = 8


@cache
def _table(function: int, where: tuple[int, ...]) -> int:
    """Return the truth table over three variables of a ``function`` of the variables numbered ``where``."""
    table = 0
    for row in range(8):
        index = sum((row >> place & 1) << number for number, place in enumerate(where))
        table |= (function >> index & 1) << row
    return table


def _majority_tables() -> dict[int, tuple[int, int, int]]:
    tables: dict[int, tuple[int, int, int]] = {}
    for pattern in range(8):
        flips = (pattern & 1, pattern >> 1 & 1, pattern >> 2)
        x, y, z = (table ^ _ALL * flip for table, flip in zip(_LEAF_TABLES, flips, strict=True))
        tables[x & y | x & z | y & z] = flips
    return tables


_MAJORITIES = _majority_tables()


class AdderGraph(GateGraph):
    """A gate graph that detects majorities; it stores each node's level and cuts (sets of nodes that determine it)."""

    def __init__(self) -> None:
        super().__init__()
        self._levels: dict[int, int] = {}
        self._cuts: dict[int, tuple[Cut, ...]] = {0: ()}

    def level(self, node: int) -> int:
        return self._levels.get(node, 0)

    def cuts(self, node: int) -> tuple[Cut, ...]:
        return self._cuts.get(node, (((node,), _LEAF_TABLES[0]),))

    def has_majority(self, operands: Iterable[int]) -> bool:
        x, y, z = sorted(operands)
        flip = x & 1
        return (GateKind.MAJORITY, (x ^ flip, y ^ flip, z ^ flip)) in self._known

    def has_half_adder(self, operands: tuple[int, ...], *, inverted: bool) -> bool:
        x, y = sorted(operand & ~1 for operand in operands)
        return (GateKind.AND, (x | inverted, y | inverted)) in self._known

    def _gate(self, kind: GateKind, operands: tuple[int, ...]) -> int:
        cuts = self._majority_cuts(operands) if kind is GateKind.MAJORITY else self._merged(operands, kind)
        for leaves, table in cuts if kind is GateKind.AND else ():
            if len(leaves) == 3 and table in _MAJORITIES:
                x, y, z = (leaf << 1 | flip for leaf, flip in zip(leaves, _MAJORITIES[table], strict=True))
                return self.majority(x, y, z)
        literal = super()._gate(kind, operands)
        self._levels[literal >> 1] = 1 + max(self.level(operand >> 1) for operand in operands)
        self._cuts[literal >> 1] = (((literal >> 1,), _LEAF_TABLES[0]), *cuts)
        return literal

    def _merged(self, operands: tuple[int, ...], kind: GateKind) -> list[Cut]:
        x, y = operands
        cuts: dict[tuple[int, ...], int] = {}
        for leaves_x, table_x in self.cuts(x >> 1):
            for leaves_y, table_y in self.cuts(y >> 1):
                leaves = tuple(sorted({*leaves_x, *leaves_y}))
                if len(leaves) > 3 or leaves in cuts:
                    continue
                table = _table(table_x, tuple(map(leaves.index, leaves_x))) ^ (_ALL if x & 1 else 0)
                other = _table(table_y, tuple(map(leaves.index, leaves_y))) ^ (_ALL if y & 1 else 0)
                cuts[leaves] = table & other if kind is GateKind.AND else table ^ other
        return list(cuts.items())[:_MOST_CUTS]

    @staticmethod
    def _majority_cuts(operands: Sequence[int]) -> list[Cut]:
        leaves = tuple(sorted(operand >> 1 for operand in operands))
        x, y, z = (_LEAF_TABLES[leaves.index(operand >> 1)] ^ (_ALL if operand & 1 else 0) for operand in operands)
        return [(leaves, x & y | x & z | y & z)]


_MOST_NODES = 200_000


class Diagrams:
    """Binary decision diagrams. Each function has a number, equal functions the same; 0 and 1 are the constants."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, int, int]] = [(1 << 60, 0, 0), (1 << 60, 1, 1)]
        self._known: dict[tuple[int, int, int], int] = {}
        self._results: dict[tuple[int, int, int], int] = {}
        self._order: dict[int, int] = {}

    def variable(self, name: int) -> int:
        """Return the function that equals the variable ``name``; variables are ordered by their first use."""
        return self._node(self._order.setdefault(name, len(self._order)), 0, 1)

    def choose(self, condition: int, high: int, low: int) -> int:
        if condition <= 1:
            return high if condition else low
        if high == low:
            return high
        key = (condition, high, low)
        known = self._results.get(key)
        if known is None:
            top = min(self._nodes[condition][0], self._nodes[high][0], self._nodes[low][0])
            # loop-free, since it is called millions of times
            if_low, if_high = self._halves(condition, top)
            high_low, high_high = self._halves(high, top)
            low_low, low_high = self._halves(low, top)
            zero, high_half = self.choose(if_low, high_low, low_low), self.choose(if_high, high_high, low_high)
            known = self._results[key] = self._node(top, zero, high_half)
        return known

    def inverted(self, function: int, flip: int) -> int:
        return self.choose(function, 0, 1) if flip else function

    def majority(self, x: int, y: int, z: int) -> int:
        return self.choose(x, self.choose(y, 1, z), self.choose(y, z, 0))

    def gate(self, kind: GateKind, operands: Sequence[int]) -> int:
        if kind is GateKind.MAJORITY:
            return self.majority(*operands)
        x, y = operands
        return self.choose(x, y, 0) if kind is GateKind.AND else self.choose(x, self.inverted(y, 1), y)

    def function_of(self, graph: GateGraph, literal: int, known: dict[int, int]) -> int | None:
        """Return the function of a literal in terms of the nodes ``known``; None if it depends on other inputs."""
        stack = [literal >> 1]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            kind, operands = graph.nodes[node]
            if kind is GateKind.INPUT:
                return None
            missing = [operand >> 1 for operand in operands if operand >> 1 not in known]
            if missing:
                stack += missing
                continue
            known[node] = self.gate(kind, [self.inverted(known[operand >> 1], operand & 1) for operand in operands])
        return self.inverted(known[literal >> 1], literal & 1)

    def _halves(self, node: int, top: int) -> tuple[int, int]:
        variable, low, high = self._nodes[node]
        return (low, high) if variable == top else (node, node)

    def _node(self, variable: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (variable, low, high)
        known = self._known.get(key)
        if known is None:
            if len(self._nodes) > _MOST_NODES:
                raise GaveUpError
            known = self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return known


_MOST_READINGS = 8

_Column = tuple[int, ...]  # up to two literals


@dataclass(frozen=True, slots=True)
class _Chain:
    """The lower columns of an adder that have been recognised, each with its operands.

    ``carry`` is the carry into the next column as a decision diagram over the operands, and ``functions`` has the
    diagrams of nodes.
    """

    carry: int
    functions: dict[int, int]
    columns: tuple[_Column, ...]


class _Recogniser:
    def __init__(self, graph: GateGraph) -> None:
        self._graph = graph
        self._diagrams = Diagrams()

    def follow(self, bits: Sequence[int]) -> list[tuple[_Column, ...]]:
        if not self._is_sum(bits[0]):
            return []
        x, y = self._graph.nodes[bits[0] >> 1].operands
        chains = list(self._extended(_Chain(0, {0: 0}, ()), (x, y ^ (bits[0] & 1))))
        for bit in bits[1:]:
            chains = [after for chain in chains for after in self._column(chain, bit)][:_MOST_READINGS]
        return [chain.columns for chain in chains]

    def _column(self, chain: _Chain, bit: int) -> Iterator[_Chain]:
        whole = self._diagrams.function_of(self._graph, bit, chain.functions)
        if whole is not None and chain.carry in (whole, self._diagrams.inverted(whole, 1)):
            yield from self._extended(chain, () if whole == chain.carry else (TRUE,))
        if not self._is_sum(bit):
            return
        nodes = self._graph.nodes
        x, y = nodes[bit >> 1].operands
        for carry, other in ((x, y), (y, x)):
            function = self._diagrams.function_of(self._graph, carry, chain.functions)
            if function is None:
                continue
            flip = bit & 1
            if function != chain.carry:
                if self._diagrams.inverted(function, 1) != chain.carry:
                    continue
                flip ^= 1
            if self._is_sum(other):
                first, two = nodes[other >> 1].operands
                yield from self._extended(chain, (first, two ^ flip))
            yield from self._extended(chain, (other ^ flip,))

    def _is_sum(self, literal: int) -> bool:
        return self._graph.nodes[literal >> 1].kind is GateKind.XOR

    def _extended(self, chain: _Chain, column: _Column) -> Iterator[_Chain]:
        functions = dict(chain.functions)
        values: list[int] = []
        for literal in column:
            if literal > TRUE:
                functions[literal >> 1] = self._diagrams.variable(literal >> 1)
            values.append(self._diagrams.inverted(functions[literal >> 1], literal & 1))
        x, y = (*values, 0, 0)[:2]
        yield _Chain(self._diagrams.majority(x, y, chain.carry), functions, (*chain.columns, column))
        if len(column) == 2:
            # both operands may be inverted, which the sum bit does not show
            x, y = (self._diagrams.inverted(value, 1) for value in values)
            inverted = column[0] ^ 1, column[1] ^ 1
            yield _Chain(self._diagrams.majority(x, y, chain.carry), functions, (*chain.columns, inverted))


def plain_adders(graph: GateGraph, bits: Sequence[int]) -> Iterator[list[int]]:
    """Yield variants of ``bits`` in which the final adder, if there is one, is a ripple-carry adder of full adders.

    Bit ``i`` of a sum is the XOR of the operands of column ``i`` and of the carry into it. From the lowest column up,
    decision diagrams prove each carry equal to the majority of the column below, so that a variant computes the same
    function. All types of prefix adders are recognised. Several interpretations of the columns give several variants.
    """
    for start in range(len(bits) - 1):
        try:
            readings = _Recogniser(graph).follow(bits[start:])
        except GaveUpError:
            continue
        for columns in readings:
            carry, sums = FALSE, list[int]()
            for column in columns:
                x, y = (*column, FALSE, FALSE)[:2]
                sums.append(graph.xor(graph.xor(x, y), carry))
                carry = graph.majority(x, y, carry)
            yield [*bits[:start], *sums]
