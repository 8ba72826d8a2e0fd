"""Tables of published figures, read from the files in the folder ``tables``.

A file has the keys of :class:`PaperTable` and groups of rows. The keys of a row are ``figure``, ``metric``, ``run``
(options of ``xpulpnn cosim``, or the fields of a :class:`PackedRun`) and optionally ``over`` (the run of the baseline),
``published`` with ``where``, ``bar`` and ``slow``. Keys of the file hold for all groups, those of a group for its
``rows``; ``each`` repeats the rows of a group for every combination of values. Texts name other keys in braces.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

from xpulpnn_sim.publishing.papers.runs import CosimRun, PackedRun
from xpulpnn_sim.publishing.papers.table import Bar, Metric, PaperTable, Published, Run, TableRow

_NAMES = ("xpulpnn", "pulp-nn", "pulp-nn-mixed", "ulppack", "classifier", "cifar10")
MakeRun = Callable[[Mapping[str, Any]], Run]  # makes the run of a row from its keys


def read_table(name: str, make: MakeRun | None = None) -> PaperTable:
    document = tomllib.loads((Path(__file__).with_name("tables") / f"{name}.toml").read_text())
    described = {item.name: document[item.name] for item in fields(PaperTable) if item.name in document}
    return PaperTable(**described, rows=tuple(_row(keys, make) for keys in _keys(document)))


def _keys(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for group in document["group"]:
        each: dict[str, list[Any]] = group.get("each", {})
        rows: list[dict[str, Any]] = group.get("rows", [{}])
        for values, row in product(product(*each.values()), rows):
            yield {**document, **group, **dict(zip(each, values, strict=True)), **row}


def _row(keys: dict[str, Any], make: MakeRun | None) -> TableRow:
    def run(name: str) -> Run:
        if make is not None:
            return make(keys)
        if isinstance(keys[name], str):
            return CosimRun(f"xpulpnn cosim {keys[name]}".format_map(keys))
        instruction, *bits = (str(value).format_map(keys) for value in keys[name].values())
        return PackedRun(instruction, *map(int, bits))

    return TableRow(
        keys["figure"].format_map(keys),
        Metric(**keys["metric"]),
        Published(keys["published"], keys["where"]) if "published" in keys else None,
        run("run"),
        over=run("over") if "over" in keys else None,
        quick=not keys.get("slow", False),
        bar=Bar(*(text.format_map(keys) for text in keys["bar"])) if keys.get("bar") else None,
    )


TABLES: Mapping[str, PaperTable] = {name: read_table(name) for name in _NAMES}
"""Tables that need no files of the user, by name, in the order shown."""
