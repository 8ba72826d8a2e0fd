"""Layer references, those of the binarised classifier too, against loops and values worked out by hand."""

from random import Random

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden import layers as golden
from xpulpnn_sim.reference.golden import network as binary
from xpulpnn_sim.reference.golden.layers import (
    Pads,
    Window,
    conv,
    matmul,
    quantise_bn,
    quantise_multiply,
    quantise_shift,
)

pytestmark = pytest.mark.unit

SEED = 1618


def test_matmul_is_pixel_by_channel():
    weights, activations = np.array([[1, -2], [3, 4], [0, -1]]), np.array([[10, 20], [255, 0]])
    assert matmul(weights, activations).tolist() == [[-30, 110, -20], [255, 765, 0]]


def test_accumulators_wrap():
    assert matmul(np.array([[2**31 - 1, 1]]), np.array([[1, 1]])).tolist() == [[-(2**31)]]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads"),
    [
        ((5, 7, 3), (3, 3), (1, 1), Pads(1, 1, 1, 1)),
        ((5, 7, 3), (3, 2), (2, 3), Pads(0, 2, 1, 0)),
        ((4, 4, 1), (1, 1), (1, 1), Pads()),
        ((6, 3, 2), (5, 3), (3, 1), Pads(2, 0, 0, 3)),
        ((1, 1, 4), (3, 3), (2, 2), Pads(1, 1, 1, 1)),
    ],
)
def test_convolution(size, kernel, stride, pads):
    generator = Random(SEED)
    outputs = 3
    image = np.array([generator.randrange(256) for _ in range(np.prod(size))]).reshape(size)
    weights = np.array([generator.randrange(-128, 128) for _ in range(outputs * kernel[0] * kernel[1] * size[2])])
    weights = weights.reshape(outputs, *kernel, size[2])
    bias = np.array([generator.randrange(-1000, 1000) for _ in range(outputs)])
    rows = (size[0] + pads.top + pads.bottom - kernel[0]) // stride[0] + 1
    columns = (size[1] + pads.left + pads.right - kernel[1]) // stride[1] + 1
    result = conv(image, weights, bias, stride, pads)
    assert result.shape == (rows, columns, outputs)
    for oy, ox, o in np.ndindex(rows, columns, outputs):
        expected = int(bias[o])
        for ky, kx, c in np.ndindex(*kernel, size[2]):
            y, x = oy * stride[0] - pads.top + ky, ox * stride[1] - pads.left + kx
            if 0 <= y < size[0] and 0 <= x < size[1]:
                expected += int(weights[o, ky, kx, c]) * int(image[y, x, c])
        assert result[oy, ox, o] == expected, f"seed {SEED}: {oy}, {ox}, {o}"


def test_batch_normalisation_floors_wraps_and_clips():
    acc = np.array([[-1, 100], [1, -100]])
    kappa, lam = np.array([3, 10]), np.array([0, -4])
    assert quantise_bn(acc, kappa, lam, 1, 8, signed=True).tolist() == [[-2, 127], [1, -128]]
    assert quantise_bn(acc, kappa, lam, 4, 4).tolist() == [[0, 15], [0, 0]]
    assert quantise_bn(np.array([2**30]), np.array([2]), np.array([0]), 0, 8, signed=True).tolist() == [-128]


def test_one_factor_and_plain_shift():
    acc = np.array([-5, 5, 1000])
    assert quantise_multiply(acc, 3, 2, 8, signed=True).tolist() == [-4, 3, 127]
    assert quantise_shift(acc, 1, 8, signed=True).tolist() == [-3, 2, 127]
    assert quantise_shift(acc, 1, 2).tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: matmul(np.ones((2, 3), int), np.ones((2, 4), int)), "`weights` must have rows of 4 elements, not 3"),
        (
            lambda: conv(np.ones((3, 3, 2), int), np.ones((1, 1, 1, 3), int)),
            "`weights` must have 2 input channels, not 3",
        ),
        (
            lambda: conv(np.ones((3, 3, 1), int), np.ones((1, 4, 1, 1), int)),
            "`kernel` must be 1 to 3 here, not 4",
        ),
        (
            lambda: conv(np.ones((3, 3, 1), int), np.ones((1, 1, 1, 1), int), stride=(0, 1)),
            "`stride` must be at least 1, not 0",
        ),
        (
            lambda: conv(np.ones((3, 3, 1), int), np.ones((1, 1, 1, 1), int), pads=Pads(left=-1)),
            "`pads` must be at least 0, not -1",
        ),
        (lambda: quantise_shift(np.zeros(1, int), 32, 8), "`shift` must be 0 to 31, not 32"),
    ],
)
def test_wrong_layers_are_refused(call, message):
    with pytest.raises(LayerError) as refusal:
        call()
    assert str(refusal.value) == message


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


def test_an_image_is_above_its_thresholds():
    image = np.array([[[127, 100, 70], [128, 101, 71]], [[0, 255, 70], [255, 0, 255]]], np.uint8)
    assert binary.binary_image(image).tolist() == [[[-1, -1, -1], [1, 1, 1]], [[-1, 1, -1], [1, -1, 1]]]


def test_a_convolution_has_a_border_of_minus_one():
    values = np.ones((2, 3, 1), np.int64)
    weights = np.ones((1, 3, 3, 1), np.int64)
    # of 9 taps 4, 6 and 4 are inside
    assert binary.convolution(values, weights)[..., 0].tolist() == [[-1, 3, -1], [-1, 3, -1]]


def test_a_convolution_is_not_mirrored():
    values = -np.ones((3, 3, 2), np.int64)
    values[1, 2, 1] = 1
    weights = np.zeros((1, 3, 3, 2), np.int64)
    weights[0, 1, 2, 1] = 1
    assert binary.convolution(values, weights)[..., 0].tolist() == [[-1, -1, -1], [-1, 1, -1], [-1, -1, -1]]


def test_pooling_comes_before_the_sign():
    values = np.array([[[-4], [0]], [[-2], [-8]]])
    assert binary.pooled(values).tolist() == [[[0]]]
    assert binary.signs(binary.pooled(values)).tolist() == [[[-1]]]
