"""Convolution of single pixels."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn_sw.layers.convolution import ConvLayer
from xpulpnn_sw.layers.text import OUTSIDE, STRIDE, padding_option


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseLayer(ConvLayer):
    """Convolution with filters of one pixel, without padding unless said."""

    form: ClassVar[str] = "HxWxC:O[:s=,p=,v=]"
    sizes = (("height", "width", "channels"), ("out_channels",))
    options = (STRIDE, padding_option("0"), OUTSIDE)

    kernel_height: int = 1
    kernel_width: int = 1
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def is_plain(self) -> bool:
        """Tell whether every input pixel gives an output pixel, in their order."""
        return self.stride == (1, 1) and not any(self.padding)
