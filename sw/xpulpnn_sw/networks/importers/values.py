"""Values of tensors during import: constants, integer maps, and sums that are not quantised yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.importers.quantiser import Affine, Quantiser

Shape = tuple[int, int, int]
Pads = tuple[int, int, int, int]  # at top, bottom, left and right
NO_PADS: Pads = (0, 0, 0, 0)
Curve = Callable[[Fraction], Fraction]  # the inverse of a rising function
_MOST_ELEMENTS = 1 << 26
_MAP_AXES = 3  # rows, columns and channels

# how to quantise a model in floating point: ends of messages
QUANTISE = ": take --quantise 8 --images PATH, or onnxruntime's quantize_static or Brevitas's export_onnx_qcdq before"
CONVERT = ": give TFLiteConverter optimizations, representative_dataset, TFLITE_BUILTINS_INT8, inputs of int8"


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantised:
    """Quantised constants, which represent ``scale * values``."""

    values: Ints  # without zero point
    scale: NDArray[Any]  # of the shape of the values

    def transposed(self, axes: Sequence[int]) -> "Quantised":
        return Quantised(values=self.values.transpose(axes), scale=self.scale.transpose(axes))

    def reshaped(self, shape: Sequence[int]) -> "Quantised":
        return Quantised(values=self.values.reshape(shape), scale=self.scale.reshape(shape))

    @property
    def real(self) -> NDArray[Any]:
        return self.values.astype(object) * self.scale


@dataclass(frozen=True, eq=False)
class Map:
    """An integer map in memory that represents ``scale * q + offset``."""

    stage: str  # the layer that writes it, or `input`
    indices: Ints  # index in memory of each element of the model's tensor
    shape: Shape  # rows, columns and channels in memory
    bits: int
    signed: bool
    low: int
    high: int
    scale: Fraction
    offset: Fraction
    pads: Pads = NO_PADS  # zero padding that is not in memory yet
    # scale and zero point if the model's tensor holds integers; None: it holds real numbers
    codes: tuple[Fraction, Fraction] | None = None
    is_scaled: bool = False  # whether it is the network's input behind the scaling

    @classmethod
    def of(cls, quantiser: Quantiser, stage: str, shape: Shape, indices: Ints) -> "Map":
        own = (quantiser.bits, quantiser.signed, quantiser.low, quantiser.high, quantiser.scale, quantiser.offset)
        return cls(stage, indices, shape, *own)

    def check_unpadded(self) -> None:
        require(self.pads == NO_PADS, "padding must be right before a convolution or a maximum pooling, not here")


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    name: str
    kernel: str  # name of the kernel, as on the command line
    layer: str  # text of the layer, as on the command line
    sources: tuple[Map, ...]
    weights: Ints | None = None  # in the order of the kernel
    weight_bits: int = 8
    pad: int = 0  # value of the padding
    channels: tuple[Affine, ...]  # ranges and meanings of the sums of each channel
    pools: tuple[str, ...] = ()  # layers of maximum poolings behind the quantiser
    shape: Shape  # rows, columns and channels behind the poolings
    indices: Ints  # as of Map
    area: int = 1  # elements of an average's window
    centre: int | None = None  # integer from which ties of an average are rounded away; None: they are rounded up
    epsilon: float = 0  # added to variances of a layer normalisation
    curve: Curve | None = None  # inverse of an activation function before the quantiser
    factors: tuple[Fraction, Fraction] | None = None  # factors of the two maps of an addition
    # any function of a map: its results, `[channel][integer]` or the same for all channels, from the map's least on
    levels: NDArray[np.floating[Any]] | None = None
    join: Callable[[Sequence[Map]], Map] | None = None  # joins the sources, after each is quantised by itself

    @property
    def ends(self) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest of 0 and all numbers of a function, addition or average; None for other sums."""
        if self.weights is not None or self.curve is not None:
            return None
        if self.levels is not None:
            numbers = [exact_number(number) for number in (self.levels.min(), self.levels.max())]
        elif self.factors is not None:
            pairs = zip(self.factors, self.sources, strict=True)
            sides = [sorted(factor * end for end in (source.low, source.high)) for factor, source in pairs]
            numbers = [channel.at(sum(side)) for channel in self.channels for side in zip(*sides, strict=True)]
        elif self.kernel == "avgpool":
            numbers = [channel.at(end) for channel in self.channels for end in (channel.least, channel.most)]
        else:
            return None
        return min(Fraction(0), *numbers), max(Fraction(0), *numbers)


Constant = NDArray[Any] | Quantised
Value = Constant | Map | Sums


def standard_indices(shape: Shape, axes: int = 4) -> Ints:
    """Return indices in memory of ``[1][channel][row][column]``, or of ``[1][channel][column]`` with three axes."""
    _check_size(prod(shape))
    indices = np.arange(prod(shape)).reshape(shape).transpose(2, 0, 1)[np.newaxis]
    return indices if axes == indices.ndim else indices[:, :, 0]


def _check_size(elements: int) -> None:
    require(1 <= elements <= _MOST_ELEMENTS, f"maps must have 1..{_MOST_ELEMENTS} elements, not {elements}")


def by_channel(values: Constant, indices: Ints, channels: int) -> list[Fraction]:
    """Return a constant as a number for each channel; raises :class:`InputError` if it varies inside a channel."""
    real = values.real if isinstance(values, Quantised) else values
    try:
        spread = np.broadcast_to(real, indices.shape).ravel()
    except ValueError:
        raise InputError(f"constant must have a shape that goes with {indices.shape}, not {real.shape}") from None
    numbers = indices.ravel() % channels
    first = np.full(channels, -1)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    per_channel = spread[first]
    if not bool(np.all(spread == per_channel[numbers])):
        raise InputError("constant must be one number for each channel, not different ones inside a channel")
    return [exact_number(value) for value in per_channel]


def dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "nothing"


def live(value: Value | None) -> Map | Sums:
    if not isinstance(value, Map | Sums):
        raise InputError("input must depend on the input of the model, not be a constant")
    return value


def sums_of(value: Map | Sums) -> Sums:
    return identity(value) if isinstance(value, Map) else value


def constant_value(value: Value | None, what: str) -> NDArray[Any]:
    if not isinstance(value, np.ndarray):
        raise InputError(f"{what} must be a constant, not depend on the input")
    return value


def whole_constants(value: Value | None) -> list[int]:
    return [int(number) for number in constant_value(value, "shape and axes").ravel()]


def exact_number(value: Any) -> Fraction:
    if isinstance(value, Fraction):
        return value
    number: Any = value.item() if hasattr(value, "item") else value
    if isinstance(number, float) and not np.isfinite(number):
        raise InputError(f"constants must be finite, not {number}")
    return Fraction(number)


def finite(value: Any) -> Fraction:
    """Return the number of a function's result, in the range of single precision where it is infinite."""
    return Fraction(float(np.nan_to_num(np.float32(value))))


def scaled(value: Map | Sums, factors: Sequence[Fraction], summands: Sequence[Fraction]) -> Map | Sums:
    if isinstance(value, Map):
        if any(summands):
            value.check_unpadded()
        if len({*factors}) == len({*summands}) == 1 and factors[0]:
            return replace(value, scale=value.scale * factors[0], offset=value.offset * factors[0] + summands[0])
        value = identity(value)
    _check_plain(value)
    if value.pools and min(factors) < 0:
        raise InputError("factors behind a maximum pooling must not be negative where its input has no quantiser")
    pairs = zip(value.channels, factors, summands, strict=True)
    return replace(value, channels=tuple(channel.then(factor, summand) for channel, factor, summand in pairs))


def _check_plain(value: Sums) -> None:
    if value.curve is not None or value.levels is not None or value.join is not None:
        raise InputError("input must come from a quantiser, not from a function of what a layer gives")


def clamped(value: Sums, low: Fraction | None, high: Fraction | None) -> Sums:
    _check_plain(value)
    return replace(value, channels=tuple(channel.clamped(low, high) for channel in value.channels))


def identity(value: Map) -> Sums:
    """Return a map as the sums of a depthwise layer of 1x1 filters, so that it can be requantised."""
    value.check_unpadded()
    channels = value.shape[2]
    return Sums(
        name="",
        kernel="depthwise",
        layer=f"{dims(value.shape)}:1x1:p=0",
        sources=(value,),
        weights=np.ones((channels, 1, 1), np.int64),
        weight_bits=2,
        channels=(Affine(a=value.scale, b=value.offset, least=value.low, most=value.high),) * channels,
        shape=value.shape,
        indices=value.indices,
    )


def reshaped(value: Map, shape: tuple[int, ...]) -> Map:
    """Return a map with another shape; its elements are contiguous in memory."""
    elements = prod(value.shape)
    _check_size(elements)
    require(prod(shape) == elements, f"shape must be of {elements} elements, not {dims(shape)}")
    value.check_unpadded()
    stored = (*(1,) * (_MAP_AXES - len(shape)), *shape)
    if len(stored) == _MAP_AXES:
        value = replace(value, shape=(stored[0], stored[1], stored[2]))
    is_map = len(shape) == _MAP_AXES
    return replace(value, indices=standard_indices(value.shape) if is_map else np.arange(elements).reshape(1, *shape))


def _letter(bits: int, *, signed: bool, usual: bool) -> str:
    return f"{'' if signed == usual or bits == SIGN_BITS else 'ui'[signed]}{bits}"


def precision_text(source: Map, weight_bits: int, bits: int, *, signed: bool, second: Map | None = None) -> str:
    x = _letter(source.bits, signed=source.signed, usual=False)
    w = str(weight_bits) if second is None else _letter(second.bits, signed=second.signed, usual=True)
    return f"{x}x{w}x{_letter(bits, signed=signed, usual=False)}"
