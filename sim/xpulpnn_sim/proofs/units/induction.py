"""Promises of parts of a cluster, proved by induction over clock cycles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Fragment, Value
from amaranth.lib.wiring import Out

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.cluster.obligation import PROVED, REFUTED, TOP, Obligation
from xpulpnn_sim.proofs.engine.clocked_gates import ClockCycle, ClockedGates, clocked_gates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE, GateGraph
from xpulpnn_sim.proofs.engine.outcomes import VACUOUS
from xpulpnn_sim.proofs.engine.solvers import GaveUpError, VacuousError, prove_equal, require_met
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.units.unit_proof import UNDECIDED, Claim

_RESET = "rst"
_BEYOND, _FAR_BEYOND = 3, 10
"""Cycles in which claims are checked after a reset, beyond those of the induction; and if they are not proved."""

Example = Sequence[Mapping[str, int]]  # ports by name in each cycle, up to the one in which a claim is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Verdict on a claim."""

    claim: str
    verdict: str  # see PROVED
    cycles: int  # how far the proof looked: the cycles of the induction, or those of the counterexample
    # from a reset for `refuted`, from a state in which induction fails for `undecided`
    example: Example = ()


def prove_by_induction(obligation: Obligation, verilog: str, *, timeout_s: int) -> list[Finding]:
    """Prove the claims of an obligation about its Verilog, of each value of its number up to one that is wrong."""
    gates, found = clocked_gates(verilog, TOP), list[Finding]()
    for number in range(obligation.numbers):
        found += prove_number(obligation, gates, number, timeout_s=timeout_s)
        if any(one.verdict != obligation.expected(one.claim) for one in found):
            break
    return found


def prove_number(obligation: Obligation, gates: ClockedGates, number: int, *, timeout_s: int) -> list[Finding]:
    """Prove the claims about the gates, of one value of its number.

    Each claim is checked in some more than ``depth`` cycles after a reset; and it is shown that in any state, if the
    claims held for ``depth`` cycles, it holds in the next. What a claim that fails was assumed for is shown again
    without it. Resets may come at any time. For claims that are not proved longer counterexamples are sought.
    """
    depth = obligation.depth
    step = _Cycles(obligation, gates, depth + 1, timeout_s, number)

    def from_reset(claims: Iterable[str], beyond: int) -> dict[str, Example | None]:
        return _Cycles(obligation, gates, depth + beyond, timeout_s, number, resets=True).wrong(claims, since=1)

    begins, steps = from_reset(obligation.claims, _BEYOND), dict[str, Example | None]()
    assumed = [claim for claim in obligation.claims if claim not in obligation.refuted and not begins[claim]]
    while assumed:
        try:
            steps |= step.wrong(assumed, since=depth, assumed=assumed)
        except VacuousError:
            return [Finding(claim=claim, verdict=VACUOUS, cycles=depth) for claim in obligation.claims]
        held = [claim for claim in assumed if begins[claim] == steps[claim] == ()]
        if held == assumed:
            break
        assumed = held
    begins |= from_reset([one for one in obligation.claims if one not in assumed and not begins[one]], _FAR_BEYOND)
    findings: list[Finding] = []
    for claim in obligation.claims:
        verdict, example = PROVED if claim in assumed else UNDECIDED, begins[claim] or ()
        if example:
            verdict = REFUTED
        elif verdict == UNDECIDED:
            example = steps.get(claim) or ()
        findings.append(Finding(claim=claim, verdict=verdict, cycles=len(example) or depth, example=example))
    return findings


class _Cycles:
    """A unit and its claims in some cycles, one after the other: from any state, or from a cycle of reset on."""

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
        state = dict(zip(gates.registers, self._graph.inputs(len(gates.registers)), strict=True))
        for cycle in range(count):
            given = {_RESET: [TRUE]} if resets and not cycle else {}
            width = (obligation.numbers - 1).bit_length()
            given[obligation.number] = [TRUE if number >> bit & 1 else FALSE for bit in range(width)]
            for port, register in obligation.registers.items():
                nets = gates.words.get(f"unit.{register}", ())
                if not state.keys() >= set(nets) or not nets:
                    raise ToolError(f"{obligation.title} must have a register {register}")
                given[port] = [state[net] for net in nets]
            self._cycles.append(ClockCycle(self._graph, gates, given, state))
            state = self._cycles[-1].next_state()

    def wrong(self, claims: Iterable[str], *, since: int, assumed: Sequence[str] = ()) -> dict[str, Example | None]:
        """Show for each claim how it is wrong from cycle ``since`` on if others held before it.

        Empty if it is never wrong; None if time is up. Raises :class:`VacuousError` if the others never hold.
        """
        graph = self._graph
        held = self._held(assumed, since)
        literals = {
            claim: graph.all([held, graph.all(cycle.port(claim)[0] for cycle in self._cycles[since:]) ^ 1])
            for claim in claims
        }
        try:
            require_met(graph, held, timeout_s=self._timeout_s)
        except GaveUpError:
            return dict.fromkeys(literals)
        if len(literals) > 1 and self._example("", graph.any(literals.values())) == ():
            return dict.fromkeys(literals, ())
        return {claim: self._example(claim, literal) for claim, literal in literals.items()}

    def _held(self, claims: Sequence[str], since: int) -> int:
        """Literal of claims that hold in the cycles before ``since``."""
        return self._graph.all(cycle.port(claim)[0] for cycle in self._cycles[:since] for claim in claims)

    def _example(self, claim: str, literal: int) -> Example | None:
        try:
            found = prove_equal(self._graph, ([literal], [FALSE]), timeout_s=self._timeout_s)
        except GaveUpError:
            return None
        if found is None:
            return ()
        example: list[dict[str, int]] = []
        words = [cycle.port(name) for cycle in self._cycles for name in self._gates.ports]
        numbers = iter(self._graph.numbers(found, words))
        for _ in self._cycles:
            example.append({name: next(numbers) for name in self._gates.ports})
            if len(example) > 1 and not example[-1].get(claim, 1):
                break
        return tuple(example)


def promises(obligation: Obligation, text: str) -> list[Claim]:
    """All that is promised of a part; what must not hold must be refuted."""

    def decide(timeout_s: float) -> str:
        findings = prove_by_induction(obligation, text, timeout_s=int(timeout_s))
        wrong = [finding for finding in findings if finding.verdict != obligation.expected(finding.claim)]
        if any(finding.verdict != UNDECIDED for finding in wrong):
            return "; ".join(f"{finding.verdict}: {obligation.claims[finding.claim]}" for finding in wrong)
        if wrong:
            raise GaveUpError
        return ""

    count = len(obligation.claims)
    return [Claim(what=f"{count} promises, in every cycle after a reset", method="induction", decide=decide)]


def broken_promises(obligation: Obligation) -> list[list[Claim]]:
    """Claims that are wrong: the first output of the part that gates drive, no register, is inverted."""
    unit = obligation.unit
    driven = Fragment.get(unit, None).statements["comb"]._lhs_signals()
    for path, member, port in unit.signature.flatten(unit):
        if member.flow is Out and Value.cast(port) in driven:
            name = ".".join(map(str, path))
            with Fault("inverted", type(unit), {name: lambda right, _: ~right}, "").seeded():
                return [promises(obligation, obligation.emit().text)]
    raise ToolError(f"{obligation.title} must have an output that gates drive, but has none")
