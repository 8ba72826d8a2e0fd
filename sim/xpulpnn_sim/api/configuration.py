"""The configuration that a function of this package takes."""

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig, preset
from xpulpnn_sim.harness.models import simulated


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
