"""The golden model of the binarised classifier against sums written out, and its small parts."""

import numpy as np
import pytest

from xpulpnn_sim.reference.golden import network as binary

pytestmark = pytest.mark.unit


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
