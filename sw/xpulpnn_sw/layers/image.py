"""Convolution of an image, which has fewer channels than a word elements."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn_sw.layers.convolution import ConvLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConvLayer(ConvLayer):
    """Convolution of a map that lies in memory with its margins, one pixel behind the other without gaps.

    What it computes is what a :class:`~xpulpnn_sw.layers.convolution.ConvLayer` does.
    """

    form: ClassVar[str] = "HxWxC:OxKyxKx[:s=,p=,v=]:image"
    mark = (":image", None)

    @property
    def stored_height(self) -> int:
        """Rows in memory, those of the padding included."""
        return self.height + self.padding[0] + self.padding[1]

    @property
    def stored_width(self) -> int:
        """Columns in memory, those of the padding included."""
        return self.width + self.padding[2] + self.padding[3]
