"""Layers a kernel computes, and the text that names them on the command line."""

import re
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer_text import check_elements, check_size, number
from xpulpnn_sw.windows import OPTIONS_WITH_VALUE, Windows


class Layer(Protocol):
    """A layer of any kernel; its text is what :meth:`parse` accepts."""

    @property
    def out_channels(self) -> int:
        """Channels of the output."""
        ...

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels."""
        ...

    @property
    def macs(self) -> int:
        """Multiplications of the layer, or what its kernel counts instead of them."""
        ...

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written so; raises :class:`LayerError` for a text that describes none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer(Windows):
    """Convolution of one HWC feature map, all channels to all channels.

    ``acc[oy,ox,o] = bias[o] + sum(weight[o,ky,kx,c] * input[oy*s_y - top + ky, ox*s_x - left + kx, c])`` with
    ``outside`` around the map.
    """

    usual_padding: ClassVar[str] = "1"
    options: ClassVar[tuple[str, ...]] = OPTIONS_WITH_VALUE

    out_channels: int  # number of filters
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)  # as of Windows; a window is what a filter meets
    outside: int = 0  # the value around the map, in the range of the inputs; 0 means -1 where these have one bit

    def __post_init__(self) -> None:
        # dataclasses with slots are other classes than the one that super() would mean
        Windows.__post_init__(self)
        check_size("out channels", self.out_channels)
        check_elements("weights", self.out_channels * self.reduction)
        check_elements("output", self.pixels * self.out_channels)

    @property
    def pixels(self) -> int:
        """Pixels of the output map."""
        return self.out_height * self.out_width

    @property
    def reduction(self) -> int:
        """Products summed for one output."""
        return self.kernel_height * self.kernel_width * self.channels

    @property
    def macs(self) -> int:
        """Multiplications of the layer; products with padding count, as in the papers."""
        return self.pixels * self.out_channels * self.reduction

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC:OxKyxKx[:s=S,p=P,v=V]``.

        S is one stride or ``SYxSX``; P is one padding or ``TOPxBOTTOMxLEFTxRIGHT``. Both are 1 unless given. V is the
        value around the map, 0 unless given.
        """
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+):(\d+)x(\d+)x(\d+)(?::(.*))?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be HxWxC:OxKyxKx[:s=,p=,v=], not {text}")
        height, width, channels, filters, kernel_y, kernel_x = map(number, match.groups()[:6])
        stride, padding = cls.steps_of(text, match[7])
        return cls(
            height=height,
            width=width,
            channels=channels,
            out_channels=filters,
            kernel_height=kernel_y,
            kernel_width=kernel_x,
            stride=stride,
            padding=padding,
            outside=cls.outside_of(text, match[7]),
        )

    def __str__(self) -> str:
        kernel = f"{self.kernel_height}x{self.kernel_width}"
        return self.with_steps(f"{self.height}x{self.width}x{self.channels}:{self.out_channels}x{kernel}", self.outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulLayer:
    """Matrix product ``result[p,o] = sum(weight[o,k] * activation[p,k])``, the MatMul of a convolution by itself."""

    out_channels: int  # rows of the weight matrix
    reduction: int  # products summed for one output
    pixels: int  # rows of the activation matrix

    def __post_init__(self) -> None:
        for name in ("out_channels", "reduction", "pixels"):
            check_size(name.replace("_", " "), getattr(self, name))
        check_elements("input", self.pixels * self.reduction)
        check_elements("weights", self.out_channels * self.reduction)
        check_elements("output", self.pixels * self.out_channels)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels."""
        return (self.pixels,)

    @property
    def macs(self) -> int:
        """Multiplications of the layer."""
        return self.pixels * self.out_channels * self.reduction

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``CxKxP``: channels, reduction length, pixels."""
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be CxKxP, not {text}")
        channels, reduction, pixels = map(number, match.groups())
        return cls(out_channels=channels, reduction=reduction, pixels=pixels)

    def __str__(self) -> str:
        return f"{self.out_channels}x{self.reduction}x{self.pixels}"


ProductLayer = ConvLayer | MatmulLayer  # what a MatMul computes
