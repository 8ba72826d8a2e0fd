"""``xpulpnn doctor``: which tools are there, and what the cache holds."""

from typing import Any

from xpulpnn.user_cache import CACHE_VARIABLE, DEFAULT, cache_place, cache_size, clean_cache
from xpulpnn_sim.cli.command import arguments, command
from xpulpnn_sim.cli.common import FAILED, OK, output, table, tell, write_json
from xpulpnn_sim.cli.doctor import Tool, survey
from xpulpnn_sim.cli.option_groups import Json

_MB = 1e6


@arguments
class DoctorOptions(Json):
    """Options of the command."""

    clean_cache: bool = False
    """Empty the cache; models and results are made anew."""


@command
def run(options: DoctorOptions) -> int:
    """Print the table; fails if a tool that co-simulation needs is missing."""
    if options.clean_cache:
        clean_cache()
    findings = survey()
    rows = ((tool.name, tool.purpose, version or "-", place or _missing(tool)) for tool, version, place in findings)
    shown = table(("tool", "for", "version", "where"), rows)
    for column in shown.columns:
        column.overflow, column.no_wrap = "fold", False
    output().print(shown)
    (place, said_by), (files, size) = cache_place(), cache_size()
    told = f"set by {said_by}" if said_by != DEFAULT else f"by default; {CACHE_VARIABLE} sets another"
    tell(f"cache: {place} ({told}), {files} files, {size / _MB:.1f} MB; --clean-cache empties it")
    cache = {"tool": "cache", "needed": False, "version": None, "path": str(place), "install": None}
    records: list[dict[str, Any]] = [
        {
            "tool": tool.name,
            "needed": tool.needed,
            "version": version or None,
            "path": path or None,
            "install": tool.install,
        }
        for tool, version, path in findings
    ]
    cache = {"tool": "cache", "needed": False, "version": None, "path": str(place), "install": None}
    write_json(options.json, [*records, cache | {"files": files, "bytes": size}])
    return FAILED if any(tool.needed and not path for tool, _, path in findings) else OK


def _missing(tool: Tool) -> str:
    return f"{'missing' if tool.needed else 'missing, optional'}: {tool.install}"
