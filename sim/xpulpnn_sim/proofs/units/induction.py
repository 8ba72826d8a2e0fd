"""k-induction: prove that properties hold in the first k cycles from reset, and after any k cycles with them."""

import time
from collections.abc import Iterable, Mapping, Sequence

from amaranth.hdl import Fragment, Value
from amaranth.lib.wiring import Out

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.cluster.obligation import PROVED, REFUTED, TOP, Obligation
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates, clocked_gates
from xpulpnn_sim.proofs.engine.gate_graph import TRUE, GateGraph, literals_of
from xpulpnn_sim.proofs.engine.outcomes import VACUOUS, Outcome
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, VacuousError, find_case, require_met
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.units.unit_proof import UNDECIDED, Claim
from xpulpnn_sim.tools.yosys import find_abc

_RESET = "rst"
_BEYOND, _FAR_BEYOND = 3, 10
"""Additional cycles after a reset in which claims are checked; the second number is for claims that are not proved."""

Trace = Sequence[Mapping[str, int]]  # port values in each cycle up to a violation


def prove_by_induction(obligation: Obligation, verilog: str, *, timeout_s: int) -> list[Outcome]:
    """Prove an obligation's properties for each value of its constant input; stop after an unexpected verdict."""
    gates, outcomes = clocked_gates(verilog, TOP, obligation.cutpoints), list[Outcome]()
    for number in range(obligation.numbers):
        outcomes += prove_number(obligation, gates, number, timeout_s=timeout_s)
        if any(outcome.verdict != obligation.expected(outcome.name) for outcome in outcomes):
            break
    return outcomes


def prove_number(obligation: Obligation, gates: ClockedGates, number: int, *, timeout_s: int) -> list[Outcome]:
    """Prove the claims for one value of the obligation's constant input.

    Each claim is checked in the cycles after a reset (more than ``depth``), and proved to hold in any state after
    ``depth`` cycles in which all claims hold. If a claim fails, claims whose proofs assumed it are proved again without
    it. Resets may come at any time. For claims that are not proved, longer counterexamples are searched. ``cycle`` of
    an outcome is the depth of the induction or the length of the counterexample.
    """
    depth, began = obligation.depth, time.monotonic()
    step, steps = _Cycles(obligation, gates, depth + 1, timeout_s, number), dict[str, Trace | None]()

    def from_reset(claims: Iterable[str], beyond: int) -> dict[str, Trace | None]:
        return _Cycles(obligation, gates, depth + beyond, timeout_s, number, resets=True).wrong(claims, since=1)

    def outcome(claim: str, verdict: str, trace: Trace = ()) -> Outcome:
        cycle, seconds = len(trace) or depth, time.monotonic() - began
        text = obligation.claims[claim]
        return Outcome(name=claim, statement=text, verdict=verdict, cycle=cycle, trace=trace, seconds=seconds)

    base = from_reset(obligation.claims, _BEYOND)
    assumed = [claim for claim in obligation.claims if claim not in obligation.refuted and not base[claim]]
    while assumed:
        try:
            steps |= step.wrong(assumed, since=depth, assumed=assumed)
        except VacuousError:
            return [outcome(claim, VACUOUS) for claim in obligation.claims]
        inductive = [claim for claim in assumed if base[claim] == steps[claim] == ()]
        if inductive == assumed:
            break
        assumed = inductive
    base |= from_reset([claim for claim in obligation.claims if claim not in assumed and not base[claim]], _FAR_BEYOND)
    outcomes: list[Outcome] = []
    for claim in obligation.claims:
        if trace := base[claim] or ():
            outcomes.append(outcome(claim, REFUTED, trace))
        elif claim in assumed:
            outcomes.append(outcome(claim, PROVED))
        else:
            outcomes.append(outcome(claim, UNDECIDED, steps.get(claim) or ()))
    return outcomes


class _Cycles:
    def __init__(
        self,
        obligation: Obligation,
        gates: ClockedGates,
        count: int,
        timeout_s: int,
        number: int,
        *,
        resets: bool = False,
    ) -> None:
        self._graph, self._gates, self._timeout_s = GateGraph(), gates, timeout_s
        self._cycles: list[ClockCycle] = []
        constants = {obligation.number: literals_of(number, (obligation.numbers - 1).bit_length())}
        state = dict(zip(gates.registers, self._graph.inputs(len(gates.registers)), strict=True))
        for cycle in range(count):
            given = constants | ({_RESET: [TRUE]} if resets and not cycle else {})
            for port, register in obligation.registers.items():
                nets = gates.words.get(f"unit.{register}", ())
                if state.keys().isdisjoint(nets):
                    raise ToolError(f"{obligation.title} must have a register {register}")
                # nothing reads the bits that are left out
                given[port] = [state[net] if net in state else self._graph.input() for net in nets]
            self._cycles.append(ClockCycle(self._graph, gates, given, state))
            state = self._cycles[-1].next_state()

    def wrong(self, claims: Iterable[str], *, since: int, assumed: Sequence[str] = ()) -> dict[str, Trace | None]:
        """Return, by claim, a trace that violates it in cycle ``since`` or later; ``assumed`` hold in earlier cycles.

        The trace is empty if the claim is never violated, and None on timeout. Raises :class:`VacuousError` if the
        assumed claims contradict each other.
        """
        graph, held = self._graph, self._held(assumed, since)
        later = self._cycles[since:]
        literals = {claim: graph.all([held, graph.all(each.port(claim)[0] for each in later) ^ 1]) for claim in claims}
        try:
            require_met(graph, held, timeout_s=self._timeout_s)
        except GaveUpError:
            return dict.fromkeys(literals)
        if len(literals) > 1 and self._counterexample("", graph.any(literals.values())) == ():
            return dict.fromkeys(literals, ())
        return {claim: self._counterexample(claim, literal) for claim, literal in literals.items()}

    def _held(self, claims: Sequence[str], since: int) -> int:
        return self._graph.all(cycle.port(claim)[0] for cycle in self._cycles[:since] for claim in claims)

    def _counterexample(self, claim: str, literal: int) -> Trace | None:
        try:
            ones = find_case(find_abc(), self._graph, literal, timeout_s=self._timeout_s)
        except GaveUpError:
            return None
        if ones is None:
            return ()
        trace: list[dict[str, int]] = []
        names = list(self._gates.ports)
        for cycle in self._cycles:
            trace.append(dict(zip(names, self._graph.numbers(ones, map(cycle.port, names)), strict=True)))
            if len(trace) > 1 and not trace[-1].get(claim, 1):
                break
        return tuple(trace)


def induction_claims(obligation: Obligation, text: str) -> list[Claim]:
    """Return a claim that each property of an obligation gets the expected verdict."""

    def decide(timeout_s: float) -> str:
        outcomes = prove_by_induction(obligation, text, timeout_s=int(timeout_s))
        wrong = [outcome for outcome in outcomes if outcome.verdict != obligation.expected(outcome.name)]
        if any(outcome.verdict != UNDECIDED for outcome in wrong):
            return "; ".join(f"{outcome.verdict}: {outcome.statement}" for outcome in wrong)
        if wrong:
            raise GaveUpError
        return ""

    count = len(obligation.claims)
    return [Claim(f"{count} promises, in every cycle after a reset", "induction", decide)]


def faulty_induction_claims(obligation: Obligation) -> list[list[Claim]]:
    """Return the claims for the unit with a fault: its first combinational output is inverted."""
    unit = obligation.unit
    driven = Fragment.get(unit, None).statements["comb"]._lhs_signals()
    for path, member, port in unit.signature.flatten(unit):
        if member.flow is Out and Value.cast(port) in driven:
            name = ".".join(map(str, path))
            with Fault(type(unit), "inverted", name, "~right").seeded():
                return [induction_claims(obligation, obligation.emit().text)]
    raise ToolError(f"{obligation.title} must have an output that gates drive, but has none")
