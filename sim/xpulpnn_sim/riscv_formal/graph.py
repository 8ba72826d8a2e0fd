"""And-inverter graphs under construction: equal gates are one gate, and constants vanish."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xpulpnn_sim.riscv_formal.aiger import Aiger

FALSE, TRUE = 0, 1

_INPUT, _LATCH = -1, -2


@dataclass(slots=True)
class Graph:
    """A graph that grows. A literal is twice a node, plus 1 if inverted; node 0 is false."""

    _gates: list[tuple[int, int]] = field(default_factory=lambda: [(FALSE, FALSE)])
    _known: dict[tuple[int, int], int] = field(default_factory=dict)
    _inputs: list[int] = field(default_factory=list)
    _latches: dict[int, tuple[int, int]] = field(default_factory=dict)

    def input(self) -> int:
        """A new input."""
        self._gates.append((_INPUT, 0))
        self._inputs.append(len(self._gates) - 1)
        return 2 * self._inputs[-1]

    def latch(self, reset: int) -> int:
        """A new latch, 0 or 1 at first; :meth:`follow` says what comes then."""
        self._gates.append((_LATCH, 0))
        node = len(self._gates) - 1
        self._latches[node] = (FALSE, reset)
        return 2 * node

    def follow(self, latch: int, following: int) -> None:
        """What a latch takes at the end of each cycle."""
        self._latches[latch >> 1] = (following, self._latches[latch >> 1][1])

    def both(self, left: int, right: int) -> int:
        """The conjunction."""
        if left > right:
            left, right = right, left
        if left == FALSE or left == right ^ 1:
            return FALSE
        if left in (TRUE, right):
            return right
        known = self._known.get((left, right))
        if known is None:
            self._gates.append((left, right))
            known = 2 * (len(self._gates) - 1)
            self._known[left, right] = known
        return known

    def either(self, left: int, right: int) -> int:
        """The disjunction."""
        return self.both(left ^ 1, right ^ 1) ^ 1

    def choose(self, condition: int, then: int, otherwise: int) -> int:
        """One of two."""
        return self.either(self.both(condition, then), self.both(condition ^ 1, otherwise))

    def all(self, literals: Sequence[int]) -> int:
        """The conjunction of any number."""
        found = TRUE
        for literal in literals:
            found = self.both(found, literal)
        return found

    def copy(self, source: Aiger, leaves: Sequence[int]) -> list[int]:
        """Put the gates of another graph here."""
        found = [FALSE, *leaves]
        both = self.both
        for left, right in source.gates:
            found.append(both(found[left >> 1] ^ left & 1, found[right >> 1] ^ right & 1))
        return found

    def aiger(self, *, bad: Sequence[int], outputs: Sequence[int] = ()) -> Aiger:
        """What some literals depend on; all inputs stay, in the order in which they were made."""
        needed = bytearray(len(self._gates))
        waiting = [literal >> 1 for literal in (*bad, *outputs)]
        while waiting:
            node = waiting.pop()
            if needed[node]:
                continue
            needed[node] = 1
            left, right = self._gates[node]
            if left == _LATCH:
                waiting.append(self._latches[node][0] >> 1)
            elif left != _INPUT:
                waiting += (left >> 1, right >> 1)
        latches = [node for node in self._latches if needed[node]]
        # gates come after what they are made of already
        gates = [
            node for node, (left, _) in enumerate(self._gates) if needed[node] and node and left not in (_INPUT, _LATCH)
        ]
        number = {node: index for index, node in enumerate((0, *self._inputs, *latches, *gates))}

        def of(literal: int) -> int:
            return 2 * number[literal >> 1] | literal & 1

        return Aiger(
            inputs=len(self._inputs),
            latches=[(of(self._latches[node][0]), self._latches[node][1]) for node in latches],
            outputs=[of(literal) for literal in outputs],
            bad=[of(literal) for literal in bad],
            constraints=[],
            gates=[(of(self._gates[node][0]), of(self._gates[node][1])) for node in gates],
        )
