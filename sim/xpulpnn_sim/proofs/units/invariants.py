"""Invariants of a core that say that one of two bits of small registers has a value, by simulation and induction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.proofs.engine.solvers import Latches

_RUNS = 1024  # runs side by side, each in a bit of every value
_CYCLES = 100  # cycles from reset
_FLIPPED = (1, 8)  # least and most powers of two of which a variant of a state flips one bit
_ALL = (1 << _RUNS) - 1

Clause = tuple[int, int]  # literals of registers, of which one is 1 at least


@dataclass(slots=True, kw_only=True)
class InvariantSearch:
    """Candidates are all clauses that simulation does not refute; each that a cycle does not keep goes.

    Variants of a state in which one is not kept refute others at once.
    """

    graph: GateGraph
    latches: Latches
    literals: Sequence[int]  # of the registers that the invariants are about
    inputs: Mapping[str, Sequence[int]]
    stimuli: Mapping[str, Sequence[int]]  # values of some inputs, others are random
    after_requests: Mapping[int, Sequence[int]]  # literals of inputs that are 1 only while a word is not 0
    assumed: int  # literal of what occurs
    solve: Callable[[int], Collection[int] | None]  # inputs that make a literal 1; raises an error when time is up
    _rng: Random = field(default_factory=lambda: Random(1))

    def find(self) -> int:
        """Literal of all invariants; an error of ``solve`` passes."""
        graph = self.graph
        every = [literal ^ flip for literal in self.literals for flip in (0, 1)]
        seen, state = dict.fromkeys(every, 0), self._from_reset()
        for _ in range(_CYCLES):
            for literal in every:
                seen[literal] = seen[literal] << _RUNS | self._value(state, literal)
            state = self._step(state)
        full = (1 << _RUNS * _CYCLES) - 1
        constant = [one for one in every if seen[one] == full]
        rest = [one for one in every if full not in (seen[one], seen[one ^ 1])]
        clauses = [(one, one) for one in constant]
        clauses += [
            (one, other)
            for at, one in enumerate(rest)
            for other in rest[at + 1 :]
            if one ^ 1 != other and seen[one] | seen[other] == full
        ]
        after = {one: self.latches[one & ~1][0] ^ one & 1 for one in every}
        while True:
            holds = graph.all((self.assumed, *(graph.or_(one, other) for one, other in clauses)))
            broken = graph.any(graph.and_(after[one] ^ 1, after[other] ^ 1) for one, other in clauses)
            ones = self.solve(graph.and_(holds, broken))
            if ones is None:
                return holds
            # what follows variants of the case meets all that are left, too
            given = {one: _ALL * (one in ones) ^ self._flips(one) for one in graph.variables([holds, *after.values()])}
            valid, *values = graph.evaluate(given, [holds, *after.values()], _ALL)
            value = dict(zip(after, values, strict=True))
            clauses = [(one, other) for one, other in clauses if not valid & ~(value[one] | value[other])]

    @staticmethod
    def _value(state: Mapping[int, int], literal: int) -> int:
        return state[literal & ~1] ^ _ALL * (literal & 1)

    def _from_reset(self) -> dict[int, int]:
        return {literal: _ALL * start for literal, (_, start) in self.latches.items()}

    def _step(self, state: Mapping[int, int]) -> dict[int, int]:
        """The next state of all runs."""
        given = dict(state)
        for name, word in self.inputs.items():
            if name in self.stimuli:
                chosen = self._rng.choices(self.stimuli[name], k=_RUNS)
                values = [int("".join("01"[value >> place & 1] for value in chosen), 2) for place in range(len(word))]
            else:
                values = [self._random() for _ in word]
            given |= zip(word, values, strict=True)
        for literal, count in self.after_requests.items():
            waits = 0
            for one in count:
                waits |= state[one]
            given[literal] &= waits
        after = self.graph.evaluate(given, [after for after, _ in self.latches.values()], _ALL)
        return dict(zip(self.latches, after, strict=True))

    def _random(self) -> int:
        """Bits of which a half, few or most are 1."""
        value = self._rng.getrandbits(_RUNS)
        for _ in range(self._rng.randint(0, 4)):
            value &= self._rng.getrandbits(_RUNS)
        return value ^ _ALL * self._rng.getrandbits(1)

    def _flips(self, one: int) -> int:
        """Runs in which a variable is another than in a case, never the first one; registers of the invariants stay."""
        bits = _ALL & ~1
        if one in self.literals:
            return 0
        for _ in range(self._rng.randint(*_FLIPPED)):
            bits &= self._rng.getrandbits(_RUNS)
        return bits
