"""Options of the subcommands that run a program on a cluster as well as on one core."""

import argparse
from dataclasses import replace

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, CoreConfig, preset
from xpulpnn.errors import ConfigError, InputError
from xpulpnn.settings import apply_settings
from xpulpnn_sim.commands.common import assignments, configuration, simulated_configuration
from xpulpnn_sim.top_names import CLUSTER_NAMES

_OF_CLUSTERS = ("banks", "icache", "l2_latency")

IDEAL = "ideal"
"""Instructions are fetched without delay."""


def add_cores(parser: argparse.ArgumentParser) -> None:
    """Add ``--cores``."""
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="run on a cluster of N cores; without it on one core alone, or on the cluster of a --preset "
        f"{', '.join(CLUSTER_PRESETS)}",
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add ``--cores``, ``--banks``, ``--icache`` and ``--l2-latency``."""
    add_cores(parser)
    parser.add_argument("--banks", type=int, metavar="B", help="banks of the cluster's TCDM (default 16)")
    parser.add_argument(
        "--icache",
        metavar="BYTES",
        help=f"instruction cache of each core of a cluster; without it, or with {IDEAL}, instructions are fetched "
        "without delay",
    )
    parser.add_argument(
        "--l2-latency", type=int, metavar="N", help="cycles of an access to memory outside the cluster (default 1)"
    )


def icache_bytes(text: str) -> int:
    """Bytes of an instruction cache, 0 for :data:`IDEAL`; raises :class:`InputError`."""
    if text == IDEAL:
        return 0
    if not text.isdecimal() or not int(text):
        raise InputError(f"--icache must be {IDEAL} or a number of bytes, not {text or 'empty'}")
    return int(text)


def described(arguments: argparse.Namespace) -> CoreConfig | ClusterConfig:
    """The core, or with ``--cores`` or a preset of a cluster the cluster, that the options describe."""
    named = CLUSTER_PRESETS.get(arguments.preset)
    if named is None and arguments.cores is None:
        return configuration(arguments)
    config = named or ClusterConfig(core=preset(arguments.preset))
    given = {name: getattr(arguments, name, None) for name in ("cores", "banks")}
    given["icache_private"] = icache_bytes(getattr(arguments, "icache", None) or IDEAL)
    config = replace(config, **{name: value for name, value in given.items() if value is not None})
    return apply_settings(config, assignments(arguments))


def configuration_of(top: str, arguments: argparse.Namespace) -> CoreConfig | ClusterConfig:
    """What ``--preset`` and ``--set`` describe for a component of :mod:`xpulpnn_sim.tops`.

    For those of a cluster a preset of a core stands for the cluster of such cores.
    """
    if top not in CLUSTER_NAMES:
        return configuration(arguments)
    named = CLUSTER_PRESETS.get(arguments.preset)
    if named is None and arguments.preset not in PRESETS:
        known = ", ".join((*CLUSTER_PRESETS, *PRESETS))
        raise ConfigError(f"preset must be one of {known}, not {arguments.preset}")
    return apply_settings(named or ClusterConfig(core=preset(arguments.preset)), assignments(arguments))


def target_configuration(arguments: argparse.Namespace) -> CoreConfig | ClusterConfig:
    """What to simulate: the core or the cluster that the options describe, in the structure models have."""
    config = described(arguments)
    if isinstance(config, CoreConfig):
        for name in _OF_CLUSTERS:
            value = getattr(arguments, name)
            if value is not None:
                raise InputError(f"--{name.replace('_', '-')} must come with --cores, not alone with {value}")
        return simulated_configuration(arguments)
    if arguments.exact:
        return config
    # the models need packages that not every subcommand does
    from xpulpnn_sim.harness.models import simulated

    return simulated(config)
