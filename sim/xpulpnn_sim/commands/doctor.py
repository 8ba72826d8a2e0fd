"""``xpulpnn doctor``: which tools are there."""

import argparse

from rich.table import Table

from xpulpnn_sim.commands.common import FAILED, OK, add_json, output, require_writable, write_json
from xpulpnn_sim.harness.tools import Finding, survey


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails if a tool that co-simulation needs is missing."""
    require_writable(arguments.json)
    findings = survey()
    table = Table(box=None)
    for heading in ("tool", "for", "version", "where"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(finding.tool.name, finding.tool.purpose, finding.version or "-", _place(finding))
    output().print(table)
    write_json(
        arguments.json,
        [
            {
                "tool": finding.tool.name,
                "needed": finding.tool.needed,
                "version": finding.version or None,
                "path": finding.place or None,
                "install": finding.tool.install,
            }
            for finding in findings
        ],
    )
    return FAILED if any(finding.missing and finding.tool.needed for finding in findings) else OK


def _place(finding: Finding) -> str:
    if not finding.missing:
        return finding.place
    return f"{'missing' if finding.tool.needed else 'missing, optional'}: {finding.tool.install}"
