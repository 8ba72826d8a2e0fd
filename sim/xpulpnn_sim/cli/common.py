"""JSON results, tables, messages and progress bars for all commands."""

import fnmatch
import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.tree import own_version
from xpulpnn_sim.tools.files import STANDARD_OUTPUT, write_text
from xpulpnn_sim.tools.processes import single_interrupt

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from xpulpnn_sim.tools.named_table import TerminalTable

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
    document = {
        "schema": SCHEMA,
        "command": ["xpulpnn", *TYPED.get()],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": own_version(),
        "results": result if isinstance(result, list) else [result],
    }
    text = json.dumps(document, indent=2, default=str) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write_text(path, text)


def typed_command() -> str:
    return shlex.join(["xpulpnn", *TYPED.get()])


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
    bar: "Progress | None" = None
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

    def draw(self, bar: "Bar", done: threading.Event) -> None:
        while not done.wait(_QUIET_S / 10):
            with self.lock:
                if self.open_line is None and monotonic() - self.written > _QUIET_S:
                    self.bar = self.bar or _drawing(bar)
                    self.bar.update(*self.bar.task_ids, total=bar.total, completed=bar.done)
                    self.bar.start()


_TERMINAL = _Terminal()


def _write(stream: TextIO, parts: Iterable[object]) -> None:
    with _TERMINAL.writing(stream):
        for part in parts:
            if hasattr(part, "__rich_console__"):
                _print_fitted(stream, part)
            else:
                print(str(part).expandtabs(), file=stream, flush=True)


def _print_fitted(stream: TextIO, part: object) -> None:
    from rich.console import Console
    from rich.text import Text

    columns = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() else int(columns if columns.isdecimal() else 0) or _PLAIN_WIDTH
    console = Console(file=stream, highlight=False, emoji=False, width=width)
    console.print(part, markup=False, soft_wrap=isinstance(part, Text) and width == _PLAIN_WIDTH)


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


def table(
    headings: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> "TerminalTable":
    """Return a table whose number columns are right-aligned, except for the first column."""
    from xpulpnn_sim.tools.named_table import Column, NamedTable, TerminalTable

    names, columns = [*headings], list[Column]()
    cells = [[str(cell) for cell in (*row, *[""] * len(names))][: len(names)] for row in rows]
    for number, heading in enumerate(names):
        column = [row[number] for row in cells]
        is_left = not number or 2 * sum(_NUMBER.fullmatch(cell) is not None for cell in column) < len(column)
        columns.append(Column(name=heading.strip(), digits=None if is_left else 0))
    return TerminalTable(NamedTable(title=title, columns=columns, rows=cells, notes=notes))


Columns = Mapping[str, str | Callable[[Any], object]]
"""Columns of a table by heading: a format string for records, such as ``{[cycles]}``, or a function of a record."""


def plain(*names: str) -> dict[str, str]:
    """Return columns whose heading is the name of a field of the records."""
    return {name: f"{{[{name}]}}" for name in names}


def record_table(columns: Columns, records: Iterable[object], **how: Any) -> "TerminalTable":
    return table(columns, (cells_of(columns, record) for record in records), **how)


def cells_of(columns: Columns, record: object) -> list[object]:
    return [cell.format(record) if isinstance(cell, str) else cell(record) for cell in columns.values()]


def pairs(figures: Mapping[str, object]) -> "Table":
    from rich.table import Table

    shown = Table(box=None, show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column()
    for name, figure in figures.items():
        shown.add_row(name, str(figure))
    return shown


_FIRST_LINE_S = 10.0  # seconds to the first progress line, and minimum interval
_LINES = 20  # approximate maximum of progress lines; the interval grows
_LONG_S = 10.0  # seconds after which a step shows its duration


@dataclass(slots=True)
class Bar:
    description: str
    total: int | None
    done: int = 0
    since: float = field(default_factory=monotonic)  # time at which the step began
    end: float | None = None  # time at which the work says that it ends
    reports: tuple[tuple[float, int], ...] = ()  # time and steps of the first report and of the last one

    def each(self, items: Iterable[Item], name: Callable[[Item], str] | None = None) -> Iterator[Item]:
        """Yield the items, and advance the bar after each; ``name`` returns the description of an item."""
        for item in items:
            if name is not None:
                self.describe(name(item))
            yield item
            self.advance()

    def describe(self, text: str) -> None:
        if text != self.description:
            self.description, self.since = text, monotonic()

    def advance(self, steps: int = 1) -> None:
        self.reach(self.done + steps)

    def reach(self, done: int, total: int | None = None) -> None:
        total = self.total if total is None else total
        if done < self.done or total != self.total:
            self.total, self.reports = total, ()
        if done > self.done:
            self.reports = (*self.reports[:1], (monotonic(), done))
        self.done = done

    def end_in(self, seconds: float) -> None:
        """Show ``seconds`` as the remaining time, instead of an estimate from finished steps."""
        self.end = monotonic() + seconds

    @property
    def time(self) -> str:
        left = 0.0 if self.end is None else self.end - monotonic()
        if self.end is None and self.total is not None and len(self.reports) > 1:
            (begin, first), (latest, last) = self.reports
            left = (self.total - self.done) * (latest - begin) / (last - first)
        if left >= 1:
            return f"{timedelta(seconds=round(left))} left"
        since = monotonic() - self.since
        return f"{timedelta(seconds=round(since))} so far" if since >= _LONG_S else ""


def quotient(dividend: float | None, divisor: float) -> str:
    return f"{dividend / divisor:.2f}" if dividend is not None and divisor else "-"


def run_results(
    description: str, results: Iterable[Any], count: int, name: Callable[[dict[str, Any]], str]
) -> list[Any]:
    collected: list[Any] = []
    with progress_bar(f"{description}: preparing the first", count) as bar:
        for result in bar.each(results, lambda _: description):
            collected.append(result)
            for report in result.reports:
                tell(name(result.record), report, "")
    return collected


@contextmanager
def progress_bar(description: str, total: int | None) -> Generator[Bar]:
    """Show a progress bar on stderr; without a terminal, print a line from time to time."""
    bar, done = Bar(description, total), threading.Event()
    drawn = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    _TERMINAL.written = monotonic()
    shows = threading.Thread(target=_TERMINAL.draw if drawn else _tell, args=(bar, done), daemon=True)
    shows.start()
    try:
        yield bar
    finally:
        done.set()
        shows.join()
        if _TERMINAL.bar is not None:
            _TERMINAL.bar.stop()
            _TERMINAL.bar = None


def _drawing(bar: Bar) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    text, time = (TextColumn(f"{{task.fields[bar].{name}}}") for name in ("description", "time"))
    columns, console = (text, BarColumn(), MofNCompleteColumn(), time), Console(stderr=True)
    shown = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    shown.add_task("", total=bar.total, bar=bar)
    return shown


def _tell(bar: Bar, done: threading.Event) -> None:
    started = monotonic()
    while not done.wait(max(_FIRST_LINE_S, (monotonic() - started) / _LINES)):
        remark(_line(bar))


def _line(bar: Bar) -> str:
    count = f"{bar.done}" if bar.total is None else f"{bar.done}/{bar.total}"
    time = f"({bar.time})" if bar.time else ""
    shown = count if bar.done or bar.total is not None else ""
    return " ".join(filter(None, (f"{datetime.now():%H:%M:%S}", shown, bar.description, time)))
