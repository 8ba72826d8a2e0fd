"""Samples of the inputs of filters in ONNX layers, for rounding weights so that errors compensate each other."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.onnx_node import OnnxNode
from xpulpnn_sw.networks.importers.onnx_windows import MAP_AXES, window_of
from xpulpnn_sw.networks.importers.policy import Probed, Tensors


def probes(nodes: tuple[OnnxNode, ...], constants: Mapping[str, Any]) -> dict[str, Probed]:
    """By the tensor of the weights; of convolutions of maps in one group, and of products."""
    found: dict[str, Probed] = {}
    for node in nodes:
        match node.operator:
            case "Conv" if node.number("group", 1) == 1:
                found[node.inputs[1]] = Probed(probe=partial(_patches, node, constants.get(node.inputs[1])))
            case "Gemm":
                turned = not node.number("transB", 0)
                found[node.inputs[1]] = Probed(probe=partial(_rows, node), is_turned=turned)
            case "MatMul":
                found[node.inputs[1]] = Probed(probe=partial(_rows, node), is_turned=True)
            case _:
                pass
    return found


def _rows(node: OnnxNode, tensors: Tensors) -> NDArray[Any]:
    values = tensors[node.inputs[0]]
    return values.reshape(-1, values.shape[-1])


def _patches(node: OnnxNode, weights: Any, tensors: Tensors) -> NDArray[Any]:
    """For each place of a filter what its weights meet, in their order; nothing of sequences."""
    values = tensors[node.inputs[0]]
    weights = tensors[node.inputs[1]] if weights is None else weights
    if values.ndim != MAP_AXES or weights.ndim != MAP_AXES:
        return np.empty((0, 0))
    _, channels, rows, columns = values.shape
    try:
        window = window_of(node, (rows, columns, channels), weights.shape[2:])
    except InputError:
        # the import itself says what is wrong
        return np.empty((0, 0))
    top, bottom, left, right = window.pads
    around = np.pad(values[0], ((0, 0), (top, bottom), (left, right)))
    down, across = window.strides
    seen = np.lib.stride_tricks.sliding_window_view(around, window.reach, axis=(1, 2))[:, ::down, ::across]
    seen = seen[..., :: window.dilations[0], :: window.dilations[1]]
    return seen.transpose(1, 2, 0, 3, 4).reshape(seen.shape[1] * seen.shape[2], -1)
