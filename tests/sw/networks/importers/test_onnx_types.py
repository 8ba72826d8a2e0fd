"""Weights and maps of the types that ONNX has for integers besides signed bytes."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xpulpnn.errors import InputError

from .onnx_models import Model, check, imported, kinds

pytestmark = pytest.mark.flow


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
    assert kinds(described) == ["pointwise", "conv"] * 2 + ["pointwise", "linear"]
    assert len([note for note in notes if note.endswith(" times")]) == 3
    assert not any("by 1 at the most" in note for note in notes)


def test_names_that_are_no_line(tmp_path: Path) -> None:
    model = Model((1, 4, 6, 5))
    model.pair(1.0, 0, np.uint8)
    model.nodes[0].name = "two\nlines"
    with pytest.raises(InputError, match=r"^names in the model must be text in a line, not 'two\\nlines'$"):
        imported(model, tmp_path)
