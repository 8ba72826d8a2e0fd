"""What the subcommands share: options, writing of results, progress bars."""

import argparse
import json
import re
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, CoreConfig, preset
from xpulpnn.errors import InputError
from xpulpnn.settings import apply_settings
from xpulpnn_sim.files import require_folder as require_folder
from xpulpnn_sim.files import write_text
from xpulpnn_sim.lists import comma_list as comma_list

OK = 0
FAILED = 1
"""Exit code when a check failed."""
INTERRUPTED = 130
"""Exit code of a run that was interrupted."""


_BELOW_ZERO = re.compile(r"-[\d.]+[:/,].*")
"""Values such as -1:1, which argparse takes for options where a plain number would be a value."""


def _joined(words: Iterable[str]) -> Iterator[str]:
    """Options with such a value, as one word."""
    option: str | None = None
    for word in words:
        if option is not None and _BELOW_ZERO.fullmatch(word):
            yield f"{option}={word}"
            option = None
            continue
        if option is not None:
            yield option
        option = word if word.startswith("--") else None
        if option is None:
            yield word
    if option is not None:
        yield option


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are the project's own, reported like all others."""

    usual_action: str | None = None
    """Of the actions that a subcommand has, the one that is meant where the first word is none of them."""

    def parse_known_args(self, args: Any = None, *rest: Any, **named: Any) -> Any:
        """Put the usual action first where none is."""
        words: list[str] = list(sys.argv[1:] if args is None else args)
        if self.usual_action is not None and words and words[0] not in (*self._action_names(), "-h", "--help"):
            words.insert(0, self.usual_action)
        return super().parse_known_args(list(_joined(words)), *rest, **named)

    def _action_names(self) -> list[str]:
        named = (action.choices or () for action in self._actions if action.nargs == argparse.PARSER)
        return [str(name) for choices in named for name in choices]

    def error(self, message: str) -> NoReturn:
        """Raise :class:`InputError`."""
        raise InputError(f"{self.prog}: {message}")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json FILE``."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")


DEFAULT_PRESET = "xpulpnn"


BOTH_FORMS = "for both forms of Mac&Load"
"""Why some subcommands have another default preset."""


def add_configuration(
    parser: argparse.ArgumentParser, default: str = DEFAULT_PRESET, why: str = "", *, clusters: bool = False
) -> None:
    """Add ``--preset``, with the reason for another default than that of all, and ``--set``; also for ``clusters``."""
    shown = f"{default}, {why}" if why else default
    of_clusters = f"; of clusters: {', '.join(CLUSTER_PRESETS)}" if clusters else ""
    parser.add_argument(
        "--preset",
        default=default,
        metavar="NAME",
        help=f"configuration: {', '.join(PRESETS)} (default {shown}){of_clusters}",
    )
    add_settings(parser, "dotp.multipliers=shared or widths=16,8")


def add_settings(parser: argparse.ArgumentParser, examples: str) -> None:
    """Add ``--set``, of which the help text shows ``examples``."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help=f"change one parameter of the configuration, such as {examples}; repeatable",
    )


def configuration(arguments: argparse.Namespace) -> CoreConfig:
    """The configuration that ``--preset`` and ``--set`` describe."""
    return apply_settings(preset(arguments.preset), assignments(arguments))


def assignments(arguments: argparse.Namespace) -> dict[str, str]:
    """The keys and values of ``--set``."""
    settings: dict[str, str] = {}
    for text in arguments.settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"--set must be KEY=VALUE, not {text}")
        settings[key] = value
    return settings


def core_title(arguments: argparse.Namespace) -> str:
    """What the configuration of :func:`configuration` is called: the preset and its settings."""
    return " ".join([arguments.preset, *arguments.settings])


def add_exact(parser: argparse.ArgumentParser) -> None:
    """Add ``--exact``."""
    parser.add_argument(
        "--exact",
        action="store_true",
        help="simulate the very adders that generate emits (slower); otherwise sums are left to the simulator",
    )


def simulated_configuration(arguments: argparse.Namespace) -> CoreConfig:
    """The configuration to simulate: with ``--exact`` the one described, else with sums left to the simulator."""
    config = configuration(arguments)
    if arguments.exact:
        return config
    # the models need packages that not every subcommand does
    from xpulpnn_sim.harness.models import simulated

    return simulated(config)


def require_writable(path: Path | None, option: str = "--json") -> None:
    """Raise :class:`InputError` unless the file ``path`` can be created, before any work is spent on its content."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} must be a file, not the folder {path}")
    require_folder(path.parent, option)


def write_json(path: Path | None, result: Any) -> None:
    """Write ``result`` if a file was asked for."""
    if path is not None:
        write_text(path, json.dumps(result, indent=2) + "\n")


_PLAIN_WIDTH = 200
"""Columns of output that does not go to a terminal."""


def output() -> Console:
    """Where results are printed; wide enough for every table unless a terminal says otherwise."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)


def remark(text: str) -> None:
    """Tell something on the error output that is no result."""
    print(text, file=sys.stderr, flush=True)


_FIRST_LINE_S = 10.0
"""Seconds before the first line of progress, and the shortest time between two."""
_LINES = 20
"""Lines of progress in a run of any length, about, after which they come less often."""


@contextmanager
def progress_bar(description: str, total: int | None) -> Generator[tuple[Progress, TaskID]]:
    """A progress bar on the error output; where that is no terminal, a line from time to time."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    plain = not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=plain) as progress:
        task = progress.add_task(description, total=total)
        if not plain:
            yield progress, task
            return
        done = threading.Event()
        lines = threading.Thread(target=_tell, args=(progress, done), daemon=True)
        lines.start()
        try:
            yield progress, task
        finally:
            done.set()
            lines.join()


def _tell(progress: Progress, done: threading.Event) -> None:
    """Print how far the work is, until it is done."""
    started = monotonic()
    while not done.wait(max(_FIRST_LINE_S, (monotonic() - started) / _LINES)):
        remark(_line(progress))


def _line(progress: Progress) -> str:
    task = progress.tasks[0]
    count = f"{task.completed:.0f}" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}"
    shown = count if task.completed or task.total is not None else ""
    left = f"({timedelta(seconds=round(task.time_remaining))} left)" if task.completed and task.time_remaining else ""
    return " ".join(filter(None, (f"{datetime.now():%H:%M:%S}", shown, task.description, left)))
