"""Operators of ONNX that take and give integers with their scales, of the standard and of ONNX Runtime.

Each is what the operator in floating point makes of what the integers stand for, behind a quantiser.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.importers.onnx_layers import add_maps, convolution, gemm, matrix_product
from xpulpnn_sw.importers.onnx_node import Context, Node
from xpulpnn_sw.importers.onnx_pools import average_pool, global_average_pool
from xpulpnn_sw.importers.onnx_quantisers import dequantise, quantise
from xpulpnn_sw.importers.values import Quantised, Value, exact

Given = Sequence[Value | None]


def _at(given: Given, place: int) -> Value | None:
    return given[place] if place < len(given) else None


def _real(context: Context, node: Node, given: Given, place: int, axis: int = 0) -> Value:
    """Return the value of the integers at ``place``, with the scale and the zero point behind them."""
    own = replace(node, attributes={"axis": axis})
    return dequantise(context, own, [_at(given, place + offset) for offset in range(3)])


def _codes(context: Context, node: Node, value: Value, given: Given, place: int) -> Value:
    """A result behind the quantiser whose scale is at ``place``."""
    return quantise(context, replace(node, attributes={}), [value, _at(given, place), _at(given, place + 1)])


def _bias(values: Value | None, *scales: Value | None) -> Quantised | None:
    """Biases in the scale of the sums."""
    if values is None:
        return None
    if not isinstance(values, np.ndarray) or values.dtype.kind != "i":
        raise InputError("biases must be constants and integers, not others")
    factor: Any = np.full(1, 1, object)
    for one in scales:
        if not isinstance(one, np.ndarray):
            raise InputError("scales must be constants, not depend on the input")
        factor = factor * np.array([exact(number) for number in one.ravel()], object)
    whole = values.astype(np.int64).ravel()
    return Quantised(values=whole, scale=np.broadcast_to(factor, whole.shape))


def _named(node: Node, *places: int) -> Node:
    """The node with the tensors at some places for inputs, as the operator in floating point has them."""
    return replace(node, inputs=tuple(node.inputs[place] for place in places if place < len(node.inputs)))


def _require(given: Given, least: int) -> None:
    if len(given) < least:
        raise InputError(f"inputs must be {least} at least, not {len(given)}")


def integer_convolution(context: Context, node: Node, given: Given) -> Value:
    """``QLinearConv``."""
    _require(given, 8)
    bias = _bias(_at(given, 8), given[1], given[4])
    operands = [_real(context, node, given, 0), _real(context, node, given, 3), bias]
    return _codes(context, node, convolution(context, _named(node, 0, 3, 8), operands), given, 6)


def integer_product(context: Context, node: Node, given: Given) -> Value:
    """``QLinearMatMul``."""
    _require(given, 8)
    operands = [_real(context, node, given, 0), _real(context, node, given, 3, axis=-1)]
    return _codes(context, node, matrix_product(context, _named(node, 0, 3), operands), given, 6)


def integer_gemm(context: Context, node: Node, given: Given) -> Value:
    """``QGemm``, whose results are sums where it names no scale for them."""
    _require(given, 6)
    axis = 0 if node.number("transB", 0) else 1
    bias = _bias(_at(given, 6), given[1], given[4])
    operands = [_real(context, node, given, 0), _real(context, node, given, 3, axis), bias]
    sums = gemm(context, _named(node, 0, 3, 6), operands)
    return sums if _at(given, 7) is None else _codes(context, node, sums, given, 7)


def integer_addition(context: Context, node: Node, given: Given) -> Value:
    """``QLinearAdd`` of two maps."""
    _require(given, 7)
    operands = [_real(context, node, given, place) for place in (0, 3)]
    return _codes(context, node, add_maps(context, _named(node, 0, 3), operands, 1), given, 6)


def _check_order(node: Node) -> None:
    if node.number("channels_last", 0):
        raise InputError("channels_last must be 0, not 1")


def integer_average_pool(context: Context, node: Node, given: Given) -> Value:
    """``QLinearAveragePool``."""
    _require(given, 4)
    _check_order(node)
    return _codes(context, node, average_pool(context, node, [_real(context, node, given, 0)]), given, 3)


def integer_global_average_pool(context: Context, node: Node, given: Given) -> Value:
    """``QLinearGlobalAveragePool``."""
    _require(given, 4)
    _check_order(node)
    return _codes(context, node, global_average_pool(context, node, [_real(context, node, given, 0)]), given, 3)
