"""Reader of TFLite files, and the choice of the operators that become layers.

Tensors, operators and options are all read at once, so that truncated files are detected.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, unreadable
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.registry import TFLITE_MAGIC

_DTYPES = {"INT8": "<i1", "INT32": "<i4", "UINT8": "<u1", "INT16": "<i2", "INT64": "<i8", "FLOAT32": "<f4"}
_WINDOW = ("Padding", "StrideH", "StrideW", "FusedActivationFunction")
# class of the options of an operator, and fields that are read
_OPTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "CONV_2D": ("Conv2DOptions", (*_WINDOW, "DilationHFactor", "DilationWFactor")),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", (*_WINDOW, "DilationHFactor", "DilationWFactor")),
    "FULLY_CONNECTED": ("FullyConnectedOptions", ("FusedActivationFunction", "WeightsFormat")),
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "AVERAGE_POOL_2D": ("Pool2DOptions", (*_WINDOW, "FilterHeight", "FilterWidth")),
    "MAX_POOL_2D": ("Pool2DOptions", (*_WINDOW, "FilterHeight", "FilterWidth")),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
}
# operators at the end that do not change which result is the greatest
END_KINDS = ("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "DEQUANTIZE")
# operators on shapes, for flattening with an unknown batch
_SHAPES = ("SHAPE", "STRIDED_SLICE", "PACK", "CONCATENATION")
_INTEGERS = ("INT32", "INT64")
_RESHAPES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_VALID = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class TfliteTensor:
    name: str
    shape: tuple[int, ...]
    type: str  # of elements, such as `INT8`
    scales: NDArray[np.float64]  # by channel, or one; empty if it is not quantised
    zeros: NDArray[np.int64]  # zero points, as many
    axis: int  # of the channels
    data: NDArray[Any] | None  # elements of a constant


@dataclass(frozen=True, eq=False, kw_only=True)
class TfliteOperator:
    index: int
    kind: str  # such as `CONV_2D`
    inputs: tuple[int, ...]  # indices of tensors; -1: left out
    outputs: tuple[int, ...]  # indices of tensors
    options: Mapping[str, Any]  # by the names of TFLite's schema, such as `StrideH`

    def __str__(self) -> str:
        return f"operator {self.index} ({self.kind})"


@dataclass(frozen=True, eq=False, kw_only=True)
class TfliteModel:
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]  # in order of execution
    inputs: tuple[int, ...]  # indices of tensors
    outputs: tuple[int, ...]  # indices of tensors


def read_graph(path: Path) -> TfliteModel:
    library: Any = import_module("tflite")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    if content[4:8] != TFLITE_MAGIC:
        raise InputError(f"model must be a TFLite file, not {path}")
    try:
        return _model(library, content)
    except (struct.error, IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"model must be a whole TFLite file, not {path}: {error}") from None


def _model(library: Any, content: bytes) -> TfliteModel:
    model = library.Model.GetRootAs(content, 0)
    if model.SubgraphsLength() != 1:
        raise ValueError(f"{model.SubgraphsLength()} graphs, where 1 can be read")
    graph = model.Subgraphs(0)
    types, kinds = _names(library.TensorType), _names(library.BuiltinOperator)
    buffers = [model.Buffers(number) for number in range(model.BuffersLength())]
    tensors = tuple(_tensor(graph.Tensors(number), types, buffers) for number in range(graph.TensorsLength()))
    codes = [model.OperatorCodes(number) for number in range(model.OperatorCodesLength())]
    known: list[str] = [kinds[code.BuiltinCode()] for code in codes]
    count = graph.OperatorsLength()
    operators = tuple(_operator(library, graph.Operators(number), number, known) for number in range(count))
    inputs, outputs = _integers(graph.InputsAsNumpy()), _integers(graph.OutputsAsNumpy())
    used = [*inputs, *outputs, *(tensor for operator in operators for tensor in (*operator.inputs, *operator.outputs))]
    if any(not -1 <= tensor < len(tensors) for tensor in used):
        raise IndexError("tensor that is not there")
    return TfliteModel(tensors=tensors, operators=operators, inputs=inputs, outputs=outputs)


def _names(enumeration: Any) -> dict[int, str]:
    members = cast("dict[str, Any]", vars(enumeration))
    return {value: name for name, value in members.items() if isinstance(value, int)}


def _integers(values: Any) -> tuple[int, ...]:
    """Return a flatbuffer vector as integers; the flatbuffer reader returns 0 for a missing vector, which is empty."""
    return () if isinstance(values, int) else tuple(int(value) for value in values)


def _tensor(tensor: Any, types: Mapping[int, str], buffers: list[Any]) -> TfliteTensor:
    kind, shape = types[tensor.Type()], _integers(tensor.ShapeAsNumpy())
    letters, parameters = (tensor.Name() or b"").decode(errors="replace"), tensor.Quantization()
    # names appear in messages of one line
    name = "".join(letter if letter.isprintable() else "?" for letter in letters)
    scales, zeros, axis = np.zeros(0), np.zeros(0, np.int64), 0
    if parameters is not None and parameters.ScaleLength():
        # damaged files may have NaN
        with np.errstate(invalid="ignore"):
            scales = parameters.ScaleAsNumpy().astype(np.float64)
        axis = parameters.QuantizedDimension()
        known = parameters.ZeroPointLength()
        zeros = parameters.ZeroPointAsNumpy().astype(np.int64) if known else np.zeros(len(scales), np.int64)
        if len(zeros) != len(scales) or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError(f"scales and zero points of tensor {name}")
    buffer, data = buffers[tensor.Buffer()], None
    if buffer.DataLength() and kind in _DTYPES:
        data = buffer.DataAsNumpy().view(_DTYPES[kind]).reshape(shape)
    return TfliteTensor(name=name, shape=shape, type=kind, scales=scales, zeros=zeros, axis=axis, data=data)


def _operator(library: Any, operator: Any, number: int, kinds: Sequence[str]) -> TfliteOperator:
    kind = kinds[int(operator.OpcodeIndex())]
    options: dict[str, Any] = {}
    table = operator.BuiltinOptions()
    if kind in _OPTIONS:
        if table is None:
            raise ValueError(f"no options of operator {number}")
        name, fields = _OPTIONS[kind]
        read = getattr(library, name)()
        read.Init(table.Bytes, table.Pos)
        numbers = {field: getattr(read, field)() for field in fields}
        options = {field: value if isinstance(value, float) else int(value) for field, value in numbers.items()}
    inputs, outputs = _integers(operator.InputsAsNumpy()), _integers(operator.OutputsAsNumpy())
    return TfliteOperator(index=number, kind=kind, inputs=inputs, outputs=outputs, options=options)


def layer_operators(model: TfliteModel, note: Callable[[str], object]) -> tuple[list[TfliteOperator], int, int]:
    """Return the operators that become layers, and the input and output tensors' indices; report removed ones."""
    operators, (first,), (last,) = list(model.operators), model.inputs, model.outputs
    if not operators:
        raise InputError("operators of the model must be one at least, not none")
    if operators[0].kind == "QUANTIZE" and operators[0].inputs == (first,):
        removed = operators.pop(0)
        note(f"{removed} is left out: inputs are the codes behind it")
        first = removed.outputs[0]
    while operators and operators[-1].inputs and operators[-1].outputs[:1] == (last,) and _is_end(model, operators):
        removed = operators.pop()
        note(f"{removed} is left out: results are the codes before it")
        last = removed.inputs[0]
    remaining = [
        operator
        for operator in operators
        if operator.kind not in _SHAPES or _type(model, operator.outputs) not in _INTEGERS
    ]
    return _with_dilations(model, remaining), first, last


def _type(model: TfliteModel, tensors: Sequence[int]) -> str:
    return model.tensors[tensors[0]].type if tensors else ""


def _is_end(model: TfliteModel, operators: Sequence[TfliteOperator]) -> bool:
    """Return whether the last operator only changes the representation of the results, and can be removed."""
    end = operators[-1]
    is_behind = len(operators) > 1 and operators[-2].kind in END_KINDS and operators[-2].outputs[:1] == end.inputs[:1]
    return end.kind in END_KINDS or (end.kind == "QUANTIZE" and (is_behind or _type(model, end.outputs) == "UINT8"))


def _with_dilations(model: TfliteModel, operators: Sequence[TfliteOperator]) -> list[TfliteOperator]:
    """Replace convolutions between ``SPACE_TO_BATCH_ND`` and ``BATCH_TO_SPACE_ND`` by dilated convolutions."""
    merged: list[TfliteOperator] = []
    rest = list(operators)
    while rest:
        first = rest.pop(0)
        if first.kind != "SPACE_TO_BATCH_ND":
            merged.append(first)
            continue
        inner = [first]
        while inner[-1].kind != "BATCH_TO_SPACE_ND":
            if not rest or inner[-1].outputs[:1] != rest[0].inputs[:1]:
                raise InputError(f"{first}: a convolution and BATCH_TO_SPACE_ND must follow, not others")
            inner.append(rest.pop(0))
        merged.append(_merged(model, inner))
    return merged


def _merged(model: TfliteModel, operators: Sequence[TfliteOperator]) -> TfliteOperator:
    before, *inner, behind = operators
    computing = [operator for operator in inner if operator.kind not in _RESHAPES]
    if len(computing) != 1 or computing[0].kind not in _CONVOLUTIONS:
        raise InputError(f"{before}: a convolution alone must be in front of {behind}, not others")
    convolution, options = computing[0], computing[0].options
    distances, around = _numbers(model, before, 1), _numbers(model, before, 2).reshape(-1, 2)
    cut = _numbers(model, behind, 2).reshape(-1, 2)
    axes, steps = len(distances), [options[f"Stride{way}"] for way in "HW"]
    gaps = [options[f"Dilation{way}Factor"] for way in "HW"]
    is_same = np.array_equal(distances, _numbers(model, behind, 1)) and around.shape == cut.shape == (axes, 2)
    is_plain = options["Padding"] == _VALID and steps == [1, 1] == gaps
    if not (is_same and is_plain and 1 <= axes <= len(gaps) and (around >= cut).all() and (cut >= 0).all()):
        raise InputError(f"{before}: blocks must be those of a convolution with gaps in its filters, not others")
    # the axis of a sequence is that of columns
    pads = [0, 0] * (len(gaps) - axes) + (around - cut).reshape(-1).tolist()
    gaps = [1] * (len(gaps) - axes) + distances.tolist()
    wider = {"DilationHFactor": gaps[0], "DilationWFactor": gaps[1], "Around": tuple(pads)}
    return replace(
        convolution,
        inputs=(before.inputs[0], *convolution.inputs[1:]),
        outputs=behind.outputs,
        options={**options, **wider},
    )


def _numbers(model: TfliteModel, operator: TfliteOperator, place: int) -> Ints:
    data = model.tensors[operator.inputs[place]].data if place < len(operator.inputs) else None
    if data is None or data.dtype.kind != "i" or data.size % place:
        raise InputError(f"{operator}: input {place} must be integers in the file, a pair for each axis, not others")
    return data.astype(np.int64).reshape(-1)
