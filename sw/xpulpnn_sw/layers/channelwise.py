"""Layers that keep channels apart: depthwise convolution, pooling, and what is done element by element."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers.text import OUTSIDE, STRIDE, LayerText, Windows, check_elements, check_size, padding_option

MAX_AREA = 4096  # most elements of a window that is averaged


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLayer(Windows):
    """A window of each channel of one feature map for each output."""

    def __post_init__(self) -> None:
        top, bottom, left, right = self.padding
        for name, kernel, pads in (
            ("height", self.kernel_height, (top, bottom)),
            ("width", self.kernel_width, (left, right)),
        ):
            for value in pads:
                # else some window would see nothing but padding
                if value >= kernel > 0:
                    raise LayerError(f"padding must be less than the kernel {name} {kernel}, not {value}")
        # dataclasses with slots are other classes than the one that super() would mean
        Windows.__post_init__(self)

    @property
    def out_channels(self) -> int:
        """Channels of the output, those of the input."""
        return self.channels

    @property
    def area(self) -> int:
        """Elements of a window."""
        return self.kernel_height * self.kernel_width

    @property
    def macs(self) -> int:
        """Elements of all windows, one multiplication each in a depthwise convolution; padding counts."""
        return self.out_height * self.out_width * self.channels * self.area


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseLayer(WindowLayer):
    """Convolution of each channel by a filter of its own; padding is 1 unless given."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=,v=]"
    options = (STRIDE, padding_option("1"), OUTSIDE)

    outside: int = 0  # the value around the map, in the range of the inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPoolLayer(WindowLayer):
    """Greatest element of each window; what lies outside the map is not looked at."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=][:relu]"
    mark = (":relu", "relu")

    relu: bool = False  # whether results that are negative become 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPoolLayer(WindowLayer):
    """Sum over each window over the whole window's area; what lies outside the map adds nothing."""

    form: ClassVar[str] = "HxWxC:KyxKx[:s=,p=][:scaled]"
    mark = (":scaled", "scaled")

    scaled: bool = False  # whether the sum is multiplied before and requantised after the division

    def __post_init__(self) -> None:
        WindowLayer.__post_init__(self)
        if self.area > MAX_AREA:
            raise LayerError(f"window must be at most {MAX_AREA} elements, not {self.area}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLayer(LayerText):
    """Layer that computes each element of feature maps by itself."""

    form: ClassVar[str] = "HxWxC"
    sizes = (("height", "width", "channels"),)
    operands: ClassVar[int] = 1

    height: int  # sizes of the feature maps
    width: int
    channels: int

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            check_size(name, getattr(self, name))
        check_elements("input", self.height * self.width * self.channels)

    @property
    def out_channels(self) -> int:
        """Channels of the output."""
        return self.channels

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels."""
        return self.height, self.width

    @property
    def macs(self) -> int:
        """Elements read."""
        return self.height * self.width * self.channels * self.operands


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLayer(MapLayer):
    """Sum of two feature maps, each scaled."""

    form: ClassVar[str] = "HxWxC[:shift]"
    mark = (":shift", "shifted")
    operands: ClassVar[int] = 2

    shifted: bool = False  # whether the sum is shifted, once, instead of each summand being scaled and clipped before


@dataclass(frozen=True, slots=True, kw_only=True)
class ReluLayer(MapLayer):
    """Negative elements become 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeLayer(MapLayer):
    """Elements stay what they are, and come to lie channel by channel in memory."""
