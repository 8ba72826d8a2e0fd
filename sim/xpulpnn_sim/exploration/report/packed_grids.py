"""Sweeps of packed products as grids of texts and numbers, for tables and plots alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xpulpnn_sw.kernels.ulppack.packing import ISAS

Record = Mapping[str, Any]  # figures of a product, under the names of its JSON record


@dataclass(slots=True)
class Grid:
    """A sweep, or a part of one."""

    sweep: str
    title: str  # what the cells say
    corner: str  # what the rows are
    rows: list[str] = field(default_factory=list[str])
    columns: list[str] = field(default_factory=list[str])
    texts: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])  # cells by row and column
    # what is plotted of them
    numbers: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    def put(self, row: str, column: str, text: str, number: float) -> None:
        """Fill a cell."""
        if row not in self.rows:
            self.rows.append(row)
        if column not in self.columns:
            self.columns.append(column)
        self.texts[row, column] = text
        self.numbers[row, column] = number


def bytes_cycles(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    """Cycles of the product of bytes by instruction set and size."""
    return {(record["isa"], record["matmul"]): record["cycles"] for record in records if record["kind"] == "bytes"}


def _pair(record: Record) -> str:
    return f"W{record['weights']}A{record['activations']}"


def _way(record: Record) -> str:
    """Name of a line of a plot."""
    match record["kind"]:
        case "library":
            return f"{record['product']} {record['weights']} bit"
        case "ulppack":
            return f"{record['isa']} {record['product']}"
        case _:
            return f"{record['isa']} {record['kind']}"


def _overflow(records: Sequence[Record]) -> list[Grid]:
    """The largest depth, and the iterations it leaves."""
    found = dict[str, Grid]()
    for record in records:
        name = record["scheme"]
        if name not in found:
            grid = Grid("overflow", f"{name}: largest depth (iterations), each run at the largest operands", "weights")
            grid.rows, grid.columns = ([f"{side}{bits}" for bits in range(1, 8)] for side in "WA")
            found[name] = grid
        text = f"{record['most_depth']} ({record['most_iterations']}){'' if record['mismatches'] == 0 else ' wrong'}"
        row, column = f"W{record['weights']}", f"A{record['activations']}"
        found[name].put(row, column, text, record["most_depth"])
    return list(found.values())


def _best(records: Sequence[Record]) -> list[Grid]:
    """Fastest packing of every pair and its gain over bytes; the same against bit-serial."""
    base, found = bytes_cycles(records), dict[str, Grid]()
    packed = [record for record in records if record["kind"] == "ulppack"]
    serial = {
        (record["weights"], record["activations"]): record["cycles"]
        for record in records
        if record["kind"] == "bit-serial"
    }
    for record in sorted(packed, key=lambda record: record["cycles"]):
        pair = record["weights"], record["activations"]
        row, column = f"W{pair[0]}", f"A{pair[1]}"
        texts = [
            (
                record["isa"],
                f"{record['isa']}: the fastest packing, depth, iterations, and how many times faster than bytes",
                base[record["isa"], record["matmul"]] / record["cycles"],
            )
        ]
        if record["isa"] == "xpulpv2":
            title = "xpulpv2: the fastest packing, depth, iterations, and how many times faster than bit-serial"
            texts.append(("bit-serial", title, serial[pair] / record["cycles"]))
        for name, title, ratio in texts:
            if name not in found:
                found[name] = grid = Grid("best", title, "weights")
                grid.rows, grid.columns = ([f"{side}{bits}" for bits in range(1, 8)] for side in "WA")
            if (row, column) not in found[name].texts:
                packing = f"{record['scheme']} {record['depth']} {min(record['iterations'], _SHOWN)}"
                more = "+" if record["iterations"] > _SHOWN else ""
                found[name].put(row, column, f"{packing}{more} {ratio:.2f}x", ratio)
    return [found[name] for name in (*ISAS, "bit-serial") if name in found]


_SHOWN = 99  # largest number of iterations told; more make no difference


def _iterations(records: Sequence[Record]) -> list[Grid]:
    """Speed-up over bytes for every depth."""
    base, found = bytes_cycles(records), dict[str, Grid]()
    for record in records:
        if record["kind"] != "ulppack":
            continue
        name = f"{_pair(record)} {record['isa']} {record['product']} {record['scheme']}"
        grid = found.setdefault(name, Grid("iter", f"{name}: times faster than bytes", "iterations"))
        ratio = base[record["isa"], record["matmul"]] / record["cycles"]
        grid.put(f"depth {record['depth']}", str(record["iterations"]), f"{ratio:.2f}", ratio)
    for grid in found.values():
        grid.columns.sort(key=int)
        grid.rows.sort(key=lambda row: int(row.split()[1]))
    return list(found.values())


def _lines(
    sweep: str, title: str, corner: str, column: Callable[[Record], str]
) -> Callable[[Sequence[Record]], list[Grid]]:
    """Cycles per MAC of every way over something; bytes are the same for all widths."""

    def built(records: Sequence[Record]) -> list[Grid]:
        pairs = dict.fromkeys(_pair(record) for record in records if record["kind"] == "ulppack")
        grid = Grid(sweep, title if sweep == "bits" else f"{title}, {', '.join(pairs)}", corner)
        for record in records:
            if not (sweep == "bits" and record["kind"] in ("bytes", "library")):
                is_one_of = sweep != "bits" and len(pairs) > 1 and record["kind"] in ("ulppack", "bit-serial")
                name = f"{_pair(record)} {_way(record)}" if is_one_of else _way(record)
                grid.put(name, column(record), f"{record['cycles_per_mac']:.4f}", record["cycles_per_mac"])
        if sweep == "bits":
            for record in (record for record in records if record["kind"] in ("bytes", "library")):
                for name in grid.columns:
                    if int(name) <= record["weights"]:
                        grid.put(_way(record), name, f"{record['cycles_per_mac']:.4f}", record["cycles_per_mac"])
        return [grid]

    return built


_GRIDS: Mapping[str, Callable[[Sequence[Record]], list[Grid]]] = {
    "overflow": _overflow,
    "best": _best,
    "iter": _iterations,
    "bits": _lines(
        "bits",
        "cycles per MAC at equal widths of weights and activations",
        "bits",
        lambda record: str(record["weights"]),
    ),
    "k": _lines("k", "cycles per MAC over the reduction length", "K", lambda record: record["matmul"].split("x")[1]),
}


def grids(records: Sequence[Record]) -> list[Grid]:
    """All grids of the sweeps among the records."""
    found: list[Grid] = []
    for name, build in _GRIDS.items():
        chosen = [record for record in records if record["sweep"] == name]
        if chosen:
            found += build(chosen)
    return found
