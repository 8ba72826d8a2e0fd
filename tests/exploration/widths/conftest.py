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
    onnx: Any = pytest.importorskip("onnx")
    reference: Any = pytest.importorskip("onnx.reference")
    helper, to_tensor = onnx.helper, onnx.numpy_helper.from_array
    rng = np.random.default_rng(7)
    shapes = {"w0": (4, 1, 3, 3), "b0": (4,), "w1": (8, 4, 3, 3), "w2": (8 * 2 * 2, CLASSES)}
    arrays = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["image", "w0", "b0"], ["s0"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["s0"], ["a0"]),
        helper.make_node("MaxPool", ["a0"], ["p0"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p0", "w1"], ["s1"], name="second", pads=[1] * 4),
        helper.make_node("Relu", ["s1"], ["a1"]),
        helper.make_node("MaxPool", ["a1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p1"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["scores"], name="third"),
        helper.make_node("Add", ["scores", "b2"], ["answers"]),
    ]
    images = rng.integers(0, 256, (60, 8, 8), dtype=np.uint8)

    def proto() -> Any:
        graph = helper.make_graph(
            nodes,
            "small",
            [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, (1, 1, 8, 8))],
            [helper.make_tensor_value_info("answers", onnx.TensorProto.FLOAT, (1, CLASSES))],
            [to_tensor(values, name) for name, values in arrays.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def scores() -> Any:
        compute = reference.ReferenceEvaluator(proto())
        reals = [image[np.newaxis, np.newaxis].astype(np.float32) / 255 for image in images]
        return np.concatenate([compute.run(None, {"image": real})[0] for real in reals])

    # every answer about as often as others
    arrays["b2"] = np.zeros(CLASSES, np.float32)
    arrays["b2"] = -scores().mean(axis=0)
    labels = scores().argmax(axis=1)
    assert len({*labels.tolist()}) == CLASSES
    folder = tmp_path_factory.mktemp("model")
    (folder / "small.onnx").write_bytes(proto().SerializeToString())
    np.savez(folder / "images.npz", images=images, labels=labels)
    return folder


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "cache_directory", lambda: tmp_path)
