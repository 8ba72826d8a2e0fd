"""``xpulpnn doctor``: which tools are there, and what the cache holds."""

import argparse

from rich.table import Table

from xpulpnn_sim.commands.common import FAILED, OK, add_json, output, require_writable, write_json
from xpulpnn_sim.harness.tools import FoundTool, survey
from xpulpnn_sim.user_cache import CACHE_VARIABLE, DEFAULT, cache_place, cache_size, clean_cache

_MB = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("--clean-cache", action="store_true", help="empty the cache; models and results are made anew")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; fails if a tool that co-simulation needs is missing."""
    require_writable(arguments.json)
    if arguments.clean_cache:
        clean_cache()
    findings = survey()
    table = Table(box=None)
    for heading in ("tool", "for", "version", "where"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(finding.tool.name, finding.tool.purpose, finding.version or "-", _place(finding))
    console = output()
    console.print(table)
    (place, said_by), (files, size) = cache_place(), cache_size()
    told = f"set by {said_by}" if said_by != DEFAULT else f"by default; {CACHE_VARIABLE} sets another"
    console.print(
        f"cache: {place} ({told}), {files} files, {size / _MB:.1f} MB; --clean-cache empties it",
        markup=False,
        soft_wrap=True,
    )
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
        ]
        + [
            {
                "tool": "cache",
                "needed": False,
                "version": None,
                "path": str(place),
                "install": None,
                "files": files,
                "bytes": size,
            }
        ],
    )
    return FAILED if any(finding.missing and finding.tool.needed for finding in findings) else OK


def _place(finding: FoundTool) -> str:
    if not finding.missing:
        return finding.place
    return f"{'missing' if finding.tool.needed else 'missing, optional'}: {finding.tool.install}"
