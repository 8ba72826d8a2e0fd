"""Registers of a mutant that differ from the unit's only while nothing reads them, by induction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.mutants.mutated_gates import Bit, MutatedGates

_ALONE, _SMALL = 8, 4  # bits of a register at most of which one says what others mean, alone or with a bit of another
# literals at most of which any two make a condition: of all registers, of those in the same part, of the same word
_PAIRED = 80
_WORDS = 8  # words at most that may differ
_VARIANTS = 4096
_FLIPPED, _SELDOM_FLIPPED = (1, 8), (7, 10)  # least and most powers of two of which a variant flips one bit

_Condition = tuple[int, int]  # literals of registers of the unit


@dataclass(slots=True, kw_only=True)
class UnobservedRegisters:
    """A search for conditions under which the registers that a change reaches are what they are in the unit.

    A condition is that one or two bits of small registers have certain values. In the beginning every one counts; each
    that a cycle does not keep goes. Two bits are
    tried where one alone is not enough. With those that are left, if neither other registers nor outputs can differ,
    the mutant does what the unit does.
    """

    gates: MutatedGates
    number: int
    assumed: int  # literal of inputs that reach the unit
    observable: Callable[[Sequence[Bit]], int]  # literal of a difference of outputs that is looked at
    solve: Callable[[int], Collection[int] | None]  # inputs that make a literal 1; raises an error when time is up
    _alike: tuple[list[Bit], dict[int, tuple[int, int]]] = field(init=False)  # a step with registers of the unit alone
    _own: dict[int, int] = field(default_factory=dict[int, int])  # literals of the mutant's registers, by the unit's
    _conditions: dict[str, set[_Condition]] = field(default_factory=dict[str, set[_Condition]])
    _rng: Random = field(default_factory=lambda: Random(1))

    def holds(self) -> bool:
        graph, words = self.gates.graph, self.gates.register_words
        of_word = {literal: name for name, word in words.items() for literal in word}
        # what can be seen, and comes next, while all registers are the same
        self._alike = self.gates.step(self.number, {})

        def literals_up_to(bits: int, part: str = "") -> list[int]:
            short = (word for name, word in words.items() if len(word) <= bits and name.startswith(part))
            return [literal ^ flip for word in short for literal in word for flip in (0, 1)]

        literals, small = literals_up_to(_ALONE), literals_up_to(_SMALL)

        by_word: dict[str, list[int]] = {}
        for name, word in words.items():
            if len(word) <= _SMALL:
                by_word.setdefault(name.partition("[")[0], []).extend(
                    literal ^ flip for literal in word for flip in (0, 1)
                )
        same_word = [word for word in by_word.values() if len(word) <= _PAIRED]

        def pairs_of(name: str) -> set[_Condition]:
            near = small if len(small) <= _PAIRED else literals_up_to(_SMALL, name[: name.rfind(".") + 1])
            groups = [near] if len(near) <= _PAIRED else []
            groups += same_word
            # what counts alone needs no other
            alone = {literal for literal, other in self._conditions[name] if literal == other}
            left = [[literal for literal in group if literal not in alone] for group in groups]
            return {pair for group in left for pair in combinations(group, 2) if pair[0] ^ 1 != pair[1]}

        unpaired: set[str] = set()
        while len(self._conditions) <= _WORDS:
            outputs, following = self.gates.step(self.number, self._own)
            same, unequal = self._inductive(following, literals)
            # bits that can differ though the search has them equal; other bits of the same word may never do
            others = [register for register in following if register not in self._own]
            stray = [
                [graph.and_(case, graph.xor(*after[register])) for register in others]
                for case, after in ((same, self._alike[1]), (unequal, following))
            ]
            ones = self._find(*map(graph.any, stray))
            if ones is None:
                seen = graph.and_(same, self.observable(self._alike[0])), graph.and_(unequal, self.observable(outputs))
                if self._find(*seen) is None:
                    return True
            if unpaired or ones is None:
                if not unpaired:
                    return False
                for name in unpaired:
                    self._conditions[name] |= pairs_of(name)
                unpaired.clear()
                continue
            values = self._variants(ones, list(map(graph.or_, *stray)))
            added = [register for register, value in zip(others, values, strict=True) if value]
            self._own |= {register: graph.input() for register in added}
            unpaired = {of_word[register] for register in added} - {*self._conditions}
            self._conditions |= {name: {(literal, literal) for literal in literals} for name in unpaired}
        return False

    def _find(self, equal: int, unequal: int) -> Collection[int] | None:
        """Inputs that make one of two literals 1, the second one in a case in which no condition of a word is met."""
        ones = self.solve(equal)
        for conditions in self._conditions.values():
            if ones is not None:
                break
            # so many a gate is a constant, or one in the unit and the mutant
            fixed = {literal & ~1: literal & 1 for literal, other in conditions if literal == other}
            (left,) = self.gates.graph.replaced([unequal], fixed)
            case = self.solve(left)
            ones = case if case is None else {*case, *(literal for literal, value in fixed.items() if value)}
        return ones

    def _variants(self, ones: Collection[int], literals: Sequence[int]) -> list[int]:
        """Values of literals in a case, which is the lowest bit, and in variants of it."""
        all_ = (1 << _VARIANTS) - 1
        small = {literal for word in self.gates.register_words.values() if len(word) <= _ALONE for literal in word}

        def value(variable: int) -> int:
            bits = all_ & ~1
            # a state with several other bits of small registers is seldom reachable
            for _ in range(self._rng.randint(*(_SELDOM_FLIPPED if variable in small else _FLIPPED))):
                bits &= self._rng.getrandbits(_VARIANTS)
            return bits ^ all_ * (variable in ones)

        variables = self.gates.graph.variables(literals)
        return self.gates.graph.evaluate({variable: value(variable) for variable in variables}, literals, all_)

    def _inductive(self, following: Mapping[int, tuple[int, int]], literals: Sequence[int]) -> tuple[int, int]:
        """Drop conditions until a cycle keeps the rest; returns literals of states while all registers are the
        same by these, and while they need not be."""
        graph, words = self.gates.graph, self.gates.register_words
        names = [*self._conditions]
        after = {literal: following[literal & ~1][0] ^ literal & 1 for literal in literals}
        owned = {name: [register for register in words[name] if register in self._own] for name in names}
        equal = {name: graph.equal(owned[name], [self._own[register] for register in owned[name]]) for name in names}

        def kept_by(following: Mapping[int, tuple[int, int]]) -> dict[str, int]:
            return {
                name: graph.equal(*zip(*(following[register] for register in owned[name]), strict=True))
                for name in names
            }

        changed = self.gates.changed(self.number)
        preserved, preserved_equal = kept_by(following), kept_by(self._alike[1])

        def any_of(name: str, values: Mapping[int, int]) -> int:
            return graph.any(graph.and_(values[literal], values[other]) for literal, other in self._conditions[name])

        now = {literal: literal for literal in literals}
        while True:
            holds = {name: any_of(name, now) for name in names}
            assumed = graph.all((self.assumed, *(graph.or_(holds[name] ^ 1, equal[name]) for name in names)))
            # with equal registers most gates are the same ones, which a solver need not find out
            all_hold = graph.all(holds.values())
            same, unequal = graph.all((all_hold, self.assumed, changed)), graph.and_(all_hold ^ 1, assumed)
            lost, lost_alike = (
                graph.any(graph.and_(any_of(name, after), graph.and_(case, keeps[name] ^ 1)) for name in names)
                for case, keeps in ((unequal, preserved), (same, preserved_equal))
            )
            ones = self._find(FALSE, lost)
            if ones is None:
                # with fewer conditions this asks for less
                ones = self.solve(lost_alike)
            if ones is None:
                return same, unequal
            if graph.evaluate(dict.fromkeys(ones, 1), [all_hold])[0]:
                ones = {*ones} - {*self._own.values()} | {
                    own for register, own in self._own.items() if register in ones
                }
            # variants of the case that meet the assumptions show more at once
            targets = [assumed, *(preserved[name] for name in names), *after.values()]
            meets, *rest = self._variants(ones, targets)
            value = dict(zip(after, rest[len(names) :], strict=True))
            for name, keeps in zip(names, rest, strict=False):
                lose = meets & ~keeps
                if lose:
                    self._conditions[name] = {
                        (literal, other)
                        for literal, other in self._conditions[name]
                        if not value[literal] & value[other] & lose
                    }
