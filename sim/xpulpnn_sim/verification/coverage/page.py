"""The coverage report: one HTML file without external resources."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from xpulpnn_sim.tools.named_table import Column, NamedTable, TableCell, number_columns, text_columns
from xpulpnn_sim.tools.pages import Page, hint, table
from xpulpnn_sim.verification.coverage.coverage_runs import Total, module_table, unused_bits, unused_lines
from xpulpnn_sim.verification.coverage.crosses import REACHABLE, Crosses, row_name

_MOST = 2000  # holes that the page names
_PLACES = 400  # places out of reach that the page names for each reason

_FORWARDING = (
    "Where an operand comes from, one, two and three instructions before: for each distance at once, then after a "
    "cycle without a retirement. Blue: reached; red: not reached; grey: out of reach."
)
_OUT_OF_REACH = (
    "Places that no program can reach, each with the reason. One that a program reaches all the same fails the run."
)
_VERILOG = (
    "Lines, branches and changes of bits in the emitted modules, all instances of a module together, as Verilator "
    "counts them."
)


def write_page(path: Path, total: Total, summary: Mapping[str, Any], facts: Mapping[str, str], command: str) -> None:
    crosses = total.collector.crosses
    page = Page(
        title="Coverage of random programs",
        command=command,
        writer="xpulpnn verify coverage",
        facts=list(facts.items()),
        style=Path(__file__).with_name("page.css").read_text(),
    )
    page.section("crosses", "Crosses", crosses_table(crosses, summary))
    page.section("holes", "Holes", *_holes(summary))
    page.section("timing", "Forwarding", hint(_FORWARDING), _timing(total))
    page.section("instructions", "Instructions", *_instructions(total))
    page.section("out-of-reach", "Out of reach", hint(_OUT_OF_REACH), *_out_of_reach(crosses))
    page.section("verilog", "Verilog", hint(_VERILOG), *_verilog(total))
    page.write(path)


def _out_of_reach(crosses: Crosses) -> Iterator[Markup]:
    for family in crosses.families.values():
        for number, reason in enumerate(family.reasons, 1):
            places = np.flatnonzero(family.states.ravel() == number).tolist()
            names = [family.label(place) for place in places[:_PLACES]]
            yield _details(f"{family.name}: {reason} ({len(places)})", _names(names, len(places)))


def crosses_table(crosses: Crosses, summary: Mapping[str, Any]) -> NamedTable:
    def row(name: str, meaning: str, counts: Mapping[str, int]) -> list[TableCell]:
        total, reached = counts["crosses"], counts["reached"]
        return [name, meaning, total, reached, _share(reached, total), counts["out_of_reach"]]

    rows = [row(name, crosses.families[name].meaning, family) for name, family in summary["families"].items()]
    return NamedTable(
        title="Crosses",
        columns=[
            *text_columns("of", "meaning"),
            *number_columns("to reach", "reached", digits=0),
            Column(name="share", unit="%", digits=2),
            Column(name="out of reach", digits=0),
        ],
        rows=[*rows, row("all", "", summary)],
        marked=frozenset({len(rows)}),
    )


def _holes(summary: Mapping[str, Any]) -> Iterator[Markup]:
    """Yield lists of the crosses that were not reached, and of those reached although they should be unreachable."""
    holes, impossible = summary["holes"], summary["impossible"]
    if impossible:
        yield Markup('<p class="hole">Reached, though they cannot be: {}</p>').format(len(impossible))
        yield _names(impossible, len(impossible))
    if not holes:
        yield Markup("<p>None: every cross that can be reached was reached.</p>")
        return
    note = f", the first {_MOST} of them here" if len(holes) > _MOST else ""
    yield Markup("<p>Not reached: {}{}.</p>").format(len(holes), note)
    yield _details("Their names", _names(holes[:_MOST], min(len(holes), _MOST)))


def _timing(total: Total) -> Markup:
    """Return a table of instruction classes by producers: how often each distance occurred with or without a stall."""
    crosses = total.collector.crosses
    family = crosses.families["timing"]
    states = family.states
    counts = crosses.part("timing", total.collector.counts).reshape(states.shape)
    kinds = [at for at in range(states.shape[0]) if (states[at] >= 0).any()]
    producers = [at for at in range(states.shape[1]) if (states[:, at] >= 0).any()]
    mark = Markup('<i class="{}" title="{}"></i>')

    def cell(kind: int, producer: int) -> Markup:
        pairs = zip(counts[kind, producer].ravel().tolist(), states[kind, producer].ravel().tolist(), strict=True)
        return Markup().join(mark.format(_mark(count, state), count) for count, state in pairs)

    rows = [[family.axes[0][kind], *(cell(kind, producer) for producer in producers)] for kind in kinds]
    return _plain("figures grid", rows, ["reads", *(family.axes[1][at] for at in producers)])


def _mark(count: int, state: int) -> str:
    return "none" if state < 0 else "out" if state else "" if count else "hole"


def _instructions(total: Total) -> Iterator[Markup]:
    crosses, counts = total.collector.crosses, total.collector.counts
    columns: dict[str, list[tuple[int, int]]] = {}
    times: list[int] = []
    for name, family in crosses.families.items():
        if family.states.shape[0] != len(crosses.rows):
            continue
        met = crosses.part(name, counts).reshape(len(crosses.rows), -1)
        reachable = family.states.reshape(len(crosses.rows), -1) == REACHABLE
        if name == "instruction":
            times = met.sum(axis=1).tolist()
        else:
            reached = (reachable & (met > 0)).sum(axis=1).tolist()
            columns[name] = list(zip(reached, reachable.sum(axis=1).tolist(), strict=True))
    for extension, part in groupby(enumerate(crosses.rows), key=lambda item: item[1].extension.value):
        members = list(part)
        shown = _pairs(
            extension,
            [Column(name="instruction"), Column(name="retired", digits=0)],
            [[row_name(row), times[number]] for number, row in members],
            {name: [column[number] for number, _ in members] for name, column in columns.items()},
        )
        yield _details(f"{extension}, {len(members)} instructions", table(shown))


def _pairs(
    title: str,
    lead: Sequence[Column],
    rows: Sequence[Sequence[TableCell]],
    pairs: Mapping[str, Sequence[tuple[int, int]]],
) -> NamedTable:
    """Return a table whose last columns show counts such as "3 of 4", highlighted if incomplete."""
    incomplete = {_share_text(pair): "bad" for column in pairs.values() for pair in column if pair[0] < pair[1]}
    return NamedTable(
        title=title,
        columns=[*lead, *(Column(name=name, tones=incomplete) for name in pairs)],
        rows=[[*row, *(_share_text(column[number]) for column in pairs.values())] for number, row in enumerate(rows)],
    )


def _share_text(pair: tuple[int, int]) -> str:
    return f"{pair[0]} of {pair[1]}" if pair[1] else ""


def _verilog(total: Total) -> Iterator[Markup | NamedTable]:
    points = total.used_points
    modules = module_table(points, total.components)
    pairs = {
        "lines": [module.lines for module in modules],
        "branches": [module.branches for module in modules],
        "changes of bits": [module.changes for module in modules],
    }
    shown = _pairs(
        "Verilog",
        [Column(name="module"), Column(name="component"), Column(name="share of changes", unit="%", digits=2)],
        [[module.name, module.component, _share(*module.changes)] for module in modules],
        pairs,
    )
    yield shown
    for title, what, unused in (
        ("Lines and branches never used", "", unused_lines(points, total.verilog)),
        ("Bits that never change", " signals", unused_bits(points)),
    ):
        yield Markup("<h3>{}</h3>").format(title)
        for module, rows in unused:
            yield _details(f"{module} ({len(rows)}{what})", _plain("code", rows))
        if not unused:
            yield Markup("<p>None.</p>")


def _plain(kind: str, rows: Sequence[Sequence[Any]], headings: Sequence[str] = ()) -> Markup:
    def row(cells: Sequence[Any], tag: str) -> Markup:
        cell = Markup(f"<{tag}>{{}}</{tag}>")
        return Markup("<tr>{}</tr>\n").format(Markup().join(cell.format(content) for content in cells))

    head = Markup("<thead>\n{}</thead>\n").format(row(headings, "th")) if headings else Markup()
    text = Markup('<div class="wide">\n<table class="{}">\n{}<tbody>\n{}</tbody>\n</table>\n</div>')
    return text.format(kind, head, Markup().join(row(cells, "td") for cells in rows))


def _details(title: str, content: Markup) -> Markup:
    return Markup("<details>\n<summary>{}</summary>\n{}\n</details>").format(title, content)


def _names(names: Sequence[str], count: int) -> Markup:
    listed = [*names, *([f"and {count - len(names)} more"] if count > len(names) else [])]
    items = Markup().join(map(Markup("<li>{}</li>\n").format, listed))
    return Markup('<ul class="names">\n{}</ul>').format(items)


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
