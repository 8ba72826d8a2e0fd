"""Golden models of networks on plain integers, independent of the kernels, for many images at once, and of the
binarised classifier on numbers +1 and -1."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sim.reference.golden.effects import I32, I64
from xpulpnn_sim.reference.golden.layers import AnyInt, Pads, Window, element_range


def signs(values: AnyInt) -> I64:
    return np.where(values > 0, 1, -1)


def binary_image(image: NDArray[np.uint8], offsets: tuple[int, ...] = (-127, -100, -70)) -> I64:
    """Return the binary input [y, x, colour] of the vehicle classifier: the signs of pixel values plus the offsets."""
    return signs(image.astype(np.int64) + np.array(offsets))


def convolution(values: AnyInt, weights: AnyInt) -> I64:
    """Return the convolution of a feature map [y, x, channel] with filters [out, ky, kx, channel], padded with -1."""
    _, height, width, _ = weights.shape
    window = Window(height, width, pads=Pads(height // 2, height // 2, width // 2, width // 2))
    return layers.windowed_sums(values[np.newaxis], weights, window, -1, 1)[0]


def classify(image: NDArray[np.uint8], filters: tuple[AnyInt, ...], connected: tuple[AnyInt, ...]) -> list[I64]:
    """Return the results of every layer for an image; ``connected`` are the weights of the fully connected layers."""
    values, results = binary_image(image), list[I64]()
    for weights in filters:
        # max pooling comes before the sign
        values = signs(layers.max_pool(convolution(values, weights), Window(2, 2, (2, 2))))
        results.append(values)
    values = values.reshape(-1)
    *hidden, last = connected
    for weights in hidden:
        values = signs(weights @ values)
        results.append(values)
    return [*results, (last @ values).astype(np.int64)]


def thresholds_below(accumulators: I32, thresholds: AnyInt) -> I32:
    """Return, for each accumulator, the number of the channel's thresholds below it."""
    rows = accumulators.reshape(-1, accumulators.shape[-1])
    counts = np.empty(rows.shape, np.int32)
    for channel, levels in enumerate(thresholds):
        counts[:, channel] = np.searchsorted(levels, rows[:, channel], side="left")
    return counts.reshape(accumulators.shape)


_SIGN_BITS = 1
_TABLE_BITS = 8  # summands of an addition that scales each are clipped to this width
_CHUNK_ELEMENTS = 1 << 22  # approximate number of operands of the widest layer that are processed at once
_INPUT = "input"

# layers and networks of `xpulpnn_sw.networks.network`; only their numbers and names are used
_Stage = Any
_Network = Any


def run_reference(network: _Network, inputs: NDArray[Any]) -> list[I32]:
    chunks = [results for _, results in _chunks(network, inputs)]
    return [np.concatenate([results[number] for results in chunks]) for number in range(len(network.stages))]


def run_scores(
    network: _Network, inputs: NDArray[Any], progress: Callable[[int], None] | None = None
) -> NDArray[np.int32]:
    """Return the results of the last layer for every image, ``[image][result]``, in less memory than
    :func:`run_reference`.

    ``progress`` is called with the number of finished images.
    """
    scores: list[I32] = []
    for first, results in _chunks(network, inputs):
        scores.append(results[-1].reshape(len(results[-1]), -1))
        if progress is not None:
            progress(first + len(results[-1]))
    return np.concatenate(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    correlation: float  # of all results; 0 if only one side is constant
    same: int  # images with the same index of the greatest result
    images: int


def agreement(network: _Network, inputs: NDArray[Any], expected: NDArray[Any]) -> Agreement:
    """Compare the results of the last layer with ``expected``; both have the shape ``[image][result]``."""
    scores = run_scores(network, inputs)
    same = int(np.count_nonzero(scores.argmax(axis=1) == expected.argmax(axis=1)))
    own, other = (values.ravel() - values.mean() for values in (scores.astype(np.float64), expected))
    product = float(np.linalg.norm(own) * np.linalg.norm(other))
    correlation = float(own @ other) / product if product else float(not own.any() and not other.any())
    return Agreement(correlation=correlation, same=same, images=len(scores))


def moved_codes(network: _Network, other: _Network, inputs: NDArray[Any]) -> dict[str, tuple[int, int, int]]:
    """Return, by layer, the number of results, the number that ``other`` computes differently, and the greatest
    difference.

    Both networks have the same layers; each layer of ``other`` reads the inputs of the same layer of ``network``.
    """
    counts: dict[str, tuple[int, int, int]] = {}
    for first, results in _chunks(network, inputs):
        own = inputs[first : first + len(results[-1])]
        known = {_INPUT: own, **{stage.name: values for stage, values in zip(network.stages, results, strict=True)}}
        for number, stage in enumerate(other.stages):
            maps = [_layer_input(stage, known[source], form) for source, form in other.reads(number)]
            right = known[stage.name].astype(np.int64)
            distances = np.abs(stage_results(stage, *maps).reshape(right.shape) - right)
            codes, moved, most = counts.get(stage.name, (0, 0, 0))
            moved += int(np.count_nonzero(distances))
            counts[stage.name] = codes + distances.size, moved, max(most, int(distances.max()))
    return counts


def _chunks(network: _Network, inputs: NDArray[Any]) -> Iterator[tuple[int, list[I32]]]:
    """Yield, for a few images at a time, the number of the first image and the results of every layer."""
    images = max(1, _CHUNK_ELEMENTS // max(_elements(stage) for stage in network.stages))
    for first in range(0, len(inputs), images):
        yield first, _computed(network, inputs[first : first + images])


def _elements(stage: Any) -> int:
    """Return the number of elements of the im2col operands of an image."""
    reduction = int(stage.tensors.weights[0].size) if hasattr(stage.tensors, "weights") else 1
    *pixels, channels = stage.output_shape
    return prod(pixels) * (reduction + channels)


def _computed(network: _Network, inputs: NDArray[Any]) -> list[I32]:
    known: dict[str, NDArray[Any]] = {_INPUT: inputs}
    for number, stage in enumerate(network.stages):
        maps = [_layer_input(stage, known[source], form) for source, form in network.reads(number)]
        known[stage.name] = stage_results(stage, *maps)
    return [known[stage.name].reshape(len(inputs), *stage.output_shape) for stage in network.stages]


def stage_results(stage: _Stage, *maps: NDArray[Any]) -> I32:
    """Return a layer's results for its input feature maps, whose first axis is the image."""
    return COMPUTED[stage.kind.name](stage, *maps).astype(np.int32)


def _layer_input(stage: _Stage, values: NDArray[Any], form: Any) -> I32:
    """Return an input in the shape that the layer expects; raise :class:`LayerError` for values out of range."""
    if values[0].size != prod(form.shape):
        raise LayerError(f"inputs of {stage.name} must be {form.shape}, not {values.shape[1:]}")
    least, most = (-1, 1) if form.bits == _SIGN_BITS else element_range(form.bits, signed=form.signed)
    low, high = int(values.min()), int(values.max())
    if low < least or high > most:
        raise LayerError(f"inputs of {stage.name} must be {least}..{most}, not {low if low < least else high}")
    return values.astype(np.int32).reshape(len(values), *form.shape)


def _padding(stage: _Stage) -> int:
    """Return the padding value, which is -1 for zero padding in a binary layer."""
    return -1 if stage.precision.x == _SIGN_BITS and not stage.pad else stage.pad


def _input_bound(stage: _Stage) -> int:
    return 1 << stage.precision.x


def _window(layer: Any) -> Window:
    return Window(layer.kernel_height, layer.kernel_width, layer.stride, Pads(*layer.padding))


def _conv(stage: _Stage, maps: I32) -> I32:
    sums = layers.windowed_sums(maps, stage.tensors.weights, _window(stage.layer), _padding(stage), _input_bound(stage))
    return _requantised(stage, sums)


def _conv1d(stage: _Stage, sequences: I32) -> I32:
    layer = stage.layer
    window = Window(layer.kernel, 1, (layer.stride, 1), Pads(*layer.padding), (layer.dilation, 1))
    weights = stage.tensors.weights[:, :, np.newaxis]
    sums = layers.windowed_sums(sequences[:, :, np.newaxis], weights, window, _padding(stage), _input_bound(stage))
    return _requantised(stage, sums[:, :, 0])


def _depthwise(stage: _Stage, maps: I32) -> I32:
    sums = layers.depthwise(maps, stage.tensors.weights, None, _window(stage.layer), _padding(stage))
    return _requantised(stage, sums.astype(np.int64))


def _linear(stage: _Stage, rows: I32) -> I32:
    return _requantised(stage, layers.products(rows, stage.tensors.weights, _input_bound(stage)))


def _add(stage: _Stage, first: I32, second: I32) -> I32:
    tensors, bits, signed = stage.tensors, stage.precision.y, stage.precision.y_signed
    if stage.layer.shifted:
        return layers.add_shifted(
            (first, second), tensors.factors, tensors.shift, bits, signed=signed, summand=tensors.summand
        )
    scaled = [
        layers.add_shifted([values], [scale.factor], scale.shift, _TABLE_BITS, signed=signed, summand=scale.summand)
        for values, scale in zip((first, second), tensors.scales, strict=True)
    ]
    return layers.add_shifted(scaled, (1, 1), 0, bits, signed=signed)


def _avgpool(stage: _Stage, maps: I32) -> I32:
    layer, own, bits, signed = stage.layer, stage.tensors, stage.precision.y, stage.precision.y_signed
    sums, area = layers.window_sums(maps, _window(layer)), layer.kernel_height * layer.kernel_width
    scale = (own.factor, own.summand, own.shift) if layer.scaled else (1, 0, 0)
    return layers.scaled_average(sums, area, scale, bits, signed=signed)


def _maxpool(stage: _Stage, maps: I32) -> I32:
    greatest = layers.max_pool(maps, _window(stage.layer))
    return np.maximum(greatest, 0) if stage.layer.relu else greatest


def _relu(_: _Stage, maps: I32) -> I32:
    return np.maximum(maps, 0)


def _gather(stage: _Stage, maps: I32) -> I32:
    return maps.reshape(len(maps), -1)[:, stage.tensors.indices]


def _lookup(stage: _Stage, maps: I32) -> I32:
    return stage.tensors.table[maps & (len(stage.tensors.table) - 1)]


def _softmax(stage: _Stage, maps: I32) -> I32:
    own, bits, signed = stage.tensors, stage.precision.y, stage.precision.y_signed
    exponentials = own.table.astype(np.int64)[255 - maps.max(axis=-1, keepdims=True) + maps]
    divisors = exponentials.sum(axis=-1, keepdims=True) * own.factor >> 32
    return np.clip((exponentials * 32 + divisors // 2) // divisors + own.summand, *element_range(bits, signed=signed))


def _layernorm(stage: _Stage, maps: I32) -> I32:
    own, channels, values = stage.tensors, maps.shape[-1], maps.astype(np.int64)
    total = values.sum(axis=-1, keepdims=True)
    squares = channels * (values * values).sum(axis=-1, keepdims=True) - total * total
    squares = np.maximum((squares << 2 * stage.layer.places) + own.epsilon, 1)
    # so many times 4 that there are 31 or 32 bits
    places = np.maximum(32 - np.frexp(squares)[1], 0) // 2
    root = np.full_like(squares, 0x5A00_0000)
    for _ in range(6):
        rest = (3 << 28) - ((root * root >> 32) * (squares << 2 * places) >> 32)
        root = (root * (rest << 2) >> 32) << 1
    deviations = (((values * channels - total) << (places + stage.layer.places + 10)) * root >> 32) << 2
    results = (deviations * own.gains >> 32) + own.offsets >> own.shift
    return np.clip(results, *element_range(stage.precision.y, signed=stage.precision.y_signed))


def _multiply(stage: _Stage, first: I32, second: I32) -> I32:
    own, bits, signed = stage.tensors, stage.precision.y, stage.precision.y_signed
    maps = (values.astype(np.int64) - zero for values, zero in zip((first, second), own.zeros, strict=True))
    is_matrix = stage.kind.name == "batchmatmul"
    sums: I64 = np.einsum("nypc,nyoc->nypo", *maps) if is_matrix else np.multiply(*maps)
    # sums of products below 2^16 times a power of two stay below 2^31
    upper = sums * min(256, (1 << 15) >> is_matrix * (first.shape[-1] - 1).bit_length()) * own.factor >> 32
    if own.twice:
        upper = sums * own.factor + (1 << 30) >> 31
        upper -= upper < 0
    return np.clip((upper + own.summand) >> own.shift, *element_range(bits, signed=signed))


def _transpose(_: _Stage, maps: I32) -> I32:
    return maps  # a transposition changes the layout in memory only


COMPUTED: Mapping[str, Callable[..., I32]] = {
    "add": _add,
    "avgpool": _avgpool,
    "conv": _conv,
    "conv1d": _conv1d,
    "depthwise": _depthwise,
    "gather": _gather,
    "layernorm": _layernorm,
    **dict.fromkeys(("linear", "matmul"), _linear),
    "lookup": _lookup,
    "maxpool": _maxpool,
    **dict.fromkeys(("multiply", "batchmatmul"), _multiply),
    "pointwise": _conv,
    "relu": _relu,
    "softmax": _softmax,
    "transpose": _transpose,
}


def _requantised(stage: _Stage, sums: I64) -> I32:
    """Return the results of a layer from sums without biases, ``[..., channel]``."""
    tensors, bits, signed = stage.tensors, stage.precision.y, stage.precision.y_signed
    accumulators = (sums if tensors.bias is None else sums + tensors.bias).astype(np.int32)
    after = tensors.requantisation
    if after is None:
        return accumulators
    match after.rule.value:
        case "bn32":
            return layers.quantise_bn(accumulators, after.kappa, after.lam, after.shift, bits, signed)
        case "bn64":
            return layers.quantise_bn(accumulators, after.kappa, after.lam, after.shift, bits, signed, width=64)
        case "exact" | "exact_one_shift":
            return layers.quantise_exactly(accumulators, after.factors, after.shifts, after.zero, bits, signed)
        case "multiply":
            return layers.quantise_bn(accumulators, after.factor, 0, after.shift, bits, signed)
        case "shift":
            return layers.quantise_bn(accumulators, 1, 0, after.shift, bits, signed)
        case _:
            counts = thresholds_below(accumulators, after.values)
    if bits == _SIGN_BITS:
        return 2 * counts - 1
    return counts - (1 << bits - 1 if signed else 0)
