"""TFLite models: what the network computes is what TFLite does with real numbers, rounded once per operator."""

import re
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
import tflite

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.networks.images import read_png
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.tflite_file import read_graph
from xpulpnn_sw.networks.network_file import read_network, serialised

from . import tflite_models
from .damage import damaged, fault
from .tflite_models import NONE, RELU, RELU6, RELU_1, SAME, VALID, Graph, check, convolving, imported, kinds, window

pytestmark = pytest.mark.flow

TANH = tflite.ActivationFunctionType.TANH


def residual():
    g = Graph((1, 9, 8, 4), 0.02, 11, seed=1)
    a = g.weighted("CONV_2D", g.input, (6, 3, 2, 4), (1, 5, 4, 6), 0.05, -128, **convolving((2, 2), SAME, RELU))
    padded = g.operator("PAD", (a, g.numbers([[0, 0], [1, 0], [2, 1], [0, 0]])), (1, 6, 7, 6), 0.05, -128)
    b = g.weighted("CONV_2D", padded, (6, 2, 4, 6), (1, 5, 4, 6), 0.11, 7, **convolving((1, 1), VALID))
    c = g.weighted("CONV_2D", a, (6, 1, 1, 6), (1, 5, 4, 6), 0.07, -20, **convolving())
    d = g.operator("ADD", (b, c), (1, 5, 4, 6), 0.13, -3, FusedActivationFunction=NONE)
    single = convolving() | {"DepthMultiplier": 1}
    e = g.weighted("DEPTHWISE_CONV_2D", d, (1, 3, 3, 6), (1, 5, 4, 6), 0.09, -60, axis=3, **single)
    m = g.operator("MEAN", (e, g.numbers([1, 2])), (1, 6), 0.07, -100)
    f = g.weighted("FULLY_CONNECTED", m, (5, 6), (1, 5), 0.1, 3)
    g.operator("SOFTMAX", (f,), (1, 5), 1 / 256, -128)
    return g


def pooled():
    g = Graph((1, 10, 6, 1), 1 / 255, -128, seed=2)
    depthwise = convolving((2, 1), SAME, RELU6) | {"DepthMultiplier": 8}
    a = g.weighted("DEPTHWISE_CONV_2D", g.input, (1, 5, 3, 8), (1, 5, 6, 8), 6 / 255, -128, axis=3, **depthwise)
    codes = (6 / 255, -128)
    b = g.operator("MAX_POOL_2D", (a,), (1, 3, 3, 8), *codes, **window((2, 2), SAME, FilterHeight=3, FilterWidth=2))
    pooling = window((1, 1), VALID, FilterHeight=2, FilterWidth=3)
    c = g.operator("AVERAGE_POOL_2D", (b,), (1, 2, 1, 8), *codes, **pooling)
    d = g.operator("RESHAPE", (c, g.numbers([1, 16])), (1, 16), 6 / 255, -128)
    g.weighted("FULLY_CONNECTED", d, (7, 16), (1, 7), 0.05, 0)
    return g


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
    a = g.weighted("FULLY_CONNECTED", a, (12, 8), (1, 12), 0.02, 14)
    g.operator("SOFTMAX", (a,), (1, 12), 1 / 256, -128)
    return g


def gaps():
    g = Graph((1, 9, 8, 4), 0.02, 11, seed=6)
    wide = convolving((1, 1), SAME, RELU) | {"DilationHFactor": 2, "DilationWFactor": 3}
    a = g.weighted("CONV_2D", g.input, (6, 3, 2, 4), (1, 9, 8, 6), 0.03, -128, **wide)
    a = g.weighted("DEPTHWISE_CONV_2D", a, (1, 3, 2, 6), (1, 9, 8, 6), 0.03, -128, axis=3, **wide, DepthMultiplier=1)
    double = convolving((2, 2), VALID) | {"DepthMultiplier": 2}
    a = g.weighted("DEPTHWISE_CONV_2D", a, (1, 3, 3, 12), (1, 4, 3, 12), 0.05, 20, axis=3, **double)
    return g


def clipping():
    g = Graph((1, 6, 5, 4), 0.02, -11, seed=7)
    a = g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (1, 6, 5, 6), 0.04, -100, **convolving((1, 1), SAME, RELU6))
    b = g.weighted("CONV_2D", a, (6, 3, 3, 6), (1, 6, 5, 6), 0.03, 9, **convolving((1, 1), SAME, RELU))
    c = g.operator("SUB", (a, b), (1, 6, 5, 6), 0.04, 3, FusedActivationFunction=RELU)
    d = g.operator("QUANTIZE", (c,), (1, 6, 5, 6), 0.031, -101)
    e = g.operator("RELU_N1_TO_1", (d,), (1, 6, 5, 6), 0.013, 5)
    f = g.operator("ADD", (e, b), (1, 6, 5, 6), 0.03, 1, FusedActivationFunction=RELU_1)
    pooling = window((1, 1), VALID, activation=RELU, FilterHeight=2, FilterWidth=2)
    h = g.operator("AVERAGE_POOL_2D", (f,), (1, 5, 4, 6), 0.03, 1, **pooling)
    i = g.operator("MAX_POOL_2D", (h,), (1, 4, 4, 6), 0.03, 1, **(pooling | {"FilterWidth": 1}))
    single = convolving((1, 1), VALID) | {"DepthMultiplier": 1}
    j = g.weighted("DEPTHWISE_CONV_2D", i, (1, 2, 4, 6), (1, 3, 1, 6), 0.03, 0, axis=3, **single)
    k = g.operator("SQUEEZE", (j,), (1, 3, 6), 0.03, 0)
    g.weighted("FULLY_CONNECTED", k, (5, 18), (1, 5), 0.05, 3, biased=False, one_scale=True)
    return g


def test_residual(tmp_path):
    notes = []
    described, distances = check(residual(), tmp_path, note=notes.append, is_fast=True)
    assert max(distances)[0] == 1
    assert min(same for _, same in distances) > 0.98
    assert [stage.name for stage in described.network.stages] == [
        "conv0", "conv2", "pointwise3", "add4", "depthwise5", "avgpool6", "linear7",
    ]  # fmt: skip
    assert [stage.pad for stage in described.network.stages] == [11, 0, 0, 0, -3, 0, 0]
    assert described.network.stages[3].sources == ("conv2", "pointwise3")
    text, arrays = serialised(described, "net.npz")
    (tmp_path / "net.npz").write_bytes(arrays)
    (tmp_path / "net.json").write_text(text)
    again, samples = read_network(tmp_path / "net.json"), np.arange(288).reshape(1, 9, 8, 4) % 256
    for a, b in zip(*(run_reference(net.network, net.batch(samples)) for net in (described, again)), strict=True):
        np.testing.assert_array_equal(a, b)
    halves = "operator 6 (MEAN): halves of means go up, not to even numbers as TFLite's"
    assert notes == ["operator 8 (SOFTMAX) is left out: results are the codes before it", halves]


def test_keywords(tmp_path):
    described, distances = check(keywords(), tmp_path)
    assert set(distances) == {(0, 1.0)}
    assert kinds(described) == ["conv", *["depthwise", "pointwise"] * 2, "avgpool", "linear"]
    assert str(described.network.stages[0].layer).endswith(":image")
    images = np.arange(490).reshape(1, 49, 10) % 256
    assert described.batch(images).shape == (1, 49, 10, 1)
    normalised, _ = check(keywords(), tmp_path, is_fast=True)
    assert normalised.network.macs == described.network.macs


@pytest.mark.parametrize("graph", [residual, pooled, gaps, clipping])
def test_codes_are_those_of_tflite(tmp_path, graph):
    notes = []
    described, distances = check(graph(), tmp_path, note=notes.append)
    assert set(distances) == {(0, 1.0)}
    if graph is gaps:
        assert kinds(described) == ["conv", "depthwise", "conv"]
        assert len(notes) == 3
    elif graph is clipping:
        # ten that compute, the pool once more because of its activation, and six that clip
        assert len(described.network.stages) == 10 + 1 + 6


def nearly_constant():
    """Channels with tiny weights and great biases beside others, as folded batch normalisations leave them."""
    g = Graph((1, 6, 5, 4), 0.02, -128, seed=8)
    g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (1, 6, 5, 6), 0.1, -128, **convolving((1, 1), SAME, RELU))
    weights, bias = (next(tensor for tensor in g.tensors if tensor.name == name) for name in ("weights", "bias"))
    weights.scales[1::2] *= 1e-4
    for tensor in (weights, bias):
        tensor.scales[1::2] = np.float32(weights.scales[1::2])
    # results of 20, 21 and 45
    bias.data[1::2] = np.array([2, 2.1, 4.5]) / (0.02 * weights.scales[1::2])
    return g


def test_nearly_constant_channels_of_the_fast_rule(tmp_path):
    described, distances = check(nearly_constant(), tmp_path, is_fast=True)
    factors = described.network.stages[0].tensors.requantisation.kappa
    assert not factors[1::2].any()
    assert factors[::2].all()
    assert max(distances)[0] <= 1
    assert min(same for _, same in distances) > 0.98


def with_operator(number, kind=None, **options):
    g = residual()
    operator = g.operators[number]
    g.operators[number] = replace(operator, kind=kind or operator.kind, options=operator.options | options)
    return g


def with_tensor(name, number=0, **changes):
    g = residual()
    place = [place for place, tensor in enumerate(g.tensors) if tensor.name == name][number]
    g.tensors[place] = replace(g.tensors[place], **changes)
    return g


AXES = np.array([0, 1], np.int32)
LARGE = np.full(6, 2**31 - 1, np.int32)
BAD = {
    "operators must be known, not operator 6 (LOG_SOFTMAX) (works": with_operator(6, "LOG_SOFTMAX"),
    "operator 2 (CONV_2D): dilation": with_operator(2, DilationHFactor=0),
    "operator 2 (CONV_2D): weights with those of 0": with_operator(2, DilationHFactor=1 << 28, Padding=SAME),
    "operator 2 (CONV_2D): CONV_2D2 must be INT8": with_tensor("CONV_2D2", type="INT16"),
    "operator 2 (CONV_2D): output must be 5x4x6": with_tensor("CONV_2D2", shape=(1, 1, 1, 6)),
    "operator 2 (CONV_2D): fused activation": with_operator(2, FusedActivationFunction=TANH),
    "input of the model: input must be INT8, not FLOAT32: give TFLiteConverter optimizations": with_tensor(
        "input", type="FLOAT32"
    ),
    "operator 6 (MEAN): axes": with_tensor("numbers", 1, data=AXES),
    "operator 0 (CONV_2D): zero points of weights": with_tensor("weights", zeros=np.full(6, 2)),
    "operator 0 (CONV_2D): sums must be of 32 bits": with_tensor("bias", data=LARGE),
    "operator 0 (CONV_2D): weights must be in the file": with_tensor("weights", data=None),
}


@pytest.mark.parametrize("named", BAD)
def test_what_cannot_be_mapped_is_named(tmp_path, named):
    path = BAD[named].written(tmp_path / "model.tflite")
    with pytest.raises(InputError, match=f"^{re.escape(named)}") as raised:
        imported(path)
    assert "\n" not in str(raised.value)


def test_damaged_files(tmp_path):
    path = tmp_path / "model.tflite"
    whole = pooled().written(path).read_bytes()
    for length in range(0, len(whole), 397):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"^model must be a (whole )?TFLite file, not "):
            imported(path)
    for number in range(40):
        assert not fault(damaged(whole, Random(number)), path), number


def test_samples(tmp_path):
    path = residual().written(tmp_path / "model.tflite")
    samples = np.arange(288).reshape(1, 9, 8, 4) % 256
    assert (imported(path).batch(samples) == samples - 128).all()
    # -1..1 in steps of 0.02 around the code 11
    scaled = imported(path, samples=(Fraction(-1), Fraction(1))).batch(samples)
    right = np.clip(np.round((samples / 127.5 - 1) / np.float32(0.02) + 11), -128, 127)
    assert np.abs(scaled - right).max() <= 1
    assert (scaled == right).mean() > 0.99


@pytest.mark.parametrize("is_fast", [False, True])
def test_resnet8(nets, is_fast):
    """Images that are classified, and how far each layer by itself is from TFLite's rounding."""
    path = nets / "resnet8_int8.tflite"
    graph, described = read_graph(path), imported(path, is_fast=is_fast)
    files = sorted((nets / "cifar20").glob("*.png"))
    images = np.stack([read_png(file) for file in files])
    results = run_reference(described.network, described.batch(images))
    codes = images.astype(np.int64) - 128
    distances = tflite_models.check_layers(graph.tensors, graph.operators, described.network, results, codes)
    assert max(distances)[0] == is_fast
    assert min(same for _, same in distances) >= (0.98 if is_fast else 1)
    labels = [int(file.stem.rpartition("_")[2]) for file in files]
    assert (results[-1].argmax(axis=1) == labels).sum() >= 18
