"""ONNX models that grow node by node, and what they compute by onnx's own evaluation.

The operators of QONNX and of ONNX Runtime, which onnx does not know, are written down here.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.onnx_file import import_onnx
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.network import NetworkModel

IMAGES = 4

DOMAIN, MICROSOFT = "qonnx.custom_op.general", "com.microsoft"


def operator(domain: str, name: str) -> Callable[[Any], Any]:
    """A function of the inputs and attributes as an operator of onnx's evaluation."""

    def made(compute: Any) -> Any:
        return type(
            name, (OpRun,), {"op_domain": domain, "_run": lambda _, *inputs, **rest: (compute(*inputs, **rest),)}
        )

    return made


@operator(DOMAIN, "Quant")
def quant(x, scale, zero, bits, narrow, signed, rounding_mode):
    levels = 2 ** int(bits)
    low, high = (-levels // 2 + narrow, levels // 2 - 1) if signed else (0, levels - 1 - narrow)
    whole = np.rint(np.clip(x.astype(np.float64) / scale + zero, low, high))
    return ((whole - zero) * scale).astype(np.float32)


@operator(DOMAIN, "BipolarQuant")
def bipolar_quant(x, scale):
    return np.where(x >= 0, scale, -scale).astype(np.float32)


@operator(DOMAIN, "MultiThreshold")
def multi_threshold(x, table, out_bias, out_scale):
    counts = (np.moveaxis(x, 1, -1)[..., np.newaxis] >= table).sum(axis=-1)
    return (np.moveaxis(counts, -1, 1) * out_scale + out_bias).astype(np.float32)


@operator(DOMAIN, "Trunc")
def trunc(x, scale, zero, before, *more, rounding_mode, narrow=0, signed=1):
    if len(more) == 1:
        whole = np.floor(np.rint(x / scale + zero) / 2 ** (before - more[0]))
        return (whole - zero).astype(np.float32) * scale
    behind, after = more
    unit = 2.0 ** np.round(np.log2(behind / scale))
    low, high = (-(2 ** (int(after) - 1)) + narrow, 2 ** (int(after) - 1) - 1) if signed else (0, 2 ** int(after) - 1)
    rounded = {"FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.rint}[rounding_mode]
    whole = rounded(np.clip(np.rint(x.astype(np.float64) / scale + zero) / unit, low, high))
    return ((whole - zero / unit) * behind).astype(np.float32)


def reals(values, scale, zero):
    return (values.astype(np.int64) - np.int64(zero)) * np.float64(scale)


def codes(values, scale, zero):
    ends = np.iinfo(zero.dtype)
    return np.clip(np.rint(values / np.float64(scale)) + zero, ends.min, ends.max).astype(zero.dtype)


@operator(MICROSOFT, "QLinearAdd")
def q_linear_add(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero):
    return codes(reals(a, a_scale, a_zero) + reals(b, b_scale, b_zero), scale, zero)


@operator(MICROSOFT, "QLinearMul")
def q_linear_mul(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero):
    return codes(reals(a, a_scale, a_zero) * reals(b, b_scale, b_zero), scale, zero)


@operator(MICROSOFT, "QLinearConcat")
def q_linear_concat(scale, zero, *parts, axis):
    every = [reals(*parts[place : place + 3]) for place in range(0, len(parts), 3)]
    return codes(np.concatenate(every, axis), scale, zero)


@operator(MICROSOFT, "QLinearGlobalAveragePool")
def q_linear_global_average_pool(x, x_scale, x_zero, scale, zero, channels_last):
    return codes(reals(x, x_scale, x_zero).mean(axis=(2, 3), keepdims=True), scale, zero)


@operator(MICROSOFT, "QLinearAveragePool")
def q_linear_average_pool(x, x_scale, x_zero, scale, zero, channels_last, kernel_shape, strides):
    seen = np.lib.stride_tricks.sliding_window_view(reals(x, x_scale, x_zero), kernel_shape, axis=(2, 3))
    return codes(seen[:, :, :: strides[0], :: strides[1]].mean(axis=(4, 5)), scale, zero)


@operator(MICROSOFT, "QGemm")
def q_gemm(a, a_scale, a_zero, b, b_scale, b_zero, c, scale, zero, **attributes):
    weights = reals(b.T if attributes["transB"] else b, b_scale, b_zero)
    sums = reals(a, a_scale, a_zero) @ weights + c * np.float64(a_scale) * np.float64(b_scale)
    return codes(sums, scale, zero)


@operator("", "BatchNormalization")
def batch_normalization(x, scale, bias, mean, variance, epsilon=1e-5, **attributes):
    """Early versions, in which onnx takes the means of the input."""
    column = (-1, *(1,) * (x.ndim - 2))
    deviation = np.sqrt(variance.astype(np.float64) + epsilon)
    real = (x - mean.reshape(column)) / deviation.reshape(column) * scale.reshape(column) + bias.reshape(column)
    return real.astype(np.float32)


OPERATORS = [quant, bipolar_quant, multi_threshold, trunc, batch_normalization]
OPERATORS += [q_linear_mul, q_linear_concat, q_linear_add, q_linear_global_average_pool, q_linear_average_pool, q_gemm]


class Model:
    """A model that grows node by node; every node has one output, called like the node.

    ``shape`` of an input of ``kind``; the first size may be a name, for as many images as there are.
    """

    def __init__(self, shape: Sequence[Any], kind: int = TensorProto.FLOAT, opset: int = 21) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.shape, self.kind, self.opset = list(shape), kind, opset
        self.last = "image"

    def pair(self, scale: float, zero: int, kind: Any, source: str | None = None) -> str:
        """A quantiser, and what its integers stand for."""
        numbers = (self.constant(scale), self.constant(zero, kind))
        self.node("QuantizeLinear", *numbers, source=source)
        return self.node("DequantizeLinear", *numbers)

    def integers(self, values: Any, scales: Any, kind: Any, axis: int = 0, zero: int = 0) -> str:
        """Constants with scales along an axis, and a zero point."""
        last = self.last
        scale, point = self.constant(scales), self.constant(np.full(np.shape(scales), zero), kind)
        name = self.node("DequantizeLinear", scale, point, source=self.constant(values, kind), axis=axis)
        self.last = last
        return name

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        name = f"constant{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def node(self, operator: str, *more: str, source: str | None = None, domain: str = "", **attributes: Any) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        inputs = [self.last if source is None else source, *more]
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        self.last = name
        return name

    def quant(self, scale: float, bits: int, *, signed: bool, source: str | None = None, zero: float = 0) -> str:
        numbers = [self.constant(value) for value in (scale, zero, bits)]
        more = {"signed": int(signed), "narrow": 0, "rounding_mode": "ROUND"}
        return self.node("Quant", *numbers, source=source, domain=DOMAIN, **more)

    def weights(self, values: Any, scale: Any, bits: int) -> str:
        last = self.last
        number = [self.constant(value) for value in (scale, 0, bits)]
        more = {"signed": 1, "narrow": 1, "rounding_mode": "ROUND"}
        output = self.node("Quant", *number, source=self.constant(values), domain=DOMAIN, **more)
        self.last = last
        return output

    def proto(self) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", self.kind, self.shape)
        output = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "model", [image], [output], self.tensors)
        versions = [helper.make_opsetid(*version) for version in (("", self.opset), (DOMAIN, 1), (MICROSOFT, 1))]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def saved(self, path: Path) -> Path:
        path.write_bytes(self.proto().SerializeToString())
        return path

    def computed(self, image: NDArray[Any]) -> NDArray[Any]:
        evaluator = ReferenceEvaluator(self.proto(), new_ops=OPERATORS)
        results: Any = evaluator.run(None, {"image": image.astype(helper.tensor_dtype_to_np_dtype(self.kind))})
        return np.asarray(results[0])


def imported(model: Model, path: Path, **options: Any) -> NetworkModel:
    usual = {"samples": (Fraction(0), Fraction(255))} if model.kind == TensorProto.FLOAT else {}
    return import_onnx(model.saved(path / "model.onnx"), ImportOptions(name="model", **(usual | options)))


def samples(model: Model, rng: np.random.Generator) -> NDArray[Any]:
    """Random images: rows, columns and colours, or as the model has them where there are no colours."""
    shape = model.shape[1:]
    return rng.integers(0, 256, (IMAGES, *(shape[1:] if len(shape) == 3 else shape), *shape[: len(shape) - 2]))


def check(
    model: Model,
    path: Path,
    scale: float,
    rng: np.random.Generator,
    zero: int | None = 0,
    *,
    given: Callable[[NDArray[Any]], NDArray[Any]] = lambda image: image,
    near: int = 0,
    **options: Any,
) -> NetworkModel:
    """The network gives, for random images, what the model does, whose results are multiples of ``scale``.

    The model takes what ``given`` makes of an image, colours first. Without ``zero`` results are the model's but for
    a number that all have in common. A few may be ``near`` from the model's where it says that it has other steps.
    """
    notes: list[str] = []
    described = imported(model, path, **({"note": notes.append} | options))
    assert near or not any("by 1 at the most" in note for note in notes)
    images = samples(model, rng)
    results = run_reference(described.network, described.batch(images))[-1]
    seen: set[float] = set()
    for image, result in zip(images, results, strict=True):
        ordered = image.transpose(2, 0, 1) if len(model.shape) == 4 else image
        real = model.computed(given(ordered)[np.newaxis])
        expected = np.moveaxis(real[0], 0, -1)
        seen |= {*expected.ravel().tolist()}
        own = result.reshape(expected.shape)
        zero = int(own.flat[0] - round(float(expected.flat[0] / scale))) if zero is None else zero
        np.testing.assert_allclose((own - zero) * scale, expected, rtol=1e-6, atol=near * scale)
    assert len(seen) > 2
    return described


def normalised(model: Model, channels: int, spread: float, rng: np.random.Generator) -> None:
    """Batch normalisation, some factors negative and one 0, roots of variances whole."""
    factor = rng.choice([-1, 1], channels) * rng.choice([0.5, 1, 2], channels)
    factor[-1] = 0
    parameters = (factor, rng.normal(0, 1, channels).round(2), rng.normal(0, spread, channels).round(), spread**2)
    names = [model.constant(np.broadcast_to(parameter, channels)) for parameter in parameters]
    model.node("BatchNormalization", *names, epsilon=0.0)


def conv(model: Model, shape: tuple[int, ...], bits: int, rng: np.random.Generator, **attributes: Any) -> None:
    """Convolution with weights of so many bits, a scale for each filter."""
    most = 2 ** (bits - 1) - 1
    scale = 2.0 ** rng.integers(-3, 0, (shape[0], *[1] * len(shape[1:])))
    weights = rng.integers(-most, most, shape, endpoint=True) * scale
    model.node("Conv", model.weights(weights, scale, bits), kernel_shape=shape[2:], **attributes)


def kinds(described: Any) -> list[str]:
    return [stage.kind.name for stage in described.network.stages]


def correlation(model: Model, described: Any, images: Any, given: Any) -> float:
    results = run_reference(described.network, described.batch(images))[-1]
    expected = np.array([model.computed(image.transpose(2, 0, 1)[np.newaxis])[0] for image in given])
    return np.corrcoef(results.ravel(), expected.ravel())[0, 1]
