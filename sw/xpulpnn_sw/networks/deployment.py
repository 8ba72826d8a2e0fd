"""A network in the memory of a cluster: what is there when, and what the DMA engine brings and takes.

Step by step the cores compute a layer, or a tile of one that is too large, while the DMA engine fetches filters and
maps that are needed later. Memory belongs to a piece of data only as long as that is needed. Input, filters and results
of the network are in the memory outside, and so are maps that layers in tiles read or write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.tiling.plan import TileStep
from xpulpnn_sw.networks.lifetimes import Piece, demand, extent
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.residence import Maps
from xpulpnn_sw.networks.tiled_layer import TiledLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedStep:
    """Work and moves between two barriers."""

    # number of the layer that is computed, as a whole or a tile of it; of one in tiles also while it is only moved
    layer: int | None = None
    loads: tuple[str, ...] = ()  # pieces of memory that are filled from outside meanwhile
    stores: tuple[str, ...] = ()  # pieces of memory that are stored outside meanwhile
    tile: int | None = None  # which of the steps of a layer in tiles it is


@dataclass(frozen=True, eq=False, kw_only=True)
class Deployment:
    """Memory of every layer over time."""

    network: Network
    runs: tuple[KernelRun, ...]
    maps: Maps  # where their inputs and results are
    tiled: Mapping[int, TiledLayer]  # the layers in tiles, by number
    steps: tuple[DeployedStep, ...]  # what happens when
    pieces: tuple[Piece, ...]  # what needs memory of the cluster in which of the steps
    places: dict[str, int]  # Where, from the beginning of that memory on

    @property
    def extent(self) -> int:
        """Bytes of the memory in use."""
        return extent(self.pieces, self.places)

    def demand(self, step: int) -> int:
        """Bytes that are needed in a step."""
        return demand(self.pieces, step)

    def tile_step(self, step: DeployedStep) -> TileStep | None:
        """Return the step of a layer in tiles, None for other steps."""
        return None if step.layer is None or step.tile is None else self.tiled[step.layer].steps[step.tile]

    def computes(self, step: DeployedStep) -> bool:
        """Return whether the cores compute something in a step."""
        tile = self.tile_step(step)
        return step.layer is not None and (tile is None or tile.work is not None)

    def cores(self, layer: int) -> int | None:
        """Cores that compute a layer; None: all."""
        return self.tiled[layer].cores if layer in self.tiled else None

    @property
    def report_slots(self) -> int:
        """Places for what the cores report of a step: one for each, or two that are emptied by turns."""
        return report_slots(len(self.steps), is_tiled=bool(self.tiled))

    def ends(self, layer: int) -> int:
        """Number of the last step of a layer, after which its results are where they belong."""
        return last_step(self.steps, layer)


def report_slots(steps: int, *, is_tiled: bool) -> int:
    """Places for what the cores report of so many steps: layers in tiles have many, which are stored one by one."""
    return min(steps, 2) if is_tiled else steps


def first_step(steps: Sequence[DeployedStep], layer: int) -> int:
    """Number of the first step of a layer."""
    return next(number for number, step in enumerate(steps) if step.layer == layer)


def last_step(steps: Sequence[DeployedStep], layer: int) -> int:
    """Number of the last step of a layer."""
    return max(number for number, step in enumerate(steps) if step.layer == layer)
