"""Comparison of a mutant of a unit with the unit: for all inputs, or for those that reach the unit."""

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, Latches, ask_abc, cycles_from_reset, find_case, to_aiger
from xpulpnn_sim.proofs.mutants.mutated_gates import NEXT, Bit, GateMachine, MutatedGates
from xpulpnn_sim.proofs.mutants.unobserved_registers import UnobservedRegisters

EQUIVALENT, DIFFERENT, UNDECIDED = "equivalent", "different", "undecided"

UNCONSTRAINED = "all inputs and states"
CONSTRAINED = "all situations that occur"
REACHABLE = "all states that are reached"
ROWS = "rows of a memory that change places"  # for which inputs and registers a mutant is equivalent

OUTPUTS = "outputs from reset on"
ANY_STATE = "outputs or registers, in a state that may never be reached"  # what a mutant is shown to change

_CASES = 1 << 11
_FRAMES = 40
_OUTSTANDING_BITS = 3
_QUESTIONS = 10  # times the limit of a question that an induction of many short ones may take
_RESET = "rst"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCase:
    """Inputs that come together, and the outputs that are observed then."""

    # values that an input, or another word of the unit that has a name, can have; others can have any
    # values; ``name[2]`` is a bit of a word
    values: Mapping[str, Collection[int]]
    outputs: Collection[str] | None = (
        None  # names of the outputs, or bits of them, that somebody looks at; None for all
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StableInputs:
    """Inputs that stay as they are during an operation."""

    words: Collection[str]  # names of the inputs
    # word of one bit that is 1 from the first to the last cycle of the operation; earlier if it is given up
    during: str
    until: Collection[str]  # words of one bit that are all 1 in its last cycle


class Handshake(NamedTuple):
    """Requests, their grants and their answers: names of words of one bit."""

    request: str
    grant: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputConstraints:
    """Inputs that can reach a unit."""

    cases: Sequence[InputCase] = ()  # one of them in every cycle; none for any
    # rows of values of words, see InputCase: one of each row in every cycle
    always: Sequence[Sequence[Mapping[str, Collection[int]]]] = ()
    stable: Sequence[StableInputs] = ()  # what stays as it is during an operation
    # ports whose answers come only to what was asked and granted in an earlier cycle, at most seven at a time
    answered: Sequence[Handshake] = ()
    exclusive: Sequence[
        Handshake
    ] = ()  # ports whose requests come one at a time: the next one with the answer at the earliest


_ANYTHING = InputConstraints()


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantComparison:
    verdict: str  # see EQUIVALENT
    scope: str = ""  # of a mutant that is equivalent, for what; of one that is different, what is: see OUTPUTS
    # of a mutant that is different: words of the inputs, and of the registers if they are free, in each cycle
    counterexample: Sequence[Mapping[str, int]] = ()
    signal: str = ""  # of a mutant that is different: a bit that is, in the last cycle


class MutantComparer:
    """Compares mutants with the unit, some seconds for each question."""

    def __init__(
        self,
        *,
        gates: MutatedGates,
        abc: str,
        timeout_s: float,
        constraints: InputConstraints = _ANYTHING,
        moves_rows: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.assumes = constraints != _ANYTHING
        self._gates, self._graph, self._constraints = gates, gates.graph, constraints
        self._abc, self._timeout_s = abc, timeout_s
        self._generator, self._moves_rows = random.Random(1), moves_rows

    def compare(self, number: int) -> MutantComparison:
        """Is the mutant equal to the unit?

        First with any value in registers, for any inputs and then for those that reach the unit; if it is not, in the
        states that are reached from reset, or else by what reads registers.
        """
        bits, changed = self._gates.differences(number), self._gates.changed(number)
        comparison = self._any_state(bits, changed)
        if comparison.verdict == EQUIVALENT:
            return comparison
        if self._moves_rows(number):
            return MutantComparison(verdict=EQUIVALENT, scope=ROWS)
        machine = self._gates.machine(number)
        if machine is None:
            return comparison
        reached = self._from_reset(bits, changed, machine)
        if reached.verdict == UNDECIDED and self._is_unread(number):
            return MutantComparison(verdict=EQUIVALENT, scope=REACHABLE)
        return comparison if reached.verdict == UNDECIDED else reached

    def _any_state(self, bits: Sequence[Bit], changed: int) -> MutantComparison:
        graph = self._graph
        differs = graph.any(graph.xor(bit, other) for _, bit, other in bits)
        comparison = self._never(graph.and_(changed, differs), bits, UNCONSTRAINED)
        if (self._constraints.cases or self._constraints.always) and comparison.verdict != EQUIVALENT:
            return self._never(graph.and_(changed, self._observable(bits)), bits, CONSTRAINED)
        return comparison

    def _from_reset(self, bits: Sequence[Bit], changed: int, machine: GateMachine) -> MutantComparison:
        latches, unreset = {**machine.unit, **machine.mutant}, self._gates.unreset
        known = {register: latch for register, latch in machine.unit.items() if register not in unreset}
        try:
            with suppress(GaveUpError):
                # as long as no register has differed, both are in the same state: that of the unit says what can
                # differ, whatever is in registers that nothing is known of
                if self._reached(self._graph.and_(changed, self._observable(bits)), known) is None:
                    return MutantComparison(verdict=EQUIVALENT, scope=REACHABLE)
            if unreset:
                return MutantComparison(verdict=UNDECIDED)
            frames = self._reached(self._observable(machine.outputs), latches)
        except GaveUpError:
            return MutantComparison(verdict=UNDECIDED)
        if frames is None:
            return MutantComparison(verdict=EQUIVALENT, scope=REACHABLE)
        *_, last = cycles_from_reset(self._graph, latches, frames)
        counterexample, signal = [self._words(ones) for ones in frames], self._wrong(machine.outputs, last)
        return MutantComparison(verdict=DIFFERENT, scope=OUTPUTS, counterexample=counterexample, signal=signal)

    def _is_unread(self, number: int) -> bool:
        """Return whether registers are proved to differ only while nothing reads them."""
        search = UnobservedRegisters(
            gates=self._gates,
            number=number,
            assumed=self._satisfied(),
            observable=self._observable,
            solve=self._solver(),
        )
        try:
            return search.holds()
        except GaveUpError:
            return False

    def _satisfied(self) -> int:
        """Literal of the inputs being those of one of the cases."""
        cases = self._constraints.cases
        some_case = self._graph.any(self._holds(case.values) for case in cases) if cases else TRUE
        return self._graph.and_(some_case, self._always())

    def _always(self) -> int:
        return self._graph.all(self._graph.any(map(self._holds, row)) for row in self._constraints.always)

    def _solver(self) -> Callable[[int], Collection[int] | None]:
        """Finds cases, for some times the limit of a question in all."""
        ends = time.monotonic() + _QUESTIONS * self._timeout_s

        def solve(literal: int) -> Collection[int] | None:
            left_s = ends - time.monotonic()
            if left_s <= 0:
                raise GaveUpError
            return find_case(self._abc, self._graph, literal, timeout_s=min(left_s, self._timeout_s))

        return solve

    def _reached(self, literal: int, registers: Latches) -> list[frozenset[int]] | None:
        graph, known = self._graph, self._constraints
        latches = dict(registers)
        if self.assumes:
            # what came before must have occurred, too
            violated = graph.input()
            follows = [self._is_stable(inputs, latches) for inputs in known.stable]
            follows += [self._answers_request(port, latches) for port in known.answered]
            follows += [self._is_exclusive(port, latches) for port in known.exclusive]
            so_far = graph.all((violated ^ 1, self._satisfied(), *follows))
            latches[violated] = (so_far ^ 1, 0)
            literal = graph.and_(literal, so_far)
        if literal == FALSE:
            return None
        aiger = to_aiger(graph, [literal], latches=latches)
        seconds = self._timeout_s
        with suppress(GaveUpError):
            if frames := ask_abc(self._abc, aiger, f"bmc3 -F {_FRAMES} -T {seconds:.0f}", timeout_s=seconds):
                return frames
        with suppress(GaveUpError):
            # what few registers decide is proved before equal ones of the whole are found
            return ask_abc(self._abc, aiger, f"strash; pdr -T {seconds:.0f}", timeout_s=seconds)
        return ask_abc(self._abc, aiger, f"scorr; pdr -T {seconds:.0f}", timeout_s=seconds)

    def _is_stable(self, held: StableInputs, latches: dict[int, tuple[int, int]]) -> int:
        """Literal of some inputs being what they were, if an operation goes on; with new registers that know it."""
        graph = self._graph
        went_on = graph.input()
        (during,) = self._word(held.during)
        ends = graph.all(literal for name in held.until for literal in self._word(name))
        latches[went_on] = (self._unless_reset(graph.and_(during, ends ^ 1)), 0)
        same = TRUE
        for literal in (literal for name in held.words for literal in self._word(name)):
            before = graph.input()
            latches[before] = (literal, 0)
            same = graph.and_(same, graph.xor(literal, before) ^ 1)
        return graph.any((same, went_on ^ 1, during ^ 1))

    def _answers_request(self, port: Handshake, latches: dict[int, tuple[int, int]]) -> int:
        """Literal of an answer having been asked for, if there is one; with a new counter of what is outstanding."""
        graph = self._graph
        (request,), (grant,), (answer,) = map(self._word, port)
        count = graph.inputs(_OUTSTANDING_BITS)
        less = graph.add(count, [answer] * _OUTSTANDING_BITS)
        following = graph.add(less, [FALSE] * _OUTSTANDING_BITS, graph.and_(request, grant))
        latches.update((bit, (self._unless_reset(after), 0)) for bit, after in zip(count, following, strict=True))
        return graph.any((answer ^ 1, *count))

    def _is_exclusive(self, port: Handshake, latches: dict[int, tuple[int, int]]) -> int:
        """Literal of nothing being requested while another request is outstanding; with a new register that knows."""
        graph = self._graph
        (request,), (grant,), (answer,) = map(self._word, port)
        outstanding = graph.input()
        waits = graph.and_(outstanding, answer ^ 1)
        latches[outstanding] = (self._unless_reset(graph.or_(waits, graph.and_(request, grant))), 0)
        return graph.and_(waits, request) ^ 1

    def _unless_reset(self, literal: int) -> int:
        """Next value of a register that knows what is under way: whoever resets the unit resets what is around it."""
        return self._graph.and_(literal, self._gates.words.get(_RESET, [FALSE])[0] ^ 1)

    def _wrong(self, bits: Sequence[Bit], given: Mapping[int, int]) -> str:
        """First of some bits that are not what they are in the unit."""
        values = self._graph.evaluate(given, [literal for _, *pair in bits for literal in pair])
        wrong = (
            name for (name, *_), value, other in zip(bits, values[::2], values[1::2], strict=True) if value != other
        )
        return next(wrong, "")

    def _never(self, literal: int, bits: Sequence[Bit], scope: str) -> MutantComparison:
        ones = self._graph.random_case([(literal, FALSE)], _CASES, self._generator)
        if ones is None:
            try:
                ones = find_case(self._abc, self._graph, literal, timeout_s=self._timeout_s)
            except GaveUpError:
                return MutantComparison(verdict=UNDECIDED)
            if ones is None:
                return MutantComparison(verdict=EQUIVALENT, scope=scope)
        signal = self._wrong(bits, dict.fromkeys(ones, 1))
        return MutantComparison(verdict=DIFFERENT, scope=ANY_STATE, counterexample=[self._words(ones)], signal=signal)

    def _observable(self, bits: Sequence[Bit]) -> int:
        """Literal of a difference that is looked at."""
        graph = self._graph
        unequal = [(name, graph.xor(bit, other)) for name, bit, other in bits]
        if not self._constraints.cases:
            return graph.and_(graph.any(literal for _, literal in unequal), self._always())

        def looked_at(outputs: Collection[str] | None) -> int:
            return graph.any(
                literal
                for name, literal in unequal
                if outputs is None or name.startswith(NEXT) or name in outputs or name.partition("[")[0] in outputs
            )

        cases = self._constraints.cases
        seen = graph.any(graph.and_(looked_at(case.outputs), self._holds(case.values)) for case in cases)
        return graph.and_(seen, self._always())

    def _holds(self, values: Mapping[str, Collection[int]]) -> int:
        """Literal of words having one of their values each."""
        return self._graph.all(
            self._graph.any(self._graph.is_value(self._word(name), value) for value in sorted(numbers))
            for name, numbers in values.items()
        )

    def _word(self, name: str) -> Sequence[int]:
        whole, bracket, place = name.partition("[")
        if bracket and whole in self._gates.words:
            return [self._gates.words[whole][int(place[:-1])]]
        if name not in self._gates.words:
            raise ToolError(f"situations must name words of the unit, not {name}")
        return self._gates.words[name]

    def _words(self, ones: Collection[int]) -> dict[str, int]:
        """Values of inputs and registers by name, those that are 0 left out."""
        words = {
            name: sum((literal in ones) << place for place, literal in enumerate(literals))
            for name, literals in self._gates.free.items()
        }
        return {name: value for name, value in words.items() if value}
