"""Options of an exploration, their checks, and the command line that repeats it."""

from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from shlex import join
from typing import Annotated, get_args, get_origin, get_type_hints

from cyclopts import Parameter

from xpulpnn.config import DEFAULT_PRESET
from xpulpnn.errors import require
from xpulpnn_sim.exploration.library import NO_WIRES, SCRIPTS
from xpulpnn_sim.exploration.placement import UTILISATION, WIRE_FF_UM
from xpulpnn_sim.exploration.results import Constraint
from xpulpnn_sim.exploration.search import OBJECTIVES
from xpulpnn_sim.exploration.space import CLUSTER, DEBUG_PRESET, WHOLE_CLUSTERS
from xpulpnn_sim.tools.component_names import ALL_TOPS, CLUSTER_NAMES, DEBUG_NAMES, XIF
from xpulpnn_sim.tools.files import STANDARD_OUTPUT, require_writable
from xpulpnn_sim.tools.yosys import CHOICES, VARIABLE

FLOWS = ("asic", "builtin", "ecp5", "ice40")
SMALL_LAYERS = {"conv": "8x8x32:64x3x3", "matmul": "64x288x64"}
"""Default layers of kernels: channels and filters as in the papers, with fewer pixels."""

_LAYERS = " and ".join(f"{name} {layer}" for name, layer in SMALL_LAYERS.items())
DEFAULT_TOP = "ex-stage"
DEFAULT_SEEDS = 3
DEFAULT_TIMEOUT_S = 3600.0
DEFAULT_OUTPUT = Path("build/explore")
_MOST_UTILISATION = 0.95  # cells that fill rows further find no place
MOST_POINTS = 200  # limit without ``yes``
_SWEPT = (
    *("preset", "settings", "sweep", "kernel", "flow", "script", "energy", "general", "sleep"),
    *("baseline", "search", "placement"),
)
"""Options that cannot be combined with ``paper``, which determines them."""

# Sphinx reads annotations without values that are computed in them.
_SCRIPTS = (*SCRIPTS, "both")
_TOP = f"Component (default {DEFAULT_TOP})."
_PRESET = (
    f"Configurations to start from, repeatable (default {DEFAULT_PRESET}; a core's stands for a cluster of such cores "
    "too)."
)
_OBJECTIVE = (
    f"What --search makes small or large: out of {', '.join(OBJECTIVES)}, each with @FLOW if not of the first (default "
    "area and delay, luts and fmax on an FPGA, and cycles with a --kernel)."
)
_FLOW = f"Flows out of {', '.join(FLOWS)} (default asic with --liberty, else builtin)."
_YOSYS = f"Yosys: {CHOICES} (default: {VARIABLE}, or the pinned wheel)."
_KERNEL = (
    "Cycles of a kernel on the RTL of every configuration, such as matmul:8, which takes the fastest variant of each, "
    f"or matmul:8:nn_4x4; repeatable (default layers {_LAYERS})."
)

_Repeated = tuple[str, ...]
_Count = Annotated[int, Parameter(metavar="N")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions:
    """Options of ``xpulpnn explore``; paths, and tuples of one string, may be given as strings."""

    top: Annotated[str | None, Parameter(choices=ALL_TOPS, help=_TOP)] = None
    preset: Annotated[_Repeated, Parameter(help=_PRESET, metavar="LIST")] = ()
    settings: Annotated[_Repeated, Parameter(name="--set", metavar="KEY=VALUE")] = ()
    """Change one parameter of all configurations; repeatable."""
    sweep: Annotated[_Repeated, Parameter(metavar="KEY=V1,V2,...")] = ()
    """Every one of these values with every combination of the others, such as multipliers=shared,replicated or
    widths=16+8,16+8+4+2; repeatable."""
    paper: bool = False
    """Repeat the comparison of Table II of the XpulpNN paper, with a column for the core with the additions; with --top
    cluster that of the clusters."""
    search: _Count | None = None
    """Evaluate N points that Optuna proposes, instead of every combination of --preset and --sweep (without --sweep: of
    all structures that compute the same), and show the best ones."""
    objective: Annotated[str | None, Parameter(help=_OBJECTIVE, metavar="LIST")] = None
    search_seed: _Count = 0
    """Seed of --search."""
    constraint: Annotated[_Repeated, Parameter(metavar="FIGURE<X")] = ()
    """Name the points that break a limit, such as area_kge<60 or clock_mhz>=400, and keep them from the best;
    repeatable."""
    baseline: Annotated[str | None, Parameter(metavar="LABEL")] = None
    """Point that overheads are relative to (default the first)."""
    flow: Annotated[str | None, Parameter(help=_FLOW, metavar="LIST")] = None
    liberty: Annotated[tuple[Path, ...], Parameter(metavar="FILE")] = ()
    """Cell library of the flow asic and of --energy; repeatable: delay, clock and leakage at other corners."""
    wire_load: Annotated[str, Parameter(metavar="NAME")] = NO_WIRES
    """Wire load of the library for mapping, sizing and timing; ``library`` for the one that it chooses by area."""
    memories: Annotated[tuple[Path, ...], Parameter(metavar="FILE")] = ()
    """Macros of the memories of a cluster, in CSV or Liberty, repeatable (default: public ones of SG13G2)."""
    placement: bool = False
    """Place the cells of the flow asic and of --energy for their wires, and size gates and insert buffers for them."""
    utilisation: Annotated[float, Parameter(metavar="SHARE")] = UTILISATION
    """Share of the rows of --placement that cells take."""
    row_height: Annotated[float | None, Parameter(metavar="UM")] = None
    """Height of these rows (default: that in which the smallest NAND2 is twice as high as wide)."""
    wire_capacitance: Annotated[float, Parameter(metavar="FF/UM")] = WIRE_FF_UM
    """Capacitance of wires of --placement, usually 0.1 to 0.2."""
    script: Annotated[str | None, Parameter(choices=_SCRIPTS)] = None
    """Synthesis for area or for speed (default area)."""
    seeds: _Count = DEFAULT_SEEDS
    """Placements on FPGAs, and of --placement."""
    repeat: _Count = 1
    """Map each design N times, with cells and nets in another order each time, and show medians, minima and maxima
    (FPGA flows have --seeds)."""
    clock: Annotated[str | None, Parameter(metavar="NS")] = None
    """Clock to map, size and route for: a period in ns, or a frequency such as 200MHz; adds the slack."""
    yosys: Annotated[str, Parameter(help=_YOSYS, metavar="WHICH", show_default=False)] = ""
    kernel: Annotated[_Repeated, Parameter(help=_KERNEL, metavar="KERNEL:BITS[:VARIANT[:LAYER]]")] = ()
    energy: bool = False
    """Energy of every --kernel, of a cluster on all its cores."""
    general: bool = False
    """Energy of general code too, of a cluster on one core."""
    sleep: bool = False
    """Energy of the core in wfi too, with its clock running and behind a clock gate (clock_gate)."""
    no_energy: bool = False
    """Leave energies and cycles out of --paper."""
    jobs: _Count = 2
    """Processes side by side."""
    dask: Annotated[str, Parameter(metavar="HOST:PORT", show_default=False)] = ""
    """Run on the workers of this Dask scheduler instead."""
    timeout: Annotated[float, Parameter(metavar="S")] = DEFAULT_TIMEOUT_S
    """Seconds after which a step counts as failed."""
    fresh: bool = False
    """Start anew: use nothing that an earlier run left."""
    yes: bool = False
    """Run any number of points."""
    max_points: _Count = MOST_POINTS
    """Points to run at most without --yes."""
    output: Annotated[Path, Parameter(alias="-o", metavar="DIR")] = DEFAULT_OUTPUT
    """Folder of the results."""
    no_report: bool = False
    """Write no HTML report."""
    json: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """Write the result as JSON; - is the standard output."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if isinstance(value, str | Path) and kind not in (str, str | None):
                one = Path(value) if Path in (kind, *get_args(kind)) else value
                object.__setattr__(self, name, (one,) if get_origin(kind) is tuple else one)

    def check(self) -> None:
        for name in ("jobs", "seeds", "repeat", "search", "max_points"):
            number = getattr(self, name)
            require(number is None or number >= 1, f"{name} must be at least 1, not {number}")
        for name, most in (("utilisation", _MOST_UTILISATION), ("row_height", inf), ("wire_capacitance", inf)):
            number = getattr(self, name)
            limit = "" if most == inf else f" and at most {most:g}"
            require(number is None or 0 < number <= most, f"{name} must be above 0{limit}, not {number}")
        for text in self.constraint:
            Constraint(text)
        if self.json != STANDARD_OUTPUT:
            require_writable(self.json, "json")
        swept = next((name for name in _SWEPT if getattr(self, name)), "")
        part = self.component in (*CLUSTER_NAMES, *DEBUG_NAMES, XIF) and self.component not in WHOLE_CLUSTERS
        runs = next((name for name in ("kernel", "energy", "general", "sleep") if getattr(self, name)), "")
        files = [(name, path) for name in ("liberty", "memories") for path in getattr(self, name)]
        absent = next((item for item in files if not item[1].is_file()), None)
        for is_wrong, rule in (
            (self.search_seed < 0, f"search_seed must be at least 0, not {self.search_seed}"),
            (self.search is None and self.objective, "objective must be left out without search"),
            (self.search and self.baseline is not None, "baseline must be left out with search, which proposes points"),
            (not 0 < self.timeout < inf, f"timeout must be positive, not {self.timeout:g}"),
            (self.component not in ALL_TOPS, f"top must be one of {', '.join(ALL_TOPS)}, not {self.top}"),
            (self.script not in (None, *_SCRIPTS), f"script must be one of {', '.join(_SCRIPTS)}, not {self.script}"),
            (absent, "{} must be a file, not {}".format(*absent or ("", ""))),
            (self.memories and self.component not in WHOLE_CLUSTERS, "memories must come with a cluster as top"),
            (self.placement and not self.liberty, "placement must come with liberty, whose cells are placed"),
            (
                self.placement and part and self.component in CLUSTER_NAMES,
                f"placement must be left out with {self.component}",
            ),
            (
                self.paper and self.top not in (None, CLUSTER),
                f"top must be left out or {CLUSTER} with paper, not {self.top}",
            ),
            (self.paper and swept, f"{swept} must be left out with paper"),
            (self.no_energy and not self.paper, "no_energy must be left out without paper"),
            (part and runs, f"{runs} must be left out with {self.component}, which runs no programs"),
            (self.energy and not self.kernel, "energy must come with a kernel, such as conv:8"),
        ):
            require(not is_wrong, rule)

    @property
    def component(self) -> str:
        return self.top or DEFAULT_TOP

    @property
    def presets(self) -> tuple[str, ...]:
        default = {XIF: XIF, **dict.fromkeys(DEBUG_NAMES, DEBUG_PRESET)}.get(self.component, DEFAULT_PRESET)
        return self.preset or (default,)

    @property
    def command(self) -> str:
        words = ["xpulpnn", "explore"]
        for item in fields(self):
            value = getattr(self, item.name)
            if value == item.default:
                continue
            option = option_name(item.name)
            if value is True:
                words.append(option)
            else:
                for text in value if isinstance(value, tuple) else (value,):
                    words += [option, str(text)]
        return join(words)


def option_name(field: str) -> str:
    return "--set" if field == "settings" else f"--{field.replace('_', '-')}"
