"""Registers of a mutant that differ from the unit's only while nothing reads them, by induction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from xpulpnn_sim.proofs.units.mutated_gates import Bit, MutatedGates

_ALONE, _SMALL = 8, 4  # bits of a register at most of which one says what others mean, alone or with a bit of another
_PAIRED = 80  # literals at most of which any two make a condition
_WORDS = 8  # words at most that may differ
_VARIANTS = 64

_Condition = tuple[int, int]  # literals of registers of the unit


@dataclass(slots=True, kw_only=True)
class UnreadRegisters:
    """A search for conditions under which the registers that a change reaches are what they are in the unit.

    A condition is that one or two bits of small registers have certain values. In the beginning every one counts; each
    that a cycle does not keep goes. With those that are left, if neither other registers nor outputs can differ, the
    mutant does what the unit does.
    """

    gates: MutatedGates
    number: int
    assumed: int  # literal of what occurs
    seen: Callable[[Sequence[Bit]], int]  # literal of a difference of outputs that is looked at
    solve: Callable[[int], Collection[int] | None]  # inputs that make a literal 1; raises an error when time is up
    _own: dict[int, int] = field(default_factory=dict[int, int])  # literals of the mutant's registers, by the unit's
    _conditions: dict[str, set[_Condition]] = field(default_factory=dict[str, set[_Condition]])

    def holds(self) -> bool:
        """Return whether it was proved; an error of ``solve`` passes."""
        graph, words = self.gates.graph, self.gates.register_words
        of_word = {literal: name for name, word in words.items() for literal in word}
        _, following = self.gates.step(self.number, {})
        added = {of_word[one] for one, (unit, mutant) in following.items() if unit != mutant}

        def literals_up_to(bits: int) -> list[int]:
            short = (word for word in words.values() if len(word) <= bits)
            return [literal ^ flip for word in short for literal in word for flip in (0, 1)]

        literals, small = literals_up_to(_ALONE), literals_up_to(_SMALL)
        every = {(one, one) for one in literals}
        if len(small) <= _PAIRED:
            every |= {(one, other) for at, one in enumerate(small) for other in small[at:] if one ^ 1 != other}
        while len(self._conditions) + len(added) <= _WORDS:
            self._conditions |= {name: set(every) for name in added}
            self._own |= {literal: graph.input() for name in added for literal in words[name]}
            outputs, following = self.gates.step(self.number, self._own)
            assumed = self._inductive(following, literals)
            others = [(one, graph.xor(*pair)) for one, pair in following.items() if one not in self._own]
            ones = self.solve(graph.and_(assumed, graph.any(literal for _, literal in others)))
            if ones is None:
                return self.solve(graph.and_(assumed, self.seen(outputs))) is None
            values = graph.evaluate(dict.fromkeys(ones, 1), [literal for _, literal in others])
            added = {of_word[one] for (one, _), value in zip(others, values, strict=True) if value}
        return False

    def _inductive(self, following: Mapping[int, tuple[int, int]], literals: Sequence[int]) -> int:
        """Drop conditions until a cycle keeps the rest; returns the literal of these and of what occurs."""
        graph, words, rng = self.gates.graph, self.gates.register_words, Random(1)
        names = [*self._conditions]
        after = {literal: following[literal & ~1][0] ^ literal & 1 for literal in literals}
        equal = {name: graph.equal(words[name], [self._own[one] for one in words[name]]) for name in names}
        kept = {name: graph.equal(*zip(*(following[one] for one in words[name]), strict=True)) for name in names}

        def any_of(name: str, values: Mapping[int, int]) -> int:
            return graph.any(graph.and_(values[one], values[other]) for one, other in self._conditions[name])

        now = {literal: literal for literal in literals}
        while True:
            assumed = graph.all((self.assumed, *(graph.or_(any_of(name, now) ^ 1, equal[name]) for name in names)))
            ones = self.solve(
                graph.and_(assumed, graph.any(graph.and_(any_of(name, after), kept[name] ^ 1) for name in names))
            )
            if ones is None:
                return assumed
            # variants of the case that meet the assumptions show more at once
            wanted = [assumed, *(kept[name] for name in names), *after.values()]
            all_ = (1 << _VARIANTS) - 1
            given = {
                one: (all_ if one in ones else 0) ^ (rng.getrandbits(_VARIANTS) & rng.getrandbits(_VARIANTS) & ~1)
                for one in graph.variables(wanted)
            }
            meets, *rest = graph.evaluate(given, wanted, all_)
            value = dict(zip(after, rest[len(names) :], strict=True))
            for name, keeps in zip(names, rest, strict=False):
                lost = meets & ~keeps
                if lost:
                    self._conditions[name] = {
                        (one, other) for one, other in self._conditions[name] if not value[one] & value[other] & lost
                    }
