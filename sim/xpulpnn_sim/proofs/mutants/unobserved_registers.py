"""Prove by induction that unit and mutant differ only in registers that no output shows at that time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.mutants.mutated_gates import Bit, MutatedGates

_ALONE, _SMALL = 8, 4  # maximum width of registers whose bits are conditions, alone or in pairs
# maximum of literals for conditions of two literals: of all registers, of the same part, of the same word
_PAIRED = 80
_WORDS = 8  # maximum of differing words
_VARIANTS = 4096
_FLIPPED, _SELDOM_FLIPPED = (1, 8), (7, 10)  # range of powers of two; a variant flips a bit with probability 1/2**power

_Condition = tuple[int, int]  # literals of registers of the unit


@dataclass(slots=True, kw_only=True)
class UnobservedRegisters:
    """A search for conditions under which corresponding registers of unit and mutant are equal.

    A condition is that one or two bits of small registers have certain values. The search starts with all conditions
    and drops those that a counterexample violates; pairs of bits are tried if single bits do not suffice. If the
    remaining conditions exclude a difference in other registers and in outputs, the mutant is equivalent.
    """

    gates: MutatedGates
    number: int
    assumed: int  # literal of inputs that reach the unit
    observable: Callable[[Sequence[Bit]], int]  # literal of an observed difference of outputs
    solve: Callable[[int], Collection[int] | None]  # returns inputs that make a literal 1; raises an error on timeout
    _equal_step: tuple[list[Bit], dict[int, tuple[int, int]]] = field(init=False)  # a step with equal registers
    _own: dict[int, int] = field(default_factory=dict[int, int])  # literals of the mutant's registers, by the unit's
    _conditions: dict[str, set[_Condition]] = field(default_factory=dict[str, set[_Condition]])
    _rng: Random = field(default_factory=lambda: Random(1))

    def holds(self) -> bool:
        graph, words = self.gates.graph, self.gates.register_words
        of_word = {literal: name for name, word in words.items() for literal in word}
        # outputs and next values while all registers are equal
        self._equal_step = self.gates.step(self.number, {})

        def literals_up_to(bits: int, part: str = "") -> list[int]:
            short = (word for name, word in words.items() if len(word) <= bits and name.startswith(part))
            return [literal ^ flip for word in short for literal in word for flip in (0, 1)]

        literals, small = literals_up_to(_ALONE), literals_up_to(_SMALL)

        by_word: dict[str, list[int]] = {}
        for name, word in words.items():
            if len(word) <= _SMALL:
                by_word.setdefault(name.partition("[")[0], []).extend(bit ^ flip for bit in word for flip in (0, 1))
        same_word = [word for word in by_word.values() if len(word) <= _PAIRED]

        def pairs_of(name: str) -> set[_Condition]:
            near = small if len(small) <= _PAIRED else literals_up_to(_SMALL, name[: name.rfind(".") + 1])
            groups = [near] if len(near) <= _PAIRED else []
            groups += same_word
            # no pairs with conditions that hold alone
            alone = {literal for literal, other in self._conditions[name] if literal == other}
            left = [[literal for literal in group if literal not in alone] for group in groups]
            return {pair for group in left for pair in combinations(group, 2) if pair[0] ^ 1 != pair[1]}

        unpaired: set[str] = set()
        while len(self._conditions) <= _WORDS:
            outputs, following = self.gates.step(self.number, self._own)
            same, unequal = self._inductive(following, literals)
            # bits assumed equal that can differ; other bits of the same word may be exempt
            others = [register for register in following if register not in self._own]
            stray = [
                [graph.and_(case, graph.xor(*after[register])) for register in others]
                for case, after in ((same, self._equal_step[1]), (unequal, following))
            ]
            ones = self._find(*map(graph.any, stray))
            if ones is None:
                cases = ((same, self._equal_step[0]), (unequal, outputs))
                seen = (graph.and_(case, self.observable(bits)) for case, bits in cases)
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
        """Return the inputs that are 1 in a case in which one of the two literals is 1; None if there is none.

        For the literal ``unequal``, the case must violate all conditions of some register.
        """
        ones = self.solve(equal)
        for conditions in self._conditions.values():
            if ones is not None:
                break
            # substituting constants simplifies the graph
            fixed = {literal & ~1: literal & 1 for literal, other in conditions if literal == other}
            (left,) = self.gates.graph.replaced([unequal], fixed)
            case = self.solve(left)
            ones = case if case is None else {*case, *(literal for literal, value in fixed.items() if value)}
        return ones

    def _variants(self, ones: Collection[int], literals: Sequence[int]) -> list[int]:
        all_ = (1 << _VARIANTS) - 1
        small = {literal for word in self.gates.register_words.values() if len(word) <= _ALONE for literal in word}

        def value(variable: int) -> int:
            bits = all_ & ~1
            # states with many changed bits of small registers are seldom reachable
            for _ in range(self._rng.randint(*(_SELDOM_FLIPPED if variable in small else _FLIPPED))):
                bits &= self._rng.getrandbits(_VARIANTS)
            return bits ^ all_ * (variable in ones)

        variables = self.gates.graph.variables(literals)
        return self.gates.graph.evaluate({variable: value(variable) for variable in variables}, literals, all_)

    def _inductive(self, following: Mapping[int, tuple[int, int]], literals: Sequence[int]) -> tuple[int, int]:
        """Drop conditions until the rest is inductive.

        Returns two literals for states that satisfy the hypothesis: 1 if all registers are equal, and 1 if registers
        can differ.
        """
        graph, words = self.gates.graph, self.gates.register_words
        names = [*self._conditions]
        after = {literal: following[literal & ~1][0] ^ literal & 1 for literal in literals}
        owned = {name: [register for register in words[name] if register in self._own] for name in names}
        equal = {name: graph.equal(owned[name], [self._own[register] for register in owned[name]]) for name in names}

        def kept_by(following: Mapping[int, tuple[int, int]]) -> dict[str, int]:
            return {name: graph.equal(*zip(*(following[bit] for bit in owned[name]), strict=True)) for name in names}

        changed = self.gates.changed(self.number)
        preserved, preserved_equal = kept_by(following), kept_by(self._equal_step[1])

        def any_of(name: str, values: Mapping[int, int]) -> int:
            return graph.any(graph.and_(values[literal], values[other]) for literal, other in self._conditions[name])

        now = {literal: literal for literal in literals}
        while True:
            holds = {name: any_of(name, now) for name in names}
            assumed = graph.all((self.assumed, *(graph.or_(holds[name] ^ 1, equal[name]) for name in names)))
            # with equal registers most gates coincide, which need not be left to the solver
            all_hold = graph.all(holds.values())
            same, unequal = graph.all((all_hold, self.assumed, changed)), graph.and_(all_hold ^ 1, assumed)
            lost, lost_alike = (
                graph.any(graph.and_(any_of(name, after), graph.and_(case, keeps[name] ^ 1)) for name in names)
                for case, keeps in ((unequal, preserved), (same, preserved_equal))
            )
            ones = self._find(FALSE, lost)
            if ones is None:
                # weaker, as fewer conditions remain
                ones = self.solve(lost_alike)
            if ones is None:
                return same, unequal
            if graph.evaluate(dict.fromkeys(ones, 1), [all_hold])[0]:
                ones = {*ones} - {*self._own.values()} | {own for unit, own in self._own.items() if unit in ones}
            # variants of the case that satisfy the assumptions drop more conditions at once
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
