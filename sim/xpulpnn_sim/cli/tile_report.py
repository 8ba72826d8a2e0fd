"""Layers in tiles on the terminal: the division, the memory it takes, and what was computed and moved when."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from xpulpnn_sim.cli.common import table

_SHOWN = 12  # steps that are shown at most: those of the beginning and of the end

_COLUMNS = (
    *("tile", "rows", "channels", "begin", "computed", "end"),
    *("waiting", "loaded", "stored", "moving"),
)


def print_tiles(console: Console, record: Mapping[str, Any]) -> None:
    """Print how the layer of a record was divided, and its steps."""
    tiling = record["tiling"]
    unit = tiling["unit"]
    how = "two buffers for what changes" if tiling["overlap"] else "one buffer each, nothing moved meanwhile"
    text = (
        f"{record['kernel']} {record['layer']} {record['precision']} {record['variant']} on {record['cores']} cores: "
        f"{tiling['tiles']} tiles of {tiling['rows']} {unit} and {tiling['channels']} channels, {how}\n"
        f"TCDM, {tiling['tcdm_bytes']} bytes: "
        + ", ".join(f"{place['name']} {place['bytes']} at 0x{place['address']:08x}" for place in tiling["tcdm"])
        + f"\nDMA: {tiling['loaded']} bytes in, {tiling['stored']} out in {tiling['moving']} cycles, "
        f"{tiling['bytes_per_cycle']:.2f} bytes per cycle; of {record['cycles']} cycles {tiling['computing']} with "
        f"computing, {tiling['waiting']} waiting for DMA alone"
    )
    console.print()
    console.print(text, markup=False, soft_wrap=True, highlight=False)
    console.print(_steps(tiling["steps"], unit))


def _steps(steps: list[Mapping[str, Any]], unit: str) -> Table:
    rows = [[_text(step[name]) for name in _COLUMNS] for step in steps]
    if len(rows) > _SHOWN:
        half = _SHOWN // 2
        rows[half:-half] = [[f"... {len(rows) - _SHOWN} steps"]]
    title = (
        "steps from barrier to barrier, cycles from the first one: last core done, all moved; waiting: for DMA alone; "
        "bytes loaded and stored meanwhile; moving: cycles with DMA transfers"
    )
    return table([unit if name == "rows" else name for name in _COLUMNS], rows, title=title)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"{value[0]}..{value[1] - 1}" if value else "-"
    return "-" if value is None else str(value)
