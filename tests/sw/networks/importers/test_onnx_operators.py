"""Operators and types of ONNX on integers and in floating point, and what no layer stands for."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from xpulpnn.errors import InputError
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.registry import request_of

from .onnx_models import DOMAIN, MICROSOFT, Model, check, conv, correlation, imported, kinds, samples

pytestmark = pytest.mark.flow


@pytest.mark.parametrize("mode", ["", "FLOOR", "CEIL", "ROUND"])
def test_truncation(tmp_path: Path, mode: str) -> None:
    """An average times its area; the second version of ``Trunc``, behind sums that are no multiples of its scale."""
    rng = np.random.default_rng(19)
    model = Model((1, 4, 4, 4))
    model.quant(1.0, 8, signed=False)
    model.node("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    if not mode:
        model.node("Mul", model.constant(4))
    numbers = [model.constant(parameter) for parameter in ((0.5, 8, 9, 4.0, 6) if mode else (1, 0, 10, 8))]
    attributes = {"signed": 1, "narrow": 0} if mode else {}
    model.node("Trunc", *numbers, domain=DOMAIN, rounding_mode=mode or "FLOOR", **attributes)
    check(model, tmp_path, 4.0 if mode else 1, rng, zero=None if mode else 0, near=mode == "ROUND")


def test_operators_on_integers(tmp_path: Path) -> None:
    """As of ONNX Runtime's QOperator format: convolutions, a sum, poolings and products that take and give integers."""
    rng = np.random.default_rng(20)
    model = Model((1, 3, 8, 8))

    def scaled(scale: Any, zero: Any, kind: Any = np.uint8) -> tuple[str, str]:
        return model.constant(scale), model.constant(zero, kind)

    image = scaled(2.1, 9)
    model.node("QuantizeLinear", *image)

    def convolution(shape: tuple[int, ...], before: Any, behind: Any, **attributes: Any) -> None:
        scales = 2.0 ** rng.integers(-9, -7, shape[0])
        values = model.constant(rng.integers(-128, 128, shape), np.int8)
        weights = (values, *scaled(scales, np.zeros(shape[0]), np.int8))
        bias = model.constant(rng.integers(-2000, 2000, shape[0]), np.int32)
        model.node("QLinearConv", *before, *weights, *behind, bias, kernel_shape=shape[2:], **attributes)

    first = scaled(3.0, 30)
    convolution((8, 3, 3, 3), image, first, pads=[1, 1, 1, 1])
    model.node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    branch = model.last
    second = scaled(2.5, 140)
    convolution((8, 1, 3, 3), first, second, pads=[1, 1, 1, 1], group=8)
    total = scaled(5.0, 70)
    model.node("QLinearAdd", *second, branch, *first, *total, domain=MICROSOFT)
    average = scaled(4.0, 60)
    model.node(
        *("QLinearAveragePool", *total, *average),
        domain=MICROSOFT,
        kernel_shape=[2, 2],
        strides=[1, 1],
        channels_last=0,
    )
    mean = scaled(1.5, 10)
    model.node("QLinearGlobalAveragePool", *average, *mean, domain=MICROSOFT, channels_last=0)
    model.node("Flatten")
    values = model.constant(rng.integers(-128, 128, (16, 8)), np.int8)
    rest, products = (values, *scaled(2.0**-6, 0, np.int8)), scaled(2.0, 110)
    bias = model.constant(rng.integers(-2000, 2000, 16), np.int32)
    model.node("QGemm", *mean, *rest, bias, *products, domain=MICROSOFT, alpha=1.0, transA=0, transB=1)
    values = model.constant(rng.integers(-128, 128, (16, 5)), np.int8)
    end = scaled(8.0, 128)
    weights = (values, *scaled(2.0**-7, 0, np.int8))
    model.node("QLinearMatMul", *products, *weights, *end)
    model.node("DequantizeLinear", *end)
    described = check(model, tmp_path, 8.0, rng, zero=128, near=2)
    assert kinds(described) == [*("conv", "maxpool", "depthwise", "add", "avgpool", "avgpool", "linear", "linear")]
    assert [stage.pad for stage in described.network.stages[:3]] == [9, 0, 30]


def test_products_and_joined_maps_of_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(24)
    model = Model((1, 3, 6, 5))

    def numbers(scale: float, zero: int) -> tuple[str, str]:
        return model.constant(scale), model.constant(zero, np.uint8)

    image, product, joined = numbers(2.1, 9), numbers(300.0, 40), numbers(4.2, 9)
    codes = model.node("QuantizeLinear", *image)
    model.node("QLinearMul", *image, codes, *image, *product, domain=MICROSOFT)
    model.node(
        "QLinearConcat", joined[1], model.last, *product, codes, *image, source=joined[0], domain=MICROSOFT, axis=1
    )
    model.node("DequantizeLinear", *joined)
    check(model, tmp_path, 4.2, rng, zero=9)


def test_constants_that_differ_inside_channels(tmp_path: Path) -> None:
    """Summands and factors of each place, and a column that is a constant in front of others."""
    rng = np.random.default_rng(25)
    model = Model((1, 3, 6, 5))
    model.pair(2.0, 30, np.uint8)
    for operator, shape, scale in (("Add", (1, 3, 6, 5), 2.0), ("Mul", (6, 5), 2.0**-7), ("Concat", (1, 3, 6, 1), 4.0)):
        constant = model.integers(rng.integers(-128, 128, shape), np.float32(scale), np.int8)
        model.node(operator, constant, **({"axis": 3} if operator == "Concat" else {}))
        model.pair(4.0, 110, np.uint8)
    check(model, tmp_path, 4.0, rng, zero=110, near=2)


def test_a_flattened_end_has_the_order_of_the_model(tmp_path: Path) -> None:
    """Results of a map are rows, columns and channels, which is noted; those of a row are in its order."""
    rng, notes = np.random.default_rng(27), list[str]()
    model = Model((1, 3, 6, 5))
    conv(model, (4, 3, 3, 3), 4, rng)
    model.quant(8.0, 8, signed=True)
    imported(model, tmp_path, note=notes.append)
    assert notes == ["results are rows, columns and channels, in this order"]
    model.node("Flatten")
    described = imported(model, tmp_path)
    images = samples(model, rng)
    results = run_reference(described.network, described.batch(images))[-1].reshape(len(images), -1)
    for image, result in zip(images, results, strict=True):
        np.testing.assert_array_equal(result * 8.0, model.computed(image.transpose(2, 0, 1)[np.newaxis])[0])


def test_images_of_a_batch_come_one_by_one(tmp_path: Path) -> None:
    rng, notes = np.random.default_rng(26), list[str]()
    model = Model((2, 3, 6, 5))
    model.pair(1.0, 0, np.uint8)
    model.node("Reshape", model.constant([2, 90], np.int64))
    weights = model.integers(rng.integers(-128, 128, (90, 7)), np.float32(2.0**-7), np.int8)
    model.node("MatMul", weights)
    model.pair(16.0, 110, np.uint8)
    described = imported(model, tmp_path, note=notes.append)
    assert kinds(described) == ["linear"]
    assert notes[:1] == ["a batch of 2 images is computed one by one: the network is of one"]
    images = samples(model, rng)
    right = np.concatenate([model.computed(np.moveaxis(images[first : first + 2], -1, 1)) for first in (0, 2)])
    results = run_reference(described.network, described.batch(images[:4].astype(np.uint8)))[-1].astype(np.int64)
    assert np.abs((results.reshape(right.shape) - 110) * 16.0 - right).max() <= 16.0


@pytest.mark.parametrize("kind", [TensorProto.UINT8, TensorProto.INT8])
def test_inputs_that_are_integers(tmp_path: Path, kind: int) -> None:
    """Samples are the codes, less 128 where these are signed."""
    rng = np.random.default_rng(21)
    is_signed = kind == TensorProto.INT8
    model = Model((1, 2, 5, 5), kind)
    model.node("DequantizeLinear", model.constant(0.5), model.constant(7, np.int8 if is_signed else np.uint8))
    weights = model.integers(rng.integers(-128, 128, (4, 2, 2, 2)), np.full(4, 2.0**-6), np.int8)
    model.node("Conv", weights, pads=[1, 0, 0, 0])
    model.pair(1.0, 4, np.int8)
    check(model, tmp_path, 1.0, rng, zero=4, given=lambda image: image - 128 * is_signed)
    with pytest.raises(InputError, match=r"^samples, normalisation and bits must be left out with an input of "):
        imported(model, tmp_path, samples=(Fraction(0), Fraction(1)))


def test_floating_point_of_mobile_networks(tmp_path: Path) -> None:
    """Depthwise separable with batch normalisation and ReLU6, a sum, a mean, normalised colours."""
    rng = np.random.default_rng(22)
    model = Model((1, 3, 12, 12))

    def layer(shape: tuple[int, ...], **attributes: Any) -> str:
        deviation = (2 / np.prod(shape[1:])) ** 0.5
        model.node("Conv", model.constant(rng.normal(0, deviation, shape)), kernel_shape=shape[2:], **attributes)
        parameters = (
            rng.uniform(0.8, 1.2, shape[0]),
            rng.normal(0.3, 0.2, shape[0]),
            *np.tile([[0.0], [1.0]], shape[0]),
        )
        model.node("BatchNormalization", *map(model.constant, parameters))
        return model.node("Clip", model.constant(0), model.constant(6))

    layer((8, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    layer((8, 1, 3, 3), group=8, pads=[1, 1, 1, 1])
    first = layer((16, 8, 1, 1))
    layer((16, 1, 5, 3), group=16, pads=[2, 1, 2, 1])
    model.node("Add", layer((16, 16, 1, 1)), source=first)
    model.node("ReduceMean", model.constant([2, 3], np.int64), keepdims=0)
    model.node("Gemm", model.constant(rng.normal(0, 0.3, (16, 5))), model.constant(rng.normal(0, 0.1, 5)))
    images = samples(model, rng)
    spread = [(Fraction(mean, 100), Fraction(deviation, 100)) for mean, deviation in ((48, 23), (45, 22), (48, 23))]
    options = {"normalisation": spread, "quantise": request_of("8"), "samples": (Fraction(0), Fraction(1))}
    described = imported(model, tmp_path, images=images, **options)
    means, deviations = np.array(spread, np.float64).T
    assert correlation(model, described, images, (images / 255 - means) / deviations) > 0.995
    assert "depthwise" in kinds(described)
    assert "add" in kinds(described)


CURVES: dict[str, tuple[dict[str, Any], float, int]] = {
    "Sigmoid": ({}, 1 / 256, 0),
    "Tanh": ({}, 1 / 127, 128),
    "LeakyRelu": ({"alpha": 0.15}, 0.031, 70),
}


@pytest.mark.parametrize("name", CURVES)
def test_functions_of_single_numbers(tmp_path: Path, name: str) -> None:
    """Behind quantisers, and of sums of a few bits that have none."""
    attributes, scale, zero = CURVES[name]
    rng = np.random.default_rng(5)
    model = Model((1, 2, 7, 6))
    model.pair(3.0, 0, np.uint8)
    weights = model.integers(rng.integers(-127, 128, (4, 2, 3, 3)), 2.0**-7, np.int8)
    model.node("Conv", weights, kernel_shape=[3, 3])
    model.pair(4.7, 131, np.uint8)
    values = model.integers(rng.integers(-127, 128, (5, 4, 1, 1)), 2.0**-12, np.int8)
    model.node("Conv", values, kernel_shape=[1, 1])
    model.pair(0.013 if name != "LeakyRelu" else 0.05, 120, np.uint8)
    model.node(name, **attributes)
    model.pair(scale, zero, np.uint8)
    model.node("MaxPool", kernel_shape=[1, 2])
    assert kinds(check(model, tmp_path, scale, rng, zero)) == ["conv", "pointwise", "lookup", "maxpool"]
    model = Model((1, 2, 7, 6))
    model.quant(1.0, 2, signed=False)
    conv(model, (4, 2, 3, 3), 2, rng)
    model.node(name, **attributes)
    model.quant(0.125 if scale < 0.01 else 0.5, 4, signed=True)
    model.node("MaxPool", kernel_shape=[1, 2])
    assert kinds(check(model, tmp_path, 0.125 if scale < 0.01 else 0.5, rng)) == ["conv", "maxpool"]


def test_functions_in_floating_point(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    model = Model((1, 2, 7, 6))
    model.node("Conv", model.constant(rng.normal(0, 0.02, (4, 2, 3, 3))), kernel_shape=[3, 3])
    model.node("LeakyRelu", alpha=0.2)
    model.node("Conv", model.constant(rng.normal(0, 0.2, (5, 4, 3, 3))), kernel_shape=[3, 3])
    model.node("Sigmoid")
    model.node("Flatten")
    model.node("Gemm", model.constant(rng.normal(0, 1, (30, 6))))
    images = rng.integers(0, 256, (6, 7, 6, 2))
    described = imported(model, tmp_path, quantise=request_of("8"), images=images)
    assert correlation(model, described, images, images) > 0.99


@pytest.mark.parametrize("equal_scales", [False, True])
def test_maps_beside_each_other(tmp_path: Path, *, equal_scales: bool) -> None:
    """Their scales and zero points may differ: channels have factors of their own then."""
    rng = np.random.default_rng(7)
    model = Model((1, 2, 7, 6))
    image = model.pair(1.0, 0, np.uint8)
    maps = [image]
    for scale, zero in ((1.0, 0), (1.0, 0)) if equal_scales else ((0.3719, 131), (2.6173, 120)):
        weights = model.integers(rng.integers(-127, 128, (3, 2, 3, 3)), 0.00413, np.int8)
        model.node("Conv", weights, source=image, kernel_shape=[3, 3], pads=[1] * 4)
        maps.append(model.pair(scale, zero, np.uint8))
    model.node("Concat", *maps[1:], source=maps[0], axis=1)
    if not equal_scales:
        model.pair(2.9137, 110, np.uint8)
    model.node("Conv", model.integers(rng.integers(-127, 128, (4, 8, 1, 1)), 0.00781, np.int8), kernel_shape=[1, 1])
    model.pair(5.3371, 128, np.uint8)
    described = check(model, tmp_path, 5.3371, rng, 128)
    assert kinds(described)[2:] == [*["pointwise"] * 3, "add", "add", *["depthwise"] * (not equal_scales), "pointwise"]


def test_means_of_sequences(tmp_path: Path) -> None:
    rng = np.random.default_rng(16)
    model = Model((1, 5, 12))
    conv(model, (8, 5, 3), 4, rng)
    model.quant(64.3, 8, signed=True)
    model.node("ReduceMean", model.constant([2], np.int64), keepdims=0)
    model.quant(20.7, 8, signed=True)
    assert kinds(check(model, tmp_path, 20.7, rng)) == ["conv", "avgpool"]


@pytest.mark.parametrize(
    ("kind", "zero", "bits"),
    [
        ("int4", 0, 4),
        ("int4", -3, 8),
        ("uint4", 8, 4),
        ("uint4", 7, 8),
        ("int2", 0, 2),
        ("uint2", 1, 4),
        ("uint2", 2, 2),
    ],
)
def test_weights_of_few_bits(tmp_path: Path, kind: str, zero: int, bits: int) -> None:
    """Integers in the file, and numbers that a quantiser makes such integers of."""
    rng = np.random.default_rng(zero + 9)
    type_: Any = getattr(ml_dtypes, kind)
    ends = ml_dtypes.iinfo(type_)
    scales = 2.0 ** rng.integers(-3, 0, 6)
    model = Model((1, 4, 6, 5), opset=25)
    model.pair(1.0, 0, np.uint8)
    values = rng.integers(ends.min, ends.max, (6, 4, 3, 3), endpoint=True)
    weights = model.integers(values, scales, type_, zero=zero)
    model.node("Conv", weights, kernel_shape=[3, 3])
    model.pair(16.0, 3, np.int8)
    last, reals = model.last, (rng.integers(ends.min, ends.max, (8, 6, 1, 1), endpoint=True) - zero) * 0.25
    numbers = model.constant(0.25), model.constant(zero, type_)
    model.node("QuantizeLinear", *numbers, source=model.constant(reals))
    made = model.node("DequantizeLinear", *numbers)
    model.node("Conv", made, source=last, kernel_shape=[1, 1])
    model.pair(64.0, 100, np.uint8)
    described = check(model, tmp_path, 64.0, rng, zero=100)
    assert [stage.precision.w for stage in described.network.stages] == [bits] * 2


def test_maps_of_few_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = Model((1, 4, 6, 5))
    model.pair(17.0, 0, ml_dtypes.uint4)
    weights = model.integers(rng.integers(-8, 8, (6, 4, 3, 3)), 2.0 ** rng.integers(-3, 0, 6), ml_dtypes.int4)
    model.node("Conv", weights, kernel_shape=[3, 3])
    model.pair(32.0, -1, ml_dtypes.int4)
    described = check(model, tmp_path, 32.0, rng, zero=-1)
    assert [str(stage.precision) for stage in described.network.stages] == ["4x4xi4"]


@pytest.mark.parametrize(
    ("zero", "results"),
    [
        (97, ((333, 120), (4506, 120), (1.7e6, 120))),
        (0, ((333, 0), (18022, 0), (1.1e7, 0))),
        (255, ((333, 255), (18022, 0), (1.1e7, 255))),
    ],
)
def test_asymmetric_bytes(tmp_path: Path, zero: int, results: tuple[tuple[float, int], ...]) -> None:
    """Weights of nine bits without their zero point, as a static quantiser makes them: exact, by inputs in copies."""
    rng = np.random.default_rng(zero)

    def integers(*shape: int) -> str:
        return model.integers(rng.integers(0, 256, shape), 0.0637, np.uint8, zero=zero)

    model = Model((1, 4, 6, 5))
    model.pair(1.0, 0, np.uint8)
    model.node("Conv", integers(6, 4, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    model.pair(*results[0], np.uint8)
    model.node("Conv", integers(6, 1, 3, 3), kernel_shape=[3, 3], group=6)
    model.pair(*results[1], np.uint8)
    model.node("Transpose", perm=[0, 2, 1, 3])
    model.node("Flatten")
    model.node("MatMul", integers(6 * 4 * 3, 9))
    model.pair(*results[2], np.uint8)
    notes: list[str] = []
    described = check(model, tmp_path, *results[2][:1], rng, zero=results[2][1], note=notes.append)
    assert kinds(described) == ["gather", "conv"] * 2 + ["gather", "linear"]
    assert len([note for note in notes if note.endswith(" times")]) == 3
    assert not any("by 1 at the most" in note for note in notes)


def test_names_that_are_no_line(tmp_path: Path) -> None:
    model = Model((1, 4, 6, 5))
    model.pair(1.0, 0, np.uint8)
    model.nodes[0].name = "two\nlines"
    with pytest.raises(InputError, match=r"^names in the model must be text in a line, not 'two\\nlines'$"):
        imported(model, tmp_path)


def refused(*nodes: tuple[Any, ...], shape: tuple[int, ...] = (1, 2, 4, 4), kind: int = TensorProto.FLOAT) -> Model:
    model = Model(shape, kind)
    model.quant(1.0, 8, signed=False)
    for operator, constants, attributes in nodes:
        model.node(operator, *(model.constant(*constant) for constant in constants), **attributes)
    return model


def two_maps(operator: str, **attributes: Any) -> Model:
    model = refused()
    model.node(operator, model.last, **attributes)
    return model


def codes_without_scale() -> Model:
    model = Model((1, 2, 4, 4))
    model.node("QuantizeLinear", model.constant(1), model.constant(0, np.uint8))
    model.node("Relu")
    return model


def conv_without_output() -> Model:
    model = refused(("Conv", (ONES,), {}), ("Relu", (), {}))
    model.nodes[1].ClearField("output")
    return model


ONES, WINDOW = (np.ones((2, 2, 2, 2)), np.float32), {"kernel_shape": [2, 2]}
THIRDS, COLUMN = (np.full((1, 2, 1, 1), 0.3), np.float32), (np.ones((1, 2, 1, 1, 1)), np.float32)
AROUND, SHORTS = ([0, 0, 1, 1, 0, 0, 1, 1], np.int64), ((1, np.float32), (0, np.int16))
REFUSED = {
    "operators of nodes must be known, not LogSoftmax logsoftmax1 .*works at the end.*, LpNormalization lp": refused(
        ("LogSoftmax", (), {}), ("LpNormalization", (), {}), ("Relu", (), {})
    ),
    "MaxPool maxpool2: dilated pooling": refused(
        ("Conv", (ONES,), {}), ("MaxPool", (), WINDOW | {"dilations": [2, 2]})
    ),
    "AveragePool averagepool1: dilated averages must": refused(
        ("AveragePool", (), WINDOW | {"dilations": [2, 2], "pads": [1] * 4})
    ),
    "Resize resize1: antialias must be left out, not 1": refused(
        ("Resize", (([],), ([1.0, 1.0, 0.5, 0.5],)), {"mode": "linear", "antialias": 1})
    ),
    "MaxPool maxpool1: pads of a pooling": refused(("MaxPool", (), WINDOW | {"pads": [2] * 4})),
    "Conv conv1: weights must go with 2 channels in 2 groups": refused(("Conv", (ONES,), {"group": 2})),
    "Conv conv1: strides must be 2 numbers of 1": refused(("Conv", (ONES,), {"strides": [0, 1]})),
    "Conv conv1: strides must be whole numbers, not 2": refused(("Conv", (ONES,), {"strides": 2})),
    r"Conv conv1: group must be a whole number below 2147483648, not \[": refused(("Conv", (ONES,), {"group": [1, 1]})),
    "Conv conv1: pads must be a whole number below .*, not 1.0": refused(("Conv", (ONES,), {"pads": [1.0] * 4})),
    "Conv conv1: auto_pad must be NOTSET, VALID, ": refused(("Conv", (ONES,), {"auto_pad": "SAME"})),
    r"Conv conv1: weights must be \[out\]\[channel\]\[row\]\[column\]": refused(("Conv", (COLUMN,), {})),
    "Pad pad1: value around the map": refused(("Pad", (AROUND, (0.5, np.float32)), {}), ("Conv", (ONES,), {})),
    "Add add2: padding must be right": refused(("Pad", (AROUND,), {}), ("Add", ((1, np.float32),), {})),
    "Conv conv1: domain": refused(("Conv", (ONES,), {"domain": "qonnx.custom_op.channels_last"})),
    "Conv conv1: constant3 must come from a quantiser, not in floating point: take --quantise 8 ": refused(
        ("Conv", (THIRDS,), {})
    ),
    "Conv conv3: relu2 must come": refused(("Conv", (ONES,), {}), ("Relu", (), {}), ("Conv", (ONES,), {})),
    "Conv conv1: inputs": refused(("Conv", (), {})),
    "Conv conv1: outputs must be one at least, not none$": conv_without_output(),
    "Relu relu1: inputs must be those of DequantizeLinear": codes_without_scale(),
    "QuantizeLinear quantizelinear1: quantised numbers": refused(("QuantizeLinear", SHORTS, {})),
    "LeakyRelu leakyrelu2: alpha must be greater than 0": refused(
        ("Conv", (ONES,), {}), ("LeakyRelu", (), {"alpha": -1})
    ),
    "Tanh tanh3: input must not be a function": refused(
        ("Conv", (ONES,), {}), ("Sigmoid", (), {}), ("Tanh", (), {}), ("Relu", (), {})
    ),
    "Concat concat1: axis must not be that of the batch, 0": two_maps("Concat", axis=0),
    "input image must be images of known size": refused(shape=(2, 0, 4, 4)),
    "input image must be of FLOAT, UINT8 or INT8, not INT64$": refused(("Relu", (), {}), kind=TensorProto.INT64),
    "output of the model must depend on its input": refused(),
}


@pytest.mark.parametrize("named", REFUSED)
def test_what_no_layer_stands_for_is_named(tmp_path: Path, named: str) -> None:
    with pytest.raises(InputError, match=f"^{named}") as raised:
        imported(REFUSED[named], tmp_path)
    assert "\n" not in str(raised.value)


MAP = "the map behind the first quantiser"


def of_map(*nodes: tuple[Any, ...], behind: float = 0) -> tuple[float, Model]:
    """A map of 4x6x8 behind a quantiser, nodes (operator, constants, attributes), and a quantiser of the scale
    ``behind`` if they compute; returns the scale of the results too."""
    model = Model((1, 4, 6, 8))
    first = model.pair(1.7, 90, np.uint8)
    for operator, constants, more in nodes:
        given = [
            first if values is MAP else "" if values is None else constant_of(model, values) for values in constants
        ]
        model.node(operator, *given, **more)
    if behind:
        model.pair(behind, 90, np.uint8)
    return behind or 1.7, model


def constant_of(model: Model, values: Any) -> str:
    is_whole = isinstance(values, list)
    return "" if values is None else model.constant(values, np.int64 if is_whole else np.float32)


def spread_weights(*shape: int) -> Any:
    return np.linspace(-20, 20, int(np.prod(shape))).reshape(shape).round()


LINEAR: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
SHUFFLE = [("Reshape", ([1, 2, 2, 6, 8],), {}), ("Transpose", (), {"perm": [0, 2, 1, 4, 3]})]
SHUFFLE += [("Reshape", ([1, 4, 8, 6],), {}), ("MaxPool", (), {"kernel_shape": [2, 1]})]
OF_MAP = {
    "shuffle": of_map(*SHUFFLE),
    "Slice": of_map(("Slice", ([0, 7], [3, 0], [1, 3], [1, -2]), {})),
    "Gather": of_map(("Gather", ([2, 0, 2],), {"axis": 1})),
    "DepthToSpace": of_map(("DepthToSpace", (), {"blocksize": 2}), ("SpaceToDepth", (), {"blocksize": 4})),
    "Tile": of_map(("Tile", ([1, 2, 1, 2],), {})),
    "Pad": of_map(("Pad", ([0, 0, 2, 1, 0, 0, 0, 3],), {"mode": "reflect"})),
    "Pad of channels": of_map(("Pad", ([0, 1, 0, 0, 0, 0, 1, 0],), {})),
    "Resize": of_map(("Resize", (None, np.array([1, 1, 2, 2.5])), {"mode": "nearest"})),
    "Resize linear": of_map(("Resize", (None, np.array([1, 1, 2, 2])), LINEAR), behind=0.951),
    "Concat": of_map(("Neg", (), {}), ("Concat", (MAP,), {"axis": 3}), behind=1.7),
    "ConvTranspose": of_map(("ConvTranspose", (spread_weights(4, 2, 3, 3),), {"strides": [2, 1]}), behind=91.0),
    "ReduceMax": of_map(("ReduceMax", ([1, 3],), {"keepdims": 0}), ("Unsqueeze", ([1, 2],), {})),
    "ReduceSum": of_map(("ReduceSum", ([1],), {}), behind=8.3),
    "AveragePool": of_map(("AveragePool", (), {"kernel_shape": [3, 3], "pads": [1] * 4}), behind=1.13),
    "MaxPool": of_map(("MaxPool", (), {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [0, 1, 1, 0]})),
    "HardSwish": of_map(("HardSwish", (), {}), behind=1.31),
    "SiLU": of_map(("Mul", (0.05,), {}), ("Sigmoid", (), {}), ("Mul", (MAP,), {}), behind=1.31),
    "ELU": of_map(("Mul", (0.01,), {}), ("Elu", (), {}), ("Add", (0.3,), {}), behind=0.021),
    "PRelu": of_map(("PRelu", (np.array([0.1, -0.3, 2, 0])[:, None, None],), {}), behind=1.31),
    "Mul": of_map(("Slice", ([0], [1], [3]), {}), ("Mul", (MAP,), {}), behind=603.0),
    "Max": of_map(("Slice", ([0], [1], [3]), {}), ("Neg", (), {}), ("Max", (MAP,), {}), behind=2.3),
    "Gemm": of_map(
        ("Flatten", (), {}),
        ("Gemm", (spread_weights(192, 5), np.arange(5.0) * 1000), {"alpha": 0.5, "beta": 2.0}),
        behind=503.0,
    ),
    "MatMul": of_map(("MatMul", (spread_weights(8, 5),), {}), behind=97.0),
    "average with gaps": of_map(("AveragePool", (), {"kernel_shape": [2, 2], "dilations": [3, 2]}), behind=0.425),
    "mean of no axes": of_map(("ReduceMean", (), {"noop_with_empty_axes": 1}), behind=2.3),
}


@pytest.mark.parametrize(("bounds", "sizes"), [({"start": 1}, [4, 8]), ({"start": -2, "end": -1}, [6]), ({}, [1, 4])])
def test_shapes_of_some_axes(tmp_path: Path, bounds: dict[str, int], sizes: list[int]) -> None:
    """The first two of those sizes that ``Shape`` gives, and what is left, become rows and columns."""
    model = Model((1, 4, 6, 8))
    model.pair(1.7, 90, np.uint8)
    last = model.last
    model.node("Shape", **bounds)
    places = {(4, 8): [0, 2], (6,): [0], (1, 4): [0, 1]}[tuple(sizes)]
    model.node("Gather", model.constant(places, np.int64))
    model.node("Concat", model.constant([-1], np.int64), axis=0)
    model.node("Reshape", model.last, source=last)
    model.node("Flatten", axis=1 if len(sizes) > 1 and sizes[0] == 1 else 0)
    check(model, tmp_path, 1.7, np.random.default_rng(4), None)


@pytest.mark.parametrize("name", OF_MAP)
def test_nodes_that_move_join_or_map(tmp_path: Path, name: str) -> None:
    scale, model = OF_MAP[name]
    check(model, tmp_path, scale, np.random.default_rng(4), None)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_inputs_of_a_single_place(tmp_path: Path, operator: str) -> None:
    """Channels of one row and one column, as generators of images take them."""
    model = Model((1, 6, 1, 1))
    model.node(operator, model.constant(spread_weights(6, 6, 1, 1)))
    model.pair(97.0, 90, np.uint8)
    check(model, tmp_path, 97.0, np.random.default_rng(4), None)


@pytest.mark.parametrize("operator", ["Exp", "Sub", "ReduceMean"])
def test_numbers_without_a_quantiser(tmp_path: Path, operator: str) -> None:
    """Functions, additions and averages get 8 bits for the numbers they can have."""
    model = Model((1, 16))
    first = model.pair(1.7, 90, np.uint8)
    low, high = -90 * 1.7, 165 * 1.7
    if operator == "Exp":
        model.node("Mul", model.constant(0.01))
        model.node("Exp")
        low, high = 0, np.exp(high / 100)
    elif operator == "Sub":
        model.node("MatMul", model.constant(spread_weights(16, 16)))
        model.pair(97.0, 128, np.uint8)
        model.node("Sub", first)
        low, high = -128 * 97 - high, 127 * 97 - low
    else:
        model.node("Reshape", model.constant([1, 4, 4], np.int64))
        model.node("ReduceMean", model.constant([2], np.int64))
    notes: list[str] = []
    described = imported(model, tmp_path, note=notes.append)
    assert f"has no quantiser: {low:.4g}..{high:.4g} get 8 bits" in " ".join(notes)
    images, scale = samples(model, np.random.default_rng(4)), (high - low) / 255
    results = run_reference(described.network, described.batch(images))[-1].astype(np.int64)
    expected = np.concatenate([model.computed(image[np.newaxis]).ravel() for image in images]) / scale
    np.testing.assert_allclose(results.ravel(), expected - round(low / scale), atol=1)
    assert np.unique(results).size > 8


def test_results_that_may_differ_by_more(tmp_path: Path) -> None:
    """Channels clipped at different numbers, of sums with more bits than thresholds have."""
    model = Model((1, 4, 6, 8))
    model.pair(1.0, 0, np.uint8)
    weights = np.resize([127, -127], (2, 4, 1, 1))
    model.node("Conv", model.integers(weights, 1.0, np.int8), kernel_shape=[1, 1])
    model.node("Relu")
    model.node("Add", model.constant([[[0.0]], [[40000.0]]]))
    model.pair(600.0, 0, np.uint8)
    with pytest.raises(
        InputError, match=r"^QuantizeLinear .* must be at most 1 from the quantiser's \(--allow\), not "
    ) as raised:
        imported(model, tmp_path)
    most, notes = int(re.findall(r"not (\d+),", str(raised.value))[0]), list[str]()
    described = imported(model, tmp_path, allow=most, note=notes.append)
    assert notes[-2].endswith(f"steps of its quantiser are at other sums, by {most} at the most")
    images = samples(model, np.random.default_rng(3))
    results = run_reference(described.network, described.batch(images))[-1]
    expected = [np.moveaxis(model.computed(image.transpose(2, 0, 1)[np.newaxis])[0], 0, -1) / 600 for image in images]
    assert np.abs(results - np.array(expected)).max() <= most


def attention(model: Model, rng: np.random.Generator, places: int, heads: int, width: int, shares: str) -> None:
    """A block of a transformer between quantisers, of a sequence that a quantiser has made."""
    whole, split, given = heads * width, [1, places, heads, width], model.last
    sides: list[str] = []
    for turn in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        values = rng.integers(-128, 128, (whole, model.shape[-1])).T
        model.node("MatMul", model.integers(values, 2.0**-7, np.int8), source=given)
        model.pair(0.7, 9 + len(sides) * 50, np.uint8)
        model.node("Reshape", model.constant(split, np.int64))
        sides.append(model.node("Transpose", perm=turn))
    model.node("MatMul", sides[1], source=sides[0])
    model.node("Div", model.constant(width**0.5))
    model.pair(23.0, 120, np.uint8)
    model.node("Mul", model.constant(0.003))
    model.node(shares)
    model.pair(0.0031, 0, np.uint8)
    model.node("MatMul", sides[2])
    model.pair(2.0, 120, np.uint8)
    model.node("Transpose", perm=[0, 2, 1, 3])
    model.node("Reshape", model.constant([1, places, whole], np.int64))


@pytest.mark.parametrize("shares", ["Sigmoid", "Softmax"])
def test_attention(tmp_path: Path, shares: str) -> None:
    """Products of two maps, by heads, of rows that fill no words."""
    rng = np.random.default_rng(31)
    model = Model((1, 7, 10))
    model.pair(1.0, 0, np.uint8)
    attention(model, rng, 7, 2, 5, shares)
    described = check(model, tmp_path, 2.0, rng, zero=120)
    between = {"Sigmoid": "lookup", "Softmax": "softmax"}[shares]
    assert [kind for kind in kinds(described) if kind not in ("gather", "pointwise")] == [
        *("batchmatmul", between, "batchmatmul")
    ]


def shared(scale: float, zero: int, *nodes: tuple[str, dict[str, Any]], opset: int = 21) -> Model:
    """Nodes behind a map whose numbers are small enough for exponentials, between quantisers."""
    model = Model((1, 3, 4, 5), opset=opset)
    model.pair(1.0, 0, np.uint8)
    model.node("Mul", model.constant(0.013))
    for operator, attributes in nodes:
        shapes = [model.constant(attributes.pop("shape"), np.int64)] if "shape" in attributes else []
        model.node(operator, *shapes, **attributes)
    model.pair(scale, zero, np.int8 if zero < 0 else np.uint8)
    # a softmax at the end is left out
    model.node("MaxPool", kernel_shape=[1, 1])
    return model


@pytest.mark.parametrize(
    ("axis", "scale", "zero"), [(None, 1 / 255, 0), (1, 1 / 256, -128), (-2, 1 / 127, 0), (3, 1 / 700, 3)]
)
def test_softmax(tmp_path: Path, axis: int | None, scale: float, zero: int) -> None:
    """Along each axis, by steps of which some results exceed the range."""
    model = shared(scale, zero, ("Softmax", {} if axis is None else {"axis": axis}))
    described = check(model, tmp_path, scale, np.random.default_rng(5), zero=zero)
    assert "softmax" in kinds(described)


def test_softmax_of_early_versions(tmp_path: Path) -> None:
    """Before version 13 the exponentials are shares of those of all axes from one on."""
    rows = [("Reshape", {"shape": [1, 3, 20]}), ("Softmax", {}), ("Reshape", {"shape": [1, 3, 4, 5]})]
    models = shared(1 / 256, 0, ("Softmax", {"axis": 2}), opset=12), shared(1 / 256, 0, *rows)
    described = [imported(model, tmp_path) for model in models]
    images = samples(models[0], np.random.default_rng(6))
    early, late = (run_reference(own.network, own.batch(images))[-1] for own in described)
    np.testing.assert_array_equal(early.ravel(), late.ravel())
    assert np.unique(early).size > 20
    assert kinds(described[0]).count("softmax") == 1


@pytest.mark.parametrize(
    ("named", "scale", "nodes"),
    [
        (
            "QuantizeLinear quantizelinear5: what follows a softmax must be a quantiser that rounds ",
            0.004,
            ["Softmax", "Sigmoid"],
        ),
        ("QuantizeLinear quantizelinear4: step of a softmax's results must be less than 1/64, ", 0.02, ["Softmax"]),
    ],
)
def test_what_cannot_follow_a_softmax(tmp_path: Path, named: str, scale: float, nodes: list[str]) -> None:
    with pytest.raises(InputError, match=f"^{named}"):
        imported(shared(scale, 0, *((name, {}) for name in nodes)), tmp_path)


def normalised_rows(columns: int, scale: float, zero: int, *, given: int = 2, **attributes: Any) -> Model:
    """Layer normalisation of a sequence, and products with a matrix, so that it is not the end."""
    rng, model = np.random.default_rng(columns), Model((1, 9, columns))
    model.pair(1.0, 0, np.uint8)
    model.node("Mul", model.constant(0.043))
    size = [columns] if attributes.get("axis", -1) == -1 else [9, columns]
    model.node("LayerNormalization", *(model.constant(rng.normal(0, 1, size)) for _ in range(given)), **attributes)
    model.pair(scale, zero, np.int8 if zero < 0 else np.uint8)
    model.node("MatMul", model.integers(np.eye(columns, dtype=np.int64), 1.0, np.int8))
    model.pair(scale, zero, np.int8 if zero < 0 else np.uint8)
    model.node("Transpose", perm=[0, 2, 1])
    return model


@pytest.mark.parametrize(
    ("columns", "scale", "zero", "options"),
    [
        (7, 0.03, 130, {}),
        (64, 0.04, -3, {"epsilon": 1e-12}),
        (40, 0.02, 120, {"given": 1, "axis": 1}),
        (512, 0.05, 128, {"epsilon": 0.01}),
    ],
)
def test_layer_normalisation(tmp_path: Path, columns: int, scale: float, zero: int, options: dict[str, Any]) -> None:
    """Along one axis or two, with and without offsets."""
    model = normalised_rows(columns, scale, zero, **options)
    described = check(model, tmp_path, scale, np.random.default_rng(5), zero=zero)
    assert [kind for kind in kinds(described) if kind != "gather"] == ["layernorm", "pointwise"]


@pytest.mark.parametrize(("columns", "epsilon"), [(7, 1e-5), (40, 1e-4), (500, 1e-5)])
def test_rows_that_are_nearly_constant(tmp_path: Path, columns: int, epsilon: float) -> None:
    """Rows that spread over all numbers, over a few, and rows of which one element differs."""
    model, rng = normalised_rows(columns, 0.03, 120, epsilon=epsilon), np.random.default_rng(8)
    described, shape = imported(model, tmp_path), (12, 9, columns)
    single = np.where(np.arange(columns) == rng.integers(columns, size=(12, 9, 1)), 78, 77)
    images = np.concatenate([rng.integers(0, 256, shape), rng.integers(120, 124, shape), single])
    results = run_reference(described.network, described.batch(images))[-1].reshape(images.shape)
    # single precision would give other means of large numbers that are nearly equal
    gains, offsets = np.random.default_rng(columns).normal(0, 1, (2, columns)).astype(np.float32).astype(np.float64)
    rows, deviations = images * float(np.float32(0.043)), images.std(axis=-1, keepdims=True) * float(np.float32(0.043))
    normalised = (rows - rows.mean(axis=-1, keepdims=True)) / np.sqrt(deviations**2 + epsilon)
    expected = (normalised * gains + offsets) / float(np.float32(0.03)) + 120
    np.testing.assert_array_equal(results, np.clip(np.rint(expected), 0, 255))


@pytest.mark.parametrize(
    ("named", "columns", "scale"),
    [
        ("QuantizeLinear quantizelinear4: channels must be at most 512, not 513", 513, 0.05),
        ("QuantizeLinear quantizelinear4: scales of a layer normalisation must be ", 7, 1e-9),
    ],
)
def test_layers_that_cannot_be_normalised(tmp_path: Path, named: str, columns: int, scale: float) -> None:
    with pytest.raises(InputError, match=f"^{named}"):
        imported(normalised_rows(columns, scale, 0), tmp_path)
