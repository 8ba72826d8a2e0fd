"""Importer of 8-bit TFLite models.

A value ``scale * (q - zero)`` is stored as its signed code ``q``, or as ``q + 128`` without a sign if the zero point is
-128. Operators are converted like the corresponding ones of ONNX. Zero points of inputs become padding and parts of
biases; scales become a factor for each channel, with TFLite's 31 bits unless the fast rule is requested.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np

from xpulpnn.errors import InputError, LayerError, require
from xpulpnn_sw.networks.importers.layer_builder import INPUT
from xpulpnn_sw.networks.importers.moved_maps import concatenate, unsigned
from xpulpnn_sw.networks.importers.onnx_ends import INSTEAD
from xpulpnn_sw.networks.importers.onnx_layers import gemm, onnx_convolution
from xpulpnn_sw.networks.importers.onnx_pooling import average_pool, maximum_pool
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator, read_graph
from xpulpnn_sw.networks.importers.tflite_graph import layer_operators, with_shapes
from xpulpnn_sw.networks.importers.tflite_layer_builder import (
    LEAST,
    TABLE_KINDS,
    code_table,
    short_factor,
    tensor_codes,
    zero_point_of,
)
from xpulpnn_sw.networks.importers.tflite_operators import TfliteOperators
from xpulpnn_sw.networks.importers.values import Map, dims, reshaped
from xpulpnn_sw.networks.network import NetworkModel, Scaling, by_colour

_SAMPLE_SHIFT = 16
_MAP_AXES = 3  # rows, columns and channels, without batch


def import_tflite(path: Path, options: ImportOptions) -> NetworkModel:
    """Import an 8-bit TFLite file.

    Image samples are codes of the input, or codes plus 128 if these are signed, unless the options give their range.
    Sums are requantised by the exact rule, which is TFLite's with a single rounding, or in 32 bits with
    ``options.is_fast``.
    """
    model = read_graph(path)
    require(options.quantise is None, "bits must be left out with TFLite, whose models are quantised")
    return _Import(with_shapes(model, options.note), options).network()


def _hint(operator: TfliteOperator) -> str:
    return f" ({INSTEAD[operator.kind]})" if operator.kind in INSTEAD else ""


class _Import(TfliteOperators):
    def __init__(self, model: TfliteModel, options: ImportOptions) -> None:
        super().__init__(model, options)
        self._operators: Mapping[str, Callable[[TfliteOperator], Map | list[Map]]] = {
            "AVERAGE_POOL_2D": self._average_pool,
            **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), self._conv),
            "CONCATENATION": self._concatenation,
            "FULLY_CONNECTED": self._fully_connected,
            "MAX_POOL_2D": self._max_pool,
            **dict.fromkeys(("QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1"), self._requantise),
            **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), self._reshape),
            **dict.fromkeys(TABLE_KINDS, self._table),
            **self._others(),
        }

    def network(self) -> NetworkModel:
        operators, inputs, outputs = layer_operators(self._model, self._note)
        unknown = [operator for operator in operators if operator.kind not in self._operators]
        names = ", ".join(f"{operator}{_hint(operator)}" for operator in unknown)
        require(not unknown, f"operators must be known, not {names}")
        starts = self._starts(inputs)
        for operator in operators:
            try:
                self._convert(operator)
            except (InputError, LayerError, ValueError, IndexError, ArithmeticError) as error:
                raise InputError(f"{operator}: {error}") from None
        results = [self._values.get(output) for output in outputs]
        if any(result is None or result.stage == INPUT for result in results):
            raise InputError("output of the model must be the result of an operator, not of another")
        self._finish([result for result in results if result is not None], outputs)
        self._builder.scaling = self._scaling(starts[0], self._model.tensors[inputs[0]].shape[-1])
        return self._builder.finish()

    def _starts(self, inputs: Sequence[int]) -> list[Map]:
        tensors, begin, starts = [self._model.tensors[first] for first in inputs], 0, list[Map]()
        row = sum(prod(tensor.shape) for tensor in tensors)
        for first, tensor in zip(inputs, tensors, strict=True):
            try:
                require(tensor.shape[:1] == (1,), f"{tensor.name} must be a batch of 1, not {dims(tensor.shape)}")
                whole, size = Map.of(tensor_codes(tensor), INPUT, (1, 1, row), np.arange(0)), prod(tensor.shape)
                places = np.arange(begin, begin + size).reshape(tensor.shape)
                starts.append(reshaped(whole, tensor.shape[1:]) if size == row else self._in_order(whole, places))
            except (InputError, ValueError) as error:
                raise InputError(f"input of the model: {error}") from None
            self._values[first], begin = starts[-1], begin + size
        if len(starts) > 1:
            self._note(f"samples are those of {', '.join(tensor.name for tensor in tensors)} one after the other")
        return starts

    def _finish(self, results: Sequence[Map], outputs: Sequence[int]) -> None:
        padded = [self._builder.with_padding(result) for result in results]
        if len(padded) > 1:
            rows = [unsigned(self._builder, reshaped(result, (1, 1, prod(result.shape)))) for result in padded]
            names = [self._model.tensors[output].name for output in outputs]
            parts = (f"{row.shape[2]} of {name}" for row, name in zip(rows, names, strict=True))
            self._note(f"results are {', '.join(parts)}, as codes plus 128")
            padded = [concatenate(self._builder, rows, "outputs")]
        require(padded[0].stage == self._builder.last, "output of the model must be that of its last operator")

    def _convert(self, operator: TfliteOperator) -> None:
        converted = self._operators[operator.kind](operator)
        results = converted if isinstance(converted, list) else [converted]
        self._values |= dict(zip(operator.outputs, results, strict=True))

    def _scaling(self, start: Map, colours: int) -> Scaling:
        spread = self._options.by_colour(colours)
        if self._options.samples is None and not spread:
            return Scaling(add=LEAST) if start.signed else Scaling()
        (low, high), zero, fixed_one = self._options.ends, zero_point_of(start) + Fraction(1, 2), 1 << _SAMPLE_SHIFT
        units = [(mean, start.scale * deviation) for mean, deviation in spread or [(Fraction(0), Fraction(1))]]
        multiply = by_colour([round((high - low) / 255 / unit * fixed_one) for _, unit in units])
        add = by_colour([round(((low - mean) / unit + zero) * fixed_one) for mean, unit in units])
        return Scaling(multiply=multiply, add=add, shift=_SAMPLE_SHIFT)

    def _conv(self, operator: TfliteOperator) -> Map:
        value, group = self._value(operator, 0, padded=True), 1
        if "Around" in operator.options:
            value = self._builder.with_padding(value)
            value = replace(reshaped(value, value.shape), pads=operator.options["Around"])
        if operator.kind == "CONV_2D":
            weights = self._weights(operator, 0, (0, 3, 1, 2))
        else:
            weights, group = self._weights(operator, 3, (3, 0, 1, 2)), value.shape[2]
        if operator.kind == "CONV_2D" and weights.values.shape[1]:
            group = max(1, value.shape[2] // weights.values.shape[1])
        given = (value, weights, self._bias(operator, value, weights))
        return self._quantised(operator, self._apply(operator, onnx_convolution, given, group=group))

    def _fully_connected(self, operator: TfliteOperator) -> Map:
        require(operator.options["WeightsFormat"] == 0, "weights must be in their plain order")
        value, weights = self._value(operator, 0), self._weights(operator, 0, (0, 1))
        inputs = weights.values.shape[1]
        count = prod(value.shape)
        row = reshaped(value, (count,) if count == inputs else (count // max(inputs, 1), inputs))
        bias = self._bias(operator, value, weights)
        return self._quantised(operator, self._apply(operator, gemm, (row, weights, bias), transB=1))

    def _average_pool(self, operator: TfliteOperator) -> Map:
        self._check_same_codes(operator)
        value = self._value(operator, 0)
        sums = self._apply(operator, average_pool, [value])
        return self._quantised(operator, replace(sums, centre=self._first_code(operator, value)))

    def _max_pool(self, operator: TfliteOperator) -> Map:
        self._check_same_codes(operator)
        value = self._value(operator, 0, padded=True)
        if any(operator.options.get("Around", ())):
            value = self._builder.with_padding(replace(value, pads=operator.options["Around"]))
        pooled = self._output_of(operator, self._apply(operator, maximum_pool, [value]))
        # an activation may clip further
        return pooled if self._quantiser(operator).top is None else self._requantise(operator, pooled)

    def _requantise(self, operator: TfliteOperator, value: Map | None = None) -> Map:
        plain, value = replace(operator, options={}), value or self._value(operator, 0)
        flat, quantiser = reshaped(value, value.shape), tensor_codes(self._model.tensors[operator.outputs[0]])
        if operator.kind != "QUANTIZE" and value.scale != quantiser.scale:
            return self._table(operator)
        factor = short_factor(float(np.float32(value.scale) / np.float32(quantiser.scale)))
        if operator.kind == "QUANTIZE" and factor is not None:
            scale = factor * quantiser.scale
            flat = replace(flat, scale=scale, offset=-zero_point_of(value) * scale)
        return self._quantised(operator, self._apply(plain, average_pool, [flat], kernel_shape=[1, 1]))

    def _table(self, operator: TfliteOperator) -> Map:
        value, output = self._value(operator, 0), self._model.tensors[operator.outputs[0]]
        table = code_table(operator.kind, self._tensor(operator, 0), output, operator.options)
        return self._tabled(operator, value, np.clip(table, *self._ends(operator))[np.newaxis])

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
        return self._output_of(operator, concatenate(self._builder, maps, f"concat{operator.index}", of_map))

    def _reshape(self, operator: TfliteOperator) -> Map:
        self._check_same_codes(operator)
        return reshaped(self._value(operator, 0), self._model.tensors[operator.outputs[0]].shape[1:])
