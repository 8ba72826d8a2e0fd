"""Networks whose maps fill whole words of memory: channels are added where they do not.

What a kernel writes is then in memory as the next one reads it: pixel by pixel without gaps, whatever the widths of the
elements and of the weights are.
"""

from dataclasses import replace
from math import gcd, prod

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.layers.linear import LinearLayer
from xpulpnn_sw.layout import Ints, padded_channels
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage
from xpulpnn_sw.networks.widened import Widening, filled, widened
from xpulpnn_sw.precision import SIGN_BITS

SAME_CHANNELS = ("depthwise", "add", "avgpool", "maxpool", "relu")
"""Kernels whose results have the channels of their inputs."""

Shape = tuple[int, ...]


def in_whole_words(network: Network) -> Network:
    """The network in which the channels of all maps between layers fill whole words.

    The channels that there were hold what they did, and layers keep their names. The last layer keeps its channels
    if it is one with filters over all channels. So does the input if a single layer of that kind reads it, whose kernel
    fills it up by itself; otherwise :func:`filled_input` gives the input.

    Raises
    ------
    LayerError
        Maps that cannot have more channels; the text has the name of a layer.
    """
    maps = _Maps(network)
    stages: list[Stage] = []
    fillings: dict[str, int | None] = {NETWORK_INPUT: _filling_of_input(maps.input_bits)}
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        source = sources[0]
        had, taken, filling = maps.channels(source), maps.wanted(source), fillings[source]
        if _splits(stage, maps.shapes[source]):
            had = taken = stage.input_shapes[0][-1]
            maps.check_split(stage, source)
        widening = Widening(had=had, taken=taken, written=maps.wanted(stage.name), filling=filling)
        wide = replace(widened(stage, widening), sources=sources)
        fillings[stage.name] = filled(wide, filling)
        stages.append(wide)
    return replace(network, stages=tuple(stages))


def filled_input(image: Ints, network: Network) -> Ints:
    """The input, ``[...][channel]``, of a network that :func:`in_whole_words` gave, for one of the original network."""
    for number, stage in enumerate(network.stages):
        for source, shape, (bits, _) in zip(
            network.sources(number), stage.input_shapes, stage.input_elements, strict=True
        ):
            if source == NETWORK_INPUT and prod(shape) > image.size:
                added = shape[-1] - image.shape[-1]
                widths = [(0, 0)] * (image.ndim - 1) + [(0, added)]
                return np.pad(image, widths, constant_values=_filling_of_input(bits))
    return image


def _filling_of_input(bits: int) -> int:
    return -1 if bits == SIGN_BITS else 0


def _splits(stage: Stage, written: Shape) -> bool:
    """Whether a layer reads results without pixels as a map of several."""
    shape = stage.input_shapes[0]
    return len(written) == 1 and not isinstance(stage.layer, LinearLayer) and shape[-1] != written[-1]


def _taken_unit(stage: Stage, pixels: int) -> int:
    """What the channels of a map of so many pixels that a layer reads must be a multiple of."""
    own = stage.precision
    if stage.kind.name == "depthwise":
        return padded_channels(1, own.x)
    if stage.kind.name in SAME_CHANNELS:
        return padded_channels(1, min(bits for bits, _ in (*stage.input_elements, (own.y, False))))
    unit = padded_channels(1, min(own.x, own.w))
    if isinstance(stage.layer, LinearLayer):
        # all elements are a row
        return max(padded_channels(1, own.x), unit // gcd(unit, pixels))
    return unit


class _Maps:
    """The maps of a network, and how many channels they must have.

    Layers that keep channels apart have as many on both sides.
    """

    def __init__(self, network: Network) -> None:
        self.shapes: dict[str, Shape] = {}
        self.input_bits = 0
        self._units: dict[str, int] = {}
        # a map that has as many channels
        self._same: dict[str, str] = {}
        of_input: list[Stage] = []
        for number, stage in enumerate(network.stages):
            self._note(stage.name, stage.output_shape, padded_channels(1, stage.precision.y))
            for source, shape, (bits, _) in zip(
                network.sources(number), stage.input_shapes, stage.input_elements, strict=True
            ):
                if source == NETWORK_INPUT:
                    of_input.append(stage)
                    self.input_bits = bits
                    if len(shape) > len(self.shapes.get(NETWORK_INPUT, ())):
                        self._note(NETWORK_INPUT, shape, 1)
                self._read(stage, source)
        is_filled = len(of_input) == 1 and of_input[0].kind.name not in SAME_CHANNELS
        is_image = any(isinstance(stage.layer, ImageConvLayer) for stage in of_input)
        self._kept = {NETWORK_INPUT} if is_filled or is_image else set[str]()
        if network.stages[-1].kind.name not in SAME_CHANNELS:
            self._kept.add(network.stages[-1].name)

    def _note(self, name: str, shape: Shape, unit: int) -> None:
        self.shapes[name] = shape
        self._units.setdefault(name, unit)
        self._same.setdefault(name, name)

    def _read(self, stage: Stage, source: str) -> None:
        if _splits(stage, self.shapes[source]):
            return
        first = self._first(source)
        self._units[first] = max(self._units[first], _taken_unit(stage, prod(self.shapes[source][:-1])))
        if stage.kind.name in SAME_CHANNELS:
            other = self._first(stage.name)
            if other != first:
                self._same[other] = first
                self._units[first] = max(self._units[first], self._units[other])

    def _first(self, name: str) -> str:
        """The map that stands for all that have as many channels."""
        while self._same[name] != name:
            name = self._same[name]
        return name

    def channels(self, name: str) -> int:
        """Channels of a map as they are."""
        return self.shapes[name][-1]

    def wanted(self, name: str) -> int:
        """Channels that a map must have."""
        if name in self._kept:
            return self.channels(name)
        unit = self._units[self._first(name)]
        return -(-self.channels(name) // unit) * unit

    def check_split(self, stage: Stage, source: str) -> None:
        """Raise :class:`LayerError` unless a layer that reads a row as a map can do so, no channels being added."""
        channels = stage.input_shapes[0][-1]
        is_whole = channels % _taken_unit(stage, 1) == 0 and self.wanted(source) == self.channels(source)
        is_kept = stage.kind.name not in SAME_CHANNELS or self.wanted(stage.name) == channels
        if not (is_whole and is_kept):
            raise LayerError(f"channels that {stage.name} reads must fill whole words, not {channels} of {source}")
