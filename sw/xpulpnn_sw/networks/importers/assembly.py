"""The layers of a model as it is read: quantisers turn sums into maps, the network grows by a layer each."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Rule
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS
from xpulpnn_sw.networks.form import NetworkBuilder
from xpulpnn_sw.networks.importers.levels import (
    ELEMENT_WIDTHS,
    Channel,
    Levels,
    fitted,
    inner_results,
    unclipped,
    uniform_levels,
)
from xpulpnn_sw.networks.importers.plans import (
    RuleFit,
    are_alike,
    averaged,
    fit_addition,
    fit_average,
    fit_products,
    obstacle_to_raw,
    plain_sum,
    summed,
)
from xpulpnn_sw.networks.importers.policy import Policy
from xpulpnn_sw.networks.importers.values import (
    NO_PADS,
    Map,
    Pads,
    Quantised,
    Shape,
    Sums,
    Value,
    constant_value,
    dims,
    identity,
    live,
    moved,
    standard_places,
)
from xpulpnn_sw.networks.network import Described, Scaling, by_colour

INPUT = "input"
SAMPLE_BITS = 8
_OTHERS = ("columns, channels", "rows, channels", "rows, columns")  # of maps beside each other, by the axis
_ROW_AXES = 2  # of a tensor that is a row: the batch and the elements


def _letter(bits: int, *, signed: bool, usual: bool) -> str:
    return f"{'' if signed == usual or bits == SIGN_BITS else 'ui'[signed]}{bits}"


def _precision(source: Map, weight_bits: int, bits: int, *, signed: bool, second: Map | None = None) -> str:
    """The precision of a layer; ``second``: the other map that it reads, or the same, if there are no weights."""
    x = _letter(source.bits, signed=source.signed, usual=False)
    w = str(weight_bits) if second is None else _letter(second.bits, signed=second.signed, usual=True)
    return f"{x}x{w}x{_letter(bits, signed=signed, usual=False)}"


@dataclass(eq=False)
class NetworkAssembly:
    """A network that grows."""

    name: str
    note: Callable[[str], object]  # is told what is not as in the model
    policy: Policy | None = None  # how what has no quantiser is quantised
    scaling: Scaling = field(default_factory=Scaling, init=False)
    _names: set[str] = field(default_factory=lambda: {INPUT}, init=False)
    _scaled: Map | None = field(default=None, init=False)
    _has_raw_readers: bool = field(default=False, init=False)  # whether a layer reads the input as it is
    _quantised: dict[Sums, Map] = field(default_factory=dict[Sums, Map], init=False)

    def __post_init__(self) -> None:
        self._builder = NetworkBuilder(self.name)

    def finish(self) -> Described:
        """The network with its layers."""
        return self._builder.finish(self.scaling)

    def unique_name(self, requested: str) -> str:
        """A name that no layer has."""
        plain = re.sub(r"[^0-9A-Za-z_]+", "_", requested).strip("_") or "layer"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain}_{number}"
        self._names.add(name)
        return name

    def map_of(self, value: Value | None, tensor: str, *, padded: bool = False) -> Map:
        """A value in memory; raises :class:`InputError` if nothing says how it is quantised.

        Unless ``padded``, zeros around it are in memory too.
        """
        value = live(value)
        if isinstance(value, Map):
            return value if padded else self.with_padding(value)
        if self.policy is None:
            raise InputError(f"{tensor} must come from a quantiser, not in floating point without bits to quantise to")
        # a map that several layers read is quantised once
        if value not in self._quantised:
            self._quantised[value] = self.quantised(value, self.policy.levels(tensor, value))
        return self._quantised[value]

    def foldable(self, value: Map | Sums, tensor: str, *, is_monotonic: bool = False) -> Map | Sums:
        """A value that an operator may change; sums that no quantiser behind the change could have are quantised.

        These are results of a curve and, unless the change ``is_alone`` (rising, and the same for all channels), sums
        that are clipped or pooled, or have no weights. Only with a policy; what is refused without it is so later.
        """
        if self.policy is None or isinstance(value, Map):
            return value
        is_clipped = any(channel.low is not None or channel.high is not None for channel in value.channels)
        if value.curve is None and (is_monotonic or not (is_clipped or value.pools or value.weights is None)):
            return value
        if value not in self._quantised:
            self.note(f"{tensor} is quantised, since what follows depends on the channel or falls")
        return self.map_of(value, tensor)

    def moved(
        self, value: Map | Sums, tensor: str, factors: Sequence[Fraction], summands: Sequence[Fraction]
    ) -> Map | Sums:
        """A value times a number plus another for each channel."""
        is_monotonic = len({*factors}) == len({*summands}) == 1 and factors[0] > 0
        return moved(self.foldable(value, tensor, is_monotonic=is_monotonic), factors, summands)

    def with_zero(self, value: Map, tensor: str) -> Map:
        """A map with a number for 0, as padding needs: quantised again for that, if the importer may."""
        zero = -value.offset / value.scale
        is_there = zero.denominator == 1 and value.low <= zero <= value.high
        if self.policy is None or is_there or value.pads != NO_PADS:
            return value
        sums = identity(value)
        return self.quantised(sums, self.policy.levels(tensor, sums))

    def with_positive_scale(self, value: Map) -> Map:
        """A map whose numbers rise with what they stand for: a layer turns others."""
        if value.scale > 0:
            return value
        value = self.with_padding(value)
        if value.bits == SIGN_BITS:
            raise InputError("numbers of one bit must have a positive scale, not a negative one")
        scale, mirrored = -value.scale, value.low + value.high
        zero = mirrored - value.offset / scale
        levels = replace(uniform_levels(scale, zero, value.low, value.high, "ROUND"), bits=value.bits)
        return self.quantised(identity(value), replace(levels, signed=value.signed))

    def weights_of(
        self, value: Value | None, tensor: str, *, one_scale: bool = False, is_turned: bool = False
    ) -> Quantised:
        """Weights, ``[out][...]``, as integers, which the tensor has as ``[in][out]`` if it is turned.

        Each output has a scale of its own unless they share ``one_scale``.
        """
        if isinstance(value, Quantised):
            return value.turned((1, 0)) if is_turned else value
        values = constant_value(value, tensor)
        if is_turned:
            values = values.transpose((1, 0))
        if self.policy is not None:
            return self.policy.weights(tensor, values, one_scale=one_scale)
        if (
            values.dtype.kind not in "fiu"
            or not np.array_equal(values, np.rint(values))
            or np.abs(values).max() >= 1 << 31
        ):
            raise InputError(f"{tensor} must come from a quantiser, not in floating point without bits to quantise to")
        return Quantised(values=values.astype(np.int64), scale=np.full(values.shape, Fraction(1), object))

    def quantised(self, sums: Sums, levels: Levels) -> Map:
        """The results of a layer behind a quantiser; raises :class:`InputError` if no rule is it."""
        if sums.curve is not None:
            sums, levels = replace(sums, curve=None), levels.behind(sums.curve)
        if levels.is_free:
            levels, channels = unclipped(levels, sums.channels)
            sums = replace(sums, channels=channels)
        if levels.top is not None:
            return self._clipped(sums, levels)
        if not sums.name and sums.sources[0].stage == INPUT and (scaled_input := self._scaled_input(sums, levels)):
            return scaled_input
        sums, fit = self._fit(sums, levels)
        if sums.factors is not None and fit.moved and not levels.is_free and (whole := plain_sum(sums, sums.factors)):
            added, behind = whole
            first = sums.channels[0]
            stage = self._add(sums, added, behind.bits, signed=behind.signed)
            again = identity(Map.of(behind, stage, sums.shape, sums.places))
            channels = tuple(replace(other, low=first.low, high=first.high) for other in again.channels)
            return self.quantised(replace(again, channels=channels), levels)
        # thresholds of 8 bits take longer than another layer
        is_slow = fit.rule is Rule.THRESHOLDS and levels.bits == max(ELEMENT_WIDTHS)
        if (fit.moved or is_slow) and levels.bits != SIGN_BITS and not levels.is_free:
            ends = inner_results(levels, sums.channels)
            if ends is not None and ends != (levels.results.start - 1, levels.results.stop - 1):
                return self._clipped(sums, levels.within(*ends))
        return self._add_quantised(sums, levels, fit)

    def _clipped(self, sums: Sums, levels: Levels) -> Map:
        """The results of a layer that are clipped where memory begins, and above by a layer of their own."""
        sums, fit = self._fit(sums, levels)
        result = self._add_quantised(sums, levels, fit)
        most, top = (1 << levels.bits) - 1, levels.results.stop - 1
        if fit.reach is not None and fit.reach <= top:
            return result
        # memory ends where the quantiser does, if everything is greater by this
        raised = most - top
        if not raised:
            return result
        arrays = {"factor": np.array(1), "summand": np.array(raised), "shift": np.array(0)}
        layer = f"{dims(result.shape)}:1x1:scaled"
        stage = self.channelwise("avgpool", layer, result, f"{sums.name or 'requantise'}_clip", arrays)
        return replace(result, stage=stage, low=raised, high=most, offset=result.offset - result.scale * raised)

    def _fit(self, sums: Sums, levels: Levels) -> tuple[Sums, RuleFit]:
        """The layer that computes the sums, and its rule."""
        if sums.factors is not None:
            return sums, fit_addition(sums, sums.factors, levels)
        if sums.kernel == "avgpool" and (sums.channels[0].a < 0 or not are_alike(sums)):
            sums = summed(sums)
        elif sums.kernel == "avgpool":
            return sums, fit_average(sums, levels)
        # nothing but the input quantised again, every channel in the same way
        if not sums.name and are_alike(sums) and sums.channels[0].a > 0 and sums.sources[0].bits != SIGN_BITS:
            fit = fit_average(sums, levels)
            if not fit.moved:
                return averaged(sums), fit
        return sums, fit_products(sums, levels)

    def _add_quantised(self, sums: Sums, levels: Levels, fit: RuleFit) -> Map:
        if fit.moved and fit.worst > 1 and not levels.is_free:
            raise InputError(
                f"results must be at most 1 from the quantiser's, not {fit.worst}, as where channels are clipped "
                "differently inside the range of its numbers"
            )
        if fit.moved:
            steps, pairs = "steps of its quantiser are at other sums", "pairs of numbers have another sum"
            what = steps if sums.factors is None else pairs
            self.note(f"{sums.name}: {fit.moved} of {fit.total} {what}, by 1 at the most")
        return self._output_map(sums, self._add(sums, fit, levels.bits, signed=levels.signed), levels)

    def _scaled_input(self, sums: Sums, levels: Levels) -> Map | None:
        """The input itself behind a quantiser; None if no factors, summands and shift have its steps, or the input has
        other numbers already.
        """
        is_changed = self._scaled is None and self.scaling != Scaling()
        if (
            is_changed
            or self._has_raw_readers
            or sums.sources[0].is_scaled
            or any(channel.a <= 0 for channel in sums.channels)
        ):
            return None
        channels = [Channel.of(levels, channel, number) for number, channel in enumerate(sums.channels)]
        if levels.bits == SIGN_BITS:
            return self._input(sums, levels, Scaling(add=by_colour([-channel.steps[0] for channel in channels])))
        rule = fitted(channels, levels.results, bits=ACCUMULATOR_BITS, longest=MAX_SHIFT, is_free=levels.is_free)
        if rule is None:
            return None
        kappa, lam, shift = rule
        return self._input(sums, levels, Scaling(multiply=by_colour(kappa), add=by_colour(lam), shift=shift))

    def _input(self, sums: Sums, levels: Levels, scaling: Scaling) -> Map:
        """The input itself in other numbers, which is the caller's work: once only."""
        if self._scaled is not None and scaling != self.scaling:
            raise InputError("input must have one quantiser, not two that differ")
        self.scaling = scaling
        self._scaled = replace(self._output_map(sums, INPUT, levels), is_scaled=True)
        return self._scaled

    def _add(self, sums: Sums, fit: RuleFit, bits: int, *, signed: bool) -> str:
        """Add a layer with results of so many bits, and return its name."""
        name, sources = self.unique_name(sums.name or "requantise"), self._read(*sums.sources)
        second = None if sums.weights is not None else sums.sources[-1]
        precision = _precision(sums.sources[0], sums.weight_bits, bits, signed=signed, second=second)
        rest: dict[str, Any] = {"requantise": fit.rule.value, "sources": sources, "pad": sums.pad}
        self._builder.add(name, sums.kernel, sums.layer, precision, fit.arrays, **rest)
        return name

    def _read(self, *maps: Map) -> list[str]:
        """The stages that a new layer reads; raises :class:`InputError` for the input in other numbers than it has."""
        if any(source.stage == INPUT and not source.is_scaled for source in maps):
            if self._scaled is not None:
                raise InputError("input must be quantised everywhere or nowhere, not in parts")
            self._has_raw_readers = True
        return [source.stage for source in maps]

    def _output_map(self, sums: Sums, stage: str, levels: Levels) -> Map:
        low, high = (-1, 1) if levels.bits == SIGN_BITS else (max(levels.low, levels.results.start - 1), levels.high)
        if levels.top is not None:
            high = (1 << levels.bits) - 1
        output = replace(Map.of(levels, stage, sums.shape, sums.places), low=low, high=high)
        for layer in sums.pools:
            output = replace(output, stage=self.channelwise("maxpool", layer, output))
        return output

    def channelwise(
        self, kernel: str, layer: str, source: Map, name: str = "", arrays: dict[str, Any] | None = None
    ) -> str:
        """Add a layer without weights, whose results are like its input."""
        chosen = self.unique_name(name or kernel)
        precision = _precision(source, 0, source.bits, signed=source.signed, second=source)
        self._builder.add(chosen, kernel, layer, precision, arrays, sources=self._read(source))
        return chosen

    def with_padding(self, value: Map) -> Map:
        """A map with the zeros around it in memory: a layer moves each element by filters with one weight of 1."""
        if value.pads == NO_PADS:
            return value
        zero, is_standard = -value.offset / value.scale, np.array_equal(value.places, standard_places(value.shape))
        own = range(-(1 << value.bits - 1), 1 << value.bits - 1) if value.signed else range(1 << value.bits)
        if value.bits == SIGN_BITS or zero not in own or not is_standard:
            raise InputError("padding must be right before a convolution or a maximum pooling, not here")
        return self._framed(replace(value, pads=NO_PADS), value.pads, int(zero), "pad")

    def _framed(self, value: Map, pads: Pads, pad: int, name: str) -> Map:
        """A map with numbers ``pad`` around it in memory."""
        (top, bottom, left, right), (height, width, channels) = pads, value.shape
        # such that a filter meets the map everywhere
        rows, columns = top + bottom + 1, left + right + 1
        shape = (height + top + bottom, width + left + right, channels)
        # first, since it refuses maps that are too large
        places = standard_places(shape)
        weights = np.zeros((channels, rows, columns), np.int64)
        weights[:, bottom, right] = 1
        around = f"p={top + bottom}x{top + bottom}x{left + right}x{left + right}"
        layer = f"{dims(value.shape)}:{rows}x{columns}:{around}"
        sums = replace(identity(value), layer=layer, weights=weights, pad=pad, name=name, shape=shape, places=places)
        stage = self._copied(sums)
        low, high = min(value.low, pad), max(value.high, pad)
        return replace(value, stage=stage, shape=shape, places=places, low=low, high=high)

    def concatenated(self, maps: Sequence[Map], name: str, axis: int = 2) -> Map:
        """The rows, columns or channels of maps one behind the other: each map in its own of a larger one, and their
        sum.
        """
        first, sizes = maps[0], [part.shape[axis] for part in maps]
        forms = {((*part.shape[:axis], *part.shape[axis + 1 :]), part.bits, part.signed) for part in maps}
        if len(forms) != 1:
            raise InputError(f"maps must have the same {_OTHERS[axis]} and widths, not different ones")
        height, width, channels = (sum(sizes) if place == axis else size for place, size in enumerate(first.shape))
        shape: Shape = (height, width, channels)
        begins = [sum(sizes[:number]) for number in range(len(maps))]
        joined, *rest = (
            self._expanded(part, begin, shape, name, axis) for part, begin in zip(maps, begins, strict=True)
        )
        arrays = {"factors": np.array([1, 1]), "summand": np.array(0), "shift": np.array(0)}
        for part in rest:
            sums = replace(
                identity(joined), kernel="add", layer=f"{dims(shape)}:shift", sources=(joined, part), name=name
            )
            fit = RuleFit(arrays=arrays)
            stage = self._add(replace(sums, weights=None), fit, first.bits, signed=first.signed)
            joined = replace(joined, stage=stage, low=min(joined.low, part.low), high=max(joined.high, part.high))
        return joined

    def _expanded(self, value: Map, begin: int, shape: Shape, name: str, axis: int) -> Map:
        """A map in the rows, columns or channels from ``begin`` on of a larger one, which has 0 in all others."""
        own = value.shape[axis]
        around = (begin, shape[axis] - begin - own)
        if axis == 0:
            return self._framed(value, (*around, 0, 0), 0, name)
        if axis == 1:
            return self._framed(value, (0, 0, *around), 0, name)
        weights = np.zeros((shape[2], 1, 1, own), np.int64)
        weights[np.arange(begin, begin + own), 0, 0, np.arange(own)] = 1
        layer = f"{dims(value.shape)}:{shape[2]}:p=0"
        sums = replace(identity(value), kernel="pointwise", layer=layer, weights=weights, name=name)
        low, high, places = min(value.low, 0), max(value.high, 0), standard_places(shape)
        return replace(value, stage=self._copied(sums), shape=shape, places=places, low=low, high=high)

    def channels_repeated(self, value: Map, copies: int) -> Map:
        """A map whose channels are there several times, one copy behind the other; its tensor has them in the last axis
        if it is a row, else as channels.
        """
        channels = value.shape[2]
        shape = (*value.shape[:2], channels * copies)
        weights = np.tile(np.eye(channels, dtype=np.int64), (copies, 1))[:, np.newaxis, np.newaxis]
        flat = replace(value, pads=NO_PADS)
        layer = f"{dims(value.shape)}:{shape[2]}:p=0"
        sums = replace(identity(flat), kernel="pointwise", layer=layer, weights=weights, name="copies")
        moved = value.places // channels * shape[2] + value.places % channels
        axis = 1 if value.places.ndim > _ROW_AXES else value.places.ndim - 1
        places = np.concatenate([moved + number * channels for number in range(copies)], axis=axis)
        return replace(value, stage=self._copied(sums), shape=shape, places=places)

    def _copied(self, sums: Sums) -> str:
        """Add a layer with weights whose results are its sums."""
        source, arrays = sums.sources[0], {"weights": sums.weights, "shift": np.array(0)}
        return self._add(sums, RuleFit(rule=Rule.SHIFT, arrays=arrays), source.bits, signed=source.signed)

    def lookup(self, sums: Sums, levels: Levels, steps: Ints) -> Map:
        """A map in other numbers: the least input of each result above the least."""
        thresholds = np.tile(steps - 1, (sums.shape[2], 1))
        fit = RuleFit(rule=Rule.THRESHOLDS, arrays={"weights": sums.weights, "thresholds": thresholds})
        return self._output_map(sums, self._add(sums, fit, levels.bits, signed=levels.signed), levels)

    def add_raw_layer(self, sums: Sums) -> None:
        """The last layer, whose results are its sums; raises :class:`InputError` unless they are in one scale."""
        if reason := obstacle_to_raw(sums):
            raise InputError(reason)
        assert sums.weights is not None
        factor = sums.channels[0].a
        sign = 1 if factor > 0 else -1
        arrays: dict[str, Any] = {"weights": sums.weights * sign}
        # what all have is no difference
        common = sums.channels[0].b if len({channel.b for channel in sums.channels}) == 1 else Fraction(0)
        offsets = [(channel.b - common) / abs(factor) for channel in sums.channels]
        if any(offsets):
            arrays["bias"] = np.array([round(offset) for offset in offsets], np.int64)
            if any(offset.denominator != 1 for offset in offsets):
                self.note("biases of the last layer are rounded to whole sums")
        layer = f"{sums.layer}:raw" if sums.kernel == "linear" else sums.layer
        self._add(replace(sums, layer=layer), RuleFit(arrays=arrays), ACCUMULATOR_BITS, signed=True)
