"""Figures of kernels that have no dot products of words as their measure, beside those of compiled public ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from xpulpnn_sw.kernels.figures import public_cycles

_MILLION = 1e6


def channelwise_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """A row for every run."""
    shown = Table(
        box=None,
        title="public: cycles of PULP-NN's kernels in C, compiled, on one such core; elements: read by windows",
        title_justify="left",
    )
    columns: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
        ("layer", lambda record: record["layer"]),
        ("precision", lambda record: record["precision"]),
        ("variant", lambda record: record["variant"]),
        ("cycles", lambda record: str(record["cycles"])),
        ("public", lambda record: str(_public(record) or "-")),
        ("public/ours", _ratio),
        ("instructions", lambda record: str(record["instructions"])),
        ("elements/cyc", lambda record: f"{record['macs_per_cycle']:.2f}"),
        ("errors", lambda record: str(record["mismatches"])),
        ("Mcyc/s", lambda record: f"{record['sim_cycles_per_s'] / _MILLION:.2f}"),
    )
    words = {"layer", "precision", "variant"}
    for heading, _ in columns:
        shown.add_column(heading, justify="left" if heading in words else "right", no_wrap=True)
    for record in records:
        shown.add_row(*(text(record) for _, text in columns))
    return shown


def _public(record: Mapping[str, Any]) -> int | None:
    return public_cycles(record["kernel"], record["layer"], record["bits"])


def _ratio(record: Mapping[str, Any]) -> str:
    public = _public(record)
    return "-" if public is None else f"{public / record['cycles']:.2f}"
