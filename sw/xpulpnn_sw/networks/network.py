"""Integer networks: layers with their precision, operands and requantisation."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError, require
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.catalogue import kernel_of
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.layer import ImageConvLayer, Layer, LinearLayer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

NETWORK_INPUT = "input"  # the name of the network's input among sources of layers


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    shape: tuple[int, ...]  # channels last
    bits: int
    signed: bool

    @property
    def least(self) -> int:
        return -1 if self.bits == SIGN_BITS else -(1 << (self.bits - 1)) if self.signed else 0

    def __str__(self) -> str:
        element = "1 bit" if self.bits == SIGN_BITS else f"{'i' if self.signed else 'u'}{self.bits}"
        return f"{'x'.join(map(str, self.shape))} of {element}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage:
    name: str  # unique in a network
    layer: Layer
    precision: Precision
    tensors: Any  # the operands of its kernel
    # names of the layers whose results it reads, or NETWORK_INPUT; empty: the layer before
    sources: tuple[str, ...] = ()

    @property
    def pad(self) -> int:
        return getattr(self.layer, "outside", 0)

    @property
    def maps(self) -> tuple[Ints, ...]:
        return tuple(getattr(self.tensors, name) for name in self.map_names)

    @property
    def map_names(self) -> tuple[str, ...]:
        """Names of the input maps among the operands: two for an addition, one for other layers."""
        return ("activations",) if hasattr(self.tensors, "activations") else ("first", "second")

    @property
    def inputs(self) -> tuple[MapType, ...]:
        read = self.precision
        elements = zip(self.maps, (read.x, read.w), (read.x_signed, read.w_signed), strict=False)
        return tuple(MapType(shape=values.shape, bits=bits, signed=signed) for values, bits, signed in elements)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (*self.layer.out_shape, self.layer.out_channels)

    @property
    def kind(self) -> Kernel:
        return kernel_of(self.layer)

    @property
    def multiplies(self) -> bool:
        return hasattr(self.tensors, "weights")

    def with_inputs(self, *maps: Ints | None) -> Any:
        """Return the operands with other input maps (None: unchanged); raises :class:`LayerError` for wrong sizes."""
        given: dict[str, Ints] = {}
        for name, form, values in zip(self.map_names, self.inputs, maps, strict=True):
            if values is None:
                continue
            if values.size != prod(form.shape):
                raise LayerError(f"inputs of {self.name} must be {form.shape}, not {values.shape}")
            given[name] = values.reshape(form.shape)
        return replace(self.tensors, **given)

    def fastest_variant(self, extensions: Collection[Extension], widths: Collection[int]) -> str:
        """Return the fastest variant for a core with these features; raises :class:`LayerError` if there is none."""
        able = [
            name
            for name, level in self.kind.variants.items()
            if level.extensions <= {*extensions}
            and level.vectors(self.precision) <= {*widths}
            and level.computes(self.precision)
        ]
        require(able, f"core must be one that computes {self.kind.name} of {self.precision} in {self.name}", LayerError)
        return able[-1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Network:
    """A graph of layers in topological order; the results of the last layer are those of the network."""

    name: str
    stages: tuple[Stage, ...]

    def sources(self, number: int) -> tuple[str, ...]:
        """Return the names of the layers that layer ``number`` reads; :data:`NETWORK_INPUT` is the network's input."""
        if self.stages[number].sources:
            return self.stages[number].sources
        return (self.stages[number - 1].name if number else NETWORK_INPUT,)

    def reads(self, number: int) -> Iterator[tuple[str, MapType]]:
        return zip(self.sources(number), self.stages[number].inputs, strict=True)

    @property
    def macs(self) -> int:
        return sum(stage.layer.macs for stage in self.stages if stage.multiplies)


def by_colour(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """Return numbers by colour as :class:`Scaling` holds them: a single number if all are equal."""
    return numbers[0] if len({*numbers}) == 1 else tuple(numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Conversion of the samples of an image to inputs: ``((sample - subtract) * multiply + add) >> shift``, clipped."""

    subtract: tuple[int, ...] = ()  # by colour; empty: 0
    multiply: int | tuple[int, ...] = 1  # for all colours or by colour
    add: int | tuple[int, ...] = 0  # for all colours or by colour
    shift: int = 0

    def by_colour(self, colours: int) -> list[tuple[int, int, int]]:
        """Return subtract, multiply and add by colour; raises :class:`LayerError` unless ``colours`` fits them."""
        given = {"subtract": self.subtract or 0, "multiply": self.multiply, "add": self.add}
        columns = {name: (own,) * colours if isinstance(own, int) else own for name, own in given.items()}
        for name, column in columns.items():
            require(len(column) == colours, f"{name} must have {colours} numbers, not {len(column)}", LayerError)
        return [(subtract, multiply, add) for subtract, multiply, add in zip(*columns.values(), strict=True)]

    def scaled(self, samples: Ints, bits: int, *, signed: bool) -> Ints:
        """Convert image samples, channels last, to inputs of ``bits`` bits; a single bit is the sign, -1 or 1."""
        differences = samples.astype(np.int64) - (np.array(self.subtract) if self.subtract else 0)
        values = (differences * np.array(self.multiply) + np.array(self.add)) >> self.shift
        if bits == SIGN_BITS:
            return np.where(values < 0, -1, 1)
        least = MapType(shape=(), bits=bits, signed=signed).least
        return np.clip(values, least, least + (1 << bits) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkModel:
    network: Network
    scaling: Scaling
    labels: tuple[str, ...] = ()  # names of the classes, by result; empty: none

    @property
    def classes(self) -> int:
        return prod(self.network.stages[-1].output_shape)

    @property
    def _input_type(self) -> MapType:
        read = (edge for number in range(len(self.network.stages)) for edge in self.network.reads(number))
        return next(form for source, form in read if source == NETWORK_INPUT)

    def random_input(self, seed: int) -> Ints:
        form, rng = self._input_type, np.random.default_rng(seed)
        if form.bits == SIGN_BITS:
            return rng.choice(np.array([-1, 1]), form.shape)
        return rng.integers(form.least, form.least + (1 << form.bits), form.shape)

    def inputs(self, samples: Ints) -> Ints:
        """Convert an image to an input of the network; raises :class:`LayerError` for an image of another size."""
        return self.batch(samples[np.newaxis])[0]

    def batch(self, samples: Ints) -> Ints:
        """Convert images, ``[image][row][column]...``, to inputs; raises :class:`LayerError` for another size."""
        shape, image = self._input_type.shape, samples.shape[1:]
        flat = prod(shape) == prod(image) and 1 in (len(shape), len(image))
        grey = image == shape[:-1] and shape[-1] == 1
        # a sequence has one row
        if not (flat or grey or [size for size in image if size > 1] == [size for size in shape if size > 1]):
            raise LayerError(f"image must have the shape {shape}, not {image}")
        self.scaling.by_colour(1 if grey else image[-1])
        scaled = self.scaling.scaled(samples, self._input_type.bits, signed=self._input_type.signed)
        return scaled.reshape(len(samples), *shape)


def check_network(network: Network) -> None:
    """Raise :class:`LayerError`, which names a layer, unless the layers of a network fit together.

    Names must be unique, sources must be earlier layers, and all layers but the last must be read. Maps must be read
    with the shape and elements with which they are written; fully connected layers read and write maps of any shape.
    """
    known: dict[str, MapType] = {}
    read: set[str] = set()
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        if stage.name in known or stage.name == NETWORK_INPUT:
            twice = f"{stage.name} twice" if stage.name in known else f"{stage.name}, the input of the network"
            raise LayerError(f"names of layers must be different, not {twice}")
        if len(sources) != len(stage.inputs):
            raise LayerError(f"inputs of {stage.name} must be {len(stage.inputs)}, not {', '.join(sources)}")
        form = stage.inputs[0]
        most = 1 if form.bits == SIGN_BITS else form.least + (1 << form.bits) - 1
        if stage.pad and not form.least <= stage.pad <= most:
            raise LayerError(f"pad of {stage.name} must be {form.least}..{most}, not {stage.pad}")
        for source, form in network.reads(number):
            _check_source(stage, source, form, known)
        read.update(sources)
        known[stage.name] = MapType(shape=stage.output_shape, bits=stage.precision.y, signed=stage.precision.y_signed)
    for stage in network.stages[:-1]:
        if stage.name not in read:
            raise LayerError(f"results of {stage.name} must be read by a layer behind it, not by none")


def _check_source(stage: Stage, source: str, taken: MapType, known: dict[str, MapType]) -> None:
    if source == NETWORK_INPUT and source not in known:
        known[source] = taken
    if source not in known:
        raise LayerError(f"inputs of {stage.name} must be layers before it or {NETWORK_INPUT}, not {source}")
    if isinstance(stage.layer, ImageConvLayer) and source != NETWORK_INPUT:
        raise LayerError(f"layer of an image must be the first, not {stage.name} behind {source}")
    written = known[source]
    if isinstance(stage.layer, LinearLayer) or len(written.shape) == 1:
        fits = prod(written.shape) == prod(taken.shape)
    else:
        fits = without_ones(written.shape) == without_ones(taken.shape)
    if not fits or (written.bits, written.signed) != (taken.bits, taken.signed):
        raise LayerError(f"inputs of {stage.name} must be {written} as {source} leaves them, not {taken}")


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*(size for size in shape[:-1] if size > 1), shape[-1])
