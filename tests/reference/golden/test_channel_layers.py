"""The numpy references of channel-wise layers against their definitions, written as plain loops."""

import numpy as np
import pytest

from xpulpnn_sim.reference.golden import layers as golden
from xpulpnn_sim.reference.golden.layers import Pads, Window

pytestmark = pytest.mark.unit

IMAGE = np.random.default_rng(7).integers(-8, 8, (6, 5, 3))
WINDOWS = [
    Window(3, 3),
    Window(2, 3, (2, 1), Pads(1, 0, 2, 1)),
    Window(3, 1, (1, 3), Pads(0, 2, 0, 0)),
    Window(4, 2, (3, 2), Pads(3, 3, 1, 1)),
]


def elements(window: Window, oy: int, ox: int) -> list[tuple[int, int, int, int]]:
    """Places in the window and in the image of the elements that the image has."""
    found = []
    for ky in range(window.height):
        for kx in range(window.width):
            y, x = oy * window.stride[0] - window.pads.top + ky, ox * window.stride[1] - window.pads.left + kx
            if 0 <= y < IMAGE.shape[0] and 0 <= x < IMAGE.shape[1]:
                found.append((ky, kx, y, x))
    return found


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: Window):
    rng = np.random.default_rng(1)
    weights, bias = rng.integers(-8, 8, (3, window.height, window.width)), rng.integers(-99, 99, 3)
    convolved = golden.depthwise(IMAGE, weights, bias, window)
    greatest, sums = golden.max_pool(IMAGE, window), golden.window_sums(IMAGE, window)
    assert convolved.shape == greatest.shape == sums.shape
    for oy, ox, channel in np.ndindex(*convolved.shape):
        seen = elements(window, oy, ox)
        values = [int(IMAGE[y, x, channel]) for _, _, y, x in seen]
        products = [int(weights[channel, ky, kx] * IMAGE[y, x, channel]) for ky, kx, y, x in seen]
        assert convolved[oy, ox, channel] == bias[channel] + sum(products)
        assert greatest[oy, ox, channel] == max(values)
        assert sums[oy, ox, channel] == sum(values)


def test_averages_are_rounded_towards_zero():
    sums = np.array([-9, -8, -7, -1, 0, 1, 7, 8, 9])
    np.testing.assert_array_equal(golden.average(sums, 4, 8, signed=True), [-2, -2, -1, 0, 0, 0, 1, 2, 2])
    np.testing.assert_array_equal(golden.average(sums, 3, 2, signed=True), [-2, -2, -2, 0, 0, 0, 1, 1, 1])


def test_a_scaled_average_divides_the_product():
    """(7 * 5 / 4 + 3) >> 1 is (8 + 3) >> 1; the factor divided first would give 5."""
    assert golden.scaled_average(np.array([7]), 4, (5, 3, 1), 8, signed=False).tolist() == [5]
    # -35 / 4 is -8 towards zero, and (-8 + 3) >> 1 is -3 downwards
    assert golden.scaled_average(np.array([-7]), 4, (5, 3, 1), 8, signed=True).tolist() == [-3]
    assert golden.scaled_average(np.array([99]), 9, (7, 0, 2), 4, signed=False).tolist() == [15]


def test_sums_and_relu():
    assert golden.add(np.array([200, -5]), np.array([100, 3]), 8, signed=False).tolist() == [255, 0]
    shifted = golden.add_shifted((np.array([3, -3]), np.array([1, 1])), (5, -2), 1, 4, signed=True)
    assert shifted.tolist() == [6, -8]
    shifted = golden.add_shifted((np.array([3, -3]), np.array([1, 1])), (5, -2), 1, 8, signed=True, summand=11)
    assert shifted.tolist() == [12, -3]
    assert golden.scaled(np.array([3, -3]), (5, 1, 2), 2, signed=True).tolist() == [1, -2]
    assert golden.relu(np.array([-2, 0, 1])).tolist() == [0, 0, 1]
