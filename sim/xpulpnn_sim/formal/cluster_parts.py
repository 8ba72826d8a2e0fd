"""Promises of parts of a cluster, one claim for each part; see :mod:`~xpulpnn_sim.formal.induction`."""

import re

from xpulpnn.errors import ToolError
from xpulpnn_sim.formal.induction import PROVED, REFUTED, UNDECIDED, prove
from xpulpnn_sim.formal.solvers import GaveUpError
from xpulpnn_sim.formal.unit_proof import Claim
from xpulpnn_sim.properties.obligation import Obligation

_OUTPUT = re.compile(r"^ *output (?:wire )?(?:\[[^\]]*\] )?(\w+)", re.MULTILINE)


def claims(obligation: Obligation, text: str) -> list[Claim]:
    """All that is promised of a part; what must not hold must be refuted."""

    def decide(timeout_s: float) -> str:
        findings = prove(obligation, text, timeout_s=int(timeout_s))
        wrong = [
            finding
            for finding in findings
            if finding.verdict != (REFUTED if finding.claim in obligation.refuted else PROVED)
        ]
        if any(finding.verdict != UNDECIDED for finding in wrong):
            return "; ".join(f"{finding.verdict}: {obligation.claims[finding.claim]}" for finding in wrong)
        if wrong:
            raise GaveUpError
        return ""

    count = len(obligation.claims)
    return [Claim(what=f"{count} promises, in every cycle after a reset", method="induction", decide=decide)]


def broken(obligation: Obligation) -> list[list[Claim]]:
    """Claims that are wrong: the first output of the part that gates drive is inverted."""
    design = obligation.emit()
    name = design.manifest["hierarchy"]["claims.unit"]
    text = design.modules[name]
    for output in _OUTPUT.findall(text):
        driven = f" assign {output} = "
        if text.count(driven) == 1:
            changed = {**design.modules, name: text.replace(driven, f"{driven}~")}
            return [claims(obligation, "\n".join(changed.values()))]
    raise ToolError(f"{obligation.unit} must have an output that gates drive, but has none")
