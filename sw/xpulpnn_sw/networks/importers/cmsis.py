"""The CIFAR-10 network of CMSIS-NN and of the PULP-NN paper: three convolutions, each with ReLU and pooling, and a
classifier, everything signed and of 8 bits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.build import NetworkBuilder
from xpulpnn_sw.networks.described import Described, Scaling

# classes of CIFAR-10
LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

# differences to the mean of the training images, halved and rounded
SCALING = Scaling(subtract=(125, 123, 114), multiply=128, add=128, shift=8)
_SHAPES: Mapping[str, tuple[int, ...]] = {
    "conv1": (32, 5, 5, 3),
    "conv2": (16, 5, 5, 32),
    "conv3": (32, 5, 5, 16),
    "ip1": (10, 512),
    "b1": (32,),
    "b2": (16,),
    "b3": (32,),
    "bi": (10,),
}
ARRAYS = tuple(_SHAPES)  # weights, `[out][ky][kx][in]` and `[out][in]`, and biases
_SHIFTS = ((6, 9), (4, 9), (1, 7), (1, 8))  # of biases to the left and of sums to the right, convolutions first
_SIDE = 32
_PRECISION, _POOLED = "i8x8xi8", "i8xi8xi8"
_LEAST, _GREATEST = -128, 127


def network(arrays: Mapping[str, NDArray[Any]], name: str) -> Described:
    """The network: results are ``clip((sum + (bias << l) + (1 << (r - 1))) >> r, -128, 127)``."""
    for key, shape in _SHAPES.items():
        values = arrays[key]
        if values.shape != shape:
            raise InputError(f"shape of {key} must be {shape}, not {values.shape}")
        if values.min() < _LEAST or values.max() > _GREATEST:
            raise InputError(f"{key} must be {_LEAST}..{_GREATEST}, not {values.min()}..{values.max()}")
    builder = NetworkBuilder(name)
    layers = zip(ARRAYS[:4], ARRAYS[4:], _SHIFTS, strict=True)
    for number, (key, bias, (left, right)) in enumerate(layers):
        weights = arrays[key].astype(np.int64)
        biases = (arrays[bias].astype(np.int64) << left) + (1 << (right - 1))
        own = {"weights": weights, "bias": biases, "shift": np.array(right)}
        if key == "ip1":
            outputs, inputs = weights.shape
            builder.add("classify", "linear", f"{inputs}:{outputs}", _PRECISION, own, requantise="shift")
            break
        side, (filters, _, _, channels) = _SIDE >> number, weights.shape
        text = f"{side}x{side}x{channels}:{filters}x5x5:s=1,p=2{'' if number else ':image'}"
        builder.add(f"conv{number + 1}", "conv", text, _PRECISION, own, requantise="shift")
        # windows at the right and the lower edge are smaller
        pool = f"{side}x{side}x{filters}:3x3:s=2,p=0x1x0x1:relu"
        builder.add(f"pool{number + 1}", "maxpool", pool, _POOLED)
    return builder.finish(SCALING, LABELS)
