"""Places of the elements of a network's input in memory."""

from dataclasses import dataclass, replace
from math import prod
from typing import Self

import numpy as np

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Ints, Words, pack_words
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layers.channelwise import DepthwiseLayer
from xpulpnn_sw.layers.convolution import ImageConvLayer
from xpulpnn_sw.networks.kernels import inputs_of, length
from xpulpnn_sw.networks.network import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLayout:
    """An input in memory, as a layer reads it. Distances are in bits."""

    rows: int  # rows of the input; 1 without any
    columns: int  # columns of the input; 1 without any
    channels: int  # channels of the input
    top: int  # rows of margin above the first element
    left: int  # columns of margin before the first element
    row_bits: int  # distance of two rows
    pixel_bits: int  # distance of two pixels
    channel_bits: int  # distance of two channels
    bits: int
    around: int
    size: int  # bytes in memory, with what is read ahead

    @classmethod
    def of(cls, stage: Stage, run: KernelRun, symbol: str, channels: int) -> Self:
        """The layout of what a layer calls ``symbol``, which has so many channels with a meaning."""
        place = inputs_of(run).index(symbol)
        shape, (bits, _) = stage.input_shapes[place], stage.input_elements[place]
        size = length(run, symbol)
        layer = stage.layer
        known = cls(
            rows=shape[0] if len(shape) > 1 else 1,
            columns=prod(shape[1:-1]),
            channels=channels,
            top=0,
            left=0,
            row_bits=0,
            pixel_bits=0,
            channel_bits=bits,
            bits=bits,
            around=0,
            size=size,
        )
        if isinstance(layer, ImageConvLayer):
            return replace(
                known,
                top=layer.padding[0],
                left=layer.padding[2],
                row_bits=layer.stored_width * layer.channels * bits,
                pixel_bits=layer.channels * bits,
                around=stage.precision.around(layer.outside),
            )
        if isinstance(layer, DepthwiseLayer):
            row_bits = run.arguments["row_bytes"] * BYTE_BITS
            return replace(known, row_bits=row_bits, pixel_bits=bits, channel_bits=layer.height * row_bits)
        distance = next(
            (run.arguments[name] for name in ("pixel_bytes", "row_stride") if name in run.arguments),
            size // prod(shape[:-1]),
        )
        return replace(known, row_bits=known.columns * distance * BYTE_BITS, pixel_bits=distance * BYTE_BITS)

    @property
    def shown(self) -> str:
        """In words, for a comment."""
        elements = f"of {self.bits} bit{'s' if self.bits > 1 else ''}"
        if self.rows == self.columns == 1:
            return f"{self.channels} elements {elements}, the first in the lowest bits"
        if self.channel_bits != self.bits:
            return f"elements {elements}, a row every {self.row_bits} bits, a channel every {self.channel_bits}"
        text = f"{self.channels} element{'s' if self.channels > 1 else ''} {elements} every {self.pixel_bits} bits"
        return f"{text}, a row every {self.row_bits}{', within margins' if self.top or self.left else ''}"

    def place(self, values: Ints) -> Words:
        """The words of an input, put where this says."""
        words = pack_words(np.full(self.size * BYTE_BITS // self.bits, self.around), self.bits)
        elements = pack_words(values.reshape(-1, 1), self.bits).reshape(self.rows, self.columns, self.channels)
        for row in range(self.rows):
            for column in range(self.columns):
                for channel in range(self.channels):
                    bit = self.bit(row, column, channel)
                    kept = int(words[bit // WORD_BITS]) & ~(((1 << self.bits) - 1) << bit % WORD_BITS)
                    words[bit // WORD_BITS] = kept | int(elements[row, column, channel]) << bit % WORD_BITS
        return words

    def bit(self, row: int, column: int, channel: int) -> int:
        """Return the bit at which an element begins."""
        return (self.top + row) * self.row_bits + (self.left + column) * self.pixel_bits + channel * self.channel_bits

    def describes(self, values: Ints, words: Words) -> bool:
        """Return whether the words are those of an input, but for margins behind it and what is read ahead."""
        end = self.bit(self.rows - 1, self.columns - 1, self.channels - 1) + self.bits
        if words.nbytes != self.size or end > self.size * BYTE_BITS:
            return False
        return bool((self.place(values) == words)[: end // WORD_BITS].all())
