"""Layers that keep channels apart: depthwise convolution, pooling, and what is done element by element."""

import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer_text import check_elements, check_size, number
from xpulpnn_sw.windows import OPTIONS_WITH_VALUE, Windows

WINDOW_FORM = "HxWxC:KyxKx[:s=,p=]"
DEPTHWISE_FORM = "HxWxC:KyxKx[:s=,p=,v=]"
AVERAGE_FORM = "HxWxC:KyxKx[:s=,p=][:scaled]"
MAXIMUM_FORM = "HxWxC:KyxKx[:s=,p=][:relu]"
MAP_FORM = "HxWxC"
_SCALED = ":scaled"
_RELU = ":relu"
ADD_FORM = "HxWxC[:shift]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLayer(Windows):
    """A window of each channel of one feature map for each output."""

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation."""
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

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC:KyxKx[:s=S,p=P]``.

        S is one stride or ``SYxSX``, 1 unless given; P is one padding or ``TOPxBOTTOMxLEFTxRIGHT``.
        """
        known, _ = cls.fields_of(text, WINDOW_FORM)
        return cls(**known)

    @classmethod
    def fields_of(cls, text: str, form: str) -> tuple[dict[str, Any], str | None]:
        """Fields that all such layers have, out of a text of this form, and its options."""
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+):(\d+)x(\d+)(?::(.*))?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be {form}, not {text}")
        names = ("height", "width", "channels", "kernel_height", "kernel_width")
        sizes = dict(zip(names, map(number, match.groups()[:5]), strict=True))
        stride, padding = cls.steps_of(text, match[6])
        return {**sizes, "stride": stride, "padding": padding}, match[6]

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        kernel = f"{self.kernel_height}x{self.kernel_width}"
        return self.with_steps(f"{self.height}x{self.width}x{self.channels}:{kernel}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseLayer(WindowLayer):
    """Convolution of each channel by a filter of its own; padding is 1 unless given."""

    usual_padding: ClassVar[str] = "1"
    options: ClassVar[tuple[str, ...]] = OPTIONS_WITH_VALUE

    outside: int = 0  # the value around the map, in the range of the inputs

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC:KyxKx[:s=S,p=P,v=V]``: V the value around the map, 0 unless given."""
        known, options = cls.fields_of(text, DEPTHWISE_FORM)
        return cls(**known, outside=cls.outside_of(text, options))

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        kernel = f"{self.kernel_height}x{self.kernel_width}"
        return self.with_steps(f"{self.height}x{self.width}x{self.channels}:{kernel}", self.outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPoolLayer(WindowLayer):
    """Greatest element of each window; what lies outside the map is not looked at."""

    relu: bool = False  # whether results that are negative become 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC:KyxKx[:s=S,p=P][:relu]``."""
        return cls(**_marked(text, _RELU, MAXIMUM_FORM), relu=text.endswith(_RELU))

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        return WindowLayer.__str__(self) + (_RELU if self.relu else "")


def _marked(text: str, mark: str, form: str) -> dict[str, Any]:
    """The fields of a layer written like any with windows, maybe with a mark behind; in errors it has this form."""
    plain = text.removesuffix(mark)
    try:
        layer = WindowLayer.parse(plain)
    except LayerError as error:
        known = str(error).replace(WINDOW_FORM, form)
        raise LayerError(known.removesuffix(plain) + text if plain != text else known) from None
    return {item.name: getattr(layer, item.name) for item in fields(layer)}


MAX_AREA = 4096
"""Most elements of a window that is averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPoolLayer(WindowLayer):
    """Sum over each window over the whole window's area; what lies outside the map adds nothing."""

    scaled: bool = False  # whether the sum is multiplied before and requantised after the division

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation, or windows too large for the sums."""
        WindowLayer.__post_init__(self)
        if self.area > MAX_AREA:
            raise LayerError(f"window must be at most {MAX_AREA} elements, not {self.area}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC:KyxKx[:s=S,p=P][:scaled]``."""
        return cls(**_marked(text, _SCALED, AVERAGE_FORM), scaled=text.endswith(_SCALED))

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        return WindowLayer.__str__(self) + (_SCALED if self.scaled else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLayer:
    """What is done with each element of feature maps by itself."""

    operands: ClassVar[int] = 1

    height: int  # size of the feature maps
    width: int  # size of the feature maps
    channels: int  # size of the feature maps

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation."""
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

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC``."""
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be {MAP_FORM}, not {text}")
        height, width, channels = map(number, match.groups())
        return cls(height=height, width=width, channels=channels)

    def __str__(self) -> str:
        """The text :meth:`parse` accepts."""
        return f"{self.height}x{self.width}x{self.channels}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLayer(MapLayer):
    """Sum of two feature maps, each scaled."""

    operands: ClassVar[int] = 2

    shifted: bool = False  # whether the sum is shifted, once, instead of each summand being scaled and clipped before

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC[:shift]``."""
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+)(:shift)?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be {ADD_FORM}, not {text}")
        height, width, channels = map(number, match.groups()[:3])
        return cls(height=height, width=width, channels=channels, shifted=match[4] is not None)

    def __str__(self) -> str:
        """The text :meth:`parse` accepts."""
        return f"{self.height}x{self.width}x{self.channels}{':shift' if self.shifted else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReluLayer(MapLayer):
    """Negative elements become 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeLayer(MapLayer):
    """Elements stay what they are, and come to lie channel by channel in memory."""
