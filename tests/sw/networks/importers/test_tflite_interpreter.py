"""Networks of TFLite models against TFLite's own interpreter, as it runs by default: all codes of the results."""

import numpy as np
import pytest
import tflite

from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.tflite_file import read_graph

from .test_tflite import clipping, gaps, keywords, nearly_constant, pooled, residual
from .test_tflite_operators import blocks, padded
from .tflite_models import NONE, RELU, VALID, Graph, attention, convolving, imported, results, spread, views, window

pytestmark = pytest.mark.flow

lite = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="ai-edge-litert is not there: pip install '.[interpreter]'"
)

INPUTS = 50
CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
LEFT = ("SOFTMAX", "LOGISTIC")
"""Operators at the end that networks leave out."""


class Interpreter:
    """The interpreter of a model that ends with the tensor ``output``."""

    def __init__(self, content, output):
        changed = bytearray(content)
        tflite.Model.GetRootAs(changed, 0).Subgraphs(0).OutputsAsNumpy()[0] = output
        self._run = lite.Interpreter(model_content=bytes(changed))
        self._run.allocate_tensors()

    def codes(self, inputs):
        """The codes of the tensor for each input."""
        (taken,), (given,), outputs = self._run.get_input_details(), self._run.get_output_details(), []
        for image in inputs.astype(np.int8):
            self._run.set_tensor(taken["index"], image.reshape(taken["shape"]))
            self._run.invoke()
            outputs.append(self._run.get_tensor(given["index"]).astype(np.int64))
        return np.concatenate(outputs)


def last_tensor(graph):
    return next(operator.outputs[0] for operator in reversed(graph.operators) if operator.kind not in LEFT)


def distances(path, codes, **options):
    """How far the results of the network are from the interpreter's codes."""
    described, graph = imported(path, **options), read_graph(path)
    right = Interpreter(path.read_bytes(), last_tensor(graph)).codes(codes)
    samples = (codes + 128).astype(np.uint8)
    own = run_reference(described.network, described.batch(samples))[-1].astype(np.int64).reshape(right.shape)
    assert np.unique(right).size > 20
    return np.abs(own - (0 if described.network.stages[-1].precision.y_signed else 128) - right)


def given(nets, name):
    """Codes of inputs: words, pictures and these with noise, walks of a spectrum."""
    rng, pictures = np.random.default_rng(0), read_images(nets / "cifar20").samples.astype(np.int64)
    match name:
        case "kws_dscnn":
            return np.load(nets / "kws1000.npz")["images"][:INPUTS].astype(np.int64) - 128
        case "ad01":
            walks = rng.integers(60, 200, (INPUTS, 1)) + np.cumsum(rng.normal(0, 4, (INPUTS, 640)), 1)
            return np.clip(walks.astype(np.int64), 0, 255) - 128
        case "vww_96":
            pictures = np.repeat(np.repeat(pictures, 3, 1), 3, 2)
    noisy = np.clip(pictures[::-1] + rng.integers(-20, 20, pictures.shape), 0, 255)
    drawn = rng.integers(0, 256, (INPUTS - 2 * len(pictures), *pictures.shape[1:]))
    return np.concatenate([pictures, noisy, drawn]) - 128


@pytest.mark.parametrize(("name", "same"), [("ad01", 1), ("kws_dscnn", 1), ("vww_96", 1), ("resnet8", 0.99)])
def test_models_of_mlperf_tiny(nets, name, same):
    differences = distances(nets / f"{name}_int8.tflite", given(nets, name))
    assert len(differences) == INPUTS
    assert (differences == 0).mean() >= same


def in_single_precision(tensors, operator, codes):
    """A convolution as the interpreter computes it: the sum times its factor in single precision, halves to even."""
    x, w, b = (tensors[number] for number in operator.inputs)
    output, values = tensors[operator.outputs[0]], codes - x.zeros[0]
    if operator.kind == "FULLY_CONNECTED":
        sums = values.reshape(len(values), -1) @ w.data.astype(np.int64).T
    else:
        filters = spread(w.data.astype(np.int64), operator.options)
        sums = np.einsum("nyxijc,oijc->nyxo", views(values, filters.shape[1:3], operator.options, 0), filters)
    factors = np.float32(x.scales[0]) * w.scales.astype(np.float32) / np.float32(output.scales[0])
    products = (sums + b.data).astype(np.float32) * factors
    low = output.zeros[0] if operator.options["FusedActivationFunction"] == RELU else -128
    return np.clip(np.rint(products).astype(np.int64) + output.zeros[0], low, 127)


def test_what_differs_in_resnet8_is_single_precision(nets):
    """Each operator on the interpreter's own inputs: sums are exact here, and rounded once more there."""
    path = nets / "resnet8_int8.tflite"
    graph, codes = read_graph(path), given(nets, "resnet8")[:30]
    known, differing = {graph.inputs[0]: codes}, 0
    for operator in graph.operators:
        if operator.kind in LEFT:
            continue
        exact = results(graph.tensors, operator, known)
        right = Interpreter(path.read_bytes(), operator.outputs[0]).codes(codes).reshape(exact.shape)
        known[operator.outputs[0]] = right
        if operator.kind in CONVOLUTIONS:
            differing += np.count_nonzero(exact != right)
            exact = in_single_precision(graph.tensors, operator, known[operator.inputs[0]])
        np.testing.assert_array_equal(exact, right)
    assert 0 < differing < 200


def of_codes(kind, scale, zero, **options):
    """A map whose codes are changed one by one, between two others: at either end some operators are left out."""
    g, pooling = Graph((1, 16, 16, 4), 0.02, 11), window((1, 1), VALID, FilterHeight=1, FilterWidth=2)
    a = g.operator("MAX_POOL_2D", (g.input,), (1, 16, 15, 4), 0.02, 11, **pooling)
    b = g.operator(kind, (a,), (1, 16, 15, 4), scale, zero, **options)
    g.operator("MAX_POOL_2D", (b,), (1, 16, 14, 4), scale, zero, **pooling)
    return g


def activated(kind):
    g = Graph((1, 8, 8, 4), 0.02, 11)
    a = g.operator(kind, (g.input,), (1, 8, 8, 4), 0.044, -29)
    g.weighted("CONV_2D", a, (4, 3, 3, 4), (1, 8, 8, 4), 0.2, -5, **convolving())
    return g


def beside(axis):
    g = Graph((1, 5, 6, 4), 0.02, 11)
    a = g.weighted("CONV_2D", g.input, (4, 3, 3, 4), (1, 5, 6, 4), 0.02, 11, **convolving())
    shape = [1, 5, 6, 4]
    shape[axis] *= 3
    sides = {"Axis": axis, "FusedActivationFunction": NONE}
    c = g.operator("CONCATENATION", (g.input, a, g.input), tuple(shape), 0.02, 11, **sides)
    results = (1, shape[1] - 1, shape[2] - 1, 4)
    g.weighted("CONV_2D", c, (4, 2, 2, shape[3]), results, 0.1, 5, **convolving((1, 1), VALID))
    return g


def mean(scale, shape):
    g = Graph((1, *shape, 6), 0.02, 11)
    g.operator("MEAN", (g.input, g.numbers([1, 2])), (1, 6), scale, -20)
    return g


def mean_of_channels(channels, scale=0.02):
    g = Graph((1, 5, 4, channels), 0.02, 11)
    g.operator("MEAN", (g.input, g.numbers([3])), (1, 5, 4), scale, 11)
    return g


def slopes(*codes):
    """A slope for each channel, of which some are negative."""
    g = Graph((1, 6, 8, 4), 0.05, -10)
    slope = g.tensor("slopes", (1, 1, 4), 0.013, -7, data=np.array(codes, np.int8).reshape(1, 1, 4))
    g.operator("PRELU", (g.input, slope), (1, 6, 8, 4), 0.0613, 5)
    return g


def pixels():
    g = Graph((1, 9, 7, 5), 0.05, 3)
    a = g.weighted("CONV_2D", g.input, (6, 3, 3, 5), (1, 9, 7, 6), 0.06, 4, **convolving())
    a = g.operator("SOFTMAX", (a,), (1, 9, 7, 6), 1 / 256, -128, Beta=1.0)
    g.operator("ADD", (a, a), (1, 9, 7, 6), 1 / 128, -128, FusedActivationFunction=NONE)
    return g


def reversed_rows(scale, zero):
    """Codes stay the same, also where they stand for other numbers."""
    g = Graph((1, 9, 7, 4), 0.02, -128)
    a = g.operator("REVERSE_V2", (g.input, g.numbers([1])), (1, 9, 7, 4), scale, zero)
    g.weighted("CONV_2D", a, (6, 3, 3, 4), (1, 9, 7, 6), 0.2, 4, **convolving())
    return g


GRAPHS = {
    **{graph.__name__: graph() for graph in (residual, pooled, keywords, gaps, clipping, nearly_constant)},
    **{graph.__name__: graph() for graph in (blocks, padded)},
    **{f"CONCATENATION {axis}": beside(axis) for axis in (1, 2, 3, -2)},
    **{f"QUANTIZE {scale}": of_codes("QUANTIZE", scale, -7) for scale in (0.02, 0.031, 0.0121, 0.11)},
    **{f"LEAKY_RELU {a}": of_codes("LEAKY_RELU", 0.0171, -7, Alpha=a) for a in (0.01, 0.1, 0.3, 0.5, 0.003)},
    **{f"RELU {scale}": of_codes("RELU", scale, -128) for scale in (0.02, 0.044, 0.0121, 0.007)},
    **{f"{kind} before a convolution": activated(kind) for kind in ("RELU", "RELU6", "RELU_N1_TO_1")},
    **{f"HARD_SWISH {scale}": of_codes("HARD_SWISH", scale, -101) for scale in (0.02, 0.0151, 0.07)},
    "LOGISTIC": of_codes("LOGISTIC", 1 / 256, -128),
    "TANH": of_codes("TANH", 1 / 128, 0),
    "BATCH_MATMUL": attention(),
    **{f"SOFTMAX of {size}": attention(size, shares="SOFTMAX", Beta=beta) for size, beta in ((11, 1.0), (40, 0.6))},
    "SOFTMAX of pixels": pixels(),
    **{f"PRELU {codes}": slopes(*codes) for codes in ([-60, 3, 50, 127], [0, 3, 50, 127], [9] * 4)},
    "MEAN": mean(0.02, (5, 3)),
    "MEAN in another scale": mean(0.011, (4, 7)),
    **{f"REVERSE_V2 {scale}": reversed_rows(scale, zero) for scale, zero in ((0.02, -128), (0.03, -128), (0.017, 5))},
    "MEAN of channels": mean_of_channels(5),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_operators(tmp_path, name):
    graph = GRAPHS[name]
    path = graph.written(tmp_path / "model.tflite")
    codes = np.random.default_rng(3).integers(-128, 128, (INPUTS, *graph.tensors[0].shape[1:]))
    differences = distances(path, codes)
    assert not differences.any(), ((differences > 0).mean(), differences.max())


@pytest.mark.parametrize("scale", [0.02, 0.011])
def test_halves_of_means_of_channels(tmp_path, scale):
    """Also where the scales make halves in single precision only."""
    graph, notes = mean_of_channels(8, scale), []
    codes = np.random.default_rng(3).integers(-128, 128, (INPUTS, 5, 4, 8))
    differences = distances(graph.written(tmp_path / "model.tflite"), codes, note=notes.append)
    assert differences.max() == 1
    assert notes == ["operator 0 (MEAN): halves of means go up, not to even numbers as TFLite's"]


def test_halves_of_means(tmp_path):
    """The interpreter's go to even numbers before the zero point is added, ours up, which is said."""
    graph, notes = mean(0.02, (4, 4)), []
    codes = np.random.default_rng(3).integers(-128, 128, (INPUTS, 4, 4, 6))
    path = graph.written(tmp_path / "model.tflite")
    differences = distances(path, codes, note=notes.append)
    sums = (codes - 11).sum(axis=(1, 2))
    is_half, is_even = sums % 16 == 8, sums // 16 % 2 == 0
    np.testing.assert_array_equal(differences, is_half & is_even)
    assert differences.any()
    assert notes == ["operator 0 (MEAN): halves of means go up, not to even numbers as TFLite's"]


def test_what_the_fast_rule_moves(nets):
    differences = distances(nets / "kws_dscnn_int8.tflite", given(nets, "kws_dscnn"), is_fast=True)
    assert 0 < differences.max() <= 4
