"""Networks of random models with clips, negative factors and normalisation anywhere, against the models themselves.

What is imported has the model's results, is refused in a line, or says how far it is from them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.reference.golden.network import run_reference

from .random_models import FORMS, RandomModel
from .random_tflite import RandomGraph
from .tflite_models import imported

NEAR = 0.99
FEW = 8


def judged(path: Path, form: str, seeds: range) -> Iterator[str]:
    """What becomes of each model: near, told, refused, or an error of the test."""
    for seed in seeds:
        model, notes = RandomModel(seed, form), list[Any]()
        if not model.is_telling:
            continue
        try:
            own, warned = model.network(path / "model.onnx", notes.append)
        except InputError as error:
            yield "refused" if len(str(error).splitlines()) == 1 else "refused at length"
            continue
        if own.correlation > NEAR:
            yield "near"
            continue
        assert warned is not None, f"model {seed}: {own}"
        assert abs(warned.correlation - own.correlation) < 1 - NEAR, f"model {seed}: {own}, but {warned} is said"
        yield "told"


@pytest.mark.parametrize("seeds", [range(FEW), pytest.param(range(FEW, 45), marks=pytest.mark.flow)])
@pytest.mark.parametrize("form", FORMS)
def test_models(tmp_path: Path, form: str, seeds: range) -> None:
    verdicts = [*judged(tmp_path, form, seeds)]
    assert "refused at length" not in verdicts
    # what quantises itself is refused more often: its quantisers are where they are
    assert verdicts.count("near") > len(verdicts) * (0.8 if form == "float" else 0.3)


@pytest.mark.flow
@pytest.mark.parametrize("form", ["float", "qdq"])
def test_results_are_those_of_onnx_runtime(form: str) -> None:
    """What the networks are compared with, where ONNX Runtime is installed, which has no operators of QONNX."""
    runtime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not there: pip install '.[interpreter]'")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for seed in range(FEW * 2):
        model = RandomModel(seed, form)
        if not model.is_telling:
            continue
        proto = model.model.proto()
        proto.graph.output[0].name = model.result
        session = runtime.InferenceSession(proto.SerializeToString(), options)
        given = model.images.transpose(0, 3, 1, 2)[:, np.newaxis].astype(np.float32) / np.float32(255)
        results = np.concatenate([session.run(None, {"image": image})[0] for image in given])
        assert np.corrcoef(results.ravel(), model.expected.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("seeds", [range(10, 20), pytest.param(range(20, 60), marks=pytest.mark.flow)])
def test_graphs_of_tflite(tmp_path: Path, seeds: range) -> None:
    near, refused = 0, list[str]()
    for seed in seeds:
        graph = RandomGraph(seed)
        if not graph.is_telling:
            continue
        try:
            described = imported(graph.written(tmp_path / "model.tflite"))
        except InputError as error:
            refused.append(str(error))
            continue
        results = run_reference(described.network, described.batch((graph.inputs + 128).astype(np.uint8)))[-1]
        expected = graph.known[graph.operators[-1].outputs[0]]
        assert np.corrcoef(results.ravel(), expected.ravel())[0, 1] > NEAR, f"graph {seed}"
        near += 1
    assert near > len(seeds) // 2
    assert all("activation must leave some of the results' codes" in message for message in refused)
