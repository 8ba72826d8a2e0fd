"""Compare a mutant of a unit with the unit, for all inputs or for the inputs reachable in the core."""

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from xpulpnn.errors import ToolError, require
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, Latches, ask_abc, cycles_from_reset, find_case, to_aiger
from xpulpnn_sim.proofs.mutants.mutated_gates import NEXT, Bit, GateMachine, MutatedGates
from xpulpnn_sim.proofs.mutants.unobserved_registers import UnobservedRegisters

EQUIVALENT, DIFFERENT, UNDECIDED = "equivalent", "different", "undecided"

UNCONSTRAINED = "all inputs and states"
CONSTRAINED = "all situations that occur"
REACHABLE = "all states that are reached"
ROWS = "rows of a memory that change places"  # scopes for which a mutant is equivalent

OUTPUTS = "outputs from reset on"
ANY_STATE = "outputs or registers, in a state that may never be reached"  # what a mutant changes

_CASES = 1 << 11
_FRAMES = 40
_OUTSTANDING_BITS = 3
_QUESTIONS = 10  # time limit of an induction with many short questions, as a multiple of the limit of a question
_RESET = "rst"

Values = Mapping[str, Collection[int]]
"""Possible values of inputs or internal words, any if not named; ``name[2]`` is a bit of a word."""


class InputCase(NamedTuple):
    """Input values that occur together, and the outputs that are observed then."""

    values: Values
    outputs: Collection[str] | None = None  # observed outputs or bits; None for all


class StableInputs(NamedTuple):
    words: Collection[str]
    # single-bit word that is 1 during the operation, and falls early if it is aborted
    during: str
    until: Collection[str]  # single-bit words that are all 1 in the last cycle


class Handshake(NamedTuple):
    request: str
    grant: str
    answer: str


@dataclass(frozen=True, slots=True)
class InputConstraints:
    cases: Sequence[InputCase] = ()  # one of them holds in every cycle; empty for any
    always: Sequence[Sequence[Values]] = ()  # rows of values; one of each row holds in every cycle
    stable: Sequence[StableInputs] = ()
    # ports with responses only to earlier granted requests, at most seven outstanding
    answered: Sequence[Handshake] = ()
    exclusive: Sequence[Handshake] = ()  # ports with one outstanding request; the next may come with the response


_ANYTHING = InputConstraints()


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantComparison:
    verdict: str  # EQUIVALENT, DIFFERENT or UNDECIDED
    scope: str = ""  # for an equivalent mutant its scope; for a different one OUTPUTS or ANY_STATE
    # for a different mutant: inputs, and free registers, in each cycle
    counterexample: Sequence[Mapping[str, int]] = ()
    signal: str = ""  # for a different mutant: a bit that differs in the last cycle


class MutantComparer:
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
        """Return whether a mutant is equivalent to the unit.

        Four proofs are tried in turn: for any register values and any inputs; for any register values and the inputs
        that occur in the core; for states reachable from reset; and that registers of unit and mutant differ only while
        they are not observed.
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
        if reached.verdict == UNDECIDED and self._is_unobserved(number):
            return MutantComparison(verdict=EQUIVALENT, scope=REACHABLE)
        return comparison if reached.verdict == UNDECIDED else reached

    def _any_state(self, bits: Sequence[Bit], changed: int) -> MutantComparison:
        graph = self._graph
        differs = graph.any(graph.xor(bit, other) for _, bit, other in bits)
        comparison = self._prove_never(graph.and_(changed, differs), bits, UNCONSTRAINED)
        if (self._constraints.cases or self._constraints.always) and comparison.verdict != EQUIVALENT:
            return self._prove_never(graph.and_(changed, self._observable(bits)), bits, CONSTRAINED)
        return comparison

    def _from_reset(self, bits: Sequence[Bit], changed: int, machine: GateMachine) -> MutantComparison:
        latches, unreset = {**machine.unit, **machine.mutant}, self._gates.unreset
        known = {register: latch for register, latch in machine.unit.items() if register not in unreset}
        try:
            with suppress(GaveUpError):
                # until a register differs, both are in the same state: the reachable states of the unit decide
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
        counterexample, signal = [self._words(ones) for ones in frames], self._first_difference(machine.outputs, last)
        return MutantComparison(verdict=DIFFERENT, scope=OUTPUTS, counterexample=counterexample, signal=signal)

    def _is_unobserved(self, number: int) -> bool:
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
        cases = self._constraints.cases
        some_case = self._graph.any(self._holds(case.values) for case in cases) if cases else TRUE
        return self._graph.and_(some_case, self._always_holds())

    def _always_holds(self) -> int:
        return self._graph.all(self._graph.any(map(self._holds, row)) for row in self._constraints.always)

    def _solver(self) -> Callable[[int], Collection[int] | None]:
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
            # earlier cycles must satisfy the constraints too
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
            # first without merging equal registers, which suffices if few registers decide
            return ask_abc(self._abc, aiger, f"strash; pdr -T {seconds:.0f}", timeout_s=seconds)
        return ask_abc(self._abc, aiger, f"scorr; pdr -T {seconds:.0f}", timeout_s=seconds)

    def _is_stable(self, held: StableInputs, latches: dict[int, tuple[int, int]]) -> int:
        """Return a literal that is 1 if the inputs are stable during an operation, using new monitor registers."""
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
        """Return a literal that is 0 for a response without an outstanding request, using a new counter."""
        graph = self._graph
        (request,), (grant,), (answer,) = map(self._word, port)
        count = graph.inputs(_OUTSTANDING_BITS)
        less = graph.add(count, [answer] * _OUTSTANDING_BITS)
        following = graph.add(less, [FALSE] * _OUTSTANDING_BITS, graph.and_(request, grant))
        latches.update((bit, (self._unless_reset(after), 0)) for bit, after in zip(count, following, strict=True))
        return graph.any((answer ^ 1, *count))

    def _is_exclusive(self, port: Handshake, latches: dict[int, tuple[int, int]]) -> int:
        """Return a literal that is 0 for a request while another is outstanding, using a new monitor register."""
        graph = self._graph
        (request,), (grant,), (answer,) = map(self._word, port)
        outstanding = graph.input()
        waits = graph.and_(outstanding, answer ^ 1)
        latches[outstanding] = (self._unless_reset(graph.or_(waits, graph.and_(request, grant))), 0)
        return graph.and_(waits, request) ^ 1

    def _unless_reset(self, literal: int) -> int:
        return self._graph.and_(literal, self._gates.words.get(_RESET, [FALSE])[0] ^ 1)

    def _first_difference(self, bits: Sequence[Bit], given: Mapping[int, int]) -> str:
        values = self._graph.evaluate(given, [literal for _, *pair in bits for literal in pair])
        wrong = (name for (name, *_), one, two in zip(bits, values[::2], values[1::2], strict=True) if one != two)
        return next(wrong, "")

    def _prove_never(self, literal: int, bits: Sequence[Bit], scope: str) -> MutantComparison:
        ones = self._graph.random_case([(literal, FALSE)], _CASES, self._generator)
        if ones is None:
            try:
                ones = find_case(self._abc, self._graph, literal, timeout_s=self._timeout_s)
            except GaveUpError:
                return MutantComparison(verdict=UNDECIDED)
            if ones is None:
                return MutantComparison(verdict=EQUIVALENT, scope=scope)
        signal = self._first_difference(bits, dict.fromkeys(ones, 1))
        return MutantComparison(verdict=DIFFERENT, scope=ANY_STATE, counterexample=[self._words(ones)], signal=signal)

    def _observable(self, bits: Sequence[Bit]) -> int:
        """Return a literal that is 1 if these bits differ between unit and mutant and the difference is observed."""
        graph = self._graph
        unequal = [(name, graph.xor(bit, other)) for name, bit, other in bits]
        if not self._constraints.cases:
            return graph.and_(graph.any(literal for _, literal in unequal), self._always_holds())

        def looked_at(outputs: Collection[str] | None) -> int:
            return graph.any(
                literal
                for name, literal in unequal
                if outputs is None or name.startswith(NEXT) or name in outputs or name.partition("[")[0] in outputs
            )

        cases = self._constraints.cases
        seen = graph.any(graph.and_(looked_at(case.outputs), self._holds(case.values)) for case in cases)
        return graph.and_(seen, self._always_holds())

    def _holds(self, values: Values) -> int:
        return self._graph.all(
            self._graph.any(self._graph.is_value(self._word(name), value) for value in sorted(numbers))
            for name, numbers in values.items()
        )

    def _word(self, name: str) -> Sequence[int]:
        whole, bracket, place = name.partition("[")
        if bracket and whole in self._gates.words:
            return [self._gates.words[whole][int(place[:-1])]]
        require(name in self._gates.words, f"situations must name words of the unit, not {name}", ToolError)
        return self._gates.words[name]

    def _words(self, ones: Collection[int]) -> dict[str, int]:
        free = self._gates.free.items()
        words = {name: sum((literal in ones) << place for place, literal in enumerate(word)) for name, word in free}
        return {name: value for name, value in words.items() if value}
