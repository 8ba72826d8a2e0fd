"""Layer references against element-by-element loops and values worked out by hand."""

from random import Random

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden.layers import (
    Pads,
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
