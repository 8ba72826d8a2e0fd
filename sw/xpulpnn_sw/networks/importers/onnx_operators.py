"""Converters of the operators of ONNX, QONNX and QDQ models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction
from functools import partial
from math import atanh, isqrt, log
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn_sw.networks.importers import onnx_maps
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.onnx_functions import FUNCTIONS, MOVES
from xpulpnn_sw.networks.importers.onnx_layers import gemm, onnx_convolution
from xpulpnn_sw.networks.importers.onnx_node import INPUT_CODES, STANDARD, Inputs, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.onnx_pooling import average_pool, extreme, maximum_pool, mean, total
from xpulpnn_sw.networks.importers.onnx_quantisers import (
    bipolar,
    dequantise,
    multi_threshold,
    on_integers,
    quant,
    quantise_onnx,
    truncation,
)
from xpulpnn_sw.networks.importers.values import (
    Curve,
    Map,
    Quantised,
    Sums,
    Value,
    by_channel,
    clamped,
    constant_value,
    dims,
    exact_number,
    identity,
    live,
    sums_of,
    whole_constants,
)

_FAR = Fraction(1 << 64)  # beyond all sums
_ROOT_BITS = 400  # of square roots, far more than numbers that are compared with them
_GLOBAL_AVERAGE = partial(average_pool, is_global=True)
# operators that only quantised models have
QUANTISERS = ("Quant", "BipolarQuant", "MultiThreshold", "Trunc", "QuantizeLinear", "DequantizeLinear")


def _inverse(least: float, function: Callable[[float], float]) -> Curve:
    def curve(result: Fraction) -> Fraction:
        if not least < float(result) < 1:
            return -_FAR if result <= least else _FAR
        return Fraction(function(float(result)))

    return curve


def _curved(curve: Callable[[OnnxNode], Curve]) -> OnnxOperator:
    def operator(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        # thresholds have few bits, so that models in floating point are quantised before the function too
        sums = sums_of(live(given[0]) if net.calibration is None else net.map_of(given[0], node.inputs[0]))
        require(sums.curve is None, "input must not be a function of another, without a quantiser between")
        return replace(sums, curve=curve(node))

    return operator


def _slope(node: OnnxNode) -> Curve:
    alpha = Fraction(node.real("alpha", 0.01))
    require(alpha > 0, f"alpha must be greater than 0, not {float(alpha)}")
    return lambda result: result if result >= 0 else result / alpha


CURVES: Mapping[str, OnnxOperator] = {
    "LeakyRelu": _curved(_slope),
    "Sigmoid": _curved(lambda _: _inverse(0, lambda result: log(result / (1 - result)))),
    "Tanh": _curved(lambda _: _inverse(-1, atanh)),
}


def _constant_of(node: OnnxNode, given: Inputs, what: str = "summand") -> tuple[Map | Sums, list[Fraction], str, bool]:
    first, second = given[:2]
    is_second = isinstance(first, Map | Sums)
    value, own = (first, second) if is_second else (second, first)
    value = live(value)
    if not isinstance(own, np.ndarray | Quantised):
        raise InputError(f"{what} must be a constant, not depend on the input")
    return value, by_channel(own, value.indices, value.shape[2]), node.inputs[not is_second], is_second


def _sum(sign: int) -> OnnxOperator:
    def operator(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        given = onnx_maps.with_constant_maps(net, given)
        if all(isinstance(value, Map | Sums) for value in given):
            return onnx_maps.add_maps(net, node, given, sign)
        value, numbers, tensor, is_second = _constant_of(node, given)
        if is_second:
            return net.scaled(value, tensor, [Fraction(1)] * len(numbers), [sign * number for number in numbers])
        return net.scaled(value, tensor, [Fraction(sign)] * len(numbers), numbers)

    return operator


def _multiply(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    given = onnx_maps.with_constant_maps(net, given)
    if all(isinstance(value, Map | Sums) for value in given):
        return onnx_maps.multiply_maps(net, node, given)
    value, numbers, tensor, _ = _constant_of(node, given, "one factor")
    return net.scaled(value, tensor, numbers)


def _divide(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    value, numbers, tensor, is_second = _constant_of(node, given, "divisor")
    require(is_second, "divisor must be a constant, not depend on the input")
    require(all(numbers), "divisor must be other than 0, not 0")
    return net.scaled(value, tensor, [1 / number for number in numbers])


def _negate(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    value = live(given[0])
    return net.scaled(value, node.inputs[0], [Fraction(-1)] * value.shape[2])


def _batch_normalisation(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    value = live(given[0])
    channels = value.shape[2]
    shape = (1, -1, *[1] * (value.indices.ndim - 2))
    require(not node.number("training_mode", 0), "training_mode must be 0, not 1")
    parameters = [
        parameter.real if isinstance(parameter, Quantised) else constant_value(parameter, "parameter")
        for parameter in given[1:5]
    ]
    arrays = [parameter.reshape(shape) for parameter in parameters]
    scale, bias, mean, variance = (by_channel(array, value.indices, channels) for array in arrays)
    epsilon = exact_number(node.real("epsilon", 1e-5))
    squares = [number + epsilon for number in variance]
    require(min(squares) > 0, "variances must be greater than 0, not less")
    roots = [
        Fraction(isqrt((square.numerator << 2 * _ROOT_BITS) // square.denominator), 1 << _ROOT_BITS)
        for square in squares
    ]
    factors = [number / root for number, root in zip(scale, roots, strict=True)]
    summands = [offset - factor * average for factor, average, offset in zip(factors, mean, bias, strict=True)]
    return net.scaled(value, node.inputs[0], factors, summands)


def _concatenation_of_integers(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    parts = [dequantise(net, node, given[place : place + 3]) for place in range(2, len(given), 3)]
    joined = onnx_maps.concatenation(net, replace(node, inputs=node.inputs[2::3]), parts)
    return quantise_onnx(net, replace(node, attributes={}), [joined, *given[:2]])


def _clipped(net: LayerBuilder, node: OnnxNode, given: Inputs, low: Fraction | None, high: Fraction | None) -> Value:
    value = net.foldable(live(given[0]), node.inputs[0], is_monotonic=True)
    if isinstance(value, Sums):
        return clamped(value, low, high)
    ends = [value.scale * end + value.offset for end in (value.low, value.high)]
    if (low is None or min(ends) >= low) and (high is None or max(ends) <= high):
        return value
    if value.signed and low == 0 and high is None and not value.offset and value.scale > 0:
        stage = net.channelwise("relu", dims(value.shape), value)
        return replace(value, stage=stage, low=0)
    return clamped(identity(value), low, high)


def _clip(net: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:

    def end(place: int, name: str) -> Fraction | None:
        value = given[place] if len(given) > place else None
        if value is None:
            return exact_number(node.real(name, 0)) if name in node.attributes else None
        return exact_number(constant_value(value, name).reshape(-1)[0])

    return _clipped(net, node, given, end(1, "min"), end(2, "max"))


def _cast(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    from onnx import TensorProto

    value, target = live(given[0]), node.number("to", TensorProto.FLOAT)
    if target not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16):
        raise InputError("numbers that depend on the input must be cast to floating point, not to integers")
    if isinstance(value, Map) and value.codes:
        if value.stage != INPUT or value.codes != INPUT_CODES:
            raise InputError("input must be that of DequantizeLinear or of the model, not integers with a scale")
        return replace(value, codes=None)
    return value


def _placed(value: Value | None, change: Callable[[Any], Any]) -> Value:
    if isinstance(value, Map):
        value.check_unpadded()
    if isinstance(value, Map | Sums):
        return replace(value, indices=change(value.indices))
    if isinstance(value, Quantised):
        return Quantised(values=change(value.values), scale=change(value.scale))
    return change(value)


def _shape(value: Value | None) -> tuple[int, ...]:
    if isinstance(value, Map | Sums):
        return value.indices.shape
    if value is None:
        raise InputError("first input must be there, not left out")
    return value.values.shape if isinstance(value, Quantised) else value.shape


def _sizes(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    shape = live(given[0]).indices.shape
    return np.array(shape[node.number("start", 0) : node.number("end", len(shape))], np.int64)


def _reshape(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    requested = whole_constants(given[1]) if len(given) > 1 else node.numbers("shape", [])
    value = given[0]
    shape = _shape(value)
    if not node.number("allowzero", 0):
        requested = [shape[axis] if size == 0 else size for axis, size in enumerate(requested)]
    return _placed(value, lambda array: array.reshape(requested))


def _flatten(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    value, axis = live(given[0]), node.number("axis", 1)
    rows = int(np.prod(value.indices.shape[:axis]))
    return _placed(value, lambda array: array.reshape(rows, -1))


def _transpose(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
    axes = node.numbers("perm", ()) or None
    return _placed(given[0], lambda array: array.transpose(axes))


def _of_axes(change: Callable[[Any, tuple[int, ...] | None], Any]) -> OnnxOperator:
    def operator(_: LayerBuilder, node: OnnxNode, given: Inputs) -> Value:
        axes = whole_constants(given[1]) if len(given) > 1 else node.numbers("axes", [])
        return _placed(live(given[0]), lambda array: change(array, tuple(axes) or None))

    return operator


def _evaluated(_: LayerBuilder, node: OnnxNode, __: Inputs) -> Value:
    raise InputError(f"{node.operator} must be of one map and constants, not of others")


class Reads(Enum):
    """The inputs of an operator that must be quantised."""

    WITH_WEIGHTS = auto()  # the first, and constant weights
    ALONE = auto()  # the first
    BOTH = auto()  # all, if none is a constant


@dataclass(frozen=True, slots=True)
class KnownOperator:
    compute: OnnxOperator
    on_codes: bool = False  # whether it accepts integers that are not dequantised
    on_constants: bool = False  # whether it converts constants itself, keeping them quantised
    reads: Reads | None = None


_OF_WINDOWS = "auto_pad dilations kernel_shape pads strides"
_OF_REDUCTIONS = "axes keepdims noop_with_empty_axes"
_ATTRIBUTES = {
    "AveragePool": f"{_OF_WINDOWS} ceil_mode count_include_pad",
    "BatchNormalization": "epsilon momentum training_mode",
    "Cast": "to saturate",
    "Clip": "min max",
    **dict.fromkeys(("Concat", "Flatten", "Softmax"), "axis"),
    **dict.fromkeys(("Conv", "QLinearConv"), f"{_OF_WINDOWS} group"),
    "ConvTranspose": f"{_OF_WINDOWS} group output_padding output_shape",
    "DequantizeLinear": "axis block_size output_dtype",
    "Dropout": "ratio seed",
    "Gemm": "alpha beta transA transB",
    "LayerNormalization": "axis epsilon stash_type",
    "LeakyRelu": "alpha",
    "MaxPool": f"{_OF_WINDOWS} ceil_mode storage_order",
    "Pad": "mode pads paddings value",
    "QuantizeLinear": "axis block_size output_dtype saturate precision",
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), _OF_REDUCTIONS),
    "Reshape": "allowzero shape",
    "Resize": "coordinate_transformation_mode cubic_coeff_a extrapolation_value mode nearest_mode",
    "Shape": "start end",
    **dict.fromkeys(("Squeeze", "Unsqueeze"), "axes"),
    "Transpose": "perm",
    "Upsample": "mode scales",
}
"""Attributes that the converters of operators of ONNX itself know, and those that do not matter."""


def check_attributes(node: OnnxNode) -> None:
    """Raise :class:`InputError` for an attribute that would be ignored and is not what it is by default."""
    from onnx import defs, helper

    if node.operator in (*MOVES, *FUNCTIONS) or node.proto.domain not in STANDARD or not defs.has(node.operator):
        return
    known = defs.get_schema(node.operator).attributes
    for attribute in node.proto.attribute:
        usual = known[attribute.name].default_value if attribute.name in known else None
        default = helper.get_attribute_value(usual) if usual is not None and usual.type else None
        value = helper.get_attribute_value(attribute)
        if attribute.name not in _ATTRIBUTES.get(node.operator, "").split() and value != default:
            raise InputError(f"{attribute.name} must be left out, not {value}")


def _outputs(node: OnnxNode) -> int:
    return 0 if node.number("transB", 0) else 1


OPERATORS: Mapping[str, KnownOperator] = {
    "Quant": KnownOperator(quant, on_constants=True),
    "BipolarQuant": KnownOperator(bipolar, on_constants=True),
    "MultiThreshold": KnownOperator(multi_threshold),
    "Trunc": KnownOperator(truncation),
    "QuantizeLinear": KnownOperator(quantise_onnx, on_constants=True),
    "DequantizeLinear": KnownOperator(dequantise, on_codes=True, on_constants=True),
    "QLinearConv": KnownOperator(on_integers(onnx_convolution, (0, 0), least=8, result=6, bias=8), on_codes=True),
    "QLinearMatMul": KnownOperator(on_integers(onnx_maps.matrix_products, (0, -1), least=8, result=6), on_codes=True),
    "QGemm": KnownOperator(on_integers(gemm, (0, _outputs), least=6, result=7, bias=6), on_codes=True),
    "QLinearAdd": KnownOperator(on_integers(_sum(1), (0, 0), least=7, result=6), on_codes=True),
    "QLinearMul": KnownOperator(on_integers(_multiply, (0, 0), least=7, result=6), on_codes=True),
    "QLinearConcat": KnownOperator(_concatenation_of_integers, on_codes=True),
    "QLinearAveragePool": KnownOperator(on_integers(average_pool, (0,), least=4, result=3), on_codes=True),
    "QLinearGlobalAveragePool": KnownOperator(on_integers(_GLOBAL_AVERAGE, (0,), least=4, result=3), on_codes=True),
    **{
        f"QLinear{name}": KnownOperator(on_integers(compute, (0,), least=4, result=3), on_codes=True)
        for name, compute in CURVES.items()
    },
    **{name: KnownOperator(compute, reads=Reads.ALONE) for name, compute in CURVES.items()},
    "Concat": KnownOperator(onnx_maps.concatenation, reads=Reads.BOTH),
    "Softmax": KnownOperator(onnx_maps.softmax, reads=Reads.ALONE),
    "LayerNormalization": KnownOperator(onnx_maps.layer_normalisation, reads=Reads.ALONE),
    "QLinearSoftmax": KnownOperator(on_integers(onnx_maps.softmax, (0,), least=5, result=3), on_codes=True),
    "Conv": KnownOperator(onnx_convolution, reads=Reads.WITH_WEIGHTS),
    "Gemm": KnownOperator(gemm, reads=Reads.WITH_WEIGHTS),
    "MatMul": KnownOperator(onnx_maps.matrix_products, reads=Reads.WITH_WEIGHTS),
    "Add": KnownOperator(_sum(1), reads=Reads.BOTH),
    "Sub": KnownOperator(_sum(-1), reads=Reads.BOTH),
    "Mul": KnownOperator(_multiply, reads=Reads.BOTH),
    "Div": KnownOperator(_divide),
    "Neg": KnownOperator(_negate),
    "BatchNormalization": KnownOperator(_batch_normalisation),
    "Relu": KnownOperator(partial(_clipped, low=Fraction(0), high=None)),
    "Clip": KnownOperator(_clip),
    "MaxPool": KnownOperator(maximum_pool, on_codes=True),
    "AveragePool": KnownOperator(average_pool, reads=Reads.ALONE),
    "GlobalAveragePool": KnownOperator(_GLOBAL_AVERAGE, reads=Reads.ALONE),
    "ReduceMean": KnownOperator(mean, reads=Reads.ALONE),
    "Reshape": KnownOperator(_reshape, on_codes=True, on_constants=True),
    "Flatten": KnownOperator(_flatten, on_codes=True),
    "Transpose": KnownOperator(_transpose, on_codes=True, on_constants=True),
    "Squeeze": KnownOperator(_of_axes(np.squeeze), on_codes=True),
    "Unsqueeze": KnownOperator(_of_axes(lambda array, axes: np.expand_dims(array, axes or ())), on_codes=True),
    "Shape": KnownOperator(_sizes, on_codes=True),
    **dict.fromkeys(("Identity", "Dropout"), KnownOperator(lambda _, __, given: live(given[0]), on_codes=True)),
    "Cast": KnownOperator(_cast, on_codes=True),
    "Pad": KnownOperator(onnx_maps.padded, on_codes=True),
    **dict.fromkeys(("Resize", "Upsample"), KnownOperator(onnx_maps.resized, on_codes=True, reads=Reads.ALONE)),
    "ConvTranspose": KnownOperator(onnx_maps.transposed_convolution, reads=Reads.WITH_WEIGHTS),
    "Max": KnownOperator(partial(onnx_maps.extreme_of, sign=1), reads=Reads.BOTH),
    "Min": KnownOperator(partial(onnx_maps.extreme_of, sign=-1), reads=Reads.BOTH),
    "ReduceSum": KnownOperator(total, reads=Reads.ALONE),
    **dict.fromkeys(("ReduceMax", "GlobalMaxPool"), KnownOperator(partial(extreme, sign=1), reads=Reads.ALONE)),
    "ReduceMin": KnownOperator(partial(extreme, sign=-1), reads=Reads.ALONE),
    **{name: KnownOperator(_evaluated, on_codes=True) for name in MOVES},
    **{name: KnownOperator(_evaluated, reads=Reads.ALONE) for name in FUNCTIONS if name not in ("Max", "Min")},
}
