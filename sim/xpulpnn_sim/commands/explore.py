"""``xpulpnn explore``: area, timing, energy and cycles of configurations, side by side."""

import argparse
from dataclasses import fields
from typing import Any

from rich.progress import Progress, TaskID

from xpulpnn.errors import ToolError
from xpulpnn_sim.commands import explore_options
from xpulpnn_sim.commands.common import (
    FAILED,
    INTERRUPTED,
    OK,
    output,
    progress_bar,
    remark,
    require_writable,
    write_json,
)
from xpulpnn_sim.explorer.exploration import explore
from xpulpnn_sim.explorer.finished_run import FILES, REPORT
from xpulpnn_sim.explorer.loop import Watcher
from xpulpnn_sim.explorer.options import ExploreOptions
from xpulpnn_sim.explorer.task import POINTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """ExploreOptions of the subcommand."""
    explore_options.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run every point; fails if one does."""
    options = options_of(arguments)
    require_writable(options.json)
    with progress_bar("steps", None) as (progress, task):
        finished = explore(options, _Bar(progress, task))
    write_json(options.json, finished.record())
    console = output()
    finished.show(console)
    files = [*FILES[:2], f"{POINTS}/", *([] if options.no_report else [REPORT])]
    console.print(f"{options.output}: {', '.join(files)}", markup=False, soft_wrap=True)
    if finished.lost:
        raise ToolError(finished.lost)
    if finished.interrupted:
        return INTERRUPTED
    return FAILED if any(result.error for result in finished.points) else OK


def options_of(arguments: argparse.Namespace) -> ExploreOptions:
    """What the command line asks for."""
    given: dict[str, Any] = {item.name: getattr(arguments, item.name) for item in fields(ExploreOptions)}
    for item in fields(ExploreOptions):
        if item.default == ():
            given[item.name] = tuple(given[item.name] or ())
    return ExploreOptions(**given)


class _Bar(Watcher):
    """Shows progress on the terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def remark(self, text: str) -> None:
        """Tell it above the bar."""
        remark(text)

    def expect(self, total: int) -> None:
        """The bar's end."""
        self._progress.update(self._task, total=total)

    def done(self, label: str, step: str) -> None:
        """A step further."""
        self._progress.update(self._task, advance=1, description=f"{label}: {step}")
