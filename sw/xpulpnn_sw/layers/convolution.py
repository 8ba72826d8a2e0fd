"""Layers a kernel computes, and the text that names them on the command line."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from xpulpnn_sw.layers.text import OUTSIDE, STRIDE, LayerText, check_elements, check_size, padding_option
from xpulpnn_sw.layers.windows import Windows


class Layer(Protocol):
    """Description of a layer of any kernel; its text is what :meth:`parse` accepts."""

    form: ClassVar[str]

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

    form: ClassVar[str] = "HxWxC:OxKyxKx[:s=,p=,v=]"
    sizes = (("height", "width", "channels"), ("out_channels", "kernel_height", "kernel_width"))
    options = (STRIDE, padding_option("1"), OUTSIDE)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulLayer(LayerText):
    """Matrix product ``result[p,o] = sum(weight[o,k] * activation[p,k])``, the MatMul of a convolution by itself."""

    form: ClassVar[str] = "CxKxP"
    sizes = (("out_channels", "reduction", "pixels"),)

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


ProductLayer = ConvLayer | MatmulLayer  # what a MatMul computes
