"""Options of ``xpulpnn explore`` with their help."""

import argparse
from pathlib import Path

from xpulpnn_sim.commands.common import add_json
from xpulpnn_sim.commands.yosys_option import add_yosys
from xpulpnn_sim.explorer.flows import FLOWS
from xpulpnn_sim.explorer.kernels import SMALL_LAYERS
from xpulpnn_sim.explorer.mapping import SCRIPTS
from xpulpnn_sim.explorer.objectives import OBJECTIVES
from xpulpnn_sim.explorer.options import (
    DEFAULT_CLUSTER_PRESET,
    DEFAULT_OUTPUT,
    DEFAULT_PRESET,
    DEFAULT_SEEDS,
    DEFAULT_TIMEOUT_S,
    DEFAULT_TOP,
    MOST_POINTS,
)
from xpulpnn_sim.top_names import ALL_TOPS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    space = parser.add_argument_group("configurations")
    space.add_argument("--top", metavar="TOP", help=f"component: {', '.join(ALL_TOPS)} (default {DEFAULT_TOP})")
    space.add_argument(
        "--preset",
        action="append",
        metavar="LIST",
        help=f"configurations to start from, repeatable (default {DEFAULT_PRESET}, of clusters "
        f"{DEFAULT_CLUSTER_PRESET}; a core's stands for a cluster of such cores too)",
    )
    space.add_argument(
        "--set",
        action="append",
        dest="settings",
        metavar="KEY=VALUE",
        help="change one parameter in all of them; repeatable",
    )
    space.add_argument(
        "--sweep",
        action="append",
        metavar="KEY=V1,V2,...",
        help="every one of these values with every combination of the others, such as multipliers=shared,replicated "
        "or widths=16+8,16+8+4+2; repeatable",
    )
    space.add_argument(
        "--paper",
        action="store_true",
        help="repeat the comparison of Table II of the XpulpNN paper, with a column for the core with the additions; "
        "with --top cluster that of the clusters",
    )
    space.add_argument(
        "--search",
        type=int,
        metavar="N",
        help="evaluate N points that Optuna proposes, instead of every combination of --preset and --sweep (without "
        "--sweep: of all structures that compute the same), and show the best ones",
    )
    space.add_argument(
        "--objective",
        metavar="LIST",
        help=f"what --search makes small or large: out of {','.join(OBJECTIVES)}, each with @FLOW if not of the first "
        "(default area and delay, luts and fmax on an FPGA, and cycles with a --kernel)",
    )
    space.add_argument("--search-seed", type=int, default=0, metavar="S", help="seed of --search (default 0)")
    space.add_argument("--baseline", metavar="LABEL", help="point that overheads are relative to (default the first)")
    what = parser.add_argument_group("figures")
    what.add_argument(
        "--flow",
        metavar="LIST",
        help=f"out of {','.join(FLOWS)} (default asic with --liberty, else builtin)",
    )
    what.add_argument("--liberty", type=Path, metavar="FILE", help="cell library of the flow asic and of --energy")
    what.add_argument("--script", choices=(*SCRIPTS, "both"), help="synthesis for area or for speed (default area)")
    what.add_argument(
        "--seeds", type=int, default=DEFAULT_SEEDS, metavar="N", help=f"FPGA placements (default {DEFAULT_SEEDS})"
    )
    what.add_argument(
        "--repeat",
        type=int,
        default=1,
        metavar="N",
        help="map each design N times, its cells and nets in another order each time; medians with least and largest "
        "figures (default 1; FPGA flows have --seeds)",
    )
    what.add_argument(
        "--clock",
        metavar="NS",
        help="period in ns, or frequency as in 200MHz, to map, size and route for; adds the slack",
    )
    add_yosys(what)
    what.add_argument(
        "--kernel",
        action="append",
        metavar="KERNEL:BITS:VARIANT[:LAYER]",
        help="cycles of a kernel on the RTL of every configuration, such as matmul:8:nn_4x4; repeatable (default "
        f"layers {' and '.join(f'{name} {layer}' for name, layer in SMALL_LAYERS.items())})",
    )
    what.add_argument("--energy", action="store_true", help="energy of every --kernel; of a cluster that of one core")
    what.add_argument("--general", action="store_true", help="energy of general code on the core too")
    what.add_argument("--no-energy", action="store_true", help="leave energies and cycles out of --paper")
    how = parser.add_argument_group("run")
    how.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    how.add_argument("--dask", default="", metavar="ADDRESS", help="run on the workers of this Dask scheduler instead")
    how.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        metavar="S",
        help=f"seconds after which a step counts as failed (default {DEFAULT_TIMEOUT_S:g})",
    )
    how.add_argument(
        "--fresh", action="store_true", help="remove what earlier runs left in the folder, and use no older result"
    )
    how.add_argument("--yes", action="store_true", help="run any number of points")
    how.add_argument(
        "--max-points",
        type=int,
        default=MOST_POINTS,
        metavar="N",
        help=f"points to run at most without --yes (default {MOST_POINTS})",
    )
    how.add_argument(
        "-o",
        "--output",
        type=Path,
        default=DEFAULT_OUTPUT,
        metavar="DIR",
        help=f"folder of the results (default {DEFAULT_OUTPUT})",
    )
    how.add_argument("--no-report", action="store_true", help="write no HTML report")
    add_json(parser)
