"""The page of coverage: one file that needs nothing but a browser."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from xpulpnn_sim.coverage.covered_trials import Total
from xpulpnn_sim.coverage.crosses import REACHABLE, Family, row_name
from xpulpnn_sim.coverage.rtl import module_table, unused_bits, unused_lines
from xpulpnn_sim.files import write_text
from xpulpnn_sim.tools.pages import page_style

_MOST = 2000
"""Holes that the page names."""
_PLACES = 400
"""Places out of reach that the page names for each reason."""


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Places that cannot be reached for one reason."""

    family: str  # name of the grid
    reason: str
    count: int  # how many there are
    names: tuple[str, ...]  # the first of them


def out_of_reach(families: Mapping[str, Family]) -> list[OutOfReach]:
    """All places out of reach, by family and reason."""
    found: list[OutOfReach] = []
    for family in families.values():
        states = family.states.ravel()
        for number, reason in enumerate(family.reasons, 1):
            places = np.flatnonzero(states == number).tolist()
            names = tuple(family.label(place) for place in places[:_PLACES])
            found.append(OutOfReach(family.name, reason, len(places), names))
    return found


def _by_instruction(total: Total) -> list[tuple[str, list[dict[str, Any]]]]:
    """Instructions by extension, each with what was reached of the crosses of every family."""
    crosses, counts = total.collector.crosses, total.collector.counts
    grids: dict[str, tuple[Any, Any]] = {}
    for name, family in crosses.families.items():
        if family.states.shape[0] == len(crosses.rows):
            start = crosses.starts[name]
            flat = counts[start : start + family.states.size].reshape(len(crosses.rows), -1)
            grids[name] = flat, family.states.reshape(len(crosses.rows), -1)
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(crosses.rows):
        cells: list[tuple[int, int]] = []
        for flat, states in grids.values():
            wanted = states[number] == REACHABLE
            cells.append((int((wanted & (flat[number] > 0)).sum()), int(wanted.sum())))
        times = int(grids["instruction"][0][number].sum())
        rows.append({"name": row_name(row), "extension": row.extension.value, "times": times, "cells": cells[1:]})
    return [(name, list(part)) for name, part in groupby(rows, key=lambda row: row["extension"])]


def _timing(total: Total) -> dict[str, Any]:
    """The grid of kinds and producers: how often each distance was met at once and after a wait."""
    crosses = total.collector.crosses
    family, start = crosses.families["timing"], crosses.starts["timing"]
    shape = family.states.shape
    counts = total.collector.counts[start : start + family.states.size].reshape(shape)
    kinds = [at for at in range(shape[0]) if (family.states[at] >= 0).any()]
    producers = [at for at in range(shape[1]) if (family.states[:, at] >= 0).any()]
    rows: list[tuple[str, list[list[tuple[int, int]]]]] = []
    for kind in kinds:
        cells = [
            [
                (int(counts[kind, producer, distance, when]), int(family.states[kind, producer, distance, when]))
                for distance in range(shape[2])
                for when in range(shape[3])
            ]
            for producer in producers
        ]
        rows.append((family.axes[0][kind], cells))
    return {"producers": [family.axes[1][at] for at in producers], "rows": rows}


def write_page(path: Path, total: Total, summary: Mapping[str, Any], facts: Mapping[str, str], command: str) -> None:
    """Write the page in one step."""
    crosses = total.collector.crosses
    names = [name for name, family in crosses.families.items() if family.states.shape[0] == len(crosses.rows)]
    environment = Environment(
        loader=PackageLoader("xpulpnn_sim.coverage"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("coverage.html.j2").render(
        title="Coverage of random programs",
        style=Markup(page_style()),
        command=command,
        facts=facts,
        summary=summary,
        meanings={name: family.meaning for name, family in crosses.families.items()},
        names=names[1:],
        instructions=_by_instruction(total),
        timing=_timing(total),
        holes=summary["holes"][:_MOST],
        impossible=summary["impossible"],
        out_of_reach=out_of_reach(crosses.families),
        modules=module_table(total.points, total.used, total.components),
        lines=unused_lines(total.points, total.used, total.verilog),
        bits=unused_bits(total.points, total.used),
        share=_share,
    )
    write_text(path, text)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else ""
