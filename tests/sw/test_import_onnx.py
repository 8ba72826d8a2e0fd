"""ONNX models as networks: the reference of the network against onnx's own evaluation of the model.

The operators of QONNX, which onnx does not know, are written down here.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from xpulpnn.errors import InputError
from xpulpnn_sim.golden.network import run_reference
from xpulpnn_sw.importers.onnx_file import import_onnx
from xpulpnn_sw.importers.options import ImportOptions
from xpulpnn_sw.networks.described import Described

pytestmark = pytest.mark.unit

IMAGES = 6

DOMAIN = "qonnx.custom_op.general"


class Quant(OpRun):
    op_domain = DOMAIN

    def _run(self, x, scale, zero, bits, narrow=None, rounding_mode=None, signed=None):
        levels = 2 ** int(bits)
        low, high = (-levels // 2 + narrow, levels // 2 - 1) if signed else (0, levels - 1 - narrow)
        whole = np.rint(np.clip(x.astype(np.float64) / scale + zero, low, high))
        return (((whole - zero) * scale).astype(np.float32),)


class BipolarQuant(OpRun):
    op_domain = DOMAIN

    def _run(self, x, scale):
        return (np.where(x >= 0, scale, -scale).astype(np.float32),)


class MultiThreshold(OpRun):
    op_domain = DOMAIN

    def _run(self, x, table, out_bias=None, out_scale=None):
        counts = (np.moveaxis(x, 1, -1)[..., np.newaxis] >= table).sum(axis=-1)
        return ((np.moveaxis(counts, -1, 1) * out_scale + out_bias).astype(np.float32),)


class Trunc(OpRun):
    op_domain = DOMAIN

    def _run(self, x, scale, zero, before, after, rounding_mode=None):
        return ((np.floor((np.rint(x / scale + zero)) / 2 ** (before - after)) - zero).astype(np.float32) * scale,)


class Model:
    """A model that grows node by node; every node has one output, called like the node."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.shape = list(shape)
        self.last = "image"

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
        numbers = [self.constant(one) for one in (scale, zero, bits)]
        more = {"signed": int(signed), "narrow": 0, "rounding_mode": "ROUND"}
        return self.node("Quant", *numbers, source=source, domain=DOMAIN, **more)

    def weights(self, values: Any, scale: Any, bits: int) -> str:
        last = self.last
        number = [self.constant(one) for one in (scale, 0, bits)]
        more = {"signed": 1, "narrow": 1, "rounding_mode": "ROUND"}
        found = self.node("Quant", *number, source=self.constant(values), domain=DOMAIN, **more)
        self.last = last
        return found

    def proto(self) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, self.shape)
        output = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "model", [image], [output], self.tensors)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def saved(self, path: Path) -> Path:
        path.write_bytes(self.proto().SerializeToString())
        return path

    def computed(self, image: NDArray[Any]) -> NDArray[Any]:
        evaluator = ReferenceEvaluator(self.proto(), new_ops=[Quant, BipolarQuant, MultiThreshold, Trunc])
        results: Any = evaluator.run(None, {"image": image.astype(np.float32)})
        return np.asarray(results[0])


def imported(model: Model, path: Path, **options: Any) -> Described:
    whole = ImportOptions(name="model", samples=(Fraction(0), Fraction(255)), **options)
    return import_onnx(model.saved(path / "model.onnx"), whole)


def samples(model: Model, rng: np.random.Generator) -> NDArray[Any]:
    _, channels, rows, columns = model.shape
    return rng.integers(0, 256, (IMAGES, rows, columns, channels))


def check(model: Model, path: Path, scale: float, rng: np.random.Generator, zero: int = 0) -> Described:
    """The network gives, for random images, what the model does, whose results are multiples of ``scale``."""
    described = imported(model, path)
    images = samples(model, rng)
    found = run_reference(described.network, described.batch(images))[-1]
    for image, result in zip(images, found, strict=True):
        real = model.computed(image.transpose(2, 0, 1)[np.newaxis])
        expected = real[0].transpose(1, 2, 0) if real.ndim == 4 else real[0]
        np.testing.assert_allclose((result.reshape(expected.shape) - zero) * scale, expected, rtol=1e-6)
    assert len(np.unique(found)) > 2
    return described


def normalised(model: Model, channels: int, spread: float, rng: np.random.Generator) -> None:
    """Batch normalisation, some factors negative and one 0, roots of variances whole."""
    factor = rng.choice([-1, 1], channels) * rng.choice([0.5, 1, 2], channels)
    factor[-1] = 0
    parameters = (factor, rng.normal(0, 1, channels).round(2), rng.normal(0, spread, channels).round(), spread**2)
    names = [model.constant(np.broadcast_to(one, channels)) for one in parameters]
    model.node("BatchNormalization", *names, epsilon=0.0)


def conv(model: Model, shape: tuple[int, ...], bits: int, rng: np.random.Generator, **attributes: Any) -> None:
    """Convolution with weights of so many bits, a scale for each filter."""
    most = 2 ** (bits - 1) - 1
    scale = 2.0 ** rng.integers(-3, 0, (shape[0], 1, 1, 1))
    weights = rng.integers(-most, most, shape, endpoint=True) * scale
    model.node("Conv", model.weights(weights, scale, bits), kernel_shape=shape[2:], **attributes)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_convolutions_of_a_few_bits(tmp_path: Path, bits: int) -> None:
    """Kernels that are not square, padding, batch normalisation, depthwise, a pool, a product in the order of maps."""
    rng = np.random.default_rng(bits)
    model = Model((1, 2, 7, 6))
    conv(model, (4, 2, 3, 2), bits, rng, pads=[1, 0, 1, 1], strides=[2, 1])
    normalised(model, 4, 256.0 * bits, rng)
    model.node("Relu")
    model.quant(2.0 ** (2 - bits), bits, signed=False)
    model.node("MaxPool", kernel_shape=[2, 2], strides=[1, 1])
    conv(model, (4, 1, 3, 3), bits, rng, pads=[1, 1, 1, 1], group=4)
    model.quant(2.0 ** (1 - bits), bits, signed=True)
    conv(model, (6, 4, 1, 1), bits, rng)
    model.node("MaxPool", kernel_shape=[2, 2])
    model.node("Relu")
    model.quant(2.0 ** (3 - bits), bits, signed=False)
    model.node("Flatten")
    weights = rng.integers(-1, 2, (5, 6 * 2 * 4)) * 0.25
    model.node("Gemm", model.weights(weights, 0.25, 2), model.constant(rng.normal(0, 1, 5).round(3)), transB=1)
    model.quant(0.0625, 8, signed=True)
    described = check(model, tmp_path, 0.0625, rng)
    assert [stage.kind.name for stage in described.network.stages] == [
        *("conv", "maxpool", "depthwise", "pointwise", "maxpool", "linear")
    ]


@pytest.mark.parametrize("bits", [4, 8])
def test_residual_addition(tmp_path: Path, bits: int) -> None:
    """Two layers that read one map, and a sum in other scales."""
    rng = np.random.default_rng(bits)
    model = Model((1, 3, 5, 4))
    conv(model, (4, 3, 3, 3), 4, rng, pads=[1, 1, 1, 1])
    model.node("Relu")
    first = model.quant(8.0, bits, signed=False)
    conv(model, (4, 4, 3, 3), 4, rng, pads=[1, 1, 1, 1])
    second = model.quant(16.0, bits, signed=True)
    model.node("Add", second, source=first)
    model.node("Relu")
    model.quant(16.5, bits, signed=False)
    check(model, tmp_path, 16.5, rng)


def test_signs(tmp_path: Path) -> None:
    """An MLP of single bits, with thresholds for each channel at last."""
    rng = np.random.default_rng(1)
    model = Model((1, 1, 8, 8))
    model.node("Reshape", model.constant([1, -1], np.int64))
    model.node("Sub", model.constant(100))
    model.node("BipolarQuant", model.constant(1), domain=DOMAIN)
    model.node("MatMul", model.constant(rng.choice([-1, 1], (64, 32))))
    normalised(model, 32, 8.0, rng)
    model.node("BipolarQuant", model.constant(0.5), domain=DOMAIN)
    model.node("MatMul", model.constant(rng.choice([-1, 1], (32, 10))))
    table = np.sort(rng.normal(0, 2, (10, 3)).round(2), axis=1)
    model.node("MultiThreshold", model.constant(table), domain=DOMAIN, out_scale=1.0, out_bias=0.0)
    check(model, tmp_path, 1, rng)


def test_average_truncated(tmp_path: Path) -> None:
    """An average times its area, without its lower bits."""
    rng = np.random.default_rng(2)
    model = Model((1, 4, 4, 4))
    model.quant(1.0, 8, signed=False)
    model.node("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    model.node("Mul", model.constant(4))
    model.node("Trunc", *[model.constant(one) for one in (1, 0, 10, 8)], domain=DOMAIN, rounding_mode="FLOOR")
    check(model, tmp_path, 1, rng)


def test_input_in_steps_of_its_own(tmp_path: Path) -> None:
    """A quantiser of the input whose halves go to even numbers, and which ends before the range does."""
    rng = np.random.default_rng(5)
    model = Model((1, 4, 4, 4))
    model.quant(8.0, 4, signed=False)
    conv(model, (4, 4, 3, 3), 4, rng)
    model.quant(4.0, 8, signed=True)
    described = check(model, tmp_path, 4, rng)
    assert described.network.stages[0].kind.name == "depthwise"


def test_quantize_and_dequantize(tmp_path: Path) -> None:
    """QDQ: zero points of maps, which padding has too, halves to even before them, 8-bit weights by channel."""
    rng = np.random.default_rng(3)
    model = Model((1, 3, 6, 6))

    def pair(scale: float, zero: int, kind: Any) -> None:
        numbers = (model.constant(scale), model.constant(zero, kind))
        model.node("QuantizeLinear", *numbers)
        model.node("DequantizeLinear", *numbers)

    def constants(values: Any, scales: Any, kind: Any) -> str:
        last = model.last
        scale, zero = model.constant(scales), model.constant(np.zeros(len(scales)), kind)
        name = model.node("DequantizeLinear", scale, zero, source=model.constant(values, kind), axis=0)
        model.last = last
        return name

    pair(2.0, 5, np.uint8)
    scales = 2.0 ** rng.integers(-7, -4, 4)
    weights = constants(rng.integers(-128, 128, (4, 3, 3, 3)), scales, np.int8)
    bias = constants(rng.integers(-900, 900, 4), scales * 2.0, np.int32)
    model.node("Conv", weights, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    pair(41.7, -20, np.int8)
    model.node("GlobalAveragePool")
    pair(4.3, 7, np.uint8)
    described = check(model, tmp_path, 4.3, rng, zero=7)
    assert [stage.pad for stage in described.network.stages] == [0, 5, 0]


def floating(rng: np.random.Generator) -> Model:
    model = Model((1, 1, 8, 8))
    model.node("Conv", model.constant(rng.normal(0, 0.1, (4, 1, 3, 3))), auto_pad="SAME_UPPER", kernel_shape=[3, 3])
    model.node("Relu")
    model.node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    model.node("Reshape", model.constant([1, 64], np.int64))
    model.node("MatMul", model.constant(rng.normal(0, 0.1, (64, 5))))
    model.node("Add", model.constant(rng.normal(0, 9, 5)))
    model.node("Softmax")
    return model


@pytest.mark.parametrize(("bits", "least"), [(8, 0.999), (4, 0.95)])
def test_floating_point_quantised(tmp_path: Path, bits: int, least: float) -> None:
    """Results go with those of the model, less closely in fewer bits."""
    rng = np.random.default_rng(4)
    model = floating(rng)
    images, notes = samples(model, rng), list[str]()
    described = imported(model, tmp_path, quantise=bits, images=images, note=notes.append)
    found = run_reference(described.network, described.batch(images))[-1]
    model.nodes.pop()
    model.last = model.nodes[-1].output[0]
    expected = np.array([model.computed(one.transpose(2, 0, 1)[np.newaxis])[0] for one in images])
    assert np.corrcoef(found.reshape(IMAGES, -1).ravel(), expected.ravel())[0, 1] > least
    assert any("Softmax" in note for note in notes)


def unknown(model: Model) -> None:
    model.node("Sigmoid")


def unquantised(model: Model) -> None:
    model.node("Conv", model.constant(np.full((1, 2, 1, 1), 0.3)))


def misshapen(model: Model) -> None:
    model.node("Conv", model.constant(np.ones((1, 3, 2, 2))))


def unending(model: Model) -> None:
    model.node("Conv", model.constant(np.ones((3, 2, 2, 2))))
    model.node("Relu")
    model.node("Conv", model.constant(np.ones((1, 3, 2, 2))))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (unknown, "operator of a node must be one of .*, not Sigmoid sigmoid0"),
        (unquantised, "Conv conv0: constant0 must come from a quantiser"),
        (misshapen, "Conv conv0: weights must go with 2 channels"),
        (unending, "Conv conv2: relu1 must come from a quantiser"),
    ],
)
def test_what_no_layer_stands_for(tmp_path: Path, build: Callable[[Model], None], message: str) -> None:
    model = Model((1, 2, 4, 4))
    build(model)
    with pytest.raises(InputError, match=message):
        imported(model, tmp_path)


@pytest.mark.parametrize("length", [0, 10, 400])
def test_files_that_are_no_models(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(floating(np.random.default_rng(0)).proto().SerializeToString()[:length])
    with pytest.raises(InputError, match="model must be an ONNX file"):
        import_onnx(path, ImportOptions(name="model"))
