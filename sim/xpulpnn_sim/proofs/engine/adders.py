"""Final adders of any structure, recognised and proved to be plain ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xpulpnn_sim.proofs.engine.decision_diagrams import Diagrams, TooLargeError
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, GateKind

_MOST_READINGS = 8


_Column = tuple[int, ...]  # operands of an adder's column, up to two literals, as they are added


@dataclass(frozen=True, slots=True)
class _Chain:
    """An adder as recognised so far.

    ``carry`` is the carry into the next column as a decision diagram over the operands below it, ``functions`` has the
    diagram of each node known, ``columns`` the operands.
    """

    carry: int
    functions: dict[int, int]
    columns: tuple[_Column, ...]


class _Recogniser:
    """Follows the carries of an adder from the lowest column up."""

    def __init__(self, graph: GateGraph) -> None:
        self._graph = graph
        self._diagrams = Diagrams()

    def follow(self, bits: Sequence[int]) -> list[tuple[_Column, ...]]:
        """Columns of the adder whose lowest sum bit is the first one, in each way to read them; empty if it is none."""
        if not self._is_sum(bits[0]):
            return []
        x, y = self._graph.nodes[bits[0] >> 1].operands
        chains = list(self._extended(_Chain(0, {0: 0}, ()), (x, y ^ (bits[0] & 1))))
        for bit in bits[1:]:
            chains = [after for chain in chains for after in self._column(chain, bit)][:_MOST_READINGS]
        return [chain.columns for chain in chains]

    def _column(self, chain: _Chain, bit: int) -> Iterator[_Chain]:
        """The chain one column on, for each way to read the column's operands."""
        whole = self._function(chain, bit)
        if whole is not None and chain.carry in (whole, self._diagrams.inverted(whole, 1)):
            yield from self._extended(chain, () if whole == chain.carry else (TRUE,))
        if not self._is_sum(bit):
            return
        nodes = self._graph.nodes
        x, y = nodes[bit >> 1].operands
        for carry, other in ((x, y), (y, x)):
            function = self._function(chain, carry)
            if function is None:
                continue
            flip = bit & 1
            if function != chain.carry:
                if self._diagrams.inverted(function, 1) != chain.carry:
                    continue
                flip ^= 1
            if self._is_sum(other):
                one, two = nodes[other >> 1].operands
                yield from self._extended(chain, (one, two ^ flip))
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
            # operands may be added inverted, both of them: the sum bit does not tell
            x, y = (self._diagrams.inverted(value, 1) for value in values)
            yield _Chain(
                self._diagrams.majority(x, y, chain.carry), functions, (*chain.columns, (column[0] ^ 1, column[1] ^ 1))
            )

    def _function(self, chain: _Chain, literal: int) -> int | None:
        """Decision diagram of a literal over the operands; None if it depends on anything else."""
        graph, diagrams, known = self._graph, self._diagrams, chain.functions
        stack = [literal >> 1]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            kind, operands = graph.nodes[node]
            if kind is GateKind.INPUT:
                return None
            missing = [one >> 1 for one in operands if one >> 1 not in known]
            if missing:
                stack += missing
                continue
            known[node] = diagrams.gate(kind, [diagrams.inverted(known[one >> 1], one & 1) for one in operands])
        return self._diagrams.inverted(known[literal >> 1], literal & 1)


def plain_adders(graph: GateGraph, bits: Sequence[int]) -> Iterator[list[int]]:
    """Variants of ``bits`` in which the adder that ends in them is a row of full adders.

    A column of an adder is an exclusive-or of its operands and of the carry into it. From the lowest column up, each
    carry is shown to equal the majority of the column below by decision diagrams, with the adder's operands as free
    variables; a variant is therefore the same function. Prefix adders of any kind are recognised. There are several
    variants if the columns can be read in several ways, and none if ``bits`` do not end in an adder.
    """
    for start in range(len(bits) - 1):
        try:
            readings = _Recogniser(graph).follow(bits[start:])
        except TooLargeError:
            continue
        for columns in readings:
            carry, sums = FALSE, list[int]()
            for column in columns:
                x, y = (*column, FALSE, FALSE)[:2]
                sums.append(graph.xor(graph.xor(x, y), carry))
                carry = graph.majority(x, y, carry)
            yield [*bits[:start], *sums]
