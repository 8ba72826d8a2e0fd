"""Weights as integers: by themselves, and with errors that make up for each other."""

from typing import Any

import numpy as np
import pytest

from xpulpnn_sw.networks.importers.calibration import rounded
from xpulpnn_sw.networks.importers.onnx_file import probes
from xpulpnn_sw.networks.importers.onnx_node import OnnxNode


def correlated(rng: np.random.Generator, count: int) -> Any:
    """Inputs as they are behind a convolution: not below 0, neighbours alike."""
    mixed = rng.normal(0, 1, (count, 8)) @ np.random.default_rng(1).normal(0, 1, (8, 24))
    return np.maximum(mixed + 0.3 * rng.normal(0, 1, mixed.shape), 0)


@pytest.mark.parametrize("most", [1, 7, 127])
@pytest.mark.parametrize("one_scale", [False, True])
def test_sums_are_nearer_than_with_nearest_weights(most: int, one_scale: bool) -> None:
    """For inputs that it has not seen."""
    rng = np.random.default_rng(most)
    rows = rng.normal(0, 1, (6, 24))
    seen, others = correlated(rng, 400), correlated(rng, 400)
    errors: list[float] = []
    for inputs in (None, seen.T @ seen / len(seen)):
        whole, scales = rounded(rows, most, inputs, one_scale=one_scale)
        assert whole.dtype == np.int64
        assert np.abs(whole).max() <= most
        assert len({*scales}) == (1 if one_scale else 6)
        errors.append(float(np.square(others @ (rows - whole * scales[:, np.newaxis]).T).sum()))
    assert errors[1] < 0.6 * errors[0]


def test_weights_that_are_integers_stay() -> None:
    rng = np.random.default_rng(3)
    whole = rng.integers(-7, 8, (5, 24))
    whole[:, 0] = 7
    seen = correlated(rng, 100)
    integers, scales = rounded(whole * 0.25, 7, seen.T @ seen / 100, one_scale=False)
    assert (integers == whole).all()
    assert scales == pytest.approx([0.25] * 5)


def test_inputs_that_are_always_0_and_filters_of_0() -> None:
    whole, scales = rounded(np.array([[1.0, -0.5, 0.25, 0.0], [0.0] * 4]), 7, np.zeros((4, 4)), one_scale=False)
    assert whole.tolist() == [[7, -4, 2, 0], [0, 0, 0, 0]]
    assert np.isfinite(scales).all()


@pytest.mark.parametrize(
    ("operator", "shape", "weights", "attributes"),
    [
        ("Conv", (1, 3, 7, 6), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ("Conv", (1, 2, 7, 6), (3, 2, 2, 2), {"dilations": [2, 1]}),
        ("Conv", (1, 2, 6, 6), (3, 2, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ("Gemm", (1, 5), (3, 5), {"transB": 1}),
        ("Gemm", (1, 5), (5, 3), {}),
        ("MatMul", (1, 5), (5, 3), {}),
    ],
)
def test_what_filters_meet(operator: str, shape: Any, weights: Any, attributes: dict[str, Any]) -> None:
    """Their products with the weights are the layer."""
    helper: Any = pytest.importorskip("onnx.helper")
    reference: Any = pytest.importorskip("onnx.reference")
    rng = np.random.default_rng(5)
    given = {"x": rng.normal(0, 1, shape).astype(np.float32), "w": rng.normal(0, 1, weights).astype(np.float32)}
    proto = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
    node = OnnxNode(operator=operator, name="", inputs=("x", "w"), outputs=("y",), attributes=values, proto=proto)
    (probe,) = probes((node,), {}).values()
    expected = reference.ReferenceEvaluator(proto).run(None, given)[0]
    filters = given["w"].T if shape[-1] == len(given["w"]) else given["w"].reshape(len(given["w"]), -1)
    sums = probe(given) @ filters.T
    expected = expected[0].reshape(len(filters), -1).T if expected.ndim == 4 else expected
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5)
