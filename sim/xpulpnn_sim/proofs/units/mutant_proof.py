"""Comparison of a mutant of a unit with the unit: for all inputs, or for all that occurs."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.aiger import to_aiger
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.solvers import NEVER, SOMETIMES, UNKNOWN, Answer, ask_abc, find_case
from xpulpnn_sim.proofs.units.mutated_gates import NEXT, Bit, Machine, MutatedGates

EQUIVALENT, DIFFERENT, UNDECIDED = "equivalent", "different", "undecided"

EVERYWHERE = "all inputs and states"
SITUATIONS = "all situations that occur"
REACHED = "all states that are reached"  # for which inputs and registers a mutant is equivalent

OUTPUTS = "outputs from reset on"
ANY_STATE = "outputs or registers, in a state that may never be reached"  # what a mutant is shown to change

_CASES = 1 << 11
_FRAMES = 40
_OUTSTANDING_BITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Inputs that occur together, and what is looked at then."""

    # values that an input, or another word of the unit that has a name, can have; others can have any
    values: Mapping[str, Collection[int]]
    outputs: Collection[str] | None = None  # names of the outputs that somebody looks at; None for all


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Inputs that stay as they are during an operation."""

    words: Collection[str]  # names of the inputs
    # word of one bit that is 1 from the first to the last cycle of the operation; earlier if it is given up
    during: str
    until: Collection[str]  # words of one bit that are all 1 in its last cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """Requests, their grants and their answers."""

    request: str  # words of one bit
    grant: str  # words of one bit
    answer: str  # words of one bit


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Port):
    """Answers come only to what was asked and granted in an earlier cycle, at most seven at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(Port):
    """Requests come one at a time: the next one with the answer at the earliest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurring:
    """Inputs that occur at a unit."""

    situations: Sequence[Situation] = ()  # one of them in every cycle; none for any
    held: Sequence[Held] = ()  # what stays as it is during an operation
    answered: Sequence[Answered] = ()  # ports whose answers belong to requests of earlier cycles
    alone: Sequence[Alone] = ()  # ports with one request outstanding at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Verdict on a mutant."""

    verdict: str  # see EQUIVALENT
    scope: str = ""  # of a mutant that is equivalent, for what; of one that is different, what is: see OUTPUTS
    # of a mutant that is different: words of the inputs, and of the registers if they are free, in each cycle
    example: Sequence[Mapping[str, int]] = ()
    signal: str = ""  # of a mutant that is different: a bit that is, in the last cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Compares mutants with the unit."""

    gates: MutatedGates
    abc: str
    timeout_s: float  # seconds for each question
    occurring: Occurring = Occurring()
    _generator: random.Random = field(default_factory=lambda: random.Random(1), init=False)

    @property
    def assumes(self) -> bool:
        """Return whether anything is known about what occurs."""
        return self.occurring != Occurring()

    def compare(self, number: int) -> Comparison:
        """Is the mutant equal to the unit?

        First with any value in registers, for any inputs and then for the situations that occur; if it is not, and all
        registers have a value after reset, in the states that are reached from it.
        """
        bits = self.gates.differences(number)
        found = self._any_state(bits)
        if found.verdict == EQUIVALENT:
            return found
        machine = self.gates.machine(number)
        reached = self._from_reset(bits, machine) if machine else found
        return found if reached.verdict == UNDECIDED else reached

    def _any_state(self, bits: Sequence[Bit]) -> Comparison:
        differs = self.gates.graph.any(self.gates.graph.xor(one, other) for _, one, other in bits)
        if differs == FALSE:
            return Comparison(verdict=EQUIVALENT, scope=EVERYWHERE)
        asked = [(differs, EVERYWHERE)]
        if self.occurring.situations:
            asked.append((self._seen(bits), SITUATIONS))
        found = Comparison(verdict=UNDECIDED)
        for literal, scope in asked:
            found = self._never(literal, bits, scope)
            if found.verdict == EQUIVALENT:
                break
        return found

    def _from_reset(self, bits: Sequence[Bit], machine: Machine) -> Comparison:
        # as long as no register has differed, both are in the same state: that of the unit says what can differ next
        answer, _ = self._reached(self._seen(bits), machine.unit)
        if answer.verdict != NEVER:
            answer, inputs = self._reached(self._seen(machine.outputs), {**machine.unit, **machine.mutant})
            if answer.verdict == SOMETIMES:
                cycles = [
                    {literal for literal, bit in zip(inputs, frame, strict=False) if bit} for frame in answer.frames
                ]
                return Comparison(
                    verdict=DIFFERENT,
                    scope=OUTPUTS,
                    example=[self._words(ones) for ones in cycles],
                    signal=self._last_wrong(machine, cycles),
                )
        if answer.verdict == NEVER:
            return Comparison(verdict=EQUIVALENT, scope=REACHED)
        return Comparison(verdict=UNDECIDED)

    def _reached(self, literal: int, registers: Mapping[int, tuple[int, int]]) -> tuple[Answer, Sequence[int]]:
        graph = self.gates.graph
        latches = dict(registers)
        if self.assumes:
            # what came before must have occurred, too
            violated = graph.input()
            known = self.occurring
            follows = [self._stays(one, latches) for one in known.held]
            follows += [self._was_asked(one, latches) for one in known.answered]
            follows += [self._is_alone(one, latches) for one in known.alone]
            occurs = graph.any(self._holds(one) for one in known.situations) if known.situations else TRUE
            so_far = graph.all((violated ^ 1, occurs, *follows))
            latches[violated] = (so_far ^ 1, 0)
            literal = graph.and_(literal, so_far)
        if literal == FALSE:
            return Answer(verdict=NEVER), ()
        aiger = to_aiger(graph, [literal], latches=latches)
        answer = Answer(verdict=UNKNOWN)
        for commands in (f"bmc3 -F {_FRAMES} -T {self.timeout_s:.0f}", f"scorr; pdr -T {self.timeout_s:.0f}"):
            answer = ask_abc(self.abc, aiger, commands, timeout_s=self.timeout_s)
            # the first one only searches some cycles
            if answer.verdict == SOMETIMES or commands.startswith("scorr"):
                break
        return answer, aiger.origins

    def _stays(self, held: Held, latches: dict[int, tuple[int, int]]) -> int:
        """Literal of some inputs being what they were, if an operation goes on; with new registers that know it."""
        graph = self.gates.graph
        went_on = graph.input()
        (during,) = self._word(held.during)
        ends = self.gates.graph.all(literal for name in held.until for literal in self._word(name))
        latches[went_on] = (self._unless_reset(graph.and_(during, ends ^ 1)), 0)
        same = TRUE
        for literal in (literal for name in held.words for literal in self._word(name)):
            before = graph.input()
            latches[before] = (literal, 0)
            same = graph.and_(same, graph.xor(literal, before) ^ 1)
        return self.gates.graph.any((same, went_on ^ 1, during ^ 1))

    def _was_asked(self, port: Answered, latches: dict[int, tuple[int, int]]) -> int:
        """Literal of an answer having been asked for, if there is one; with a new counter of what is outstanding."""
        graph = self.gates.graph
        (request,), (grant,), (answer,) = (self._word(name) for name in (port.request, port.grant, port.answer))
        count = graph.inputs(_OUTSTANDING_BITS)
        less = graph.add(count, [answer] * _OUTSTANDING_BITS)
        following = graph.add(less, [FALSE] * _OUTSTANDING_BITS, graph.and_(request, grant))
        latches.update((one, (self._unless_reset(after), 0)) for one, after in zip(count, following, strict=True))
        return self.gates.graph.any((answer ^ 1, *count))

    def _is_alone(self, port: Alone, latches: dict[int, tuple[int, int]]) -> int:
        """Literal of nothing being requested while another request is outstanding; with a new register that knows."""
        graph = self.gates.graph
        (request,), (grant,), (answer,) = (self._word(name) for name in (port.request, port.grant, port.answer))
        outstanding = graph.input()
        waits = graph.and_(outstanding, answer ^ 1)
        latches[outstanding] = (self._unless_reset(graph.or_(waits, graph.and_(request, grant))), 0)
        return graph.and_(waits, request) ^ 1

    def _unless_reset(self, literal: int) -> int:
        """Next value of a register that knows what is under way: whoever resets the unit resets what is around it."""
        return self.gates.graph.and_(literal, self.gates.words.get("rst", [FALSE])[0] ^ 1)

    def _last_wrong(self, machine: Machine, cycles: Sequence[Collection[int]]) -> str:
        """Output that is different in the last of some cycles after reset."""
        latches = {**machine.unit, **machine.mutant}
        state = {literal: start for literal, (_, start) in latches.items()}
        given: dict[int, int] = {}
        for ones in cycles:
            given = state | dict.fromkeys(ones, 1)
            following = self.gates.graph.evaluate(given, [literal for literal, _ in latches.values()])
            state = dict(zip(latches, following, strict=True))
        return self._wrong(machine.outputs, given)

    def _wrong(self, bits: Sequence[Bit], given: Mapping[int, int]) -> str:
        """First of some bits that are not what they are in the unit."""
        values = self.gates.graph.evaluate(given, [literal for _, *pair in bits for literal in pair])
        wrong = (name for (name, *_), one, other in zip(bits, values[::2], values[1::2], strict=True) if one != other)
        return next(wrong, "")

    def _never(self, literal: int, bits: Sequence[Bit], scope: str) -> Comparison:
        ones = self._random_case(literal)
        if ones is None:
            verdict, case = find_case(self.abc, self.gates.graph, literal, timeout_s=self.timeout_s)
            if verdict == UNKNOWN:
                return Comparison(verdict=UNDECIDED)
            if verdict == NEVER:
                return Comparison(verdict=EQUIVALENT, scope=scope)
            ones = case
        signal = self._wrong(bits, dict.fromkeys(ones, 1))
        return Comparison(verdict=DIFFERENT, scope=ANY_STATE, example=[self._words(ones)], signal=signal)

    def _seen(self, bits: Sequence[Bit]) -> int:
        """Literal of a difference that is looked at."""
        graph = self.gates.graph
        unequal = [(name, graph.xor(one, other)) for name, one, other in bits]
        if not self.occurring.situations:
            return self.gates.graph.any(literal for _, literal in unequal)
        groups: dict[frozenset[str] | None, list[Situation]] = {}
        for situation in self.occurring.situations:
            outputs = situation.outputs
            groups.setdefault(outputs if outputs is None else frozenset(outputs), []).append(situation)
        found: list[int] = []
        for outputs, members in groups.items():
            looked_at = self.gates.graph.any(
                literal
                for name, literal in unequal
                if outputs is None or name.startswith(NEXT) or name.partition("[")[0] in outputs
            )
            if looked_at != FALSE:
                found.append(graph.and_(looked_at, self.gates.graph.any(self._holds(one) for one in members)))
        return self.gates.graph.any(found)

    def _holds(self, situation: Situation) -> int:
        """Literal of the inputs being those of a situation."""
        return self.gates.graph.all(
            self.gates.graph.any(self._is(self._word(name), value) for value in sorted(values))
            for name, values in situation.values.items()
        )

    def _is(self, word: Sequence[int], value: int) -> int:
        return self.gates.graph.all(literal ^ (value >> place & 1) ^ 1 for place, literal in enumerate(word))

    def _word(self, name: str) -> Sequence[int]:
        if name not in self.gates.words:
            raise ToolError(f"situations must name words of the unit, not {name}")
        return self.gates.words[name]

    def _random_case(self, literal: int) -> frozenset[int] | None:
        """Variables that are 1 in a case in which a literal is, if random values show one."""
        graph = self.gates.graph
        values = {one: self._generator.getrandbits(_CASES) for one in graph.variables([literal])}
        (found,) = graph.evaluate(values, [literal], (1 << _CASES) - 1)
        if not found:
            return None
        case = (found & -found).bit_length() - 1
        return frozenset(one for one, value in values.items() if value >> case & 1)

    def _words(self, ones: Collection[int]) -> dict[str, int]:
        """Values of inputs and registers by name, those that are 0 left out."""
        words = {
            name: sum((literal in ones) << place for place, literal in enumerate(literals))
            for name, literals in self.gates.free.items()
        }
        return {name: value for name, value in words.items() if value}
