"""A small model in floating point, and images that it is labelled by."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpulpnn_sim.tools import results

CLASSES = 4


@pytest.fixture
def model(made_model: Path, tmp_path: Path) -> Path:
    """Two convolutions and a product, in a folder where ``images.npz`` has 60 images with the answers of the model."""
    return Path(shutil.copytree(made_model, tmp_path, dirs_exist_ok=True)) / "small.onnx"


@pytest.fixture(scope="session")
def made_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    onnx_models: Any = pytest.importorskip("tests.sw.networks.importers.onnx_models")
    rng = np.random.default_rng(7)
    network = onnx_models.Model((1, 1, 8, 8))
    shapes = ((4, 1, 3, 3), (4,), (8, 4, 3, 3), (8 * 2 * 2, CLASSES))
    first, bias, second, third = (network.constant(rng.normal(0, 1, shape)) for shape in shapes)
    for constants in ((first, bias), (second,)):
        network.node("Conv", *constants, pads=[1] * 4)
        network.node("Relu")
        network.node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    network.node("Flatten")
    network.node("MatMul", third)
    for number, name in ((0, "first"), (3, "second"), (7, "third")):
        network.nodes[number].name = name
    images = rng.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    scores = np.concatenate([network.computed(image[np.newaxis, np.newaxis] / 255) for image in images])
    # every answer about as often as others
    network.node("Add", network.constant(-scores.mean(axis=0)))
    labels = (scores - scores.mean(axis=0)).argmax(axis=1)
    assert len({*labels.tolist()}) == CLASSES
    folder = tmp_path_factory.mktemp("model")
    network.saved(folder / "small.onnx")
    np.savez(folder / "images.npz", images=images, labels=labels)
    return folder


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "cache_directory", lambda: tmp_path)
