"""ONNX models as networks: the reference of the network against onnx's own evaluation of the model."""

from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data
from onnx.reference import ReferenceEvaluator

from xpulpnn.errors import InputError
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.onnx_file import import_onnx
from xpulpnn_sw.networks.importers.registry import ImportOptions, request_of

from .damage import damaged, fault
from .onnx_models import DOMAIN, OPERATORS, Model, check, conv, correlation, imported, kinds, normalised, samples

pytestmark = pytest.mark.flow


@pytest.mark.parametrize("bits", [2, 3, 8])
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
    assert kinds(described) == ["conv", "maxpool", "depthwise", "pointwise", "maxpool", "linear"]


def test_signs(tmp_path: Path) -> None:
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


def test_input_in_steps_of_its_own(tmp_path: Path) -> None:
    """A quantiser of the input whose halves go to even numbers, and which ends before the range does."""
    rng = np.random.default_rng(5)
    model = Model((1, 4, 4, 4))
    model.quant(8.0, 4, signed=False)
    conv(model, (4, 4, 3, 3), 4, rng)
    model.quant(4.0, 8, signed=True)
    assert kinds(check(model, tmp_path, 4, rng))[0] == "depthwise"


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
    """The channels of one image have other means than the model's."""
    rng = np.random.default_rng(8)
    model = Model((1, 1, 6, 6), opset=9)
    model.node("Conv", model.constant(rng.normal(0, 0.1, (4, 1, 3, 3))), kernel_shape=[3, 3])
    parameters = (np.ones(4), np.arange(4), np.full(4, 20.0), np.full(4, 4.0))
    model.node("BatchNormalization", *map(model.constant, parameters))
    model.node("Flatten")
    model.node("MatMul", model.constant(rng.normal(0, 0.1, (64, 5))))
    images = samples(model, rng)
    described = imported(model, tmp_path, quantise=request_of("8"), images=images)
    assert correlation(model, described, images, images) > 0.999


@pytest.mark.parametrize(("bits", "least"), [(8, 0.999), (4, 0.95)])
def test_floating_point_quantised(tmp_path: Path, bits: int, least: float) -> None:
    rng = np.random.default_rng(4)
    model = floating(rng)
    images, notes = samples(model, rng), list[str]()
    described = imported(model, tmp_path, quantise=request_of(str(bits)), images=images, note=notes.append)
    model.nodes.pop()
    model.last = model.nodes[-1].output[0]
    assert correlation(model, described, images, images) > least
    assert any("Softmax" in note for note in notes)


def test_damaged_files(tmp_path: Path) -> None:
    """Files that break off, and files with other bytes: another network, or a line."""
    path = tmp_path / "model.onnx"
    rng = np.random.default_rng(6)
    whole = floating(rng).proto().SerializeToString()
    for length in (0, 10, 400):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="model must be an ONNX file"):
            import_onnx(path, ImportOptions(name="model"))
    for number in range(40):
        assert not fault(damaged(whole, Random(number)), path), number


def test_tensors_in_files_that_are_missing(tmp_path: Path) -> None:
    model = floating(np.random.default_rng(0))
    tensor = model.tensors[0]
    set_external_data(tensor, location="weights.bin")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    with pytest.raises(InputError, match=r"^tensor constant0 must be readable, not broken: ") as raised:
        imported(model, tmp_path)
    assert "weights.bin" in str(raised.value)


def test_tfc(nets: Path) -> None:
    """Its scores are those of the operators of QONNX, but for what all classes have in common."""
    path = nets / "TFC_1W1A.onnx"
    images = np.random.default_rng(7).integers(0, 256, (8, 28, 28))
    described = import_onnx(path, ImportOptions(name="tfc"))
    results = run_reference(described.network, described.batch(images))[-1].reshape(len(images), -1)
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.domain = DOMAIN if node.domain else ""
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    evaluator = ReferenceEvaluator(proto, new_ops=OPERATORS)
    for image, own in zip(images, results, strict=True):
        given = (image / 255).reshape(1, 1, 28, 28).astype(np.float32)
        real: Any = evaluator.run(None, {evaluator.input_names[0]: given})
        scores = np.asarray(real[0]).ravel()
        factor = np.ptp(scores) / np.ptp(own)
        np.testing.assert_allclose(own * factor - scores, (own * factor - scores)[0], atol=1e-4)


def test_depthwise_separable_with_zero_points(tmp_path: Path) -> None:
    """QDQ as of static quantisation: no map has its 0 at an end, pads differ, ReLU6, Softmax between quantisers."""
    rng = np.random.default_rng(11)
    model = Model(("images", 3, 11, 9))
    model.pair(0.5, 77, np.uint8)
    before = 0.5

    def layer(shape: tuple[int, ...], scale: float, zero: int, **attributes: Any) -> None:
        nonlocal before
        # of every channel such that results spread over the range
        size = int(np.prod(shape[1:]))
        scales = 2.0 ** (rng.integers(-1, 1, shape[0]) + np.round(np.log2(scale / before / size**0.5 / 40)))
        weights = model.integers(rng.integers(-128, 128, shape), scales, np.int8)
        bias = model.integers(rng.integers(-900, 900, shape[0]), scales * before, np.int32)
        model.node("Conv", weights, bias, kernel_shape=shape[2:], **attributes)
        model.node("Clip", model.constant(0), model.constant(6 * scale * 40))
        model.pair(scale, zero, np.int8)
        before = scale

    layer((8, 3, 3, 3), 0.7, -100, strides=[2, 2], pads=[0, 0, 1, 1])
    layer((8, 1, 3, 3), 0.6, -90, pads=[1, 1, 1, 1], group=8)
    layer((12, 8, 1, 1), 1.3, -128)
    layer((12, 1, 3, 3), 0.7, 3, strides=[2, 1], pads=[1, 0, 0, 2], group=12)
    layer((6, 12, 1, 1), 1.1, -20)
    model.node("GlobalAveragePool")
    model.pair(0.45, -77, np.int8)
    model.node("Flatten")
    weights = model.integers(rng.integers(-128, 128, (5, 6)), 2.0 ** rng.integers(-9, -7, 5), np.int8)
    model.node("Gemm", weights, transB=1)
    model.pair(1.5, 20, np.uint8)
    described = check(model, tmp_path, 1.5, rng, zero=20)
    layers = ("conv", "depthwise", "pointwise", "depthwise", "pointwise")
    assert [kind for kind in kinds(described) if kind != "avgpool"] == [*layers, "linear"]
    assert kinds(described).count("avgpool") == 6
    pads = [stage.pad for stage in described.network.stages if stage.multiplies]
    assert [bool(pad) for pad in pads] == [True, True, False, True, False, False]
    model.node("Softmax")
    model.pair(1 / 256, 0, np.uint8)
    notes: list[str] = []
    again = imported(model, tmp_path, note=notes.append)
    assert kinds(again) == kinds(described)
    left_out = [note.split(" is left out")[0] for note in notes if "left out" in note]
    assert left_out == [f"Softmax {model.nodes[-3].name}"]


@pytest.mark.parametrize("bits", [2, 3])
def test_few_bits_with_branches(tmp_path: Path, bits: int) -> None:
    rng = np.random.default_rng(bits)
    model = Model((1, 1, 9, 12))
    model.quant(64.0, 2, signed=False)
    conv(model, (8, 1, 5, 3), 2, rng, strides=[1, 2], pads=[2, 0, 2, 1])
    model.node("Relu")
    first = model.quant(32.0, bits, signed=False)
    conv(model, (8, 8, 1, 7), 2, rng, pads=[0, 4, 0, 2])
    model.node("BatchNormalization", *(model.constant(np.full(8, own)) for own in (-0.5, 3.0, 1.0, 4.0)), epsilon=0.0)
    second = model.quant(8.0, bits, signed=True)
    conv(model, (8, 8, 1, 1), 2, rng)
    third = model.quant(4.0, bits, signed=True)
    model.node("Add", third, source=second)
    model.quant(6.0, bits, signed=True)
    model.node("Sub", first)
    model.quant(24.0, 4, signed=True)
    model.node("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 0, 0])
    model.node("Flatten")
    shape = (8 * 4 * 3, 6)
    model.node("MatMul", model.weights(rng.integers(-1, 2, shape) * 0.5, 0.5, 2))
    model.quant(8.0, 8, signed=True)
    described = check(model, tmp_path, 8.0, rng)
    assert kinds(described).count("add") == 2


@pytest.mark.parametrize("integers", [False, True])
def test_perceptron_with_residual_additions(tmp_path: Path, *, integers: bool) -> None:
    """Products of rows, and sums of what is before and behind two of them; QONNX of 4 bits, QDQ with zero points."""
    rng = np.random.default_rng(12)
    model = Model((1, 6, 8))
    model.node("Reshape", model.constant([1, -1], np.int64))

    def quantised(scale: float, zero: int) -> str:
        return model.pair(scale, zero, np.int8) if integers else model.quant(scale * 16, 4, signed=True)

    def product(shape: tuple[int, int], scale: float, zero: int) -> str:
        if integers:
            weights = model.integers(rng.integers(-100, 101, shape), np.full(shape[1], 2.0**-8), np.int8, axis=1)
        else:
            weights = model.weights(rng.integers(-7, 8, shape) * 2.0**-4, 2.0**-4, 4)
        model.node("MatMul", weights)
        model.node("Add", model.constant(rng.integers(-20, 20, shape[1])))
        return quantised(scale, zero)

    product((48, 32), 4.1 if integers else 4.0, -30)
    for scale, zero in ((2.1, 9), (3.3, -4)) if integers else ((2.0, 0), (4.0, 0)):
        before = model.last
        product((32, 24), scale, zero - 5)
        product((24, 32), scale, zero)
        model.node("Add", before)
        model.node("Relu")
        quantised(scale * 2, -100)
    product((32, 5), 4.1 if integers else 4.0, 11)
    described = check(model, tmp_path, 4.1 if integers else 64.0, rng, zero=11 if integers else 0, near=2 * integers)
    # besides a layer where a ReLU clips inside the range of the numbers, or where halves go to even numbers
    extra = "avgpool" if integers else "depthwise"
    assert extra in kinds(described)
    others = [kind for kind in kinds(described) if kind != extra]
    assert others == ["linear", *["linear", "linear", "add"] * 2, "linear"]


def test_integers_of_fewer_bits_than_their_type(tmp_path: Path) -> None:
    """QDQ with a clip between, as Brevitas writes 4 and 3 bits: weights and maps of that width."""
    rng = np.random.default_rng(23)
    model = Model((1, 3, 6, 5))

    def clipped(scale: Any, kind: Any, low: int, high: int, source: str | None = None, **attributes: Any) -> str:
        numbers = (model.constant(scale), model.constant(np.zeros(np.shape(scale)), kind))
        model.node("QuantizeLinear", *numbers, source=source, **attributes)
        model.node("Clip", model.constant(low, kind), model.constant(high, kind))
        return model.node("DequantizeLinear", *numbers, **attributes)

    def weights(shape: tuple[int, ...]) -> str:
        last = model.last
        scales = 2.0 ** rng.integers(-3, 0, shape[0])
        values = rng.normal(0, 1, shape)
        output = clipped(scales, np.int8, -7, 7, model.constant(values), axis=0)
        model.last = last
        return output

    clipped(17.37, np.uint8, 0, 15)
    model.node("Conv", weights((8, 3, 3, 3)), pads=[1, 1, 1, 1])
    clipped(22.31, np.int8, -4, 3)
    model.node("Conv", weights((4, 8, 2, 2)))
    clipped(9.73, np.int8, -128, 127)
    described = check(model, tmp_path, 9.73, rng)
    assert [str(stage.precision) for stage in described.network.stages] == ["4x4xi4", "i4x4xi8"]


def test_gaps_and_groups(tmp_path: Path) -> None:
    """Convolutions with gaps, depthwise too, of groups, and of several filters for each channel."""
    rng = np.random.default_rng(13)
    model = Model((1, 4, 10, 9))
    conv(model, (6, 2, 3, 2), 4, rng, group=2, dilations=[2, 3], pads=[2, 1, 1, 3], strides=[1, 2])
    model.quant(16.0, 4, signed=True)
    conv(model, (6, 1, 3, 3), 4, rng, group=6, dilations=[1, 2], pads=[1, 2, 1, 2])
    model.quant(8.0, 4, signed=True)
    conv(model, (12, 1, 2, 2), 4, rng, group=6, auto_pad="SAME_LOWER")
    model.quant(4.0, 8, signed=True)
    notes: list[str] = []
    described = check(model, tmp_path, 4.0, rng, note=notes.append)
    assert kinds(described) == ["conv", "depthwise", "conv"]
    assert str(described.network.stages[0].layer).startswith("10x9x4:6x5x4")
    assert len(notes) == 5


@pytest.mark.parametrize("last", [False, True])
def test_sequences(tmp_path: Path, *, last: bool) -> None:
    rng = np.random.default_rng(14)
    model = Model((1, 12, 5) if last else (1, 5, 12))
    if last:
        model.node("Transpose", perm=[0, 2, 1])
    conv(model, (8, 5, 3), 4, rng, pads=[1, 2], strides=[1])
    model.node("Relu")
    model.quant(64.0, 4, signed=False)
    model.node("MaxPool", kernel_shape=[2], strides=[2])
    conv(model, (8, 1, 3), 4, rng, group=8, dilations=[2], pads=[2, 2])
    model.quant(16.0, 8, signed=True)
    model.node("AveragePool", kernel_shape=[3], strides=[3])
    model.quant(8.0, 8, signed=True)
    check(model, tmp_path, 8.0, rng)


def test_as_frameworks_write_them(tmp_path: Path) -> None:
    """Channels last in the file, a node for the pads, shapes that are computed, a mean over axes, images counted -1."""
    rng = np.random.default_rng(15)
    model = Model(("N", 3, 8, 7))
    model.quant(1.0, 8, signed=False)
    model.node("Pad", model.constant([0, 0, 1, 0, 0, 0, 2, 1], np.int64), model.constant(0), mode="constant")
    conv(model, (4, 3, 3, 3), 4, rng, strides=[2, 2])
    model.node("Clip", model.constant(0), model.constant(600))
    model.quant(16.3, 8, signed=False)
    model.node("Pad", model.constant([0, 0, 0, 1, 0, 0, 1, 0], np.int64))
    model.node("MaxPool", kernel_shape=[2, 2], strides=[1, 1])
    before = model.last
    model.node("Shape")
    model.node("Gather", model.constant([0], np.int64), axis=0)
    batch = model.node("Concat", model.constant([-1], np.int64), axis=0)
    model.node("Reshape", batch, source=before)
    model.node("Gemm", model.constant(rng.integers(-8, 8, (60, 6))), model.constant(rng.integers(-900, 900, 6)))
    model.quant(250.7, 8, signed=True)
    check(model, tmp_path, 250.7, rng)


def test_means_over_axes(tmp_path: Path) -> None:
    rng = np.random.default_rng(16)
    model = Model((1, 4, 4, 4))
    model.quant(1.0, 8, signed=False)
    model.node("ReduceMean", model.constant([-1, -2], np.int64), keepdims=0)
    model.quant(0.77, 8, signed=False)
    model.node("MatMul", model.constant(rng.integers(-8, 8, (4, 6))))
    model.quant(8.3, 8, signed=True)
    assert kinds(check(model, tmp_path, 8.3, rng)) == ["avgpool", "linear"]


MEANS, DEVIATIONS = (96.0, 128.0, 80.0), (64.0, 32.0, 128.0)


@pytest.mark.parametrize("nodes", [False, True])
def test_normalisation_by_colour(tmp_path: Path, *, nodes: bool) -> None:
    """By nodes or by the caller, it becomes that of the samples, before a quantiser of the model."""
    rng = np.random.default_rng(17)
    model = Model((1, 3, 6, 5))
    mean, deviation = (np.reshape(values, (1, 3, 1, 1)) for values in (MEANS, DEVIATIONS))
    if nodes:
        model.node("Sub", model.constant(mean))
        model.node("Div", model.constant(deviation))
    model.pair(0.0617, -3, np.int8)
    weights = model.integers(rng.integers(-128, 128, (4, 3, 3, 3)), np.full(4, 2.0**-6), np.int8)
    model.node("Conv", weights, pads=[1, 1, 1, 1])
    model.pair(0.5, 4, np.int8)
    options = {} if nodes else {"normalisation": [*zip(map(Fraction, MEANS), map(Fraction, DEVIATIONS), strict=True)]}
    given = (lambda image: image) if nodes else (lambda image: (image - mean[0]) / deviation[0])
    described = check(model, tmp_path, 0.5, rng, zero=4, given=given, **options)
    assert kinds(described) == ["conv"]
    assert isinstance(described.scaling.multiply, tuple)


def test_batch_normalisation_of_the_input(tmp_path: Path) -> None:
    """Before the first layer and its quantiser: a layer by itself where factors are not of one sign."""
    rng = np.random.default_rng(18)
    model = Model((1, 3, 6, 5))
    normalised(model, 3, 64.0, rng)
    model.quant(0.25, 4, signed=True)
    conv(model, (4, 3, 2, 2), 4, rng)
    model.quant(0.5, 8, signed=True)
    assert kinds(check(model, tmp_path, 0.5, rng)) == ["depthwise", "conv"]
