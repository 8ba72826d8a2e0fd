"""Options of an exploration, their contradictions, and the command line that repeats it."""

from dataclasses import dataclass, fields
from pathlib import Path
from shlex import join

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.top_names import ALL_TOPS, CLUSTER_NAMES

CLUSTER = "cluster"
WHOLE_CLUSTERS = (CLUSTER, "cluster-axi")  # components that are mapped part by part, and run kernels

DEFAULT_TOP = "ex-stage"
DEFAULT_PRESET, DEFAULT_CLUSTER_PRESET = "xpulpnn", "cluster"
DEFAULT_SEEDS = 3
DEFAULT_TIMEOUT_S = 3600.0
DEFAULT_OUTPUT = Path("build/explore")
MOST_POINTS = 200  # points to run without being asked for so many

_SCRIPTS = ("area", "speed", "both")
_SWEPT = ("preset", "settings", "sweep", "kernel", "flow", "script", "energy", "general", "baseline", "search")
"""Options that ``paper`` decides itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions:
    """Options of an exploration, by the names they have on the command line, whose help tells what they mean."""

    top: str | None = None  # component, one of the names of `xpulpnn generate`; None: the EX stage
    preset: tuple[str, ...] = ()  # to start from, each one or several with commas; empty: `xpulpnn`, or `cluster`
    settings: tuple[str, ...] = ()  # `KEY=VALUE` for all points
    sweep: tuple[str, ...] = ()  # `KEY=V1,V2,...` whose combinations are the points
    paper: bool = False  # repeat Table II of the XpulpNN paper; with the component `cluster` that of the clusters
    search: int | None = None  # points that Optuna proposes, instead of all combinations
    objective: str | None = None  # what the search makes small or large, with commas
    search_seed: int = 0
    baseline: str | None = None  # label of the point that overheads are relative to; None: the first
    flow: str | None = None  # of FLOWS, with commas; None: `asic` with `liberty`, else `builtin`
    liberty: Path | None = None  # cell library
    script: str | None = None  # `area` (None), `speed` or `both`
    seeds: int = DEFAULT_SEEDS  # FPGA placements
    repeat: int = 1  # mappings of each design in different orders
    clock: str | None = None  # period in ns, or a frequency such as `200MHz`
    yosys: str = ""  # `native`, `wheel` or a path; empty: the wheel
    kernel: tuple[str, ...] = ()  # `KERNEL:BITS:VARIANT[:LAYER]`
    energy: bool = False  # of every kernel
    general: bool = False  # energy of general code
    no_energy: bool = False  # neither energies nor cycles with `paper`
    jobs: int = 2  # processes
    dask: str = ""  # address of a Dask scheduler whose workers take their place
    timeout: float = DEFAULT_TIMEOUT_S  # seconds after which a step counts as failed
    fresh: bool = False  # use no older result, and remove what is in the folder
    yes: bool = False  # run any number of points
    max_points: int = MOST_POINTS  # points to run at most without `yes`
    output: Path = DEFAULT_OUTPUT  # folder of the results
    no_report: bool = False  # write no HTML report
    json: Path | None = None  # a further file for the results as JSON

    def check(self) -> None:
        """Raise :class:`InputError` for options that cannot be met, whatever the others say."""
        for name in ("jobs", "seeds", "repeat", "search", "max_points"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InputError(f"{name} must be at least 1, not {number}")
        swept = next((name for name in _SWEPT if getattr(self, name)), "")
        part = self.component in CLUSTER_NAMES and self.component not in WHOLE_CLUSTERS
        runs = next((name for name in ("kernel", "energy", "general") if getattr(self, name)), "")
        for is_wrong, rule in (
            (self.search_seed < 0, f"search_seed must be at least 0, not {self.search_seed}"),
            (self.search is None and self.objective, "objective must be left out without search"),
            (self.search and self.baseline is not None, "baseline must be left out with search, which proposes points"),
            (not self.timeout > 0, f"timeout must be positive, not {self.timeout:g}"),
            (self.component not in ALL_TOPS, f"top must be one of {', '.join(ALL_TOPS)}, not {self.top}"),
            (self.script not in (None, *_SCRIPTS), f"script must be one of {', '.join(_SCRIPTS)}, not {self.script}"),
            (self.liberty and not self.liberty.is_file(), f"liberty must be a file, not {self.liberty}"),
            (
                self.paper and self.top not in (None, CLUSTER),
                f"top must be left out or {CLUSTER} with paper, not {self.top}",
            ),
            (self.paper and swept, f"{swept} must be left out with paper"),
            (self.no_energy and not self.paper, "no_energy must be left out without paper"),
            (part and runs, f"{runs} must be left out with {self.component}, which runs no programs"),
            (self.energy and not self.kernel, "energy must come with a kernel whose energy it is"),
        ):
            if is_wrong:
                raise InputError(rule)

    @property
    def component(self) -> str:
        """Name of the component."""
        return self.top or DEFAULT_TOP

    @property
    def presets(self) -> tuple[str, ...]:
        """Presets to start from, as they are given."""
        return self.preset or ((DEFAULT_CLUSTER_PRESET,) if self.component in CLUSTER_NAMES else (DEFAULT_PRESET,))

    @property
    def command(self) -> str:
        """The command that repeats a run, defaults left out."""
        words = ["xpulpnn", "explore"]
        for item in fields(self):
            value = getattr(self, item.name)
            if value == item.default:
                continue
            option = f"--{item.name.replace('settings', 'set').replace('_', '-')}"
            if value is True:
                words.append(option)
            else:
                for one in value if isinstance(value, tuple) else (value,):
                    words += [option, str(one)]
        return join(words)
