"""Points of an exploration: the product of presets and swept settings."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, CoreConfig, DotpConfig, preset
from xpulpnn.debug.config import DebugConfig
from xpulpnn.errors import ConfigError, InputError, require
from xpulpnn.field_values import apply_settings, with_setting
from xpulpnn.xif.config import XIF_PRESETS, XifConfig, xif_preset
from xpulpnn_sim.exploration.results import Configuration
from xpulpnn_sim.tools.component_names import CLUSTER_NAMES, DEBUG_NAMES, XIF
from xpulpnn_sim.tools.name_lists import select_names

CLUSTER = "cluster"
WHOLE_CLUSTERS = (CLUSTER, "cluster-axi")  # components that are mapped module by module, and run kernels
DEBUG_PRESET = "debug"  # the only preset of debug components
MOST_COMBINATIONS = 100_000  # of presets and swept values
_LONGEST_NAME = 120  # characters of a folder name; file systems allow about 250


def folder_name(label: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_+=.-]+", "_", label)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    label: str  # unique in a run
    top: str  # command-line name of the component
    preset: str
    settings: Mapping[str, str]
    config: Configuration

    @property
    def folder(self) -> str:
        return folder_name(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    label: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    points: tuple[Point, ...]
    skipped: tuple[Skipped, ...]


def build_space(top: str, presets: Sequence[str], settings: Sequence[str], sweeps: Sequence[str]) -> Space:
    names, common, swept = parse_space(top, presets, settings, sweeps)
    size = len(names) * prod(len(values) for values in swept.values())
    require(size <= MOST_COMBINATIONS, f"sweep must describe at most {MOST_COMBINATIONS} combinations, not {size}")
    made = [
        make_point(top, name, common | dict(zip(swept, values, strict=True)))
        for name, *values in product(names, *swept.values())
    ]
    points = tuple(point for point in made if isinstance(point, Point))
    skipped = tuple(combination for combination in made if isinstance(combination, Skipped))
    if not points:
        raise InputError(f"at least one combination must be possible, not none of {len(skipped)}: {skipped[0].rule}")
    return Space(points=points, skipped=skipped)


def parse_space(
    top: str, presets: Sequence[str], settings: Sequence[str], sweeps: Sequence[str]
) -> tuple[list[str], dict[str, str], dict[str, list[str]]]:
    usual, known = CoreConfig(), tuple(PRESETS)
    if top in CLUSTER_NAMES:
        usual, known = ClusterConfig(), (*CLUSTER_PRESETS, *PRESETS)
    elif top in DEBUG_NAMES:
        usual, known = DebugConfig(), (DEBUG_PRESET,)
    elif top == XIF:
        usual, known = XifConfig(), tuple(XIF_PRESETS)
    common, swept = dict[str, str](), dict[str, list[str]]()
    for key, value in _split(settings, "set", "KEY=VALUE"):
        require(key not in common, f"set must give each setting once, not {key} twice")
        check_value(key, value, usual)
        common[key] = value
    for key, listed in _split(sweeps, "sweep", "KEY=V1,V2,..."):
        if key in swept or key in common:
            raise InputError(f"sweep must name a setting that is given nowhere else, not {key} again")
        swept[key] = list(dict.fromkeys(value.strip() for value in listed.split(",")))
        for value in swept[key]:
            check_value(key, value, usual)
    return select_names(",".join(presets), known, "preset"), common, swept


def make_point(top: str, name: str, changes: Mapping[str, str]) -> Point | Skipped:
    label = " ".join([name, *(f"{key}={text.replace(',', '+')}" for key, text in changes.items())])
    try:
        if top in DEBUG_NAMES:
            base = DebugConfig()
        elif top == XIF:
            base = xif_preset(name)
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
        require(key and value, f"{option} must be {form}, not {text or 'empty'}")
        yield plain_key(key), value.strip()


def plain_key(key: str) -> str:
    """Return the field that a setting changes, such as ``mac_load_nn`` for ``core.mac-load-nn``."""
    return key.strip().removeprefix("core.").removeprefix("dotp.").replace("-", "_")


def check_value(key: str, text: str, base: Configuration) -> None:
    """Raise :class:`InputError` unless some configuration accepts ``text`` for the field ``key``."""
    try:
        path, value = with_setting(base, key, text)
        if "dotp" in path:
            # with replicated multipliers, only the value itself can be wrong
            DotpConfig(**{"multipliers": "replicated", path[-1]: value})
    except ConfigError as error:
        raise InputError(str(error)) from None


def _check_top(top: str, config: Configuration) -> None:
    if isinstance(config, CoreConfig | ClusterConfig) and config.core.clock_gate:
        raise ConfigError("clock_gate must be false in explore, whose figures are those of running clocks, not true")
    if isinstance(config, ClusterConfig):
        for name, missing, rule in (
            ("icache", not config.icache_private, "icache_private must be the bytes of each core's cache"),
            ("dma", not config.dma, "dma must be true"),
        ):
            if top == name and missing:
                raise ConfigError(f"{rule} for {name}, not {0 if name == 'icache' else 'false'}")
    elif isinstance(config, CoreConfig) and top == "nnrf" and not config.mac_load:
        raise ConfigError("mac_load_nn or mac_load_cu must be true for nnrf, not both false")
