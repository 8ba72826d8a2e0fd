"""Convolution of single pixels, and the text that names it."""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layer_text import number


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseLayer(ConvLayer):
    """Convolution with filters of one pixel, without padding unless said."""

    usual_padding: ClassVar[str] = "0"

    kernel_height: int = 1
    kernel_width: int = 1
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def is_plain(self) -> bool:
        """Whether every input pixel gives an output pixel, in their order."""
        return self.stride == (1, 1) and not any(self.padding)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``HxWxC:O[:s=S,p=P,v=V]``, options as of a convolution, but the padding 0 unless given."""
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+):(\d+)(?::(.*))?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be HxWxC:O[:s=,p=,v=], not {text}")
        height, width, channels, filters = map(number, match.groups()[:4])
        stride, padding = cls.steps_of(text, match[5])
        return cls(
            height=height,
            width=width,
            channels=channels,
            out_channels=filters,
            stride=stride,
            padding=padding,
            outside=cls.outside_of(text, match[5]),
        )

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        return self.with_steps(f"{self.height}x{self.width}x{self.channels}:{self.out_channels}", self.outside)
