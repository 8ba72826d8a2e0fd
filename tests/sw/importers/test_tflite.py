"""TFLite models: what the network computes is what TFLite does with real numbers, rounded once per operator."""

import os
import re
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import tflite

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.golden.network import run_reference
from xpulpnn_sim.png import read_png
from xpulpnn_sw.importers.options import ImportOptions
from xpulpnn_sw.importers.registry import import_model
from xpulpnn_sw.importers.tflite_file import Operator, Tensor, read_graph
from xpulpnn_sw.networks.form import read_network, written

pytestmark = pytest.mark.unit

NETS = os.environ.get("XPULPNN_NETS")
needs_nets = pytest.mark.skipif(
    NETS is None, reason="XPULPNN_NETS names no folder with resnet8_int8.tflite and cifar20"
)

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
NONE, RELU, RELU6 = (getattr(tflite.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU6"))
TABLES = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "ADD": "AddOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
}


class Graph:
    """A model that grows: operators return the tensor that they compute."""

    def __init__(self, shape, scale=0.05, zero=-128, seed=0):
        self.rng, self.tensors, self.operators = np.random.default_rng(seed), [], []
        self.input = self.tensor("input", shape, scale, zero)

    def tensor(self, name, shape, scale=1.0, zero=0, kind="INT8", data=None, axis=0):
        scales = np.atleast_1d(np.float32(scale)).astype(np.float64)
        zeros = np.full(len(scales), zero)
        self.tensors.append(Tensor(name=name, shape=shape, type=kind, scales=scales, zeros=zeros, axis=axis, data=data))
        return len(self.tensors) - 1

    def operator(self, kind, inputs, shape, scale, zero, **options):
        output = self.tensor(f"{kind}{len(self.operators)}", shape, scale, zero)
        number = len(self.operators)
        self.operators.append(
            Operator(index=number, kind=kind, inputs=tuple(inputs), outputs=(output,), options=options)
        )
        return output

    def weighted(self, kind, x, filters, shape, scale, zero, *, axis=0, **options):
        """An operator with random weights of these shapes, a scale for each channel, and biases."""
        channels = filters[axis]
        scales = self.rng.uniform(0.002, 0.02, channels)
        data = self.rng.integers(-127, 128, filters).astype(np.int8)
        w = self.tensor("weights", filters, scales, data=data, axis=axis)
        bias = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        b = self.tensor("bias", (channels,), scales, kind="INT32", data=bias)
        return self.operator(kind, (x, w, b), shape, scale, zero, **options)

    def numbers(self, values):
        data = np.array(values, np.int32)
        return self.tensor("numbers", data.shape, kind="INT32", data=data)

    def written(self, path, **changes):
        path.write_bytes(flat(self.tensors, self.operators, **changes))
        return path


def window(stride=(1, 1), padding=SAME, activation=NONE, **others):
    return {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "FusedActivationFunction": activation,
        **others,
    }


def convolving(*arguments, **options):
    return window(*arguments, **options) | {"DilationHFactor": 1, "DilationWFactor": 1} | options


def vector(b, start, values, put):
    start(b, len(values))
    for value in reversed(values):
        put(value)
    return b.EndVector()


def made(b, table, **fields):
    getattr(tflite, f"{table}Start")(b)
    for name, value in fields.items():
        getattr(tflite, f"{table}Add{name}")(b, value)
    return getattr(tflite, f"{table}End")(b)


def flat(tensors, operators, *, inputs=(0,), outputs=None):
    """The bytes of a model."""
    b = flatbuffers.Builder(1024)
    kinds = sorted({one.kind for one in operators})
    buffers, rows = [made(b, "Buffer")], []
    for one in tensors:
        number = 0
        if one.data is not None:
            number = len(buffers)
            buffers.append(made(b, "Buffer", Data=b.CreateByteVector(one.data.tobytes())))
        scale = vector(b, tflite.QuantizationParametersStartScaleVector, one.scales, b.PrependFloat32)
        zero = vector(b, tflite.QuantizationParametersStartZeroPointVector, one.zeros, b.PrependInt64)
        fields = {"Scale": scale, "ZeroPoint": zero, "QuantizedDimension": one.axis}
        quantisation, name = made(b, "QuantizationParameters", **fields), b.CreateString(one.name)
        shape = vector(b, tflite.TensorStartShapeVector, one.shape, b.PrependInt32)
        kind = getattr(tflite.TensorType, one.type)
        rows.append(made(b, "Tensor", Shape=shape, Type=kind, Buffer=number, Name=name, Quantization=quantisation))
    steps = []
    for one in operators:
        fields = {"OpcodeIndex": kinds.index(one.kind)}
        fields["Inputs"] = vector(b, tflite.OperatorStartInputsVector, one.inputs, b.PrependInt32)
        fields["Outputs"] = vector(b, tflite.OperatorStartOutputsVector, one.outputs, b.PrependInt32)
        if one.kind in TABLES:
            fields["BuiltinOptions"] = made(b, TABLES[one.kind], **one.options)
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, TABLES[one.kind])
        steps.append(made(b, "Operator", **fields))
    numbers = [getattr(tflite.BuiltinOperator, kind) for kind in kinds]
    codes = [made(b, "OperatorCode", BuiltinCode=one, DeprecatedBuiltinCode=one) for one in numbers]
    ends = operators[-1].outputs if outputs is None and operators else outputs or ()
    graph = made(
        b,
        "SubGraph",
        Tensors=vector(b, tflite.SubGraphStartTensorsVector, rows, b.PrependUOffsetTRelative),
        Inputs=vector(b, tflite.SubGraphStartInputsVector, inputs, b.PrependInt32),
        Outputs=vector(b, tflite.SubGraphStartOutputsVector, ends, b.PrependInt32),
        Operators=vector(b, tflite.SubGraphStartOperatorsVector, steps, b.PrependUOffsetTRelative),
    )
    fields = {
        "OperatorCodes": vector(b, tflite.ModelStartOperatorCodesVector, codes, b.PrependUOffsetTRelative),
        "Subgraphs": vector(b, tflite.ModelStartSubgraphsVector, [graph], b.PrependUOffsetTRelative),
        "Buffers": vector(b, tflite.ModelStartBuffersVector, buffers, b.PrependUOffsetTRelative),
    }
    b.Finish(made(b, "Model", Version=3, **fields), b"TFL3")
    return bytes(b.Output())


# -- TFLite's operators on real numbers


def real(tensor, codes):
    return (codes - tensor.zeros[0]) * tensor.scales[0]


def rounded(tensor, values, activation=NONE):
    """Codes of real results: halves away from zero, then the fused activation."""
    scale, zero = tensor.scales[0], tensor.zeros[0]
    steps = values / scale
    codes = np.trunc(steps + np.copysign(0.5, steps)) + zero
    low = zero if activation in (RELU, RELU6) else -128
    high = min(127, zero + round(6 / scale)) if activation == RELU6 else 127
    return np.clip(codes, low, high).astype(np.int64)


def views(values, reach, options, outside):
    """``[image, row, column, ky, kx, channel]``: what each window sees."""
    stride = options["StrideH"], options["StrideW"]
    around = [(0, 0)]
    for size, length, step in zip(values.shape[1:3], reach, stride, strict=True):
        missing = max((-(-size // step) - 1) * step + length - size, 0) if options["Padding"] == SAME else 0
        around.append((missing // 2, missing - missing // 2))
    padded = np.pad(values, [*around, (0, 0)], constant_values=outside)
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
    return seen[:, :: stride[0], :: stride[1]].transpose(0, 1, 2, 4, 5, 3)


def results(tensors, one, known):
    """The codes of an operator's output."""
    x, output = tensors[one.inputs[0]], tensors[one.outputs[0]]
    values, options = real(x, known[one.inputs[0]]), one.options
    activation = options.get("FusedActivationFunction", NONE)
    if one.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        w, b = (tensors[number] for number in one.inputs[1:])
        axis = 3 if one.kind == "DEPTHWISE_CONV_2D" else 0
        scales = w.scales.reshape([-1 if dimension == axis else 1 for dimension in range(w.data.ndim)])
        weights, bias = w.data * scales, b.data * w.scales * x.scales[0]
        if one.kind == "FULLY_CONNECTED":
            return rounded(output, values.reshape(len(values), -1) @ weights.T + bias, activation)
        seen = views(values, weights.shape[1:3], options, 0.0)
        if one.kind == "CONV_2D":
            return rounded(output, np.einsum("nyxijc,oijc->nyxo", seen, weights) + bias, activation)
        copies = np.repeat(seen, weights.shape[3] // values.shape[3], axis=-1)
        return rounded(output, np.einsum("nyxijc,ijc->nyxc", copies, weights[0]) + bias, activation)
    if one.kind == "ADD":
        return rounded(output, values + real(tensors[one.inputs[1]], known[one.inputs[1]]), activation)
    if one.kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        seen = views(values, (options["FilterHeight"], options["FilterWidth"]), options, -np.inf)
        pooled = seen.mean(axis=(3, 4)) if one.kind == "AVERAGE_POOL_2D" else seen.max(axis=(3, 4))
        return rounded(output, pooled, activation)
    if one.kind == "MEAN":
        return rounded(output, values.mean(axis=(1, 2)))
    codes = known[one.inputs[0]]
    if one.kind == "PAD":
        around = [tuple(pair) for pair in tensors[one.inputs[1]].data]
        return np.pad(codes, around, constant_values=x.zeros[0])
    assert one.kind == "RESHAPE"
    return codes.reshape(len(codes), *output.shape[1:])


def imported(path, **options):
    return import_model(path, ImportOptions(name="model", **options))


def check_layers(tensors, operators, network, found, codes):
    """By layer, how far codes are from those of TFLite's operator on the same inputs, and how many are the same."""
    # unsigned codes are 128 more in the network
    own = {
        int(re.search(r"\d+$", stage.name)[0]): values.astype(np.int64) - (0 if stage.precision.y_signed else 128)
        for stage, values in zip(network.stages, found, strict=True)
    }
    known, distances = {0: codes}, []
    for one in operators:
        if one.kind == "SOFTMAX":
            continue
        right = results(tensors, one, known)
        known[one.outputs[0]] = right
        if one.kind not in ("PAD", "RESHAPE"):
            known[one.outputs[0]] = own.pop(one.index).reshape(right.shape)
            differences = np.abs(known[one.outputs[0]] - right)
            distances.append((int(differences.max()), float((differences == 0).mean())))
            # something that could differ
            assert np.unique(right).size > min(right[0].size // 20, 20)
    assert not own
    return distances


def check(graph, tmp_path, **options):
    """The network of a graph, and the distances of its layers for a few random inputs."""
    described = imported(graph.written(tmp_path / "model.tflite"), **options)
    codes = graph.rng.integers(-128, 128, (4, *graph.tensors[0].shape[1:]))
    found = run_reference(described.network, described.batch((codes + 128).astype(np.uint8)))
    return described, check_layers(graph.tensors, graph.operators, described.network, found, codes)


def residual():
    """Two branches and their sum, other zero points than -128, a non-square filter, padding by an operator."""
    g = Graph((1, 9, 8, 4), 0.02, 11, seed=1)
    a = g.weighted("CONV_2D", g.input, (6, 3, 2, 4), (1, 5, 4, 6), 0.05, -128, **convolving((2, 2), SAME, RELU))
    padded = g.operator("PAD", (a, g.numbers([[0, 0], [1, 0], [2, 1], [0, 0]])), (1, 6, 7, 6), 0.05, -128)
    b = g.weighted("CONV_2D", padded, (6, 2, 4, 6), (1, 5, 4, 6), 0.11, 7, **convolving((1, 1), VALID))
    c = g.weighted("CONV_2D", a, (6, 1, 1, 6), (1, 5, 4, 6), 0.07, -20, **convolving())
    d = g.operator("ADD", (b, c), (1, 5, 4, 6), 0.13, -3, FusedActivationFunction=NONE)
    e = g.weighted(
        "DEPTHWISE_CONV_2D", d, (1, 3, 3, 6), (1, 5, 4, 6), 0.09, -60, axis=3, **convolving(), DepthMultiplier=1
    )
    m = g.operator("MEAN", (e, g.numbers([1, 2])), (1, 6), 0.07, -100)
    f = g.weighted("FULLY_CONNECTED", m, (5, 6), (1, 5), 0.1, 3, FusedActivationFunction=NONE, WeightsFormat=0)
    g.operator("SOFTMAX", (f,), (1, 5), 1 / 256, -128)
    return g


def pooled():
    """One colour, whose convolution is a depthwise one in the file; pools; a map that becomes a row."""
    g = Graph((1, 10, 6, 1), 1 / 255, -128, seed=2)
    depthwise = convolving((2, 1), SAME, RELU6) | {"DepthMultiplier": 8}
    a = g.weighted("DEPTHWISE_CONV_2D", g.input, (1, 5, 3, 8), (1, 5, 6, 8), 6 / 255, -128, axis=3, **depthwise)
    b = g.operator(
        "MAX_POOL_2D", (a,), (1, 3, 3, 8), 6 / 255, -128, **window((2, 2), SAME, FilterHeight=3, FilterWidth=2)
    )
    c = g.operator(
        "AVERAGE_POOL_2D", (b,), (1, 2, 1, 8), 6 / 255, -128, **window((1, 1), VALID, FilterHeight=2, FilterWidth=3)
    )
    d = g.operator("RESHAPE", (c, g.numbers([1, 16])), (1, 16), 6 / 255, -128)
    g.weighted("FULLY_CONNECTED", d, (7, 16), (1, 7), 0.05, 0, FusedActivationFunction=NONE, WeightsFormat=0)
    return g


def test_residual(tmp_path):
    notes = []
    described, distances = check(residual(), tmp_path, note=notes.append)
    assert max(distances)[0] == 1
    assert min(same for _, same in distances) > 0.98
    assert [stage.name for stage in described.network.stages] == [
        "conv0", "conv2", "pointwise3", "add4", "depthwise5", "avgpool6", "linear7",
    ]  # fmt: skip
    assert [stage.pad for stage in described.network.stages] == [11, 0, 0, 0, -3, 0, 0]
    assert described.network.stages[3].sources == ("conv2", "pointwise3")
    text, arrays = written(described, "net.npz")
    (tmp_path / "net.npz").write_bytes(arrays)
    (tmp_path / "net.json").write_text(text)
    again, samples = read_network(tmp_path / "net.json"), np.arange(288).reshape(1, 9, 8, 4) % 256
    for one, other in zip(*(run_reference(net.network, net.batch(samples)) for net in (described, again)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert notes == ["operator 8 (SOFTMAX) is left out: results are the codes before it"]


@pytest.mark.parametrize("graph", [residual, pooled])
def test_in_64_bits_codes_are_those_of_tflite(tmp_path, graph):
    _, distances = check(graph(), tmp_path, wide=True)
    assert set(distances) == {(0, 1.0)}


def with_operator(number, kind=None, **options):
    """The residual model with another operator, or with other options."""
    g = residual()
    one = g.operators[number]
    g.operators[number] = Operator(
        index=number, kind=kind or one.kind, inputs=one.inputs, outputs=one.outputs, options=one.options | options
    )
    return g


def with_tensor(name, number=0, **changes):
    """The residual model with another tensor, the ``number``-th of this name."""
    g = residual()
    place = [place for place, one in enumerate(g.tensors) if one.name == name][number]
    one = g.tensors[place]
    fields = {field: getattr(one, field) for field in ("name", "shape", "type", "scales", "zeros", "axis", "data")}
    g.tensors[place] = Tensor(**(fields | changes))
    return g


BAD = {
    "unknown": (with_operator(6, "LOGISTIC"), "operator 6 (LOGISTIC): operators must be ADD, AVERAGE_POOL_2D, "),
    "in the middle": (with_operator(1, "SOFTMAX"), "operator 1 (SOFTMAX): operators must be ADD, "),
    "dilated": (with_operator(2, DilationHFactor=2), "operator 2 (CONV_2D): dilation must be 1, not 2"),
    "clipped": (
        with_operator(2, FusedActivationFunction=RELU),
        "operator 2 (CONV_2D): RELU must clip where the results' 8 bits end, -128, not at 7",
    ),
    "tanh": (
        with_operator(2, FusedActivationFunction=tflite.ActivationFunctionType.TANH),
        "operator 2 (CONV_2D): fused activation must be one of NONE, RELU, RELU6, RELU_N1_TO_1, not TANH",
    ),
    "no stride": (
        with_operator(2, StrideW=0),
        "operator 2 (CONV_2D): windows and strides must be 1 at least, not 0",
    ),
    "stride": (with_operator(2, StrideW=2), "operator 2 (CONV_2D): output must be 5x2x6, not 5x4x6"),
    "floats": (with_tensor("input", type="FLOAT32"), "input of the model: input must be INT8, not FLOAT32"),
    "batch": (with_tensor("input", shape=(2, 9, 8, 4)), "input of the model: input must be a batch of 1, not 2x9x8x4"),
    "axes": (
        with_tensor("numbers", 1, data=np.array([1, 3], np.int32)),
        "operator 6 (MEAN): axes must be rows and columns, 1 and 2, not 1, 3",
    ),
    "channels": (
        with_tensor("numbers", data=np.array([[0, 0], [0, 0], [0, 0], [1, 0]], np.int32)),
        "operator 1 (PAD): padding must be of rows and columns, not of channels",
    ),
    "zero of weights": (
        with_tensor("weights", zeros=np.full(6, 2)),
        "operator 0 (CONV_2D): zero points of weights must be 0, not 2",
    ),
    "bias": (
        with_tensor("bias", data=np.full(6, 2**31 - 1, np.int32)),
        "operator 0 (CONV_2D): sums must be of 32 bits, not ",
    ),
    "no scale": (
        with_tensor("ADD4", scales=np.zeros(0), zeros=np.zeros(0)),
        "operator 4 (ADD): ADD4 must have one scale, not 0",
    ),
    "weights elsewhere": (
        with_tensor("weights", data=None),
        "operator 0 (CONV_2D): weights must be in the file, not computed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_mapped_is_named(tmp_path, case):
    graph, message = BAD[case]
    with pytest.raises(InputError, match=f"^{re.escape(message)}") as found:
        imported(graph.written(tmp_path / "model.tflite"))
    assert "\n" not in str(found.value)


def test_damaged_files(tmp_path):
    path = tmp_path / "model.tflite"
    whole = pooled().written(path).read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"^model must be a (whole )?TFLite file, not "):
            imported(path)
    # bytes that are others: another network, or a line
    rng = np.random.default_rng(3)
    for _ in range(60):
        content = np.frombuffer(whole, np.uint8).copy()
        content[rng.integers(8, len(whole), 3)] = rng.integers(0, 256, 3)
        path.write_bytes(content.tobytes())
        with suppress(XpulpnnError):
            imported(path)


def test_two_outputs(tmp_path):
    with pytest.raises(InputError, match=r"^outputs of the model must be 1, not 2$"):
        imported(residual().written(tmp_path / "model.tflite", outputs=(20, 21)))


def test_samples(tmp_path):
    path = residual().written(tmp_path / "model.tflite")
    samples = np.arange(288).reshape(1, 9, 8, 4) % 256
    assert (imported(path).batch(samples) == samples - 128).all()
    # -1..1 in steps of 0.02 around the code 11
    scaled = imported(path, samples=(Fraction(-1), Fraction(1))).batch(samples)
    right = np.clip(np.round((samples / 127.5 - 1) / np.float32(0.02) + 11), -128, 127)
    assert np.abs(scaled - right).max() <= 1
    assert (scaled == right).mean() > 0.99


@needs_nets
def test_resnet8(tmp_path):
    """Images that are classified, and how far each layer by itself is from TFLite's rounding."""
    folder = Path(NETS)
    path = folder / "resnet8_int8.tflite"
    graph, described = read_graph(path), imported(path)
    files = sorted((folder / "cifar20").glob("*.png"))
    images = np.stack([read_png(file) for file in files])
    found = run_reference(described.network, described.batch(images))
    codes = images.astype(np.int64) - 128
    distances = check_layers(graph.tensors, graph.operators, described.network, found, codes)
    assert max(distances)[0] == 1
    assert min(same for _, same in distances) > 0.98
    labels = [int(file.stem.rpartition("_")[2]) for file in files]
    assert (found[-1].argmax(axis=1) == labels).sum() >= 18
