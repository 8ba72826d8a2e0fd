"""``xpulpnn verify litmus``: litmus tests on all cores of a cluster."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from xpulpnn_sim.cli.common import FAILED, OK, output, progress_bar, table, tell, write_json
from xpulpnn_sim.cli.options import arguments, command, rule
from xpulpnn_sim.cli.verify_cluster import ClusterPrograms, compile_models
from xpulpnn_sim.verification.clusters.cluster_trials import ClusterPlan
from xpulpnn_sim.verification.clusters.litmus import MOST_ROUNDS, TESTS, Outcome, run_litmus


@arguments
class LitmusOptions(ClusterPrograms):
    """Options of the command."""

    rounds: Annotated[int, rule(f"1 to {MOST_ROUNDS} rounds", lambda value: 1 <= value <= MOST_ROUNDS, "N")] = 500
    """Rounds of each test."""


@command
def verify_litmus_command(options: LitmusOptions) -> int:
    """Run every litmus test on every configuration; fails if one finds what must not be, or a check a difference."""
    plans = options.plans()
    compile_models(plans)
    counts = {test.name: Counter[Outcome]() for test in TESTS}
    reports: list[str] = []
    with progress_bar("litmus tests", len(TESTS) * len(plans)) as bar:
        for number, plan in enumerate(plans):
            for test in TESTS:
                seed = options.seed + number
                machine = plan.machine(seed)
                found, result = run_litmus(test, plan.config, machine, options.rounds, seed=seed)
                if result.mismatches or not result.exit.ok:
                    again = f"xpulpnn verify litmus {plan.label} --seed {seed} --rounds {options.rounds}"
                    reports.append(f"{test.name} fails: {result.difference or result.exit.text}\nagain: {again}")
                counts[test.name].update(found)
                bar.advance()
    return _tell(options, plans, counts, reports)


def _tell(
    options: LitmusOptions, plans: Sequence[ClusterPlan], counts: dict[str, Counter[Outcome]], reports: list[str]
) -> int:
    rows: list[tuple[object, ...]] = []
    records: list[dict[str, Any]] = []
    for test in TESTS:
        seen, allowed = sorted(counts[test.name].items()), test.allowed()
        forbidden = test.forbidden(counts[test.name])
        for line, (outcome, count) in enumerate(seen):
            head = (test.name, test.what) if line == 0 else ("", "")
            rows.append((*head, test.shown(outcome), count, "FORBIDDEN" if outcome in forbidden else ""))
        records.append(
            {
                "test": test.name,
                "outcomes": {test.shown(outcome): count for outcome, count in seen},
                "forbidden": sum(forbidden.values()),
                "allowed": len(allowed),
                "unseen": sorted(test.shown(outcome) for outcome in allowed - counts[test.name].keys()),
            }
        )
    for report in reports:
        tell(report)
    title = f"litmus tests, {options.rounds * len(plans)} rounds"
    output().print(table(("test", "what", "found", "rounds", ""), rows, title=title))
    total = sum(record["forbidden"] for record in records)
    unseen = sum(len(record["unseen"]) for record in records)
    tell(f"forbidden: {total}; allowed and not seen: {unseen} of {sum(one['allowed'] for one in records)}")
    write_json(
        options.json,
        {
            "rounds": options.rounds * len(plans),
            "configurations": [plan.label for plan in plans],
            "forbidden": total,
            "failures": reports,
            "tests": records,
        },
    )
    return FAILED if total or reports else OK
