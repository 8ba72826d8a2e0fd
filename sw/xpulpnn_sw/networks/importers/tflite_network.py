"""Operators of TFLite as layers of a network."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.text import join
from xpulpnn_sw.networks.build import NetworkBuilder
from xpulpnn_sw.networks.described import Described, Scaling, by_colour
from xpulpnn_sw.networks.importers.fixed_point import (
    FixedPoint,
    Range,
    fixed_point,
    shifted_mean,
    shifted_sum,
    sum_ranges,
)
from xpulpnn_sw.networks.importers.options import ImportOptions
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator, read_graph
from xpulpnn_sw.networks.importers.tflite_model import (
    CODES,
    LEAST,
    OperatorReader,
    TfliteMap,
    dims,
    expect,
    named,
    value_of,
    weight_scales,
)
from xpulpnn_sw.networks.importers.values import NO_PADS, Pads
from xpulpnn_sw.networks.network import NETWORK_INPUT

_IMAGE_CHANNELS = 4  # with fewer the first convolution is one of an image
_SAMPLE_SHIFT = 16
_GREATEST_SAMPLE = 255
_BOTH = 2
_MAP = 3


def import_tflite(path: Path, options: ImportOptions) -> Described:
    """The network of a TFLite file of 8 bits.

    Samples of images are the codes of the input, less 128 if these are signed, unless the options say what samples
    are. Sums are requantised in 32 bits, or ``wide`` in 64, nearer to TFLite's rounding.
    """
    model = read_graph(path)
    if options.quantise is not None:
        raise InputError("--quantise must be left out with TFLite, whose models are quantised")
    for what, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if len(tensors) != 1:
            raise InputError(f"{what} of the model must be 1, not {len(tensors)}")
    return _Import(model, options).network()


class _Import:
    """A model on its way into a network."""

    def __init__(self, model: TfliteModel, options: ImportOptions) -> None:
        self._model, self._options, self._note = model, options, options.note
        self._builder = NetworkBuilder(options.name)
        self._values: dict[int, TfliteMap] = {}
        self._last = NETWORK_INPUT
        self._output = model.outputs[0]
        self._operators: Mapping[str, Callable[[OperatorReader], TfliteMap]] = {
            "ADD": self._add,
            "AVERAGE_POOL_2D": self._average_pool,
            "CONV_2D": self._conv,
            "DEPTHWISE_CONV_2D": self._depthwise,
            "FULLY_CONNECTED": self._fully_connected,
            "MAX_POOL_2D": self._max_pool,
            "MEAN": self._mean,
            "PAD": self._pad,
            "EXPAND_DIMS": self._reshape,
            "QUANTIZE": self._requantise,
            "RELU": self._requantise,
            "RELU6": self._requantise,
            "RELU_N1_TO_1": self._requantise,
            "RESHAPE": self._reshape,
            "SQUEEZE": self._reshape,
            "SUB": self._add,
        }

    def network(self) -> Described:
        """All operators as layers."""
        model = self._model
        operators = list(model.operators)
        first = self._without_quantisation(operators)
        self._without_softmax(operators)
        try:
            start = value_of(model.tensors[first], NETWORK_INPUT)
        except InputError as error:
            raise InputError(f"input of the model: {error}") from None
        self._values[first] = start
        for operator in operators:
            named(operator, lambda operator=operator: self._take(operator))
        result = self._values.get(self._output)
        if result is None or result.source != self._last or result.pads != NO_PADS:
            raise InputError("output of the model must be the result of its last operator, not of another")
        return self._builder.finish(self._scaling(start))

    def _take(self, operator: TfliteOperator) -> None:
        reads = self._operators.get(operator.kind)
        if reads is None:
            known = f"{', '.join(self._operators)} or, at the end, SOFTMAX"
            raise InputError(f"operators must be {known}, not {operator.kind}")
        expect(len(operator.outputs) == 1, f"outputs must be 1, not {len(operator.outputs)}")
        self._values[operator.outputs[0]] = reads(OperatorReader(self._model, operator, self._values))

    def _without_quantisation(self, operators: list[TfliteOperator]) -> int:
        """Leave out what makes codes of the inputs; returns the tensor of the codes."""
        model, start = self._model, self._model.inputs[0]
        if operators and operators[0].kind == "QUANTIZE" and operators[0].inputs == (start,):
            removed = operators.pop(0)
            self._note(f"{removed} is left out: inputs are the codes behind it")
            return removed.outputs[0]
        if not model.operators:
            raise InputError("operators of the model must be one at least, not none")
        return start

    def _without_softmax(self, operators: list[TfliteOperator]) -> None:
        while (
            operators
            and operators[-1].kind in ("SOFTMAX", "DEQUANTIZE")
            and operators[-1].outputs[:1] == (self._output,)
        ):
            removed = operators.pop()
            self._note(f"{removed} is left out: results are the codes before it")
            self._output = removed.inputs[0]

    def _scaling(self, start: TfliteMap) -> Scaling:
        spread = self._options.by_colour(start.shape[-1])
        if self._options.samples is None and not spread:
            return Scaling(add=LEAST) if start.signed else Scaling()
        low, high, half = self._options.low, self._options.high, Fraction(1, _BOTH)
        multiply: list[int] = []
        add: list[int] = []
        for mean, deviation in spread or [(Fraction(0), Fraction(1))]:
            unit = Fraction(start.scale) * deviation
            multiply.append(round((high - low) / _GREATEST_SAMPLE / unit * (1 << _SAMPLE_SHIFT)))
            add.append(round(((low - mean) / unit + start.zero + half) * (1 << _SAMPLE_SHIFT)))
        return Scaling(multiply=by_colour(multiply), add=by_colour(add), shift=_SAMPLE_SHIFT)

    def _layer(
        self,
        reader: OperatorReader,
        kernel: str,
        text: str,
        inputs: tuple[TfliteMap, ...],
        arrays: dict[str, Any],
        *,
        pad: int = 0,
        like: TfliteMap | None = None,
    ) -> TfliteMap:
        """Add a layer that computes an operator's output, with codes ``like`` those of another map or its own."""
        operator = reader.operator
        name = f"{kernel}{operator.index}"
        result = reader.result(name)
        if like is not None:
            result = replace(like, source=name, shape=result.shape)
        second = inputs[1].width if len(inputs) == _BOTH else "i8"
        sources = tuple(value.source for value in inputs)
        rule = {"requantise": "bn64"} if self._options.wide and "kappa" in arrays else {}
        stage = self._builder.add(
            name,
            kernel,
            text,
            f"{inputs[0].width}x{second}x{result.width}",
            {key: np.asarray(values) for key, values in arrays.items()},
            sources=() if sources == (self._last,) else sources,
            pad=pad,
            **rule,
        )
        shape = stage.output_shape
        expect(_plain(result.shape) == _plain(shape), f"output must be {dims(shape)}, not {dims(result.shape)}")
        self._last = name
        return result if result.top is None else self._clipped(result)

    def _clipped(self, value: TfliteMap) -> TfliteMap:
        """A map behind a layer that makes its codes greater, such that the model's greatest is memory's."""
        assert value.top is not None
        raised = CODES - 1 - value.top
        if not raised:
            return replace(value, top=None)
        name = f"{value.source}_clip"
        # of rows, columns and channels, as averages are
        shape = (*(1,) * (_MAP - len(value.shape)), *value.shape)
        arrays = {"factor": np.array(1), "summand": np.array(raised), "shift": np.array(0)}
        self._builder.add(name, "avgpool", f"{dims(shape)}:1x1:scaled", "u8xu8xu8", arrays, sources=[value.source])
        self._last = name
        return replace(value, source=name, zero=value.zero + raised, top=None)

    def _products(
        self,
        reader: OperatorReader,
        kernel: str,
        text: str,
        value: TfliteMap,
        weights: Ints,
        axis: int,
        *,
        pads: bool = False,
    ) -> TfliteMap:
        """A layer with weights, ``[channel][...]``, whose channels lie along ``axis`` in the file."""
        channels = len(weights)
        bias = np.zeros(channels, np.int64)
        if len(reader.operator.inputs) > _BOTH and reader.operator.inputs[_BOTH] >= 0:
            bias = reader.constant(_BOTH, "INT32").reshape(-1)
            expect(len(bias) == channels, f"bias must be of {channels} channels, not {len(bias)}")
        scales = weight_scales(reader.tensor(1), axis, channels)
        result = reader.result("")
        # the zero point of the inputs, which is around the map too
        bias = bias - value.zero * weights.reshape(channels, -1).sum(axis=1)
        rule = fixed_point(
            [value.scale * scale / result.scale for scale in scales],
            result.zero,
            sum_ranges(weights, bias, *value.ends),
            wide=self._options.wide,
        )
        arrays = {"weights": weights, "bias": bias, **_rule(rule)}
        return self._layer(reader, kernel, text, (value,), arrays, pad=value.zero if pads else 0)

    def _window(self, reader: OperatorReader, value: TfliteMap, window: tuple[int, int]) -> tuple[str, Pads]:
        stride = reader.option("StrideH"), reader.option("StrideW")
        expect(min(*stride, *window) > 0, f"windows and strides must be 1 at least, not {min(*stride, *window)}")
        top, bottom, left, right = value.pads
        size = value.shape[0] + top + bottom, value.shape[1] + left + right
        around = reader.padding(size, window, stride)
        pads = tuple(one + other for one, other in zip(around, value.pads, strict=True))
        return f":s={join(stride)},p={join(pads)}", (pads[0], pads[1], pads[2], pads[3])

    def _spread(self, reader: OperatorReader, weights: Ints) -> Ints:
        """Filters ``[out][row][column][in]`` with weights of 0 in their gaps."""
        rows, columns = (reader.operator.options.get(name, 1) for name in ("DilationHFactor", "DilationWFactor"))
        expect(min(rows, columns) > 0, f"dilation must be 1 at least, not {min(rows, columns)}")
        if (rows, columns) == (1, 1):
            return weights
        filters, height, width, taken = weights.shape
        reach = (height - 1) * rows + 1, (width - 1) * columns + 1
        self._note(f"{reader.operator}: gaps of its filters become weights of 0, {dims(reach)} for {height}x{width}")
        spread = np.zeros((filters, *reach, taken), np.int64)
        spread[:, ::rows, ::columns] = weights
        return spread

    def _conv(self, reader: OperatorReader) -> TfliteMap:
        value, height, width, channels = reader.map(0, padded=True)
        weights = reader.constant(1, "INT8")
        return self._full_conv(reader, value, weights, (height, width, channels), axis=0)

    def _full_conv(
        self, reader: OperatorReader, value: TfliteMap, weights: Ints, size: tuple[int, int, int], *, axis: int
    ) -> TfliteMap:
        height, width, channels = size
        expect(weights.ndim == _MAP + 1, "weights must be [out, row, column, in]")
        filters, rows, columns, taken = weights.shape
        expect(taken == channels, f"input channels of a filter must be {channels}, not {taken}")
        weights = self._spread(reader, weights)
        filters, rows, columns, taken = weights.shape
        steps, pads = self._window(reader, value, (rows, columns))
        if value.source == NETWORK_INPUT and self._last == NETWORK_INPUT and channels < _IMAGE_CHANNELS:
            kernel, text = "conv", f"{height}x{width}x{channels}:{filters}x{rows}x{columns}{steps}:image"
        elif (rows, columns) == (1, 1):
            kernel, text = "pointwise", f"{height}x{width}x{channels}:{filters}{steps}"
        else:
            kernel, text = "conv", f"{height}x{width}x{channels}:{filters}x{rows}x{columns}{steps}"
        return self._products(reader, kernel, text, value, weights, axis, pads=any(pads))

    def _depthwise(self, reader: OperatorReader) -> TfliteMap:
        value, height, width, channels = reader.map(0, padded=True)
        weights = reader.constant(1, "INT8")
        expect(weights.ndim == _MAP + 1 and weights.shape[0] == 1, "weights must be [1, row, column, channel]")
        _, rows, columns, filters = weights.shape
        by_channel = np.moveaxis(weights[0], -1, 0)
        if channels == 1:
            # every filter sees the whole input
            return self._full_conv(reader, value, by_channel[..., np.newaxis], (height, width, channels), axis=_MAP)
        expect(
            filters % channels == 0, f"filters must be as many for each of {channels} channels, not {filters} of all"
        )
        if filters > channels:
            self._note(
                f"{reader.operator}: {filters // channels} filters for a channel become those of all, with zeros"
            )
            whole = np.zeros((filters, rows, columns, channels), np.int64)
            whole[np.arange(filters), :, :, np.arange(filters) * channels // filters] = by_channel
            return self._full_conv(reader, value, whole, (height, width, channels), axis=_MAP)
        by_channel = self._spread(reader, by_channel[..., np.newaxis])[..., 0]
        _, rows, columns = by_channel.shape
        steps, pads = self._window(reader, value, (rows, columns))
        text = f"{height}x{width}x{channels}:{rows}x{columns}{steps}"
        return self._products(reader, "depthwise", text, value, by_channel, _MAP, pads=any(pads))

    def _fully_connected(self, reader: OperatorReader) -> TfliteMap:
        expect(reader.option("WeightsFormat") == 0, "weights must be in their plain order")
        value, weights = reader.value(0), reader.constant(1, "INT8")
        expect(value.pads == NO_PADS, "padding must be before a convolution, not here")
        expect(weights.ndim == _BOTH, "weights must be [out, in]")
        return self._products(reader, "linear", f"{weights.shape[1]}:{weights.shape[0]}", value, weights, 0)

    def _add(self, reader: OperatorReader) -> TfliteMap:
        maps = [reader.map(place) for place in range(_BOTH)]
        first, second = (one[0] for one in maps)
        expect(
            first.shape == second.shape, f"maps must have one shape, not {dims(first.shape)} and {dims(second.shape)}"
        )
        result = reader.result("")
        signs = (1, -1) if reader.operator.kind == "SUB" else (1, 1)
        factors = [sign * one.scale / result.scale for one, sign in zip((first, second), signs, strict=True)]
        found = shifted_sum(factors, [(Range(*one.ends), one.zero) for one in (first, second)], result.zero)
        return self._layer(reader, "add", f"{dims(first.shape)}:shift", (first, second), found)

    def _max_pool(self, reader: OperatorReader) -> TfliteMap:
        value, *size = reader.map(0)
        window = reader.option("FilterHeight"), reader.option("FilterWidth")
        steps, _ = self._window(reader, value, window)
        reader.check_same_codes()
        pooled = self._layer(reader, "maxpool", f"{dims(tuple(size))}:{dims(window)}{steps}", (value,), {}, like=value)
        # an activation that clips further than memory does
        return pooled if reader.result("").top is None else self._average(reader, pooled, (1, 1), "")

    def _average_pool(self, reader: OperatorReader) -> TfliteMap:
        value, *_ = reader.map(0)
        window = reader.option("FilterHeight"), reader.option("FilterWidth")
        steps, pads = self._window(reader, value, window)
        expect(pads == NO_PADS, "windows must lie within the map, as those of an average that counts what it sees")
        return self._average(reader, value, window, steps)

    def _mean(self, reader: OperatorReader) -> TfliteMap:
        value, height, width, _ = reader.map(0)
        axes = sorted(int(axis) % (_MAP + 1) for axis in reader.constant(1, "INT32").reshape(-1))
        expect(axes == [1, 2], f"axes must be rows and columns, 1 and 2, not {', '.join(map(str, axes))}")
        return self._average(reader, value, (height, width), "")

    def _average(self, reader: OperatorReader, value: TfliteMap, window: tuple[int, int], steps: str) -> TfliteMap:
        result, area = reader.result(""), window[0] * window[1]
        sums = Range(*(end * area for end in value.ends))
        found = shifted_mean(value.scale / result.scale, sums, area, value.zero, result.zero)
        text = f"{dims(value.shape)}:{dims(window)}{steps}:scaled"
        return self._layer(reader, "avgpool", text, (value,), found)

    def _requantise(self, reader: OperatorReader) -> TfliteMap:
        value = reader.value(0)
        expect(value.pads == NO_PADS, "padding must be before a convolution, not here")
        flat = (*(1,) * (_MAP - len(value.shape)), *value.shape)
        return self._average(reader, replace(value, shape=flat), (1, 1), "")

    def _pad(self, reader: OperatorReader) -> TfliteMap:
        value, *_ = reader.map(0)
        around = reader.constant(1, "INT32").reshape(-1, _BOTH).tolist()
        expect(len(around) == _MAP + 1, "padding must be of [1, row, column, channel]")
        expect(around[0] == [0, 0] == around[_MAP], "padding must be of rows and columns, not of channels")
        expect(min(map(min, around)) >= 0, "padding must be at least 0")
        (top, bottom), (left, right) = around[1:_MAP]
        reader.check_same_codes()
        return replace(value, pads=(top, bottom, left, right))

    def _reshape(self, reader: OperatorReader) -> TfliteMap:
        value = reader.value(0)
        reader.check_same_codes()
        return value.reshaped(reader.result(value.source).shape)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the dimensions of 1 before all others, which some operators leave out."""
    first = next((place for place, size in enumerate(shape[:-1]) if size > 1), len(shape) - 1)
    return shape[first:]


def _rule(rule: FixedPoint) -> dict[str, Any]:
    return {"kappa": rule.kappa, "lambda": rule.lam, "shift": rule.shift}
