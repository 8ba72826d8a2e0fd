"""Clips inside the range of a quantiser, negative factors, normalisation behind activations, and answers at the end."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorAnnotation, TensorProto

from xpulpnn.errors import InputError
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.onnx_evaluation import evaluated
from xpulpnn_sw.networks.importers.onnx_file import import_onnx
from xpulpnn_sw.networks.importers.quantiser import Affine
from xpulpnn_sw.networks.importers.registry import ImportOptions, request_of
from xpulpnn_sw.networks.network import NetworkModel

from .onnx_models import Model, check, conv, correlation, imported, kinds

IMAGES = 16


def pictures(rng: np.random.Generator, side: int = 8, channels: int = 3) -> NDArray[np.uint8]:
    level = rng.uniform(20, 235, (IMAGES, 1, 1, channels))
    return np.clip(level + rng.normal(0, 40, (IMAGES, side, side, channels)), 0, 255).astype(np.uint8)


def classes(model: Model, rng: np.random.Generator, channels: int) -> None:
    model.node("GlobalAveragePool")
    model.node("Flatten")
    model.node("Gemm", model.constant(rng.normal(0, 1, (5, channels))), transB=1)


def weights(model: Model, rng: np.random.Generator, *shape: int) -> str:
    return model.constant(rng.normal(0, 1, shape) / np.sqrt(np.prod(shape[1:])))


def normalised(model: Model, rng: np.random.Generator, channels: int = 8) -> None:
    """Batch normalisation with factors of both signs."""
    factor = rng.uniform(0.5, 2, channels) * np.resize([1, -1], channels)
    parameters = (factor, rng.normal(0, 1, channels), rng.normal(0, 0.3, channels), rng.uniform(0.2, 2, channels))
    model.node("BatchNormalization", *map(model.constant, parameters))


def node(operator: str, **attributes: Any) -> Any:
    return lambda model, _: model.node(operator, **attributes)


def clipped(low: float | None, high: float | None) -> Any:
    return lambda model, _: model.node("Clip", *("" if end is None else model.constant(end) for end in (low, high)))


def residual(model: Model, rng: np.random.Generator) -> None:
    before = model.last
    convolved(model, rng)
    model.node("Add", before)


def convolved(model: Model, rng: np.random.Generator) -> None:
    model.node("Conv", weights(model, rng, 8, 8, 3, 3), pads=[1] * 4)


def turned(model: Model, rng: np.random.Generator) -> None:
    model.node("Mul", model.constant(rng.choice([-1.5, 2], (8, 1, 1))))


HALVED = {"kernel_shape": [2, 2], "strides": [2, 2]}
CHANGES: dict[str, tuple[Any, ...]] = {
    "Relu, normalised": (node("Relu"), normalised),
    "clip inside below": (clipped(-0.2, 2.0),),
    "clip inside on both sides": (clipped(-0.3, 0.3),),
    "clip above 0": (clipped(0.1, 0.8),),
    "clip above 0, padded": (clipped(0.1, 0.8), convolved),
    "clip below 0": (clipped(-0.8, -0.1),),
    "one end": (clipped(None, 0.1),),
    "turned and clipped": (node("Relu"), node("Neg"), clipped(-0.6, -0.1)),
    "pool, factors of both signs": (node("MaxPool", **HALVED), turned),
    "residual, normalised": (residual, node("Relu"), normalised),
    "average, normalised": (node("AveragePool", **HALVED), normalised),
    "LeakyRelu, normalised": (node("LeakyRelu", alpha=0.1), normalised),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_behind_layers_in_floating_point(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(3)
    model = Model((1, 3, 8, 8))
    model.node("Conv", weights(model, rng, 8, 3, 3, 3), model.constant(rng.normal(0, 0.3, 8)), pads=[1] * 4)
    for change in CHANGES[name]:
        change(model, rng)
    model.node("Conv", weights(model, rng, 8, 8, 3, 3))
    model.node("Relu")
    classes(model, rng, 8)
    images = pictures(rng)
    described = imported(model, tmp_path, samples=None, quantise=request_of("8"), images=images)
    assert correlation(model, described, images, images.astype(np.float32) / np.float32(255)) > 0.995


def test_clip_whose_least_end_is_the_greater_one() -> None:
    clamped = Affine(a=Fraction(1), b=Fraction(0), least=-9, most=9).clamped(Fraction(5), Fraction(2))
    assert {clamped.at(value) for value in range(-9, 10)} == {2}
    turned = clamped.then(Fraction(-1), Fraction(0))
    assert {turned.at(value) for value in range(-9, 10)} == {-2}


def quantised(rng: np.random.Generator) -> Model:
    model = Model((1, 3, 4, 4))
    model.pair(1.0, 0, np.uint8)
    model.node("Conv", model.integers(rng.integers(-30, 31, (4, 3, 3, 3)), 2.0**-5, np.int8))
    model.pair(4.0, 0, np.int8)
    model.node("Flatten")
    model.node("Gemm", model.integers(rng.integers(-30, 31, (5, 16)), 2.0**-5, np.int8), transB=1)
    model.pair(8.0, 3, np.int8)
    return model


def least_of(model: Model) -> str:
    return model.node("TopK", model.constant([1], np.int64), largest=0)


ENDS: dict[str, tuple[Any, int]] = {
    "Mul": (lambda model: model.node("Mul", model.constant(-2)), -1),
    "Div": (lambda model: model.node("Div", model.constant(-2)), -1),
    "Sub": (lambda model: model.node("Sub", model.last, source=model.constant(7)), -1),
    "Neg": (lambda model: model.node("Neg"), -1),
    "Softmax of Neg": (lambda model: (model.node("Neg"), model.node("Softmax")), -1),
    "TopK": (least_of, -1),
    "ArgMin": (lambda model: model.node("ArgMin", axis=1), -1),
    "ArgMin of Neg": (lambda model: (model.node("Neg"), model.node("ArgMin", axis=1)), 1),
    "ArgMax": (lambda model: model.node("ArgMax", axis=1), 1),
}


@pytest.mark.parametrize("is_quantised", [True, False], ids=["quantiser", "sums"])
@pytest.mark.parametrize("name", ENDS)
def test_answers(tmp_path: Path, name: str, is_quantised: bool) -> None:
    rng = np.random.default_rng(4)
    model = quantised(rng)
    if not is_quantised:
        del model.nodes[-2:]
        model.last = model.nodes[-1].output[0]
    before = model.computed, model.last
    images = rng.integers(0, 256, (IMAGES, 4, 4, 3))
    scores = np.concatenate([before[0](image.transpose(2, 0, 1)[np.newaxis]) for image in images])
    put, sign = ENDS[name]
    put(model)
    if name == "TopK":
        model.nodes[-1].output.append("places")
    net = imported(model, tmp_path)
    results = run_reference(net.network, net.batch(images))[-1].reshape(scores.shape)
    assert np.corrcoef(results.ravel(), sign * scores.ravel())[0, 1] > 0.999
    assert (results.argmax(axis=1) == (sign * scores).argmax(axis=1)).all()


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (lambda model: model.node("Cast", to=TensorProto.INT32), "scores at the end of the model must stay in"),
        (lambda model: model.node("QuantizeLinear", model.constant(-0.1), model.constant(0, np.uint8)), "scale at the"),
    ],
)
def test_ends_that_change_the_answer(tmp_path: Path, put: Any, message: str) -> None:
    model = quantised(np.random.default_rng(5))
    model.node("Softmax")
    put(model)
    with pytest.raises(InputError, match=message):
        imported(model, tmp_path)


@pytest.mark.parametrize(("axis", "said"), [(1, ""), (0, " of those along axis 0, 1 of 5")])
def test_axis_of_the_answer(tmp_path: Path, axis: int, said: str) -> None:
    model, notes = quantised(np.random.default_rng(5)), list[Any]()
    name = model.node("ArgMax", axis=axis)
    imported(model, tmp_path, note=notes.append)
    assert f"ArgMax {name} is left out: it does not change which result is the greatest{said}" in notes


def greatest(values: Any, reach: int, step: int, pads: list[int], windows: int) -> Any:
    side = values.shape[-1]
    maxima = np.empty((*values.shape[:2], windows, windows), values.dtype)
    for row, column in np.ndindex(windows, windows):
        rows, columns = (
            slice(max(place * step - pad, 0), min(place * step - pad + reach, side))
            for place, pad in zip((row, column), pads, strict=True)
        )
        maxima[:, :, row, column] = values[:, :, rows, columns].max(axis=(2, 3))
    return maxima


@pytest.mark.parametrize(
    ("side", "reach", "step", "pads", "more", "windows"),
    [
        (7, 3, 1, [0, 0, 1, 1], {}, 6),
        (7, 2, 1, [1, 0, 0, 1], {}, 7),
        (6, 3, 2, [0, 0, 0, 0], {"ceil_mode": 1}, 3),
        # a window more would begin behind the map
        (6, 1, 3, [0, 0, 0, 0], {"ceil_mode": 1}, 2),
        (7, 2, 4, [1, 1, 1, 1], {"ceil_mode": 1}, 2),
        (6, 3, 2, [0, 0, 1, 1], {"auto_pad": "SAME_UPPER"}, 3),
        (6, 3, 2, [1, 1, 0, 0], {"auto_pad": "SAME_LOWER"}, 3),
    ],
)
def test_windows_of_pools(tmp_path, side, reach, step, pads, more, windows):
    rng = np.random.default_rng(6)
    model = Model((1, 3, side, side))
    own = {} if "auto_pad" in more else {"pads": pads}
    name = model.node("MaxPool", kernel_shape=[reach] * 2, strides=[step] * 2, **own, **more)
    images = pictures(rng, side)
    given = images.transpose(0, 3, 1, 2)[:, np.newaxis].astype(np.float32)
    pools = [greatest(values, reach, step, pads[:2], windows) for values in given]
    for values, expected in zip(given, pools, strict=True):
        np.testing.assert_array_equal(evaluated(model.proto())({"image": values})[0], expected)
    model.node("Flatten", source=name)
    matrix = rng.normal(0, 1, (5, 3 * windows**2)).astype(np.float32)
    model.node("Gemm", model.constant(matrix), transB=1)
    net = imported(model, tmp_path, quantise=request_of("8"), images=images)
    scores = np.concatenate([pool.reshape(1, -1) @ matrix.T for pool in pools])
    assert np.corrcoef(run_reference(net.network, net.batch(images))[-1].ravel(), scores.ravel())[0, 1] > 0.999


def test_sum_of_maps_with_long_scales(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    model = Model((1, 3, 8, 8))
    model.node("Conv", weights(model, rng, 8, 3, 3, 3))
    first = model.node("Relu")
    model.node("Conv", weights(model, rng, 8, 3, 3, 3), source="image")
    model.node("Relu")
    model.node("Mul", model.constant(0.7 / 256))
    model.node("Add", first)
    classes(model, rng, 8)
    images = pictures(rng)
    net = imported(model, tmp_path, samples=None, quantise=request_of("8"), images=images)
    assert correlation(model, net, images, images.astype(np.float32) / np.float32(255)) > 0.999


def annotated(model: Model, name: str, path: Path) -> NetworkModel:
    proto = model.proto()
    note = TensorAnnotation(tensor_name="image")
    note.quant_parameter_tensor_names.add(key="finn_datatype", value=name)
    proto.graph.quantization_annotation.append(note)
    path.write_bytes(proto.SerializeToString())
    return import_onnx(path, ImportOptions(name="model"))


@pytest.mark.parametrize(("name", "low"), [("UINT8", 0), ("INT8", -128)])
def test_annotated_inputs(tmp_path: Path, name: str, low: int) -> None:
    rng = np.random.default_rng(8)
    model = Model((1, 3, 4, 4))
    conv(model, (4, 3, 3, 3), 4, rng, pads=[0] * 4)
    model.quant(16.0, 8, signed=True)
    net = annotated(model, name, tmp_path / "model.onnx")
    images = pictures(rng, 4).astype(np.int64)
    results = run_reference(net.network, net.batch(images))[-1]
    expected = [model.computed(image.transpose(2, 0, 1)[np.newaxis] + low)[0] / 16 for image in images]
    np.testing.assert_array_equal(results.transpose(0, 3, 1, 2), expected)
    with pytest.raises(InputError, match="samples must be given for an input whose numbers are UINT4"):
        annotated(model, "UINT4", tmp_path / "model.onnx")


def two_readers(rng: np.random.Generator, first: float, second: float) -> Model:
    model, names = Model((1, 3, 4, 4)), list[str]()
    for scale in (first, second):
        source = model.pair(scale, 0, np.uint8, "image")
        whole = model.integers(rng.integers(-30, 31, (4, 3, 3, 3)), 2.0**-4, np.int8)
        model.node("Conv", whole, source=source)
        names.append(model.pair(4.0, 0, np.int8))
    model.node("Add", names[0], source=names[1])
    model.pair(4.0, 0, np.int8)
    return model


def test_input_that_another_layer_reads_in_a_quantiser_s_scale(tmp_path: Path) -> None:
    """Unless it has that scale already."""
    rng = np.random.default_rng(9)
    check(two_readers(rng, 1.0, 3.0), tmp_path, 4.0, rng, near=1)
    with pytest.raises(InputError, match="input must be quantised everywhere or nowhere, not in parts"):
        imported(two_readers(rng, 3.0, 1.0), tmp_path)


def test_input_of_integers_in_another_scale(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    model = Model((1, 3, 4, 4), TensorProto.INT8)
    model.node("DequantizeLinear", model.constant(1.0), model.constant(3, np.int8))
    model.node("Add", model.constant(1.0))
    model.pair(3.0, 0, np.int8)
    model.node("Conv", model.integers(rng.integers(-30, 31, (4, 3, 3, 3)), 2.0**-4, np.int8))
    model.pair(4.0, 0, np.int8)
    check(model, tmp_path, 4.0, rng, given=lambda image: image.astype(np.int64) - 128)


def test_average_behind_which_factors_differ(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    model = Model((1, 3, 4, 4))
    model.pair(1.0, 0, np.uint8)
    model.node("GlobalAveragePool")
    model.node("Mul", model.constant(np.reshape([-1, 0.5, 2], (3, 1, 1))))
    model.pair(4.0, 0, np.int8)
    described = check(model, tmp_path, 4.0, rng)
    assert kinds(described) == ["depthwise"]


def test_normalisation_with_quantised_parameters(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    model = Model((1, 3, 4, 4))
    model.pair(1.0, 0, np.uint8)
    factor = model.integers([64, -32, 96], 2.0**-6, np.int8)
    summand = model.integers([-400, 300, 100], 2.0**-3, np.int32)
    last = "dequantizelinear1"
    model.node(
        "BatchNormalization", factor, summand, *map(model.constant, (np.zeros(3), np.ones(3))), source=last, epsilon=0.0
    )
    model.pair(4.0, 100, np.uint8)
    check(model, tmp_path, 4.0, rng, zero=100)
