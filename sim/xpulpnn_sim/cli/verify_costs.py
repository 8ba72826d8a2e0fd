"""``xpulpnn verify costs``: the cycle costs of the core, measured beside the documented ones."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cli.common import finish, output, table
from xpulpnn_sim.cli.configurations import BOTH_FORMS, Configuration
from xpulpnn_sim.cli.options import CorePreset, Json, arguments, command
from xpulpnn_sim.verification.costs.cost_rows import cost_rows
from xpulpnn_sim.verification.costs.measurement import Line, lines_of
from xpulpnn_sim.verification.random.designs import measured_costs

_SHOWN = 5  # Wrong rows listed of each group


@arguments
class CostOptions(Configuration, Json):
    """Options of the command."""

    preset: CorePreset = BOTH_FORMS
    """Configuration to start from, for both forms of Mac&Load."""


@command
def verify_costs_command(options: CostOptions) -> int:
    """Print the table; fails if a documented figure is not met."""
    config = options.core
    lines = lines_of(measured_costs(config, cost_rows(config)))
    console = output()
    console.print(_table(lines))
    wrong = [one for line in lines for one in line.wrong]
    for line in lines:
        for one in line.wrong[:_SHOWN]:
            console.print(
                f"{line.group}: {one.row.name} must wait {_shown(one.row.waits)}, not {_shown(one.waits)}",
                markup=False,
                soft_wrap=True,
            )
    return finish(options.json, [_record(line) for line in lines], good=not wrong)


def _shown(waits: Mapping[WaitCause, int] | None) -> str:
    return ", ".join(f"{cycles} for {cause.name.lower()}" for cause, cycles in (waits or {}).items()) or "not at all"


def _table(lines: list[Line]) -> Table:
    return table(
        ("event", "documented", "measured", "cases", "wrong"),
        ((one.group, one.documented, one.found, len(one.measured), len(one.wrong)) for one in lines),
        title="cycles; memory grants at once and answers in the next cycle",
    )


def _record(line: Line) -> dict[str, Any]:
    return {
        "event": line.group,
        "documented": line.documented,
        "measured": line.found,
        "cases": [
            {
                "name": one.row.name,
                "documented": one.row.documented,
                "measured": one.cycles,
                "extra": one.row.is_extra,
                "waits": {cause.name.lower(): cycles for cause, cycles in one.waits.items()},
            }
            for one in line.measured
        ],
        "wrong": len(line.wrong),
    }
