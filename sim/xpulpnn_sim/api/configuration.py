"""The configuration that a function of this package takes."""

from collections.abc import Sequence

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig, preset
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sw.kernels.kinds import Kind


def core_for(chosen: Kind, variant: str, config: CoreConfig, beyond: CoreConfig | None) -> CoreConfig:
    """The core that a variant of a kernel runs on: ``config``, or ``beyond`` if only that has the instructions.

    Raises :class:`~xpulpnn.errors.LayerError` for an unknown variant.
    """
    needed = chosen.variant(variant).extensions
    if beyond is not None and needed <= beyond.extensions and not needed <= config.extensions:
        return beyond
    return config


def able_variants(chosen: Kind, names: Sequence[str], config: CoreConfig, beyond: CoreConfig | None) -> tuple[str, ...]:
    """The variants that one of the cores can run; all of them if there is none, for whoever reports it."""
    able = [
        name for name in names if chosen.variant(name).extensions <= core_for(chosen, name, config, beyond).extensions
    ]
    return tuple(able or names)


def resolved(config: CoreConfig | str, *, exact: bool = True) -> CoreConfig:
    """A configuration, or that of a preset given by name.

    Parameters
    ----------
    config : CoreConfig or str
        The configuration or the name of a preset.
    exact : bool
        Whether it is to be simulated with the adders that :func:`~xpulpnn_sim.api.generation.generate` emits;
        otherwise sums are left to the simulator, which is faster and computes the same.

    Raises :class:`~xpulpnn.errors.ConfigError` for an unknown preset.
    """
    chosen = preset(config) if isinstance(config, str) else config
    return chosen if exact else simulated(chosen)


def resolved_target(config: CoreConfig | ClusterConfig | str, *, exact: bool = True) -> CoreConfig | ClusterConfig:
    """As :func:`resolved`, of one core or of a cluster, which may be the name of a preset of clusters."""
    chosen = CLUSTER_PRESETS.get(config, config) if isinstance(config, str) else config
    if isinstance(chosen, ClusterConfig):
        return chosen if exact else simulated(chosen)
    return resolved(chosen, exact=exact)
