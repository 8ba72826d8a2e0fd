"""Operators of ONNX that take and give integers with their scales, of the standard and of ONNX Runtime.

Each is the operator in floating point between what the integers stand for and a quantiser.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.onnx_node import Given, ImportContext, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.onnx_quantisers import dequantise, quantise
from xpulpnn_sw.networks.importers.values import Quantised, Value, exact

Axis = int | Callable[[OnnxNode], int]  # the axis of an operand that has a scale for each place


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


def on_integers(compute: OnnxOperator, axes: Sequence[Axis], *, least: int, result: int, bias: int = 0) -> OnnxOperator:
    """The operator in floating point on operands of three inputs each: integers, their scale and their zero point.

    The scale of the results is at ``result``; without one there, if ``least`` inputs end before, they stay sums.
    """

    def operator(context: ImportContext, node: OnnxNode, given: Given) -> Value:
        if len(given) < least:
            raise InputError(f"inputs must be {least} at least, not {len(given)}")
        if node.number("channels_last", 0):
            raise InputError("channels_last must be 0, not 1")
        every: list[Value | None] = [*given, *[None] * (result + 2)]
        places = [3 * number for number in range(len(axes))]
        operands: list[Value | None] = [
            dequantise(
                context,
                replace(node, attributes={"axis": axis if isinstance(axis, int) else axis(node)}),
                every[place : place + 3],
            )
            for place, axis in zip(places, axes, strict=True)
        ]
        if bias:
            places.append(bias)
            operands.append(_bias(every[bias], every[1], every[4]))
        inputs = tuple(node.inputs[place] for place in places if place < len(node.inputs))
        found = compute(context, replace(node, inputs=inputs), operands)
        if every[result] is None and result >= least:
            return found
        return quantise(context, replace(node, attributes={}), [found, *every[result : result + 2]])

    return operator
