"""Convolution along one direction, and the text that names it."""

import re
from dataclasses import dataclass
from typing import Self

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layer_text import check_size, number, options_of, spread, whole_number, written


@dataclass(frozen=True, slots=True, kw_only=True)
class DilatedLayer(ConvLayer):
    """Convolution whose filter rows meet rows of the input that are apart."""

    dilation: int = 1  # distance of two filter rows in rows of the input

    @property
    def reach(self) -> int:
        """Input rows from the first to the last that a filter meets."""
        return (self.kernel_height - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1dLayer:
    """Convolution of a sequence of pixels, all channels to all channels.

    ``acc[t,o] = bias[o] + sum(weight[o,k,c] * input[t*stride - before + k*dilation, c])`` with
    ``outside`` around the sequence.
    """

    length: int  # pixels of the input and their channels
    channels: int  # pixels of the input and their channels
    out_channels: int  # number of filters
    kernel: int  # pixels of a filter
    stride: int = 1  # step of the filter; distance of the pixels it meets
    dilation: int = 1  # step of the filter; distance of the pixels it meets
    padding: tuple[int, int] = (1, 1)  # pixels before and behind the input that filters may reach into
    outside: int = 0  # the value of these, as of a ConvLayer

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation."""
        check_size("dilation", self.dilation)
        _ = self.geometry

    @property
    def geometry(self) -> ConvLayer:
        """The same in two directions: in a row, so that a filter meets neighbours, or if it does not, in a column."""
        before, behind = self.padding
        if self.dilation == 1:
            return ConvLayer(
                height=1,
                width=self.length,
                channels=self.channels,
                out_channels=self.out_channels,
                kernel_height=1,
                kernel_width=self.kernel,
                stride=(1, self.stride),
                padding=(0, 0, before, behind),
                outside=self.outside,
            )
        return DilatedLayer(
            height=self.length,
            width=1,
            channels=self.channels,
            out_channels=self.out_channels,
            kernel_height=self.kernel,
            kernel_width=1,
            stride=(self.stride, 1),
            padding=(before, behind, 0, 0),
            outside=self.outside,
            dilation=self.dilation,
        )

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels."""
        return (self.geometry.pixels,)

    @property
    def macs(self) -> int:
        """Multiplications of the layer; products with padding count."""
        return self.geometry.macs

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``LxC:OxK[:s=S,p=P,d=D,v=V]``: P one padding or ``BEFORExBEHIND``.

        V is 0, all others are 1 unless given.
        """
        match = re.fullmatch(r"(\d+)x(\d+):(\d+)x(\d+)(?::(.*))?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be LxC:OxK[:s=,p=,d=,v=], not {text}")
        length, channels, filters, kernel = map(number, match.groups()[:4])
        options = options_of(text, match[5], ("s", "p", "d", "v"))
        (stride,), (dilation,) = (spread(key, options.get(key, "1"), 1) for key in ("s", "d"))
        before, behind = spread("p", options.get("p", "1"), 2)
        return cls(
            length=length,
            channels=channels,
            out_channels=filters,
            kernel=kernel,
            stride=stride,
            dilation=dilation,
            padding=(before, behind),
            outside=whole_number("v", options.get("v", "0")),
        )

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        text = f"{self.length}x{self.channels}:{self.out_channels}x{self.kernel}"
        given = {"s": ((self.stride,), "1"), "p": (self.padding, "1"), "d": ((self.dilation,), "1")}
        return written(text, {**given, "v": ((self.outside,), "0")})
