"""Gate graphs that keep their full adders visible.

Majorities, the carries of full adders, are nodes of their own also where the netlist writes them as ANDs and ORs: what
the algebra of :mod:`~xpulpnn_sim.proofs.engine.algebra` needs.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from xpulpnn_sim.proofs.engine.gate_graph import GateGraph, GateKind

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


class AdderGraph(GateGraph):
    """A gate graph that finds majorities, and knows of each node its level and its functions of few others."""

    def __init__(self) -> None:
        super().__init__()
        self._levels: dict[int, int] = {}
        self._cuts: dict[int, tuple[Cut, ...]] = {0: ()}

    def level(self, node: int) -> int:
        """Return how many gates are below a node at most, and itself; 0 for an input."""
        return self._levels.get(node, 0)

    def cuts(self, node: int) -> tuple[Cut, ...]:
        """Ways to write a node as a function of up to three others."""
        return self._cuts.get(node, (((node,), _LEAF_TABLES[0]),))

    def has_majority(self, operands: Iterable[int]) -> bool:
        """Say whether a node computes the majority of three literals or its inverse."""
        x, y, z = sorted(operands)
        flip = x & 1
        return (GateKind.MAJORITY, (x ^ flip, y ^ flip, z ^ flip)) in self._known

    def has_half_adder(self, operands: tuple[int, ...], *, inverted: bool) -> bool:
        """Say whether a node is the conjunction of two upright literals, or of both of them inverted."""
        x, y = sorted(operand & ~1 for operand in operands)
        return (GateKind.AND, (x | inverted, y | inverted)) in self._known

    def _gate(self, kind: GateKind, operands: tuple[int, ...]) -> int:
        cuts = self._majority_cuts(operands) if kind is GateKind.MAJORITY else self._merged(operands, kind)
        for leaves, table in cuts if kind is GateKind.AND else ():
            if len(leaves) == 3 and table in _MAJORITIES:
                x, y, z = (leaf << 1 | flip for leaf, flip in zip(leaves, _MAJORITIES[table], strict=True))
                return self.majority(x, y, z)
        literal = super()._gate(kind, operands)
        self._levels[literal >> 1] = 1 + max(self.level(one >> 1) for one in operands)
        self._cuts[literal >> 1] = (((literal >> 1,), _LEAF_TABLES[0]), *cuts)
        return literal

    def _merged(self, operands: tuple[int, ...], kind: GateKind) -> list[Cut]:
        x, y = operands
        found: dict[tuple[int, ...], int] = {}
        for leaves_x, table_x in self.cuts(x >> 1):
            for leaves_y, table_y in self.cuts(y >> 1):
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
