"""Options of an exploration, their contradictions, the command line that repeats it; and the points that they
describe: presets, common settings and the product of swept ones."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import prod
from pathlib import Path
from shlex import join

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS, ClusterConfig, CoreConfig, DotpConfig, preset
from xpulpnn.debug.config import DebugConfig
from xpulpnn.errors import ConfigError, InputError
from xpulpnn.field_values import apply_settings, with_setting
from xpulpnn_sim.exploration.results import Configuration
from xpulpnn_sim.tools.top_names import ALL_TOPS, CLUSTER_NAMES, DEBUG_NAMES, chosen_names

MOST_COMBINATIONS = 100_000  # of presets and swept values; more take long to look at, let alone to run

_LONGEST_NAME = 120  # characters of a folder; file systems take about 250


def folder_name(label: str) -> str:
    """Name for a folder, as unique as the label."""
    name = re.sub(r"[^A-Za-z0-9_+=.-]+", "_", label)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration of one component."""

    label: str  # short and unique among the points of a run
    top: str  # name of the component on the command line
    preset: str
    settings: Mapping[str, str]
    config: Configuration

    @property
    def folder(self) -> str:
        """Name for a folder, as unique as the label."""
        return folder_name(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A combination that cannot be built and the rule it breaks."""

    label: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Combinations of the requested product that can be built, and those that cannot."""

    points: tuple[Point, ...]
    skipped: tuple[Skipped, ...]


def build_space(top: str, presets: Sequence[str], settings: Sequence[str], sweeps: Sequence[str]) -> Space:
    """The product of presets and swept values."""
    names, common, swept = parse_space(top, presets, settings, sweeps)
    size = len(names) * prod(len(values) for values in swept.values())
    if size > MOST_COMBINATIONS:
        raise InputError(f"sweep must describe at most {MOST_COMBINATIONS} combinations, not {size}")
    made = [
        make_point(top, name, common | dict(zip(swept, values, strict=True)))
        for name, *values in product(names, *swept.values())
    ]
    points = tuple(one for one in made if isinstance(one, Point))
    skipped = tuple(one for one in made if isinstance(one, Skipped))
    if not points:
        raise InputError(f"at least one combination must be possible, not none of {len(skipped)}: {skipped[0].rule}")
    return Space(points=points, skipped=skipped)


def parse_space(
    top: str, presets: Sequence[str], settings: Sequence[str], sweeps: Sequence[str]
) -> tuple[list[str], dict[str, str], dict[str, list[str]]]:
    """Presets, common settings and swept values as :func:`build_space` takes them; raises :class:`InputError`."""
    usual, known = CoreConfig(), tuple(PRESETS)
    if top in CLUSTER_NAMES:
        usual, known = ClusterConfig(), (*CLUSTER_PRESETS, *PRESETS)
    elif top in DEBUG_NAMES:
        usual, known = DebugConfig(), (DEBUG_PRESET,)
    common, swept = dict[str, str](), dict[str, list[str]]()
    for key, value in _split(settings, "set", "KEY=VALUE"):
        if key in common:
            raise InputError(f"set must give each setting once, not {key} twice")
        check_value(key, value, usual)
        common[key] = value
    for key, listed in _split(sweeps, "sweep", "KEY=V1,V2,..."):
        if key in swept or key in common:
            raise InputError(f"sweep must name a setting that is given nowhere else, not {key} again")
        swept[key] = list(dict.fromkeys(value.strip() for value in listed.split(",")))
        for value in swept[key]:
            check_value(key, value, usual)
    return chosen_names(",".join(presets), known, "preset"), common, swept


def make_point(top: str, name: str, changes: Mapping[str, str]) -> Point | Skipped:
    """The preset ``name`` with ``changes``, or why it cannot be built."""
    label = " ".join([name, *(f"{key}={text.replace(',', '+')}" for key, text in changes.items())])
    try:
        if top in DEBUG_NAMES:
            base = DebugConfig()
        else:
            cluster = top in CLUSTER_NAMES
            base = CLUSTER_PRESETS.get(name) or ClusterConfig(core=preset(name)) if cluster else preset(name)
        config = apply_settings(base, changes)
        _check_top(top, config)
    except ConfigError as error:
        return Skipped(label=label, rule=str(error))
    return Point(label=label, top=top, preset=name, settings=changes, config=config)


def _split(texts: Sequence[str], option: str, form: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        key, _, value = text.partition("=")
        if not key or not value:
            raise InputError(f"{option} must be {form}, not {text or 'empty'}")
        yield plain_key(key), value.strip()


def plain_key(key: str) -> str:
    """Name of the field that a setting changes: ``mac_load_nn`` for ``mac-load-nn``, ``widths`` for ``dotp.widths``."""
    return key.strip().removeprefix("core.").removeprefix("dotp.").replace("-", "_")


def check_value(key: str, text: str, usual: Configuration) -> None:
    """Raise :class:`InputError` unless ``text`` is a value that the field ``key`` can have in some configuration.

    ``usual`` is one of those that have the field.
    """
    try:
        path, value = with_setting(usual, key, text)
        if "dotp" in path:
            # with replicated multipliers nothing can be wrong but the value itself
            DotpConfig(**{"multipliers": "replicated", path[-1]: value})
    except ConfigError as error:
        raise InputError(str(error)) from None


def _check_top(top: str, config: Configuration) -> None:
    """Raise :class:`ConfigError` if ``config`` has no such component."""
    if isinstance(config, ClusterConfig):
        for name, missing, rule in (
            ("icache", not config.icache_private, "icache_private must be the bytes of each core's cache"),
            ("dma", not config.dma, "dma must be true"),
        ):
            if top == name and missing:
                raise ConfigError(f"{rule} for {name}, not {0 if name == 'icache' else 'false'}")
    elif isinstance(config, CoreConfig) and top == "nnrf" and not config.mac_load:
        raise ConfigError("mac_load_nn or mac_load_cu must be true for nnrf, not both false")


CLUSTER = "cluster"
WHOLE_CLUSTERS = (CLUSTER, "cluster-axi")  # components that are mapped part by part, and run kernels

DEFAULT_TOP = "ex-stage"
DEBUG_PRESET = "debug"  # the only one of components of external debugging
DEFAULT_SEEDS = 3
DEFAULT_TIMEOUT_S = 3600.0
DEFAULT_OUTPUT = Path("build/explore")
MOST_POINTS = 200  # points to run without being asked for so many

_SCRIPTS = ("area", "speed", "both")
_SWEPT = ("preset", "settings", "sweep", "kernel", "flow", "script", "energy", "general", "baseline", "search")
"""Options that ``paper`` decides itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreOptions:
    """Options of an exploration, by the names they have on the command line, whose help tells what they mean. A text
    may stand for a path, and for the only one of several texts."""

    top: str | None = None  # component, one of the names of `xpulpnn generate`; None: the EX stage
    preset: tuple[str, ...] = ()  # to start from, each one or several with commas; empty: the default
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
    kernel: tuple[str, ...] = ()  # `KERNEL:BITS[:VARIANT[:LAYER]]`
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

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, str) and item.type not in (str, str | None):
                object.__setattr__(self, item.name, (value,) if item.type == tuple[str, ...] else Path(value))

    def check(self) -> None:
        """Raise :class:`InputError` for options that cannot be met, whatever the others say."""
        for name in ("jobs", "seeds", "repeat", "search", "max_points"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InputError(f"{name} must be at least 1, not {number}")
        swept = next((name for name in _SWEPT if getattr(self, name)), "")
        part = self.component in (*CLUSTER_NAMES, *DEBUG_NAMES) and self.component not in WHOLE_CLUSTERS
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
            (self.energy and not self.kernel, "energy must come with a kernel, such as conv:8"),
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
        if self.component in DEBUG_NAMES:
            return self.preset or (DEBUG_PRESET,)
        return self.preset or (DEFAULT_PRESET,)

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
