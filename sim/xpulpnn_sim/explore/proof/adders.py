"""Final adders of any structure, recognised and proved to be plain ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xpulpnn_sim.explore.proof.circuit import FALSE, TRUE, Circuit, Kind

_MOST_NODES = 200_000
_MOST_READINGS = 8


class _TooLargeError(Exception):
    """The decision diagram grew too large."""


class _Diagrams:
    """Binary decision diagrams; 0 and 1 are the constants, equal functions are equal numbers."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, int, int]] = [(1 << 60, 0, 0), (1 << 60, 1, 1)]
        self._known: dict[tuple[int, int, int], int] = {}
        self._results: dict[tuple[int, int, int], int] = {}
        self._order: dict[int, int] = {}

    def variable(self, name: int) -> int:
        """The function that is variable ``name``; variables are ordered as they are first asked for."""
        return self._node(self._order.setdefault(name, len(self._order)), 0, 1)

    def choose(self, condition: int, high: int, low: int) -> int:
        """``high`` where ``condition`` holds, else ``low``."""
        if condition <= 1:
            return high if condition else low
        if high == low:
            return high
        key = (condition, high, low)
        known = self._results.get(key)
        if known is None:
            top = min(self._nodes[one][0] for one in key)
            low, high = (self.choose(*(self._half(one, top, branch) for one in key)) for branch in (1, 2))
            known = self._results[key] = self._node(top, low, high)
        return known

    def _half(self, node: int, top: int, branch: int) -> int:
        found = self._nodes[node]
        return found[branch] if found[0] == top else node

    def _node(self, variable: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (variable, low, high)
        known = self._known.get(key)
        if known is None:
            if len(self._nodes) > _MOST_NODES:
                raise _TooLargeError
            known = self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return known


_Column = tuple[int, ...]
"""Operands of an adder's column, up to two literals, as they are added."""


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

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self._diagrams = _Diagrams()

    def follow(self, bits: Sequence[int]) -> list[tuple[_Column, ...]]:
        """Columns of the adder whose lowest sum bit is the first one, in each way to read them; empty if it is none."""
        if not self._is_sum(bits[0]):
            return []
        x, y = self._circuit.nodes[bits[0] >> 1].operands
        chains = list(self._extended(_Chain(0, {0: 0}, ()), (x, y ^ (bits[0] & 1))))
        for bit in bits[1:]:
            chains = [after for chain in chains for after in self._column(chain, bit)][:_MOST_READINGS]
        return [chain.columns for chain in chains]

    def _column(self, chain: _Chain, bit: int) -> Iterator[_Chain]:
        """The chain one column on, for each way to read the column's operands."""
        whole = self._function(chain, bit)
        if whole is not None and chain.carry in (whole, self._inverted(whole, 1)):
            yield from self._extended(chain, () if whole == chain.carry else (TRUE,))
        if not self._is_sum(bit):
            return
        nodes = self._circuit.nodes
        x, y = nodes[bit >> 1].operands
        for carry, other in ((x, y), (y, x)):
            function = self._function(chain, carry)
            if function is None:
                continue
            flip = bit & 1
            if function != chain.carry:
                if self._inverted(function, 1) != chain.carry:
                    continue
                flip ^= 1
            if self._is_sum(other):
                one, two = nodes[other >> 1].operands
                yield from self._extended(chain, (one, two ^ flip))
            yield from self._extended(chain, (other ^ flip,))

    def _is_sum(self, literal: int) -> bool:
        return self._circuit.nodes[literal >> 1].kind is Kind.XOR

    def _extended(self, chain: _Chain, column: _Column) -> Iterator[_Chain]:
        functions = dict(chain.functions)
        values: list[int] = []
        for literal in column:
            if literal > TRUE:
                functions[literal >> 1] = self._diagrams.variable(literal >> 1)
            values.append(self._inverted(functions[literal >> 1], literal & 1))
        x, y = (*values, 0, 0)[:2]
        yield _Chain(self._majority(x, y, chain.carry), functions, (*chain.columns, column))
        if len(column) == 2:
            # operands may be added inverted, both of them: the sum bit does not tell
            x, y = (self._inverted(value, 1) for value in values)
            yield _Chain(self._majority(x, y, chain.carry), functions, (*chain.columns, (column[0] ^ 1, column[1] ^ 1)))

    def _majority(self, x: int, y: int, z: int) -> int:
        choose = self._diagrams.choose
        return choose(x, choose(y, 1, z), choose(y, z, 0))

    def _function(self, chain: _Chain, literal: int) -> int | None:
        """Decision diagram of a literal over the operands; None if it depends on anything else."""
        circuit, diagrams, known = self._circuit, self._diagrams, chain.functions
        stack = [literal >> 1]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            kind, operands, _ = circuit.nodes[node]
            if kind is Kind.INPUT:
                return None
            missing = [one >> 1 for one in operands if one >> 1 not in known]
            if missing:
                stack += missing
                continue
            x, y, *third = (self._inverted(known[one >> 1], one & 1) for one in operands)
            if kind is Kind.AND:
                known[node] = diagrams.choose(x, y, 0)
            elif kind is Kind.XOR:
                known[node] = diagrams.choose(x, diagrams.choose(y, 0, 1), y)
            else:
                known[node] = self._majority(x, y, third[0])
        return self._inverted(known[literal >> 1], literal & 1)

    def _inverted(self, function: int, flip: int) -> int:
        return self._diagrams.choose(function, 0, 1) if flip else function


def plain_adders(circuit: Circuit, bits: Sequence[int]) -> Iterator[list[int]]:
    """Variants of ``bits`` in which the adder that ends in them is a row of full adders.

    A column of an adder is an exclusive-or of its operands and of the carry into it. From the lowest column up, each
    carry is shown to equal the majority of the column below by decision diagrams, with the adder's operands as free
    variables; a variant is therefore the same function. Prefix adders of any kind are recognised. There are several
    variants if the columns can be read in several ways, and none if ``bits`` do not end in an adder.
    """
    for start in range(len(bits) - 1):
        try:
            readings = _Recogniser(circuit).follow(bits[start:])
        except _TooLargeError:
            continue
        for columns in readings:
            carry, sums = FALSE, list[int]()
            for column in columns:
                x, y = (*column, FALSE, FALSE)[:2]
                sums.append(circuit.xor(circuit.xor(x, y), carry))
                carry = circuit.majority(x, y, carry)
            yield [*bits[:start], *sums]
