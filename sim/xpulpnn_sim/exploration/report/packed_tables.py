"""Tables of sweeps of packed products (several narrow products in one multiplication)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from xpulpnn_sim.tools.named_table import NamedTable, text_columns
from xpulpnn_sim.tools.pages import Page
from xpulpnn_sw.kernels.ulppack.packing import ISAS

Record = Mapping[str, Any]  # JSON record of a product
SweepCell = tuple[str, str, str, str]
"""Title of the table, row, column and text of a cell; the first text of a place counts."""

_SHOWN = 99  # iterations above are shown as this number and "+"
_WIDTHS = [[f"{side}{bits}" for bits in range(1, 8)] for side in "WA"]  # rows and columns of the maps


def bytes_cycles(records: Iterable[Record]) -> dict[tuple[str, str], int]:
    return {(record["isa"], record["matmul"]): record["cycles"] for record in records if record["kind"] == "bytes"}


def _pair(record: Record) -> tuple[str, str]:
    return f"W{record['weights']}", f"A{record['activations']}"


def _line_name(record: Record) -> str:
    if record["kind"] == "library":
        return f"{record['product']} {record['weights']} bit"
    return f"{record['isa']} {record['product' if record['kind'] == 'ulppack' else 'kind']}"


def _overflow(records: Sequence[Record]) -> Iterator[SweepCell]:
    for record in records:
        title = f"{record['scheme']}: largest depth (iterations), each run at the largest operands"
        wrong = " wrong" * (record["mismatches"] != 0)
        yield title, *_pair(record), f"{record['most_depth']} ({record['most_iterations']}){wrong}"


def _best(records: Sequence[Record]) -> Iterator[SweepCell]:
    base = bytes_cycles(records)
    serial = {_pair(record): record["cycles"] for record in records if record["kind"] == "bit-serial"}
    packed = sorted(_packed(records), key=lambda record: record["cycles"])
    rivals = [*((isa, "bytes") for isa in ISAS), ("xpulpv2", "bit-serial")]
    for (isa, rival), record in product(rivals, packed):
        if record["isa"] == isa:
            cycles = base[isa, record["matmul"]] if rival == "bytes" else serial[_pair(record)]
            title = f"{isa}: the fastest packing, depth, iterations, and how many times faster than {rival}"
            iterations = f"{_SHOWN}+" if record["iterations"] > _SHOWN else record["iterations"]
            faster = f"{cycles / record['cycles']:.2f}x"
            yield title, *_pair(record), f"{record['scheme']} {record['depth']} {iterations} {faster}"


def _packed(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["kind"] == "ulppack"]


def _iterations(records: Sequence[Record]) -> Iterator[SweepCell]:
    base = bytes_cycles(records)
    for record in _packed(records):
        name = f"{''.join(_pair(record))} {record['isa']} {record['product']} {record['scheme']}"
        ratio = base[record["isa"], record["matmul"]] / record["cycles"]
        row, column = f"depth {record['depth']}", str(record["iterations"])
        yield f"{name}: times faster than bytes", row, column, f"{ratio:.2f}"


def _over_bits(records: Sequence[Record]) -> Iterator[SweepCell]:
    """Yield the cycles per MAC by bit width; byte and library kernels also serve narrower operands."""
    title = "cycles per MAC at equal widths of weights and activations"
    rivals = [record for record in records if record["kind"] in ("bytes", "library")]
    others = [record for record in records if record not in rivals]
    for record in others:
        yield title, _line_name(record), str(record["weights"]), _per_mac(record)
    for record, width in product(rivals, {record["weights"] for record in others}):
        if width <= record["weights"]:
            yield title, _line_name(record), str(width), _per_mac(record)


def _over_length(records: Sequence[Record]) -> Iterator[SweepCell]:
    pairs = dict.fromkeys("".join(_pair(record)) for record in _packed(records))
    title = f"cycles per MAC over the reduction length, {', '.join(pairs)}"
    for record in records:
        is_one_of = len(pairs) > 1 and record["kind"] in ("ulppack", "bit-serial")
        name = f"{''.join(_pair(record))} {_line_name(record)}" if is_one_of else _line_name(record)
        yield title, name, record["matmul"].split("x")[1], _per_mac(record)


def _per_mac(record: Record) -> str:
    return f"{record['cycles_per_mac']:.4f}"


_SWEEPS: Mapping[str, tuple[str, Callable[[Sequence[Record]], Iterator[SweepCell]]]] = {
    "overflow": ("weights", _overflow),
    "best": ("weights", _best),
    "iter": ("iterations", _iterations),
    "bits": ("bits", _over_bits),
    "k": ("K", _over_length),
}
"""Heading of the rows, and cells, of the tables of each sweep."""


def sweep_tables(records: Sequence[Record]) -> Iterator[NamedTable]:
    for sweep, (corner, cells) in _SWEEPS.items():
        by_title: dict[str, dict[tuple[str, str], str]] = {}
        for title, row, column, text in cells([record for record in records if record["sweep"] == sweep]):
            by_title.setdefault(title, {}).setdefault((row, column), text)
        for title, texts in by_title.items():
            rows, columns = _WIDTHS
            if corner != "weights":
                rows, columns = dict.fromkeys(row for row, _ in texts), sorted({column for _, column in texts}, key=int)
            shown = [[row, *(texts.get((row, column)) for column in columns)] for row in rows]
            yield NamedTable(title=title, columns=text_columns(corner, *columns), rows=shown, lead=1)


def write_packed_tables(path: Path, records: Sequence[Record]) -> None:
    sizes = sorted({record["matmul"] for record in records if record["sweep"] not in ("overflow", "k")})
    note = (
        f"Products of channels x reduction length x pixels ({', '.join(sizes)} unless told otherwise), every one run "
        "on the RTL and compared with numpy; activations are packed beforehand. Bytes: one element in each byte."
    )
    command = "xpulpnn cosim ulppack"
    page = Page(title="Packed products", command=command, writer=command, notes=[note])
    for number, table in enumerate(sweep_tables(records)):
        page.section(f"grid-{number}", table.title, table)
    page.write(path)
