"""Operands of layers as numpy arrays, given or random."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError, require
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels import requantisation as rules
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.layer import ConvLayer, DepthwiseLayer, MatmulLayer, ProductLayer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

_MAX_KAPPA = 255
_SAFE_BITS = 30  # accumulator times kappa stays below this power of two, so that adding lambda cannot wrap
_WIDE_KAPPA_BITS = 24  # width of a kappa with 64-bit products
_HALF_RANGE = 1 << 15  # bound of thresholds, which have 16 bits
_FACTOR_BITS = 31  # width of factors of the exact rule, without sign

# the accumulator's standard deviation is below this power of two, which leaves room for its mean and for kappa
_SPREAD_BITS = 25
UNIFORM_VARIANCE = 1 / 12  # variance of a uniform number of an interval of length 1

FilterLayer = ProductLayer | DepthwiseLayer  # layers with filters


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerTensors:
    activations: Ints  # `[height][width][channel]` of a convolution, `[pixel][k]` of a matrix product
    weights: Ints  # `[out][ky][kx][channel]` or `[out][k]`, of a depthwise convolution `[channel][ky][kx]`
    bias: Ints | None = None  # start of each output channel's accumulator, int32
    requantisation: rules.AnyRequantisation | None = None  # without it the results are the 32-bit accumulators
    folded: bool = False  # whether a convolution folds its results for the pooling that follows
    # whether the results of a convolution, or the inputs of a depthwise one, lie channel by channel without gaps
    flat: bool = False
    # whether results, or the inputs of a pointwise convolution, are interleaved groups of pixels
    grouped: bool = False
    from_groups: bool = False

    @property
    def rule(self) -> Rule | None:
        return None if self.requantisation is None else self.requantisation.rule

    def in_software(self, precision: Precision) -> "LayerTensors":
        if not isinstance(self.requantisation, rules.ExactRequantisation):
            return self
        return replace(self, requantisation=self.requantisation.in_software(*self._sums(precision)))

    def with_one_shift(self, precision: Precision) -> "LayerTensors":
        """Replace the exact rule by an equivalent rule with one shift for all channels, if there is one."""
        if not isinstance(self.requantisation, rules.ExactRequantisation):
            return self
        bias, reach = self._sums(precision)
        least = -(1 << precision.y - 1) if precision.y_signed else 0
        one_shift = self.requantisation.with_one_shift(bias, reach, range(least, least + (1 << precision.y)))
        return self if one_shift is None else replace(self, requantisation=one_shift[0], bias=one_shift[1])

    def _sums(self, precision: Precision) -> tuple[Ints, Ints]:
        rows = self.weights.reshape(len(self.weights), -1).astype(np.int64)
        bias = np.zeros(len(rows), np.int64) if self.bias is None else self.bias
        return bias, np.abs(rows).sum(axis=1) << precision.x

    def reshaped(self, layer: FilterLayer) -> "LayerTensors":
        activations, weights = _shapes(layer)
        return replace(self, activations=self.activations.reshape(activations), weights=self.weights.reshape(weights))

    def check_shapes(self, activations: tuple[int, ...], weights: tuple[int, ...]) -> None:
        check_shape("activations", self.activations, activations)
        check_shape("weights", self.weights, weights)

    def check(self, layer: FilterLayer, precision: Precision, *, activations: tuple[int, ...] | None = None) -> None:
        """Raise :class:`LayerError` unless the operands fit ``layer``; ``activations`` replaces its input shape."""
        if precision.requantised != (self.requantisation is not None):
            raise LayerError(f"requantisation must be there exactly for results below 32 bits, not with {precision}")
        shape, filters = _shapes(layer)
        self.check_shapes(activations or shape, filters)
        per_channel, requantisation = dict[str, Ints](), self.requantisation
        if precision.y == SIGN_BITS and self.rule is not Rule.THRESHOLDS:
            rule = self.rule.value if self.rule else None
            raise LayerError(f"requantisation must be thresholds for results of one bit, not {rule}")
        if self.bias is not None:
            per_channel["bias"] = self.bias
        if isinstance(requantisation, rules.Requantisation | rules.WideRequantisation):
            per_channel |= {"kappa": requantisation.kappa, "lambda": requantisation.lam}
        if isinstance(requantisation, rules.ExactRequantisation):
            per_channel |= {"factors": requantisation.factors, "shifts": requantisation.shifts}
        for name, values in per_channel.items():
            check_shape(name, values, (layer.out_channels,))
        if isinstance(requantisation, rules.Thresholds):
            check_shape("thresholds", requantisation.values, (layer.out_channels, (1 << precision.y) - 1))


def for_core(tensors: Any, precision: Precision, extensions: Collection[Extension]) -> Any:
    exact = {Extension.XPULPRQ_EXACT, Extension.XIF_RQ_EXACT}
    is_able = not exact.isdisjoint(extensions) or not isinstance(tensors, LayerTensors)
    return tensors if is_able else tensors.in_software(precision)


def check_shape(name: str, values: Ints, shape: tuple[int, ...]) -> None:
    require(values.shape == shape, f"shape of {name} must be {shape}, not {values.shape}", LayerError)


def _shapes(layer: FilterLayer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(layer, DepthwiseLayer):
        return (layer.height, layer.width, layer.channels), (layer.channels, layer.kernel_height, layer.kernel_width)
    if isinstance(layer, ConvLayer):
        channels = layer.channels
        filters = (layer.out_channels, layer.kernel_height, layer.kernel_width, channels)
        return (layer.height, layer.width, channels), filters
    return (layer.pixels, layer.reduction), (layer.out_channels, layer.reduction)


def _inside_fractions(layer: FilterLayer, axis: int) -> NDArray[np.float64]:
    if not isinstance(layer, ConvLayer):
        return np.ones(1)
    top, _, left, _ = layer.padding
    taps = np.linspace(0, layer.reach - 1, layer.kernel_height).round().astype(np.int64)
    y = np.arange(layer.out_height)[:, np.newaxis] * layer.stride[0] - top + taps
    x = np.arange(layer.out_width)[:, np.newaxis] * layer.stride[1] - left + np.arange(layer.kernel_width)
    rows, columns = (y >= 0) & (y < layer.height), (x >= 0) & (x < layer.width)
    return np.outer(rows.mean(axis=axis), columns.mean(axis=axis))[:, :, np.newaxis]


def random_values(bits: int, rng: np.random.Generator, shape: tuple[int, ...], *, signed: bool) -> Ints:
    """Return uniform elements over their whole range; elements of one bit are -1 or +1."""
    if bits == SIGN_BITS:
        return 2 * rng.integers(0, 2, shape) - 1
    least = -(1 << (bits - 1)) if signed else 0
    return rng.integers(least, least + (1 << bits), shape)


def random_tensors(
    layer: FilterLayer, precision: Precision, rng: np.random.Generator, *, bias: bool = True, rule: Rule = Rule.BN32
) -> LayerTensors:
    """Return uniform operands over their whole range, and parameters that spread the results over their whole range.

    Weights are narrower where the sums would wrap, which only happens with inputs of 16 bits. Results of one bit have a
    threshold, whatever the rule. Kappa is positive and at most 8 bits wide, as in the PULP-NN libraries, less if
    products would exceed 32 bits. Lambda centres the results: ``(2**(bits - 1) << shift) - kappa * mean`` with the
    expected mean of the accumulator; rules without such an offset are centred by the bias.
    """
    shape, filters = _shapes(layer)
    # sums have a standard deviation of sqrt(products) / 6 of the largest product
    products = layer.area if isinstance(layer, DepthwiseLayer) else layer.reduction
    most = 6 / np.sqrt(products) * (1 << _SPREAD_BITS >> precision.x)
    half = min(1 << (precision.w - 1), max(1, int(most)))
    activations = random_values(precision.x, rng, shape, signed=precision.x_signed)
    if precision.w == SIGN_BITS:
        weights = random_values(precision.w, rng, filters, signed=True)
    else:
        weights = rng.integers(-half, half, filters) + (0 if precision.w_signed else half)
    # standard deviation of an activation times the length of a filter
    squares = (weights.reshape(layer.out_channels, -1).astype(np.float64) ** 2).sum(axis=1).mean()
    variance = 1 if precision.x == SIGN_BITS else UNIFORM_VARIANCE * (1 << precision.x) ** 2
    spread = max(1, int(np.sqrt(squares * variance)))
    if not precision.w_signed:
        # sums grow with the part of a receptive field that lies inside
        whole = weights.reshape(layer.out_channels, -1).sum(axis=1).mean() * (1 << precision.x) / 2
        spread = int(np.hypot(spread, 0 if precision.x_signed else whole * _inside_fractions(layer, 1).std()))
    offsets = rng.integers(-spread, spread, layer.out_channels, endpoint=True) if bias else None
    operands = partial(LayerTensors, activations=activations, weights=weights)
    if not precision.requantised:
        return operands(bias=offsets)
    coverage = _inside_fractions(layer, 0)
    # twice the mean of an activation
    middle = 0 if precision.x == SIGN_BITS else -1 if precision.x_signed else (1 << precision.x) - 1
    outside = 0 if isinstance(layer, MatmulLayer) else precision.padding_value(layer.outside)
    sums = (weights * (coverage * middle / 2 + (1 - coverage) * outside)).reshape(layer.out_channels, -1)
    mean = sums.sum(axis=1).astype(np.int64) + (0 if offsets is None else offsets)
    spreading = Spreading(layer.out_channels, mean, spread, precision, rng)
    if rule in (Rule.BN32, Rule.BN64) and precision.y != SIGN_BITS:
        return operands(bias=offsets, requantisation=spreading.normalising(rule))
    requantisation, target = spreading.without_offset(Rule.THRESHOLDS if precision.y == SIGN_BITS else rule)
    centred = target - mean + (0 if offsets is None else offsets)
    return operands(bias=centred if bias else None, requantisation=requantisation)


@dataclass(frozen=True, eq=False)
class Spreading:
    """Random rules that spread accumulators of given mean and standard deviation over the range of the results."""

    channels: int
    mean: Ints  # expected mean of each channel's accumulators, or of all
    spread: int  # standard deviation of the accumulators
    precision: Precision
    rng: np.random.Generator  # source of random parameters

    @property
    def _centre(self) -> int:
        return 0 if self.precision.y_signed else 1 << (self.precision.y - 1)

    def _shift(self, factor_bits: int, most: int) -> int:
        return min(most, max(0, (4 * self.spread << factor_bits).bit_length() - 1 - self.precision.y))

    def normalising(self, rule: Rule) -> rules.AnyRequantisation:
        wide = rule is Rule.BN64
        most = _WIDE_KAPPA_BITS if wide else min(_MAX_KAPPA.bit_length(), _SAFE_BITS - 2 - self.spread.bit_length())
        kappa_bits = max(1, most)
        kappa = self.rng.integers(1 << (kappa_bits - 1), 1 << kappa_bits, self.channels)
        shift = self._shift(kappa_bits, rules.MAX_WIDE_SHIFT if wide else rules.MAX_SHIFT)
        lam = (self._centre << shift) - kappa * self.mean
        return (rules.WideRequantisation if wide else rules.Requantisation)(kappa=kappa, lam=lam, shift=shift)

    def without_offset(self, rule: Rule) -> tuple[rules.AnyRequantisation, int | Ints]:
        """Return a rule that has no offsets, and the accumulator that it converts to the middle of the results."""
        match rule:
            case Rule.MULTIPLY:
                bits = max(1, min(_MAX_KAPPA.bit_length(), _SAFE_BITS - 2 - self.spread.bit_length()))
                factor, shift = int(self.rng.integers(1 << (bits - 1), 1 << bits)), self._shift(bits, rules.MAX_SHIFT)
                return rules.Multiplication(factor=factor, shift=shift), (self._centre << shift) // factor
            case Rule.EXACT | Rule.EXACT_ONE_SHIFT:
                is_one = rule is Rule.EXACT_ONE_SHIFT
                bits = self.rng.integers(_FACTOR_BITS - 1 if is_one else _FACTOR_BITS // 2, _FACTOR_BITS, self.channels)
                factors = self.rng.integers(1 << bits, 2 << bits) * self.rng.choice((-1, 1), self.channels)
                ideal = [self._shift(int(number).bit_length(), rules.MAX_EXACT_SHIFT) for number in np.abs(factors)]
                shifts, zero = np.maximum(ideal, 1), min(self._centre, (1 << 7) - 1)
                # half a step below the zero point, so that equally many round up to it and down to the code before
                middle = -(1 << (shifts - 1)) // factors
                requantisation = rules.OneShiftRequantisation if is_one else rules.ExactRequantisation
                return requantisation(factors=factors, shifts=shifts, zero=zero), middle
            case Rule.SHIFT:
                shift = self._shift(0, rules.MAX_SHIFT)
                return rules.Shifting(shift=shift), self._centre << shift
            case _:
                levels = 1 << self.precision.y
                # the outermost results take all accumulators beyond
                most = 2 * self.spread * (levels - 2) / levels
                steps = np.linspace(-most, most, levels - 1).round().astype(np.int64)
                moved = steps + self.rng.integers(-self.spread, self.spread, (self.channels, 1), endpoint=True) // 2
                requantisation = rules.SearchedThresholds if rule is Rule.QNT else rules.Thresholds
                most = _HALF_RANGE - (2 if rule is Rule.QNT else 1)
                return requantisation(values=np.clip(moved, -_HALF_RANGE, most)), 0
