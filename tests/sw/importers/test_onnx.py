"""ONNX models as networks: the reference of the network against onnx's own evaluation of the model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.golden.network import run_reference
from xpulpnn_sw.importers.onnx_file import import_onnx
from xpulpnn_sw.importers.options import ImportOptions

from .onnx_models import DOMAIN, IMAGES, Model, check, conv, imported, normalised, samples

pytestmark = pytest.mark.unit


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

    model.pair(2.0, 5, np.uint8)
    scales = 2.0 ** rng.integers(-7, -4, 4)
    weights = model.integers(rng.integers(-128, 128, (4, 3, 3, 3)), scales, np.int8)
    bias = model.integers(rng.integers(-900, 900, 4), scales * 2.0, np.int32)
    model.node("Conv", weights, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    model.pair(41.7, -20, np.int8)
    model.node("GlobalAveragePool")
    model.pair(4.3, 7, np.uint8)
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
