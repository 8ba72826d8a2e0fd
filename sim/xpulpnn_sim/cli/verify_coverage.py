"""``xpulpnn verify coverage``: what random programs have reached, as tables and a page."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.command import arguments, command
from xpulpnn_sim.cli.common import output, table, tell, write_json
from xpulpnn_sim.cli.option_groups import Report
from xpulpnn_sim.cli.values import Numbers
from xpulpnn_sim.cli.verify_random import StressedPrograms, gather, report
from xpulpnn_sim.verification.coverage.covered_trials import (
    CoveredResult,
    Total,
    aimed,
    module_table,
    run_covered,
    steered,
)
from xpulpnn_sim.verification.coverage.crosses import crosses_of
from xpulpnn_sim.verification.coverage.page import write_page
from xpulpnn_sim.verification.random.trials import Plan, Runner, work

SHOWN = 20  # Holes told on the terminal


@arguments
class CoverageOptions(StressedPrograms, Report):
    """Options of the command."""

    aim: Numbers = ()  # numbers of the crosses that one program aims at, as a failing program names them; with --seed
    no_steering: bool = False  # no programs that aim at what is missing

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
        return aimed(plan, self.aim)


@command
def run(options: CoverageOptions) -> int:
    """Run programs until there are enough instructions, and tell what they reach; fails if one of them does."""
    plan = options.plan()
    covered = CoverageRun(options, plan)
    outcome = gather(options, [plan], run_covered, covered.results)
    summary = report(options, [plan], outcome, "rtl")
    covered.show(output())
    reached = covered.summary()
    summary |= {"coverage": reached}
    covered.write(summary)
    write_json(options.json, summary)
    return outcome.code(wrong=bool(reached["impossible"]))


class CoverageRun:
    """Programs with their coverage."""

    def __init__(self, options: CoverageOptions, plan: Plan) -> None:
        self._options, self._plan = options, plan
        self.total = Total(plan.config)

    def results(self, processes: Runner) -> Iterator[CoveredResult]:
        """Results without end, which the next programs may depend on."""
        options = self._options
        if options.aim or options.no_steering:
            source = processes.each(work(options.seed, [self._plan]))
        else:
            source = steered(processes, self._plan, options.seed, self.total.collector)
        for result in source:
            self.total.add(result)
            yield result

    def summary(self) -> dict[str, Any]:
        """All of it for ``--json``."""
        collector = self.total.collector
        crosses = collector.crosses
        families = {
            name: {"crosses": wanted, "reached": met, "out_of_reach": out}
            for name, (wanted, met, out) in self.total.by_family().items()
        }
        modules = module_table(self.total.points, self.total.used, self.total.components)
        return {
            "families": families,
            "crosses": sum(family["crosses"] for family in families.values()),
            "reached": sum(family["reached"] for family in families.values()),
            "out_of_reach": sum(family["out_of_reach"] for family in families.values()),
            "holes": [crosses.label(number) for number in collector.holes.tolist()],
            "impossible": [crosses.label(number) for number in collector.impossible.tolist()],
            "verilog": {
                kind: {"used": sum(pair[0] for pair in pairs), "counted": sum(pair[1] for pair in pairs)}
                for kind, pairs in (
                    ("lines", [module.lines for module in modules]),
                    ("branches", [module.branches for module in modules]),
                    ("changes", [module.changes for module in modules]),
                )
            },
        }

    def write(self, summary: Mapping[str, Any]) -> None:
        """Write the page, if one is wanted."""
        options, crosses = self._options, summary["coverage"]
        if options.report is None:
            return
        share = 100 * crosses["reached"] / max(crosses["crosses"], 1)
        facts = {
            "Core": self._plan.label.removeprefix("--preset "),
            "Programs": f"{summary['programs']:,}",
            "Instructions": f"{summary['instructions']:,}",
            "Cycles": f"{summary['cycles']:,}",
            "Interrupts": f"{sum(summary['interrupts'].values()):,}",
            "Differences": str(summary["differences"]),
            "Crosses reached": f"{crosses['reached']:,} of {crosses['crosses']:,}, {share:.2f} %",
        }
        command = (
            f"xpulpnn verify coverage {self._plan.label} --seed {options.seed} --instructions {options.instructions}"
        )
        write_page(options.report, self.total, crosses, facts, command)

    def show(self, console: Console) -> None:
        """Tables for people."""
        summary = self.summary()
        rows = (
            (name, one["crosses"], one["reached"], _share(one["reached"], one["crosses"]), one["out_of_reach"])
            for name, one in (*summary["families"].items(), ("all", summary))
        )
        console.print(table(("of", "to reach", "reached", "", "out of reach"), rows, title="crosses"))
        kinds = {"lines": "lines", "branches": "branches", "changes": "changes of bits"}
        rows = (
            (kinds[kind], pair["counted"], pair["used"], _share(pair["used"], pair["counted"]))
            for kind, pair in summary["verilog"].items()
        )
        console.print(table(("of", "counted", "used", ""), rows, title="Verilog"))
        for title, names in (("not reached", summary["holes"]), ("reached, and cannot be", summary["impossible"])):
            if names:
                tell(f"{title}:")
                for name in names[:SHOWN]:
                    tell(f"  {name}")
                if len(names) > SHOWN:
                    tell(f"  and {len(names) - SHOWN} more: --json names them")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"
