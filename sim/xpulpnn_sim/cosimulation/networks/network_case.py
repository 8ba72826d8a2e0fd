"""A network to run for an input on a core or a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.folded import folded
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.suited import suited
from xpulpnn_sw.networks.whole_words import filled_input

_KEPT = 8  # networks that are kept as they are computed


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCase:
    """A network to run for an input."""

    network: Network
    image: Ints  # the input, `[row][column][channel]`
    config: CoreConfig | ClusterConfig  # the core, or the cluster all of whose cores share each layer
    machine: Machine
    checked: bool = True  # whether every retirement is checked, not only the results
    # results of the layers of the network for the image by run_reference; None: they are computed when they are needed
    expected: Sequence[NDArray[Any]] | None = None

    @property
    def cores(self) -> int:
        """Cores that share the work."""
        return self.config.cores if isinstance(self.config, ClusterConfig) else 1

    @property
    def core(self) -> CoreConfig:
        """One of them."""
        return self.config.core if isinstance(self.config, ClusterConfig) else self.config

    def sharing(self, cores: int) -> "NetworkCase":
        """The same on a cluster of so many cores, usual in everything else."""
        return replace(self, config=ClusterConfig(core=self.core, cores=cores))

    @property
    def computed(self) -> Network:
        """The network as it is computed: layers may have more channels, or others between them for the order in memory.

        Their names stay. See :func:`~xpulpnn_sw.networks.suited.suited`, :func:`~xpulpnn_sw.networks.folded.folded`.
        """
        return _folded(self.network, tuple(self.variants))

    @property
    def given(self) -> Ints:
        """The input for that."""
        return filled_input(self.image, _suited(self.network))

    @property
    def variants(self) -> list[str]:
        """The fastest variant of each layer, as it is computed, that the core can run."""
        return [stage.fastest(self.core.extensions, self.core.widths) for stage in _suited(self.network).stages]


@lru_cache(_KEPT)
def _suited(network: Network) -> Network:
    return suited(network)


@lru_cache(_KEPT)
def _folded(network: Network, variants: tuple[str, ...]) -> Network:
    return folded(_suited(network), variants)
