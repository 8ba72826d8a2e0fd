"""Kinds of TFLite models: keyword spotting, several filters for a channel, gaps, clips inside the range of codes."""

import numpy as np
import pytest

from .tflite_models import NONE, RELU, RELU6, RELU_1, SAME, VALID, Graph, check, convolving, window

FULLY = {"FusedActivationFunction": NONE, "WeightsFormat": 0}


def kinds(described):
    return [stage.kind.name for stage in described.network.stages]


def keywords():
    """Ten by four, two by two, of a spectrogram; depthwise separable; the mean of everything; classes."""
    g = Graph((1, 49, 10, 1), 0.58, 83, seed=5)
    a = g.weighted("CONV_2D", g.input, (8, 10, 4, 1), (1, 25, 5, 8), 0.3, -128, **convolving((2, 2), SAME, RELU))
    for _ in range(2):
        depthwise = convolving((1, 1), SAME, RELU) | {"DepthMultiplier": 1}
        a = g.weighted("DEPTHWISE_CONV_2D", a, (1, 3, 3, 8), (1, 25, 5, 8), 0.2, -128, axis=3, **depthwise)
        a = g.weighted("CONV_2D", a, (8, 1, 1, 8), (1, 25, 5, 8), 0.1, -128, **convolving((1, 1), SAME, RELU))
    pooling = window((25, 5), VALID, FilterHeight=25, FilterWidth=5)
    a = g.operator("AVERAGE_POOL_2D", (a,), (1, 1, 1, 8), 0.1, -128, **pooling)
    a = g.operator("RESHAPE", (a, g.numbers([-1, 8])), (1, 8), 0.1, -128)
    a = g.weighted("FULLY_CONNECTED", a, (12, 8), (1, 12), 0.02, 14, **FULLY)
    g.operator("SOFTMAX", (a,), (1, 12), 1 / 256, -128)
    return g


def gaps():
    """Depthwise with gaps, then two filters for each channel, pads by rows and columns."""
    g = Graph((1, 9, 8, 4), 0.02, 11, seed=6)
    wide = convolving((1, 1), SAME, RELU) | {"DilationHFactor": 2, "DilationWFactor": 3}
    a = g.weighted("CONV_2D", g.input, (6, 3, 2, 4), (1, 9, 8, 6), 0.03, -128, **wide)
    a = g.weighted("DEPTHWISE_CONV_2D", a, (1, 3, 2, 6), (1, 9, 8, 6), 0.03, -128, axis=3, **wide, DepthMultiplier=1)
    double = convolving((2, 2), VALID) | {"DepthMultiplier": 2}
    a = g.weighted("DEPTHWISE_CONV_2D", a, (1, 3, 3, 12), (1, 4, 3, 12), 0.05, 20, axis=3, **double)
    return g


def clipping():
    """Activations that end inside the range of the codes, of products, sums, means, and by themselves."""
    g = Graph((1, 6, 5, 4), 0.02, -11, seed=7)
    a = g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (1, 6, 5, 6), 0.04, -100, **convolving((1, 1), SAME, RELU6))
    b = g.weighted("CONV_2D", a, (6, 3, 3, 6), (1, 6, 5, 6), 0.03, 9, **convolving((1, 1), SAME, RELU))
    c = g.operator("SUB", (a, b), (1, 6, 5, 6), 0.04, 3, FusedActivationFunction=RELU)
    d = g.operator("QUANTIZE", (c,), (1, 6, 5, 6), 0.031, -101)
    e = g.operator("RELU_N1_TO_1", (d,), (1, 6, 5, 6), 0.013, 5)
    f = g.operator("ADD", (e, b), (1, 6, 5, 6), 0.03, 1, FusedActivationFunction=RELU_1)
    pooling = window((1, 1), VALID, activation=RELU, FilterHeight=2, FilterWidth=2)
    h = g.operator("AVERAGE_POOL_2D", (f,), (1, 5, 4, 6), 0.005, -28, **pooling)
    i = g.operator("MAX_POOL_2D", (h,), (1, 4, 4, 6), 0.005, -28, **(pooling | {"FilterWidth": 1}))
    j = g.weighted("DEPTHWISE_CONV_2D", i, (1, 2, 4, 6), (1, 3, 1, 6), 0.03, 0, axis=3, **convolving((1, 1), VALID))
    k = g.operator("SQUEEZE", (j,), (1, 3, 6), 0.03, 0)
    g.weighted("FULLY_CONNECTED", k, (5, 18), (1, 5), 0.05, 3, biased=False, one_scale=True, **FULLY)
    return g


def test_keywords(tmp_path):
    described, distances = check(keywords(), tmp_path, wide=True)
    assert set(distances) == {(0, 1.0)}
    assert kinds(described) == ["conv", *["depthwise", "pointwise"] * 2, "avgpool", "linear"]
    assert str(described.network.stages[0].layer).endswith(":image")
    images = np.arange(490).reshape(1, 49, 10) % 256
    assert described.batch(images).shape == (1, 49, 10, 1)
    normalised, _ = check(keywords(), tmp_path)
    assert normalised.network.macs == described.network.macs


@pytest.mark.parametrize("graph", [gaps, clipping])
def test_codes_are_those_of_tflite(tmp_path, graph):
    notes = []
    described, distances = check(graph(), tmp_path, wide=True, note=notes.append)
    assert set(distances) == {(0, 1.0)}
    if graph is gaps:
        assert kinds(described) == ["conv", "depthwise", "conv"]
        assert len(notes) == 3
    else:
        # ten that compute, the pool once more because of its activation, and seven that clip
        assert len(described.network.stages) == 10 + 1 + 7
