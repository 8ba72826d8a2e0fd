"""Fully connected layer."""

from dataclasses import dataclass
from typing import ClassVar

from xpulpnn_sw.layers.convolution import MatmulLayer
from xpulpnn_sw.layers.text import LayerText


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLayer(LayerText):
    """Every output is a sum over all inputs, ``acc[n] = bias[n] + sum(weight[n,i] * input[i])``."""

    form: ClassVar[str] = "I:O[:raw]"
    sizes = (("inputs",), ("outputs",))
    mark = (":raw", "raw")

    inputs: int
    outputs: int
    raw: bool = False  # whether the results are the accumulators, whatever the precision says

    def __post_init__(self) -> None:
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
