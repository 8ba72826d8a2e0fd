"""``xpulpnn verify --litmus``: litmus tests on all cores of a cluster."""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from xpulpnn_sim.commands.common import FAILED, OK, output, progress_bar, write_json
from xpulpnn_sim.multihart.cluster_trials import ClusterPlan
from xpulpnn_sim.multihart.litmus import TESTS, Histogram, Outcome
from xpulpnn_sim.multihart.litmus_run import run_litmus

ROUNDS = 500


def run(arguments: argparse.Namespace, plans: Sequence[ClusterPlan]) -> int:
    """Run every litmus test on every configuration; fails if one finds what must not be, or a check a difference."""
    counts = {test.name: Counter[Outcome]() for test in TESTS}
    reports: list[str] = []
    with progress_bar("litmus tests", len(TESTS) * len(plans)) as (progress, task):
        for number, plan in enumerate(plans):
            for test in TESTS:
                seed = arguments.seed + number
                machine = plan.machine(seed)
                histogram, result = run_litmus(test, plan.config, machine, arguments.litmus, seed=seed)
                if result.mismatches or not result.exit.ok:
                    again = f"xpulpnn verify {plan.label} --seed {seed} --litmus {arguments.litmus}"
                    reports.append(f"{test.name} fails: {result.difference or result.exit.text}\nagain: {again}")
                counts[test.name].update(histogram.counts)
                progress.advance(task)
    return _tell(arguments, plans, counts, reports)


def _tell(
    arguments: argparse.Namespace, plans: Sequence[ClusterPlan], counts: dict[str, Counter[Outcome]], reports: list[str]
) -> int:
    """Print and write what was found."""
    console = output()
    table = Table(box=None, title=f"litmus tests, {arguments.litmus * len(plans)} rounds", title_justify="left")
    for heading in ("test", "", "found", "rounds", ""):
        table.add_column(heading, justify="right" if heading == "rounds" else "left")
    records: list[dict[str, Any]] = []
    for test in TESTS:
        histogram = Histogram(test=test, counts=counts[test.name])
        forbidden = histogram.forbidden
        for line, (outcome, count) in enumerate(sorted(histogram.counts.items())):
            head = (test.name, test.what) if line == 0 else ("", "")
            table.add_row(*head, test.shown(outcome), str(count), "FORBIDDEN" if outcome in forbidden else "")
        records.append(
            {
                "test": test.name,
                "outcomes": {test.shown(outcome): count for outcome, count in sorted(histogram.counts.items())},
                "forbidden": sum(forbidden.values()),
                "allowed": len(test.allowed()),
                "unseen": sorted(test.shown(outcome) for outcome in histogram.unseen),
            }
        )
    for report in reports:
        console.print(report, markup=False, soft_wrap=True)
    console.print(table)
    total = sum(record["forbidden"] for record in records)
    unseen = sum(len(record["unseen"]) for record in records)
    console.print(f"forbidden: {total}; allowed and not seen: {unseen} of {sum(one['allowed'] for one in records)}")
    write_json(
        arguments.json,
        {
            "rounds": arguments.litmus * len(plans),
            "configurations": [plan.label for plan in plans],
            "forbidden": total,
            "failures": reports,
            "tests": records,
        },
    )
    return FAILED if total or reports else OK
