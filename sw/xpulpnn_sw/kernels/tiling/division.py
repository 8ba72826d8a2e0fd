"""Layers of networks in tiles, whatever their kernel: what a tile needs, what is moved for it, how it is called."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Words
from xpulpnn_sw.kernels.tiling.operands import DmaTransfer, OutsideMemory
from xpulpnn_sw.kernels.tiling.plan import (
    Demand,
    Footprint,
    LayerShape,
    Move,
    Rates,
    Tile,
    TileOperand,
    TilePlan,
    planned,
)

BUFFER = "buffer"  # argument of all kernels that need memory only while they run
STEP_CYCLES = 150  # cycles of commands, barrier and the start of the function
BYTES_PER_CYCLE = 6.0  # bytes that the DMA engine moves beside the cores


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAddresses:
    """Memory of a layer in tiles."""

    sources: tuple[int, ...]  # maps outside, as many as the layer has inputs
    output: int  # its results outside
    buffers: Mapping[TileOperand, tuple[int, ...]]
    buffer: int | None  # what the kernel needs while it runs, in the cluster


class PlacedLayer(ABC):
    """A layer in tiles whose operands have addresses."""

    @abstractmethod
    def transfers(self, move: Move) -> Sequence[DmaTransfer]:
        """Transfers that a move means."""

    @abstractmethod
    def arguments(self, tile: Tile, slots: dict[TileOperand, int]) -> dict[str, int]:
        """Fields of the argument structure for a tile with operands in these buffers."""


class Division(ABC):
    """Division of the layer of a kernel."""

    def __init__(self, run: KernelRun) -> None:
        self.run = run

    def planned(self, cores: int, memory: int, fixed: int) -> TilePlan:
        """The tiles that take ``cores`` cores the least time in ``memory`` bytes, ``fixed`` of which are taken.

        Data are moved while tiles are computed if there is room for that. Raises :class:`LayerError` if no tile is
        small enough.
        """
        try:
            return self._planned(cores, memory, fixed, overlap=True)
        except LayerError:
            return self._planned(cores, memory, fixed, overlap=False)

    def _planned(self, cores: int, memory: int, fixed: int, *, overlap: bool) -> TilePlan:
        """The best division for every number of lines for which something different is fixed."""
        plans: list[TilePlan] = []
        refused: LayerError | None = None
        for lines in self.heights:
            demand = Demand(lines=lines, overlap=overlap)
            footprint = self.footprint(fixed + self.buffer_bytes(lines))
            try:
                plans.append(planned(self.shape, footprint, self.rates, cores, memory, demand))
            except LayerError as error:
                refused = error
        if plans:
            return min(plans, key=lambda plan: plan.estimate)
        raise refused or AssertionError

    @property
    def heights(self) -> Sequence[int | None]:
        """Lines of a tile to try one by one; None: as it suits."""
        return (None,)

    @property
    @abstractmethod
    def shape(self) -> LayerShape:
        """Lines and channels that are divided."""

    @property
    @abstractmethod
    def rates(self) -> Rates:
        """About how fast the kernel is."""

    @abstractmethod
    def footprint(self, fixed: int) -> Footprint:
        """Bytes that tiles take beside ``fixed``."""

    @abstractmethod
    def buffer_bytes(self, lines: int | None) -> int:
        """Bytes that the kernel needs while it runs, for tiles of so many lines, or of any."""

    @abstractmethod
    def place(self, name: str, outside: OutsideMemory, plan: TilePlan, addresses: LayerAddresses) -> PlacedLayer:
        """Put filters and parameters outside, under names that begin with ``name``."""

    @abstractmethod
    def function(self, calls: Sequence[Mapping[str, int]]) -> Words:
        """Code of a function for these argument structures."""
