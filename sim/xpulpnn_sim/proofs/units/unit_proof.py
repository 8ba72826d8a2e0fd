"""Claims about units, verdicts on the claims, and faults that each proof must find."""

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
"""Verdicts: proved for all inputs; refuted; not finished (VACUOUS is another verdict)."""

Words = Mapping[str, Sequence[int]]  # literals of words by name, lowest bit first


class InputFault(NamedTuple):
    """A fault that inverts bit ``bit`` of a port if the other bits of the port have the value ``others``.

    Random operands do not find it, as it affects only one 32-bit word in ``2**31``. Claims whose statements begin with
    ``refutes`` must fail.
    """

    port: str
    others: int
    bit: int = 0
    refutes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenUnit:
    gates: ClockedGates
    ports: Sequence[Mapping[str, Any]]
    config: CoreConfig
    fault: InputFault | None = None

    def cycle(
        self, graph: GateGraph, words: Words, state: Mapping[int, int] | None = None, **others: Sequence[int]
    ) -> ClockCycle:
        """Return a clock cycle without reset; registers that are not in ``state`` are free.

        A fault changes ``words`` for the unit only, not for the definition.
        """
        given = {name: list(word) for name, word in words.items()}
        if self.fault and self.fault.port in words:
            name, others_bits, bit, _ = self.fault
            word = words[name]
            rest = [literal ^ (others_bits >> place & 1) ^ 1 for place, literal in enumerate(word) if place != bit]
            given[name][bit] = graph.xor(word[bit], graph.all(rest))
        return ClockCycle(graph, self.gates, {"rst": [FALSE], **given, **others}, state or {})

    def control(self, fields: Mapping[str, int | Sequence[int]], graph: GateGraph | None = None) -> list[int]:
        """Return a control word with these fields (numbers or literals); others are 0, or free with ``graph``."""
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
    verdict: str
    method: str
    counterexample: str = ""


class Claim(NamedTuple):
    statement: str  # operations, or the equal quantities
    method: str
    # takes a time limit in seconds; returns a counterexample (empty if proved), or a decision
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
        outcome = Outcome(name=unit, statement=self.statement, method=method, verdict=verdict)
        return replace(outcome, seconds=time.monotonic() - began, parts=(counterexample,) if counterexample else ())


class Definition(NamedTuple):
    """A function that returns the claims about a unit, and the faults that each proof must find."""

    claims: Callable[[ProvenUnit], list[Claim]]
    faults: Sequence[InputFault]

    def broken(self, unit: ProvenUnit) -> list[list[Claim]]:
        faults = [fault for fault in self.faults if fault.port in unit.gates.ports]
        claims = [(fault, self.claims(replace(unit, fault=fault))) for fault in faults]
        refuted = [[each for each in some if each.statement.startswith(fault.refutes)] for fault, some in claims]
        return list(filter(None, refuted))


def shown(graph: GateGraph, words: Words, ones: frozenset[int]) -> str:
    values = dict(zip(words, graph.numbers(ones, words.values()), strict=True))
    return ", ".join(f"{name}={value:#x}" for name, value in values.items() if value) or "all inputs 0"


class Equality(NamedTuple):
    name: str
    actual: Sequence[int]  # literals of the unit, lowest bit first
    expected: Sequence[int]  # literals of the definition
    condition: int = TRUE  # literal of the cases in which they must be equal


def unequal(graph: GateGraph, assumed: int, equalities: Sequence[Equality], words: Words, timeout_s: float) -> str:
    """Return an empty string if all equalities hold where ``assumed`` is 1, else text on a counterexample.

    Raises :class:`VacuousError` if ``assumed`` cannot be 1.
    """
    pairs = [pair for each in equalities for pair in zip(each.actual, each.expected, strict=True) if pair[0] != pair[1]]
    sides = tuple([graph.and_(assumed, pair[side]) for pair in pairs] for side in (0, 1))
    different = solvers.prove_equal(graph, (sides[0], sides[1]), timeout_s=int(timeout_s), sweep=True)
    if different is None:
        solvers.require_met(graph, assumed, timeout_s=int(timeout_s))
        return ""
    case = shown(graph, words, different)
    for equality in equalities:
        actual, expected = graph.numbers(different, (equality.actual, equality.expected))
        if actual != expected:
            return f"{case}: {equality.name} must be {expected:#x}, not {actual:#x}"
    return case
