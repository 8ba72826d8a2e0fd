"""Legalisation: rewrites a network so that every layer has a kernel and reads feature maps in the kernel's layout."""

from collections.abc import Collection
from dataclasses import replace
from math import gcd, prod
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels import requantisation as rules
from xpulpnn_sw.kernels.channelwise.avgpool import AvgPoolTensors
from xpulpnn_sw.kernels.channelwise.elementwise import AddTensors
from xpulpnn_sw.kernels.channelwise.maps import MapTensors
from xpulpnn_sw.kernels.channelwise.moves import GatherTensors, LookupTensors, MultiplyTensors
from xpulpnn_sw.kernels.layout import Ints, pad_axis, padded_channels
from xpulpnn_sw.kernels.tensors import LayerTensors, for_core
from xpulpnn_sw.layers import layer as layers
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

CRUMB_BITS = 2  # the narrowest weights that can be 0
# layers that keep the number of channels
_SAME_CHANNELS = layers.WindowLayer | layers.MapLayer
Shape = tuple[int, ...]


def pad_channels(stage: Stage, old: int, inputs: int, outputs: int, filling: int | None) -> Stage:
    """Pad a layer's ``old`` input channels to ``inputs``, and its results to ``outputs`` channels.

    Added channels come last. Added inputs hold ``filling`` or, if it is None, one unknown value. Their weights are 0;
    binary weights, which cannot be 0, are widened to two bits. If the inputs are binary too, added weights alternate
    between 1 and -1, so that the products of two added channels cancel. The bias compensates the product of an odd one.
    """
    own = stage.tensors
    if isinstance(stage.layer, layers.DepthwiseLayer):
        return _depthwise(stage, own, outputs)
    if isinstance(stage.layer, layers.GatherLayer):
        return _gather(stage, own, inputs, outputs)
    if isinstance(stage.layer, layers.BatchMatmulLayer | layers.SoftmaxLayer | layers.LayerNormLayer):
        # sums over all channels of maps, which added channels would change
        if (inputs, outputs) != (stage.layer.channels, stage.layer.out_channels):
            raise LayerError(f"channels of {stage.name} must fill whole words, not {stage.layer.out_channels}")
        return stage
    if not stage.multiplies:
        tensors = replace(own, **{name: _placeholder(getattr(own, name), outputs) for name in stage.map_names})
        return _with(stage, tensors, channels=outputs)
    return _more_results(_more_inputs(stage, old, inputs, filling), outputs)


def padding_value(stage: Stage, filling: int | None) -> int | None:
    """Return the value of a layer's added results if the added input channels hold ``filling``; None if unknown."""
    least = -(1 << (stage.precision.y - 1)) if stage.precision.y_signed else 0
    match stage.tensors:
        case LayerTensors(requantisation=rules.ExactRequantisation(zero=zero)):
            return min(max(zero, least), least + (1 << stage.precision.y) - 1)
        case LayerTensors() if isinstance(stage.layer, layers.DepthwiseLayer):
            return 0
        case LayerTensors():
            if stage.precision.y == SIGN_BITS:
                return -1
            has_signs = stage.precision.w == SIGN_BITS
            return least if isinstance(stage.tensors.requantisation, rules.Thresholds) and has_signs else 0
        case AddTensors() | MultiplyTensors() | GatherTensors() | LookupTensors():
            return None
        case AvgPoolTensors() if getattr(stage.layer, "scaled", False) or filling != 0:
            return None
        case _ if filling is not None and (stage.kind.name == "relu" or getattr(stage.layer, "relu", False)):
            return max(filling, 0)
        case _:
            return filling


def _gather(stage: Stage, own: GatherTensors, inputs: int, outputs: int) -> Stage:
    rows, elements = np.divmod(own.indices, own.activations.shape[2])
    indices = pad_axis(rows * inputs + elements, 2, outputs)
    tensors = replace(own, activations=_placeholder(own.activations, inputs), indices=indices)
    return _with(stage, tensors, channels=inputs, out_channels=outputs)


def _placeholder(values: Ints, channels: int) -> Ints:
    return np.zeros((*values.shape[:-1], channels), np.int64)


def _with(stage: Stage, tensors: Any, **sizes: int) -> Stage:
    layer: Any = stage.layer
    return replace(stage, layer=replace(layer, **sizes), tensors=tensors)


def _more_inputs(stage: Stage, old: int, inputs: int, filling: int | None) -> Stage:
    own, layer = stage.tensors, stage.layer
    weights, pixels = own.weights, own.weights[0, ..., 0].size
    if isinstance(layer, layers.LinearLayer):
        pixels = layer.inputs // old
        weights = own.weights.reshape(layer.outputs, pixels, -1)
    added = inputs - weights.shape[-1]
    if added and stage.precision.w == SIGN_BITS and stage.precision.x != SIGN_BITS:
        stage = replace(stage, precision=replace(stage.precision, w=CRUMB_BITS))
    weights, bias = pad_axis(weights, weights.ndim - 1, inputs), own.bias
    if added and stage.precision.w == SIGN_BITS:
        weights[..., -added::2], weights[..., inputs - added + 1 :: 2] = 1, -1
        if added % 2:
            bias = _bias(own) - pixels * _uniform_value(stage, filling)
    if isinstance(layer, layers.LinearLayer):
        activations = np.zeros(pixels * inputs, np.int64)
        tensors = replace(own, weights=weights.reshape(layer.outputs, -1), bias=bias, activations=activations)
        return _with(stage, tensors, inputs=pixels * inputs)
    tensors = replace(own, weights=weights, bias=bias, activations=_placeholder(own.activations, inputs))
    return _with(stage, tensors, channels=inputs)


def _uniform_value(stage: Stage, filling: int | None) -> int:
    around = -1 if stage.precision.x == SIGN_BITS and not stage.pad else stage.pad
    if filling is None or (any(getattr(stage.layer, "padding", ())) and around != filling):
        raise LayerError(f"channels that {stage.name} reads must be even with its value around the map, not odd")
    return filling


def _bias(own: LayerTensors) -> Ints:
    return np.zeros(len(own.weights), np.int64) if own.bias is None else own.bias.astype(np.int64)


def _more_results(stage: Stage, written: int) -> Stage:
    own: LayerTensors = stage.tensors
    added = written - len(own.weights)
    if not added:
        return stage
    weights, bias, rule = pad_axis(own.weights, 0, written), own.bias, own.requantisation
    if bias is not None:
        bias = pad_axis(bias, 0, written)
    if stage.precision.w == SIGN_BITS:
        weights[-added:] = 1
        if isinstance(rule, rules.Thresholds):
            # so that no sum exceeds the added thresholds, which are 0
            bias = pad_axis(_bias(own), 0, written)
            bits, signed = stage.precision.x, stage.precision.x_signed
            most = own.weights[0].size << (bits - 1 if signed or bits == SIGN_BITS else bits)
            bias[-added:] = -most
        elif rule is not None:
            rule = rules.with_channel_factors(rule, len(own.weights))
    rule = _extended(rule, stage, added)
    name = "outputs" if isinstance(stage.layer, layers.LinearLayer) else "out_channels"
    return _with(stage, replace(own, weights=weights, bias=bias, requantisation=rule), **{name: written})


def _extended(rule: Any, stage: Stage, added: int) -> Any:
    match rule:
        case rules.Requantisation() | rules.WideRequantisation():
            channels = len(rule.kappa) + added
            return replace(rule, kappa=pad_axis(rule.kappa, 0, channels), lam=pad_axis(rule.lam, 0, channels))
        case rules.ExactRequantisation():
            shifts = np.pad(rule.shifts, (0, added), mode="edge")
            return replace(rule, factors=pad_axis(rule.factors, 0, len(shifts)), shifts=shifts)
        case rules.Thresholds():
            steps = pad_axis(rule.values, 0, len(rule.values) + added)
            if stage.precision.y_signed and stage.precision.w != SIGN_BITS:
                # thresholds below a sum of 0, as many as there are results below 0
                steps[len(rule.values) :, : 1 << (stage.precision.y - 1)] = -1
            return replace(rule, values=steps)
        case _:
            return rule


def _depthwise(stage: Stage, own: LayerTensors, channels: int) -> Stage:
    tensors = replace(
        own,
        activations=_placeholder(own.activations, channels),
        weights=pad_axis(own.weights, 0, channels),
        bias=pad_axis(_bias(own), 0, channels),
        requantisation=_extended(own.requantisation, stage, channels - len(own.weights)),
    )
    return _with(stage, tensors, channels=channels)


def pad_to_words(network: Network) -> Network:
    """Pad the channels of feature maps where kernels need whole words of them.

    Original channels come first and keep their values. The network's outputs get no more channels if the last layer has
    filters over all channels. The network's input gets channels if a depthwise layer or a pooling that reads the input
    needs them (see :func:`padded_input`).
    """
    maps = _Maps(network)
    stages: list[Stage] = []
    fillings: dict[str, int | None] = {NETWORK_INPUT: _input_padding_value(maps.input_bits)}
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        source = sources[0]
        old, inputs, filling = maps.shapes[source][-1], maps.required_channels(source), fillings[source]
        if _splits(stage, maps.shapes[source]):
            old = inputs = stage.inputs[0].shape[-1]
            maps.check_split(stage, source)
        wide = pad_channels(stage, old, inputs, maps.required_channels(stage.name), filling)
        wide = replace(wide, sources=sources)
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
    shape = stage.inputs[0].shape
    return len(written) == 1 and not isinstance(stage.layer, layers.LinearLayer) and shape[-1] != written[-1]


def _unit(bits: int) -> int:
    return padded_channels(1, bits)


def _read_units(stage: Stage) -> set[int]:
    own = stage.precision
    if isinstance(stage.layer, layers.DepthwiseLayer | layers.GatherLayer | layers.BatchMatmulLayer):
        return {_unit(own.x)}
    if isinstance(stage.layer, _SAME_CHANNELS):
        return {_unit(min(own.y, *(form.bits for form in stage.inputs)))}
    # kernels hold weights of one bit as crumbs unless the inputs have one bit too
    narrow = _unit(min(own.x, own.w if own.x == SIGN_BITS else max(own.w, CRUMB_BITS)))
    # some variants read pixels in place, others through im2col
    return {narrow, _unit(own.x)} if stage.kind.name == "pointwise" else {narrow}


class _Maps:
    """The feature maps of a network, and the numbers of channels that kernels need in them."""

    def __init__(self, network: Network) -> None:
        self.shapes: dict[str, Shape] = {}
        self.input_bits = 0
        # multiples of channels that the writer and the readers of a map accept
        self._units: dict[str, set[int]] = {}
        # maps without padding between their pixels
        self._dense: set[str] = set()
        # by map all maps, itself included, that must have as many channels
        self._same: dict[str, list[str]] = {}
        for number, stage in enumerate(network.stages):
            is_same = isinstance(stage.layer, _SAME_CHANNELS) and not isinstance(stage.layer, layers.DepthwiseLayer)
            unit = max(_read_units(stage)) if is_same else _unit(stage.precision.y)
            self._note(stage.name, stage.output_shape, {unit})
            for source, form in network.reads(number):
                if source == NETWORK_INPUT:
                    self.input_bits = form.bits
                    if len(form.shape) > len(self.shapes.get(NETWORK_INPUT, ())):
                        self._note(NETWORK_INPUT, form.shape, set())
                if not _splits(stage, self.shapes[source]):
                    self._read(stage, source, form.bits)
        self._unit = {name: max({1}.union(*(self._units[own] for own in same))) for name, same in self._same.items()}
        self._wider = {name for name, same in self._same.items() if any(map(self._has_gaps, same))}

    def _note(self, name: str, shape: Shape, units: set[int]) -> None:
        self.shapes[name] = shape
        self._units.setdefault(name, units)
        self._same.setdefault(name, [name])

    def _read(self, stage: Stage, source: str, bits: int) -> None:
        pixels = prod(self.shapes[source][:-1])
        if isinstance(stage.layer, layers.LinearLayer):
            # the elements are one row; a single pixel has no gaps
            if pixels == 1 and bits != SIGN_BITS:
                return
            self._dense.add(source)
            self._units[source] |= {max(_unit(bits), unit // gcd(unit, pixels)) for unit in _read_units(stage)}
            return
        if bits == SIGN_BITS:
            self._dense.add(source)
        self._units[source] |= _read_units(stage)
        if isinstance(stage.layer, _SAME_CHANNELS) and source not in self._same[stage.name]:
            joined = self._same[stage.name] + self._same[source]
            self._same |= dict.fromkeys(joined, joined)

    def _has_gaps(self, name: str) -> bool:
        channels = self.shapes[name][-1]
        in_memory = {-(-channels // unit) * unit for unit in self._units[name]}
        if name in self._dense:
            in_memory.add(channels)
        # each reader of the input has a copy in its own layout
        return len(in_memory) > 1 and name != NETWORK_INPUT

    def required_channels(self, name: str) -> int:
        unit = self._unit[name] if name in self._wider else 1
        return -(-self.shapes[name][-1] // unit) * unit

    def check_split(self, stage: Stage, source: str) -> None:
        """Raise :class:`LayerError` if a vector that a layer reads as a map would need added channels."""
        channels = stage.inputs[0].shape[-1]
        is_whole = all(channels % unit == 0 for unit in _read_units(stage))
        is_kept = not isinstance(stage.layer, _SAME_CHANNELS) or self.required_channels(stage.name) == channels
        if not (is_whole and is_kept and self.required_channels(source) == self.shapes[source][-1]):
            raise LayerError(f"channels that {stage.name} reads must fill whole words, not {channels} of {source}")


def _in_planes(network: Network) -> Network:
    stages: list[Stage] = []
    planes: dict[str, str] = {}
    names = {stage.name for stage in network.stages}
    ready = {NETWORK_INPUT, *(stage.name for stage in network.stages if isinstance(stage.layer, layers.TransposeLayer))}
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        if isinstance(stage.layer, layers.DepthwiseLayer) and sources[0] not in ready:
            source = sources[0]
            if source not in planes:
                planes[source] = f"{source}.planes"
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
        layer=layers.TransposeLayer(height=height, width=width, channels=channels),
        precision=Precision(bits, bits, bits, x_signed=signed, y_signed=signed),
        tensors=MapTensors(activations=stage.tensors.activations),
        sources=(source,),
    )


def legalise(network: Network, extensions: Collection[Extension]) -> Network:
    """Rewrite a network so that kernels of a core with these extensions can compute it.

    Layers keep their names, and original channels come first in their maps. :func:`pad_to_words` adds channels;
    transpositions, ``NAME.planes``, are inserted before depthwise convolutions.
    """
    stages: list[Stage] = []
    for stage in _in_planes(pad_to_words(network)).stages:
        tensors = for_core(stage.tensors, stage.precision, extensions)
        if rules.Rule.EXACT_ONE_SHIFT in stage.kind.rules and tensors.rule is rules.Rule.EXACT:
            tensors = tensors.with_one_shift(stage.precision)
        stages.append(replace(stage, tensors=tensors))
    return replace(network, stages=tuple(stages))
