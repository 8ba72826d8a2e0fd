"""Promises of parts of a cluster, one claim for each part; see :mod:`~xpulpnn_sim.proofs.cluster.obligation`."""

from amaranth.hdl import Fragment, Value
from amaranth.lib.wiring import Out

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.cluster.obligation import UNDECIDED, Obligation, prove_by_induction
from xpulpnn_sim.proofs.engine.solvers import GaveUpError
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.units.unit_proof import Claim


def claims(obligation: Obligation, text: str) -> list[Claim]:
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


def broken(obligation: Obligation) -> list[list[Claim]]:
    """Claims that are wrong: the first output of the part that gates drive, no register, is inverted."""
    component = obligation.make()
    parts = {name: part for part, name, _ in Fragment.get(component, None).subfragments}
    driven = parts["unit"].statements["comb"]._lhs_signals()
    for path, member, port in component.unit.signature.flatten(component.unit):
        if member.flow is Out and Value.cast(port) in driven:
            name = ".".join(map(str, path))
            with CoreFault("inverted", type(component.unit), {name: lambda right, _: ~right}, "").seeded():
                return [claims(obligation, obligation.emit().text)]
    raise ToolError(f"{obligation.unit} must have an output that gates drive, but has none")
