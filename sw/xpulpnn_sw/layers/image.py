"""Convolution of an image, which has fewer channels than a word elements, and the text that names it."""

from dataclasses import dataclass, fields
from typing import Self

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer import ConvLayer

_MARK = ":image"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConvLayer(ConvLayer):
    """Convolution of a map that lies in memory with its margins, one pixel behind the other without gaps.

    What it computes is what a :class:`~xpulpnn_sw.layer.ConvLayer` does.
    """

    @property
    def stored_height(self) -> int:
        """Rows in memory, those of the padding included."""
        return self.height + self.padding[0] + self.padding[1]

    @property
    def stored_width(self) -> int:
        """Columns in memory, those of the padding included."""
        return self.width + self.padding[2] + self.padding[3]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written like any convolution, with ``:image`` behind."""
        if not text.endswith(_MARK):
            raise LayerError(f"layer must be HxWxC:OxKyxKx[:s=,p=,v=]{_MARK}, not {text}")
        plain = ConvLayer.parse(text.removesuffix(_MARK))
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)})

    def __str__(self) -> str:
        """The text :meth:`parse` accepts, without default options."""
        return f"{ConvLayer.__str__(self)}{_MARK}"
