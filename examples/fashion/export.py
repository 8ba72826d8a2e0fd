"""The trained network in integers."""

import numpy as np
import torch
from model import CHANNELS, CLASSES, PIXEL_BITS, SIDE, Convolution, Net

from xpulpnn_sw.networks.network import NetworkModel
from xpulpnn_sw.networks.network_file import NetworkBuilder
from xpulpnn_sw.networks.normalisation import largest_sums, normalised

NAMES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def _numbers(values: torch.Tensor) -> np.ndarray:
    return values.detach().numpy().astype(np.float64)


def _convolution(one: Convolution, weights: np.ndarray, unit: float, most: int) -> dict[str, np.ndarray]:
    """Normalisation of sums, each of which stands for ``unit`` times the scale of the weights, to activations."""
    own = one.normalisation
    slope = _numbers(own.weight) / np.sqrt(_numbers(own.running_var) + own.eps)
    offset = _numbers(own.bias) - slope * _numbers(own.running_mean)
    step = one.scale.item()
    factor = slope * unit * _numbers(one.weights.scale) / step
    return normalised(factor, offset / step, largest_sums(weights, 0, most))


def described(net: Net, bits: int) -> NetworkModel:
    """The network with weights and activations of so many bits; inputs are the samples of the pixels as they are.

    Raises :class:`~xpulpnn.errors.LayerError` for parameters beyond what fits in 32 bits.
    """
    builder = NetworkBuilder(f"fashion{bits}")
    side, inputs, width = SIDE, 1, PIXEL_BITS
    unit = 1 / ((1 << PIXEL_BITS) - 1)
    for number, (one, outputs) in enumerate(zip(net.convolutions, CHANNELS, strict=True), start=1):
        weights = one.weights.integers().detach().numpy().astype(np.int64).transpose(0, 2, 3, 1)
        layer = f"{side}x{side}x{inputs}:{outputs}x3x3:p=1{':image' if number == 1 else ''}"
        after = _convolution(one, weights, unit, (1 << width) - 1)
        precision = f"{width}x{one.weights.bits}x{bits}"
        builder.add(f"conv{number}", "conv", layer, precision, {"weights": weights, **after})
        inputs, width, unit = outputs, bits, one.scale.item()
        if number < len(CHANNELS):
            builder.add(f"pool{number}", "maxpool", f"{side}x{side}x{inputs}:2x2:s=2", f"{bits}x{bits}x{bits}")
            side //= 2
    # torch lies the maps out channel by channel, memory pixel by pixel
    weights = net.weights.integers().detach().numpy().astype(np.int64)
    weights = weights.reshape(CLASSES, inputs, side, side).transpose(0, 2, 3, 1).reshape(CLASSES, -1)
    bias = np.rint(_numbers(net.bias) / (unit * net.weights.scale.item())).astype(np.int64)
    arrays = {"weights": weights, "bias": bias}
    builder.add("scores", "linear", f"{weights.shape[1]}:{CLASSES}:raw", f"{bits}x{bits}xi32", arrays)
    return builder.finish(labels=NAMES)
