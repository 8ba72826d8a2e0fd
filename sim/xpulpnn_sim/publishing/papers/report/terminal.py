"""A measured table as the terminal shows it."""

from xpulpnn_sim.publishing.papers.table import MeasuredRow, MeasuredTable, Verdict
from xpulpnn_sim.tools.named_table import Column, NamedTable

_TONES = {"better": "good", "worse": "bad", Verdict.WRONG.value: "bad"}


def named_table(measured: MeasuredTable) -> NamedTable:
    """Figure, paper, ours, their ratio, verdict and place; summary and conditions as notes."""
    reference = measured.table.reference
    columns = [
        Column(name="figure"),
        Column(name="unit"),
        Column(name=reference, digits=2),
        Column(name="ours", digits=2),
        Column(name=f"ours / {reference}", digits=2),
        Column(name="verdict", tones=_TONES),
        Column(name=f"of the {reference}"),
    ]
    return NamedTable(
        title=measured.table.title,
        columns=columns,
        rows=[_row(row) for row in measured.rows],
        notes=[f"{measured.summary}.", *measured.table.notes, f"Paper: {measured.table.printed_by}."],
        failed=frozenset(number for number, row in enumerate(measured.rows) if row.verdict is Verdict.WRONG),
    )


def _row(measured: MeasuredRow) -> list[str | float | None]:
    row, published = measured.row, measured.row.published
    return [
        row.figure,
        row.unit,
        None if published is None else published.text,
        our_text(measured),
        measured.ratio,
        measured.verdict.value,
        None if published is None else published.where,
    ]


def our_text(measured: MeasuredRow) -> str:
    """Our figure with the digits of its row."""
    return f"{measured.ours:.{measured.row.digits}f}"
