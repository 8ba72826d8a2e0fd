"""``xpulpnn explore``: area, timing, energy and cycles of configurations, side by side."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.config import DEFAULT_PRESET
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.cli.common import FAILED, INTERRUPTED, OK, progress_bar, remark, tell, write_json
from xpulpnn_sim.cli.options import (
    Count,
    Dask,
    Fresh,
    Jobs,
    Json,
    Natural,
    Repeated,
    Seconds,
    Timeout,
    YosysChoice,
    arguments,
    command,
)
from xpulpnn_sim.exploration.exploration import Watcher, explore
from xpulpnn_sim.exploration.finished_run import FILES, REPORT
from xpulpnn_sim.exploration.flows import FLOWS, SMALL_LAYERS
from xpulpnn_sim.exploration.library import SCRIPTS
from xpulpnn_sim.exploration.options import (
    DEFAULT_OUTPUT,
    DEFAULT_SEEDS,
    DEFAULT_TIMEOUT_S,
    DEFAULT_TOP,
    MOST_POINTS,
    ExploreOptions,
)
from xpulpnn_sim.exploration.search import OBJECTIVES
from xpulpnn_sim.exploration.task import POINTS
from xpulpnn_sim.tools.top_names import ALL_TOPS

_LAYERS = " and ".join(f"{name} {layer}" for name, layer in SMALL_LAYERS.items())


@arguments
class ExploreArguments(Jobs, Dask, Timeout, Fresh, YosysChoice, Json):
    """Options of the command, by the names they have in :class:`ExploreOptions`."""

    top: Annotated[str | None, Parameter(choices=ALL_TOPS, help=f"Component (default {DEFAULT_TOP}).")] = None
    preset: Annotated[
        Repeated,
        Parameter(
            help=f"Configurations to start from, repeatable (default {DEFAULT_PRESET}; a core's "
            "stands for a cluster of such cores too).",
            metavar="LIST",
        ),
    ] = ()
    settings: Annotated[Repeated, Parameter(name="--set", metavar="KEY=VALUE")] = ()
    """Change one parameter in all of them; repeatable."""
    sweep: Annotated[Repeated, Parameter(metavar="KEY=V1,V2,...")] = ()
    """Every one of these values with every combination of the others, such as multipliers=shared,replicated or
    widths=16+8,16+8+4+2; repeatable."""
    paper: bool = False
    """Repeat the comparison of Table II of the XpulpNN paper, with a column for the core with the additions; with --top
    cluster that of the clusters."""
    search: Count | None = None
    """Evaluate N points that Optuna proposes, instead of every combination of --preset and --sweep (without --sweep: of
    all structures that compute the same), and show the best ones."""
    objective: Annotated[
        str | None,
        Parameter(
            help=f"What --search makes small or large: out of {', '.join(OBJECTIVES)}, each with @FLOW if not of the "
            f"first (default area and delay, luts and fmax on an FPGA, and cycles with a --kernel).",
            metavar="LIST",
        ),
    ] = None
    search_seed: Natural = 0
    """Seed of --search."""
    baseline: Annotated[str | None, Parameter(metavar="LABEL")] = None
    """Point that overheads are relative to (default the first)."""
    flow: Annotated[
        str | None,
        Parameter(help=f"Flows out of {', '.join(FLOWS)} (default asic with --liberty, else builtin).", metavar="LIST"),
    ] = None
    liberty: Path | None = None
    """Cell library of the flow asic and of --energy."""
    script: Annotated[str | None, Parameter(choices=(*SCRIPTS, "both"))] = None
    """Synthesis for area or for speed (default area)."""
    seeds: Count = DEFAULT_SEEDS
    """FPGA placements."""
    repeat: Count = 1
    """Map each design N times, its cells and nets in another order each time; medians with least and largest figures
    (FPGA flows have --seeds)."""
    clock: Annotated[str | None, Parameter(metavar="NS")] = None
    """Period in ns, or frequency as in 200MHz, to map, size and route for; adds the slack."""
    kernel: Annotated[
        Repeated,
        Parameter(
            help="Cycles of a kernel on the RTL of every configuration, such as matmul:8, which takes the fastest "
            f"variant of each, or matmul:8:nn_4x4; repeatable (default layers {_LAYERS}).",
            metavar="KERNEL:BITS[:VARIANT[:LAYER]]",
        ),
    ] = ()
    energy: bool = False
    """Energy of every --kernel; of a cluster that of one core."""
    general: bool = False
    """Energy of general code on the core too."""
    no_energy: bool = False
    """Leave energies and cycles out of --paper."""
    timeout: Seconds = DEFAULT_TIMEOUT_S
    """Seconds after which a step counts as failed."""
    yes: bool = False
    """Run any number of points."""
    max_points: Count = MOST_POINTS
    """Points to run at most without --yes."""
    output: Annotated[Path, Parameter(alias="-o", metavar="DIR")] = DEFAULT_OUTPUT
    """Folder of the results."""
    no_report: bool = False
    """Write no HTML report."""


_NAMES = "|".join(one.name for one in fields(ExploreOptions))
# fields at the beginning of a rule, and those that are no words
_FIELD = re.compile(rf"^({_NAMES})(?= must)|\b(max_points|no_energy|search_seed|yes)\b")


def _option(found: re.Match[str]) -> str:
    return f"--{found[0].replace('settings', 'set').replace('_', '-')}"


@command
def explore_command(typed: ExploreArguments) -> int:
    """Run every point; fails if one does."""
    options = ExploreOptions(**vars(typed))
    with progress_bar("steps", None) as bar:

        def begun(label: str, step: str) -> None:
            bar.describe(f"{label}: {step}")

        def expect(total: int) -> None:
            bar.progress.update(bar.task, total=total)

        def done(_label: str, _step: str) -> None:
            bar.advance()

        try:
            finished = explore(options, Watcher(remark=remark, expect=expect, begun=begun, done=done, left=bar.end_in))
        except InputError as error:
            # below they are fields
            raise InputError(_FIELD.sub(_option, str(error))) from None
    write_json(options.json, finished.record())
    tell(*finished.shown())
    files = [*FILES[:2], f"{POINTS}/", *([] if options.no_report else [REPORT])]
    tell(f"{options.output}: {', '.join(files)}")
    if finished.lost:
        raise ToolError(finished.lost)
    if finished.interrupted:
        return INTERRUPTED
    return FAILED if any(result.error for result in finished.points) else OK
