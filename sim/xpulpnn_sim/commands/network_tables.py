"""Tables of networks: layers, memory, classes, whole networks."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from xpulpnn_sim.harness.classified import ClassRecord

_MILLION = 1e6
_KIB = 1024
_FJ_PER_NJ = 1e6

_MOST_CAUSES = 8
"""Of lost cycles that fit into a table."""

Record = dict[str, Any]


def layer_table(record: Record) -> Table:
    """Cycles of the layers and what they are lost to."""
    layers = record["layers"]
    causes, others = _causes(layers)
    mean = f", means of {record['images']} images" if record["images"] > 1 else ""
    title = f"{record['kernel']}: cycles{mean}, those without a retirement by cause"
    if record["cores"] > 1:
        title = (
            f"{record['kernel']}: cycles from barrier to barrier{mean}, those of all {record['cores']} cores without a "
            "retirement by cause"
        )
    table = Table(box=None, title=title, title_justify="left")
    for heading in ("layer", "size", "precision", "variant"):
        table.add_column(heading, no_wrap=True)
    differ = any(layer["cycles_least"] != layer["cycles_most"] for layer in layers)
    for heading in (
        "cycles",
        *["least", "most"] * differ,
        "MAC",
        "MAC/cyc",
        *causes,
        *["others"] * bool(others),
        "errors",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in layers:
        table.add_row(
            *(layer[name] for name in ("name", "layer", "precision")),
            _manner(layer, record["cores"]),
            str(layer["cycles"]),
            *(str(layer[name]) for name in ("cycles_least", "cycles_most") if differ),
            *((str(layer["macs"]), f"{layer['macs_per_cycle']:.2f}") if layer["macs"] else ("-", "-")),
            *(str(layer["stalls"][cause]) for cause in causes),
            *[str(sum(layer["stalls"][cause] for cause in others))] * bool(others),
            str(layer["mismatches"]),
        )
    return table


def _causes(layers: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Causes of lost cycles that have columns of their own, and those that share one, if there are many."""
    totals = {cause: sum(layer["stalls"][cause] for layer in layers) for cause in layers[0]["stalls"]}
    occur = [cause for cause, total in totals.items() if total]
    if len(occur) <= _MOST_CAUSES:
        return occur, []
    own = sorted(occur, key=lambda cause: -totals[cause])[: _MOST_CAUSES - 1]
    return [cause for cause in occur if cause in own], [cause for cause in occur if cause not in own]


def _manner(layer: Record, cores: int) -> str:
    """Return a remark on layers that run in tiles or on fewer cores than there are."""
    tiles, used = layer.get("tiles", 0), layer.get("cores", cores)
    parts = (f", {tiles} tiles" if tiles else "", f", {used} cores" if used < cores else "")
    return f"{layer['variant']}{', folded' * layer['folded']}{''.join(parts)}"


def memory_table(record: Record) -> Table:
    """Memory and transfers of the layers, and of the steps before and after them."""
    is_cluster = "steps" in record
    title = (
        "bytes in memory"
        + (" and moved by DMA; cycles of moving, and of waiting for it" if is_cluster else ", and loaded and stored")
        + (f"; energy, {record['energy_nj']:.1f} nJ together" if "energy_nj" in record else "")
    )
    table = Table(box=None, title=title, title_justify="left")
    table.add_column("layer", no_wrap=True)
    moved = ("TCDM in use", "DMA in", "DMA out", "moving", "waiting") if is_cluster else ("loaded", "stored")
    has_energy = "energy_nj" in record
    energy = ("nJ", "fJ/MAC") if has_energy else ()
    for heading in ("cycles", "weights", "results", *moved, *energy):
        table.add_column(heading, justify="right", no_wrap=True)
    layers = {layer["name"]: layer for layer in record["layers"]}
    names = ("tcdm_bytes", "loaded", "stored", "moving", "waiting") if is_cluster else ("read", "written")
    for step in record["steps"] if is_cluster else record["layers"]:
        layer = layers.get(step["name"], {})
        table.add_row(
            step["name"],
            str(step["cycles"]),
            *(str(layer.get(name, "-")) for name in ("weight_bytes", "result_bytes")),
            *(str(step[name]) for name in names),
            *(_energy(layer) if has_energy else ()),
        )
    return table


def _energy(layer: Record) -> tuple[str, str]:
    """Energy of a layer, and of a multiplication if it has any."""
    joules = layer["energy_nj"]
    return f"{joules:.1f}", f"{joules * _FJ_PER_NJ / layer['macs']:.1f}" if layer["macs"] else "-"


def class_table(classes: Sequence[ClassRecord]) -> Table:
    """Right answers by class of which there are images, and what the wrong ones say most often."""
    table = Table(box=None)
    table.add_column("class", no_wrap=True)
    for heading in ("images", "right", "share"):
        table.add_column(heading, justify="right")
    table.add_column("most often taken for")
    for one in classes:
        if not one.images:
            continue
        share = f"{one.right / one.images:.1%}"
        other = f"{one.other} ({one.count})" if one.other else "-"
        table.add_row(one.name, str(one.images), str(one.right), share, other)
    return table


def network_table(records: Sequence[Record], paper_cycles: int | None) -> Table:
    """The networks as a whole, below a row of ``paper_cycles``."""
    table = Table(box=None)
    table.add_column("network", no_wrap=True)
    headings = (
        "cores",
        "Mcycles",
        "speed-up",
        "MAC/cyc",
        "code KiB",
        "data KiB",
        "images",
        "right",
        "errors",
        "Mcyc/s",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    if paper_cycles is not None:
        rate = f"{records[0]['macs'] / paper_cycles:.2f}"
        table.add_row("PULP-NN paper, 8 bit", "1", f"{paper_cycles / _MILLION:.3f}", "-", rate)
    alone = {record["kernel"]: record["cycles"] for record in records if record["cores"] == 1}
    for record in records:
        single = alone.get(record["kernel"])
        table.add_row(
            record["kernel"],
            str(record["cores"]),
            f"{record['cycles'] / _MILLION:.3f}",
            "-" if single is None else f"{single / record['cycles']:.2f}",
            f"{record['macs'] / record['cycles']:.2f}",
            *(f"{record[name] / _KIB:.1f}" for name in ("code_bytes", "data_bytes")),
            str(record["images"]),
            str(record.get("right", "-")),
            str(record["mismatches"]),
            f"{record['sim_cycles_per_s'] / _MILLION:.2f}",
        )
    return table
