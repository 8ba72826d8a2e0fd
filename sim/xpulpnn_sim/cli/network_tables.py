"""Tables of networks: layers, memory, classes, whole networks."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from xpulpnn_sim.cli.common import Columns, cells_of, record_table, table
from xpulpnn_sim.cosimulation.networks.classified import ClassRecord

_MILLION = 1e6
_KIB = 1024
_FJ_PER_NJ = 1e6

_MOST_CAUSES = 8  # of lost cycles that fit into a table

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
    differ = any(layer["cycles_least"] != layer["cycles_most"] for layer in layers)
    columns: Columns = {
        "layer": "{[name]}",
        "size": "{[layer]}",
        "precision": "{[precision]}",
        "variant": lambda layer: _manner(layer, record["cores"]),
        "cycles": "{[cycles]}",
        **({"least": "{[cycles_least]}", "most": "{[cycles_most]}"} if differ else {}),
        "MAC": lambda layer: layer["macs"] or "-",
        "MAC/cyc": lambda layer: f"{layer['macs_per_cycle']:.2f}" if layer["macs"] else "-",
        **{cause: f"{{[stalls][{cause}]}}" for cause in causes},
        **({"others": lambda layer: sum(layer["stalls"][cause] for cause in others)} if others else {}),
        "errors": "{[mismatches]}",
    }
    return record_table(columns, layers, title=title)


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
    layers = {layer["name"]: layer for layer in record["layers"]}
    columns: dict[str, str | Callable[[Record], object]] = {
        "layer": "{[name]}",
        "cycles": "{[cycles]}",
        "weights": lambda step: layers.get(step["name"], {}).get("weight_bytes", "-"),
        "results": lambda step: layers.get(step["name"], {}).get("result_bytes", "-"),
        **(_MOVED if is_cluster else _ACCESSED),
    }
    if "energy_nj" in record:
        columns["nJ"] = lambda step: _energy(layers.get(step["name"], {}))
        columns["fJ/MAC"] = lambda step: _energy_of_mac(layers.get(step["name"], {}))
    return record_table(columns, record["steps"] if is_cluster else record["layers"], title=title)


_MOVED = {
    "TCDM in use": "{[tcdm_bytes]}",
    "DMA in": "{[loaded]}",
    "DMA out": "{[stored]}",
    "moving": "{[moving]}",
    "waiting": "{[waiting]}",
}
_ACCESSED = {"loaded": "{[read]}", "stored": "{[written]}"}


def _energy(layer: Record) -> str:
    return f"{layer['energy_nj']:.1f}"


def _energy_of_mac(layer: Record) -> str:
    return f"{layer['energy_nj'] * _FJ_PER_NJ / layer['macs']:.1f}" if layer["macs"] else "-"


_CLASSES: Columns = {
    "class": "{.name}",
    "images": "{.images}",
    "right": "{.right}",
    "share": lambda one: f"{one.right / one.images:.1%}",
    "most often taken for": lambda one: f"{one.other} ({one.count})" if one.other else "-",
}


def class_table(classes: Sequence[ClassRecord]) -> Table:
    """Right answers by class of which there are images, and what the wrong ones say most often."""
    return record_table(_CLASSES, (one for one in classes if one.images))


def network_table(records: Sequence[Record], paper_cycles: int | None) -> Table:
    """The networks as a whole, below a row of ``paper_cycles``."""
    alone = {record["kernel"]: record["cycles"] for record in records if record["cores"] == 1}

    def faster(record: Record) -> str:
        single = alone.get(record["kernel"])
        return "-" if single is None else f"{single / record['cycles']:.2f}"

    columns: Columns = {
        "network": "{[kernel]}",
        "cores": "{[cores]}",
        "Mcycles": lambda record: f"{record['cycles'] / _MILLION:.3f}",
        "speed-up": faster,
        "MAC/cyc": lambda record: f"{record['macs'] / record['cycles']:.2f}",
        "code KiB": lambda record: f"{record['code_bytes'] / _KIB:.1f}",
        "data KiB": lambda record: f"{record['data_bytes'] / _KIB:.1f}",
        "images": "{[images]}",
        "right": lambda record: record.get("right", "-"),
        "errors": "{[mismatches]}",
        "Mcyc/s": lambda record: f"{record['sim_cycles_per_s'] / _MILLION:.2f}",
    }
    rows = [cells_of(columns, record) for record in records]
    if paper_cycles is not None:
        rate = f"{records[0]['macs'] / paper_cycles:.2f}"
        rows.insert(0, ["PULP-NN paper, 8 bit", 1, f"{paper_cycles / _MILLION:.3f}", "-", rate])
    return table(columns, rows)
