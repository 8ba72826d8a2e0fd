"""Options and tables of kernels on clusters, with the steps of tiled layers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from xpulpnn.config import Arbiter, ClusterConfig
from xpulpnn_sim.api.cosimulation import cluster_cases
from xpulpnn_sim.cli.common import Columns, plain, quotient, record_table, table, tell
from xpulpnn_sim.cli.configurations import IDEAL, Icache
from xpulpnn_sim.cli.options import Count, Jobs, Numbers, Report, arguments, listed
from xpulpnn_sim.cosimulation.model.schema import DeviceWait
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sim.exploration.report.cluster_plots import bank_gains, speed_ups, write_cluster_plots
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sw.kernels.layout import PLACEMENTS, Placement
from xpulpnn_sw.kernels.programs.tiled import Tiling

_SHOWN = 12  # steps shown of a tiled layer, from its start and end
_STEPS = ("tile", "rows", "channels", "begin", "computed", "end", "waiting", "loaded", "stored", "moving")


def print_tiles(record: Mapping[str, Any]) -> None:
    tiling = record["tiling"]
    unit = tiling["unit"]
    buffers = "two buffers for what changes" if tiling["overlap"] else "one buffer each, nothing moved meanwhile"
    text = (
        f"{record['kernel']} {record['layer']} {record['precision']} {record['variant']} on {record['cores']} cores: "
        f"{tiling['tiles']} tiles of {tiling['rows']} {unit} and {tiling['channels']} channels, {buffers}\n"
        f"TCDM, {tiling['tcdm_bytes']} bytes: "
        + ", ".join(f"{buffer['name']} {buffer['bytes']} at 0x{buffer['address']:08x}" for buffer in tiling["tcdm"])
        + f"\nDMA: {tiling['loaded']} bytes in, {tiling['stored']} out in {tiling['moving']} cycles, "
        f"{tiling['bytes_per_cycle']:.2f} bytes per cycle; of {record['cycles']} cycles {tiling['computing']} with "
        f"computing, {tiling['waiting']} waiting for DMA alone"
    )
    tell("", text, _steps(tiling["steps"], unit))


def _steps(steps: list[Mapping[str, Any]], unit: str) -> TerminalTable:
    rows = [[_text(step[name]) for name in _STEPS] for step in steps]
    if len(rows) > _SHOWN:
        half = _SHOWN // 2
        rows[half:-half] = [[f"... {len(rows) - _SHOWN} steps"]]
    title = (
        "steps from barrier to barrier, cycles from the first one: last core done, all moved; waiting: for DMA alone; "
        "bytes loaded and stored meanwhile; moving: cycles with DMA transfers"
    )
    return table([unit if name == "rows" else name for name in _STEPS], rows, title=title)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"{value[0]}..{value[1] - 1}" if value else "-"
    return "-" if value is None else str(value)


_MILLION = 1e6
_CONFLICT = DeviceWait.BANK_CONFLICT.name.lower()  # stalls by bank conflicts


@arguments
class ClusterRuns(Jobs, Report):
    cores: Numbers = ()
    """Run on clusters of so many cores, such as 8, or 1,2,4,8; without it one core runs by itself, with its own
    memory."""
    banks: Numbers = ()
    """Banks of the clusters' shared memory (default 16)."""
    arbiter: Annotated[
        tuple[str, ...], listed(get_args(Arbiter), "Who is granted a bank that several want (default counter)")
    ] = ()
    placement: Annotated[tuple[str, ...], listed(PLACEMENTS)] = PLACEMENTS[:1]
    """Places of weight streams, buffers and stacks of the cores in the banks: padded, each two banks further than
    the one before, or aligned, all from the same bank on."""
    icache: Icache | None = None
    """Give each core of a cluster an instruction cache of so many bytes, and show the kernel's second pass; without it,
    or with ideal, instructions are fetched without delay."""
    l2_latency: Count = 1
    """Cycles the memory outside a cluster takes to answer."""
    tile_rows: Count | None = None
    """Compute tiles of N output rows (matmul: pixels) on a cluster, with operands in external memory that the DMA
    moves. Without options for tiles only a layer that does not fit into the TCDM has tiles, the fastest ones."""
    tile_channels: Count | None = None
    """Compute tiles of N output channels on a cluster, as with --tile-rows."""
    no_overlap: bool = False
    """Move no data while a tile is computed, so that one buffer per operand suffices."""

    @property
    def tiling(self) -> Tiling | None:
        if self.tile_rows is None and self.tile_channels is None and not self.no_overlap:
            return None
        return Tiling(rows=self.tile_rows, channels=self.tile_channels, overlap=not self.no_overlap)

    def on_clusters(self, cluster: ClusterConfig, cases: Sequence[Case]) -> list[Case]:
        cluster = replace(cluster, icache_private=self.icache or 0)
        arbiters = cast("Sequence[Arbiter]", self.arbiter)
        placements = cast("Sequence[Placement]", self.placement)
        return cluster_cases(cases, cluster, self.cores, self.banks, arbiters, placements)


def show_clusters(records: Sequence[Mapping[str, Any]], report: Path | None) -> None:
    tell(_table(records))
    for record in records:
        if "tiling" in record:
            print_tiles(record)
    if report is not None:
        write_cluster_plots(report, records)


KERNEL: Columns = plain("layer", "precision", "variant")
RUN: Columns = {"errors": "{[mismatches]}", "Mcyc/s": lambda record: f"{record['sim_cycles_per_s'] / _MILLION:.2f}"}
"""Last columns of all tables of kernels."""

_COLUMNS: Columns = {
    **KERNEL,
    **plain("banks", "arbiter", "placement"),
    "icache": lambda record: record["icache"] or IDEAL,
    **plain("cores", "cycles"),
    "cyc/sdotp": "{[cycles_per_sdotp]:.3f}",
    "MAC/cyc": "{[macs_per_cycle]:.2f}",
    "speed-up": lambda record: quotient(record["speed-up"], 1),
    "conflicts": lambda record: _share(record, record["stalls"].get(_CONFLICT, 0)),
    "last core": lambda record: _share(record, record["barrier"]),
    **RUN,
}


def _table(records: Sequence[Mapping[str, Any]]) -> TerminalTable:
    title = (
        "cycles, MAC per cycle: whole kernel, from barrier to barrier; conflicts in banks, waiting for the last "
        "core: share of all cores' cycles"
    )
    gains = bank_gains(records)
    columns = dict(_COLUMNS)
    if any(gain is not None for gain in gains):
        title = f"{title}; 2x banks: cycles per sdotp with half as many over those here"
        columns["2x banks"] = lambda record: "-" if record["gain"] is None else f"{record['gain']:+.1%}"
    known = zip(records, speed_ups(records), gains, strict=True)
    shown = ({**record, "speed-up": speed_up, "gain": gain} for record, speed_up, gain in known)
    return record_table(columns, shown, title=title)


def _share(record: Mapping[str, Any], cycles: int) -> str:
    return f"{cycles / max(record['cores'] * record['cycles'], 1):.1%}"
