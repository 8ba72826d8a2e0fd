"""Nodes of an ONNX graph, windows of convolutions and poolings, and the input of a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require
from xpulpnn_sw.layers.text import join
from xpulpnn_sw.networks.importers.layer_builder import INPUT, SAMPLE_BITS, SAMPLES, LayerBuilder
from xpulpnn_sw.networks.importers.quantiser import uniform_quantiser
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.importers.values import NO_PADS, Map, Pads, Shape, Sums, Value, scaled, standard_indices
from xpulpnn_sw.networks.network import Scaling

INPUT_CODES = (Fraction(1), Fraction(0))  # of an integer input before its DequantizeLinear
STANDARD = ("", "ai.onnx")
# domain of ONNX Runtime, which has some operators of ONNX for more types; operators of QONNX's channels-last domain are
# not accepted
_RUNTIME = "com.microsoft"
_MOST = 1 << 31  # bound of integer attributes
Inputs = Sequence[Value | None]  # the inputs of a node; None: left out
MAP_AXES, SEQUENCE_AXES = 4, 3
_COLOURS = 4  # most channels of an input whose last axis is taken for channels
_REAL = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16", "UNDEFINED")
_SIGNED = {"UINT8": False, "INT8": True}


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxNode:
    operator: str
    name: str  # that of its output if it has none
    inputs: tuple[str, ...]  # names of tensors; empty: left out
    outputs: tuple[str, ...]  # names of tensors
    attributes: Mapping[str, Any]
    proto: Any = None  # onnx.NodeProto

    def __str__(self) -> str:
        return f"{self.operator} {self.name}"

    def check(self, version: int) -> None:
        from onnx import defs

        require(self.outputs, f"{self}: outputs must be one at least, not none")
        if not defs.has(self.operator):
            return
        if (domain := self.proto.domain) not in (*STANDARD, _RUNTIME):
            raise InputError(f"{self}: domain of the operator must be that of ONNX, not {domain}")
        if defs.has(self.operator, max_inclusive_version=version, domain=""):
            least = defs.get_schema(self.operator, version).min_input
            require(len(self.inputs) >= least, f"{self}: inputs must be {least} at least, not {len(self.inputs)}")

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def number(self, name: str, default: int) -> int:
        return self._whole(name, self.attributes.get(name, default))

    def numbers(self, name: str, default: Sequence[int]) -> list[int]:
        values: Any = self.attributes.get(name, default)
        try:
            items = list(values)
        except TypeError:
            raise InputError(f"{name} must be whole numbers, not {values}") from None
        return [self._whole(name, item) for item in items]

    def numbers_like(self, name: str, default: Sequence[int], *, least: int) -> tuple[int, ...]:
        numbers = tuple(self.numbers(name, default))
        if len(numbers) != len(default) or min(numbers) < least:
            raise InputError(f"{name} must be {len(default)} numbers of {least} at least, not {join(numbers)}")
        return numbers

    def real(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float) or not isfinite(value):
            raise InputError(f"{name} must be a number, not {value}")
        return float(value)

    def _whole(self, name: str, value: Any) -> int:
        if not isinstance(value, int) or abs(value) >= _MOST:
            raise InputError(f"{name} must be a whole number below {_MOST}, not {value}")
        return value


OnnxOperator = Callable[[LayerBuilder, OnnxNode, Inputs], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedWindow:
    reach: tuple[int, int]  # rows and columns of a window, with dilation
    dilations: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    results: tuple[int, int]  # rows and columns of results

    def views(self, planes: NDArray[Any], filling: float = 0) -> NDArray[Any]:
        """Pad planes, and return the elements in each window: ``[plane][row][column][window row][window column]``."""
        top, bottom, left, right = self.pads
        margins: Any = ((0, 0), (top, bottom), (left, right))
        padded = np.pad(planes, margins, constant_values=filling)
        seen = np.lib.stride_tricks.sliding_window_view(padded, self.reach, axis=(1, 2))
        return seen[:, :: self.strides[0], :: self.strides[1], :: self.dilations[0], :: self.dilations[1]]

    def text(self, shape: Shape, rest: str) -> str:
        """Return the layer as on the command line: the shape of the map, ``rest``, strides and pads."""
        height, width, channels = shape
        return f"{height}x{width}x{channels}:{rest}:s={join(self.strides)},p={join(self.pads)}"


def window_of(node: OnnxNode, shape: Shape, kernel: Sequence[int], extra: Pads = NO_PADS) -> PlacedWindow:
    """Return the windows of ``kernel`` rows and columns on a map; ``extra`` is the padding of a preceding ``Pad``."""
    if len(kernel) != 2 or min(kernel) < 1:
        raise InputError(f"windows must have two directions of one element at least, not {join(tuple(kernel))}")
    strides, dilations = (node.numbers_like(name, (1, 1), least=1) for name in ("strides", "dilations"))
    reach = ((kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1)
    size = (shape[0] + extra[0] + extra[1], shape[1] + extra[2] + extra[3])
    own = _pads(node, size, reach, strides)
    top, bottom, left, right = (pad + more for pad, more in zip(own, extra, strict=True))
    if node.number("ceil_mode", 0):
        bottom = _ceil_padding(shape[0] + top, bottom, reach[0], strides[0])
        right = _ceil_padding(shape[1] + left, right, reach[1], strides[1])
    rows = (shape[0] + top + bottom - reach[0]) // strides[0] + 1
    columns = (shape[1] + left + right - reach[1]) // strides[1] + 1
    require(min(rows, columns) >= 1, f"window must be at most the padded map, not {reach[0]}x{reach[1]}")
    pads, results = (top, bottom, left, right), (rows, columns)
    return PlacedWindow(reach=reach, dilations=dilations, strides=strides, pads=pads, results=results)


def _ceil_padding(length: int, trailing: int, reach: int, step: int) -> int:
    windows = min(-((reach - length - trailing) // step) + 1, -(-length // step))
    return max((windows - 1) * step + reach - length, 0)


def _pads(node: OnnxNode, size: tuple[int, int], reach: tuple[int, int], strides: tuple[int, ...]) -> Pads:
    mode = node.text("auto_pad", "NOTSET") or "NOTSET"
    if mode == "NOTSET":
        top, left, bottom, right = node.numbers_like("pads", NO_PADS, least=0)
        return top, bottom, left, right
    if mode == "VALID":
        return NO_PADS
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise InputError(f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {mode}")
    pads: list[int] = []
    for length, width, step in zip(size, reach, strides, strict=True):
        # padding for ceil(length / step) windows
        total = max((-(-length // step) - 1) * step + width - length, 0)
        less, more = total // 2, total - total // 2
        pads += [less, more] if mode == "SAME_UPPER" else [more, less]
    return pads[0], pads[1], pads[2], pads[3]


def map_shape(value: Map | Sums) -> Shape:
    """Return rows, columns and channels of a map; raises :class:`InputError` unless the tensor is in NCHW order."""
    shape = value.shape
    if isinstance(value, Map) and value.stage == INPUT and value.indices.ndim == MAP_AXES:
        shape = (value.indices.shape[2], value.indices.shape[3], value.indices.shape[1])
    if not np.array_equal(value.indices, standard_indices(shape)):
        raise InputError(f"input must be a map of [1][channel][row][column], not of shape {value.indices.shape}")
    return shape


def planar(node: OnnxNode, value: Map | Sums) -> tuple[OnnxNode, Map | Sums]:
    """Turn an operator on a sequence into one on a map of one row; leave other operators unchanged."""
    if value.indices.ndim != SEQUENCE_AXES:
        return node, value
    return replace(node, attributes=flat_attributes(node)), replace(value, indices=value.indices[:, :, np.newaxis])


def flat_attributes(node: OnnxNode) -> Mapping[str, Any]:
    """Return the attributes of an operator on a sequence, changed for a map of one row."""
    attributes = dict(node.attributes)
    for name in ("kernel_shape", "strides", "dilations"):
        if name in attributes:
            attributes[name] = [1, *node.numbers(name, ())]
    if "pads" in attributes:
        before, behind = node.numbers_like("pads", (0, 0), least=-_MOST)
        attributes["pads"] = [0, before, 0, behind]
    return attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    name: str
    shape: tuple[int, ...]  # with a batch of 1
    type: str  # of elements, such as `FLOAT`
    annotation: str = ""  # QONNX's type of its values; empty: none
    batch: int = 1  # images that the model takes at once

    @classmethod
    def of(cls, proto: Any) -> "ModelInput":
        """Read a ``ValueInfoProto``; raises :class:`InputError` unless it describes images of numbers."""
        from onnx import TensorProto

        tensor = proto.type.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
        if not sizes or any(size < 1 for size in sizes[1:]):
            raise InputError(f"input {proto.name} must be images of known size, not of shape {sizes}")
        known = {number: name for name, number in TensorProto.DataType.items()}
        type_ = known.get(tensor.elem_type, "another type")
        require(type_ in (*_REAL, *_SIGNED), f"input {proto.name} must be of FLOAT, UINT8 or INT8, not {type_}")
        return cls(name=proto.name, shape=(1, *sizes[1:]), type=type_, batch=max(sizes[0], 1))

    def sampled(self, options: ImportOptions) -> ImportOptions:
        """Return the options; the input's ``finn_datatype`` annotation replaces a missing range of samples."""
        if options.samples is not None or self.type in _SIGNED or self.annotation[:5] in ("", "FLOAT"):
            return options
        if self.annotation not in _SIGNED:
            raise InputError(f"samples must be given for an input whose numbers are {self.annotation}, not left out")
        low = -(1 << (SAMPLE_BITS - 1)) if _SIGNED[self.annotation] else 0
        return replace(options, samples=(Fraction(low), Fraction(low + SAMPLES)))

    def value(self, options: ImportOptions, builder: LayerBuilder) -> Value:
        """Return the input, normalised by colour if the options say so; raises :class:`InputError` for bad options."""
        stored, is_last = _stored_shape(self.shape)
        ordered = standard_indices(stored)
        indices = np.arange(prod(stored)).reshape(self.shape) if is_last else ordered
        if self.type in _SIGNED:
            return self._codes(options, builder, stored, indices)
        low, high = options.ends
        require(high > low, f"range of the input must be ascending, not {float(low)}..{float(high)}")
        quantiser = uniform_quantiser(Fraction(high - low, SAMPLES), Fraction(0), 0, SAMPLES, "ROUND")
        image = replace(Map.of(quantiser, INPUT, stored, indices), offset=Fraction(low))
        spread = options.by_colour(stored[2])
        if not spread:
            return image
        normalised = scaled(image, [1 / std for _, std in spread], [-mean / std for mean, std in spread])
        if isinstance(normalised, Map) or builder.calibration is None:
            return normalised
        most = (1 << (SAMPLE_BITS - 1)) - 1
        ends = (channel.at(end) for channel in normalised.channels for end in (channel.least, channel.most))
        scale = max(map(abs, ends)) / most
        quantiser = uniform_quantiser(scale, Fraction(0), -most - 1, most, "ROUND")
        return builder.quantised(normalised, replace(quantiser, is_free=True))

    def _codes(self, options: ImportOptions, builder: LayerBuilder, stored: Shape, indices: Any) -> Map:
        if options.samples is not None or options.normalisation or options.quantise is not None:
            raise InputError(
                f"samples, normalisation and bits must be left out with an input of {self.type}, whose numbers "
                "are the samples"
            )
        is_signed = _SIGNED[self.type]
        low = -(1 << (SAMPLE_BITS - 1)) if is_signed else 0
        if is_signed:
            builder.scaling = Scaling(add=low)
        quantiser = uniform_quantiser(Fraction(1), Fraction(0), low, low + SAMPLES, "ROUND")
        return replace(Map.of(quantiser, INPUT, stored, indices), codes=INPUT_CODES)


def _stored_shape(shape: tuple[int, ...]) -> tuple[Shape, bool]:
    match shape[1:]:
        case (size,):
            return (1, 1, size), True
        case (rows, columns):
            return (rows, columns, 1), True
        case (first, second, third):
            is_last = third <= _COLOURS < first
            return ((first, second, third), True) if is_last else ((second, third, first), False)
        case _:
            raise InputError(f"input must have an axis to three besides the image's, not the shape {shape}")
