"""Figures of kernels that have no dot products of words as their measure, beside those of compiled public ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from xpulpnn_sim.cli.common import Columns, record_table
from xpulpnn_sw.kernels.figures import public_cycles

_MILLION = 1e6


def channelwise_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with a row for every run."""
    return record_table(_COLUMNS, records, title=_TITLE)


def _public(record: Mapping[str, Any]) -> int | None:
    return public_cycles(record["kernel"], record["layer"], record["bits"])


def _ratio(record: Mapping[str, Any]) -> str:
    public = _public(record)
    return "-" if public is None else f"{public / record['cycles']:.2f}"


_TITLE = "public: cycles of PULP-NN's kernels in C, compiled, on one such core; elements: read by windows"
_COLUMNS: Columns = {
    "layer": "{[layer]}",
    "precision": "{[precision]}",
    "variant": "{[variant]}",
    "cycles": "{[cycles]}",
    "public": lambda record: _public(record) or "-",
    "public/ours": _ratio,
    "instructions": "{[instructions]}",
    "elements/cyc": "{[macs_per_cycle]:.2f}",
    "errors": "{[mismatches]}",
    "Mcyc/s": lambda record: f"{record['sim_cycles_per_s'] / _MILLION:.2f}",
}
