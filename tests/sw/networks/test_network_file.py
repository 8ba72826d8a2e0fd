"""Networks in files: what is written is read again, and what describes none is refused in one line."""

import json
import re

import numpy as np
import pytest

from xpulpnn.errors import InputError, LayerError, XpulpnnError
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.network import NetworkModel, Scaling
from xpulpnn_sw.networks.network_file import read_network
from xpulpnn_sw.networks.network_file import serialised as contents

LAYERS = [
    {"name": "first", "kernel": "conv", "layer": "4x4x4:8x3x3", "precision": "8x8x8", "requantise": "shift"},
    {"name": "pool", "kernel": "avgpool", "layer": "4x4x8:2x2:s=2", "precision": "8x8x8"},
    {"name": "last", "kernel": "linear", "layer": "32:3:raw", "precision": "8x8xi32"},
]


def written(folder, *, layers=LAYERS, changes=None, **others):
    arrays = {
        "first.weights": np.ones((8, 3, 3, 4), np.int8),
        "first.bias": np.arange(8),
        "first.shift": np.array(3),
        "last.weights": np.stack([np.ones(32), np.arange(32), -np.ones(32)]).astype(np.int64),
    }
    arrays = {name: values for name, values in (arrays | (changes or {})).items() if values is not None}
    np.savez(folder / "weights.npz", **arrays)
    content = {"name": "hand", "arrays": "weights.npz", "layers": layers} | others
    path = folder / "hand.json"
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return path


def again(described, folder, name="again"):
    text, arrays = contents(described, f"{name}.npz")
    (folder / f"{name}.json").write_text(text)
    (folder / f"{name}.npz").write_bytes(arrays)
    return text, read_network(folder / f"{name}.json")


@pytest.mark.flow
def test_a_network_by_hand(tmp_path):
    network = read_network(written(tmp_path)).network
    assert [stage.name for stage in network.stages] == ["first", "pool", "last"]
    first, pool, last = (result[0] for result in run_reference(network, np.full((1, 4, 4, 4), 5)))
    # 36 products inside, 16 at the corner, biases by channel, shifted by 3
    assert first[1, 1].tolist() == [(36 * 5 + bias) >> 3 for bias in range(8)]
    assert first[0, 0].tolist() == [(16 * 5 + bias) >> 3 for bias in range(8)]
    assert pool.shape == (2, 2, 8)
    assert last.tolist() == [pool.sum(), (pool.reshape(-1) * np.arange(32)).sum(), -pool.sum()]


@pytest.mark.flow
def test_a_sequence(tmp_path):
    """Filters are [filter][pixel][channel], as of the kernel alone."""
    layers = [LAYERS[0] | {"kernel": "conv1d", "layer": "6x4:8x3:p=0"}]
    taps = np.arange(8 * 12).reshape(8, 3, 4)
    changes = {"first.weights": taps, "last.weights": None}
    network = read_network(written(tmp_path, layers=layers, changes=changes)).network
    (first,) = (result[0] for result in run_reference(network, np.full((1, 6, 4), 2)))
    assert first.tolist() == [[min(2 * int(own.sum()) + bias >> 3, 255) for bias, own in enumerate(taps)]] * 4
    with pytest.raises(InputError, match=r"^first: shape of weights must be \(8, 3, 4\), not \(8, 1, 3, 4\)$"):
        read_network(written(tmp_path, layers=layers, changes=changes | {"first.weights": taps[:, np.newaxis]}))


@pytest.mark.flow
def test_round_trip(tmp_path):
    network, image = random_network(2, seed=3)
    scaling = Scaling(subtract=(125, 123, 114), multiply=128, add=128, shift=8)
    _, read = again(NetworkModel(network=network, scaling=scaling), tmp_path)
    assert read.scaling == scaling
    results = (run_reference(network_, image[np.newaxis]) for network_ in (network, read.network))
    for stage, other, right, got in zip(network.stages, read.network.stages, *results, strict=True):
        assert (str(stage.layer), stage.precision, stage.name) == (str(other.layer), other.precision, other.name)
        np.testing.assert_array_equal(got, right)


GRAPH = [
    {"name": "first", "kernel": "conv", "layer": "4x4x4:8x3x3", "precision": "8x8x8", "requantise": "shift", "pad": 7},
    {"name": "second", "kernel": "depthwise", "layer": "4x4x8:3x3", "precision": "8x8x8", "requantise": "multiply"},
    {"name": "sum", "kernel": "add", "layer": "4x4x8", "precision": "8xu8x8", "inputs": ["second", "first"]},
    {"name": "mean", "kernel": "avgpool", "layer": "4x4x8:4x4:scaled", "precision": "8x8x8"},
    {"name": "sign", "kernel": "linear", "layer": "8:4", "precision": "8x1x1", "requantise": "thresholds"},
    {"name": "last", "kernel": "linear", "layer": "4:3:raw", "precision": "1x1xi32", "inputs": ["sign"]},
]
OF_GRAPH = {
    "second.weights": np.full((8, 3, 3), 3),
    "second.factor": np.array(5),
    "second.shift": np.array(6),
    "sum.factors": np.array([1, 2]),
    "sum.summands": np.array([3, 4]),
    "sum.shifts": np.array([5, 6]),
    "mean.factor": np.array(7),
    "mean.summand": np.array(8),
    "mean.shift": np.array(2),
    "sign.weights": np.where(np.arange(32).reshape(4, 8) % 3, 1, -1),
    "sign.thresholds": np.array([[-3], [0], [5], [9]]),
    "last.weights": np.where(np.arange(12).reshape(3, 4) % 2, 1, -1),
}


def graph(folder, *, layers=GRAPH, **others):
    others = {"version": 2, "classes": ["a", "b", "c"]} | others
    return written(folder, layers=layers, changes=OF_GRAPH, **others)


@pytest.mark.flow
def test_a_graph_is_read_as_it_was_written(tmp_path):
    described = read_network(graph(tmp_path))
    stages = described.network.stages
    sources = [" ".join(described.network.sources(number)) for number in range(len(stages))]
    assert sources == ["input", "first", "second first", "sum", "mean", "sign"]
    assert [stage.pad for stage in stages] == [7, 0, 0, 0, 0, 0]
    assert (described.labels, described.classes, described.random_input(0).shape) == (("a", "b", "c"), 3, (4, 4, 4))
    text, read = again(described, tmp_path)
    assert contents(read, "again.npz")[0] == text
    assert read.labels == described.labels
    assert [entry["name"] for entry in json.loads(text)["layers"]] == [stage.name for stage in stages]
    before, after = (np.load(tmp_path / name) for name in ("weights.npz", "again.npz"))
    with before, after:
        # no bias of a depthwise layer is a bias of 0
        assert {*after.files} == {*before.files, "second.bias"}
        for name in before.files:
            np.testing.assert_array_equal(after[name], before[name], name)


def test_one_bit_of_an_image_is_its_sign():
    samples = np.array([[0], [127], [128], [255]])
    assert Scaling(subtract=(128,)).scaled(samples, 1, signed=False).reshape(-1).tolist() == [-1, -1, 1, 1]


@pytest.mark.flow
def test_images_of_a_batch(tmp_path):
    described = read_network(graph(tmp_path, input={"shift": 1}))
    samples = np.arange(2 * 64).reshape(2, 4, 4, 4)
    np.testing.assert_array_equal(described.batch(samples), samples // 2)
    np.testing.assert_array_equal(described.batch(samples.reshape(2, 64)), samples // 2)
    for shape in ((2, 8, 8), (2, 4, 16), (2, 2, 8, 4), (2, 4, 4, 3)):
        with pytest.raises(LayerError, match=r"^image must have the shape \(4, 4, 4\), not "):
            described.batch(np.zeros(shape, int))


def test_images_are_scaled(tmp_path):
    scaling = {"subtract": [10, 20, 30, 40], "multiply": 3, "add": 2, "shift": 1}
    described = read_network(written(tmp_path, input=scaling))
    image = np.tile([10, 30, 29, 255], (4, 4, 1)).astype(np.uint8)
    assert described.inputs(image)[0, 0].tolist() == [1, 16, 0, 255]


def but(layers, number, **changes):
    return {"layers": [layer | changes if position == number else layer for position, layer in enumerate(layers)]}


BAD = {
    "layers": {"layers": []},
    "network must be an object with name": {"name": None},
    "kernel of first": but(LAYERS, 0, kernel="matmul"),
    "first: layer": but(LAYERS, 0, layer="4x4"),
    "names of layers must be": {"layers": [LAYERS[0], LAYERS[0]]},
    "first: shape of bias": {"changes": {"first.bias": np.zeros(3, np.int64)}},
    "last: arrays": {"changes": {"last.weights": None}},
    "pool: arrays": but(LAYERS, 1, layer="4x4x8:2x2:s=2:scaled"),
    "multiply of input must be": {"input": {"multiply": 1.5}},
    "arrays of {folder}/hand.json must be a file in {folder}, not none.npz, which": {"arrays": "none.npz"},
    "arrays of {folder}/hand.json must be a file of numpy.savez with numbers, not ": {"arrays": "hand.json"},
    "arrays in {folder}/weights.npz must be called LAYER.NAME": {"changes": {"weights": np.zeros(3)}},
}
BAD_GRAPHS = {
    "version of network": {"version": 3},
    "inputs of second": but(GRAPH, 1, inputs=["sum"]),
    "inputs of sum must be 2": but(GRAPH, 2, inputs=["first"]),
    "inputs of sum must be 4x4x8 of u8": but(GRAPH, 2, layer="2x8x8"),
    "inputs of last must be 4 of 1 bit": but(GRAPH, 5, precision="8x1xi32"),
    "pad of first must be 0..255": but(GRAPH, 0, pad=256),
    "mean: pad must be left out": but(GRAPH, 3, pad=1),
    "inputs of layers[1] must be a list": but(GRAPH, 1, inputs="first"),
    "classes": {"classes": ["a", "b"]},
    "names of layers must be different, not input": but(GRAPH, 0, name="input"),
    "layers[0]": {"version": None, "classes": None},
}


@pytest.mark.flow
@pytest.mark.parametrize("named", [*BAD, *BAD_GRAPHS])
def test_bad_files(tmp_path, named):
    path = written(tmp_path, **BAD[named]) if named in BAD else graph(tmp_path, **BAD_GRAPHS[named])
    with pytest.raises(XpulpnnError, match=f"^{re.escape(named.replace('{folder}', str(tmp_path)))}"):
        read_network(path)


@pytest.mark.parametrize("content", ["", "[", "[1]", "\xff"])
def test_no_network_at_all(tmp_path, content):
    path = tmp_path / "net.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"^network must be "):
        read_network(path)
