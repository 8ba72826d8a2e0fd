"""Fully connected layer, and the text that names it."""

import re
from dataclasses import dataclass
from typing import Self

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer import MatmulLayer
from xpulpnn_sw.layer_text import number


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLayer:
    """Every output is a sum over all inputs, ``acc[n] = bias[n] + sum(weight[n,i] * input[i])``."""

    inputs: int
    outputs: int
    raw: bool = False  # whether the results are the accumulators, whatever the precision says

    def __post_init__(self) -> None:
        """Reject sizes that describe no computation."""
        _ = self.geometry

    @property
    def geometry(self) -> MatmulLayer:
        """The same as a matrix product with one row of activations."""
        return MatmulLayer(out_channels=self.outputs, reduction=self.inputs, pixels=1)

    @property
    def out_channels(self) -> int:
        """Its outputs."""
        return self.outputs

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output without its channels: none."""
        return ()

    @property
    def macs(self) -> int:
        """Multiplications of the layer."""
        return self.inputs * self.outputs

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layer written ``I:O``, or ``I:O:raw`` if the results are the accumulators."""
        match = re.fullmatch(r"(\d+):(\d+)(:raw)?", text, re.ASCII)
        if match is None:
            raise LayerError(f"layer must be I:O[:raw], not {text}")
        return cls(inputs=number(match[1]), outputs=number(match[2]), raw=match[3] is not None)

    def __str__(self) -> str:
        """The text :meth:`parse` accepts."""
        return f"{self.inputs}:{self.outputs}{':raw' if self.raw else ''}"
