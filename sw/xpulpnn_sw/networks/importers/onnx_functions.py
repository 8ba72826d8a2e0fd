"""ONNX operators that onnx's reference evaluator computes for the importer.

Operators that only move elements are evaluated on the places of these elements in memory. Functions of one map are
evaluated on the numbers that its integers represent; their results are a table.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.layer_builder import LayerBuilder
from xpulpnn_sw.networks.importers.onnx_node import Inputs, OnnxNode
from xpulpnn_sw.networks.importers.values import Map, Quantised, Sums, Value, by_channel, dims, identity

Evaluate = Callable[[OnnxNode, Mapping[str, Value]], list[NDArray[Any]]]
MOVES = (
    *("Slice", "Split", "Gather", "GatherElements", "GatherND", "Tile", "Expand", "DepthToSpace", "SpaceToDepth"),
    "ReverseSequence",
)
FUNCTIONS = (
    *("HardSwish", "HardSigmoid", "Elu", "Selu", "Celu", "Gelu", "Mish", "Softplus", "Softsign", "PRelu", "Swish"),
    *("ThresholdedRelu", "Erf", "Exp", "Log", "Sqrt", "Reciprocal", "Abs", "Sign", "Floor", "Ceil", "Round", "Pow"),
    *("Max", "Min", "Sin", "Cos", "Atan", "Where", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"),
    *("And", "Or", "Not"),
)
# functions that are part of other layers where their inputs are not functions themselves
_OTHERS = ("Add", "Sub", "Mul", "Div", "Neg", "Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "Identity", "Cast")
_OF_SEVERAL = (*FUNCTIONS, "Add", "Sub", "Mul", "Div")


def moved(node: OnnxNode, given: Inputs, evaluate: Evaluate) -> list[Value]:
    """Return the values of all outputs of an operator that moves elements."""
    value, *rest = given
    if not isinstance(value, Map | Sums) or any(isinstance(other, Map | Sums) for other in rest):
        raise InputError("indices and sizes must be constants, not depend on the input")
    if isinstance(value, Map):
        value.check_unpadded()
    return [replace(value, indices=places.astype(np.int64)) for places in evaluate(node, _named(node, value, rest))]


def _named(node: OnnxNode, value: Map | Sums, rest: Inputs) -> dict[str, Value]:
    others = {name: other for name, other in zip(node.inputs[1:], rest, strict=True) if other is not None}
    return {node.inputs[0]: value.indices, **others}


def is_function(net: LayerBuilder, node: OnnxNode, given: Inputs) -> bool:
    """Return whether an operator is a function of a single map, computed for each element by itself."""
    live = [value for value in given if isinstance(value, Map | Sums)]
    is_table = any(isinstance(value, Sums) and value.levels is not None for value in live)
    if len(live) > 1:
        sources = [_source(net, value) for value in live]
        first = sources[0]
        is_same = first is not None and all(source is not None and _are_same(first, source) for source in sources)
        return is_same and node.operator in _OF_SEVERAL
    if node.operator in ("Sigmoid", "Tanh", "LeakyRelu"):
        return is_table or net.calibration is not None or isinstance(live[0], Map)
    return node.operator in FUNCTIONS or (node.operator in _OTHERS and is_table)


def _are_same(first: Map, second: Map) -> bool:
    return first.stage == second.stage and np.array_equal(first.indices, second.indices)


def _source(net: LayerBuilder, value: Map | Sums) -> Map | None:
    if isinstance(value, Map):
        return value
    return value.sources[0] if value.levels is not None and not value.pools else net.quantised_before(value)


def function_of(net: LayerBuilder, node: OnnxNode, given: Inputs, evaluate: Evaluate) -> Sums:
    """Return the table of an operator's results for each integer of its input map."""
    maps = [_map(net, value, name) for value, name in zip(given, node.inputs, strict=False)]
    source = next(value for value in maps if value is not None)
    channels = source.shape[2]
    arrays: dict[str, Value] = {}
    for name, value, own in zip(node.inputs, given, maps, strict=True):
        if isinstance(value, Sums) and value.levels is not None:
            arrays[name] = value.levels
        elif own is not None:
            codes = np.arange(own.low, own.high + 1) * float(own.scale) + float(own.offset)
            arrays[name] = codes.astype(np.float32)[np.newaxis]
        elif isinstance(value, np.ndarray | Quantised):
            arrays[name] = _column(value, source.indices, channels)
    (levels,) = evaluate(node, arrays)
    return replace(identity(source), kernel="lookup", layer=dims(source.shape), weights=None, levels=levels)


def _map(net: LayerBuilder, value: Value | None, tensor: str) -> Map | None:
    if isinstance(value, Sums) and value.levels is not None:
        return value.sources[0]
    return net.map_of(value, tensor) if isinstance(value, Map | Sums) else None


def _column(value: NDArray[Any] | Quantised, indices: NDArray[Any], channels: int) -> NDArray[Any]:
    real = value.real if isinstance(value, Quantised) else value
    if real.size == 1:
        return real.reshape(()).astype(np.float32)
    return np.array([float(number) for number in by_channel(value, indices, channels)], np.float32)[:, np.newaxis]
