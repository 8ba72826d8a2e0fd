"""Prove that a word of gates equals a polynomial of its inputs modulo ``2**n``, for n bits up to 64.

The word is the sum of its bits times powers of two. From the outputs to the inputs, each XOR of two or three operands
is replaced by their sum minus twice their carry. The netlist usually adds this carry one column higher, where the two
terms cancel: adders vanish without products of sums, and products of input bits remain. A Boolean function has a unique
polynomial without squares, so that the word is correct if and only if the remaining polynomial is the expected one. The
method also decides wide multipliers, for which SAT does not finish. It gives up if the polynomial grows too large.
"""

import heapq
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product

from xpulpnn_sim.proofs.engine.adders import AdderGraph, Diagrams, plain_adders
from xpulpnn_sim.proofs.engine.gate_graph import TRUE, GateGraph, GateKind
from xpulpnn_sim.proofs.engine.solvers import GaveUpError

_CASES = 1 << 16
_MOST_GATES = 128


def constant_gates(graph: GateGraph, bits: Sequence[int]) -> dict[int, int]:
    """Return nodes in the fan-in of ``bits`` that are proved constant, with their values.

    Random simulation finds candidates; decision diagrams prove those that depend on few gates. Other nodes may be
    constant too.
    """
    cone = graph.cone(bits)
    generator = random.Random(1)
    given = {variable: generator.getrandbits(_CASES) for variable in graph.variables(bits)}
    gates = [node for node in cone if graph.nodes[node].operands]
    mask = (1 << _CASES) - 1
    values = graph.evaluate(given, [node << 1 for node in gates], mask)
    likely = {node: value & 1 for node, value in zip(gates, values, strict=True) if value in (0, mask)}
    return {node: value for node, value in likely.items() if _is_always(graph, node, value)}


def _is_always(graph: GateGraph, target: int, value: int) -> bool:
    cone = graph.cone([target << 1])
    if len(cone) > _MOST_GATES:
        return False
    diagrams, nodes = Diagrams(), graph.nodes
    read = [operand >> 1 for node in cone for operand in nodes[node].operands]
    inputs = {node: diagrams.variable(node) for node in read if nodes[node].kind is GateKind.INPUT}
    try:
        return diagrams.function_of(graph, target << 1, {0: 0, **inputs}) == value
    except GaveUpError:
        return False


Monomial = frozenset[int]  # product of nodes; the empty one is 1

Polynomial = dict[Monomial, int]  # coefficient of each monomial, modulo the word size

_MODULO = 1 << 64  # of coefficients; shorter words count modulo their own size
MOST_TERMS = 6_000  # needed for dot products

_ONE: Monomial = frozenset()
_READINGS = ((), (True,), (False, True))
"""Which carries in the graph, inverted (True) or not (False), make an XOR a half adder; tried in turn."""

_XOR3 = frozenset({0b10010110, 0b01101001})


def literal(bit: int) -> Polynomial:
    node = bit >> 1
    if not node:
        return {_ONE: 1} if bit == TRUE else {}
    return {_ONE: 1, frozenset({node}): _MODULO - 1} if bit & 1 else {frozenset({node}): 1}


def plus(parts: Iterable[tuple[int, Polynomial]]) -> Polynomial:
    total: Polynomial = {}
    for factor, part in parts:
        for monomial, coefficient in part.items():
            total[monomial] = (total.get(monomial, 0) + factor * coefficient) % _MODULO
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def times(x: Polynomial, y: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for (monomial, factor), (other, coefficient) in product(x.items(), y.items()):
        both = monomial | other
        total[both] = (total.get(both, 0) + factor * coefficient) % _MODULO
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def word(bits: Sequence[int], *, signed: bool = False) -> Polynomial:
    weights = [1 << place for place in range(len(bits))]
    if signed:
        weights[-1] = -weights[-1]
    return plus((weight, literal(bit)) for weight, bit in zip(weights, bits, strict=True))


@dataclass(slots=True, kw_only=True)
class _Reduction:
    """Backward rewriting: a polynomial in which the variable of each gate is replaced by the gate's operands."""

    graph: AdderGraph
    constants: Mapping[int, int]
    halves: tuple[bool, ...]
    modulo: int
    deadline: float
    most_terms: int
    products: Mapping[tuple[int, int], Polynomial]  # of known nodes
    terms: Polynomial = field(default_factory=Polynomial)
    _having: dict[int, set[Monomial]] = field(default_factory=dict[int, set[Monomial]])
    _queue: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def run(self, start: Polynomial) -> Polynomial:
        self._add(start)
        while self._queue:
            node = heapq.heappop(self._queue)[-1]
            having = self._having.pop(node)
            if not having:
                continue
            if len(self.terms) > self.most_terms or time.monotonic() > self.deadline:
                raise GaveUpError
            replacement = self._replacement(node)
            for monomial in having:
                coefficient = self.terms.pop(monomial)
                for other in monomial:
                    if other != node:
                        self._having[other].discard(monomial)
                rest: Polynomial = {monomial - {node}: coefficient}
                self._add(times(rest, replacement))
        return self.terms

    def _add(self, part: Polynomial) -> None:
        terms, having, modulo = self.terms, self._having, self.modulo
        for monomial, coefficient in part.items():
            before = terms.get(monomial)
            total = ((before or 0) + coefficient) % modulo
            if total:
                if before is None:
                    for node in monomial:
                        (having[node] if node in having else self._enter(node)).add(monomial)
                terms[monomial] = total
            elif before is not None:
                del terms[monomial]
                for node in monomial:
                    having[node].discard(monomial)

    def _enter(self, node: int) -> set[Monomial]:
        having = self._having[node] = set()
        kind = self.graph.nodes[node].kind
        if kind is not GateKind.INPUT:
            heapq.heappush(self._queue, (-self.graph.level(node), kind, node))
        return having

    def _replacement(self, node: int) -> Polynomial:
        if node in self.constants:
            return literal(self.constants[node])
        kind, operands = self.graph.nodes[node]
        if kind is GateKind.XOR:
            return self._sum(node)
        if kind is GateKind.AND:
            return self._conjunction(*operands)
        x, y, z = map(literal, operands)
        return plus([(1, times(x, y)), (1, times(x, z)), (1, times(y, z)), (-2, times(times(x, y), z))])

    def _sum(self, node: int) -> Polynomial:
        """Return an XOR as the sum of its operands minus twice their carry.

        There are three operands if the graph has the majority of them, else two.
        """
        leaves, inverted = self.graph.nodes[node].operands, 0
        carry = None
        is_half = any(self.graph.has_half_adder(leaves, inverted=is_inverted) for is_inverted in self.halves)
        cuts = () if is_half else self.graph.cuts(node)
        for cut, table in cuts:
            if len(cut) == 3 and table in _XOR3:
                for flips in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)):
                    operands = tuple(leaf << 1 | flip for leaf, flip in zip(cut, flips, strict=True))
                    if carry is None and self.graph.has_majority(operands):
                        leaves, inverted = operands, (table ^ sum(flips)) & 1
                        carry = self.graph.majority(*operands)
        if carry is None:
            carry = self.graph.and_(*leaves)
        total = plus([*((1, literal(leaf)) for leaf in leaves), (-2, literal(carry))])
        return plus([(1, {_ONE: 1}), (-1, total)]) if inverted else total

    def _conjunction(self, x: int, y: int) -> Polynomial:
        """Return an AND in terms of the AND of its operands without inversions, which is the carry of half adders."""
        if not (x | y) & 1:
            return self.products.get((x, y)) or times(literal(x), literal(y))
        both = (-1, literal(self.graph.and_(x & ~1, y & ~1)))
        if x & y & 1:
            return plus([(1, literal(x)), (-1, literal(y ^ 1)), (-1, plus([both]))])
        return plus([(1, literal(y if x & 1 else x)), both])


def _known_products(graph: AdderGraph, constants: Mapping[int, int]) -> dict[tuple[int, int], Polynomial]:
    """Return the products of two literals that are linear because an AND of them, partly inverted, is constant 0."""
    products: dict[tuple[int, int], Polynomial] = {}
    for node, value in constants.items():
        kind, operands = graph.nodes[node]
        if kind is GateKind.AND and not value and any(operand & 1 for operand in operands):
            x, y = operands
            # x * (1 - y), (1 - x) * y or (1 - x) * (1 - y) is 0
            parts = [(1, literal(other & ~1)) for operand, other in ((x, y), (y, x)) if operand & 1]
            products[x & ~1, y & ~1] = plus([*parts, (-(x & y & 1), {_ONE: 1})])
    return products


def prove(
    graph: AdderGraph, bits: Sequence[int], expected: Polynomial, *, timeout_s: float, most_terms: int = MOST_TERMS
) -> frozenset[int] | None:
    """Return None if the word equals the polynomial for all inputs, else the inputs that are 1 in a counterexample."""
    constants = constant_gates(graph, bits)
    reduction = partial(
        _Reduction,
        graph=graph,
        constants=constants,
        modulo=1 << len(bits),
        deadline=time.monotonic() + timeout_s,
        most_terms=most_terms,
        products=_known_products(graph, constants),
    )
    # an XOR may belong to a full adder or to a half adder
    for halves, variant in product(_READINGS, chain([list(bits)], plain_adders(graph, bits))):
        try:
            rest = reduction(halves=halves).run(plus([(1, word(variant)), (-1, expected)]))
        except GaveUpError:
            continue
        return frozenset(node << 1 for node in min(rest, key=len)) if rest else None
    raise GaveUpError
