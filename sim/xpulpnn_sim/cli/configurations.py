"""Groups of options for a configuration, a cluster, and memory timing; options that exclude each other."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter, Token

from xpulpnn.config import CLUSTER_PRESETS, DEFAULT_PRESET, PRESETS, ClusterConfig, CoreConfig, preset
from xpulpnn.debug.config import DebugConfig
from xpulpnn.errors import ConfigError, InputError, require
from xpulpnn.field_values import apply_settings
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn.xif.config import HOST_NAME, XIF_PRESETS, XifConfig, XifHost, xif_preset
from xpulpnn_sim.cli.options import Count, Preset, Probability, Repeated, arguments, listed
from xpulpnn_sim.tools.component_names import CLUSTER_NAMES, CORE_DEBUG, DEBUG_NAMES, XIF

CoreCounts = Annotated[tuple[str, ...], listed(tuple(str(count) for count in range(1, MAX_CORES + 1)))]
IDEAL = "ideal"  # fetches without latency
_OPTION_OF_FIELD = {"cores": "cores", "banks": "banks", "arbiter": "arbiter", "icache_private": "icache"}
"""Options that set a field of the cluster, by the name of the field."""

Target = TypeVar("Target", CoreConfig, ClusterConfig)


def refuse(options: Any, names: Iterable[str], rule: str) -> None:
    """Raise :class:`InputError` with a ``rule`` for an option out of ``names`` that has not its default value."""
    for option in fields(options):
        if option.name in names and getattr(options, option.name) != option.default:
            raise InputError(f"--{option.name.replace('_', '-')} {rule}")


@arguments
class Settings:
    settings: Annotated[Repeated, Parameter(name="--set", metavar="KEY=VALUE")] = ()
    """Change one parameter of the configuration, such as dotp.multipliers=shared or widths=16,8; repeatable."""

    @property
    def assignments(self) -> dict[str, str]:
        assignments: dict[str, str] = {}
        for text in self.settings:
            key, equals, value = text.partition("=")
            require(equals and key, f"--set must be KEY=VALUE, not {text}")
            assignments[key] = value
        return assignments

    def of_preset(self, name: str) -> "Configuration":
        return Configuration(preset=name, settings=self.settings)


@arguments
class Configuration(Settings):
    preset: Preset = DEFAULT_PRESET
    """Configuration to start from."""

    @property
    def core(self) -> CoreConfig:
        return apply_settings(preset(self.preset), self.assignments)

    @property
    def title(self) -> str:
        return " ".join([self.preset, *self.settings])

    @property
    def command_words(self) -> str:
        return " ".join([f"--preset {self.preset}", *(f"--set {text}" for text in self.settings)])

    def for_top(self, top: str) -> CoreConfig | ClusterConfig | DebugConfig | XifConfig:
        """Return the configuration of the component ``top``; a core preset also stands for a cluster of such cores."""
        if top == XIF:
            return apply_settings(xif_preset(XIF if self.preset == DEFAULT_PRESET else self.preset), self.assignments)
        if self.preset in XIF_PRESETS:
            raise ConfigError(f"TOP must be {XIF} with --preset {self.preset}, not {top}")
        if top in DEBUG_NAMES:
            return apply_settings(DebugConfig(), self.assignments)
        if top not in CLUSTER_NAMES:
            if top == CORE_DEBUG and "debug=false" in self.settings:
                raise ConfigError(f"debug must be true for {top}, not false; the core without it is core")
            return replace(self.core, debug=True) if top == CORE_DEBUG else self.core
        if self.preset not in CLUSTER_PRESETS and self.preset not in PRESETS:
            known = ", ".join((*CLUSTER_PRESETS, *PRESETS))
            raise ConfigError(f"preset must be one of {known}, not {self.preset}")
        return apply_settings(self.base_cluster, self.assignments)

    def with_number_of_cores(self, cores: int | None, **fields: int) -> CoreConfig | ClusterConfig:
        """Return the core, or the cluster if ``cores`` or a cluster preset is given, with ``fields`` changed."""
        if self.preset not in CLUSTER_PRESETS and cores is None:
            return self.core
        given = fields if cores is None else fields | {"cores": cores}
        return apply_settings(replace(self.base_cluster, **given), self.assignments)

    @property
    def base_cluster(self) -> ClusterConfig:
        return CLUSTER_PRESETS.get(self.preset) or ClusterConfig(core=preset(self.preset))


@arguments
class Hosted(Configuration):
    xif: bool = False
    """For a core with RV32IMC and the coprocessor of generate xif, whose parameters --set changes."""

    @property
    def core(self) -> CoreConfig:
        if not self.xif:
            return super().core
        require(self.preset in ("", DEFAULT_PRESET), f"--preset must be left out with --xif, not {self.preset}")
        return XifHost.of(self.assignments)

    @property
    def title(self) -> str:
        return " ".join([HOST_NAME, *self.settings]) if self.xif else super().title


@arguments
class Exact:
    exact: bool = False
    """Simulate the adders that generate emits (slower) instead of the simulator's own sums."""

    def for_simulation(self, config: Target) -> Target:
        """Return the configuration with plain adders, which simulate faster, unless ``exact`` is set."""
        if self.exact:
            return config
        # slow import with optional packages
        from xpulpnn_sim.cosimulation.model.libraries import simulated

        return simulated(config)


@arguments
class Cores(Configuration):
    cores: Count | None = None
    """Run on a cluster of N cores; without it on one core alone, or on the cluster of a --preset of one."""

    @property
    def target(self) -> CoreConfig | ClusterConfig:
        return self.with_number_of_cores(self.cores, **self.cluster_fields)

    @property
    def cluster_fields(self) -> dict[str, int]:
        return {}


def icache_bytes(text: str, option: str) -> int:
    if text != IDEAL and (not text.isdecimal() or not int(text)):
        raise InputError(f"{option} must be {IDEAL} or a number of bytes, not {text or 'empty'}")
    return 0 if text == IDEAL else int(text)


def _icache(_kind: type, tokens: Sequence[Token]) -> int:
    return icache_bytes(tokens[0].value, tokens[0].keyword or "icache")


Icache = Annotated[int, Parameter(converter=_icache, metavar="BYTES")]


@arguments
class ClusterOptions(Cores, Exact):
    banks: Count | None = None
    """Banks of the cluster's TCDM (default 16)."""
    icache: Icache | None = None
    """Instruction cache of each core of a cluster; without it, or with ideal, fetches are answered at once."""
    l2_latency: Count | None = None
    """Cycles of an access to memory outside the cluster (default 1)."""

    @property
    def cluster_fields(self) -> dict[str, int]:
        return {"icache_private": self.icache or 0, **({} if self.banks is None else {"banks": self.banks})}

    @property
    def simulated_target(self) -> CoreConfig | ClusterConfig:
        target = self.target
        if isinstance(target, ClusterConfig):
            return self.for_simulation(target)
        refuse(self, ("banks", "icache", "l2_latency"), "must come with --cores, not alone")
        return self.for_simulation(target)


@arguments
class Simulated(Configuration, Exact):
    @property
    def cluster(self) -> ClusterConfig:
        for name, option in _OPTION_OF_FIELD.items():
            require(name not in self.assignments, f"--set {name} must be left out, for --{option} says it")
        return self.for_simulation(apply_settings(self.base_cluster, self.assignments))

    @property
    def simulated_core(self) -> CoreConfig:
        return self.for_simulation(self.core)

    def with_cores(self, cores: int | None) -> CoreConfig | ClusterConfig:
        """Return a core if ``cores`` is 1, a cluster if more, and the core or cluster of the preset if None."""
        if cores is None:
            return self.cluster if self.preset in CLUSTER_PRESETS else self.simulated_core
        cluster = self.cluster
        return cluster.core if cores == 1 else replace(cluster, cores=cores)


@arguments
class GrantStalls:
    grant_stalls: Probability = 0.0
    """Probability of a withheld grant of a data access."""


@arguments
class DataTiming(GrantStalls):
    response_latency: Count = 1
    """Data responses take 1 to N cycles."""


@arguments
class MemoryTiming(DataTiming):
    irq_rate: Probability = 0.0
    """Probability per cycle that an interrupt line rises."""
    halt_rate: Probability = 0.0
    """Probability per cycle that a core with debug mode is asked to halt, steps and goes on."""
    fetch_grant_stalls: Probability = 0.0
    """Probability of a withheld grant of a fetch."""
    fetch_latency: Count = 1
    """Fetched words take 1 to N cycles."""
