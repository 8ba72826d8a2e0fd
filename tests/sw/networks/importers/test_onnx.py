"""ONNX models as networks: the reference of the network against onnx's own evaluation of the model."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data
from onnx.reference import ReferenceEvaluator

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.onnx_file import import_onnx
from xpulpnn_sw.networks.importers.registry import ImportOptions, request_of

from .onnx_models import DOMAIN, IMAGES, OPERATORS, Model, check, conv, imported, normalised, samples


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


def test_ranges_behind_normalisations_of_early_versions(tmp_path: Path) -> None:
    """Of one image the channels themselves have other means than the model's."""
    rng = np.random.default_rng(8)
    model = Model((1, 1, 6, 6), opset=9)
    model.node("Conv", model.constant(rng.normal(0, 0.1, (4, 1, 3, 3))), kernel_shape=[3, 3])
    parameters = (np.ones(4), np.arange(4), np.full(4, 20.0), np.full(4, 4.0))
    model.node("BatchNormalization", *map(model.constant, parameters))
    model.node("Flatten")
    model.node("MatMul", model.constant(rng.normal(0, 0.1, (64, 5))))
    images = samples(model, rng)
    found = imported(model, tmp_path, quantise=request_of("8"), images=images)
    scores = run_reference(found.network, found.batch(images))[-1].reshape(IMAGES, -1)
    real = [model.computed(one.transpose(2, 0, 1)[np.newaxis])[0] for one in images]
    assert np.corrcoef(scores.ravel(), np.array(real).ravel())[0, 1] > 0.999


@pytest.mark.parametrize(("bits", "least"), [(8, 0.999), (4, 0.95)])
def test_floating_point_quantised(tmp_path: Path, bits: int, least: float) -> None:
    """Results go with those of the model, less closely in fewer bits."""
    rng = np.random.default_rng(4)
    model = floating(rng)
    images, notes = samples(model, rng), list[str]()
    described = imported(model, tmp_path, quantise=request_of(str(bits)), images=images, note=notes.append)
    found = run_reference(described.network, described.batch(images))[-1]
    model.nodes.pop()
    model.last = model.nodes[-1].output[0]
    expected = np.array([model.computed(one.transpose(2, 0, 1)[np.newaxis])[0] for one in images])
    assert np.corrcoef(found.reshape(IMAGES, -1).ravel(), expected.ravel())[0, 1] > least
    assert any("Softmax" in note for note in notes)


@pytest.mark.parametrize("length", [0, 10, 400])
def test_files_that_are_no_models(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(floating(np.random.default_rng(0)).proto().SerializeToString()[:length])
    with pytest.raises(InputError, match="model must be an ONNX file"):
        import_onnx(path, ImportOptions(name="model"))


def test_damaged_files(tmp_path: Path) -> None:
    """Files that break off, and files with other bytes: another network, or a line."""
    path = tmp_path / "model.onnx"
    rng = np.random.default_rng(6)
    whole = floating(rng).proto().SerializeToString()
    for number in range(150):
        content = np.frombuffer(whole, np.uint8).copy()
        if number % 3:
            content[rng.integers(0, len(whole), 4)] = rng.integers(0, 256, 4)
        else:
            content = content[: rng.integers(0, len(whole))]
        path.write_bytes(content.tobytes())
        with suppress(XpulpnnError):
            import_onnx(path, ImportOptions(name="model"))


def test_tensors_in_files_that_are_missing(tmp_path: Path) -> None:
    model = floating(np.random.default_rng(0))
    tensor = model.tensors[0]
    set_external_data(tensor, location="weights.bin")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    with pytest.raises(InputError, match=r"^tensor constant0 must be readable, not broken: ") as found:
        imported(model, tmp_path)
    assert "weights.bin" in str(found.value)


def test_tfc(nets: Path) -> None:
    """Its scores are those of the operators of QONNX, but for what all classes have in common."""
    path = nets / "TFC_1W1A.onnx"
    images = np.random.default_rng(7).integers(0, 256, (IMAGES, 28, 28))
    described = import_onnx(path, ImportOptions(name="tfc"))
    found = run_reference(described.network, described.batch(images))[-1].reshape(IMAGES, -1)
    proto = onnx.load(path)
    for node in proto.graph.node:
        # of the tool that wrote it
        node.domain = DOMAIN if node.domain else ""
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    evaluator = ReferenceEvaluator(proto, new_ops=OPERATORS)
    for image, own in zip(images, found, strict=True):
        given = (image / 255).reshape(1, 1, 28, 28).astype(np.float32)
        real: Any = evaluator.run(None, {evaluator.input_names[0]: given})
        scores = np.asarray(real[0]).ravel()
        factor = np.ptp(scores) / np.ptp(own)
        np.testing.assert_allclose(own * factor - scores, (own * factor - scores)[0], atol=1e-4)
