"""Values of a model's tensors while it is read: constants, maps of integers, sums that wait for a quantiser."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.levels import Affine, Levels

Shape = tuple[int, int, int]
Pads = tuple[int, int, int, int]  # at top, bottom, left and right
NO_PADS: Pads = (0, 0, 0, 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantised:
    """Constants that stand for ``scale * values``."""

    values: Ints  # the numbers, their zero point subtracted
    scale: NDArray[Any]  # of the same shape

    def turned(self, axes: Sequence[int]) -> "Quantised":
        """The same with its axes in another order."""
        return Quantised(values=self.values.transpose(axes), scale=self.scale.transpose(axes))

    def reshaped(self, shape: Sequence[int]) -> "Quantised":
        """The same in another shape."""
        return Quantised(values=self.values.reshape(shape), scale=self.scale.reshape(shape))

    @property
    def real(self) -> NDArray[Any]:
        """The real numbers they stand for, as Fractions."""
        return self.values.astype(object) * self.scale


@dataclass(frozen=True, eq=False)
class Map:
    """Integers in memory that stand for ``scale * q + offset``."""

    stage: str  # the layer whose results they are, or `input`
    places: Ints  # for each element of the model's tensor its number in memory
    shape: Shape  # Rows, columns and channels in memory
    bits: int
    signed: bool
    low: int
    high: int
    scale: Fraction  # what one more stands for
    offset: Fraction  # what 0 stands for
    pads: Pads = NO_PADS  # rows and columns of zeros that a node has put around it, and no layer yet
    # scale and zero point of the integers that the model's tensor has instead of what they stand for; None: it has that
    codes: tuple[Fraction, Fraction] | None = None
    is_scaled: bool = False  # whether it is the network's input in other numbers than the model's

    @classmethod
    def of(cls, levels: Levels, stage: str, shape: Shape, places: Ints) -> "Map":
        """The results of a quantiser."""
        own = (levels.bits, levels.signed, levels.low, levels.high, levels.scale, levels.offset)
        return cls(stage, places, shape, *own)

    def check_unpadded(self) -> None:
        """Raise :class:`InputError` if there are zeros around it."""
        if self.pads != NO_PADS:
            raise InputError("padding must be right before a convolution or a maximum pooling, not here")


Curve = Callable[[Fraction], Fraction]  # for a result of a rising function the number that it is the result of


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums:
    """Sums of a layer that wait for their quantiser."""

    name: str
    kernel: str  # name of the kernel, as on the command line
    layer: str  # text of the layer, as on the command line
    sources: tuple[Map, ...]  # what it computes with
    weights: Ints | None = None  # as the kernel takes them
    weight_bits: int = 8
    pad: int = 0  # what is around the map
    channels: tuple[Affine, ...]  # what the sums of each channel are and stand for
    pools: tuple[str, ...] = ()  # maximum poolings of the results
    shape: Shape  # Rows, columns and channels of the results, after the poolings
    places: Ints  # as of Map
    area: int = 1  # of an average's window
    # the number in memory from which halves of an average are rounded away; None: they go up
    centre: int | None = None
    curve: Curve | None = None  # a function of what the sums stand for, in front of the quantiser
    # of an addition of two maps: what its sums are, instead of whole numbers
    factors: tuple[Fraction, Fraction] | None = None


_MOST_ELEMENTS = 1 << 26
Constant = NDArray[Any] | Quantised
Value = Constant | Map | Sums


def standard_places(shape: Shape, axes: int = 4) -> Ints:
    """Places of ``[1][channel][row][column]``, of three axes without rows, of which there is one then.

    Raises :class:`InputError` for maps beyond any memory.
    """
    _check_size(prod(shape))
    places = np.arange(prod(shape)).reshape(shape).transpose(2, 0, 1)[np.newaxis]
    return places if axes == places.ndim else places[:, :, 0]


def _check_size(elements: int) -> None:
    if not 1 <= elements <= _MOST_ELEMENTS:
        raise InputError(f"maps must have 1..{_MOST_ELEMENTS} elements, not {elements}")


def by_channel(values: Constant, places: Ints, channels: int) -> list[Fraction]:
    """A constant that goes with a tensor, as a number for each channel; raises :class:`InputError` for others."""
    real = values.real if isinstance(values, Quantised) else values
    try:
        spread = np.broadcast_to(real, places.shape).ravel()
    except ValueError:
        raise InputError(f"constant must have a shape that goes with {places.shape}, not {real.shape}") from None
    numbers = places.ravel() % channels
    first = np.full(channels, -1)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    per_channel = spread[first]
    if not bool(np.all(spread == per_channel[numbers])):
        raise InputError("constant must be one number for each channel, not different ones inside a channel")
    return [exact_number(value) for value in per_channel]


def dims(shape: Sequence[int]) -> str:
    """A shape as layers and messages have it."""
    return "x".join(map(str, shape)) or "nothing"


def live(value: Value | None) -> Map | Sums:
    """A value that depends on the input of the model; raises :class:`InputError` for a constant."""
    if not isinstance(value, Map | Sums):
        raise InputError("input must depend on the input of the model, not be a constant")
    return value


def sums_of(value: Map | Sums) -> Sums:
    """A value that can be quantised again."""
    return identity(value) if isinstance(value, Map) else value


def constant_value(value: Value | None, what: str) -> NDArray[Any]:
    """A constant that is not quantised; raises :class:`InputError` for another value."""
    if not isinstance(value, np.ndarray):
        raise InputError(f"{what} must be a constant, not depend on the input")
    return value


def whole_constants(value: Value | None) -> list[int]:
    """Whole numbers of a constant; raises :class:`InputError` for other values."""
    return [int(number) for number in constant_value(value, "shape and axes").ravel()]


def exact_number(value: Any) -> Fraction:
    """A number as it is; raises :class:`InputError` for infinities and what is no number."""
    if isinstance(value, Fraction):
        return value
    number: Any = value.item() if hasattr(value, "item") else value
    if isinstance(number, float) and not np.isfinite(number):
        raise InputError(f"constants must be finite, not {number}")
    return Fraction(number)


def moved(value: Map | Sums, factors: Sequence[Fraction], summands: Sequence[Fraction]) -> Map | Sums:
    """A value times a number plus another for each channel."""
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
    if value.curve is not None:
        raise InputError("input must come from a quantiser, not from a function of what a layer gives")


def clamped(value: Sums, low: Fraction | None, high: Fraction | None) -> Sums:
    """A value clipped."""
    _check_plain(value)
    return replace(value, channels=tuple(channel.clamped(low, high) for channel in value.channels))


def identity(value: Map) -> Sums:
    """Each element as a sum by itself, so that it can be quantised again: a depthwise layer with filters of one."""
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
        places=value.places,
    )


_MAP_AXES = 3  # rows, columns and channels


def shaped(value: Map, shape: tuple[int, ...]) -> Map:
    """The same elements, which are one after the other in memory, in another shape."""
    elements = prod(value.shape)
    _check_size(elements)
    if prod(shape) != elements:
        raise InputError(f"shape must be of {elements} elements, not {dims(shape)}")
    value.check_unpadded()
    stored = (*(1,) * (_MAP_AXES - len(shape)), *shape)
    if len(stored) == _MAP_AXES:
        value = replace(value, shape=(stored[0], stored[1], stored[2]))
    is_map = len(shape) == _MAP_AXES
    return replace(value, places=standard_places(value.shape) if is_map else np.arange(elements).reshape(1, *shape))


def plain_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the dimensions of 1 before all others, which some operators leave out."""
    first = next((place for place, size in enumerate(shape[:-1]) if size > 1), len(shape) - 1)
    return shape[first:]
