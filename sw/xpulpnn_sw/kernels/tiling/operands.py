"""The memory outside the cluster, and the commands that move tiles between the memories."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.cluster import DMA_LENGTH_BITS, DmaCommand
from xpulpnn_sw.kernels.layout import Image, Symbol
from xpulpnn_sw.kernels.tiling.plan import DMA_ALIGNMENT, aligned

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
