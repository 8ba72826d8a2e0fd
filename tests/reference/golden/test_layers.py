"""Layer references, those of the binarised classifier too, against loops and values worked out by hand."""

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden import layers as golden
from xpulpnn_sim.reference.golden import network as binary
from xpulpnn_sim.reference.golden.layers import Pads, Window, conv, matmul, quantise_bn, quantise_exactly

SEED = 1618


def test_matmul_is_pixel_by_channel():
    weights, activations = np.array([[1, -2], [3, 4], [0, -1]]), np.array([[10, 20], [255, 0]])
    assert matmul(weights, activations).tolist() == [[-30, 110, -20], [255, 765, 0]]


def test_accumulators_wrap():
    assert matmul(np.array([[2**31 - 1, 1]]), np.array([[1, 1]])).tolist() == [[-(2**31)]]


def test_batch_normalisation_floors_wraps_and_clips():
    acc = np.array([[-1, 100], [1, -100]])
    kappa, lam = np.array([3, 10]), np.array([0, -4])
    assert quantise_bn(acc, kappa, lam, 1, 8, signed=True).tolist() == [[-2, 127], [1, -128]]
    assert quantise_bn(acc, kappa, lam, 4, 4).tolist() == [[0, 15], [0, 0]]
    assert quantise_bn(np.array([2**30]), np.array([2]), np.array([0]), 0, 8, signed=True).tolist() == [-128]


def test_one_factor_and_plain_shift():
    acc = np.array([-5, 5, 1000])
    assert quantise_bn(acc, 3, 0, 2, 8, signed=True).tolist() == [-4, 3, 127]
    assert quantise_bn(acc, 1, 0, 1, 8, signed=True).tolist() == [-3, 2, 127]
    assert quantise_bn(acc, 1, 0, 1, 2).tolist() == [0, 2, 3]


def test_exact_rule_rounds_once_and_halves_up():
    """Half a step, of either sign; ends of both factors; what a rounding in two steps would get wrong."""
    acc, shifts = np.array([[3, -3, 1], [1, -1, -1]]), np.array([2, 2, 31])
    factors = np.array([2, 2, (1 << 30) - 1])
    assert quantise_exactly(acc, factors, shifts, 4, 8, signed=True).tolist() == [[6, 3, 4], [5, 4, 4]]
    ends = np.array([-(2**31), 2**31 - 1])
    assert quantise_exactly(ends, np.full(2, -(2**31)), np.array([55, 55]), -1, 8, signed=True).tolist() == [127, -128]
    assert quantise_exactly(ends, np.full(2, -(2**31)), np.array([62, 62]), -1, 2).tolist() == [0, 0]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, int)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: matmul(ones(2, 3), ones(2, 4)), "`weights` must have rows of 4 elements, not 3"),
        (lambda: conv(ones(3, 3, 2), ones(1, 1, 1, 3)), "`weights` must have 2 input channels, not 3"),
        (lambda: conv(ones(3, 3, 1), ones(1, 4, 1, 1)), "`kernel` must be 1 to 3 here, not 4"),
        (lambda: conv(ones(3, 3, 1), ones(1, 1, 1, 1), stride=(0, 1)), "`stride` must be at least 1, not 0"),
        (lambda: conv(ones(3, 3, 1), ones(1, 1, 1, 1), pads=Pads(left=-1)), "`pads` must be at least 0, not -1"),
        (lambda: quantise_bn(ones(1), 1, 0, 32, 8), "`shift` must be 0 to 31, not 32"),
    ],
)
def test_wrong_layers_are_refused(call, message):
    with pytest.raises(LayerError) as refusal:
        call()
    assert str(refusal.value) == message


WINDOWS = [
    Window(3, 3),
    Window(1, 1),
    Window(3, 3, (1, 1), Pads(1, 1, 1, 1)),
    Window(2, 3, (2, 1), Pads(1, 0, 2, 1)),
    Window(3, 1, (1, 3), Pads(0, 2, 0, 0)),
    Window(3, 2, (2, 3), Pads(0, 2, 1, 0)),
    Window(4, 2, (3, 2), Pads(3, 3, 1, 1)),
    Window(5, 3, (3, 1), Pads(2, 0, 0, 3)),
]
CASES = [((6, 5, 3), window) for window in WINDOWS] + [((1, 1, 4), Window(3, 3, (2, 2), Pads(1, 1, 1, 1)))]


def elements(window: Window, oy: int, ox: int, shape: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Places in the window and in the image of the elements that the image has."""
    positions = []
    for ky, kx in np.ndindex(window.height, window.width):
        y, x = oy * window.stride[0] - window.pads.top + ky, ox * window.stride[1] - window.pads.left + kx
        if 0 <= y < shape[0] and 0 <= x < shape[1]:
            positions.append((ky, kx, y, x))
    return positions


@pytest.mark.parametrize(("shape", "window"), CASES)
def test_windows(shape: tuple[int, ...], window: Window):
    rng, size = np.random.default_rng(SEED), (window.height, window.width)
    image, bias = rng.integers(-128, 256, shape), rng.integers(-999, 999, 4)
    weights, deep = rng.integers(-128, 128, (shape[2], *size)), rng.integers(-128, 128, (4, *size, shape[2]))
    rows = (shape[0] + window.pads.top + window.pads.bottom - window.height) // window.stride[0] + 1
    columns = (shape[1] + window.pads.left + window.pads.right - window.width) // window.stride[1] + 1
    convolved = golden.depthwise(image, weights, bias[: shape[2]], window)
    greatest, sums = golden.max_pool(image, window), golden.window_sums(image, window)
    assert convolved.shape == greatest.shape == sums.shape == (rows, columns, shape[2])
    mixed = conv(image, deep, bias, window.stride, window.pads)
    assert mixed.shape == (rows, columns, 4)
    for oy, ox in np.ndindex(rows, columns):
        seen = [(ky, kx, image[y, x].tolist()) for ky, kx, y, x in elements(window, oy, ox, shape)]
        for channel in range(shape[2]):
            values = [pixel[channel] for _, _, pixel in seen]
            products = [int(weights[channel, ky, kx]) * pixel[channel] for ky, kx, pixel in seen]
            assert convolved[oy, ox, channel] == bias[channel] + sum(products), f"seed {SEED}"
            assert sums[oy, ox, channel] == sum(values), f"seed {SEED}"
            assert not values or greatest[oy, ox, channel] == max(values), f"seed {SEED}"
        for o in range(4):
            products = [int(w) * v for ky, kx, pixel in seen for w, v in zip(deep[o, ky, kx], pixel, strict=True)]
            assert mixed[oy, ox, o] == bias[o] + sum(products), f"seed {SEED}"


def test_averages_are_rounded_towards_zero():
    sums = np.array([-9, -8, -7, -1, 0, 1, 7, 8, 9])
    np.testing.assert_array_equal(
        golden.scaled_average(sums, 4, (1, 0, 0), 8, signed=True), [-2, -2, -1, 0, 0, 0, 1, 2, 2]
    )
    np.testing.assert_array_equal(
        golden.scaled_average(sums, 3, (1, 0, 0), 2, signed=True), [-2, -2, -2, 0, 0, 0, 1, 1, 1]
    )


def test_a_scaled_average_divides_the_product():
    """(7 * 5 / 4 + 3) >> 1 is (8 + 3) >> 1; the factor divided first would give 5."""
    assert golden.scaled_average(np.array([7]), 4, (5, 3, 1), 8, signed=False).tolist() == [5]
    # -35 / 4 is -8 towards zero, and (-8 + 3) >> 1 is -3 downwards
    assert golden.scaled_average(np.array([-7]), 4, (5, 3, 1), 8, signed=True).tolist() == [-3]
    assert golden.scaled_average(np.array([99]), 9, (7, 0, 2), 4, signed=False).tolist() == [15]


def test_sums():
    added = golden.add_shifted((np.array([200, -5]), np.array([100, 3])), (1, 1), 0, 8, signed=False)
    assert added.tolist() == [255, 0]
    shifted = golden.add_shifted((np.array([3, -3]), np.array([1, 1])), (5, -2), 1, 4, signed=True)
    assert shifted.tolist() == [6, -8]
    shifted = golden.add_shifted((np.array([3, -3]), np.array([1, 1])), (5, -2), 1, 8, signed=True, summand=11)
    assert shifted.tolist() == [12, -3]
    assert golden.add_shifted([np.array([3, -3])], [5], 2, 2, signed=True, summand=1).tolist() == [1, -2]


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
