"""The reference of networks, by hand; kernels on the hardware are compared with all of it."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden.layers import products
from xpulpnn_sim.reference.golden.network import COMPUTED, agreement, run_reference, run_scores
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.networks.network_file import NetworkBuilder

SEED = 1414


def shift(values, amount):
    return {"weights": values, "shift": np.array(amount)}


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
