"""Legalisation: rewrites a network so that every layer has a kernel and finds its maps in that kernel's layout."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import gcd, prod
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.channelwise.maps import MapTensors
from xpulpnn_sw.kernels.layout import FOLDED_COLUMNS, Ints, padded_channels, takes_folded
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import for_core
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import (
    ConvLayer,
    DepthwiseLayer,
    LinearLayer,
    MapLayer,
    MaxPoolLayer,
    TransposeLayer,
    WindowLayer,
)
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision
from xpulpnn_sw.networks.channel_padding import CRUMB_BITS, ChannelPadding, pad_channels, padding_value
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

# layers that keep the number of channels
_SAME_CHANNELS = WindowLayer | MapLayer
Shape = tuple[int, ...]


def pad_to_words(network: Network) -> Network:
    """Add channels to maps where kernels need them to fill whole words.

    Original channels come first and keep their values; layers keep their names. If the last layer has filters over all
    channels, it gets no more outputs. The input gets channels if a depthwise layer or a pooling that reads it needs
    them (see :func:`padded_input`).
    """
    maps = _Maps(network)
    stages: list[Stage] = []
    fillings: dict[str, int | None] = {NETWORK_INPUT: _input_padding_value(maps.input_bits)}
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        source = sources[0]
        had, taken, filling = maps.channels(source), maps.required_channels(source), fillings[source]
        if _splits(stage, maps.shapes[source]):
            had = taken = stage.inputs[0].shape[-1]
            maps.check_split(stage, source)
        padding = ChannelPadding(had=had, taken=taken, written=maps.required_channels(stage.name), filling=filling)
        wide = replace(pad_channels(stage, padding), sources=sources)
        fillings[stage.name] = padding_value(wide, filling)
        stages.append(wide)
    return replace(network, stages=tuple(stages))


def padded_input(image: Ints, network: Network) -> Ints:
    """Add to an input, ``[...][channel]``, the channels that :func:`pad_to_words` added to the network's input."""
    for number in range(len(network.stages)):
        for source, form in network.reads(number):
            if source == NETWORK_INPUT and prod(form.shape) > image.size:
                added = form.shape[-1] - image.shape[-1]
                widths: Any = [(0, 0)] * (image.ndim - 1) + [(0, added)]
                return np.pad(image, widths, constant_values=_input_padding_value(form.bits))
    return image


def _input_padding_value(bits: int) -> int:
    return -1 if bits == SIGN_BITS else 0


def _splits(stage: Stage, written: Shape) -> bool:
    """Return whether a layer reads a vector as a map of several pixels."""
    shape = stage.inputs[0].shape
    return len(written) == 1 and not isinstance(stage.layer, LinearLayer) and shape[-1] != written[-1]


def _unit(bits: int) -> int:
    return padded_channels(1, bits)


def _read_units(stage: Stage) -> set[int]:
    """Return numbers of which the channels of a map must be a multiple if kernels are to read it in ``stage``."""
    own = stage.precision
    if isinstance(stage.layer, DepthwiseLayer):
        return {_unit(own.x)}
    if isinstance(stage.layer, _SAME_CHANNELS):
        return {_unit(min(own.y, *(form.bits for form in stage.inputs)))}
    # kernels hold weights of one bit as crumbs unless the inputs have one bit too
    narrow = _unit(min(own.x, own.w if own.x == SIGN_BITS else max(own.w, CRUMB_BITS)))
    # some variants read pixels in place, others through im2col
    return {narrow, _unit(own.x)} if stage.kind.name == "pointwise" else {narrow}


def _written_unit(stage: Stage) -> int:
    if isinstance(stage.layer, _SAME_CHANNELS) and not isinstance(stage.layer, DepthwiseLayer):
        return max(_read_units(stage))
    return _unit(stage.precision.y)


class _Maps:
    """The maps of a network, and the numbers of channels that kernels need in them."""

    def __init__(self, network: Network) -> None:
        self.shapes: dict[str, Shape] = {}
        self.input_bits = 0
        # multiples of channels that the writer and the readers of a map accept
        self._units: dict[str, set[int]] = {}
        # maps without padding between their pixels
        self._dense: set[str] = set()
        # parent of each map in a union-find of maps that must have equal numbers of channels
        self._same: dict[str, str] = {}
        for number, stage in enumerate(network.stages):
            self._note(stage.name, stage.output_shape, {_written_unit(stage)})
            for source, form in network.reads(number):
                if source == NETWORK_INPUT:
                    self.input_bits = form.bits
                    if len(form.shape) > len(self.shapes.get(NETWORK_INPUT, ())):
                        self._note(NETWORK_INPUT, form.shape, set())
                if not _splits(stage, self.shapes[source]):
                    self._read(stage, source, form.bits)
        names = list(self.shapes)
        self._unit = {
            name: max({1}.union(*(self._units[name] for name in self._same_channels_maps(name)))) for name in names
        }
        self._wider = {other for other in names if any(map(self._has_gaps, self._same_channels_maps(other)))}

    def _note(self, name: str, shape: Shape, units: set[int]) -> None:
        self.shapes[name] = shape
        self._units.setdefault(name, units)
        self._same.setdefault(name, name)

    def _read(self, stage: Stage, source: str, bits: int) -> None:
        pixels = prod(self.shapes[source][:-1])
        if isinstance(stage.layer, LinearLayer):
            # the elements are one row; a single pixel has no gaps
            if pixels == 1 and bits != SIGN_BITS:
                return
            self._dense.add(source)
            self._units[source] |= {max(_unit(bits), unit // gcd(unit, pixels)) for unit in _read_units(stage)}
            return
        if bits == SIGN_BITS:
            self._dense.add(source)
        self._units[source] |= _read_units(stage)
        if isinstance(stage.layer, _SAME_CHANNELS):
            self._same[self._first(stage.name)] = self._first(source)

    def _first(self, name: str) -> str:
        """Return the representative of all maps that must have as many channels as this map (union-find)."""
        while self._same[name] != name:
            name = self._same[name]
        return name

    def _same_channels_maps(self, name: str) -> list[str]:
        return [other for other in self.shapes if self._first(other) == self._first(name)]

    def _has_gaps(self, name: str) -> bool:
        """Return whether the writer and the readers expect different numbers of channels in memory."""
        channels = self.channels(name)
        in_memory = {-(-channels // unit) * unit for unit in self._units[name]}
        if name in self._dense:
            in_memory.add(channels)
        # each reader of the input has a copy in its own layout
        return len(in_memory) > 1 and name != NETWORK_INPUT

    def channels(self, name: str) -> int:
        return self.shapes[name][-1]

    def required_channels(self, name: str) -> int:
        unit = self._unit[name] if name in self._wider else 1
        return -(-self.channels(name) // unit) * unit

    def check_split(self, stage: Stage, source: str) -> None:
        """Raise :class:`LayerError` if a vector that a layer reads as a map would need added channels."""
        channels = stage.inputs[0].shape[-1]
        is_whole = all(channels % unit == 0 for unit in _read_units(stage))
        is_kept = not isinstance(stage.layer, _SAME_CHANNELS) or self.required_channels(stage.name) == channels
        if not (is_whole and is_kept and self.required_channels(source) == self.channels(source)):
            raise LayerError(f"channels that {stage.name} reads must fill whole words, not {channels} of {source}")


def folded(network: Network, variants: Sequence[str]) -> Network:
    """Let convolutions fold columns of their results where only a pooling reads these and accepts folded columns.

    ``variants`` names the variant of each layer.
    """
    stages = list(network.stages)
    for number, (before, name) in enumerate(zip(network.stages, variants, strict=True)):
        readers = [after for after in range(len(stages)) if before.name in network.sources(after)]
        if len(readers) != 1 or not _fold(before, name):
            continue
        after = stages[readers[0]]
        if isinstance(after.layer, MaxPoolLayer) and takes_folded(after.layer):
            for place, stage in ((number, before), (readers[0], after)):
                stages[place] = replace(stage, tensors=replace(stage.tensors, folded=True))
    return replace(network, stages=tuple(stages))


def _fold(stage: Stage, variant: str) -> bool:
    """Return whether a layer is a convolution that can fold columns of its results."""
    layer = stage.layer
    if not isinstance(layer, ConvLayer) or layer.out_width % FOLDED_COLUMNS or variant not in VARIANTS:
        return False
    return Blocking(VARIANTS[variant], stage.precision, stage.tensors.rule).folds


_ENDING = "planes"


def _in_planes(network: Network) -> Network:
    """Insert transpositions to planes, ``NAME.planes``, after maps that depthwise convolutions read.

    The network's input and the results of other transpositions need none.
    """
    stages: list[Stage] = []
    planes: dict[str, str] = {}
    names = {stage.name for stage in network.stages}
    ready = {NETWORK_INPUT, *(stage.name for stage in network.stages if isinstance(stage.layer, TransposeLayer))}
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        if isinstance(stage.layer, DepthwiseLayer) and sources[0] not in ready:
            source = sources[0]
            if source not in planes:
                planes[source] = f"{source}.{_ENDING}"
                while planes[source] in names:
                    planes[source] += "'"
                stages.append(_transposed(stage, source, planes[source]))
            sources = (planes[source],)
        stages.append(replace(stage, sources=sources))
    return replace(network, stages=tuple(stages))


def _transposed(stage: Stage, source: str, name: str) -> Stage:
    (form,) = stage.inputs
    (height, width, channels), bits, signed = form.shape, form.bits, form.signed
    return Stage(
        name=name,
        layer=TransposeLayer(height=height, width=width, channels=channels),
        precision=Precision(bits, bits, bits, x_signed=signed, y_signed=signed),
        tensors=MapTensors(activations=stage.tensors.activations),
        sources=(source,),
    )


def legalise(network: Network, extensions: Collection[Extension]) -> Network:
    """Rewrite a network so that kernels of a core with these extensions can compute it.

    Layers keep their names, and original channels come first in their maps. :func:`pad_to_words` adds channels;
    transpositions, ``NAME.planes``, are inserted before depthwise convolutions.
    """
    wide = _in_planes(pad_to_words(network))
    return replace(wide, stages=tuple(_for_core(stage, extensions) for stage in wide.stages))


def _for_core(stage: Stage, extensions: Collection[Extension]) -> Stage:
    tensors = for_core(stage.tensors, stage.precision, extensions)
    if Rule.EXACT_ONE_SHIFT in stage.kind.rules and tensors.rule is Rule.EXACT:
        tensors = tensors.with_one_shift(stage.precision)
    return replace(stage, tensors=tensors)
