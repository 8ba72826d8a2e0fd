"""Tables for terminals of any width."""

from collections.abc import Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text

_VERDICTS = ("errors", "mismatches", "result", "verdict")  # columns that are never left out


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
