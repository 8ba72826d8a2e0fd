"""Networks in files: what is written is read again, and what describes none is refused in one line."""

import json
import re

import numpy as np
import pytest

from xpulpnn.errors import InputError, LayerError, XpulpnnError
from xpulpnn_sim.harness.cifar10 import random_network
from xpulpnn_sim.harness.references import reference
from xpulpnn_sw.networks.form import Scaling, arrays_of, description, read_network

pytestmark = pytest.mark.unit

LAYERS = [
    {"name": "first", "kernel": "conv", "layer": "4x4x4:8x3x3", "precision": "8x8x8", "requantise": "shift"},
    {"name": "pool", "kernel": "avgpool", "layer": "4x4x8:2x2:s=2", "precision": "8x8x8"},
    {"name": "last", "kernel": "linear", "layer": "32:3:raw", "precision": "8x8xi32"},
]


def written(folder, *, layers=None, changes=None, **others):
    """A network by hand: a filter of ones, and sums of halves of all."""
    arrays = {
        "first.weights": np.ones((8, 3, 3, 4), np.int8),
        "first.bias": np.arange(8),
        "first.shift": np.array(3),
        "last.weights": np.stack([np.ones(32), np.arange(32), -np.ones(32)]).astype(np.int64),
    }
    arrays = {name: values for name, values in (arrays | (changes or {})).items() if values is not None}
    np.savez(folder / "weights.npz", **arrays)
    content = {"name": "hand", "arrays": "weights.npz", "layers": LAYERS if layers is None else layers} | others
    path = folder / "hand.json"
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return path


def results(network, image):
    found = [image]
    for stage in network.stages:
        found.append(reference(stage.layer, stage.fed(found[-1]), stage.precision).astype(np.int64))
    return found[1:]


def test_a_network_by_hand(tmp_path):
    network = read_network(written(tmp_path)).network
    assert [stage.name for stage in network.stages] == ["first", "pool", "last"]
    first, pool, last = results(network, np.full((4, 4, 4), 5))
    # 36 products inside, 16 at the corner, biases by channel, shifted by 3
    assert first[1, 1].tolist() == [(36 * 5 + bias) >> 3 for bias in range(8)]
    assert first[0, 0].tolist() == [(16 * 5 + bias) >> 3 for bias in range(8)]
    assert pool.shape == (2, 2, 8)
    assert last.tolist() == [pool.sum(), (pool.reshape(-1) * np.arange(32)).sum(), -pool.sum()]


@pytest.mark.parametrize("bits", [8, 2])
def test_round_trip(tmp_path, bits):
    network, image = random_network(bits, seed=3)
    scaling = Scaling(subtract=(125, 123, 114), multiply=128, add=128, shift=8)
    (tmp_path / "net.json").write_text(description(network, "net.npz", scaling))
    np.savez(tmp_path / "net.npz", **arrays_of(network))
    again = read_network(tmp_path / "net.json")
    assert again.scaling == scaling
    for one, other, right, got in zip(
        network.stages, again.network.stages, results(network, image), results(again.network, image), strict=True
    ):
        assert (str(one.layer), one.precision, one.name) == (str(other.layer), other.precision, other.name)
        np.testing.assert_array_equal(got, right)


def test_images_are_scaled(tmp_path):
    scaling = {"subtract": [10, 20, 30, 40], "multiply": 3, "add": 2, "shift": 1}
    described = read_network(written(tmp_path, input=scaling))
    image = np.tile([10, 30, 29, 255], (4, 4, 1)).astype(np.uint8)
    assert described.inputs(image)[0, 0].tolist() == [1, 16, 0, 255]
    with pytest.raises(LayerError, match=r"^image must have the shape \(4, 4, 4\), not \(4, 4, 3\)$"):
        described.inputs(image[:, :, :3])


def but(number, **changes):
    return [layer | changes if position == number else layer for position, layer in enumerate(LAYERS)]


BAD = {
    "no layers": ({"layers": []}, "layers must be a list with a layer at least, not something else"),
    "no name": ({"name": None}, "network must be an object with name, not without"),
    "strange": (
        {"colour": 1},
        "network must be an object of name, arrays, layers, input, not also colour",
    ),
    "kernel": (
        {"layers": but(0, kernel="matmul")},
        "kernel of first must be one of conv, pointwise, conv1d, linear, depthwise, add, avgpool, maxpool, relu, not m",
    ),
    "rule": (
        {"layers": but(0, requantise="floor")},
        "requantise of first must be one of ",
    ),
    "layer": ({"layers": but(0, layer="4x4")}, "first: layer must be HxWxC:OxKyxKx[:s=,p=], not 4x4"),
    "bits": ({"layers": but(1, precision="1x1x1")}, "pool: precision of "),
    "twice": ({"layers": [LAYERS[0], LAYERS[0]]}, "names of layers must be different, not first twice"),
    "arrays": ({"arrays": "none.npz"}, "weights must be an existing file, not "),
    "shape": ({"changes": {"first.bias": np.zeros(3, np.int64)}}, "first: shape of bias must be (8,), not (3,)"),
    "range": ({"changes": {"first.weights": np.full((8, 3, 3, 4), 300)}}, "first: weights must be -128..127, not 300"),
    "missing": ({"changes": {"last.weights": None}}, "last: arrays must be weights, bias (bias if there is one), not "),
    "of nobody": ({"changes": {"weights": np.zeros(3)}}, "arrays must be called LAYER.NAME, not weights"),
    "of a pool": ({"changes": {"pool.shift": np.array(3)}}, "pool: arrays must be none, not also shift"),
    "scaled": (
        {"layers": but(1, layer="4x4x8:2x2:s=2:scaled")},
        "pool: arrays must be factor, summand, shift, not without factor",
    ),
    "input": ({"input": {"multiply": 1.5}}, "input must be whole numbers, subtract a list of them, not something else"),
    "shift": ({"input": {"shift": 99}}, "shift of the input must be 0..31, not 99"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, case):
    changes, message = BAD[case]
    path = written(tmp_path, **changes)
    with pytest.raises(XpulpnnError, match=f"^{re.escape(message)}"):
        read_network(path)


@pytest.mark.parametrize("content", ["", "[", "[1]", "\xff"])
def test_no_network_at_all(tmp_path, content):
    path = tmp_path / "net.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"^network must be "):
        read_network(path)
