"""Importer of 8-bit TFLite models.

A value ``scale * (q - zero)`` is stored as its signed code ``q``, or as ``q + 128`` without a sign if the zero point is
-128. Operators are converted like the corresponding ones of ONNX. Zero points of inputs become padding and parts of
biases; scales become a factor for each channel, with TFLite's 31 bits unless the fast rule is requested.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.layer_builder import INPUT
from xpulpnn_sw.networks.importers.onnx_layers import add_maps, average_pool, gemm, maximum_pool, onnx_convolution
from xpulpnn_sw.networks.importers.onnx_node import Inputs, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.quantiser import Quantiser
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.importers.tflite_file import (
    END_KINDS,
    TfliteModel,
    TfliteOperator,
    TfliteTensor,
    layer_operators,
    read_graph,
)
from xpulpnn_sw.networks.importers.tflite_layer_builder import (
    GREATEST,
    LEAST,
    TABLE_KINDS,
    TfliteLayerBuilder,
    code_table,
    require,
    short_factor,
    tensor_codes,
    zero_point_of,
)
from xpulpnn_sw.networks.importers.values import Map, Quantised, Sums, dims, identity, plain_shape, reshaped
from xpulpnn_sw.networks.network import NetworkModel, Scaling, by_colour

_SAMPLE_SHIFT = 16
_MAP_AXES = 3  # rows, columns and channels, without batch
# ranges of activations, in the order of TFLite's enumeration
_ENDS: Mapping[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0, None),
    "RELU_N1_TO_1": (-1, 1),
    "RELU6": (0, 6),
}
_PADDINGS = {0: "SAME_UPPER", 1: "VALID"}  # ONNX modes by TFLite's enumeration


def import_tflite(path: Path, options: ImportOptions) -> NetworkModel:
    """Import an 8-bit TFLite file.

    Image samples are codes of the input, or codes plus 128 if these are signed, unless the options give their range.
    Sums are requantised by the exact rule, which is TFLite's with a single rounding, or in 32 bits with
    ``options.is_fast``.
    """
    model = read_graph(path)
    if options.quantise is not None:
        raise InputError("bits must be left out with TFLite, whose models are quantised")
    for what, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        require(len(tensors) == 1, f"{what} of the model must be 1, not {len(tensors)}")
    return _Import(model, options).network()


class _Node(OnnxNode):
    def __str__(self) -> str:
        return self.operator


class _Import:
    def __init__(self, model: TfliteModel, options: ImportOptions) -> None:
        self._model, self._options, self._note = model, options, options.note
        self._builder = TfliteLayerBuilder(options.name, options.note, is_fast=options.is_fast)
        self._values: dict[int, Map] = {}
        self._operators: Mapping[str, Callable[[TfliteOperator], Map]] = {
            "ADD": partial(self._layer, partial(add_maps, sign=1), 2),
            "SUB": partial(self._layer, partial(add_maps, sign=-1), 2),
            "AVERAGE_POOL_2D": self._average_pool,
            **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), self._conv),
            "CONCATENATION": self._concatenation,
            "FULLY_CONNECTED": self._fully_connected,
            "MAX_POOL_2D": self._max_pool,
            "MEAN": self._mean,
            "PAD": self._pad,
            **dict.fromkeys(("QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1"), self._requantise),
            **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), self._reshape),
            **dict.fromkeys(TABLE_KINDS, self._table),
        }

    def network(self) -> NetworkModel:
        operators, first, last = layer_operators(self._model, self._note)
        try:
            tensor = self._model.tensors[first]
            quantiser, shape = tensor_codes(tensor), tensor.shape[1:]
            start = reshaped(Map.of(quantiser, INPUT, (1, 1, prod(shape)), np.arange(0)), shape)
        except (InputError, ValueError) as error:
            raise InputError(f"input of the model: {error}") from None
        self._values[first] = start
        for operator in operators:
            try:
                self._convert(operator)
            except (InputError, LayerError, ValueError, IndexError, ArithmeticError) as error:
                raise InputError(f"{operator}: {error}") from None
        result = self._values.get(last)
        if result is None or result.stage != self._builder.last:
            raise InputError("output of the model must be the result of its last operator, not of another")
        result.check_unpadded()
        self._builder.scaling = self._scaling(start, self._model.tensors[first].shape[-1])
        return self._builder.finish()

    def _convert(self, operator: TfliteOperator) -> None:
        require(operator.kind not in END_KINDS or operator.kind in self._operators, "operator must be the last one")
        known = f"{', '.join(self._operators)} or, at the end, {', '.join(END_KINDS)}"
        require(operator.kind in self._operators, f"operators must be {known}, not {operator.kind}")
        require(len(operator.outputs) == 1, f"outputs must be 1, not {len(operator.outputs)}")
        self._values[operator.outputs[0]] = self._operators[operator.kind](operator)

    def _scaling(self, start: Map, colours: int) -> Scaling:
        spread = self._options.by_colour(colours)
        if self._options.samples is None and not spread:
            return Scaling(add=LEAST) if start.signed else Scaling()
        (low, high), zero, fixed_one = self._options.ends, zero_point_of(start) + Fraction(1, 2), 1 << _SAMPLE_SHIFT
        units = [(mean, start.scale * deviation) for mean, deviation in spread or [(Fraction(0), Fraction(1))]]
        multiply = by_colour([round((high - low) / 255 / unit * fixed_one) for _, unit in units])
        add = by_colour([round(((low - mean) / unit + zero) * fixed_one) for mean, unit in units])
        return Scaling(multiply=multiply, add=add, shift=_SAMPLE_SHIFT)

    def _tensor(self, operator: TfliteOperator, place: int) -> TfliteTensor:
        require(place < len(operator.inputs), f"inputs must be {place + 1} at least")
        return self._model.tensors[operator.inputs[place]]

    def _value(self, operator: TfliteOperator, place: int, *, padded: bool = False) -> Map:
        """Return the map at input ``place`` of an operator; a layer adds pending padding unless ``padded``."""
        tensor = self._tensor(operator, place)
        value = self._values.get(operator.inputs[place])
        if value is None:
            raise InputError(f"input must be a result of an operator before, not {tensor.name}")
        if not padded:
            value = self._values[operator.inputs[place]] = self._builder.with_padding(value)
        return value

    def _constant(self, operator: TfliteOperator, place: int, type_: str) -> Ints:
        tensor = self._tensor(operator, place)
        require(tensor.type == type_, f"{tensor.name} must be {type_}, not {tensor.type}")
        if tensor.data is None:
            raise InputError(f"{tensor.name} must be in the file, not computed")
        return tensor.data.astype(np.int64)

    def _quantiser(self, operator: TfliteOperator) -> Quantiser:
        """Return the quantiser of an operator's output; codes that an activation leaves are numbered from 0."""
        quantiser, name = tensor_codes(self._model.tensors[operator.outputs[0]]), "NONE"
        if operator.kind in _ENDS:
            name = operator.kind
        elif "FusedActivationFunction" in operator.options:
            name = dict(enumerate(_ENDS)).get(operator.options["FusedActivationFunction"], "another")
        require(name in _ENDS, f"fused activation must be one of {', '.join(_ENDS)}, not {name}")
        zero, scale, limits = zero_point_of(quantiser), float(quantiser.scale), (quantiser.low, quantiser.high)
        pairs = zip(limits, _ENDS[name], strict=True)
        least, most = (limit if end is None else zero + round(end / scale) for limit, end in pairs)
        low, high = max(limits[0], least), min(limits[1], most)
        require(low < high, f"activation must leave some of the results' codes, not those from {low} to {high}")
        return quantiser if (low, high) == limits else quantiser.clipped(low, high)

    def _quantised(self, operator: TfliteOperator, sums: Any) -> Map:
        assert isinstance(sums, Sums)
        if sums.weights is not None:
            sums = replace(sums, weight_bits=BYTE_BITS)
        sums = replace(sums, name=f"{sums.kernel}{operator.index}")
        output = self._builder.quantised(sums, self._quantiser(operator))
        # the range of elements may exceed that of the model
        return self._output_of(operator, replace(output, low=0) if not output.signed else output)

    def _output_of(self, operator: TfliteOperator, value: Map) -> Map:
        shape, own = self._model.tensors[operator.outputs[0]].shape[1:], value.shape
        require(plain_shape(shape) == plain_shape(own), f"output must be {dims(own)}, not {dims(shape)}")
        return reshaped(value, shape)

    def _first_code(self, operator: TfliteOperator, value: Map) -> int:
        """Return the number in memory that stands for the code 0 of an operator's first input."""
        return zero_point_of(value) - int(self._tensor(operator, 0).zeros[0])

    def _check_same_codes(self, operator: TfliteOperator, place: int = 0) -> None:
        source, other = self._tensor(operator, place), self._model.tensors[operator.outputs[0]]
        same = [(*tensor.scales.tolist(), *tensor.zeros.tolist()) for tensor in (source, other)]
        require(same[0] == same[1], "scale and zero point of the results must be those of the input")

    def _apply(self, operator: TfliteOperator, compute: OnnxOperator, given: Inputs, **attributes: Any) -> Any:
        options = operator.options
        if "Padding" in options:
            require(options["Padding"] in _PADDINGS, f"padding must be SAME or VALID, not {options['Padding']}")
            attributes["auto_pad"] = _PADDINGS[options["Padding"]]
            attributes["strides"] = [options["StrideH"], options["StrideW"]]
        if "DilationHFactor" in options:
            attributes["dilations"] = [options["DilationHFactor"], options["DilationWFactor"]]
        if "FilterHeight" in options:
            attributes["kernel_shape"] = [options["FilterHeight"], options["FilterWidth"]]
        names = {"operator": str(operator), "name": f"maxpool{operator.index}"}
        node = _Node(**names, inputs=tuple(map(str, operator.inputs)), outputs=("",), attributes=attributes)
        return compute(self._builder, node, given)

    def _weights(self, operator: TfliteOperator, axis: int, axes: tuple[int, ...]) -> Quantised:
        """Return weights with their axes in the order ``axes``; output channels are on ``axis`` in the file."""
        values, tensor = self._constant(operator, 1, "INT8"), self._tensor(operator, 1)
        require(values.ndim == len(axes), f"weights must have {len(axes)} axes, not {values.ndim}")
        channels, count = values.shape[axis], len(tensor.scales)
        other = next((int(zero) for zero in tensor.zeros if zero), 0)
        require(not other, f"zero points of {tensor.name} must be 0, not {other}")
        valid = count == 1 or (count == channels and tensor.axis == axis)
        require(valid, f"scales of {tensor.name} must be 1 or {channels}, not {count}")
        scales = np.array([Fraction(float(scale)) for scale in tensor.scales], object)
        scales = scales.reshape([-1 if place == axis else 1 for place in range(values.ndim)])
        return Quantised(values=values, scale=np.broadcast_to(scales, values.shape)).transposed(axes)

    def _bias(self, operator: TfliteOperator, source: Map, weights: Quantised) -> Quantised | None:
        if len(operator.inputs) <= 2 or operator.inputs[2] < 0:
            return None
        values, scales = self._constant(operator, 2, "INT32").reshape(-1), weights.scale.reshape(len(weights.scale), -1)
        require(len(values) == len(scales), f"bias must be of {len(scales)} channels, not {len(values)}")
        return Quantised(values=values, scale=scales[:, 0] * source.scale)

    def _conv(self, operator: TfliteOperator) -> Map:
        value, group = self._value(operator, 0, padded=True), 1
        if "Around" in operator.options:
            value = replace(reshaped(self._builder.with_padding(value), value.shape), pads=operator.options["Around"])
        if operator.kind == "CONV_2D":
            weights = self._weights(operator, 0, (0, 3, 1, 2))
        else:
            weights, group = self._weights(operator, 3, (3, 0, 1, 2)), value.shape[2]
        given = (value, weights, self._bias(operator, value, weights))
        return self._quantised(operator, self._apply(operator, onnx_convolution, given, group=group))

    def _fully_connected(self, operator: TfliteOperator) -> Map:
        require(operator.options["WeightsFormat"] == 0, "weights must be in their plain order")
        value, weights = self._value(operator, 0), self._weights(operator, 0, (0, 1))
        row = reshaped(value, (prod(value.shape),))
        bias = self._bias(operator, value, weights)
        return self._quantised(operator, self._apply(operator, gemm, (row, weights, bias), transB=1))

    def _layer(self, compute: OnnxOperator, inputs: int, operator: TfliteOperator) -> Map:
        given = [self._value(operator, place) for place in range(inputs)]
        return self._quantised(operator, self._apply(operator, compute, given))

    def _average_pool(self, operator: TfliteOperator) -> Map:
        """Add a layer that averages codes and rounds ties away from the code 0."""
        self._check_same_codes(operator)
        value = self._value(operator, 0)
        sums = self._apply(operator, average_pool, [value])
        return self._quantised(operator, replace(sums, centre=self._first_code(operator, value)))

    def _max_pool(self, operator: TfliteOperator) -> Map:
        self._check_same_codes(operator)
        value = self._value(operator, 0, padded=True)
        pooled = self._output_of(operator, self._apply(operator, maximum_pool, [value]))
        # an activation may clip further
        return pooled if self._quantiser(operator).top is None else self._requantise(operator, pooled)

    def _mean(self, operator: TfliteOperator) -> Map:
        shape = self._tensor(operator, 0).shape
        axes = {int(axis) % len(shape) for axis in self._constant(operator, 1, "INT32").reshape(-1)}
        others = {*range(1, len(shape) - 1)} - axes
        is_whole = not axes & {0, len(shape) - 1} and all(shape[axis] == 1 for axis in others)
        require(bool(axes) and is_whole, f"axes must be rows and columns, not {', '.join(map(str, sorted(axes)))}")
        value = self._value(operator, 0)
        sums = self._apply(operator, partial(average_pool, is_global=True), [reshaped(value, value.shape)])
        if sums.area % 2 == 0 and value.scale == self._quantiser(operator).scale:
            self._note(f"{operator}: halves of means go up, not to even numbers as TFLite's")
        return self._quantised(operator, sums)

    def _requantise(self, operator: TfliteOperator, value: Map | None = None) -> Map:
        """Requantise a map, by default the operator's input, by an average over windows of one element."""
        plain, value = replace(operator, options={}), value or self._value(operator, 0)
        flat, quantiser = reshaped(value, value.shape), tensor_codes(self._model.tensors[operator.outputs[0]])
        factor = short_factor(float(np.float32(value.scale) / np.float32(quantiser.scale)))
        if operator.kind == "QUANTIZE" and factor is not None:
            scale = factor * quantiser.scale
            flat = replace(flat, scale=scale, offset=-zero_point_of(value) * scale)
        return self._quantised(operator, self._apply(plain, average_pool, [flat], kernel_shape=[1, 1]))

    def _table(self, operator: TfliteOperator) -> Map:
        value, output = self._value(operator, 0), self._model.tensors[operator.outputs[0]]
        table = code_table(operator.kind, self._tensor(operator, 0), output, operator.options)
        require(bool((np.diff(table) >= 0).all()), "results must rise with the inputs, not fall")
        flat = reshaped(value, value.shape)
        first = LEAST + self._first_code(operator, flat)
        steps = np.searchsorted(table, np.arange(LEAST + 1, GREATEST + 1)) + first
        sums = replace(identity(flat), name=f"table{operator.index}")
        return self._output_of(operator, self._builder.lookup(sums, tensor_codes(output), steps))

    def _concatenation(self, operator: TfliteOperator) -> Map:
        shape, axis = self._model.tensors[operator.outputs[0]].shape, operator.options["Axis"]
        require(operator.options["FusedActivationFunction"] == 0, "fused activation must be NONE")
        # axis among rows, columns and channels
        of_map = axis % len(shape) + _MAP_AXES - len(shape)
        require(axis % len(shape) > 0 <= of_map, f"axis must be 1..{len(shape) - 1}, not {axis}")
        maps = [self._value(operator, place) for place in range(len(operator.inputs))]
        for place, source in enumerate(maps):
            self._check_same_codes(operator, place)
            maps[place] = source = reshaped(source, source.shape)
            quantiser = tensor_codes(self._tensor(operator, place))
            if (source.signed, source.offset) != (quantiser.signed, quantiser.offset):
                # codes that were renumbered by an activation
                sums = self._apply(replace(operator, options={}), average_pool, [source], kernel_shape=[1, 1])
                maps[place] = self._builder.quantised(replace(sums, name=f"codes{operator.index}"), quantiser)
        return self._output_of(operator, self._builder.concatenate(maps, f"concat{operator.index}", of_map))

    def _pad(self, operator: TfliteOperator) -> Map:
        value = self._value(operator, 0)
        around = self._constant(operator, 1, "INT32").reshape(-1, 2).tolist()
        require(len(around) == _MAP_AXES + 1, "padding must be of [1, row, column, channel]")
        require(around[0] == [0, 0] == around[_MAP_AXES], "padding must be of rows and columns, not of channels")
        require(min(map(min, around)) >= 0, "padding must be at least 0")
        (top, bottom), (left, right) = around[1:_MAP_AXES]
        self._check_same_codes(operator)
        return replace(value, pads=(top, bottom, left, right))

    def _reshape(self, operator: TfliteOperator) -> Map:
        self._check_same_codes(operator)
        return reshaped(self._value(operator, 0), self._model.tensors[operator.outputs[0]].shape[1:])
