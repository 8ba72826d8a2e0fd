"""Converters of TFLite's operators: what they share, and those of moves, constants, reductions and resizing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers import moved_maps, onnx_maps, onnx_pooling
from xpulpnn_sw.networks.importers.onnx_layers import onnx_convolution
from xpulpnn_sw.networks.importers.onnx_node import Inputs, OnnxNode, OnnxOperator
from xpulpnn_sw.networks.importers.quantiser import Quantiser
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator, TfliteTensor
from xpulpnn_sw.networks.importers.tflite_graph import MOVES, moved
from xpulpnn_sw.networks.importers.tflite_layer_builder import (
    GREATEST,
    LEAST,
    TfliteLayerBuilder,
    multiplied,
    short_sum,
    tensor_codes,
    zero_point_of,
)
from xpulpnn_sw.networks.importers.values import Map, Quantised, Sums, by_channel, dims, identity, reshaped

# ranges of activations, in the order of TFLite's enumeration
_ENDS: Mapping[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0, None),
    "RELU_N1_TO_1": (-1, 1),
    "RELU6": (0, 6),
}
_PADDINGS = {0: "SAME_UPPER", 1: "VALID"}  # ONNX modes by TFLite's enumeration


class _Node(OnnxNode):
    def __str__(self) -> str:
        return self.operator


Converter = Callable[[TfliteOperator], Map | list[Map]]
_ROW_AXES = (3, 4)  # axes of sequences and maps, with the batch
_SIGNS = (("MAX", 1), ("MIN", -1))
_JOINED: Mapping[str, OnnxOperator] = {
    "ADD": partial(onnx_maps.add_maps, sign=1),
    "SUB": partial(onnx_maps.add_maps, sign=-1),
    "MUL": onnx_maps.multiply_maps,
    **{f"{name}IMUM": partial(onnx_maps.extreme_of, sign=sign) for name, sign in _SIGNS},
}
_REDUCTIONS: Mapping[str, OnnxOperator] = {
    "MEAN": onnx_pooling.mean,
    "SUM": onnx_pooling.total,
    **{f"REDUCE_{name}": partial(onnx_pooling.extreme, sign=sign) for name, sign in _SIGNS},
}


class TfliteOperators:
    def __init__(self, model: TfliteModel, options: ImportOptions) -> None:
        self._model, self._options, self._note = model, options, options.note
        self._builder = TfliteLayerBuilder(options.name, options.note, allow=options.allow, is_fast=options.is_fast)
        self._values: dict[int, Map] = {}

    def _tensor(self, operator: TfliteOperator, place: int) -> TfliteTensor:
        require(place < len(operator.inputs), f"inputs must be {place + 1} at least")
        return self._model.tensors[operator.inputs[place]]

    def _value(self, operator: TfliteOperator, place: int, *, padded: bool = False) -> Map:
        tensor = self._tensor(operator, place)
        value = self._values.get(operator.inputs[place])
        if value is None and tensor.data is not None:
            # codes that are raised to be unsigned
            quantiser, first = tensor_codes(tensor), next(iter(self._values.values()))
            codes = self._constant(operator, place, "INT8").reshape(tensor.shape) - LEAST + quantiser.low
            value = moved_maps.constant_map(self._builder, first, codes, quantiser)
            self._values[operator.inputs[place]] = value = reshaped(value, tensor.shape[1:] or (1,))
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

    def _ends(self, operator: TfliteOperator) -> tuple[int, int]:
        tensor, name = self._model.tensors[operator.outputs[0]], "NONE"
        if operator.kind in _ENDS:
            name = operator.kind
        elif "FusedActivationFunction" in operator.options:
            name = dict(enumerate(_ENDS)).get(operator.options["FusedActivationFunction"], "another")
        require(name in _ENDS, f"fused activation must be one of {', '.join(_ENDS)}, not {name}")
        zero, scale = int(tensor.zeros[0]), float(tensor.scales[0])
        pairs = zip((LEAST, GREATEST), _ENDS[name], strict=True)
        least, most = (limit if end is None else zero + round(end / scale) for limit, end in pairs)
        low, high = max(LEAST, least), min(GREATEST, most)
        require(low < high, f"activation must leave some of the results' codes, not those from {low} to {high}")
        return low, high

    def _quantiser(self, operator: TfliteOperator) -> Quantiser:
        quantiser, (low, high) = tensor_codes(self._model.tensors[operator.outputs[0]]), self._ends(operator)
        raised = quantiser.low - LEAST
        is_whole = (low, high) == (LEAST, GREATEST)
        return quantiser if is_whole else quantiser.clipped(low + raised, high + raised)

    def _quantised(self, operator: TfliteOperator, sums: Any) -> Map:
        return self._output_of(operator, self._quantised_map(operator, sums))

    def _quantised_map(self, operator: TfliteOperator, sums: Any) -> Map:
        assert isinstance(sums, Sums)
        if sums.weights is not None:
            sums = replace(sums, weight_bits=BYTE_BITS)
        sums = replace(sums, name=f"{sums.kernel}{operator.index}")
        output = self._builder.with_positive_scale(self._builder.quantised(sums, self._quantiser(operator)))
        # the range of elements may exceed that of the model
        return replace(output, low=0) if not output.signed else output

    def _output_of(self, operator: TfliteOperator, value: Map) -> Map:
        whole, own = self._model.tensors[operator.outputs[0]].shape, value.shape
        shape = whole[whole[:1] == (1,) :]
        is_same = [size for size in shape if size > 1] == [size for size in own if size > 1]
        # memory has fewer axes than some tensors
        require(is_same or len(shape) > len(own), f"output must be {dims(own)}, not {dims(shape)}")
        return reshaped(value, shape)

    def _first_code(self, operator: TfliteOperator, value: Map) -> int:
        return zero_point_of(value) - int(self._tensor(operator, 0).zeros[0])

    def _has_same_codes(self, operator: TfliteOperator, place: int = 0) -> bool:
        tensors = self._tensor(operator, place), self._model.tensors[operator.outputs[0]]
        same = [(*tensor.scales.tolist(), *tensor.zeros.tolist()) for tensor in tensors]
        return same[0] == same[1]

    def _check_same_codes(self, operator: TfliteOperator, place: int = 0) -> None:
        require(self._has_same_codes(operator, place), "scale and zero point of the results must be the input's")

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

    def _others(self) -> Mapping[str, Converter]:
        return {
            **dict.fromkeys(MOVES, self._moved),
            **dict.fromkeys((*_JOINED, "PRELU"), self._joined),
            "BATCH_MATMUL": self._matrix_products,
            "SOFTMAX": self._softmax,
            "LAYER_NORMALIZATION": self._layer_normalisation,
            "PACK": self._packed,
            "PAD": self._pad,
            "RESIZE_BILINEAR": self._resize,
            **dict.fromkeys(_REDUCTIONS, self._reduced),
            "TRANSPOSE_CONV": self._transposed_convolution,
        }

    def _in_order(self, value: Map, order: Ints) -> Map:
        own = order.shape[order.shape[0] == 1 :]
        sizes = [1, 1, 1, *own]
        stored = order.reshape(prod(sizes[:-2]), *sizes[-2:])
        return reshaped(moved_maps.placed(self._builder, reshaped(value, value.shape), stored), own)

    def _places(self, operator: TfliteOperator, place: int) -> Ints:
        shape = self._tensor(operator, place).shape
        return np.arange(prod(shape)).reshape(shape)

    def _same_shapes(self, operator: TfliteOperator) -> list[Map]:
        shape = self._model.tensors[operator.outputs[0]].shape
        values = [self._value(operator, place) for place in (0, 1)]
        orders = [np.broadcast_to(self._places(operator, place), shape) for place in (0, 1)]
        kept = [order.size == self._places(operator, place).size for place, order in enumerate(orders)]
        pairs = zip(values, orders, kept, strict=True)
        whole = shape[shape[0] == 1 :]
        return [reshaped(value, whole) if own else self._in_order(value, order) for value, order, own in pairs]

    def _moved(self, operator: TfliteOperator) -> list[Map]:
        source = MOVES[operator.kind]
        constants = [
            tensor.data.astype(np.int64)
            for place, number in enumerate(operator.inputs)
            if place != source and (tensor := self._model.tensors[number]).data is not None
        ]
        require(len(constants) == len(operator.inputs) - 1, "indices and sizes must be in the file, not computed")
        value, places = self._value(operator, source), self._places(operator, source)
        orders = moved(operator.kind, places, constants, operator.options, len(operator.outputs))
        results = [self._in_order(value, order) for order in orders]
        if len(results) > 1:
            self._check_same_codes(operator, source)
        if self._has_same_codes(operator, source):
            return results
        # codes stay, whatever they stand for
        return [self._tabled(operator, results[0], np.arange(LEAST, GREATEST + 1)[np.newaxis])]

    def _tabled(self, operator: TfliteOperator, value: Map, table: Ints, slopes: NDArray[Any] | None = None) -> Map:
        quantiser = tensor_codes(self._model.tensors[operator.outputs[0]])
        flat, raised = reshaped(value, value.shape), LEAST - quantiser.low
        first = self._first_code(operator, flat)
        # integers that an activation leaves unused may be beyond the codes
        codes = np.clip(np.arange(flat.low, flat.high + 1) - first - LEAST, 0, GREATEST - LEAST)
        sums = replace(identity(flat), name=f"table{operator.index}")
        factors = () if slopes is None else [Fraction(float(slope)) for slope in slopes]
        return self._output_of(operator, self._builder.tabled(sums, table[:, codes] - raised, quantiser, factors))

    def _with_constant(self, operator: TfliteOperator) -> Map:
        place = 0 if self._model.tensors[operator.inputs[0]].data is None else 1
        constant, output = self._tensor(operator, 1 - place), self._model.tensors[operator.outputs[0]]
        swapped = replace(operator, inputs=(operator.inputs[place], operator.inputs[1 - place]))
        value, source = self._value(swapped, 0), self._tensor(swapped, 0)
        own = np.broadcast_to(self._constant(swapped, 1, "INT8"), source.shape).reshape(value.shape)
        channels = value.shape[2]
        numbers = np.array([int(n) for n in by_channel(own, np.arange(own.size).reshape(own.shape), channels)])
        pairs = [(float(tensor.scales[0]), int(tensor.zeros[0])) for tensor in (source, constant, output)]
        (scale, zero), (unit, base), (end, offset) = pairs
        steps, others = np.arange(LEAST, GREATEST + 1) - zero, (numbers - base)[:, np.newaxis]
        if operator.kind in ("MUL", "PRELU"):
            factor = np.float32(np.float32(scale) * np.float32(unit)) / np.float32(end)
            slopes = others[:, 0] * float(factor)
            real = np.rint((steps * others).astype(np.float32) * np.float32(factor)).astype(np.int64)
            if operator.kind == "PRELU":
                rounded, plain = np.vectorize(multiplied, [np.int64]), float(np.float32(scale) / np.float32(end))
                sides: list[Ints] = [rounded(steps, plain), rounded(steps * others, float(factor))]
                real = np.where(steps >= 0, *sides)
        elif operator.kind in ("MAXIMUM", "MINIMUM"):
            real, slopes = (np.maximum if operator.kind == "MAXIMUM" else np.minimum)(steps, others), None
        else:
            signs = {"ADD": (1, 1), "SUB": (1, -1) if place == 0 else (-1, 1)}[operator.kind]
            (factor, other), shift = short_sum([signs[0] * scale / end, signs[1] * unit / end])
            slopes = np.full(channels, factor / (1 << shift))
            real = steps * factor + others * other + (1 << shift - 1) >> shift
        table = np.clip(real + offset, *self._ends(operator))
        return self._tabled(swapped, value, table, slopes)

    def _pad(self, operator: TfliteOperator) -> Map:
        around = self._constant(operator, 1, "INT32").reshape(-1, 2).tolist()
        value, shape = self._value(operator, 0), self._tensor(operator, 0).shape
        self._check_same_codes(operator)
        require(len(around) == len(shape) and around[0] == [0, 0], "padding must be a pair for each axis but the batch")
        require(min(map(min, around)) >= 0, "padding must be at least 0")
        if len(shape) in _ROW_AXES and around[-1] == [0, 0]:
            (top, bottom), (left, right) = ([[0, 0]] * (max(_ROW_AXES) - len(shape)) + around[1:-1])[:2]
            return replace(reshaped(value, value.shape), pads=(top, bottom, left, right))
        wide, place = moved_maps.with_element(self._builder, reshaped(value, value.shape), zero_point_of(value))
        return self._in_order(wide, np.pad(self._places(operator, 0), around, constant_values=place))

    def _joined(self, operator: TfliteOperator) -> Map:
        output, *inputs = (self._model.tensors[tensor] for tensor in (*operator.outputs, *operator.inputs[:2]))
        constants = [tensor.shape for tensor in inputs if tensor.data is not None]
        is_whole = output.shape in [tensor.shape for tensor in inputs if tensor.data is None]
        if constants and (operator.kind == "PRELU" or (is_whole and prod(constants[0]) == prod(constants[0][-1:]))):
            return self._with_constant(operator)
        sums = self._apply(operator, _JOINED[operator.kind], self._same_shapes(operator))
        return self._quantised(operator, sums)

    def _packed(self, operator: TfliteOperator) -> Map:
        places = range(len(operator.inputs))
        for place in places:
            self._check_same_codes(operator, place)
        rows = [reshaped(self._value(operator, place), (1, 1, self._places(operator, place).size)) for place in places]
        joined = moved_maps.concatenate(self._builder, rows, f"pack{operator.index}", 0)
        order = np.arange(prod(joined.shape)).reshape(len(rows), *self._tensor(operator, 0).shape)
        return self._in_order(joined, np.moveaxis(order, 0, operator.options["Axis"]))

    def _reduced(self, operator: TfliteOperator) -> Map:
        shape = self._tensor(operator, 0).shape
        axes = sorted({int(axis) % len(shape) for axis in self._constant(operator, 1, "INT32").reshape(-1)})
        require(bool(axes) and axes[0] > 0, "axes must not be that of the batch")
        if operator.kind == "MEAN" and axes == [*range(1, len(shape) - 1)]:
            return self._mean(operator)
        value, attributes = self._ordered(operator, 0), {"axes": axes, "keepdims": 0}
        sums = self._apply(operator, _REDUCTIONS[operator.kind], [value], **attributes)
        if operator.kind == "MEAN":
            self._note_halves(operator, sums)
        return self._in_places(operator, sums)

    def _matrix_products(self, operator: TfliteOperator) -> Map:
        given = [self._ordered(operator, place) for place in (0, 1)]
        for place, name in enumerate(("AdjX", "AdjY")):
            if operator.options[name]:
                given[place] = replace(given[place], indices=given[place].indices.swapaxes(-1, -2))
        return self._in_places(operator, self._apply(operator, onnx_maps.matrix_products, given))

    def _softmax(self, operator: TfliteOperator) -> Map:
        value = self._ordered(operator, 0)
        scaled = replace(value, scale=value.scale * Fraction(operator.options["Beta"]))
        return self._in_places(operator, self._apply(operator, onnx_maps.softmax, [scaled]))

    def _layer_normalisation(self, operator: TfliteOperator) -> Map:
        given = (self._ordered(operator, 0), operator.options["Gamma"], operator.options["Beta"])
        sums = self._apply(operator, onnx_maps.layer_normalisation, given, epsilon=operator.options["Epsilon"])
        return self._in_places(operator, sums)

    def _ordered(self, operator: TfliteOperator, place: int) -> Map:
        return replace(self._value(operator, place), indices=self._places(operator, place))

    def _in_places(self, operator: TfliteOperator, sums: Sums | Map) -> Map:
        value = self._quantised_map(operator, sums) if isinstance(sums, Sums) else sums
        value = self._builder.with_positive_scale(value)
        return reshaped(value, self._model.tensors[operator.outputs[0]].shape[1:])

    def _mean(self, operator: TfliteOperator) -> Map:
        value = self._value(operator, 0)
        sums = self._apply(operator, partial(onnx_pooling.average_pool, is_global=True), [reshaped(value, value.shape)])
        self._note_halves(operator, sums)
        return self._quantised(operator, sums)

    def _note_halves(self, operator: TfliteOperator, sums: Sums) -> None:
        most = sums.area * (GREATEST - LEAST)
        factor = np.float32(sums.sources[0].scale / self._quantiser(operator).scale / sums.area)
        # as the interpreter computes the means, in single precision
        if (np.arange(most, dtype=np.float32) * factor % 1 == 0.5).any():
            self._note(f"{operator}: halves of means go up, not to even numbers as TFLite's")

    def _resize(self, operator: TfliteOperator) -> Map:
        self._check_same_codes(operator)
        value, sizes = self._value(operator, 0), self._constant(operator, 1, "INT32").reshape(-1).tolist()
        pairs = zip(value.shape[:2], sizes, strict=True)
        rows, columns = (moved_maps.linear_windows(own, new, operator.options) for own, new in pairs)
        windows, size = moved_maps.pooled_windows(self._builder, value, rows, columns)
        plain, given = replace(operator, options={}), {"kernel_shape": [*size], "strides": [*size]}
        return self._quantised(operator, self._apply(plain, onnx_pooling.average_pool, [windows], **given))

    def _transposed_convolution(self, operator: TfliteOperator) -> Map:
        options, shape = operator.options, self._model.tensors[operator.outputs[0]].shape
        swapped = replace(operator, inputs=(operator.inputs[2], *operator.inputs[1:2], *operator.inputs[3:]))
        value, weights = self._value(swapped, 0), self._weights(operator, 0, (0, 3, 1, 2))
        size, strides = weights.values.shape[2:], (options["StrideH"], options["StrideW"])
        grids: list[Ints] = []
        for own, new, kernel, step in zip(value.shape[:2], shape[1:3], size, strides, strict=True):
            around = max((own - 1) * step + kernel - new, 0) if options["Padding"] == 0 else 0
            grids.append(moved_maps.spread_places(own, new, kernel, step, around // 2))
        self._note(f"{operator}: sums are rounded once, not twice as TFLite's, from which codes may be 1 away")
        wide = moved_maps.between_zeros(self._builder, reshaped(value, value.shape), *grids)
        flipped = Quantised(values=weights.values[:, :, ::-1, ::-1], scale=weights.scale)
        given = (wide, flipped, self._bias(swapped, value, weights))
        return self._quantised(operator, self._apply(replace(operator, options={}), onnx_convolution, given))
