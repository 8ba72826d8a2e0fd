"""Tables of sweeps of packed products (several narrow products in one multiplication)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpulpnn_sim.tools.named_table import NamedTable, text_columns
from xpulpnn_sim.tools.pages import Page
from xpulpnn_sw.kernels.ulppack.packing import ISAS

Record = Mapping[str, Any]  # JSON record of a product


@dataclass(slots=True)
class SweepTable:
    title: str
    corner: str  # heading of the rows
    rows: list[str] = field(default_factory=list[str])
    columns: list[str] = field(default_factory=list[str])
    texts: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])  # by row and column

    def put(self, row: str, column: str, text: str) -> None:
        for names, name in ((self.rows, row), (self.columns, column)):
            if name not in names:
                names.append(name)
        self.texts[row, column] = text


def bytes_cycles(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    return {(record["isa"], record["matmul"]): record["cycles"] for record in records if record["kind"] == "bytes"}


def _pair(record: Record) -> str:
    return f"W{record['weights']}A{record['activations']}"


def _line_name(record: Record) -> str:
    if record["kind"] == "library":
        return f"{record['product']} {record['weights']} bit"
    return f"{record['isa']} {record['product' if record['kind'] == 'ulppack' else 'kind']}"


def _map(title: str) -> SweepTable:
    rows, columns = ([f"{side}{bits}" for bits in range(1, 8)] for side in "WA")
    return SweepTable(title, "weights", rows, columns)


def _overflow(records: Sequence[Record]) -> list[SweepTable]:
    by_scheme = dict[str, SweepTable]()
    for record in records:
        name = record["scheme"]
        title = f"{name}: largest depth (iterations), each run at the largest operands"
        text = f"{record['most_depth']} ({record['most_iterations']}){'' if record['mismatches'] == 0 else ' wrong'}"
        row, column = f"W{record['weights']}", f"A{record['activations']}"
        by_scheme.setdefault(name, _map(title)).put(row, column, text)
    return list(by_scheme.values())


def _best(records: Sequence[Record]) -> list[SweepTable]:
    base, by_rival = bytes_cycles(records), dict[str, SweepTable]()
    packed = [record for record in records if record["kind"] == "ulppack"]
    serial = {_pair(record): record["cycles"] for record in records if record["kind"] == "bit-serial"}
    for record in sorted(packed, key=lambda record: record["cycles"]):
        isa, row, column = record["isa"], f"W{record['weights']}", f"A{record['activations']}"
        compared = [(isa, isa, "bytes", base[isa, record["matmul"]])]
        if isa == "xpulpv2":
            compared.append(("bit-serial", isa, "bit-serial", serial[_pair(record)]))
        for name, own, other, cycles in compared:
            title = f"{own}: the fastest packing, depth, iterations, and how many times faster than {other}"
            grid = by_rival.setdefault(name, _map(title))
            if (row, column) not in grid.texts:
                packing = f"{record['scheme']} {record['depth']} {min(record['iterations'], _SHOWN)}"
                more = "+" if record["iterations"] > _SHOWN else ""
                grid.put(row, column, f"{packing}{more} {cycles / record['cycles']:.2f}x")
    return [by_rival[name] for name in (*ISAS, "bit-serial") if name in by_rival]


_SHOWN = 99  # iterations above are shown as this number and "+"


def _iterations(records: Sequence[Record]) -> list[SweepTable]:
    base, by_name = bytes_cycles(records), dict[str, SweepTable]()
    for record in (record for record in records if record["kind"] == "ulppack"):
        name = f"{_pair(record)} {record['isa']} {record['product']} {record['scheme']}"
        grid = by_name.setdefault(name, SweepTable(f"{name}: times faster than bytes", "iterations"))
        ratio = base[record["isa"], record["matmul"]] / record["cycles"]
        grid.put(f"depth {record['depth']}", str(record["iterations"]), f"{ratio:.2f}")
    for grid in by_name.values():
        grid.columns.sort(key=int)
        grid.rows.sort(key=lambda row: int(row.split()[1]))
    return list(by_name.values())


def _over_bits(records: Sequence[Record]) -> list[SweepTable]:
    """Return the table of cycles per MAC by bit width; byte and library kernels also serve narrower operands."""
    grid = SweepTable("cycles per MAC at equal widths of weights and activations", "bits")
    rivals = [record for record in records if record["kind"] in ("bytes", "library")]
    for record in records:
        if record not in rivals:
            grid.put(_line_name(record), str(record["weights"]), _per_mac(record))
    for record in rivals:
        for name in grid.columns:
            if int(name) <= record["weights"]:
                grid.put(_line_name(record), name, _per_mac(record))
    return [grid]


def _over_length(records: Sequence[Record]) -> list[SweepTable]:
    pairs = dict.fromkeys(_pair(record) for record in records if record["kind"] == "ulppack")
    grid = SweepTable(f"cycles per MAC over the reduction length, {', '.join(pairs)}", "K")
    for record in records:
        is_one_of = len(pairs) > 1 and record["kind"] in ("ulppack", "bit-serial")
        name = f"{_pair(record)} {_line_name(record)}" if is_one_of else _line_name(record)
        grid.put(name, record["matmul"].split("x")[1], _per_mac(record))
    return [grid]


def _per_mac(record: Record) -> str:
    return f"{record['cycles_per_mac']:.4f}"


_GRIDS: Mapping[str, Callable[[Sequence[Record]], list[SweepTable]]] = {
    "overflow": _overflow,
    "best": _best,
    "iter": _iterations,
    "bits": _over_bits,
    "k": _over_length,
}


def grids(records: Sequence[Record]) -> list[SweepTable]:
    by_sweep = {name: [record for record in records if record["sweep"] == name] for name in _GRIDS}
    return [grid for name, chosen in by_sweep.items() if chosen for grid in _GRIDS[name](chosen)]


def write_packed_tables(path: Path, records: Sequence[Record]) -> None:
    sizes = sorted({record["matmul"] for record in records if record["sweep"] not in ("overflow", "k")})
    note = (
        f"Products of channels x reduction length x pixels ({', '.join(sizes)} unless told otherwise), every one run "
        "on the RTL and compared with numpy; activations are packed beforehand. Bytes: one element in each byte."
    )
    command = "xpulpnn cosim ulppack"
    page = Page(title="Packed products", command=command, writer=command, notes=[note])
    for number, grid in enumerate(grids(records)):
        columns = text_columns(grid.corner, *grid.columns)
        rows = [[row, *(grid.texts.get((row, column)) for column in grid.columns)] for row in grid.rows]
        page.section(f"grid-{number}", grid.title, NamedTable(title=grid.title, columns=columns, rows=rows, lead=1))
    page.write(path)
