"""Layers in tiles, whatever their kernel: what a tile needs, what is moved for it by DMA, how it is called."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.cluster import DMA_LENGTH_BITS, DmaCommand
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Image, Symbol, Words
from xpulpnn_sw.kernels.tiling.plan import (
    DMA_ALIGNMENT,
    Demand,
    Footprint,
    LayerShape,
    Move,
    Rates,
    Tile,
    TileOperand,
    TilePlan,
    aligned,
    planned,
)

MOST_TRANSFER_BYTES = (1 << DMA_LENGTH_BITS) - DMA_ALIGNMENT  # of a transfer


class OutsideMemory:
    """Memory outside the cluster, filled from ``base`` on with what belongs to a layer."""

    def __init__(self, base: int) -> None:
        self.base, self._end = base, base
        self._pieces: list[tuple[int, bytes]] = []
        self.symbols: dict[str, Symbol] = {}

    def place(self, name: str, content: bytes) -> int:
        """Add a piece and return its address."""
        symbol = self.symbols[name] = Symbol(self._end, len(content))
        self._pieces.append((symbol.address, content))
        self._end = self.base + aligned(self._end - self.base + len(content))
        return symbol.address

    def image(self) -> Image:
        """Everything."""
        data = np.zeros(self._end - self.base, np.uint8)
        for address, content in self._pieces:
            data[address - self.base : address - self.base + len(content)] = np.frombuffer(content, np.uint8)
        return Image(self.base, data, self.symbols)


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTransfer:
    """Lines of bytes between the memories."""

    inside: int  # first address in the cluster
    outside: int  # first address outside
    line: int  # bytes of a line
    lines: int = 1  # number of lines
    inside_stride: int = 0  # bytes from one line to the next in the cluster
    outside_stride: int = 0  # bytes from one line to the next outside
    inwards: bool  # whether they go into the cluster

    @property
    def bytes(self) -> int:
        """Bytes that are moved."""
        return self.line * self.lines

    def commands(self) -> Iterator[list[int]]:
        """Words of the commands of the DMA engine."""
        if not self.bytes:
            return
        if self.lines == 1 or self.line == self.inside_stride == self.outside_stride:
            for done in range(0, self.bytes, MOST_TRANSFER_BYTES):
                yield [
                    self._first(min(self.bytes - done, MOST_TRANSFER_BYTES), DmaCommand(0)),
                    self.inside + done,
                    self.outside + done,
                ]
            return
        most = MOST_TRANSFER_BYTES // self.line
        for done in range(0, self.lines, most):
            lines = min(self.lines - done, most)
            yield [
                self._first(lines * self.line, DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D),
                self.inside + done * self.inside_stride,
                self.outside + done * self.outside_stride,
                self.line,
                self.outside_stride,
                self.line,
                self.inside_stride,
            ]

    def _first(self, length: int, flags: DmaCommand) -> int:
        direction = DmaCommand.FROM_EXTERNAL if self.inwards else DmaCommand(0)
        return length | DmaCommand.INCREMENT | direction | flags


def command_words(transfers: list[DmaTransfer]) -> list[int]:
    """Words of all commands, one after the other."""
    return [word for transfer in transfers for command in transfer.commands() for word in command]


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
