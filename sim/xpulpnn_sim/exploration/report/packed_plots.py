"""Tables and plots of sweeps of packed products (several narrow products in one multiplication)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpulpnn_sim.tools.pages import PALETTE, SYMBOLS, Page, Plot, figure
from xpulpnn_sw.kernels.ulppack.packing import ISAS

Record = Mapping[str, Any]  # JSON record of a product


@dataclass(slots=True)
class SweepTable:
    sweep: str
    title: str
    corner: str  # heading of the rows
    rows: list[str] = field(default_factory=list[str])
    columns: list[str] = field(default_factory=list[str])
    texts: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])  # by row and column
    numbers: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])  # plotted values

    def put(self, row: str, column: str, text: str, number: float) -> None:
        for names, name in ((self.rows, row), (self.columns, column)):
            if name not in names:
                names.append(name)
        self.texts[row, column] = text
        self.numbers[row, column] = number


def bytes_cycles(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    return {(record["isa"], record["matmul"]): record["cycles"] for record in records if record["kind"] == "bytes"}


def _pair(record: Record) -> str:
    return f"W{record['weights']}A{record['activations']}"


def _line_name(record: Record) -> str:
    if record["kind"] == "library":
        return f"{record['product']} {record['weights']} bit"
    return f"{record['isa']} {record['product' if record['kind'] == 'ulppack' else 'kind']}"


def _map(sweep: str, title: str) -> SweepTable:
    rows, columns = ([f"{side}{bits}" for bits in range(1, 8)] for side in "WA")
    return SweepTable(sweep, title, "weights", rows, columns)


def _overflow(records: Sequence[Record]) -> list[SweepTable]:
    by_scheme = dict[str, SweepTable]()
    for record in records:
        name = record["scheme"]
        title = f"{name}: largest depth (iterations), each run at the largest operands"
        text = f"{record['most_depth']} ({record['most_iterations']}){'' if record['mismatches'] == 0 else ' wrong'}"
        row, column = f"W{record['weights']}", f"A{record['activations']}"
        by_scheme.setdefault(name, _map("overflow", title)).put(row, column, text, record["most_depth"])
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
            grid = by_rival.setdefault(name, _map("best", title))
            if (row, column) not in grid.texts:
                packing = f"{record['scheme']} {record['depth']} {min(record['iterations'], _SHOWN)}"
                more = "+" if record["iterations"] > _SHOWN else ""
                ratio = cycles / record["cycles"]
                grid.put(row, column, f"{packing}{more} {ratio:.2f}x", ratio)
    return [by_rival[name] for name in (*ISAS, "bit-serial") if name in by_rival]


_SHOWN = 99  # iterations above are shown as this number and "+"


def _iterations(records: Sequence[Record]) -> list[SweepTable]:
    base, by_name = bytes_cycles(records), dict[str, SweepTable]()
    for record in (record for record in records if record["kind"] == "ulppack"):
        name = f"{_pair(record)} {record['isa']} {record['product']} {record['scheme']}"
        grid = by_name.setdefault(name, SweepTable("iter", f"{name}: times faster than bytes", "iterations"))
        ratio = base[record["isa"], record["matmul"]] / record["cycles"]
        grid.put(f"depth {record['depth']}", str(record["iterations"]), f"{ratio:.2f}", ratio)
    for grid in by_name.values():
        grid.columns.sort(key=int)
        grid.rows.sort(key=lambda row: int(row.split()[1]))
    return list(by_name.values())


def _over_bits(records: Sequence[Record]) -> list[SweepTable]:
    """Return the table of cycles per MAC by bit width; byte and library kernels also serve narrower operands."""
    grid = SweepTable("bits", "cycles per MAC at equal widths of weights and activations", "bits")
    rivals = [record for record in records if record["kind"] in ("bytes", "library")]
    for record in records:
        if record not in rivals:
            grid.put(_line_name(record), str(record["weights"]), *_per_mac(record))
    for record in rivals:
        for name in grid.columns:
            if int(name) <= record["weights"]:
                grid.put(_line_name(record), name, *_per_mac(record))
    return [grid]


def _over_length(records: Sequence[Record]) -> list[SweepTable]:
    pairs = dict.fromkeys(_pair(record) for record in records if record["kind"] == "ulppack")
    grid = SweepTable("k", f"cycles per MAC over the reduction length, {', '.join(pairs)}", "K")
    for record in records:
        is_one_of = len(pairs) > 1 and record["kind"] in ("ulppack", "bit-serial")
        name = f"{_pair(record)} {_line_name(record)}" if is_one_of else _line_name(record)
        grid.put(name, record["matmul"].split("x")[1], *_per_mac(record))
    return [grid]


def _per_mac(record: Record) -> tuple[str, float]:
    return f"{record['cycles_per_mac']:.4f}", record["cycles_per_mac"]


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


_DASHES = ("solid", "dot", "dash")  # for lines of the same colour
_BREAK_EVEN_SCALE = [[0.0, "#d55e00"], [0.5, "#ffffff"], [1.0, "#0072b2"]]
_DEPTH_SCALE = [[0.0, "#ffffff"], [1.0, "#56b4e9"]]


def write_packed_plots(path: Path, records: Sequence[Record]) -> None:
    sizes = sorted({record["matmul"] for record in records if record["sweep"] not in ("overflow", "k")})
    note = (
        f"Products of channels x reduction length x pixels ({', '.join(sizes)} unless told otherwise), every one run "
        "on the RTL and compared with numpy; activations are packed beforehand. Bytes: one element in each byte."
    )
    command = "xpulpnn cosim ulppack"
    page = Page(title="Packed products", command=command, writer=command, notes=[note])
    for number, grid in enumerate(grids(records)):
        plotted = _map_figure(grid) if grid.sweep in ("overflow", "best") else _lines_figure(grid)
        page.section(f"grid-{number}", grid.title, Plot(name=f"grid-{number}", variants={(): plotted}))
    page.write(path)


def _map_figure(grid: SweepTable) -> dict[str, Any]:
    is_ratio = grid.sweep == "best"
    # packing above, ratio below
    texts = [
        ["<br>".join(grid.texts.get((row, column), "").rsplit(" ", 1)) for column in grid.columns] for row in grid.rows
    ]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": grid.columns,
        "y": grid.rows,
        "z": [[grid.numbers.get((row, column)) for column in grid.columns] for row in grid.rows],
        "text": texts,
        "texttemplate": "%{text}",
        "textfont": {"size": 11},
        "hoverinfo": "skip",
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "colorscale": _BREAK_EVEN_SCALE if is_ratio else _DEPTH_SCALE,
    }
    # white: no gain, or nothing packed
    trace |= {"zmin": 0.0, "zmid": 1.0, "zmax": 2.0} if is_ratio else {"zmin": 1, "zmax": max(grid.numbers.values())}
    return figure([trace], y={"autorange": "reversed"})


def _lines_figure(grid: SweepTable) -> dict[str, Any]:
    traces: list[dict[str, Any]] = []
    for number, row in enumerate(grid.rows):
        columns = [column for column in grid.columns if (row, column) in grid.numbers]
        dash = _DASHES[number // len(PALETTE) % len(_DASHES)]
        trace = {
            "mode": "lines+markers",
            "name": row,
            "line": {"color": PALETTE[number % len(PALETTE)], "dash": dash},
            "marker": {"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8},
            "x": [int(column) for column in columns],
            "y": [grid.numbers[row, column] for column in columns],
        }
        traces.append(trace)
    x = {"title": {"text": grid.corner}, "tickvals": [int(column) for column in grid.columns]}
    log = {"type": "log"}
    return figure(traces, "", 520, x=x if grid.sweep == "bits" else x | log, y=None if grid.sweep == "iter" else log)
