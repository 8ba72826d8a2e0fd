"""The CIFAR-10 network of the PULP-NN paper: three convolutions with ReLU and pooling, and a linear classifier."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.reference.golden.layers import Pads, conv
from xpulpnn_sw.kernels.channelwise.maps import MapTensors
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Requantisation, Shifting
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layers.layer import ConvLayer, ImageConvLayer, LinearLayer, MaxPoolLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.importers.arrays_file import CMSIS, SCALING, network_in
from xpulpnn_sw.networks.network import Network, Stage

SIDE, COLOURS, CLASSES = 32, 3, 10
IMAGE = (SIDE, SIDE, COLOURS)
WIDTHS = (8, 4, 2)

_WINDOW = 5
_PADDING = (2, 2, 2, 2)
_POOL, _STRIDE = 3, 2
_FILTERS = (32, 16, 32)
_SIGNED = Precision(8, 8, 8, x_signed=True, y_signed=True)
_KAPPA = (128, 256)


def normalised_images(pixels: NDArray[np.uint8]) -> Ints:
    """Convert pixels to signed inputs of 8 bits: halved differences from the mean, rounded."""
    return SCALING.scaled(pixels, _SIGNED.x, signed=True)


def trained_network(path: Path) -> Network:
    """Return the network with the signed 8-bit weights of an npz file; raises :class:`InputError` if there are none."""
    return network_in(path, "cifar10_i8", (CMSIS,)).network


def random_network(bits: int, seed: int) -> tuple[Network, Ints]:
    """Return a network with random weights and a random input; the results of every layer fill their range. With fewer
    than 8 ``bits`` activations are unsigned, so that the requantisation includes ReLU. The first layer then has inputs
    and weights of 8 bits, and the last one returns its accumulators."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, 256, (SIDE // 4, SIDE // 4, COLOURS)).repeat(4, axis=0).repeat(4, axis=1)
    pixels = ((patches * 3 + rng.integers(0, 256, patches.shape)) // 4).astype(np.uint8)
    signed = bits == _SIGNED.x
    current = normalised_images(pixels) if signed else pixels.astype(np.int64)
    image, stages = current, []
    for number, filters in enumerate(_FILTERS):
        shape = (filters, _WINDOW, _WINDOW, current.shape[-1])
        width = bits if number else 8
        precision = _SIGNED if signed else Precision(width, width, bits)
        weights = _balanced(rng, shape, width)
        sums = conv(current, weights, None, (1, 1), Pads(*_PADDING)).astype(np.int64)
        tensors = _spread(np.zeros_like(current), weights, sums, precision, rng)
        for stage in _group(number, precision, tensors):
            stages.append(stage)
            current = reference(stage.layer, stage.with_inputs(current), stage.precision).astype(np.int64)
    weights = _balanced(rng, (CLASSES, current.size), bits)
    inputs = np.zeros(current.size, np.int64)
    layer = LinearLayer(inputs=current.size, outputs=CLASSES, raw=not signed)
    if signed:
        tensors = _spread(inputs, weights, weights @ current.reshape(-1), _SIGNED, rng)
    else:
        tensors = LayerTensors(activations=inputs, weights=weights)
    precision = _SIGNED if signed else Precision.uniform(bits).accumulators
    stages.append(Stage(name="classify", layer=layer, precision=precision, tensors=tensors))
    return Network(name=f"cifar10_random_{bits}", stages=tuple(stages)), image


def _group(number: int, precision: Precision, tensors: LayerTensors) -> list[Stage]:
    side, filters = SIDE >> number, _FILTERS[number]
    convolution = (ConvLayer if number else ImageConvLayer)(
        height=side,
        width=side,
        channels=tensors.weights.shape[-1],
        out_channels=filters,
        kernel_height=_WINDOW,
        kernel_width=_WINDOW,
        padding=_PADDING,
    )
    pooling = MaxPoolLayer(
        height=side,
        width=side,
        channels=filters,
        kernel_height=_POOL,
        kernel_width=_POOL,
        stride=(_STRIDE, _STRIDE),
        padding=(0, 1, 0, 1),
        relu=precision.y_signed,
    )
    results = np.zeros((side, side, filters), np.int64)
    bits, signed = precision.y, precision.y_signed
    same = Precision(bits, bits, bits, x_signed=signed, y_signed=signed)
    return [
        Stage(name=f"conv{number + 1}", layer=convolution, precision=precision, tensors=tensors),
        Stage(name=f"pool{number + 1}", layer=pooling, precision=same, tensors=MapTensors(activations=results)),
    ]


def _balanced(rng: np.random.Generator, shape: tuple[int, ...], bits: int) -> Ints:
    """Return random weights with a mean of nearly 0 in every filter, so that sums do not depend on the mean
    activation."""
    most = (1 << (bits - 1)) - 1
    count = int(np.prod(shape[1:]))
    half = rng.integers(1, most, (shape[0], count // 2), endpoint=True)
    rows = np.concatenate([half, -half, np.zeros((shape[0], count % 2), np.int64)], axis=1)
    return rng.permuted(rows, axis=1).reshape(shape)


def _spread(
    activations: Ints, weights: Ints, sums: Ints, precision: Precision, rng: np.random.Generator
) -> LayerTensors:
    channels = weights.shape[0]
    deviation = max(1, int(sums.std()))
    if precision.y_signed:
        bias = rng.integers(-deviation, deviation, channels, endpoint=True) // 4
        shift = min(MAX_SHIFT, max(1, (4 * deviation).bit_length() - precision.y))
        bias = bias + (1 << (shift - 1))
        return LayerTensors(activations=activations, weights=weights, bias=bias, requantisation=Shifting(shift=shift))
    kappa = rng.integers(*_KAPPA, channels)
    shift = min(MAX_SHIFT, (4 * deviation * _KAPPA[1]).bit_length() - 1 - precision.y)
    means = sums.reshape(-1, channels).mean(axis=0).astype(np.int64)
    lam = (1 << (precision.y - 1) << shift) - kappa * means
    return LayerTensors(
        activations=activations, weights=weights, requantisation=Requantisation(kappa=kappa, lam=lam, shift=shift)
    )
