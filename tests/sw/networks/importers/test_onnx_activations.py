"""Rising functions of single numbers, and maps beside each other, between quantisers of a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.registry import request_of

from .onnx_models import Model, check, conv, correlation, imported, kinds

pytestmark = pytest.mark.flow

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
    assert kinds(check(model, tmp_path, scale, rng, zero)) == ["conv", "pointwise", "depthwise", "maxpool"]
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


def test_what_is_refused(tmp_path: Path) -> None:
    def model(*nodes: tuple[str, dict[str, Any]]) -> Model:
        concatenation = Model((1, 2, 7, 6))
        concatenation.pair(1.0, 0, np.uint8)
        for name, attributes in nodes:
            concatenation.node(name, *[concatenation.last] * (name == "Concat"), **attributes)
        return concatenation

    for nodes, message in (
        ([("LeakyRelu", {"alpha": -0.5})], "LeakyRelu leakyrelu2: alpha must be greater than 0, not -0.5"),
        ([("Sigmoid", {}), ("Tanh", {})], "Tanh tanh3: input must not be a function of another"),
        ([("Sigmoid", {}), ("Relu", {})], "Relu relu3: input must come from a quantiser"),
        ([("Concat", {"axis": 2})], "Concat concat2: axis must be that of channels, 1, not 2"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            imported(model(*nodes, ("Abs", {})), tmp_path)


def test_means_of_sequences(tmp_path: Path) -> None:
    rng = np.random.default_rng(16)
    model = Model((1, 5, 12))
    conv(model, (8, 5, 3), 4, rng)
    model.quant(64.3, 8, signed=True)
    model.node("ReduceMean", model.constant([2], np.int64), keepdims=0)
    model.quant(20.7, 8, signed=True)
    assert kinds(check(model, tmp_path, 20.7, rng)) == ["conv", "avgpool"]
