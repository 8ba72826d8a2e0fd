"""The reference of networks: against loops over single elements, by hand, and against those of single kernels."""

import itertools
from pathlib import Path
from random import Random

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden.layers import products
from xpulpnn_sim.reference.golden.network import COMPUTED, agreement, run_reference, run_scores
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.networks.network_file import NetworkBuilder

SEED = 1414


def numbers(random, shape, low, high):
    return np.array([random.randint(low, high) for _ in range(int(np.prod(shape)))]).reshape(shape)


def shift(values, amount):
    return {"weights": values, "shift": np.array(amount)}


def clip(value, low, high):
    return max(low, min(high, value))


def seen(image, size, stride, pads, outside):
    """By output pixel, the elements of its window as ``{(ky, kx): list of channels}``."""
    height, width = len(image), len(image[0])
    rows = (height + pads[0] + pads[1] - size[0]) // stride[0] + 1
    columns = (width + pads[2] + pads[3] - size[1]) // stride[1] + 1
    for oy, ox in itertools.product(range(rows), range(columns)):
        window = {}
        for ky, kx in itertools.product(range(size[0]), range(size[1])):
            y, x = oy * stride[0] - pads[0] + ky, ox * stride[1] - pads[2] + kx
            inside = 0 <= y < height and 0 <= x < width
            window[ky, kx] = image[y][x] if inside else [outside] * len(image[0][0])
        yield (oy, ox), window


def test_a_graph_element_by_element():
    random = Random(SEED)
    wide = numbers(random, (4, 3, 2, 3), -128, 127)
    bias = numbers(random, (4,), -5000, 5000)
    thin = numbers(random, (4, 3, 3), -8, 7)
    add = {"factors": np.array([3, -2]), "summands": np.array([70, 9]), "shifts": np.array([2, 1])}
    mean = {"factor": np.array(5), "summand": np.array(-40), "shift": np.array(3)}
    last = numbers(random, (3, 12), -128, 127)
    builder = NetworkBuilder("graph")
    builder.add(
        "wide",
        "conv",
        "5x4x3:4x3x2:s=2x1,p=1x0x0x1",
        "8x8x8",
        shift(wide, 7) | {"bias": bias},
        requantise="shift",
        pad=200,
    )
    builder.add("thin", "depthwise", "2x4x4:3x3", "8x4x8", shift(thin, 3), requantise="shift", pad=9)
    builder.add("both", "add", "2x4x4", "8xu8xi8", add, sources=("thin", "wide"))
    builder.add("mean", "avgpool", "2x4x4:2x2:s=2x1:scaled", "i8x8xi8", mean)
    builder.add("last", "linear", "12:3:raw", "i8x8xi32", {"weights": last})
    network = builder.finish().network
    images = numbers(random, (3, 5, 4, 3), 0, 255)
    results = run_reference(network, images)
    assert [result.shape for result in results] == [(3, *stage.output_shape) for stage in network.stages]
    for n, image in enumerate(images.tolist()):
        first = np.zeros((2, 4, 4), int)
        for at, window in seen(image, (3, 2), (2, 1), (1, 0, 0, 1), 200):
            for o in range(4):
                total = sum(int(wide[o, *k, c]) * value for k, pixel in window.items() for c, value in enumerate(pixel))
                first[*at, o] = clip((total + int(bias[o])) >> 7, 0, 255)
        second = np.zeros_like(first)
        for at, window in seen(first.tolist(), (3, 3), (1, 1), (1, 1, 1, 1), 9):
            for c in range(4):
                second[*at, c] = clip(sum(int(thin[c, *k]) * pixel[c] for k, pixel in window.items()) >> 3, 0, 255)
        third = [
            clip(clip(3 * int(b) + 70 >> 2, -128, 127) + clip(-2 * int(a) + 9 >> 1, -128, 127), -128, 127)
            for a, b in zip(first.reshape(-1), second.reshape(-1), strict=True)
        ]
        fourth = np.zeros((1, 3, 4), int)
        for at, window in seen(np.array(third).reshape(2, 4, 4).tolist(), (2, 2), (2, 1), (0, 0, 0, 0), 0):
            for c in range(4):
                product = sum(pixel[c] for pixel in window.values()) * 5
                quotient = abs(product) // 4 * (1 if product >= 0 else -1)
                fourth[*at, c] = clip(quotient - 40 >> 3, -128, 127)
        fifth = [sum(int(w) * int(v) for w, v in zip(row, fourth.reshape(-1), strict=True)) for row in last]
        for expected, got in zip((first, second, third, fourth, fifth), results, strict=True):
            assert got[n].reshape(-1).tolist() == np.reshape(expected, -1).tolist()


def test_numbers_of_one_bit_by_hand():
    """A margin of -1 around a map of ones; results are 1 above their thresholds."""
    weights = np.ones((2, 3, 3, 1), int)
    builder = NetworkBuilder("signs")
    arrays = {"weights": weights, "thresholds": np.array([[-1], [1]])}
    builder.add("signs", "conv", "3x3x1:2x3x3", "1x1x1", arrays, requantise="thresholds")
    (result,) = run_reference(builder.finish().network, np.ones((1, 3, 3, 1), int))
    # sums are -1 at the corners (4 - 5), 3 at the edges (6 - 3), 9 in the middle
    assert result[0, :, :, 0].tolist() == [[-1, 1, -1], [1, 1, 1], [-1, 1, -1]]
    assert result[0, :, :, 1].tolist() == [[-1, 1, -1], [1, 1, 1], [-1, 1, -1]]


def test_thresholds_by_hand():
    """A value equal to a threshold stays below it; the codes of signed results begin at the least."""
    arrays = {"weights": np.array([[1, 0], [0, 1]]), "thresholds": np.array([[10, 20, 30], [-5, 0, 0]])}
    for precision, least in (("8x8x2", 0), ("8x8xi2", -2)):
        builder = NetworkBuilder("steps")
        builder.add("steps", "linear", "2:2", precision, arrays, requantise="thresholds")
        (result,) = run_reference(builder.finish().network, np.array([[10, 0], [11, 1], [31, 0]]))
        assert (result - least).tolist() == [[0, 1], [1, 3], [3, 1]]


def test_every_kernel_has_a_reference_and_is_in_the_guide():
    guide = Path("docs/kernels.md").read_text()
    assert set(KERNELS) == set(COMPUTED)
    assert [name for name in KERNELS if f"`{name}`" not in guide] == []


@pytest.mark.parametrize("bits", [8, 16, 24, 31])
def test_products_are_exact(bits):
    """Sums beyond what 24 and 53 bits hold, all products of one sign, where rounding would show."""
    rows = np.full((2, 512), (1 << bits) - 1, np.int64)
    rows[1, 0] -= 1
    weights = np.full((2, 512), 127, np.int64)
    weights[1] = (1 << bits) - 1
    got = products(rows, weights, 1 << bits)
    for row, weight in itertools.product(range(2), range(2)):
        exact = sum(a * b for a, b in zip(rows[row].tolist(), weights[weight].tolist(), strict=True))
        assert (int(got[row, weight]) - exact) % (1 << 64) == 0


def test_many_images_are_computed_like_one(monkeypatch):
    monkeypatch.setattr("xpulpnn_sim.reference.golden.network._CHUNK_ELEMENTS", 500)
    rng = np.random.default_rng(SEED)
    builder = NetworkBuilder("many")
    builder.add(
        "conv", "conv", "6x6x2:4x3x3", "8x8x8", shift(rng.integers(-128, 128, (4, 3, 3, 2)), 8), requantise="shift"
    )
    builder.add("last", "linear", "144:5:raw", "8x8xi32", {"weights": rng.integers(-128, 128, (5, 144))})
    network, images, done = builder.finish().network, rng.integers(0, 256, (7, 6, 6, 2)), []
    scores = run_scores(network, images, done.append)
    assert len(done) > 3
    assert done[-1] == 7
    for image, score in zip(images, scores, strict=True):
        np.testing.assert_array_equal(run_reference(network, image[np.newaxis])[-1][0], score)


@pytest.mark.parametrize(("value", "shape"), [(256, (2, 4)), (-1, (2, 4)), (0, (2, 5))])
def test_inputs_out_of_range_are_refused(value, shape):
    builder = NetworkBuilder("small")
    builder.add("last", "linear", "4:2:raw", "8x8xi32", {"weights": np.ones((2, 4), int)})
    with pytest.raises(LayerError, match=r"^inputs of last must be (0\.\.255, not (256|-1)|\(4,\), not \(5,\))$"):
        run_reference(builder.finish().network, np.full(shape, value))


def test_agreement_with_a_model() -> None:
    """Correlation of all results, and images with the same answer; results that are all the same agree with nothing."""
    builder = NetworkBuilder("copy")
    builder.add("scores", "linear", "2:2:raw", "8x8xi32", {"weights": np.eye(2, dtype=np.int64)})
    network = builder.finish().network
    inputs = np.array([[1, 2], [3, 1], [0, 5]])
    near = agreement(network, inputs, np.array([[2.0, 4.0], [6.0, 2.0], [10.0, 0.0]]))
    assert (near.same, near.images) == (2, 3)
    assert near.correlation == pytest.approx(np.corrcoef([1, 2, 3, 1, 0, 5], [2, 4, 6, 2, 10, 0])[0, 1])
    assert agreement(network, inputs, np.ones((3, 2))).correlation == 0
    assert agreement(network, np.zeros((3, 2), int), np.ones((3, 2))).correlation == 1
