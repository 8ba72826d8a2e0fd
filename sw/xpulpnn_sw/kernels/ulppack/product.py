"""The frame of all functions for packed operands: sizes, pixel groups, whose activations are packed first, memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.kernel import Function, finished_function
from xpulpnn_sw.kernels.layout import ImageBuilder, Ints, OutputLayout, Words, pack_words, pad_axis
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.share import group_shares
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term
from xpulpnn_sw.kernels.ulppack.packing import ResultBlock
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layers.convolution import MatmulLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedProduct:
    """A matrix product computed block by block from packed operands, and its sizes in memory."""

    layer: MatmulLayer
    block: ResultBlock  # results computed together
    source_bytes: int  # bytes of a row of activations before packing, whole words of memory
    row_bytes: int  # bytes of a packed row of activations
    weight_row_bytes: int  # bytes of a packed row of weights
    in_place: bool = False  # whether activations are as good as packed

    @property
    def channels(self) -> int:
        """Channels, those of the last block filled up."""
        return -(-self.layer.out_channels // self.block.nch) * self.block.nch

    @property
    def groups(self) -> int:
        """Pixel groups, the last one filled up."""
        return -(-self.layer.pixels // self.block.npx)

    @property
    def pixels(self) -> int:
        """Pixels of all groups."""
        return self.groups * self.block.npx

    @property
    def out_stride(self) -> int:
        """Bytes from the results of one pixel to those of the next."""
        return self.channels * WORD


class ProductCode(ABC):
    """Writes the function."""

    # the argument structure, a pointer per word: activations as bytes, room for packed ones and maybe for a word per
    # pixel, packed weights, results
    fields: tuple[str, ...] = ("input", "packed", "weights", "output")
    has_all_rows = False  # whether the frame holds the packed rows of all pixels of a group, not only the first
    is_corrected = False  # whether a word of each pixel belongs to its results

    def __init__(self, product: BlockedProduct, out: int, free: list[int], *, xpulp: bool) -> None:
        # registers: where the results of the next block go, and two that are free around the blocks
        self._sizes, self._out, self._free = product, out, free[:2]
        self._b = Builder(TEXT_BASE, xpulp=xpulp, is_long=True)
        self._frame = Frame(self._b, self.fields, {}, dict(self._terms()), {"out": self._out}, [], [])

    @abstractmethod
    def _pack(self) -> None:
        """Pack the activations of all groups of a core."""

    @abstractmethod
    def _blocks(self) -> None:
        """Compute all blocks of a group."""

    @property
    def _rows_of_group(self) -> list[str]:
        return [f"row{pixel}" for pixel in range(self._sizes.block.npx if self.has_all_rows else 1)]

    def _terms(self) -> Iterator[tuple[str, Term]]:
        sizes, pixel = self._sizes, Name("pixel")
        yield "groups", Number(sizes.groups)
        yield from group_shares().items()
        yield "pixel", Name("first_group") * sizes.block.npx
        yield "source", Argument("input") + pixel * sizes.source_bytes
        yield "row0", Argument("packed") + pixel * sizes.row_bytes
        for before, row in pairwise(self._rows_of_group):
            yield row, Name(before) + sizes.row_bytes
        yield "weights", Argument("weights")
        yield "weights_end", Argument("weights") + sizes.channels * sizes.weight_row_bytes
        if "corrections" in self.fields:
            yield "corrections", Argument("corrections") + pixel * WORD
        yield "out", Argument("output") + pixel * sizes.out_stride

    def write(self) -> Program:
        """The whole function."""
        b, frame, sizes, (temporary, other), end = self._b, self._frame, self._sizes, self._free, Label()
        frame.begin()
        b.far_branch("beq", frame.register("group", temporary), ZERO, end)
        with b.region("im2col"):
            self._pack()
        with frame.repeated("group", temporary):
            with b.region("matmul"):
                self._blocks()
            for name in self._rows_of_group:
                frame.advance(name, sizes.block.npx * sizes.row_bytes, temporary, other)
            if self.is_corrected:
                frame.advance("corrections", sizes.block.npx * WORD, temporary, other)
            b.add(self._out, (sizes.block.npx - 1) * sizes.out_stride, other)
        b.place(end)
        frame.end()
        return b.finish()


def packed_function(
    product: BlockedProduct, code: ProductCode, weights: Words, activations: Ints, cores: int, **known: Any
) -> Function:
    """The function of ``code`` for packed ``weights`` and ``activations`` [pixel][k], which lie as bytes.

    Memory symbols are the fields of the code, ``arguments`` and ``stack``.
    """
    memory = ImageBuilder()
    source = pad_axis(pad_axis(activations, 0, product.pixels), 1, product.source_bytes)
    addresses = {"input": memory.place("input", pack_words(source, BYTE_BITS))}
    room = product.pixels * product.row_bytes
    addresses["packed"] = addresses["input"] if product.in_place else memory.reserve("packed", room)
    addresses["weights"] = memory.place("weights", weights)
    if "corrections" in code.fields:
        addresses["corrections"] = memory.reserve("corrections", product.pixels * WORD)
    addresses["output"] = memory.reserve("output", product.pixels * product.out_stride)
    layer = product.layer
    return finished_function(
        memory,
        code.fields,
        addresses,
        cores,
        function=code.write(),
        output=OutputLayout(
            symbol="output",
            bits=WORD_BITS,
            shape=(layer.pixels, layer.out_channels),
            pixel_bytes=product.out_stride,
        ),
        macs=layer.macs,
        **known,
    )
