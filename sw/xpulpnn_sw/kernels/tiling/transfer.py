"""Transfers of the DMA engine, and their commands."""

from collections.abc import Iterator
from dataclasses import dataclass

from xpulpnn.isa.cluster import DMA_LENGTH_BITS, DmaCommand

DMA_ALIGNMENT = 8  # alignment of transfers: the DMA engine moves windows of so many bytes
MOST_TRANSFER_BYTES = (1 << DMA_LENGTH_BITS) - DMA_ALIGNMENT  # most bytes of a transfer


def aligned(size: int) -> int:
    return -(-size // DMA_ALIGNMENT) * DMA_ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTransfer:
    inside: int  # first address in the cluster
    outside: int  # first address outside
    line: int  # bytes of a line
    lines: int = 1  # number of lines
    inside_stride: int = 0  # bytes from one line to the next in the cluster
    outside_stride: int = 0  # bytes from one line to the next outside
    inwards: bool  # whether the lines move into the cluster

    @property
    def bytes(self) -> int:
        return self.line * self.lines

    def commands(self) -> Iterator[list[int]]:
        flags = DmaCommand.INCREMENT | (DmaCommand.FROM_EXTERNAL if self.inwards else DmaCommand(0))
        # a command moves so many pieces: bytes, or lines with gaps between them
        pieces, size, inside_step, outside_step, strides = self.bytes, 1, 1, 1, list[int]()
        if self.bytes and self.lines > 1 and not self.line == self.inside_stride == self.outside_stride:
            flags |= DmaCommand.EXTERNAL_2D | DmaCommand.TCDM_2D
            inside_step, outside_step, pieces, size = self.inside_stride, self.outside_stride, self.lines, self.line
            strides = [size, outside_step, size, inside_step]
        most = MOST_TRANSFER_BYTES // size
        for done in range(0, pieces, most):
            length = min(pieces - done, most) * size
            yield [length | flags, self.inside + done * inside_step, self.outside + done * outside_step, *strides]


def command_words(transfers: list[DmaTransfer]) -> list[int]:
    return [word for transfer in transfers for command in transfer.commands() for word in command]
