"""Reader of TFLite files, and the choice of the operators that become layers.

Tensors, operators and options are all read at once, so that truncated files are detected.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require, unreadable
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
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    **dict.fromkeys(("MUL", "DIV"), ("MulOptions", ("FusedActivationFunction",))),
    "GELU": ("GeluOptions", ("Approximate",)),
    "STRIDED_SLICE": ("StridedSliceOptions", ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")),
    "GATHER": ("GatherOptions", ("Axis",)),
    "UNPACK": ("UnpackOptions", ("Axis",)),
    "PACK": ("PackOptions", ("Axis",)),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), ("SpaceToDepthOptions", ("BlockSize",))),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", ("AlignCorners", "HalfPixelCenters")),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ("AlignCorners", "HalfPixelCenters")),
    "TRANSPOSE_CONV": ("TransposeConvOptions", ("Padding", "StrideH", "StrideW", "FusedActivationFunction")),
}


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
    require(content[4:8] == TFLITE_MAGIC, f"model must be a TFLite file, not {path}")
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
        name, fields = _OPTIONS[kind]
        if table is None and kind not in ("STRIDED_SLICE", "GATHER", "UNPACK", "PACK"):
            raise ValueError(f"no options of operator {number}")
        if table is None:
            fields, table = (), operator._tab
        read = getattr(library, name)()
        read.Init(table.Bytes, table.Pos)
        numbers = {field: getattr(read, field)() for field in fields}
        options = {field: value if isinstance(value, float) else int(value) for field, value in numbers.items()}
    inputs, outputs = _integers(operator.InputsAsNumpy()), _integers(operator.OutputsAsNumpy())
    return TfliteOperator(index=number, kind=kind, inputs=inputs, outputs=outputs, options=options)
