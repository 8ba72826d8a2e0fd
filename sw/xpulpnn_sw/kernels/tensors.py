"""Operands of a layer as numpy arrays, and random ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn_sw.layer import ConvLayer, ProductLayer
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.precision import Precision

MAX_SHIFT = 31
"""Largest shift of an RV32 ``srai``."""

_MAX_KAPPA = 255
_SAFE_BITS = 30
"""Accumulator times kappa stays below this power of two, so that adding lambda cannot wrap."""

_SPREAD_BITS = 25
"""The accumulator's standard deviation is below this power of two, which leaves room for its mean and for kappa."""

_UNIFORM_VARIANCE = 1 / 12
"""Of a number out of an interval of length 1."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Requantisation:
    """Batch normalisation and requantisation ``clip((kappa*acc + lam) >> shift)`` to ``0..2**bits - 1``.

    Parameters
    ----------
    kappa, lam : array of int
        Factor and offset of each output channel; product and sum wrap to 32 bits.
    shift : int
        Arithmetic right shift, 0..31.
    """

    kappa: Ints
    lam: Ints
    shift: int

    def __post_init__(self) -> None:
        """Reject a shift the instruction cannot do."""
        if not 0 <= self.shift <= MAX_SHIFT:
            raise LayerError(f"shift must be 0..{MAX_SHIFT}, not {self.shift}")


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerTensors:
    """What a kernel computes with.

    Parameters
    ----------
    activations : array of int
        Unsigned, ``[height][width][channel]`` of a convolution, ``[pixel][k]`` of a matrix product.
    weights : array of int
        Signed, ``[out][ky][kx][channel]`` or ``[out][k]``.
    bias : array of int, optional
        Start of each output channel's accumulator, int32.
    requantisation : Requantisation, optional
        Without it the results are the 32-bit accumulators.
    """

    activations: Ints
    weights: Ints
    bias: Ints | None = None
    requantisation: Requantisation | None = None

    def check(self, layer: ProductLayer, precision: Precision) -> None:
        """Raise :class:`LayerError` unless shapes are those of ``layer`` and results as in ``precision``."""
        if precision.requantised != (self.requantisation is not None):
            raise LayerError(f"requantisation must be there exactly for results below 32 bits, not with {precision}")
        if isinstance(layer, ConvLayer):
            activations = (layer.height, layer.width, layer.channels)
            weights = (layer.out_channels, layer.kernel_height, layer.kernel_width, layer.channels)
        else:
            activations = (layer.pixels, layer.reduction)
            weights = (layer.out_channels, layer.reduction)
        shapes: dict[str, tuple[Ints, tuple[int, ...]]] = {
            "activations": (self.activations, activations),
            "weights": (self.weights, weights),
        }
        if self.bias is not None:
            shapes["bias"] = (self.bias, (layer.out_channels,))
        if self.requantisation is not None:
            shapes["kappa"] = (self.requantisation.kappa, (layer.out_channels,))
            shapes["lambda"] = (self.requantisation.lam, (layer.out_channels,))
        for name, (array, shape) in shapes.items():
            if array.shape != shape:
                raise LayerError(f"shape of {name} must be {shape}, not {array.shape}")


def _coverage(layer: ProductLayer) -> NDArray[np.float64]:
    """In how many of the receptive fields each weight of a filter meets the input, as a fraction; else padding."""
    if not isinstance(layer, ConvLayer):
        return np.ones(1)
    top, _, left, _ = layer.padding
    y = np.arange(layer.out_height)[:, np.newaxis] * layer.stride[0] - top + np.arange(layer.kernel_height)
    x = np.arange(layer.out_width)[:, np.newaxis] * layer.stride[1] - left + np.arange(layer.kernel_width)
    rows = ((y >= 0) & (y < layer.height)).mean(axis=0)
    columns = ((x >= 0) & (x < layer.width)).mean(axis=0)
    return np.outer(rows, columns)[:, :, np.newaxis]


def random_tensors(
    layer: ProductLayer, precision: Precision, rng: np.random.Generator, *, bias: bool = True
) -> LayerTensors:
    """Uniform operands over their whole range; kappa, lambda and shift such that the results spread over theirs.

    Weights are narrower where the sums would wrap, which only happens with inputs of 16 bits.
    Kappa is positive and at most 8 bits wide, as in the PULP-NN libraries, less where the products would leave 32 bits.
    Lambda centres the results: ``(2**(bits - 1) << shift) - kappa * mean`` with the expected mean of the accumulator.
    """
    if isinstance(layer, ConvLayer):
        shape = (layer.height, layer.width, layer.channels)
        filters = (layer.out_channels, layer.kernel_height, layer.kernel_width, layer.channels)
    else:
        shape, filters = (layer.pixels, layer.reduction), (layer.out_channels, layer.reduction)
    # sums have a standard deviation of sqrt(products) / 6 of the largest product
    most = 6 / np.sqrt(layer.reduction) * (1 << _SPREAD_BITS >> precision.x)
    half = min(1 << (precision.w - 1), max(1, int(most)))
    activations = rng.integers(0, 1 << precision.x, shape)
    weights = rng.integers(-half, half, filters)
    # standard deviation of a uniform activation times the length of a filter
    squares = (weights.reshape(layer.out_channels, -1).astype(np.float64) ** 2).sum(axis=1).mean()
    spread = max(1, int(np.sqrt(squares * _UNIFORM_VARIANCE) * (1 << precision.x)))
    offsets = rng.integers(-spread, spread, layer.out_channels, endpoint=True) if bias else None
    requantisation = None
    if precision.requantised:
        kappa_bits = max(1, min(_MAX_KAPPA.bit_length(), _SAFE_BITS - 2 - spread.bit_length()))
        kappa = rng.integers(1 << (kappa_bits - 1), 1 << kappa_bits, layer.out_channels)
        # two standard deviations on each side fill the range
        shift = min(MAX_SHIFT, max(0, (4 * spread << kappa_bits).bit_length() - 1 - precision.y))
        sums = (weights * _coverage(layer)).reshape(layer.out_channels, -1).sum(axis=1)
        mean = (sums * ((1 << precision.x) - 1) / 2).astype(np.int64) + (0 if offsets is None else offsets)
        requantisation = Requantisation(kappa=kappa, lam=(1 << precision.y - 1 << shift) - kappa * mean, shift=shift)
    return LayerTensors(activations=activations, weights=weights, bias=offsets, requantisation=requantisation)
