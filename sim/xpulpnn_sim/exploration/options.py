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

_SWEPT = ("preset", "settings", "sweep", "kernel", "flow", "script", "energy", "general", "baseline", "search")
"""Options that ``paper`` decides itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions:
    """Options of an exploration; by their names on the command line, where each stands with its help.

    Parameters
    ----------
    top : str or None
        Component, one of the names of ``xpulpnn generate``; None: the EX stage.
    preset : tuple of str
        Presets to start from, each one or several with commas; empty: ``xpulpnn``, or
        ``cluster``.
    settings, sweep : tuple of str
        ``KEY=VALUE`` for all points; ``KEY=V1,V2,...`` whose combinations are the points.
    paper : bool
        Repeat the comparison of Table II of the XpulpNN paper, with the core with the additions beside it; with the
        component ``cluster`` that of the clusters.
    search : int or None
        Points that Optuna proposes, instead of all combinations.
    objective : str or None
        What the search makes small or large, with commas.
    search_seed : int
        Seed of the search.
    baseline : str or None
        Label of the point that overheads are relative to; None: the first.
    flow : str or None
        ``builtin``, ``asic``, ``ecp5`` or ``ice40``, with commas; None: ``asic`` with ``liberty``, else ``builtin``.
    liberty : Path or None
        Cell library.
    script : str or None
        ``area`` (None), ``speed`` or ``both``.
    seeds, repeat : int
        FPGA placements; mappings of each design in different orders.
    clock : str or None
        Period in ns, or a frequency such as ``200MHz``.
    yosys : str
        ``native``, ``wheel`` or a path; empty: the wheel.
    kernel : tuple of str
        ``KERNEL:BITS:VARIANT[:LAYER]``.
    energy, general, no_energy : bool
        Energy of every kernel; of general code; neither energies nor cycles with ``paper``.
    jobs : int
        Processes.
    dask : str
        Address of a Dask scheduler whose workers take their place.
    timeout : float
        Seconds after which a step counts as failed.
    fresh : bool
        Use no older result, and remove what is in the folder.
    yes : bool
        Run any number of points.
    max_points : int
        Points to run at most without ``yes``.
    output : Path
        Folder of the results.
    no_report : bool
        Write no HTML report.
    json : Path or None
        A further file for the results as JSON.
    """

    top: str | None = None
    preset: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()
    paper: bool = False
    search: int | None = None
    objective: str | None = None
    search_seed: int = 0
    baseline: str | None = None
    flow: str | None = None
    liberty: Path | None = None
    script: str | None = None
    seeds: int = DEFAULT_SEEDS
    repeat: int = 1
    clock: str | None = None
    yosys: str = ""
    kernel: tuple[str, ...] = ()
    energy: bool = False
    general: bool = False
    no_energy: bool = False
    jobs: int = 2
    dask: str = ""
    timeout: float = DEFAULT_TIMEOUT_S
    fresh: bool = False
    yes: bool = False
    max_points: int = MOST_POINTS
    output: Path = DEFAULT_OUTPUT
    no_report: bool = False
    json: Path | None = None

    def check(self) -> None:
        """Raise :class:`InputError` for options that cannot be met, whatever the others say."""
        for name in ("jobs", "seeds", "repeat", "search", "max_points"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1, not {number}")
        if self.search_seed < 0:
            raise InputError(f"--search-seed must be at least 0, not {self.search_seed}")
        if self.search is None and self.objective:
            raise InputError("--objective must be left out without --search")
        if self.search is not None and self.baseline is not None:
            raise InputError("--baseline must be left out with --search, which proposes the points")
        if not self.timeout > 0:
            raise InputError(f"--timeout must be positive, not {self.timeout:g}")
        if self.top is not None and self.top not in ALL_TOPS:
            raise InputError(f"--top must be one of {', '.join(ALL_TOPS)}, not {self.top}")
        if self.liberty is not None and not self.liberty.is_file():
            raise InputError(f"--liberty must be a file, not {self.liberty}")
        if self.paper:
            given = [name for name in _SWEPT if getattr(self, name)]
            if self.top not in (None, CLUSTER):
                raise InputError(f"--top must be left out or {CLUSTER} with --paper, not {self.top}")
            if given:
                raise InputError(f"--{given[0].replace('settings', 'set')} must be left out with --paper")
        elif self.no_energy:
            raise InputError("--no-energy must be left out without --paper")
        if self.component in CLUSTER_NAMES and self.component not in WHOLE_CLUSTERS:
            given = [name for name in ("kernel", "energy", "general") if getattr(self, name)]
            if given:
                raise InputError(f"--{given[0]} must be left out with --top {self.component}, which runs no programs")
        if self.energy and not self.kernel:
            raise InputError("--energy must come with a --kernel whose energy it is")

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
