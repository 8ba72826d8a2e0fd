"""``xpulpnn verify coverage``: what random programs have reached, as tables and a page."""

from collections.abc import Iterator
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import output, table, tell, write_json
from xpulpnn_sim.cli.options import Numbers, Report, arguments, command
from xpulpnn_sim.cli.verify_random import StressedPrograms, gather, report_trials
from xpulpnn_sim.verification.coverage import covered_trials as covered
from xpulpnn_sim.verification.coverage.covered_trials import CoveredResult, Total
from xpulpnn_sim.verification.coverage.crosses import crosses_of
from xpulpnn_sim.verification.coverage.page import write_page
from xpulpnn_sim.verification.random.trials import Plan, Runner, work

SHOWN = 20  # Holes told on the terminal


@arguments
class CoverageOptions(StressedPrograms, Report):
    """Options of the command."""

    aim: Numbers = ()
    """Numbers of the crosses that one program aims at, as a failing program names them; with --seed."""
    no_steering: bool = False
    """No programs that aim at what is missing."""

    def plan(self) -> Plan:
        """The core, aimed if the options say so."""
        plans = self.plans()
        if len(plans) > 1:
            raise InputError(f"--preset must be one for coverage, not {len(plans)}")
        (plan,) = plans
        if not self.aim:
            return plan
        states = crosses_of(plan.config).states
        if any(aim >= len(states) or states[aim] for aim in self.aim):
            raise InputError(f"--aim must be numbers of crosses to reach, not {'+'.join(map(str, self.aim))}")
        return covered.aimed(plan, self.aim)


@command
def verify_coverage_command(options: CoverageOptions) -> int:
    """Run programs until there are enough instructions, and tell what they reach; fails if one of them does."""
    plan = options.plan()
    total = Total(plan.config)

    def programs(pool: Runner) -> Iterator[CoveredResult]:
        """Results without end, which the next programs may depend on."""
        if options.aim or options.no_steering:
            results = pool.each(work(options.seed, [plan]))
        else:
            results = covered.steered(pool, plan, options.seed, total.collector)
        for result in results:
            total.add(result)
            yield result

    outcome = gather(options, [plan], covered.run_covered, programs)
    summary = report_trials(options, [plan], outcome, "rtl")
    reached = _reached(total)
    _show(reached)
    summary |= {"coverage": reached}
    if options.report is not None:
        share = 100 * reached["reached"] / max(reached["crosses"], 1)
        facts = {
            "Core": plan.label.removeprefix("--preset "),
            **{name: f"{summary[name.lower()]:,}" for name in ("Programs", "Instructions", "Cycles")},
            "Interrupts": f"{sum(summary['interrupts'].values()):,}",
            "Differences": str(summary["differences"]),
            "Crosses reached": f"{reached['reached']:,} of {reached['crosses']:,}, {share:.2f} %",
        }
        command = f"xpulpnn verify coverage {plan.label} --seed {options.seed} --instructions {options.instructions}"
        write_page(options.report, total, reached, facts, command)
    write_json(options.json, summary)
    return outcome.code(wrong=bool(reached["impossible"]))


def _reached(total: Total) -> dict[str, Any]:
    """All of it for ``--json``."""
    collector, families = total.collector, total.families()
    modules = covered.module_table(total.points, total.used, total.components)
    verilog: dict[str, dict[str, int]] = {}
    for kind in ("lines", "branches", "changes"):
        pairs = [getattr(module, kind) for module in modules]
        verilog[kind] = {"used": sum(used for used, _ in pairs), "counted": sum(counted for _, counted in pairs)}
    return {
        "families": families,
        **{name: sum(one[name] for one in families.values()) for name in ("crosses", "reached", "out_of_reach")},
        "holes": [collector.crosses.label(number) for number in collector.holes.tolist()],
        "impossible": [collector.crosses.label(number) for number in collector.impossible.tolist()],
        "verilog": verilog,
    }


def _show(reached: dict[str, Any]) -> None:
    """Tables for people."""
    rows = (
        (name, one["crosses"], one["reached"], _share(one["reached"], one["crosses"]), one["out_of_reach"])
        for name, one in (*reached["families"].items(), ("all", reached))
    )
    output().print(table(("of", "to reach", "reached", "", "out of reach"), rows, title="crosses"))
    kinds = {"lines": "lines", "branches": "branches", "changes": "changes of bits"}
    rows = (
        (kinds[kind], pair["counted"], pair["used"], _share(pair["used"], pair["counted"]))
        for kind, pair in reached["verilog"].items()
    )
    output().print(table(("of", "counted", "used", ""), rows, title="Verilog"))
    for title, names in (("not reached", reached["holes"]), ("reached, and cannot be", reached["impossible"])):
        if names:
            tell(f"{title}:", *(f"  {name}" for name in names[:SHOWN]))
            if len(names) > SHOWN:
                tell(f"  and {len(names) - SHOWN} more: --json names them")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"
