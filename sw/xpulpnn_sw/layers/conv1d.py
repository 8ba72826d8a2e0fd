"""Convolution along one direction."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn_sw.layers.convolution import ConvLayer
from xpulpnn_sw.layers.text import OUTSIDE, LayerText, Option, check_size


@dataclass(frozen=True, slots=True, kw_only=True)
class DilatedLayer(ConvLayer):
    """Convolution whose filter rows meet rows of the input that are apart."""

    dilation: int = 1  # distance of the pixels that a filter meets

    @property
    def reach(self) -> int:
        """Input rows from the first to the last that a filter meets."""
        return (self.kernel_height - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1dLayer(LayerText):
    """Convolution of a sequence of pixels, all channels to all channels.

    ``acc[t,o] = bias[o] + sum(weight[o,k,c] * input[t*stride - before + k*dilation, c])`` with
    ``outside`` around the sequence.
    """

    form: ClassVar[str] = "LxC:OxK[:s=,p=,d=,v=]"
    sizes = (("length", "channels"), ("out_channels", "kernel"))
    options = (Option("s", "stride", 1, "1"), Option("p", "padding", 2, "1"), Option("d", "dilation", 1, "1"), OUTSIDE)

    length: int  # pixels of the input
    channels: int  # channels of a pixel
    out_channels: int  # number of filters
    kernel: int  # pixels of a filter
    stride: int = 1  # step of the filter
    dilation: int = 1  # step of the filter; distance of the pixels it meets
    padding: tuple[int, int] = (1, 1)  # pixels before and behind the input that filters may reach into
    outside: int = 0  # the value of these, as of a ConvLayer

    def __post_init__(self) -> None:
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
