"""JSON results, tables, messages and progress bars for all commands."""

import fnmatch
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, TextIO, TypeVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column, Table
from rich.text import Text

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.files import STANDARD_OUTPUT, write_text
from xpulpnn_sim.tools.processes import single_interrupt

OK = 0
FAILED = 1  # exit code of a failed check
INTERRUPTED = 130  # exit code after an interrupt
TYPED: ContextVar[tuple[str, ...]] = ContextVar("TYPED", default=())
"""Words of the command line as typed."""
RESULTS_ON_OUTPUT: ContextVar[bool] = ContextVar("RESULTS_ON_OUTPUT", default=False)
"""True while standard output is reserved for JSON."""

Item = TypeVar("Item")
SCHEMA = 1  # version of the JSON format


def write_json(path: Path | None, result: Any) -> None:
    if path is None:
        return
    from importlib.metadata import version

    document = {
        "schema": SCHEMA,
        "command": ["xpulpnn", *TYPED.get()],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": version("xpulpnn"),
        "results": result if isinstance(result, list) else [result],
    }
    text = json.dumps(document, indent=2, default=str) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write_text(path, text)


@dataclass
class Stop:
    interrupted: bool = False


@contextmanager
def interruptible() -> Generator[Stop]:
    """Run a block until it ends or the user interrupts it; ``interrupted`` of the yielded object tells which."""
    stop = Stop()
    try:
        with single_interrupt():
            yield stop
    except KeyboardInterrupt:
        stop.interrupted = True


def incomplete(done: str) -> int:
    """Report that a command was interrupted and continues if repeated; return the exit code."""
    tell(f"INCOMPLETE: interrupted after {done}; the same command goes on from there")
    return INTERRUPTED


def finish(path: Path | None, result: Any, *, good: bool = True, stop: Stop | None = None, done: str = "") -> int:
    """Write a result if ``path`` is given, and return the exit code; after an interrupt, report what is ``done``."""
    write_json(path, result)
    if stop is not None and stop.interrupted:
        return incomplete(done)
    return OK if good else FAILED


def pick(thing: object, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def matching(patterns: Iterable[str], known: Sequence[Item], must: str, name: str = "name") -> list[Item]:
    names, taken = [getattr(item, name) for item in known], set[str]()
    for pattern in patterns:
        matches = fnmatch.filter(names, pattern)
        if not matches:
            raise InputError(f"{must}, not {pattern}")
        taken.update(matches)
    return [item for item in known if getattr(item, name) in taken]


_PLAIN_WIDTH = 200  # columns of output to files and pipes, unless COLUMNS says more or less
_QUIET_S = 1.0  # seconds without output before a bar is drawn


@dataclass(slots=True)
class _Terminal:
    """State of the terminal, so that a progress bar is drawn only between complete lines of output."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    bar: Progress | None = None
    written: float = 0.0  # time of the last output
    open_line: TextIO | None = None  # stream whose last line is incomplete

    @contextmanager
    def writing(self, stream: TextIO, *, goes_on: bool = False) -> Generator[None]:
        """Hide the progress bar; begin a new line unless the output ``goes_on`` in the current line."""
        with self.lock:
            if self.bar is not None:
                self.bar.stop()
            if self.open_line is not None and stream.isatty() and not goes_on:
                print(file=self.open_line, flush=True)
                self.open_line = None
            yield
            self.written = monotonic()

    def draw(self, progress: Progress, done: threading.Event) -> None:
        while not done.wait(_QUIET_S / 10):
            with self.lock:
                if self.open_line is None and monotonic() - self.written > _QUIET_S:
                    self.bar = progress
                    progress.start()


_TERMINAL = _Terminal()


def _write(stream: TextIO, parts: Iterable[object]) -> None:
    columns = os.environ.get("COLUMNS", "")
    chosen = int(columns) if columns.isdecimal() else 0
    width = None if stream.isatty() else chosen or _PLAIN_WIDTH
    console = Console(file=stream, highlight=False, emoji=False, width=width)
    with _TERMINAL.writing(stream):
        for part in parts:
            is_line = not hasattr(part, "__rich_console__") or (isinstance(part, Text) and width == _PLAIN_WIDTH)
            console.print(part, markup=False, soft_wrap=is_line)


def tell(*parts: object) -> None:
    """Print lines and tables, to stderr if JSON goes to stdout; on a terminal, tables are fitted to its width."""
    _write(sys.stderr if RESULTS_ON_OUTPUT.get() else sys.stdout, parts)


def remark(*parts: object) -> None:
    sys.stdout.flush()
    _write(sys.stderr, parts)


def pass_on(data: bytes, *, error: bool) -> None:
    stream = sys.stderr if error or RESULTS_ON_OUTPUT.get() else sys.stdout
    with _TERMINAL.writing(stream, goes_on=True):
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
        if data and stream.isatty():
            _TERMINAL.open_line = None if data.endswith(b"\n") else stream


_NUMBER = re.compile(r"0x[0-9a-f]+|[-+]?[0-9][0-9.,]*[%x]?( of [0-9]+)?|-|")  # right-aligned cells
_VERDICTS = ("errors", "mismatches", "result", "verdict")  # columns that are never left out
_WHOLE = 20  # width from which on a column of text may fold


class FittedTable(Table):
    """A table that leaves out columns where the terminal is narrow: those with one text in all rows, those of
    ``least`` in this order, then from the right, but neither the first nor those of verdicts. A line names them, others
    explain the columns that are shown."""

    least: Sequence[str] = ()
    explained: Mapping[str, str] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every, left_out = self.columns, list[str]()
        same = {str(column.header): str(texts.pop()) for column in every if len(texts := {*column.cells}) == 1}
        names = [str(column.header) for column in every]
        spare = [*(same if self.row_count > 1 else ()), *self.least, *reversed(names)]
        order = [name for name in dict.fromkeys(spare) if name in names[1:] and name not in _VERDICTS]
        shown = list(every)
        while order and sum(map(_least_width, shown)) > options.max_width:
            left_out.append(order.pop(0))
            shown = [column for column in shown if column.header != left_out[-1]]
        self.columns = shown
        yield from super().__rich_console__(console, options)
        self.columns = every
        for name, text in self.explained.items():
            if name in [column.header for column in shown]:
                yield Text(f"{name}: {text}")
        if left_out:
            yield Text(f"left out in {options.max_width} columns: {', '.join(left_out)}")


def _least_width(column: Column) -> int:
    texts = [str(text) for text in (column.header, *column.cells)]
    return max(len(part) for text in texts for part in ([text] if column.no_wrap else text.split() or [""])) + 2


def table(
    headings: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    title: str = "",
    least: Sequence[str] = (),
    explained: Mapping[str, str] | None = None,
) -> Table:
    """Return a table whose number columns are right-aligned, except for the first column; ``least`` names the columns
    that narrow terminals can do without, the least important first."""
    cells = [[str(cell) for cell in row] for row in rows]
    shown = FittedTable(box=None, title=title or None, title_justify="left")
    shown.least, shown.explained = least, explained or {}
    for number, heading in enumerate(headings):
        column = [row[number] for row in cells if number < len(row)]
        is_left = not number or 2 * sum(_NUMBER.fullmatch(cell) is not None for cell in column) < len(column)
        whole = not is_left or max(map(len, [heading, *column])) <= _WHOLE
        shown.add_column(heading.strip(), justify="left" if is_left else "right", no_wrap=whole, overflow="fold")
    for row in cells:
        shown.add_row(*row)
    return shown


Columns = Mapping[str, str | Callable[[Any], object]]
"""Columns of a table by heading: a format string for records, such as ``{[cycles]}``, or a function of a record."""


def plain(*names: str) -> dict[str, str]:
    """Return columns whose heading is the name of a field of the records."""
    return {name: f"{{[{name}]}}" for name in names}


def record_table(columns: Columns, records: Iterable[object], **how: Any) -> Table:
    return table(columns, (cells_of(columns, record) for record in records), **how)


def cells_of(columns: Columns, record: object) -> list[object]:
    return [cell.format(record) if isinstance(cell, str) else cell(record) for cell in columns.values()]


def pairs(figures: Mapping[str, object]) -> Table:
    shown = Table(box=None, show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column()
    for name, figure in figures.items():
        shown.add_row(name, str(figure))
    return shown


_FIRST_LINE_S = 10.0  # seconds to the first progress line, and minimum interval
_LINES = 20  # approximate maximum of progress lines; the interval grows
_LONG_S = 10.0  # seconds after which a step shows its duration


@dataclass(frozen=True, slots=True)
class Bar:
    progress: Progress
    task: TaskID

    def each(self, items: Iterable[Item], name: Callable[[Item], str] | None = None) -> Iterator[Item]:
        """Yield the items, and advance the bar after each; ``name`` returns the description of an item."""
        for item in items:
            if name is not None:
                self.describe(name(item))
            yield item
            self.advance()

    def describe(self, text: str) -> None:
        if text != self.progress.tasks[0].description:
            self.progress.update(self.task, description=text, since=self.progress.get_time())

    def advance(self, steps: int = 1) -> None:
        self.progress.advance(self.task, steps)

    def reach(self, done: int, total: int | None = None) -> None:
        self.progress.update(self.task, completed=done, total=total)

    def end_in(self, seconds: float) -> None:
        """Show ``seconds`` as the remaining time, instead of an estimate from finished steps."""
        self.progress.update(self.task, end=self.progress.get_time() + seconds)

    def restart(self, total: int) -> None:
        self.progress.reset(self.task, total=total)


def quotient(dividend: float | None, divisor: float) -> str:
    return f"{dividend / divisor:.2f}" if dividend is not None and divisor else "-"


def run_results(
    description: str, results: Iterable[Any], count: int, name: Callable[[dict[str, Any]], str]
) -> list[Any]:
    collected: list[Any] = []
    with progress_bar(f"{description}: preparing the first", count) as bar:
        for result in bar.each(results):
            bar.describe(description)
            collected.append(result)
            for report in result.reports:
                tell(name(result.record), report, "")
    return collected


@contextmanager
def progress_bar(description: str, total: int | None) -> Generator[Bar]:
    """Show a progress bar on stderr; without a terminal, print a line from time to time."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _TimeColumn())
    progress = Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        speed_estimate_period=float("inf"),
    )
    done = threading.Event()
    drawn = sys.stderr.isatty() and console.is_interactive
    _TERMINAL.written = monotonic()
    shows = threading.Thread(target=_TERMINAL.draw if drawn else _tell, args=(progress, done), daemon=True)
    shows.start()
    try:
        yield Bar(progress, progress.add_task(description, total=total, since=progress.get_time()))
    finally:
        done.set()
        shows.join()
        if drawn:
            progress.stop()
            _TERMINAL.bar = None


def _tell(progress: Progress, done: threading.Event) -> None:
    started = monotonic()
    while not done.wait(max(_FIRST_LINE_S, (monotonic() - started) / _LINES)):
        remark(_line(progress))


def _line(progress: Progress) -> str:
    task = progress.tasks[0]
    count = f"{task.completed:.0f}" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}"
    shown = count if task.completed or task.total is not None else ""
    time = _time(task)
    time_text = f"({time})" if time else ""
    return " ".join(filter(None, (f"{datetime.now():%H:%M:%S}", shown, task.description, time_text)))


def _time(task: Task) -> str:
    now = task.get_time()
    left = task.fields["end"] - now if "end" in task.fields else task.completed and task.time_remaining
    if left and left > 0:
        return f"{timedelta(seconds=round(left))} left"
    since = now - task.fields.get("since", now)
    return f"{timedelta(seconds=round(since))} so far" if since >= _LONG_S else ""


class _TimeColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_time(task))
