"""``xpulpnn explore``: area, timing, energy and cycles of configurations, side by side."""

from dataclasses import fields

from rich.text import Text

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.cli.common import FAILED, INTERRUPTED, OK, progress_bar, remark, tell, write_json
from xpulpnn_sim.cli.options import command
from xpulpnn_sim.exploration.exploration import Watcher, explore
from xpulpnn_sim.exploration.options import ExploreOptions, option_name
from xpulpnn_sim.exploration.report.files import FILES, REPORT
from xpulpnn_sim.exploration.task import POINTS

_FIELDS = {field.name for field in fields(ExploreOptions)}


@command("explore")
def explore_command(options: ExploreOptions) -> int:
    """
    xpulpnn explore --preset ri5cy,xpulpnn2 --kernel matmul:8  # two configurations side by side, each at its fastest
    xpulpnn explore --top dotp --sweep multipliers=shared,replicated --liberty cells.lib  # a sweep, your cells
    xpulpnn explore --top dotp --flow ecp5,ice40 --seeds 5  # on FPGAs
    xpulpnn explore --top cluster --sweep banks=16,32 --kernel conv:8:nn_4x4  # whole clusters, minutes each
    """
    with progress_bar("steps", None) as bar:
        watcher = Watcher(
            remark=remark,
            expect=lambda total: bar.reach(bar.done, total),
            step_begins=lambda label, step: bar.describe(f"{label}: {step}"),
            step_ends=lambda _label, _step: bar.advance(),
            remaining=bar.end_in,
        )
        try:
            finished = explore(options, watcher)
        except InputError as error:
            # a message about a field begins with its name
            field, must, rule = str(error).partition(" must ")
            raise InputError(f"{option_name(field)}{must}{rule}" if field in _FIELDS else str(error)) from None
    write_json(options.json, finished.record())
    tell(*(Text(part, overflow="ignore") if isinstance(part, str) else part for part in finished.printed_parts()))
    files = [*FILES[:2], f"{POINTS}/", *([] if options.no_report else [REPORT])]
    tell(f"{options.output}: {', '.join(name for name in files if (options.output / name).exists())}")
    if finished.lost:
        raise ToolError(finished.lost)
    if finished.interrupted:
        return INTERRUPTED
    return FAILED if any(result.error for result in finished.points) else OK
