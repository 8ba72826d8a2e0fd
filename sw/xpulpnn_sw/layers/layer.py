"""Layers: convolutions, matrix products, fully connected layers, poolings and element-wise layers."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn.errors import LayerError, require
from xpulpnn_sw.layers.text import OUTSIDE, STRIDE, LayerText, Option, Windows, check_elements, check_size, pad_option

MAX_AREA = 1 << 14  # most elements of a window that is averaged, so that their sum leaves a factor ten bits
MAX_NORMALISED = 512  # most channels whose variance times their square has 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLayer(Windows):
    """A layer that computes an output element from each window of each channel of a feature map."""

    def __post_init__(self) -> None:
        top, bottom, left, right = self.padding
        sides = ("height", self.kernel_height, (top, bottom)), ("width", self.kernel_width, (left, right))
        for name, kernel, pads in sides:
            for value in pads:
                # otherwise a window could consist of padding only
                if value >= kernel > 0:
                    raise LayerError(f"padding must be less than the kernel {name} {kernel}, not {value}")
        # super() does not find the class of a dataclass with slots
        Windows.__post_init__(self)

    @property
    def out_channels(self) -> int:
        return self.channels

    @property
    def area(self) -> int:
        return self.kernel_height * self.kernel_width

    @property
    def macs(self) -> int:
        """Elements of all windows, with padding; a depthwise convolution multiplies each of them once."""
        return self.out_height * self.out_width * self.channels * self.area


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseLayer(WindowLayer):
    """Depthwise convolution: each channel has a separate filter; the default padding is 1."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=,v=]"
    options = (STRIDE, pad_option("1"), OUTSIDE)

    outside: int = 0  # padding value, in the range of the inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPoolLayer(WindowLayer):
    """Maximum pooling: the greatest element of each window; padding is ignored."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=][:relu]"
    mark = (":relu", "relu")

    relu: bool = False  # whether negative results become 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPoolLayer(WindowLayer):
    """Average pooling: the sum of each window divided by the window's area; padding counts as 0."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=][:scaled]"
    mark = (":scaled", "scaled")

    scaled: bool = False  # whether the sum is multiplied before the division and requantised after it

    def __post_init__(self) -> None:
        WindowLayer.__post_init__(self)
        require(self.area <= MAX_AREA, f"window must be at most {MAX_AREA} elements, not {self.area}", LayerError)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLayer(LayerText):
    """A layer that computes each element of its output from one element of each input map."""

    form: ClassVar[str] = "HxWxC"
    sizes = (("height", "width", "channels"),)
    operands: ClassVar[int] = 1

    height: int
    width: int
    channels: int

    def __post_init__(self) -> None:
        self.check_sizes()
        check_elements("input", self.height * self.width * self.channels)

    @property
    def out_channels(self) -> int:
        return self.channels

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.height, self.width

    @property
    def macs(self) -> int:
        """Number of elements read, as these layers do not multiply."""
        return self.height * self.width * self.channels * self.operands


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLayer(MapLayer):
    form: ClassVar[str] = "HxWxC[:shift]"
    mark = (":shift", "shifted")
    operands: ClassVar[int] = 2

    shifted: bool = False  # whether the sum is shifted once, instead of each summand being scaled and clipped


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplyLayer(MapLayer):
    operands: ClassVar[int] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReluLayer(MapLayer):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupLayer(MapLayer):
    """Any function of each element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxLayer(MapLayer):
    """Share of each channel's exponential in the sum of those of its pixel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormLayer(MapLayer):
    """Channels of each pixel less their mean and divided by their standard deviation, with a scale for each."""

    def __post_init__(self) -> None:
        MapLayer.__post_init__(self)
        most = MAX_NORMALISED
        require(self.channels <= most, f"channels must be at most {most}, not {self.channels}", LayerError)

    @property
    def places(self) -> int:
        """Factors of 4 by which the variance times the square of the channels still has 32 bits."""
        return MAX_NORMALISED.bit_length() - 1 - (self.channels - 1).bit_length()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMatmulLayer(LayerText):
    """Matrix product of each row of two maps, ``acc[y,x,o] = sum((first[y,x,c] - zero) * (second[y,o,c] - zero))``."""

    form: ClassVar[str] = "HxWxC:O"
    sizes = (("height", "width", "channels"), ("out_channels",))
    operands: ClassVar[int] = 2

    height: int
    width: int
    channels: int
    out_channels: int

    def __post_init__(self) -> None:
        self.check_sizes()
        check_elements("first and second", self.height * (self.width + self.out_channels) * self.channels)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.height, self.width

    @property
    def macs(self) -> int:
        return self.height * self.width * self.channels * self.out_channels


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherLayer(LayerText):
    """A map whose elements are elements of the input, by their numbers."""

    form: ClassVar[str] = "HxWxC:HxWxC"
    sizes = (("height", "width", "channels"), ("out_height", "out_width", "out_channels"))

    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    out_channels: int

    def __post_init__(self) -> None:
        self.check_sizes()
        check_elements("input", self.height * self.width * self.channels)
        check_elements("output", self.macs)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.out_height, self.out_width

    @property
    def macs(self) -> int:
        """Number of elements read, as this layer does not multiply."""
        return self.out_height * self.out_width * self.out_channels


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeLayer(MapLayer):
    """Conversion of a feature map to channel-by-channel order in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayer(Windows):
    """Convolution of a feature map (HWC) in which every output channel depends on all input channels.

    ``acc[oy,ox,o] = bias[o] + sum(weight[o,ky,kx,c] * input[oy*s_y - top + ky, ox*s_x - left + kx, c])``. The
    padding value is ``outside``.
    """

    form: ClassVar[str] = "HxWxC:OxKyxKx[:s=,p=,v=]"
    sizes = (("height", "width", "channels"), ("out_channels", "kernel_height", "kernel_width"))
    options = (STRIDE, pad_option("1"), OUTSIDE)

    out_channels: int  # number of filters
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)  # as in Windows
    outside: int = 0  # padding value, in the range of the inputs; 0 means -1 for binary inputs
    dilation: int = 1  # distance between the input rows of neighbouring filter rows

    def __post_init__(self) -> None:
        # super() does not find the class of a dataclass with slots
        Windows.__post_init__(self)
        check_elements("weights", self.out_channels * self.reduction)
        check_elements("output", self.pixels * self.out_channels)

    @property
    def reach(self) -> int:
        return (self.kernel_height - 1) * self.dilation + 1

    @property
    def pixels(self) -> int:
        return self.out_height * self.out_width

    @property
    def reduction(self) -> int:
        return self.kernel_height * self.kernel_width * self.channels

    @property
    def macs(self) -> int:
        """Number of multiplications, including those with padding, as in the papers."""
        return self.pixels * self.out_channels * self.reduction


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulLayer(LayerText):
    """Matrix product ``result[p,o] = sum(weight[o,k] * activation[p,k])``, as in a convolution after im2col."""

    form: ClassVar[str] = "CxKxP"
    sizes = (("out_channels", "reduction", "pixels"),)

    out_channels: int  # rows of the weight matrix
    reduction: int  # products summed for one output
    pixels: int  # rows of the activation matrix

    def __post_init__(self) -> None:
        self.check_sizes()
        check_elements("input", self.pixels * self.reduction)
        check_elements("weights", self.out_channels * self.reduction)
        check_elements("output", self.pixels * self.out_channels)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.pixels,)

    @property
    def macs(self) -> int:
        return self.pixels * self.out_channels * self.reduction


ProductLayer = ConvLayer | MatmulLayer  # layers that a MatMul computes


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseLayer(ConvLayer):
    """Convolution whose filters have one pixel; the default padding is 0."""

    form: ClassVar[str] = "HxWxC:O[:s=,p=,v=]"
    sizes = (("height", "width", "channels"), ("out_channels",))
    options = (STRIDE, pad_option("0"), OUTSIDE)

    kernel_height: int = 1
    kernel_width: int = 1
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def is_plain(self) -> bool:
        """True if the layer has one output pixel for each input pixel, in the same order."""
        return self.stride == (1, 1) and not any(self.padding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConvLayer(ConvLayer):
    """Convolution of an image that is stored with its padding and without gaps between pixels."""

    form: ClassVar[str] = "HxWxC:OxKyxKx[:s=,p=,v=]:image"
    mark = (":image", None)

    @property
    def stored_width(self) -> int:
        return self.width + self.padding[2] + self.padding[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLayer(LayerText):
    """Fully connected layer, ``acc[n] = bias[n] + sum(weight[n,i] * input[i])``."""

    form: ClassVar[str] = "I:O[:raw]"
    sizes = (("inputs",), ("outputs",))
    mark = (":raw", "raw")

    inputs: int
    outputs: int
    raw: bool = False  # whether the results are the accumulators, whatever the precision

    def __post_init__(self) -> None:
        _ = self.geometry

    @property
    def geometry(self) -> MatmulLayer:
        return MatmulLayer(out_channels=self.outputs, reduction=self.inputs, pixels=1)

    @property
    def out_channels(self) -> int:
        return self.outputs

    @property
    def out_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def macs(self) -> int:
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1dLayer(LayerText):
    """Convolution of a sequence of pixels in which every output channel depends on all input channels.

    ``acc[t,o] = bias[o] + sum(weight[o,k,c] * input[t*stride - before + k*dilation, c])``. Padding pixels before
    and behind the sequence have the value ``outside``.
    """

    form: ClassVar[str] = "LxC:OxK[:s=,p=,d=,v=]"
    sizes = (("length", "channels"), ("out_channels", "kernel"))
    options = (Option("s", "stride", 1, "1"), Option("p", "padding", 2, "1"), Option("d", "dilation", 1, "1"), OUTSIDE)

    length: int  # pixels of the input
    channels: int  # channels of a pixel
    out_channels: int  # number of filters
    kernel: int  # pixels of a filter
    stride: int = 1  # step of the filter
    dilation: int = 1  # distance between the pixels of neighbouring filter taps
    padding: tuple[int, int] = (1, 1)  # pixels before and behind the input that filters may reach into
    outside: int = 0  # value of the padding, as of ConvLayer

    def __post_init__(self) -> None:
        check_size("dilation", self.dilation)
        _ = self.geometry

    @property
    def geometry(self) -> ConvLayer:
        """Two-dimensional convolution with the same results; the sequence is the only row or, if dilated, column."""
        (before, behind), in_row = self.padding, self.dilation == 1
        height, width = (1, self.length) if in_row else (self.length, 1)
        kernel_height, kernel_width = (1, self.kernel) if in_row else (self.kernel, 1)
        sizes = {"height": height, "width": width, "channels": self.channels, "out_channels": self.out_channels}
        sizes |= {"kernel_height": kernel_height, "kernel_width": kernel_width}
        stride = (1, self.stride) if in_row else (self.stride, 1)
        padding = (0, 0, before, behind) if in_row else (before, behind, 0, 0)
        return ConvLayer(**sizes, stride=stride, padding=padding, outside=self.outside, dilation=self.dilation)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.geometry.pixels,)

    @property
    def macs(self) -> int:
        return self.geometry.macs


Layer = ConvLayer | MatmulLayer | LinearLayer | Conv1dLayer | WindowLayer | MapLayer | GatherLayer | BatchMatmulLayer
