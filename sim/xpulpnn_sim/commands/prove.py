"""``xpulpnn prove``: what the cluster's parts promise, for every sequence of inputs."""

import argparse
import time
from typing import Any

from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn.settings import apply_settings
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_json,
    add_settings,
    assignments,
    output,
    progress_bar,
    require_writable,
    write_json,
)
from xpulpnn_sim.formal.induction import PROVED, REFUTED, Finding, prove
from xpulpnn_sim.properties.cluster import PARTS
from xpulpnn_sim.properties.obligation import Obligation

_TITLE = "what holds in every cycle after a reset, by induction over the clock edges"
_EXPECTED = "as must be"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"part of the cluster out of {', '.join(PARTS)} (default all): the arbiter of a bank, in all kinds; the "
        "event unit's mutex and barrier, and its part for each core",
    )
    parser.add_argument(
        "--preset",
        default="cluster",
        metavar="NAME",
        help=f"configuration: {', '.join(CLUSTER_PRESETS)} (default cluster)",
    )
    add_settings(parser, "cores=16")
    parser.add_argument(
        "--timeout",
        type=int,
        default=120,
        metavar="S",
        help="seconds for each half of the proof of a claim (default 120)",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails unless every claim is proved, or refuted where it must be."""
    require_writable(arguments.json)
    if arguments.timeout < 1:
        raise InputError(f"--timeout must be at least 1, not {arguments.timeout}")
    config = _configuration(arguments)
    found: list[tuple[Obligation, list[Finding], float]] = []
    obligations = [each for part in _parts(arguments) for each in PARTS[part](config)]
    with progress_bar("proving", len(obligations)) as (progress, task):
        for obligation in obligations:
            progress.update(task, description=obligation.unit)
            began = time.monotonic()
            findings = prove(obligation, obligation.emit().text, timeout_s=arguments.timeout)
            found.append((obligation, findings, time.monotonic() - began))
            progress.advance(task)
    console = output()
    console.print(_table(found))
    wrong = 0
    for obligation, findings, _ in found:
        for finding in findings:
            if finding.verdict != _wanted(obligation, finding):
                wrong += 1
                console.print(_shown(obligation, finding), markup=False, soft_wrap=True)
    write_json(arguments.json, [_record(*each) for each in found])
    return FAILED if wrong else OK


def _parts(arguments: argparse.Namespace) -> list[str]:
    for part in arguments.parts:
        if part not in PARTS:
            raise InputError(f"PART must be one of {', '.join(PARTS)}, not {part}")
    return [part for part in PARTS if part in (arguments.parts or PARTS)]


def _configuration(arguments: argparse.Namespace) -> ClusterConfig:
    if arguments.preset not in CLUSTER_PRESETS:
        raise InputError(f"--preset must be one of {', '.join(CLUSTER_PRESETS)}, not {arguments.preset}")
    return apply_settings(CLUSTER_PRESETS[arguments.preset], assignments(arguments))


def _wanted(obligation: Obligation, finding: Finding) -> str:
    return REFUTED if finding.claim in obligation.refuted else PROVED


def _table(found: list[tuple[Obligation, list[Finding], float]]) -> Table:
    table = Table(box=None, title=_TITLE, title_justify="left")
    for heading in ("unit", "claim", "cycles", "seconds", "verdict"):
        table.add_column(heading, justify="right" if heading in ("cycles", "seconds") else "left")
    for obligation, findings, seconds in found:
        unit, spent = obligation.unit, f"{seconds:.1f}"
        for finding in findings:
            expected = finding.claim in obligation.refuted and finding.verdict == REFUTED
            verdict = f"{finding.verdict}, {_EXPECTED}" if expected else finding.verdict
            table.add_row(unit, obligation.claims[finding.claim], str(finding.cycles), spent, verdict)
            unit = spent = ""
    return table


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
                "expected": _wanted(obligation, finding),
                "example": [dict(ports) for ports in finding.example],
            }
            for finding in findings
        ],
    }
