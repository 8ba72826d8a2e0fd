"""Importer of ONNX models: reads the file, folds constants, and converts the nodes in their order."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.networks.importers.calibration import Calibration, Probe, Tensors
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.onnx_evaluation import evaluated, every_tensor, reason_of
from xpulpnn_sw.networks.importers.onnx_node import MAP_AXES, ModelInput, OnnxNode, window_of
from xpulpnn_sw.networks.importers.onnx_operators import OPERATORS, Reads
from xpulpnn_sw.networks.importers.registry import ImportOptions, ReadingLayer
from xpulpnn_sw.networks.importers.rule_fit import obstacle_to_raw
from xpulpnn_sw.networks.importers.values import Map, Quantised, Sums, Value, scaled, sums_of
from xpulpnn_sw.networks.network import NetworkModel

# operators at the end that do not change which result is the greatest
_LEFT_OUT = ("Softmax", "LogSoftmax", "Sigmoid", "ArgMax", "ArgMin", "TopK", "QLinearSoftmax", "QLinearSigmoid")
# operators that may follow them
_UNCHANGED = (
    *("QuantizeLinear", "DequantizeLinear", "Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
    *("Quant",),
)
# default axes of operators at the end
_AXES = {"ArgMax": 0, "TopK": -1}
# types of onnx: FLOAT, FLOAT16, DOUBLE, BFLOAT16
_FLOATING = (1, 10, 11, 16)


def probes(nodes: tuple[OnnxNode, ...], constants: Mapping[str, Any]) -> dict[str, Probe]:
    """Return for each weight tensor, except of grouped convolutions, a function that collects the filters' inputs."""
    by_weights: dict[str, Probe] = {}
    for node in nodes:
        if node.operator in ("Gemm", "MatMul"):
            by_weights[node.inputs[1]] = partial(_row_inputs, node)
        elif node.operator == "Conv" and node.number("group", 1) == 1:
            by_weights[node.inputs[1]] = partial(_window_inputs, node, constants.get(node.inputs[1]))
    return by_weights


def _row_inputs(node: OnnxNode, tensors: Tensors) -> NDArray[Any]:
    values = tensors[node.inputs[0]]
    return values.reshape(-1, values.shape[-1])


def _window_inputs(node: OnnxNode, weights: Any, tensors: Tensors) -> NDArray[Any]:
    """Return the inputs in each window of a convolution, ``[window][weight]``; empty if the convolution is 1-D."""
    values = tensors[node.inputs[0]]
    weights = tensors[node.inputs[1]] if weights is None else weights
    if values.ndim != MAP_AXES or weights.ndim != MAP_AXES:
        return np.empty((0, 0))
    _, channels, rows, columns = values.shape
    try:
        window = window_of(node, (rows, columns, channels), weights.shape[2:])
    except InputError:
        # the import reports the error
        return np.empty((0, 0))
    seen = window.views(values[0])
    return seen.transpose(1, 2, 0, 3, 4).reshape(seen.shape[1] * seen.shape[2], -1)


def import_onnx(path: Path, options: ImportOptions) -> NetworkModel:
    model = OnnxModel.read(path)
    calibration = None if options.quantise is None else model.calibration(options).with_widths(options.quantise)
    return model.network(options, calibration)


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxModel:
    proto: Any  # onnx.ModelProto
    constants: Mapping[str, NDArray[Any]]
    nodes: tuple[OnnxNode, ...]
    input: ModelInput

    @classmethod
    def read(cls, path: Path) -> "OnnxModel":
        """Read an ONNX file; raises :class:`InputError` unless it holds a model with one input and one output."""
        model = _loaded(path)
        graph = model.graph
        constants = {tensor.name: _array(tensor, path) for tensor in graph.initializer}
        inputs = [info for info in graph.input if info.name not in constants]
        if len(inputs) != 1 or len(graph.output) != 1:
            raise InputError(f"model must have one input and one output, not {len(inputs)} and {len(graph.output)}")
        nodes = tuple(_node(proto) for proto in graph.node)
        for node in nodes:
            node.check(model)
        return cls(
            proto=model,
            constants=constants,
            nodes=nodes,
            input=replace(ModelInput.of(inputs[0]), annotation=_annotation(graph, inputs[0].name)),
        )

    @property
    def readers(self) -> tuple[ReadingLayer, ...]:
        """The layers whose inputs must be quantised, in the order of the nodes."""
        live, samples = {self.input.name}, {self.input.name}
        sources: dict[str, str] = {}
        layers: list[ReadingLayer] = []
        for node in self.nodes:
            given = [name for name in node.inputs if name in live]
            if not given or node.operator == "Shape":
                continue
            live.update(node.outputs)
            if node.operator == "Pad":
                # readers of the padded map read the map before
                sources |= dict.fromkeys(node.outputs, sources.get(node.inputs[0], node.inputs[0]))
            is_first = samples.issuperset(given)
            given = tuple(sources.get(name, name) for name in given)
            reads = OPERATORS[node.operator].reads if node.operator in OPERATORS else None
            if reads is Reads.WITH_WEIGHTS and node.inputs[0] in live and not {*node.inputs[1:]} & live:
                layers.append(ReadingLayer(name=node.name, inputs=given, weights=node.inputs[1], is_first=is_first))
            elif reads is Reads.ALONE or (reads is Reads.BOTH and len(given) > 1):
                layers.append(ReadingLayer(name=node.name, inputs=given, is_first=is_first))
            elif is_first:
                samples.update(node.outputs)
        return tuple(layers)

    def calibration(self, options: ImportOptions) -> Calibration:
        options = self.input.sampled(options)
        end = _without_end(self.nodes, self.proto.graph.output[0].name, self.constants).output
        compute, probed = every_tensor(self.proto), probes(self.nodes, self.constants)
        return Calibration.on_images(compute, self.input.name, self.input.shape, options, self.readers, probed, end)

    def network(self, options: ImportOptions, calibration: Calibration | None) -> NetworkModel:
        options = self.input.sampled(options)
        builder = LayerBuilder(options.name, options.note, calibration)
        image = self.input.value(options, builder)
        values: dict[str, Value] = {**self.constants, self.input.name: image}
        shortened = _without_end(self.nodes, self.proto.graph.output[0].name, self.constants)
        output = shortened.output
        clips = _clips_of_codes(shortened.nodes)
        for node in shortened.nodes:
            if node.inputs[:1] in clips:
                # folded into the quantiser
                values[node.outputs[0]] = values[node.inputs[0]]
                continue
            clip = clips.get(node.outputs[:1])
            _compute(node if clip is None else _clipping(node, clip, values), values, builder, self.proto)
        if output not in values:
            raise InputError(f"output of the model must be that of a node, not {output}")
        result = values[output]
        if not isinstance(result, Map | Sums) or (isinstance(result, Map) and result.stage == INPUT):
            raise InputError("output of the model must depend on its input through a layer at least, not without any")
        shortened.report(result.indices.shape, options.note)
        described = _finished(result, builder, output, shortened.sign)
        if calibration is not None:
            scores = np.empty_like(calibration.results)
            scores[:, result.indices.ravel()] = calibration.results * shortened.sign
            options.scores(scores)
        return described


def _clips_of_codes(nodes: Sequence[OnnxNode]) -> dict[tuple[str, ...], OnnxNode]:
    """Return each ``Clip`` that is the only reader of a ``QuantizeLinear``, by the tensor between these nodes."""
    quantised = {node.outputs[:1] for node in nodes if node.operator == "QuantizeLinear"}
    readers = Counter(name for node in nodes for name in {*node.inputs})
    return {
        node.inputs[:1]: node
        for node in nodes
        if node.operator == "Clip" and node.inputs[:1] in quantised and readers[node.inputs[0]] == 1 and node.outputs
    }


def _clipping(node: OnnxNode, clip: OnnxNode, values: Mapping[str, Value]) -> OnnxNode:
    ends: dict[str, int] = {}
    for place, name in ((1, "min"), (2, "max")):
        constant = values.get(clip.inputs[place]) if len(clip.inputs) > place else None
        if isinstance(constant, np.ndarray) and constant.size == 1 and constant.dtype.kind in "iu":
            ends[name] = int(constant.ravel()[0])
        elif len(clip.inputs) > place and clip.inputs[place]:
            raise InputError(f"{clip}: {name} behind a quantiser must be a constant and an integer, not another value")
    return replace(node, attributes={**node.attributes, **ends})


@dataclass(frozen=True, eq=False, kw_only=True)
class _ShortenedModel:
    """A model without the nodes at its end that do not change the predicted class."""

    nodes: Sequence[OnnxNode]
    output: str
    removed: Sequence[OnnxNode]

    @property
    def sign(self) -> int:
        """-1 if the model predicts the class with the least result, else 1."""
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


def _without_end(nodes: Sequence[OnnxNode], output: str, constants: Mapping[str, Any]) -> _ShortenedModel:
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
    return _ShortenedModel(nodes=remaining, output=output, removed=removed[::-1])


def _check_rising(node: OnnxNode, producers: Mapping[str, OnnxNode], constants: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` unless a node keeps the order of scores, and thus the predicted class."""
    if node.operator in ("Quant", "QuantizeLinear", "DequantizeLinear"):
        scale = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if scale is not None and (scale.size != 1 or float(scale.ravel()[0]) <= 0):
            raise InputError(f"{node}: scale at the end of the model must be one positive number, not others")
    if node.operator == "Cast":
        before = producers.get(node.inputs[0] if node.inputs else "")
        is_number = before is not None and before.operator in ("ArgMax", "ArgMin", "TopK")
        if not is_number and node.number("to", 1) not in _FLOATING:
            raise InputError(f"{node}: scores at the end of the model must stay in floating point, not become integers")


def _finished(result: Map | Sums, net: LayerBuilder, output: str, sign: int) -> NetworkModel:
    def with_sign(value: Map | Sums) -> Map | Sums:
        return scaled(value, [Fraction(sign)] * value.shape[2], [Fraction(0)] * value.shape[2])

    try:
        if isinstance(result, Sums) and (net.calibration is None or not obstacle_to_raw(result)):
            net.add_raw_layer(sums_of(with_sign(result)))
        else:
            result = with_sign(net.map_of(result, output))
            assert isinstance(result, Map)
            net.with_positive_scale(result)
    except (InputError, LayerError) as error:
        name = result.name if isinstance(result, Sums) else ""
        raise InputError(f"end of the model behind {name or output}: {error}") from None
    return net.finish()


def _compute(node: OnnxNode, values: dict[str, Value], net: LayerBuilder, model: Any) -> None:
    for name in node.inputs:
        if name and name not in values:
            raise InputError(f"{node}: inputs must be those of nodes before it, not {name}")
    given = [values[name] if name else None for name in node.inputs]
    live = [value for value in given if isinstance(value, Map | Sums)]
    entry = OPERATORS.get(node.operator)
    if not live and not (entry is not None and entry.on_constants):
        folded = _folded(node, {name: values[name] for name in node.inputs if name}, model)
        values.update(zip(node.outputs, folded, strict=False))
        return
    if entry is None:
        raise InputError(f"operator of a node must be one of {', '.join(OPERATORS)}, not {node}")
    if not entry.on_codes and any(isinstance(value, Map) and value.codes for value in live):
        raise InputError(f"{node}: inputs must be those of DequantizeLinear, not integers with a scale")
    try:
        values[node.outputs[0]] = entry.compute(net, node, given)
    except (InputError, LayerError) as error:
        raise InputError(f"{node}: {error}") from None
    except (ValueError, IndexError) as error:
        raise InputError(f"{node}: shapes and attributes must go together, but {error}") from None


def _annotation(graph: Any, tensor: str) -> str:
    own = (annotation for annotation in graph.quantization_annotation if annotation.tensor_name == tensor)
    entries = (entry for annotation in own for entry in annotation.quant_parameter_tensor_names)
    return next((_printable(entry.value) for entry in entries if entry.key == "finn_datatype"), "")


def _loaded(path: Path) -> Any:
    # before the file, so that a missing package is reported first
    from onnx import ModelProto

    try:
        model = ModelProto.FromString(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"model must be an existing file, not {path}") from None
    except Exception as error:
        # exceptions of protobuf and onnx have no common class
        raise InputError(f"model must be an ONNX file, not {path}: {reason_of(error)}") from None
    if not model.graph.node:
        raise InputError(f"model must be an ONNX file with nodes, not {path}")
    return model


def _array(tensor: Any, path: Path) -> NDArray[Any]:
    from onnx import numpy_helper

    try:
        values = np.asarray(numpy_helper.to_array(tensor, base_dir=str(path.parent)))
    except Exception as error:
        raise InputError(f"tensor {tensor.name} must be readable, not broken: {reason_of(error)}") from None
    if values.dtype.kind == "f" and bool(np.isnan(values).any()):
        raise InputError(f"tensor {tensor.name} must have numbers only, not nan")
    return values


def _printable(name: Any) -> str:
    if not isinstance(name, str) or not name.isprintable():
        raise InputError(f"names in the model must be text in a line, not {name!r}")
    return name


def _node(proto: Any) -> OnnxNode:
    from onnx import helper

    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
    return OnnxNode(
        operator=_printable(proto.op_type),
        name=_printable(proto.name) or (_printable(proto.output[0]) if proto.output else ""),
        inputs=tuple(map(_printable, proto.input)),
        outputs=tuple(map(_printable, proto.output)),
        attributes=attributes,
        proto=proto,
    )


def _folded(node: OnnxNode, given: Mapping[str, Value], model: Any) -> list[NDArray[Any]]:
    from onnx import ValueInfoProto, helper

    arrays = {name: _plain(value) for name, value in given.items()}
    inputs, outputs = ([ValueInfoProto(name=name) for name in names if name] for names in (arrays, node.outputs))
    graph = helper.make_graph([node.proto], "constant", inputs, outputs)
    try:
        whole = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        return evaluated(whole)(arrays)
    except Exception as error:
        raise InputError(f"{node}: constants must be computable, but {reason_of(error)}") from None


def _plain(value: Value) -> NDArray[Any]:
    if isinstance(value, Quantised):
        return value.real.astype(np.float64).astype(np.float32)
    assert isinstance(value, np.ndarray)
    return value
