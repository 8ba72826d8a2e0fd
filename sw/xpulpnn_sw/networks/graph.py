"""Checks that the layers of a network fit together: every map is read as it was written."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers.convolution import ImageConvLayer, LinearLayer
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

# kernels around whose maps there may be another value than 0
PADDED_KERNELS = ("conv", "pointwise", "conv1d", "depthwise")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """Shape and elements of a map."""

    shape: tuple[int, ...]  # channels last
    bits: int
    signed: bool

    def __str__(self) -> str:
        element = "1 bit" if self.bits == SIGN_BITS else f"{'i' if self.signed else 'u'}{self.bits}"
        return f"{'x'.join(map(str, self.shape))} of {element}"


def check_network(network: Network) -> None:
    """Raise :class:`LayerError`, which names a layer, unless the layers fit together.

    Names must be different and those of layers before, maps must be read with the shape and the elements that they were
    written with, and somebody must read every layer but the last. Fully connected layers read and write maps of any
    shape.
    """
    known: dict[str, _Map] = {}
    read: set[str] = set()
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        if stage.name in known or stage.name == NETWORK_INPUT:
            twice = f"{stage.name} twice" if stage.name in known else f"{stage.name}, the input of the network"
            raise LayerError(f"names of layers must be different, not {twice}")
        if len(sources) != len(stage.input_shapes):
            raise LayerError(f"inputs of {stage.name} must be {len(stage.input_shapes)}, not {', '.join(sources)}")
        _check_pad(stage)
        _check_sources(stage, sources, known)
        read.update(sources)
        known[stage.name] = _Map(shape=stage.output_shape, bits=stage.precision.y, signed=stage.precision.y_signed)
    for stage in network.stages[:-1]:
        if stage.name not in read:
            raise LayerError(f"results of {stage.name} must be read by a layer behind it, not by none")


def _check_sources(stage: Stage, sources: tuple[str, ...], known: dict[str, _Map]) -> None:
    for source, shape, (bits, signed) in zip(sources, stage.input_shapes, stage.input_elements, strict=True):
        taken = _Map(shape=shape, bits=bits, signed=signed)
        if source == NETWORK_INPUT and source not in known:
            known[source] = taken
        if source not in known:
            raise LayerError(f"inputs of {stage.name} must be layers before it or {NETWORK_INPUT}, not {source}")
        if isinstance(stage.layer, ImageConvLayer) and source != NETWORK_INPUT:
            raise LayerError(f"layer of an image must be the first, not {stage.name} behind {source}")
        if not _fits(known, source, taken, flat=isinstance(stage.layer, LinearLayer)):
            raise LayerError(f"inputs of {stage.name} must be {known[source]} as {source} leaves them, not {taken}")


def _fits(known: Mapping[str, _Map], source: str, taken: _Map, *, flat: bool) -> bool:
    written = known[source]
    if (written.bits, written.signed) != (taken.bits, taken.signed):
        return False
    if flat or len(written.shape) == 1:
        return prod(written.shape) == prod(taken.shape)
    return _plain(written.shape) == _plain(taken.shape)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without dimensions of 1, in which sequences and rows or columns of pixels are alike; channels stay."""
    return (*(size for size in shape[:-1] if size > 1), shape[-1])


def _check_pad(stage: Stage) -> None:
    """Raise :class:`LayerError` unless the value around a map is one that its elements have."""
    if (around := getattr(stage.layer, "outside", stage.pad)) != stage.pad:
        raise LayerError(f"value around the map of {stage.name} must be its pad {stage.pad}, not {around}")
    if not stage.pad:
        return
    if stage.kind.name not in PADDED_KERNELS:
        raise LayerError(f"pad of {stage.name} must be left out with {stage.kind.name}, not {stage.pad}")
    bits, signed = stage.precision.x, stage.precision.x_signed
    if bits == SIGN_BITS:
        if abs(stage.pad) != 1:
            raise LayerError(f"pad of {stage.name} must be -1 or 1, not {stage.pad}")
        return
    least = -(1 << (bits - 1)) if signed else 0
    if not least <= stage.pad < least + (1 << bits):
        raise LayerError(f"pad of {stage.name} must be {least}..{least + (1 << bits) - 1}, not {stage.pad}")
