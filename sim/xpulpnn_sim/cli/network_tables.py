"""Tables of network runs: layers, memory, classifications, whole networks."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from xpulpnn_sim.cli.common import Columns, cells_of, plain, quotient, record_table, table

_MILLION = 1e6
_KIB = 1024
_FJ_PER_NJ = 1e6
_MOST_CAUSES = 8  # columns for causes of lost cycles
_MOST_ANSWERS = 10
Record = dict[str, Any]


def layer_table(record: Record) -> Table:
    layers = record["layers"]
    causes, others = _causes(layers)
    title = f"{record['kernel']}: layers" + (f", means of {record['images']} images" if record["images"] > 1 else "")
    differ = any(layer["cycles_least"] != layer["cycles_most"] for layer in layers)
    columns: Columns = {
        "layer": "{[name]}",
        "size": "{[layer]}",
        **plain("precision"),
        "variant": lambda layer: _manner(layer, record["cores"]),
        **plain("cycles"),
        **({"least": "{[cycles_least]}", "most": "{[cycles_most]}"} if differ else {}),
        "MAC": lambda layer: layer["macs"] or "-",
        "MAC/cyc": lambda layer: f"{layer['macs_per_cycle']:.2f}" if layer["macs"] else "-",
        **{cause: f"{{[stalls][{cause}]}}" for cause in causes},
        **({"others": lambda layer: sum(layer["stalls"][cause] for cause in others)} if others else {}),
        "errors": "{[mismatches]}",
    }
    return record_table(columns, layers, title=title)


def cause_legend(record: Record) -> str:
    causes, others = _causes(record["layers"])
    count = record["cores"]
    cycles = f"from barrier to barrier on {count} cores" if count > 1 else "on one core"
    if not causes:
        return f"cycles: {cycles}"
    columns = f"{causes[0]} to others" if others else " to ".join(dict.fromkeys((causes[0], causes[-1])))
    waits = f"cycles without a retired instruction, by cause{f', summed over all {count} cores' if count > 1 else ''}"
    return f"cycles: {cycles}; {columns}: {waits}{'; others: ' if others else ''}{', '.join(others)}"


def _causes(layers: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Return the causes of lost cycles that get a column, and the causes that share the column "others"."""
    totals = {cause: sum(layer["stalls"][cause] for layer in layers) for cause in layers[0]["stalls"]}
    occur = [cause for cause, total in totals.items() if total]
    if len(occur) <= _MOST_CAUSES:
        return occur, []
    own = sorted(occur, key=lambda cause: -totals[cause])[: _MOST_CAUSES - 1]
    return [cause for cause in occur if cause in own], [cause for cause in occur if cause not in own]


def _manner(layer: Record, cores: int) -> str:
    tiles, used = layer.get("tiles", 0), layer.get("cores", cores)
    parts = (f", {tiles} tiles" if tiles else "", f", {used} cores" if used < cores else "")
    return f"{layer['variant']}{', folded' * layer['folded']}{''.join(parts)}"


def memory_table(record: Record) -> Table:
    is_cluster = "steps" in record
    title = (
        "bytes in memory"
        + (" and moved by DMA; cycles of moving, and of waiting for it" if is_cluster else ", and loaded and stored")
        + (f"; energy, {record['energy_nj']:.1f} nJ together" if "energy_nj" in record else "")
    )
    layers = {layer["name"]: layer for layer in record["layers"]}
    columns: dict[str, str | Callable[[Record], object]] = {
        "layer": "{[name]}",
        **plain("cycles"),
        "weights": lambda step: layers.get(step["name"], {}).get("weight_bytes", "-"),
        "results": lambda step: layers.get(step["name"], {}).get("result_bytes", "-"),
        **(_MOVED if is_cluster else _ACCESSED),
    }
    if "energy_nj" in record:
        columns["nJ"] = "{[energy_nj]:.1f}"
        columns["fJ/MAC"] = lambda step: f"{step['energy_nj'] * _FJ_PER_NJ / step['macs']:.1f}" if step["macs"] else "-"
    return record_table(columns, record["steps"] if is_cluster else record["layers"], title=title)


def memory_summary(record: Record) -> str:
    if "steps" not in record:
        return f"memory: code {record['code_bytes']:,} bytes, data {record['data_bytes']:,}"
    moved = f"DMA moves {record['loaded']:,} in and {record['stored']:,} out in {record['moving']:,} cycles"
    room = f"{record['data_bytes']:,} of {record['tcdm_bytes']:,} bytes of TCDM and {record['l2_bytes']:,} of L2"
    share = record["waiting"] / max(record["cycles"], 1)
    return f"memory: at most {room}, with code; {moved}; the cores wait for it {share:.1%} of the time"


_DMA = {"TCDM in use": "{[tcdm_bytes]}", "DMA in": "{[loaded]}", "DMA out": "{[stored]}"}
_MOVED = {**_DMA, **plain("moving", "waiting")}
_ACCESSED = {"loaded": "{[read]}", "stored": "{[written]}"}

_CLASSES: Columns = {
    "class": "{[name]}",
    **plain("images", "right"),
    "share": lambda record: f"{record['right'] / record['images']:.1%}",
    "most often taken for": lambda record: f"{record['other']} ({record['count']})" if record["other"] else "-",
}


def class_table(classes: Sequence[Record]) -> Table:
    return record_table(_CLASSES, (record for record in classes if record["images"]))


def answer_table(record: Record) -> Table:
    runs, classes = record["runs"][:_MOST_ANSWERS], record.get("classes", [])
    columns: Columns = {**plain("image"), "answer": lambda run: run.get("class", run["answer"]), "score": "{[score]:,}"}
    if classes:
        columns["label"] = lambda run: classes[run["label"]]["name"]
    count = len(record["runs"])
    more = f" of {_MOST_ANSWERS} of {count} images (--json has all)" if count > _MOST_ANSWERS else ""
    return record_table(columns, runs, title=f"{record['kernel']}: answers{more}")


def network_table(records: Sequence[Record], paper_cycles: int | None) -> Table:
    alone = {record["kernel"]: record["cycles"] for record in records if record["cores"] == 1}
    columns: Columns = {
        "network": "{[kernel]}",
        **plain("cores"),
        "cycles": lambda record: _cycles(record["cycles"]),
        "speed-up": lambda record: quotient(alone.get(record["kernel"]) or None, record["cycles"]),
        "MAC/cyc": lambda record: quotient(record["macs"], record["cycles"]),
        "code KiB": lambda record: f"{record['code_bytes'] / _KIB:.1f}",
        "data KiB": lambda record: f"{record['data_bytes'] / _KIB:.1f}",
        **plain("images"),
        "right": lambda record: record.get("right", "-"),
        "errors": "{[mismatches]}",
        "Mcyc/s": lambda record: f"{record['sim_cycles_per_s'] / _MILLION:.2f}",
    }
    rows = [cells_of(columns, record) for record in records]
    if paper_cycles is not None:
        rate = f"{records[0]['macs'] / paper_cycles:.2f}"
        rows.insert(0, ["PULP-NN paper, 8 bit", 1, _cycles(paper_cycles), "-", rate])
    return table(columns, rows, least=("Mcyc/s", "speed-up", "data KiB", "code KiB", "cores"))


def _cycles(count: int) -> str:
    return f"{count:,}" if count < _MILLION else f"{count / _MILLION:.3f} M"
