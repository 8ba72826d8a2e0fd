"""Structures of the dot-product unit side by side: area, delay, and cycles of a kernel on the same hardware.

python examples/sweep/sweep.py          # a table, and build/sweep/report.html
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from xpulpnn_sim import ExploreOptions, explore
from xpulpnn_sim.exploration.results import PointResult

KERNEL = "matmul:8:xpulpv2_4x2:16x64x16"


def macs_per_second(point: PointResult) -> float:
    """Rate of the kernel at the longest delay of the dot-product unit alone, which no core reaches."""
    period_s = point.flows[0].delay_ps / 1e12
    return point.kernels[0]["macs_per_cycle"] / period_s


def main() -> None:
    """Explore, and show what comes out in a table of our own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--widths", default="8,16+8+4+2", metavar="LIST", help="widths to compare")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/sweep"), metavar="DIR", help="folder")
    arguments = parser.parse_args()
    finished = explore(
        ExploreOptions(
            top="dotp",
            preset="xpulpnn",
            sweep=(f"widths={arguments.widths}", "multipliers=shared,replicated"),
            kernel=(KERNEL,),
            output=arguments.output,
        )
    )
    table = Table(title=f"dot-product units, {KERNEL}", title_justify="left", box=None)
    for heading in ("configuration", "kGE", "FO4", "MAC/cycle", "GMAC/s"):
        table.add_column(heading, justify="left" if heading == "configuration" else "right")
    for point in finished.points:
        if point.error:
            table.add_row(point.label, point.error)
            continue
        flow = point.flows[0]
        record = point.kernels[0] if point.kernels else None
        rate = "-" if record is None else f"{macs_per_second(point) / 1e9:.2f}"
        table.add_row(
            point.label,
            f"{flow.area_kge:.2f}",
            f"{flow.delay_fo4:.1f}",
            "-" if record is None else f"{record['macs_per_cycle']:.2f}",
            rate,
        )
    Console().print(table)
    print(arguments.output / "report.html")


if __name__ == "__main__":
    main()
