"""Builder of the layers of an imported network: each quantiser turns pending sums into a layer and its results."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import XLEN
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Rule
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS
from xpulpnn_sw.networks.importers import map_fit, rule_fit
from xpulpnn_sw.networks.importers.calibration import Calibration
from xpulpnn_sw.networks.importers.quantiser import (
    ELEMENT_WIDTHS,
    Channel,
    Quantiser,
    fitted,
    halfway_samples,
    inner_results,
    unclipped,
    uniform_quantiser,
)
from xpulpnn_sw.networks.importers.rule_fit import RuleFit
from xpulpnn_sw.networks.importers.values import (
    NO_PADS,
    QUANTISE,
    Map,
    Pads,
    Quantised,
    Sums,
    Value,
    constant_value,
    dims,
    finite,
    identity,
    live,
    precision_text,
    scaled,
    standard_indices,
)
from xpulpnn_sw.networks.network import NetworkModel, Scaling, by_colour, without_ones
from xpulpnn_sw.networks.network_file import NetworkBuilder

INPUT = "input"
SAMPLE_BITS = 8
SAMPLES = (1 << SAMPLE_BITS) - 1
# kernels that take the elements of a map in any shape
_OF_ROWS = ("linear", "gather")


@dataclass(eq=False)
class LayerBuilder:
    """Builds the layers of a network while a model is imported; a quantiser of sums adds a layer."""

    name: str
    note: Callable[[str], object]  # receives messages on differences from the model
    calibration: Calibration | None = None  # quantises tensors of models in floating point
    _quantised: dict[Sums, Map] = field(default_factory=dict[Sums, Map], init=False)
    allow: int = 1  # most that results of a layer may differ from a quantiser's
    scaling: Scaling = field(default_factory=Scaling, init=False)
    _names: set[str] = field(default_factory=lambda: {INPUT}, init=False)
    _scaled: Map | None = field(default=None, init=False)
    _has_raw_readers: bool = field(default=False, init=False)  # whether a layer reads the unscaled input
    # shapes in which layers write their maps, and maps of other shapes that layers copy them to
    _written: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]], init=False)
    _copies: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict[Any, str], init=False)

    def __post_init__(self) -> None:
        self._builder = NetworkBuilder(self.name)

    def finish(self) -> NetworkModel:
        return self._builder.finish(self.scaling)

    def unique_name(self, requested: str) -> str:
        plain = re.sub(r"[^0-9A-Za-z_]+", "_", requested).strip("_") or "layer"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain}_{number}"
        self._names.add(name)
        return name

    def add(self, sums: Sums, fit: RuleFit, bits: int, *, signed: bool) -> str:
        name, sources = self.unique_name(sums.name or "requantise"), self._read(sums.kernel, *sums.sources)
        second = None if sums.weights is not None else sums.sources[-1]
        precision = precision_text(sums.sources[0], sums.weight_bits, bits, signed=signed, second=second)
        rest: dict[str, Any] = {"requantise": fit.rule.value, "sources": sources, "pad": sums.pad}
        stage = self._builder.add(name, sums.kernel, sums.layer, precision, fit.arrays, **rest)
        self._written[name] = stage.output_shape
        return name

    def channelwise(
        self, kernel: str, layer: str, source: Map, name: str = "", arrays: dict[str, Any] | None = None
    ) -> str:
        """Add a layer without weights whose results have the range of its input map; return the layer's name."""
        chosen, sources = self.unique_name(name or kernel), self._read(kernel, source)
        precision = precision_text(source, 0, source.bits, signed=source.signed, second=source)
        stage = self._builder.add(chosen, kernel, layer, precision, arrays, sources=sources)
        self._written[chosen] = stage.output_shape
        return chosen

    def written_shape(self, value: Map) -> tuple[int, ...]:
        shape = self._written.get(value.stage, value.shape)
        return (*(1,) * (len(value.shape) - len(shape)), *shape)

    def _read(self, kernel: str, *maps: Map) -> list[str]:
        if any(source.stage == INPUT and not source.is_scaled for source in maps):
            require(self._scaled is None, "input must be quantised everywhere or nowhere, not in parts")
            self._has_raw_readers = True
        return [source.stage if kernel in _OF_ROWS else self._shaped(source) for source in maps]

    def _shaped(self, source: Map) -> str:
        written, shape, bits = self.written_shape(source), source.shape, source.bits
        is_row = len(self._written.get(source.stage, shape)) == 1 and shape[-1] * bits % XLEN == 0
        if without_ones(written) == without_ones(shape) or is_row or source.stage == INPUT or bits == SIGN_BITS:
            return source.stage
        key = source.stage, shape
        if key not in self._copies:
            layer, order = f"{dims(written)}:{dims(shape)}", np.arange(prod(shape)).reshape(shape)
            self._copies[key] = self.channelwise("gather", layer, source, "order", {"indices": order})
        return self._copies[key]

    def map_of(self, value: Value | None, tensor: str, *, padded: bool = False) -> Map:
        """Return a value as a map; calibration quantises sums. A layer adds pending padding unless ``padded``."""
        value = live(value)
        if isinstance(value, Map):
            return value if padded else self.with_padding(value)
        if value not in self._quantised:
            quantiser = self._of_range if self.calibration is None else self.calibration.quantiser
            self._quantised[value] = self.quantised(value, quantiser(tensor, value))
        return self._quantised[value]

    def _of_range(self, tensor: str, value: Sums) -> Quantiser:
        low, high = value.ends or (Fraction(0), Fraction(0))
        require(high > low, f"{tensor} must come from a quantiser, not in floating point{QUANTISE}")
        self.note(f"{tensor} has no quantiser: {float(low):.4g}..{float(high):.4g} get {SAMPLE_BITS} bits")
        scale = (high - low) / SAMPLES
        return replace(uniform_quantiser(scale, Fraction(round(-low / scale)), 0, SAMPLES, "ROUND"), is_free=True)

    def quantised_before(self, value: Sums) -> Map | None:
        return self._quantised.get(value)

    def foldable(self, value: Map | Sums, tensor: str, *, is_monotonic: bool = False) -> Map | Sums:
        """With calibration, quantise sums into which the next operator cannot be folded; return other values unchanged.

        No operator can be folded into sums with an activation function. Into sums that are clipped, pooled or without
        weights, only an operator that ``is_monotonic`` can (rising, and equal for all channels).
        """
        if self.calibration is None or isinstance(value, Map):
            return value
        is_clipped = any(channel.low is not None or channel.high is not None for channel in value.channels)
        if value.curve is None and (is_monotonic or not (is_clipped or value.pools or value.weights is None)):
            return value
        if value not in self._quantised:
            self.note(f"{tensor} is quantised, since what follows depends on the channel or falls")
        return self.map_of(value, tensor)

    def scaled(
        self, value: Map | Sums, tensor: str, factors: Sequence[Fraction], summands: Sequence[Fraction] = ()
    ) -> Map | Sums:
        summands = summands or [Fraction(0)] * len(factors)
        is_monotonic = len({*factors}) == len({*summands}) == 1 and factors[0] > 0
        return scaled(self.foldable(value, tensor, is_monotonic=is_monotonic), factors, summands)

    def representing_zero(self, value: Map, tensor: str) -> Map:
        """Return a map that can represent 0, as padding needs; with calibration, a layer requantises it if needed."""
        zero = -value.offset / value.scale
        is_there = zero.denominator == 1 and value.low <= zero <= value.high
        if self.calibration is None or is_there or value.pads != NO_PADS:
            return value
        sums = identity(value)
        return self.quantised(sums, self.calibration.quantiser(tensor, sums))

    def with_positive_scale(self, value: Map) -> Map:
        """Return a map with a positive scale; if its scale is negative, a layer negates the map."""
        if value.scale > 0:
            return value
        value = self.with_padding(value)
        require(value.bits != SIGN_BITS, "numbers of one bit must have a positive scale, not a negative one")
        scale, mirrored = -value.scale, value.low + value.high
        zero = mirrored - value.offset / scale
        quantiser = replace(uniform_quantiser(scale, zero, value.low, value.high, "ROUND"), bits=value.bits)
        return self.quantised(identity(value), replace(quantiser, signed=value.signed))

    def weights_of(
        self, value: Value | None, tensor: str, *, one_scale: bool = False, is_transposed: bool = False
    ) -> Quantised:
        """Return the weights, ``[out][...]``; each output has its own scale unless all share ``one_scale``."""
        if isinstance(value, Quantised):
            return value.transposed((1, 0)) if is_transposed else value
        values = constant_value(value, tensor)
        if is_transposed:
            values = values.transpose((1, 0))
        if self.calibration is not None:
            return self.calibration.weights(tensor, values, one_scale=one_scale)
        is_number = values.dtype.kind in "fiu"
        if not is_number or not np.array_equal(values, np.rint(values)) or np.abs(values).max() >= 1 << 31:
            raise InputError(f"{tensor} must come from a quantiser, not in floating point{QUANTISE}")
        return Quantised(values=values.astype(np.int64), scale=np.full(values.shape, Fraction(1), object))

    def quantised(self, sums: Sums, quantiser: Quantiser) -> Map:
        """Add the layer that computes and quantises sums; raises :class:`InputError` if no requantisation rule fits."""
        if sums.levels is not None:
            reals = [[finite(level) for level in row] for row in sums.levels]
            codes = [[quantiser.result(real, number) for real in row] for number, row in enumerate(reals)]
            return self.tabled(sums, np.array(codes, np.int64), quantiser)
        if sums.join is not None:
            codes = (quantiser.scale, quantiser.offset, quantiser.bits, quantiser.signed)
            same = [(own.scale, own.offset, own.bits, own.signed) == codes for own in sums.sources]
            pairs = zip(sums.sources, same, strict=True)
            parts = [own if is_same else self.quantised(identity(own), quantiser) for own, is_same in pairs]
            return replace(sums.join(parts), indices=sums.indices)
        if sums.curve is not None:
            sums, quantiser = replace(sums, curve=None), quantiser.after_function(sums.curve)
        if quantiser.is_free:
            quantiser, channels = unclipped(quantiser, sums.channels)
            sums = replace(sums, channels=channels)
        if quantiser.top is not None:
            return self._clipped(sums, quantiser)
        if not sums.name and sums.sources[0].stage == INPUT:
            halfway, samples = halfway_samples(quantiser, sums.channels)
            if halfway and not quantiser.is_free:
                self.note(f"{halfway} of {samples} samples are halfway between two codes: floats may take the other")
            if (scaled_input := self._scaled_input(sums, quantiser)) is not None:
                return scaled_input
        sums, fit = self._fit(sums, quantiser)
        is_wrong = fit.inexact and not quantiser.is_free
        if sums.factors is not None and is_wrong and (whole := rule_fit.plain_sum(sums, sums.factors)):
            added, behind = whole
            first = sums.channels[0]
            stage = self.add(sums, added, behind.bits, signed=behind.signed)
            again = identity(Map.of(behind, stage, sums.shape, sums.indices))
            channels = tuple(replace(other, low=first.low, high=first.high) for other in again.channels)
            return self.quantised(replace(again, channels=channels), quantiser)
        # an additional layer is faster than 8-bit thresholds
        is_slow = fit.rule is Rule.THRESHOLDS and quantiser.bits == max(ELEMENT_WIDTHS)
        if (fit.inexact or is_slow) and quantiser.bits != SIGN_BITS and not quantiser.is_free:
            ends = inner_results(quantiser, sums.channels)
            if ends is not None and ends != (quantiser.results.start - 1, quantiser.results.stop - 1):
                return self._clipped(sums, quantiser.clipped(*ends))
        return self._add_quantised(sums, quantiser, fit)

    def _clipped(self, sums: Sums, quantiser: Quantiser) -> Map:
        sums, fit = self._fit(sums, quantiser)
        result = self._add_quantised(sums, quantiser, fit)
        most, top = (1 << quantiser.bits) - 1, quantiser.results.stop - 1
        # with this offset the quantiser's maximum is that of the elements
        raised = most - top
        if not raised or (fit.reach is not None and fit.reach <= top):
            return result
        arrays = {"factor": np.array(1), "summand": np.array(raised), "shift": np.array(0)}
        layer = f"{dims(result.shape)}:1x1:scaled"
        stage = self.channelwise("avgpool", layer, result, f"{sums.name or 'requantise'}_clip", arrays)
        return replace(result, stage=stage, low=raised, high=most, offset=result.offset - result.scale * raised)

    def _fit(self, sums: Sums, quantiser: Quantiser) -> tuple[Sums, RuleFit]:
        if sums.factors is not None:
            return sums, rule_fit.fit_addition(sums, sums.factors, quantiser)
        if sums.kernel in ("softmax", "layernorm"):
            return sums, (map_fit.fit_softmax if sums.kernel == "softmax" else map_fit.fit_layernorm)(sums, quantiser)
        if sums.kernel in ("multiply", "batchmatmul"):
            products = sums.sources[0].shape[2] if sums.kernel == "batchmatmul" else 1
            return sums, map_fit.fit_product(sums, quantiser, products)
        if sums.kernel == "avgpool" and (sums.channels[0].a < 0 or not rule_fit.have_equal_channels(sums)):
            sums = rule_fit.summed(sums)
        elif sums.kernel == "avgpool":
            return sums, rule_fit.fit_average(sums, quantiser)
        is_alone = not sums.name and sums.sources[0].bits != SIGN_BITS
        if is_alone and sums.channels[0].a > 0 and rule_fit.have_equal_channels(sums):
            fit = rule_fit.fit_average(sums, quantiser)
            if not fit.inexact:
                return rule_fit.averaged(sums), fit
        return sums, rule_fit.fit_products(sums, quantiser)

    def _add_quantised(self, sums: Sums, quantiser: Quantiser, fit: RuleFit) -> Map:
        if fit.inexact and fit.max_error > self.allow and not quantiser.is_free:
            raise InputError(
                f"results must be at most {self.allow} from the quantiser's (--allow), not {fit.max_error}, as where "
                "channels are clipped differently inside the range of its numbers"
            )
        if fit.inexact:
            steps, pairs = "steps of its quantiser are at other sums", "pairs of numbers have another result"
            what = steps if sums.factors is None else pairs
            self.note(f"{sums.name}: {fit.inexact} of {fit.total} {what}, by {fit.max_error} at the most")
        return self._output_map(sums, self.add(sums, fit, quantiser.bits, signed=quantiser.signed), quantiser)

    def _scaled_input(self, sums: Sums, quantiser: Quantiser) -> Map | None:
        is_changed = self._scaled is None and self.scaling != Scaling()
        if is_changed or self._has_raw_readers or sums.sources[0].is_scaled or min(c.a for c in sums.channels) <= 0:
            return None
        channels = [Channel.of(quantiser, channel, number) for number, channel in enumerate(sums.channels)]
        if quantiser.bits == SIGN_BITS:
            return self._input(sums, quantiser, Scaling(add=by_colour([-channel.steps[0] for channel in channels])))
        rule = fitted(channels, quantiser.results, bits=ACCUMULATOR_BITS, longest=MAX_SHIFT, is_free=quantiser.is_free)
        if rule is None:
            return None
        kappa, lam, shift = rule
        return self._input(sums, quantiser, Scaling(multiply=by_colour(kappa), add=by_colour(lam), shift=shift))

    def _input(self, sums: Sums, quantiser: Quantiser, scaling: Scaling) -> Map:
        if self._scaled is not None and scaling != self.scaling:
            raise InputError("input must have one quantiser, not two that differ")
        self.scaling = scaling
        self._scaled = replace(self._output_map(sums, INPUT, quantiser), is_scaled=True)
        return self._scaled

    def _output_map(self, sums: Sums, stage: str, quantiser: Quantiser) -> Map:
        low = quantiser.low if quantiser.bits == SIGN_BITS else max(quantiser.low, quantiser.results.start - 1)
        high = quantiser.high if quantiser.top is None else (1 << quantiser.bits) - 1
        output = replace(Map.of(quantiser, stage, sums.shape, sums.indices), low=low, high=high)
        for layer in sums.pools:
            before = replace(output, shape=self.written_shape(output))
            output = replace(output, stage=self.channelwise("maxpool", layer, before))
        return output

    def with_padding(self, value: Map) -> Map:
        """Return a map with the padding in memory, written by a depthwise layer whose filters are a single 1."""
        if value.pads == NO_PADS:
            return value
        zero, is_standard = -value.offset / value.scale, np.array_equal(value.indices, standard_indices(value.shape))
        own = range(-(1 << value.bits - 1), 1 << value.bits - 1) if value.signed else range(1 << value.bits)
        if value.bits == SIGN_BITS or zero not in own or not is_standard:
            raise InputError("padding must be right before a convolution or a maximum pooling, not here")
        return self.framed(replace(value, pads=NO_PADS), value.pads, int(zero), "pad")

    def framed(self, value: Map, pads: Pads, pad: int, name: str) -> Map:
        (top, bottom, left, right), (height, width, channels) = pads, value.shape
        rows, columns = top + bottom + 1, left + right + 1
        shape = (height + top + bottom, width + left + right, channels)
        # early, since it refuses maps that are too large
        indices = standard_indices(shape)
        weights = np.zeros((channels, rows, columns), np.int64)
        weights[:, bottom, right] = 1
        around = f"p={top + bottom}x{top + bottom}x{left + right}x{left + right}"
        layer = f"{dims(value.shape)}:{rows}x{columns}:{around}"
        sums = replace(identity(value), layer=layer, weights=weights, pad=pad, name=name, shape=shape, indices=indices)
        stage = self.copied(sums)
        low, high = min(value.low, pad), max(value.high, pad)
        return replace(value, stage=stage, shape=shape, indices=indices, low=low, high=high)

    def copied(self, sums: Sums) -> str:
        source, arrays = sums.sources[0], {"weights": sums.weights, "shift": np.array(0)}
        return self.add(sums, RuleFit(rule=Rule.SHIFT, arrays=arrays), source.bits, signed=source.signed)

    def tabled(self, sums: Sums, codes: Ints, quantiser: Quantiser, slopes: Sequence[Fraction] = ()) -> Map:
        """Add a layer that gives ``codes``, ``[channel][integer]``, for the integers of a map from its least one on.

        ``codes`` has one row if all channels are equal. Otherwise a rule that ``slopes`` help to find has the codes.
        """
        if (codes == codes[:1]).all() and quantiser.bits != SIGN_BITS:
            source, table = sums.sources[0], np.zeros(1 << sums.sources[0].bits, np.int64)
            table[np.arange(source.low, source.high + 1) & (1 << source.bits) - 1] = codes[0]
            sums = replace(sums, kernel="lookup", layer=dims(source.shape), weights=None)
            stage = self.add(sums, RuleFit(arrays={"table": table}), quantiser.bits, signed=quantiser.signed)
        else:
            source, codes = sums.sources[0], np.broadcast_to(codes, (sums.shape[2], codes.shape[1]))
            falling = np.minimum.accumulate(codes, axis=1)
            is_monotonic = (falling == codes).all(axis=1) | (falling == codes[:, :1]).all(axis=1)
            if not is_monotonic.all() and (np.diff(codes - falling) >= 0).all():
                return self._valleys(sums, codes, falling, quantiser)
            fit = rule_fit.fit_codes(source, codes, quantiser, slopes)
            sums = replace(identity(source), name=sums.name, pools=sums.pools)
            stage = self.add(sums, fit, quantiser.bits, signed=quantiser.signed)
        return self._output_map(sums, stage, quantiser)

    def _valleys(self, sums: Sums, codes: Ints, falling: Ints, quantiser: Quantiser) -> Map:
        """Add layers whose results fall and then rise: one that falls, and one that rises from 0, which is added."""
        above = uniform_quantiser(quantiser.scale, Fraction(0), 0, (1 << quantiser.bits) - 1, "ROUND")
        alone = replace(sums, pools=())
        first, second = self.tabled(alone, falling, quantiser), self.tabled(alone, codes - falling, above)
        fit = RuleFit(arrays={"factors": np.array([1, 1]), "summand": np.array(0), "shift": np.array(0)})
        whole = replace(identity(first), sources=(first, second), kernel="add", weights=None, name=sums.name)
        whole = replace(whole, layer=f"{dims(first.shape)}:shift", pools=sums.pools)
        return self._output_map(whole, self.add(whole, fit, quantiser.bits, signed=quantiser.signed), quantiser)

    def add_raw_layer(self, sums: Sums) -> None:
        """Add a last layer whose results are its sums; raises :class:`InputError` unless they share one scale."""
        if reason := rule_fit.obstacle_to_raw(sums):
            raise InputError(reason)
        assert sums.weights is not None
        factor = sums.channels[0].a
        sign = 1 if factor > 0 else -1
        arrays: dict[str, Any] = {"weights": sums.weights * sign}
        # a bias common to all results is dropped
        common = sums.channels[0].b if len({channel.b for channel in sums.channels}) == 1 else Fraction(0)
        offsets = [(channel.b - common) / abs(factor) for channel in sums.channels]
        if any(offsets):
            arrays["bias"] = np.array([round(offset) for offset in offsets], np.int64)
            if any(offset.denominator != 1 for offset in offsets):
                self.note("biases of the last layer are rounded to whole sums")
        layer = f"{sums.layer}:raw" if sums.kernel == "linear" else sums.layer
        self.add(replace(sums, layer=layer), RuleFit(arrays=arrays), ACCUMULATOR_BITS, signed=True)
