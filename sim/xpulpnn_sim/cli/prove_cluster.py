"""``xpulpnn prove cluster``: what the cluster's parts promise, for every sequence of inputs."""

import time
from dataclasses import field
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, apply_settings
from xpulpnn_sim.cli.common import finish, output, progress_bar, table, tell
from xpulpnn_sim.cli.configurations import Settings
from xpulpnn_sim.cli.options import Json, Seconds, Timeout, arguments, command
from xpulpnn_sim.proofs.cluster.cluster import PARTS
from xpulpnn_sim.proofs.cluster.obligation import Obligation
from xpulpnn_sim.proofs.units.cluster_parts import Finding, prove_by_induction

_TITLE = "what holds in every cycle after a reset, by induction over the clock edges"


@arguments
class ClusterProofOptions(Settings, Timeout, Json):
    """Options of the command."""

    parts: Annotated[tuple[str, ...], Parameter(choices=tuple(PARTS), metavar="PART")] = field(
        default=(), kw_only=False
    )
    """Parts of the cluster (default all): the arbiter of a bank, in all kinds; the event unit's mutex and barrier, and
    its part for each core."""
    preset: Annotated[str, Parameter(choices=tuple(CLUSTER_PRESETS), metavar="NAME")] = "cluster"
    """Configuration to start from."""
    timeout: Seconds = 120.0
    """Seconds for each half of the proof of a claim."""


@command
def prove_cluster_command(options: ClusterProofOptions) -> int:
    """Print the table; fails unless every claim is proved, or refuted where it must be."""
    config = apply_settings(CLUSTER_PRESETS[options.preset], options.assignments)
    found: list[tuple[Obligation, list[Finding], float]] = []
    obligations = [each for part in PARTS if part in (options.parts or PARTS) for each in PARTS[part](config)]
    with progress_bar("proving", len(obligations)) as bar:
        for obligation in bar.each(obligations, lambda one: one.unit):
            began = time.monotonic()
            findings = prove_by_induction(obligation, obligation.emit().text, timeout_s=int(options.timeout))
            found.append((obligation, findings, time.monotonic() - began))
    output().print(_table(found))
    every = [(obligation, finding) for obligation, findings, _ in found for finding in findings]
    wrong = [_shown(*each) for each in every if each[1].verdict != each[0].expected(each[1].claim)]
    for text in wrong:
        tell(text)
    return finish(options.json, [_record(*each) for each in found], good=not wrong)


def _table(found: list[tuple[Obligation, list[Finding], float]]) -> Table:
    rows: list[tuple[object, ...]] = []
    for obligation, findings, seconds in found:
        unit, spent = obligation.unit, f"{seconds:.1f}"
        for finding in findings:
            verdict = finding.verdict
            if finding.claim in obligation.refuted and verdict == obligation.expected(finding.claim):
                verdict += ", as must be"
            rows.append((unit, obligation.claims[finding.claim], finding.cycles, spent, verdict))
            unit = spent = ""
    return table(("unit", "claim", "cycles", "seconds", "verdict"), rows, title=_TITLE)


def _shown(obligation: Obligation, finding: Finding) -> str:
    """A claim that is not as it should be, and the cycles that show it: ports that are not 0."""
    lines = [f"{obligation.unit}: {obligation.claims[finding.claim]}: {finding.verdict}"]
    for cycle, ports in enumerate(finding.example):
        values = [
            f"{name.removeprefix('io__')}={value:#x}"
            for name, value in ports.items()
            if value and name not in ("clk", *obligation.claims)
        ]
        lines.append(f"  cycle {cycle}: {' '.join(values) or 'all 0'}")
    return "\n".join(lines)


def _record(obligation: Obligation, findings: list[Finding], seconds: float) -> dict[str, Any]:
    return {
        "unit": obligation.unit,
        "seconds": round(seconds, 3),
        "claims": [
            {
                "claim": finding.claim,
                "text": obligation.claims[finding.claim],
                "cycles": finding.cycles,
                "verdict": finding.verdict,
                "expected": obligation.expected(finding.claim),
                "example": [dict(ports) for ports in finding.example],
            }
            for finding in findings
        ],
    }
