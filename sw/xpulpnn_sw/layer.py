"""Layers a kernel computes, and the text that names them on the command line."""

import re
from dataclasses import dataclass
from typing import Protocol, Self

from xpulpnn.errors import LayerError

MAX_SIZE = 65535
"""Largest dimension, stride or padding: sizes are 16-bit in the PULP-NN kernels."""


MAX_ELEMENTS = 1 << 24
"""Most elements of a tensor; keeps a mistyped layer from filling the host's memory."""


def check_size(name: str, value: int, *, least: int = 1) -> None:
    """Raise :class:`LayerError` unless a size is between ``least`` and :data:`MAX_SIZE`."""
    if not least <= value <= MAX_SIZE:
        raise LayerError(f"{name} must be {least}..{MAX_SIZE}, not {value}")


def check_elements(name: str, count: int) -> None:
    """Raise :class:`LayerError` for a tensor of more than :data:`MAX_ELEMENTS`."""
    if count > MAX_ELEMENTS:
        raise LayerError(f"{name} must be at most {MAX_ELEMENTS} elements, not {count}")


class Layer(Protocol):
    """What a layer of any kernel tells about itself; its text is what :meth:`parse` accepts."""

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
class ConvLayer:
    """Convolution of one HWC feature map, all channels to all channels.

    ``acc[oy,ox,o] = bias[o] + sum(weight[o,ky,kx,c] * input[oy*s_y - top + ky, ox*s_x - left + kx, c])`` with zeros
    outside the map.

    Parameters
    ----------
    height, width, channels : int
        Size of the input feature map.
    out_channels : int
        Number of filters.
    kernel_height, kernel_width : int
        Size of a filter.
    stride : (int, int)
        Step in y and in x.
    padding : (int, int, int, int)
        Zero rows and columns at top, bottom, left and right.
    """

    height: int
    width: int
    channels: int
    out_channels: int
    kernel_height: int
    kernel_width: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation."""
        for name in ("height", "width", "channels", "out_channels", "kernel_height", "kernel_width"):
            check_size(name.replace("_", " "), getattr(self, name))
        for value in self.stride:
            check_size("stride", value)
        for value in self.padding:
            check_size("padding", value, least=0)
        top, bottom, left, right = self.padding
        self._fits("height", self.reach, self.height + top + bottom)
        self._fits("width", self.kernel_width, self.width + left + right)
        check_elements("input", self.height * self.width * self.channels)
        check_elements("weights", self.out_channels * self.reduction)
        check_elements("output", self.pixels * self.out_channels)

    @staticmethod
    def _fits(name: str, kernel: int, padded: int) -> None:
        if kernel > padded:
            raise LayerError(f"kernel {name} must be at most the padded input's {padded}, not {kernel}")

    @property
    def reach(self) -> int:
        """Input rows from the first to the last that a filter meets."""
        return self.kernel_height

    @property
    def out_height(self) -> int:
        """Rows of the output map."""
        top, bottom, _, _ = self.padding
        return (self.height + top + bottom - self.reach) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the output map."""
        _, _, left, right = self.padding
        return (self.width + left + right - self.kernel_width) // self.stride[1] + 1

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels."""
        return self.out_height, self.out_width

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
        """The layer written ``HxWxC:OxKyxKx[:s=S,p=P]``.

        S is one stride or ``SYxSX``; P is one padding or ``TOPxBOTTOMxLEFTxRIGHT``. Both are 1 unless given.
        """
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+):(\d+)x(\d+)x(\d+)(?::(.*))?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be HxWxC:OxKyxKx[:s=,p=], not {text}")
        height, width, channels, filters, kernel_y, kernel_x = map(number, match.groups()[:6])
        options = options_of(text, match[7])
        stride = spread("s", options.get("s", "1"), 2)
        padding = spread("p", options.get("p", "1"), 4)
        return cls(
            height=height,
            width=width,
            channels=channels,
            out_channels=filters,
            kernel_height=kernel_y,
            kernel_width=kernel_x,
            stride=(stride[0], stride[1]),
            padding=(padding[0], padding[1], padding[2], padding[3]),
        )

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        text = (
            f"{self.height}x{self.width}x{self.channels}:{self.out_channels}x{self.kernel_height}x{self.kernel_width}"
        )
        options: list[str] = []
        if self.stride != (1, 1):
            options.append(f"s={join(self.stride)}")
        if self.padding != (1, 1, 1, 1):
            options.append(f"p={join(self.padding)}")
        return f"{text}:{','.join(options)}" if options else text


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulLayer:
    """Matrix product ``result[p,o] = sum(weight[o,k] * activation[p,k])``, the MatMul of a convolution by itself.

    Parameters
    ----------
    out_channels : int
        Rows of the weight matrix.
    reduction : int
        Products summed for one output.
    pixels : int
        Rows of the activation matrix.
    """

    out_channels: int
    reduction: int
    pixels: int

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation."""
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
        """The text :meth:`parse` accepts."""
        return f"{self.out_channels}x{self.reduction}x{self.pixels}"


ProductLayer = ConvLayer | MatmulLayer
"""What a MatMul computes."""

_MAX_DIGITS = 9


def number(digits: str) -> int:
    """A size; raises :class:`LayerError` for one of too many digits."""
    if len(digits) > _MAX_DIGITS:
        raise LayerError(f"size must be a number of at most {_MAX_DIGITS} digits, not {len(digits)} digits")
    return int(digits)


def options_of(text: str, part: str | None, keys: tuple[str, ...] = ("s", "p")) -> dict[str, str]:
    """The options of the layer ``text`` by key; raises :class:`LayerError` unless each is one of ``keys``."""
    if part is None:
        return {}
    options: dict[str, str] = {}
    for item in part.split(","):
        key, equals, value = item.partition("=")
        if not equals or key not in keys or key in options:
            known = " and ".join(filter(None, (", ".join(f"{name}=" for name in keys[:-1]), f"{keys[-1]}=")))
            raise LayerError(f"layer options must be {known}, each at most once, not {item or 'empty'} in {text}")
        options[key] = value
    return options


def spread(key: str, text: str, count: int) -> tuple[int, ...]:
    """One number for all ``count`` places, or one for each."""
    if re.fullmatch(r"\d+(x\d+)*", text, re.ASCII):
        numbers = tuple(map(number, text.split("x")))
        if len(numbers) in (1, count):
            return numbers * (count // len(numbers))
    raise LayerError(f"{key}= must be one number or {count} joined by x, not {text or 'empty'}")


def join(values: tuple[int, ...]) -> str:
    """The text :func:`spread` accepts."""
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))
