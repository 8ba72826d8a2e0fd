"""``xpulpnn verify --coverage``: what random programs have reached, as tables and a page."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import require_writable
from xpulpnn_sim.coverage.covered_trials import CoveredResult, Total
from xpulpnn_sim.coverage.crosses import crosses_of
from xpulpnn_sim.coverage.page import write_page
from xpulpnn_sim.coverage.rtl import module_table
from xpulpnn_sim.coverage.steering import aimed, steered
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.verify.spread import Runner, results, work
from xpulpnn_sim.verify.trials import Plan

SHOWN = 20
"""Holes told on the terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of coverage."""
    parser.add_argument(
        "--coverage",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="FILE.html",
        help="count crosses of instructions, hazards, waits and interrupts, and lines and bits of the Verilog; "
        "write a page with them",
    )
    parser.add_argument(
        "--aim",
        metavar="LIST",
        help="numbers of the crosses that one program aims at, as a failing program names them; with --seed",
    )
    parser.add_argument(
        "--no-steering",
        action="store_true",
        help="with --coverage: no programs that aim at what is missing",
    )


def plan_of(plan: Plan, arguments: argparse.Namespace) -> Plan:
    """The plan, aimed if the options say so."""
    if arguments.aim is None:
        return plan
    states = crosses_of(plan.config).states
    aims = tuple(int(part) for part in arguments.aim.split(",") if part.isdecimal())
    if len(aims) != arguments.aim.count(",") + 1 or any(aim >= len(states) or states[aim] for aim in aims):
        raise InputError(f"--aim must be a list of numbers of crosses to reach, not {arguments.aim}")
    return aimed(plan, aims)


def require(arguments: argparse.Namespace) -> None:
    """Raises :class:`InputError` for options that do not go with coverage."""
    if arguments.coverage is None:
        for name, given in (("aim", arguments.aim is not None), ("no-steering", arguments.no_steering)):
            if given:
                raise InputError(f"--{name} must be with --coverage, not without")
        return
    for name in ("dask", "cores", "c_programs"):
        if getattr(arguments, name):
            raise InputError(f"--coverage must be without --{name.replace('_', '-')}, not with it")
    if arguments.engine != "rtl":
        raise InputError(f"--coverage must be of --engine rtl, not {arguments.engine}")


class CoverageRun:
    """Programs with their coverage.

    Raises :class:`InputError` for a page that cannot be written, and for aims that are no crosses.
    """

    def __init__(self, arguments: argparse.Namespace, plan: Plan) -> None:
        self._arguments, self._plan = arguments, plan_of(plan, arguments)
        if arguments.coverage != Path():
            require_writable(arguments.coverage)
        self.total = Total(plan.config)

    def results(self, runner: Runner) -> Iterator[CoveredResult]:
        """Results until there are enough instructions."""
        arguments, collector = self._arguments, self.total.collector
        done = 0
        if arguments.aim is None and not arguments.no_steering:
            source = steered(runner, self._plan, arguments.seed, collector)
        else:
            programs = work(arguments.seed, [self._plan])
            source = results(runner, programs, arguments.instructions, keep_going=arguments.keep_going)
        for result in source:
            self.total.add(result)
            yield result
            done += result.verdict.instructions
            failed = result.verdict.reason is not Reason.PASS and not arguments.keep_going
            if done >= arguments.instructions or failed:
                return

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
        arguments, crosses = self._arguments, summary["coverage"]
        if arguments.coverage == Path():
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
        command = f"xpulpnn verify {self._plan.label} --seed {arguments.seed} --instructions {arguments.instructions}"
        write_page(arguments.coverage, self.total, crosses, facts, f"{command} --coverage {arguments.coverage.name}")

    def show(self, console: Console) -> None:
        """Tables for people."""
        summary = self.summary()
        table = Table(box=None, title="crosses", title_justify="left")
        for heading in ("of", "to reach", "reached", "", "out of reach"):
            table.add_column(heading, justify="left" if heading == "of" else "right")
        for name, family in (*summary["families"].items(), ("all", summary)):
            share = f"{100 * family['reached'] / max(family['crosses'], 1):.2f} %"
            table.add_row(name, str(family["crosses"]), str(family["reached"]), share, str(family["out_of_reach"]))
        console.print(table)
        verilog = Table(box=None, title="Verilog", title_justify="left")
        for heading in ("of", "counted", "used", ""):
            verilog.add_column(heading, justify="left" if heading == "of" else "right")
        names = {"lines": "lines", "branches": "branches", "changes": "changes of bits"}
        for kind, pair in summary["verilog"].items():
            share = f"{100 * pair['used'] / max(pair['counted'], 1):.2f} %"
            verilog.add_row(names[kind], str(pair["counted"]), str(pair["used"]), share)
        console.print(verilog)
        for title, names in (("not reached", summary["holes"]), ("reached, and cannot be", summary["impossible"])):
            if names:
                console.print(f"{title}:", markup=False)
                for name in names[:SHOWN]:
                    console.print(f"  {name}", markup=False, soft_wrap=True)
                if len(names) > SHOWN:
                    console.print(f"  and {len(names) - SHOWN} more: --json names them", markup=False)
