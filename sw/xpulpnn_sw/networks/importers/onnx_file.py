"""Importer of ONNX models: reads the file, folds constants, and converts the nodes in their order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, LayerError, require
from xpulpnn_sw.networks.importers.calibration import Calibration, Probe, Tensors
from xpulpnn_sw.networks.importers.layer_builder import INPUT, LayerBuilder
from xpulpnn_sw.networks.importers.moved_maps import arranged, concatenate, has_memory_order, unsigned
from xpulpnn_sw.networks.importers.onnx_ends import ONE_BY_ONE, ShortenedModel, check_known, needed, without_end
from xpulpnn_sw.networks.importers.onnx_evaluation import evaluated, every_tensor, reason_of
from xpulpnn_sw.networks.importers.onnx_functions import MOVES, function_of, is_function, moved
from xpulpnn_sw.networks.importers.onnx_node import MAP_AXES, STANDARD, ModelInput, OnnxNode, window_of
from xpulpnn_sw.networks.importers.onnx_operators import OPERATORS, Reads, check_attributes
from xpulpnn_sw.networks.importers.registry import ImportOptions, ReadingLayer
from xpulpnn_sw.networks.importers.rule_fit import obstacle_to_raw
from xpulpnn_sw.networks.importers.values import Map, Quantised, Sums, Value, scaled, sums_of
from xpulpnn_sw.networks.network import NetworkModel


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
    inputs: tuple[ModelInput, ...]

    @classmethod
    def read(cls, path: Path) -> "OnnxModel":
        """Read an ONNX file; raises :class:`InputError` unless it holds a model of such nodes."""
        model = _loaded(path)
        # behind _loaded, which reports a missing package
        from onnx import defs
        from onnx.external_data_helper import load_external_data_for_model

        graph = model.graph
        constants = {tensor.name: _array(tensor, path) for tensor in graph.initializer}
        load_external_data_for_model(model, str(path.parent))
        inputs = [info for info in graph.input if info.name not in constants]
        if not inputs or not graph.output:
            raise InputError(f"model must have inputs and outputs, not {len(inputs)} and {len(graph.output)}")
        versions = [opset.version for opset in model.opset_import if opset.domain in STANDARD]
        version = versions[0] if versions else defs.onnx_opset_version()
        every = [_node(proto, version) for proto in graph.node]
        for node in every:
            node.check(version)
        nodes = needed(every, [info.name for info in graph.output])
        known = [replace(ModelInput.of(info), annotation=_annotation(graph, info.name)) for info in inputs]
        for node in nodes:
            # shapes of a batch become those of one image
            shape = constants.get(node.inputs[1]) if node.operator in ("Reshape", "Expand") else None
            if shape is not None and shape.ravel()[:1].tolist() == [known[0].batch]:
                constants[node.inputs[1]] = np.concatenate([[1], shape.ravel()[1:]])
        return cls(proto=model, constants=constants, nodes=nodes, inputs=tuple(known))

    @property
    def input(self) -> ModelInput:
        return self.inputs[0]

    @property
    def outputs(self) -> list[str]:
        return [info.name for info in self.proto.graph.output]

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
            elif reads is Reads.ALONE or (reads is not None and len(given) > 1):
                layers.append(ReadingLayer(name=node.name, inputs=given, is_first=is_first))
            elif is_first:
                samples.update(node.outputs)
        return tuple(layers)

    def calibration(self, options: ImportOptions) -> Calibration:
        options = self.input.sampled(options)
        if len(self.inputs) > 1 or len(self.outputs) > 1:
            raise InputError("model to quantise must have one input and one output, not several")
        require(self.input.batch == 1, f"model to quantise must have a batch of 1, not {self.input.batch}")
        end = without_end(self.nodes, self.outputs[0], self.constants).output
        compute, probed = every_tensor(self.proto), probes(self.nodes, self.constants)
        return Calibration.on_images(compute, self.input.name, self.input.shape, options, self.readers, probed, end)

    def network(self, options: ImportOptions, calibration: Calibration | None) -> NetworkModel:
        options = self.input.sampled(options)
        if self.input.batch > 1:
            options.note(ONE_BY_ONE.format(self.input.batch))
        builder = LayerBuilder(options.name, options.note, calibration, options.allow)
        values: dict[str, Value] = {**self.constants, **self._images(options, builder)}
        shortened, outputs = self._shortened()
        check_known(shortened.nodes, [own.name for own in self.inputs], lambda node: node.operator in OPERATORS)
        clips = _clips_of_codes(shortened.nodes)
        for node in shortened.nodes:
            if node.inputs[:1] in clips:
                # folded into the quantiser
                values[node.outputs[0]] = values[node.inputs[0]]
                continue
            clip = clips.get(node.outputs[:1])
            _compute(node if clip is None else _clipping(node, clip, values), values, builder, self.proto)
        results: list[Map | Sums] = []
        for output in outputs:
            result = values.get(output)
            if isinstance(result, Map) and not has_memory_order(result):
                result = arranged(builder, result)
            if not isinstance(result, Map | Sums) or (isinstance(result, Map) and result.stage == INPUT):
                raise InputError(f"output of the model must depend on its input through a layer, not {output}")
            results.append(result)
        result = results[0] if len(results) == 1 else _joined(results, outputs, builder)
        shortened.report(result.indices.shape, options.note)
        if not np.array_equal(result.indices.ravel(), np.arange(result.indices.size)):
            options.note("results are rows, columns and channels, in this order")
        described = _finished(result, builder, outputs[0], shortened.sign)
        if calibration is not None:
            scores = np.empty_like(calibration.results)
            scores[:, result.indices.ravel()] = calibration.results * shortened.sign
            options.scores(scores)
        return described

    def _images(self, options: ImportOptions, builder: LayerBuilder) -> dict[str, Value]:
        if len(self.inputs) == 1:
            return {self.input.name: self.input.value(options, builder)}
        whole = ModelInput(name="", shape=(1, sum(prod(own.shape) for own in self.inputs)), type=self.input.type)
        row, begin, parts = whole.value(options, builder), 0, dict[str, Value]()
        if not isinstance(row, Map) or {own.type for own in self.inputs} != {self.input.type}:
            raise InputError("several inputs must have elements of one type, and samples of one range")
        for own in self.inputs:
            places = np.arange(prod(own.shape)) + begin
            parts[own.name] = arranged(builder, replace(row, indices=places.reshape(own.shape)))
            begin += len(places)
        options.note(f"samples are those of {', '.join(own.name for own in self.inputs)} one after the other")
        return parts

    def _shortened(self) -> tuple[ShortenedModel, list[str]]:
        outputs: list[str] = []
        shortened = ShortenedModel(nodes=self.nodes, output="", removed=())
        for output in self.outputs:
            own = without_end(shortened.nodes, output, self.constants)
            removed = (*shortened.removed, *own.removed)
            shortened = ShortenedModel(nodes=own.nodes, output=own.output, removed=removed)
            outputs.append(own.output)
        return shortened, outputs


def _joined(results: Sequence[Map | Sums], outputs: Sequence[str], net: LayerBuilder) -> Map:
    rows = [unsigned(net, net.map_of(result, name)) for result, name in zip(results, outputs, strict=True)]
    rows = [arranged(net, replace(row, indices=row.indices.reshape(1, -1))) for row in rows]
    parts = [f"{row.indices.size} of {name}" for row, name in zip(rows, outputs, strict=True)]
    net.note(f"results are {', '.join(parts)}, as integers of their own scales")
    joined = concatenate(net, rows, "outputs")
    return replace(joined, scale=Fraction(1), offset=Fraction(0), indices=np.arange(joined.shape[2])[np.newaxis])


def _clips_of_codes(nodes: Sequence[OnnxNode]) -> dict[tuple[str, ...], OnnxNode]:
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


def _finished(result: Map | Sums, net: LayerBuilder, output: str, sign: int) -> NetworkModel:
    def with_sign(value: Map | Sums) -> Map | Sums:
        return scaled(value, [Fraction(sign)] * value.shape[2], [Fraction(0)] * value.shape[2])

    try:
        can_be_quantised = net.calibration is not None or (isinstance(result, Sums) and result.ends is not None)
        if isinstance(result, Sums) and not (can_be_quantised and obstacle_to_raw(result)):
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
        require(not name or name in values, f"{node}: inputs must be those of nodes before it, not {name}")
    given = [values[name] if name else None for name in node.inputs]
    live = [value for value in given if isinstance(value, Map | Sums)]
    entry = OPERATORS.get(node.operator)
    evaluate = partial(_folded, model=model)
    if not live and not (entry is not None and entry.on_constants):
        folded = _folded(node, {name: values[name] for name in node.inputs if name}, model)
        values.update(zip(node.outputs, folded, strict=False))
        return
    assert entry is not None
    if not entry.on_codes and any(isinstance(value, Map) and value.codes for value in live):
        raise InputError(f"{node}: inputs must be those of DequantizeLinear, not integers with a scale")
    try:
        check_attributes(node)
        if node.operator in MOVES:
            values.update(zip(node.outputs, moved(node, given, evaluate), strict=False))
            return
        if is_function(net, node, given):
            values[node.outputs[0]] = function_of(net, node, given, evaluate)
            return
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
    require(model.graph.node, f"model must be an ONNX file with nodes, not {path}")
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


def _node(proto: Any, version: int) -> OnnxNode:
    from onnx import helper

    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
    return OnnxNode(
        operator=_printable(proto.op_type),
        name=_printable(proto.name) or (_printable(proto.output[0]) if proto.output else ""),
        inputs=tuple(map(_printable, proto.input)),
        outputs=tuple(map(_printable, proto.output)),
        attributes={"opset": version, **attributes},
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
