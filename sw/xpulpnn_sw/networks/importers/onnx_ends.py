"""The ends of ONNX models: nodes that do not change the predicted class, and operators that no layer stands for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.onnx_node import OnnxNode

# operators at the end that do not change which result is the greatest
_LEFT_OUT = (
    *("Softmax", "LogSoftmax", "Sigmoid", "Tanh", "ArgMax", "ArgMin", "TopK", "QLinearSoftmax", "QLinearSigmoid"),
)
# operators that may follow them
_UNCHANGED = (
    *("QuantizeLinear", "DequantizeLinear", "Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
    *("Quant",),
)
ONE_BY_ONE = "a batch of {} images is computed one by one: the network is of one"
# default axes of operators at the end
_AXES = {"ArgMax": 0, "TopK": -1}
# types of onnx: FLOAT, FLOAT16, DOUBLE, BFLOAT16
_FLOATING = (1, 10, 11, 16)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShortenedModel:
    """A model without the nodes at its end that do not change the predicted class."""

    nodes: Sequence[OnnxNode]
    output: str
    removed: Sequence[OnnxNode]

    @property
    def sign(self) -> int:
        return -1 if any(_takes_least(node) for node in self.removed) else 1

    def report(self, shape: Sequence[int], note: Callable[[str], object]) -> None:
        for node in self.removed:
            if node.operator not in _LEFT_OUT:
                continue
            if _takes_least(node):
                note(f"{node} is left out: it takes the least, and results are those before it, with the other sign")
                continue
            axis, along = node.attributes.get("axis", _AXES.get(node.operator)), ""
            is_first = node.inputs[:1] == (self.output,) and isinstance(axis, int) and -len(shape) <= axis < len(shape)
            if is_first and shape[axis] != prod(shape):
                along = f" of those along axis {axis}, {shape[axis]} of {prod(shape)}"
            note(f"{node} is left out: it does not change which result is the greatest{along}")


def _takes_least(node: OnnxNode) -> bool:
    return node.operator == "ArgMin" or (node.operator == "TopK" and not node.number("largest", 1))


def without_end(nodes: Sequence[OnnxNode], output: str, constants: Mapping[str, Any]) -> ShortenedModel:
    producers = {name: node for node in nodes for name in node.outputs}
    end, behind, removed = output, list[OnnxNode](), list[OnnxNode]()
    while end in producers and producers[end].operator in (*_LEFT_OUT, *_UNCHANGED) and len(behind) < len(nodes):
        node = producers[end]
        behind.append(node)
        end = node.inputs[0] if node.inputs else ""
        if node.operator in _LEFT_OUT:
            removed, output = list(behind), end
    for node in removed:
        _check_rising(node, producers, constants)
    remaining = [node for node in nodes if not any(node is other for other in removed)]
    return ShortenedModel(nodes=remaining, output=output, removed=removed[::-1])


def _check_rising(node: OnnxNode, producers: Mapping[str, OnnxNode], constants: Mapping[str, Any]) -> None:
    if node.operator in ("Quant", "QuantizeLinear", "DequantizeLinear"):
        scale = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if scale is not None and (scale.size != 1 or float(scale.ravel()[0]) <= 0):
            raise InputError(f"{node}: scale at the end of the model must be one positive number, not others")
    if node.operator == "Cast":
        before = producers.get(node.inputs[0] if node.inputs else "")
        is_number = before is not None and before.operator in ("ArgMax", "ArgMin", "TopK")
        if not is_number and node.number("to", 1) not in _FLOATING:
            raise InputError(f"{node}: scores at the end of the model must stay in floating point, not become integers")


def needed(nodes: Sequence[OnnxNode], outputs: Sequence[str]) -> tuple[OnnxNode, ...]:
    wanted, kept = {*outputs}, list[OnnxNode]()
    for node in reversed(nodes):
        if wanted & {*node.outputs}:
            kept.append(node)
            wanted.update(node.inputs)
    return tuple(reversed(kept))


def check_known(nodes: Sequence[OnnxNode], inputs: Sequence[str], known: Callable[[OnnxNode], bool]) -> None:
    """Raise :class:`InputError`, which names all nodes that depend on the input and whose operator is not known."""
    live, unknown = {*inputs}, list[OnnxNode]()
    for node in nodes:
        if live & {*node.inputs}:
            live.update(node.outputs)
            unknown += [] if known(node) else [node]
    if unknown:
        raise InputError(f"operators of nodes must be known, not {', '.join(map(named, unknown))}")


def named(node: OnnxNode) -> str:
    """Return the operator and the name of a node that no layer stands for, and what works instead."""
    end = "works at the end of a model" if node.operator in _LEFT_OUT else INSTEAD.get(node.operator, "")
    return f"{node} ({end})" if end else str(node)


# what works instead of an operator, of ONNX or TFLite, that no layer stands for
INSTEAD = {
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), "BatchNormalization works"),
    **dict.fromkeys(("LSTM", "GRU", "UNIDIRECTIONAL_SEQUENCE_LSTM"), "convolutions along a sequence work"),
    **dict.fromkeys(("DEQUANTIZE", "LOG_SOFTMAX", "ARG_MAX"), "works at the end of a model"),
    **dict.fromkeys(("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"), "quantize_static, not _dynamic, works"),
}
