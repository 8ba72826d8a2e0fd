"""Binary decision diagrams of gates."""

from collections.abc import Sequence

from xpulpnn_sim.proofs.engine.gate_graph import GateKind

_MOST_NODES = 200_000


class TooLargeError(Exception):
    """The decision diagram grew too large."""


class Diagrams:
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
            top = min(self._nodes[condition][0], self._nodes[high][0], self._nodes[low][0])
            # without loops: this is called millions of times
            if_low, if_high = self._halves(condition, top)
            high_low, high_high = self._halves(high, top)
            low_low, low_high = self._halves(low, top)
            zero, one = self.choose(if_low, high_low, low_low), self.choose(if_high, high_high, low_high)
            known = self._results[key] = self._node(top, zero, one)
        return known

    def inverted(self, function: int, flip: int) -> int:
        """The function, or its complement if ``flip`` is 1."""
        return self.choose(function, 0, 1) if flip else function

    def majority(self, x: int, y: int, z: int) -> int:
        """At least two."""
        return self.choose(x, self.choose(y, 1, z), self.choose(y, z, 0))

    def gate(self, kind: GateKind, operands: Sequence[int]) -> int:
        """Return what a gate of that kind makes of its operands."""
        if kind is GateKind.MAJORITY:
            return self.majority(*operands)
        x, y = operands
        return self.choose(x, y, 0) if kind is GateKind.AND else self.choose(x, self.inverted(y, 1), y)

    def _halves(self, node: int, top: int) -> tuple[int, int]:
        """The function with variable ``top`` 0 and 1."""
        variable, low, high = self._nodes[node]
        return (low, high) if variable == top else (node, node)

    def _node(self, variable: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (variable, low, high)
        known = self._known.get(key)
        if known is None:
            if len(self._nodes) > _MOST_NODES:
                raise TooLargeError
            known = self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return known
