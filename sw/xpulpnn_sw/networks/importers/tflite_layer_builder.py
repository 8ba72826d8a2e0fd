"""Codes (quantised values) of TFLite tensors, and the builder of layers with TFLite's rounding of factors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import erf, exp, expm1, floor, frexp, inf, log, pi, sqrt, tanh
from typing import Any

import numpy as np

from xpulpnn.errors import require
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Rule
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.map_fit import product_arrays
from xpulpnn_sw.networks.importers.quantiser import Channel, Quantiser, uniform_quantiser
from xpulpnn_sw.networks.importers.rule_fit import RuleFit, away_average, rule_error
from xpulpnn_sw.networks.importers.tflite_file import TfliteTensor
from xpulpnn_sw.networks.importers.values import CONVERT, Map, Sums
from xpulpnn_sw.networks.network import NetworkModel
from xpulpnn_sw.networks.normalisation import Range, check_sums, exact, fixed_point, mantissa, shifted_sum

LEAST, GREATEST = -128, 127  # codes of INT8
_BITS = 31  # of TFLite's multipliers
_EXACT_AREA = 1 << 12  # sums of more elements leave a factor too few bits
_PLACES = 15
_ONE = 1 << _PLACES  # in fixed point of 16 bits
_FAR = 1 << 20  # beyond all codes
_SHORT, _LARGEST_SHORT, _HALF = 1 << 8, 1 << 7, Fraction(1, 2)
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "LOGISTIC": lambda real: 1 / (1 + exp(-real)) if real >= 0 else exp(real) / (1 + exp(real)),
    "TANH": tanh,
    "ELU": lambda real: real if real >= 0 else expm1(real),
    "GELU": lambda real: real * (1 + erf(real / sqrt(2))) / 2,
    "GELU by TANH": lambda real: real * (1 + tanh(sqrt(2 / pi) * (real + 0.044715 * real**3))) / 2,
    "EXP": exp,
    "ABS": abs,
    "NEG": lambda real: -real,
    "SQUARE": lambda real: real * real,
    "SQRT": lambda real: sqrt(max(real, 0)),
    "RSQRT": lambda real: 1 / sqrt(real) if real > 0 else inf,
    "LOG": lambda real: log(real) if real > 0 else -inf,
}
TABLE_KINDS = (*_FUNCTIONS, "LEAKY_RELU", "HARD_SWISH")


def tensor_codes(tensor: TfliteTensor) -> Quantiser:
    """Return the quantiser that gives a tensor's codes, raised by 128 to be unsigned if the zero point is -128."""
    how = CONVERT if tensor.type == "FLOAT32" else ""
    require(tensor.type == "INT8", f"{tensor.name} must be INT8, not {tensor.type}{how}")
    require(len(tensor.scales) == 1, f"{tensor.name} must have one scale, not {len(tensor.scales)}")
    zero = int(tensor.zeros[0])
    ends = f"{LEAST}..{GREATEST}"
    require(LEAST <= zero <= GREATEST, f"zero point of {tensor.name} must be {ends}, not {zero}")
    less = 0 if zero != LEAST else LEAST
    scale = Fraction(float(tensor.scales[0]))
    return uniform_quantiser(scale, Fraction(zero - less), LEAST - less, GREATEST - less, "ROUND")


def short_factor(ratio: float) -> Fraction | None:
    """Return the 8-bit factor between scales in TFLite's default interpreter; None if it is out of range."""
    return Fraction(round(ratio * _SHORT), _SHORT) if 1 / _SHORT <= ratio <= _LARGEST_SHORT else None


def short_sum(ratios: Sequence[float]) -> tuple[list[int], int]:
    """Return factors of 21 bits and a shift for a scaled sum of maps, those of TFLite's default interpreter."""
    singles = [float(np.float32(ratio)) for ratio in ratios]
    shift = 21 - frexp(max(map(abs, singles)))[1]
    return [round(single * 2.0**shift) for single in singles], shift


def code_table(kind: str, source: TfliteTensor, output: TfliteTensor, options: Mapping[str, Any]) -> Ints:
    """Return an operator's results for all input codes -128..127 as TFLite computes them."""
    (scale, zero), (unit, offset) = ((float(tensor.scales[0]), int(tensor.zeros[0])) for tensor in (source, output))
    steps = [code - zero for code in range(LEAST, GREATEST + 1)]
    kind += " by TANH" if options.get("Approximate") else ""
    if kind in _FUNCTIONS:
        real = np.array([_FUNCTIONS[kind](scale * step) / unit for step in steps])
        codes = np.trunc(np.clip(real, -_FAR, _FAR) + np.copysign(0.5, real)).astype(np.int64)
    elif kind == "HARD_SWISH":
        codes = np.array([_hard_swish(step, np.float32(scale), np.float32(unit)) for step in steps])
    else:
        # single precision; infinite in damaged files
        with np.errstate(all="ignore"):
            slopes = [
                float(np.float32(scale) * np.float32(by) / np.float32(unit)) for by in (1, options.get("Alpha", 1))
            ]
        first, second = (short_factor(slope) for slope in slopes)
        if kind == "LEAKY_RELU" and first and second:
            codes = np.array([floor(step * (second if step < 0 else first) + _HALF) for step in steps])
        else:
            codes = np.array([multiplied(step, slopes[step < 0]) for step in steps])
    return np.clip(codes + offset, LEAST, GREATEST)


def multiplied(value: int, factor: float) -> int:
    """Return a product as TFLite computes it by 31 bits of the factor, with two roundings."""
    fraction, exponent = frexp(factor)
    whole = round(fraction * 2.0**_BITS)
    if whole == 1 << _BITS:
        whole, exponent = whole >> 1, exponent + 1
    product = (value << max(exponent, 0)) * whole
    return _divided(product + (1 << _BITS - 1) >> _BITS, max(-exponent, 0))


def _divided(value: int, shift: int) -> int:
    """Return a value divided by a power of two, halves rounded away from 0."""
    half = 1 << shift >> 1
    return -(-value + half >> shift) if value < 0 else value + half >> shift


def _hard_swish(step: int, scale: np.float32, unit: np.float32) -> int:
    """Return a code as TFLite computes it, in 16 bits."""
    fine = step << 7
    parts = (frexp(float(scale / 128 / np.float32(other))) for other in (unit, 3 / _ONE))
    (factor, less), (slope, more) = ((min(round(part * _ONE), _ONE - 1), exponent) for part, exponent in parts)
    ramp = np.clip(fine << max(more - 1, 0), -_ONE, _ONE - 1) * slope + (_ONE >> 1) >> _PLACES
    ramp = np.clip(ramp << 1, -_ONE, _ONE - 1) if more > 0 else _divided(ramp, -more)
    product = (ramp + _ONE >> 1) * (fine * factor + (_ONE >> 1) >> _PLACES)
    return _divided(int(product / _ONE), max(-less, 0))


@dataclass(eq=False)
class TfliteLayerBuilder(LayerBuilder):
    """Builds layers with TFLite's rounding of factors instead of quantisers' exact steps."""

    is_fast: bool = False

    @property
    def last(self) -> str:
        return self._builder.stages[-1].name if self._builder.stages else INPUT

    def finish(self) -> NetworkModel:
        """Return the network; sources and signs of precisions that a network file has by default are left out."""
        stages, before = self._builder.stages, INPUT
        for number, stage in enumerate(stages):
            if stage.sources == (before,):
                stages[number] = stage = replace(stage, sources=())
            if stage.kind.name in ("maxpool", "avgpool"):
                stages[number] = replace(stage, precision=replace(stage.precision, w_signed=True))
            before = stage.name
        return super().finish()

    def _fit(self, sums: Sums, quantiser: Quantiser) -> tuple[Sums, RuleFit]:
        if sums.kernel in ("softmax", "layernorm"):
            return super()._fit(sums, quantiser)
        zero, source, rule = zero_point_of(quantiser), sums.sources[0], Rule.BN32
        if sums.factors is not None:
            maps = [(Range(source.low, source.high), zero_point_of(source)) for source in sums.sources]
            ratios = [float(factor / quantiser.scale) for factor in sums.factors]
            factors, shift = short_sum(ratios)
            if 1 <= shift <= MAX_SHIFT:
                zeros = sum(factor * own for factor, (_, own) in zip(factors, maps, strict=True))
                summand = (zero << shift) - zeros + (1 << shift - 1)
                arrays = {"factors": factors, "summand": summand, "shift": shift}
            else:
                arrays = shifted_sum(ratios, maps, zero)
        elif sums.kernel == "multiply":
            # the factor of the default interpreter has single precision
            scales = [np.float32(source.scale) for source in sums.sources]
            factor = Fraction(float(scales[0] * scales[1] / np.float32(quantiser.scale))) * quantiser.scale
            return super()._fit(
                replace(sums, channels=(replace(sums.channels[0], a=factor),) * sums.shape[2]), quantiser
            )
        elif sums.kernel == "batchmatmul":
            factor, places = mantissa(float(sums.channels[0].a / quantiser.scale))
            shift = places - _BITS
            require(1 <= shift < _BITS - BYTE_BITS, "scale of products must be less than that of the results")
            numbers = {"factor": factor, "summand": 2 * zero + 1 << shift - 1, "shift": shift, "twice": 1}
            return sums, RuleFit(arrays=product_arrays(sums, numbers))
        elif sums.kernel == "avgpool":
            added = Range(sums.channels[0].least, sums.channels[0].most), zero_point_of(source)
            arrays = shifted_sum([float(sums.channels[0].a * sums.area / quantiser.scale)], [added], zero, sums.area)
            (arrays["factor"],) = arrays.pop("factors")
            if sums.area > _EXACT_AREA:
                fit = [arrays["factor"]], [arrays["summand"]], arrays["shift"]
                channel = Channel.of(quantiser, sums.channels[0], 0)
                inexact, error = rule_error(fit, [channel], quantiser.results, sums.area)
                if inexact:
                    self.note(f"{sums.name}: {inexact} of {len(quantiser.results)} steps are at other sums, by {error}")
            if sums.centre is not None:
                away = away_average(sums, quantiser)
                if away is None and sums.area % 2 == 0:
                    self.note(f"{sums.name}: halves of averages go up, not away from the code 0 as TFLite's")
                arrays = away or arrays
        else:
            # the bias includes the zero point of the inputs, which is also the padding
            parts = ((channel.least, channel.most, int(channel.b / channel.a)) for channel in sums.channels)
            least, most, bias = zip(*parts, strict=True)
            check_sums(least, most, bias)
            factors = [float(channel.a / quantiser.scale) for channel in sums.channels]
            arrays = {"weights": sums.weights}
            if self.is_fast:
                arrays |= fixed_point(factors, zero, [Range(*ends) for ends in zip(least, most, strict=True)], bias)
            else:
                arrays |= {"bias": np.array(bias, np.int64), **exact(factors, zero)}
                rule = Rule.EXACT
        return sums, RuleFit(arrays={name: np.asarray(values) for name, values in arrays.items()}, rule=rule)


def zero_point_of(value: Map | Quantiser) -> int:
    return int(-value.offset / value.scale)
