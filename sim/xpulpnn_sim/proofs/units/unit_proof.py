"""Claims about a unit, verdicts on them, and the fault that each proof meets first."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn_sim.proofs.engine import solvers
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph, literals_of
from xpulpnn_sim.proofs.engine.outcomes import VACUOUS, Outcome
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, VacuousError

EQUAL, DIFFERENT, UNDECIDED = "equal", "different", "undecided"
"""Verdicts: proved for all inputs, refuted, not finished; see also VACUOUS."""

Words = Mapping[str, Sequence[int]]  # literals of words by name, lowest bit first


class InputFault(NamedTuple):
    """Bit ``bit`` of a port arrives inverted if its other bits are those of ``others``, and else as it is.

    Random operands do not find it: one word of 32 bits in ``2**31`` has it. The claims that must fail then are those
    whose texts begin with ``refutes``.
    """

    port: str
    others: int
    bit: int = 0
    refutes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenUnit:
    """A unit as gates, and what its definition follows from."""

    gates: ClockedGates
    ports: Sequence[Mapping[str, Any]]
    config: CoreConfig
    fault: InputFault | None = None

    def cycle(
        self, graph: GateGraph, words: Words, state: Mapping[int, int] | None = None, **others: Sequence[int]
    ) -> ClockCycle:
        """A clock cycle without reset from a state, of which registers that are left out hold anything.

        Of ``words`` the unit sees what the fault leaves of them; its definition keeps the true ones.
        """
        given = {name: list(word) for name, word in words.items()}
        if self.fault and self.fault.port in words:
            name, others_bits, bit, _ = self.fault
            word = words[name]
            rest = [literal ^ (others_bits >> place & 1) ^ 1 for place, literal in enumerate(word) if place != bit]
            given[name][bit] = graph.xor(word[bit], graph.all(rest))
        return ClockCycle(graph, self.gates, {"rst": [FALSE], **given, **others}, state or {})

    def control(self, fields: Mapping[str, int | Sequence[int]], graph: GateGraph | None = None) -> list[int]:
        """The word of control with these fields, numbers or literals; others are 0, or with a graph any."""
        row = next(port for port in self.ports if port["name"] == "ctrl")
        word = [FALSE] * row["width"]
        for field in row["fields"]:
            width, given = field["width"], fields.get(field["name"], 0)
            literals = literals_of(given, width) if isinstance(given, int) else given
            if graph and field["name"] not in fields:
                literals = graph.inputs(width)
            word[field["lsb"] : field["lsb"] + width] = literals
        return word


class Decision(NamedTuple):
    """Answer of a method: whether a claim holds, and a case in which it does not."""

    verdict: str  # see EQUAL
    method: str
    counterexample: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One equality of a unit with its definition."""

    statement: str  # the operations, or what is equal
    method: str
    # given the seconds it may take: a counterexample, empty if the claim is proved, or the answer with its method
    decide: Callable[[float], str | Decision]

    def prove(self, unit: str, timeout_s: float) -> Outcome:
        began = time.monotonic()
        try:
            answer = self.decide(timeout_s)
        except VacuousError:
            answer = Decision(VACUOUS, self.method)
        except GaveUpError:
            answer = Decision(UNDECIDED, self.method)
        if isinstance(answer, str):
            answer = Decision(DIFFERENT if answer else EQUAL, self.method, answer)
        verdict, method, counterexample = answer
        parts, seconds = (counterexample,) if counterexample else (), time.monotonic() - began
        return Outcome(
            name=unit, statement=self.statement, method=method, verdict=verdict, seconds=seconds, parts=parts
        )


class Definition(NamedTuple):
    """Claims about a unit, and the faults that each proof must find first."""

    claims: Callable[[ProvenUnit], list[Claim]]
    faults: Sequence[InputFault]

    def broken(self, unit: ProvenUnit) -> list[list[Claim]]:
        """Claims that are wrong, for each fault that the unit can have."""
        refuted: list[list[Claim]] = []
        for fault in self.faults:
            if fault.port in unit.gates.ports:
                claims = self.claims(replace(unit, fault=fault))
                refuted.append([claim for claim in claims if claim.statement.startswith(fault.refutes)])
        return [claims for claims in refuted if claims]


def shown(graph: GateGraph, words: Words, ones: frozenset[int]) -> str:
    """Values of words where the input literals ``ones`` are 1 and the others are 0; those that are 0 left out."""
    values = dict(zip(words, graph.numbers(ones, words.values()), strict=True))
    return ", ".join(f"{name}={value:#x}" for name, value in values.items() if value) or "all inputs 0"


class Equality(NamedTuple):
    """Two words that must be equal."""

    name: str  # what they are
    actual: Sequence[int]  # literals, lowest bit first: by the unit
    expected: Sequence[int]  # by its definition
    condition: int = TRUE  # literal of the cases in which they must


def unequal(graph: GateGraph, assumed: int, equalities: Sequence[Equality], words: Words, timeout_s: float) -> str:
    """Empty if all are proved to be equal where a literal is 1, else a case in which one is not.

    Raises :class:`VacuousError` if the literal is never 1.
    """
    pairs = [
        pair
        for equality in equalities
        for pair in zip(equality.actual, equality.expected, strict=True)
        if pair[0] != pair[1]
    ]
    sides = tuple([graph.and_(assumed, pair[side]) for pair in pairs] for side in (0, 1))
    different = solvers.prove_equal(graph, (sides[0], sides[1]), timeout_s=int(timeout_s), sweep=True)
    if different is None:
        solvers.require_met(graph, assumed, timeout_s=int(timeout_s))
        return ""
    case = shown(graph, words, different)
    numbers = iter(
        graph.numbers(different, [word for equality in equalities for word in (equality.actual, equality.expected)])
    )
    for equality in equalities:
        actual, expected = next(numbers), next(numbers)
        if actual != expected:
            return f"{case}: {equality.name} must be {expected:#x}, not {actual:#x}"
    return case
