"""Converters of the quantisers of QONNX and QDQ models, and of operators on quantised integers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import floor, log2
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.onnx_node import INPUT_CODES, Inputs, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.quantiser import Bound, Bounds, Quantiser, sign_quantiser, uniform_quantiser
from xpulpnn_sw.networks.importers.values import Map, Quantised, Value, constant_value, exact_number, live, sums_of

_TRUNC_INPUTS = (5, 6)  # value, scale, zero point, input width, in the second version output scale, output width
_LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1)}
Axis = int | Callable[[OnnxNode], int]  # the axis of an operand's scales


def _number(value: Value | None, what: str) -> Fraction:
    real = constant_value(value.real if isinstance(value, Quantised) else value, what)
    if not real.size or not bool(np.all(real == real.ravel()[0])):
        raise InputError(f"{what} of activations must be one number, not one for each channel")
    return exact_number(real.ravel()[0])


def _mode(node: OnnxNode, usual: str) -> str:
    mode = node.text("rounding_mode", usual).upper()
    require(mode in ("ROUND", "FLOOR", "CEIL"), f"rounding_mode must be ROUND, FLOOR or CEIL, not {mode}")
    return mode


def _end(value: Value | None, quantiser: Quantiser, net: LayerBuilder) -> Value:
    if isinstance(value, Map):
        codes = [-1, 1] if value.bits == 1 else range(value.low, value.high + 1)
        if all(_result(quantiser, real) == real for real in (value.scale * q + value.offset for q in codes)):
            return value
    return net.quantised(sums_of(live(value)), quantiser)


def _result(quantiser: Quantiser, real: Fraction) -> Fraction | None:
    if quantiser.bits == 1:
        bound, _ = quantiser.bound(1, 0)
        return quantiser.scale * (1 if real >= bound else -1) + quantiser.offset
    near = (real - quantiser.offset) / quantiser.scale
    return real if near.denominator == 1 and quantiser.low <= near <= quantiser.high else None


def quant(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    value, scale, zero, width = given[:4]
    bits = _number(width, "bit width")
    mode = _mode(node, "ROUND")
    require(bits.denominator == 1 and 1 <= bits <= 32, f"bit width must be a whole number up to 32, not {float(bits)}")
    low, high = _ends(node, int(bits))
    if isinstance(value, np.ndarray):
        return _constants(value, scale, zero, (low, high), mode)
    quantiser = uniform_quantiser(_number(scale, "scale"), _number(zero, "zero point"), low, high, mode)
    return _end(value, quantiser, net)


def _constants(
    values: Any,
    scale: Value | None,
    zero: Value | None,
    limits: tuple[int, int],
    mode: str,
    *,
    rounds_first: bool = False,
) -> Quantised:
    (low, high), scale, zero = limits, constant_value(scale, "scale"), constant_value(zero, "zero point")
    if not (np.isfinite(scale) & (scale > 0)).all() or not np.isfinite(values).all():
        raise InputError("scales must be greater than 0 and weights finite, not others")
    # quotients of single-precision numbers round correctly in double precision
    quotients = values.astype(np.float64) / scale.astype(np.float64)
    rounded = {"ROUND": np.rint, "FLOOR": np.floor, "CEIL": np.ceil}[mode]
    codes = rounded(quotients) + zero if rounds_first else rounded(quotients + zero)
    whole = np.clip(codes, low, high).astype(np.int64)
    return _scaled(np.broadcast_to(whole - np.rint(zero).astype(np.int64), values.shape), scale)


def _scaled(values: Any, scale: Any) -> Quantised:
    numbers = np.vectorize(exact_number, otypes=[object])(scale)
    return Quantised(values=values, scale=np.broadcast_to(numbers, values.shape))


def bipolar(net: LayerBuilder, _: OnnxNode, given: Inputs) -> Value:
    value, scale = given[:2]
    if isinstance(value, np.ndarray):
        if not isinstance(scale, np.ndarray) or not (scale > 0).all():
            raise InputError("scales must be greater than 0, not others")
        return _scaled(np.where(value >= 0, 1, -1), scale)
    number = _number(scale, "scale")
    require(number > 0, f"scale must be greater than 0, not {float(number)}")
    return _end(value, sign_quantiser(number), net)


def multi_threshold(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``MultiThreshold`` of QONNX, which counts the thresholds of a channel up to a value."""
    value, table = live(given[0]), constant_value(given[1], "thresholds")
    require(table.ndim == 2, "thresholds must be [channel][level], not another value")
    scale, bias = (exact_number(node.real(name, usual)) for name, usual in (("out_scale", 1), ("out_bias", 0)))
    channels, count = value.shape[2], table.shape[1]
    if scale <= 0 or len(table) not in (1, channels):
        rule = f"those of 1 or {channels} channels with a positive scale"
        raise InputError(f"thresholds must be {rule}, not {len(table)}")
    rows = [[exact_number(number) for number in row] for row in table]
    if any(first > second for row in rows for first, second in pairwise(row)):
        raise InputError("thresholds must be ascending, not falling")

    def begins(result: int, channel: int) -> Bound:
        return rows[channel % len(rows)][result - 1], False

    if count == 1 and scale == -2 * bias:
        quantiser = replace(sign_quantiser(scale / 2), bound=begins, by_channel=True)
    else:
        quantiser = Quantiser.narrowest(0, count, scale, bias, begins, by_channel=True)
    return net.quantised(sums_of(value), quantiser)


def truncation(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    require(len(given) in _TRUNC_INPUTS, f"Trunc must have 5 or 6 inputs, not {len(given)}")
    value, (scale, zero, before, *more) = given[0], [_number(parameter, "parameter") for parameter in given[1:]]
    after, mode = more[-1], _mode(node, "FLOOR")
    if scale <= 0 or min(before, after) < 1 or max(before, after) > ACCUMULATOR_BITS or max(more) <= 0:
        raise InputError("scales must be greater than 0 and widths 1..32, not others")
    is_second = len(more) > 1
    lower = round(log2(more[0] / scale)) if is_second else int(before - after)
    require(lower >= 0, f"Trunc must take bits away, not add {-lower}")
    sums = sums_of(live(value))
    if is_second:
        low, high = _ends(node, int(after))
    else:
        reals = [channel.at(end) for channel in sums.channels for end in (channel.least, channel.most)]
        low, high = (floor((end / scale + zero) / (1 << lower)) for end in (min(reals), max(reals)))
        high += int(mode != "FLOOR")
    unit = 1 << lower
    quantiser = Quantiser.narrowest(low, high, scale * unit, -zero * scale, _truncated(scale, zero, unit, mode))
    output = net.quantised(sums, quantiser)
    behind = more[0] if is_second else scale
    ratio = behind / quantiser.scale
    # the second version truncates the zero point too
    zero_behind = zero / unit if is_second else zero
    offset = (output.offset - quantiser.offset) * ratio - zero_behind * behind
    return replace(output, scale=output.scale * ratio, offset=offset)


def _truncated(scale: Fraction, zero: Fraction, unit: int, mode: str) -> Bounds:
    def bound(result: int, _: int) -> Bound:
        # the least integer before truncation
        if mode == "FLOOR":
            least = result * unit
        elif mode == "CEIL":
            least = (result - 1) * unit + 1
        else:
            half = (2 * result - 1) * unit
            # ties to even
            least = half // 2 if half % 2 == 0 and result % 2 == 0 else half // 2 + 1
        return (least - Fraction(1, 2) - zero) * scale, least % 2 != 0

    return bound


def _ends(node: OnnxNode, bits: int) -> tuple[int, int]:
    signed, narrow = bool(node.number("signed", 1)), bool(node.number("narrow", 0))
    high = (1 << (bits - signed)) - 1 - (narrow and not signed)
    return (-(1 << (bits - 1)) + narrow if signed else 0), high


def quantise_onnx(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    value, scale = given[:2]
    least, most = _limits(node, given[2] if len(given) > 2 else None)
    # attributes of a Clip that was folded into it
    low, high = max(least, node.number("min", least)), min(most, node.number("max", most))
    require(low < high, f"integers must be clipped to two at least, not to {low}..{high}")
    zero = given[2] if len(given) > 2 and given[2] is not None else np.zeros(())
    if isinstance(value, np.ndarray):
        axis = node.number("axis", 1)
        spread_scale, spread_zero = _on_axis(scale, value.ndim, axis), _on_axis(zero, value.ndim, axis)
        return _constants(value, spread_scale, spread_zero, (low, high), "ROUND", rounds_first=True)
    own = _number(scale, "scale"), _number(zero, "zero point")
    output = _end(value, uniform_quantiser(*own, low, high, "ROUND", rounds_first=True), net)
    return replace(output, codes=own) if isinstance(output, Map) else output


def dequantise(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    """Convert ``DequantizeLinear`` of a quantiser's results, of the model's integer input, or of constants."""
    value, scale = given[:2]
    if isinstance(value, Map):
        zero = _number(given[2], "zero point") if len(given) > 2 and given[2] is not None else Fraction(0)
        number = _number(scale, "scale")
        if value.codes is None:
            raise InputError("input must be that of a quantiser, not what its results stand for")
        if value.stage == INPUT and value.codes == INPUT_CODES:
            require(number > 0, f"scale must be greater than 0, not {float(number)}")
            return replace(value, scale=number, offset=-zero * number, codes=None)
        require(value.codes == (number, zero), "scale and zero point must be those of the quantiser before, not others")
        return replace(value, codes=None)
    if isinstance(value, Quantised):
        return value
    # types below 8 bits are not integers of numpy
    if not isinstance(value, np.ndarray) or (value.dtype.kind not in "iu" and value.dtype.name not in _LIMITS):
        raise InputError("input must be that of a quantiser or integers, not in floating point")
    if node.number("block_size", 0):
        raise InputError("block_size must be 0, one scale for a channel, not a number of weights that share one")
    axis = node.number("axis", 1)
    zero = _on_axis(given[2], value.ndim, axis) if len(given) > 2 and given[2] is not None else np.zeros((), np.int64)
    return _scaled(value.astype(np.int64) - zero.astype(np.int64), _on_axis(scale, value.ndim, axis))


def _on_axis(value: Value | None, axes: int, axis: int) -> Any:
    numbers = constant_value(value, "scale and zero point")
    shape = [-1 if place == axis % axes else 1 for place in range(axes)]
    return numbers.reshape(() if numbers.size == 1 else shape)


def _limits(node: OnnxNode, zero: Value | None) -> tuple[int, int]:
    if isinstance(zero, np.ndarray):
        name = zero.dtype.name
    else:
        from onnx import helper

        chosen = node.number("output_dtype", 0)
        name = helper.tensor_dtype_to_np_dtype(chosen).name if chosen else "uint8"
    require(name in _LIMITS, f"quantised numbers must be one of {', '.join(_LIMITS)}, not {name}")
    return _LIMITS[name]


def _bias(values: Value | None, *scales: Value | None) -> Quantised | None:
    if values is None:
        return None
    if not isinstance(values, np.ndarray) or values.dtype.kind != "i":
        raise InputError("biases must be constants and integers, not others")
    factor: Any = np.full(1, 1, object)
    for scale in scales:
        factor = factor * np.array([exact_number(number) for number in constant_value(scale, "scale").ravel()], object)
    whole = values.astype(np.int64).ravel()
    return Quantised(values=whole, scale=np.broadcast_to(factor, whole.shape))


def on_integers(compute: OnnxOperator, axes: Sequence[Axis], *, least: int, result: int, bias: int = 0) -> OnnxOperator:
    """Make the converter of an operator on quantised integers from ``compute``, its converter on real numbers.

    Each operand has three inputs: values, scale and zero point. Input ``result`` is the scale of the results; if it is
    optional (not below ``least``) and left out, the results stay sums.
    """

    def operator(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        require(len(given) >= least, f"inputs must be {least} at least, not {len(given)}")
        require(not node.number("channels_last", 0), "channels_last must be 0, not 1")
        every: list[Value | None] = [*given, *[None] * (result + 2)]
        indices = [3 * number for number in range(len(axes))]
        operands: list[Value | None] = [
            dequantise(
                net,
                replace(node, attributes={"axis": axis if isinstance(axis, int) else axis(node)}),
                every[place : place + 3],
            )
            for place, axis in zip(indices, axes, strict=True)
        ]
        if bias:
            indices.append(bias)
            operands.append(_bias(every[bias], every[1], every[4]))
        inputs = tuple(node.inputs[place] for place in indices if place < len(node.inputs))
        output = compute(net, replace(node, inputs=inputs), operands)
        if every[result] is None and result >= least:
            return output
        return quantise_onnx(net, replace(node, attributes={}), [output, *every[result : result + 2]])

    return operator
