"""TFLite models that grow operator by operator, and what they compute on real numbers, rounded once per operator."""

import re

import flatbuffers
import numpy as np
import tflite

from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.networks.importers.registry import ImportOptions, import_model
from xpulpnn_sw.networks.importers.tflite_file import TfliteOperator, TfliteTensor

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
KIND = tflite.ActivationFunctionType
NONE, RELU, RELU6, RELU_1 = KIND.NONE, KIND.RELU, KIND.RELU6, KIND.RELU_N1_TO_1
FULLY = {"FusedActivationFunction": NONE, "WeightsFormat": 0}
KINDS = {"QUANTIZE": NONE, "RELU": RELU, "RELU6": RELU6, "RELU_N1_TO_1": RELU_1}
"""Operators that do nothing else."""

TABLES = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "CONCATENATION": "ConcatenationOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "MUL": "MulOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "GATHER": "GatherOptions",
    "MIRROR_PAD": "MirrorPadOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "SOFTMAX": "SoftmaxOptions",
    "PACK": "PackOptions",
}
CURVES = {
    "LOGISTIC": lambda real: 1 / (1 + np.exp(-real)),
    "TANH": np.tanh,
    "HARD_SWISH": lambda real: real * np.clip(real + 3, 0, 6) / 6,
    "ELU": lambda real: np.where(real > 0, real, np.expm1(np.minimum(real, 0))),
}
"""Functions of codes one by one."""


class Graph:
    """A model that grows: operators return the tensor that they compute."""

    def __init__(self, shape, scale=0.05, zero=-128, seed=0):
        self.rng, self.tensors, self.operators = np.random.default_rng(seed), [], []
        self.input = self.tensor("input", shape, scale, zero)

    def tensor(self, name, shape, scale=1.0, zero=0, kind="INT8", data=None, axis=0):
        scales = np.atleast_1d(np.float32(scale)).astype(np.float64)
        zeros = np.full(len(scales), zero)
        own = TfliteTensor(name=name, shape=shape, type=kind, scales=scales, zeros=zeros, axis=axis, data=data)
        self.tensors.append(own)
        return len(self.tensors) - 1

    def operator(self, operator, inputs, shape, scale, zero, kind="INT8", **options):
        number = len(self.operators)
        output = self.tensor(f"{operator}{number}", shape, scale, zero, kind)
        ends = {"inputs": tuple(inputs), "outputs": (output,)}
        self.operators.append(TfliteOperator(index=number, kind=operator, **ends, options=options))
        return output

    def weighted(self, kind, x, filters, shape, scale, zero, *, axis=0, biased=True, one_scale=False, **options):
        """An operator with random weights of these shapes, a scale for each channel or one for all, and biases."""
        channels = filters[axis]
        scales = self.rng.uniform(0.002, 0.02, 1 if one_scale else channels)
        data = self.rng.integers(-127, 128, filters).astype(np.int8)
        w = self.tensor("weights", filters, scales, data=data, axis=axis)
        bias = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        b = self.tensor("bias", (channels,), scales, kind="INT32", data=bias)
        options = FULLY | options if kind == "FULLY_CONNECTED" else options
        return self.operator(kind, (x, w, b if biased else -1), shape, scale, zero, **options)

    def numbers(self, values):
        data = np.array(values, np.int32)
        return self.tensor("numbers", data.shape, kind="INT32", data=data)

    def written(self, path, **changes):
        path.write_bytes(flat(self.tensors, self.operators, **changes))
        return path


def attention(places=11, heads=2, width=6, channels=10, shares="LOGISTIC", **options):
    """A block of a transformer: queries, keys and values by heads, their products, and the input added."""
    g, whole, split = Graph((1, places, channels), 0.05, 3), heads * width, (1, heads, places, width)
    mixed, turned = g.numbers([1, places, heads, width]), g.numbers([0, 2, 1, 3])
    sides = []
    for zero in (5, -128, 2):
        a = g.weighted("FULLY_CONNECTED", g.input, (whole, channels), (1, places, whole), 0.06, zero)
        a = g.operator("RESHAPE", (a, mixed), (1, places, heads, width), 0.06, zero)
        sides.append(g.operator("TRANSPOSE", (a, turned), split, 0.06, zero))
    scores = g.operator("BATCH_MATMUL", sides[:2], (1, heads, places, places), 0.03, 4, AdjX=0, AdjY=1)
    shares = g.operator(shares, (scores,), (1, heads, places, places), 1 / 256, -128, **options)
    b = g.operator("BATCH_MATMUL", (shares, sides[2]), split, 0.03, -3, AdjX=0, AdjY=0)
    b = g.operator("TRANSPOSE", (b, turned), (1, places, heads, width), 0.03, -3)
    b = g.operator("RESHAPE", (b, g.numbers([1, places, whole])), (1, places, whole), 0.03, -3)
    b = g.weighted("FULLY_CONNECTED", b, (channels, whole), (1, places, channels), 0.05, 1)
    g.operator("ADD", (b, g.input), (1, places, channels), 0.0813, 2, FusedActivationFunction=NONE)
    return g


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
    b = flatbuffers.Builder(1024)
    kinds = sorted({operator.kind for operator in operators})
    buffers, rows = [made(b, "Buffer")], []
    for tensor in tensors:
        number = 0
        if tensor.data is not None:
            number = len(buffers)
            buffers.append(made(b, "Buffer", Data=b.CreateByteVector(tensor.data.tobytes())))
        scale = vector(b, tflite.QuantizationParametersStartScaleVector, tensor.scales, b.PrependFloat32)
        zero = vector(b, tflite.QuantizationParametersStartZeroPointVector, tensor.zeros, b.PrependInt64)
        fields = {"Scale": scale, "ZeroPoint": zero, "QuantizedDimension": tensor.axis}
        quantisation, name = made(b, "QuantizationParameters", **fields), b.CreateString(tensor.name)
        shape = vector(b, tflite.TensorStartShapeVector, tensor.shape, b.PrependInt32)
        kind = getattr(tflite.TensorType, tensor.type)
        rows.append(made(b, "Tensor", Shape=shape, Type=kind, Buffer=number, Name=name, Quantization=quantisation))
    steps = []
    for operator in operators:
        fields = {"OpcodeIndex": kinds.index(operator.kind)}
        fields["Inputs"] = vector(b, tflite.OperatorStartInputsVector, operator.inputs, b.PrependInt32)
        fields["Outputs"] = vector(b, tflite.OperatorStartOutputsVector, operator.outputs, b.PrependInt32)
        if operator.kind in TABLES:
            fields["BuiltinOptions"] = made(b, TABLES[operator.kind], **operator.options)
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, TABLES[operator.kind])
        steps.append(made(b, "Operator", **fields))
    numbers = [getattr(tflite.BuiltinOperator, kind) for kind in kinds]
    codes = [made(b, "OperatorCode", BuiltinCode=number, DeprecatedBuiltinCode=number) for number in numbers]
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


def ends(tensor, activation):
    scale, zero = tensor.scales[0], tensor.zeros[0]
    low = {RELU: 0, RELU6: 0, RELU_1: -1}.get(activation)
    high = {RELU6: 6, RELU_1: 1}.get(activation)
    least = -128 if low is None else max(-128, zero + round(low / scale))
    return least, 127 if high is None else min(127, zero + round(high / scale))


def rounded(tensor, values, activation=NONE):
    """Codes of real results: halves away from zero, then the fused activation."""
    steps = values / tensor.scales[0]
    codes = np.trunc(steps + np.copysign(0.5, steps)) + tensor.zeros[0]
    return np.clip(codes, *ends(tensor, activation)).astype(np.int64)


def spread(weights, options):
    """Filters ``[out][row][column][in]`` with their gaps."""
    rows, columns = options["DilationHFactor"], options["DilationWFactor"]
    filters, height, width, channels = weights.shape
    whole = np.zeros((filters, (height - 1) * rows + 1, (width - 1) * columns + 1, channels))
    whole[:, ::rows, ::columns] = weights
    return whole


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


def split(codes, block, around, zero):
    """``SPACE_TO_BATCH_ND``: every so many rows and columns become an image of their own."""
    padded = np.pad(codes, [(0, 0), *map(tuple, around), (0, 0)], constant_values=zero)
    pieces = [padded[:, *(slice(first, None, step) for first, step in zip(place, block, strict=True))]
              for place in np.ndindex(*block)]  # fmt: skip
    return np.concatenate(pieces)


def joined(codes, block, cut):
    """``BATCH_TO_SPACE_ND``: the way back."""
    pieces = codes.reshape(np.prod(block), -1, *codes.shape[1:])
    axes = [size * step for size, step in zip(codes.shape[1:], block, strict=False)]
    whole = np.zeros((pieces.shape[1], *axes, codes.shape[-1]), np.int64)
    for piece, place in zip(pieces, np.ndindex(*block), strict=True):
        whole[:, *(slice(first, None, step) for first, step in zip(place, block, strict=True))] = piece
    return whole[:, *(slice(first, size - last) for (first, last), size in zip(cut, axes, strict=True))]


def twice_rounded(steps, factor):
    """Products of a factor of 31 bits as TFLite has them: halves up, then a power of two, halves away from 0."""
    mantissa, exponent = np.frexp(factor)
    product = np.floor(steps * 2.0 ** max(exponent, 0) * np.rint(mantissa * 2**31) / 2**31 + 0.5)
    product /= 2.0 ** max(-exponent, 0)
    return np.trunc(product + np.copysign(0.5, product))


def once_rounded(steps, factor):
    """As TFLite's default interpreter does it where it can: by 8 bits behind the point, halves up."""
    return np.floor(steps * np.rint(factor * 256) / 256 + 0.5)


def depth(codes, size):
    """``SPACE_TO_DEPTH``, channel by channel."""
    return np.concatenate([codes[:, y::size, x::size] for y in range(size) for x in range(size)], axis=-1)


def space(codes, size):
    """``DEPTH_TO_SPACE``: what ``depth`` takes apart."""
    parts = np.split(codes, size * size, axis=-1)
    whole = np.zeros((len(codes), codes.shape[1] * size, codes.shape[2] * size, parts[0].shape[-1]), np.int64)
    for number, part in enumerate(parts):
        whole[:, number // size :: size, number % size :: size] = part
    return whole


def transposed(values, weights, step, shape):
    """Each element scatters its filter."""
    _, height, width, _ = weights.shape
    whole = np.zeros(
        (len(values), (values.shape[1] - 1) * step + height, (values.shape[2] - 1) * step + width, shape[3])
    )
    for y, x in np.ndindex(*values.shape[1:3]):
        whole[:, y * step : y * step + height, x * step : x * step + width] += np.einsum(
            "ni,oyxi->nyxo", values[:, y, x], weights
        )
    top, left = ((size - new) // 2 for size, new in zip(whole.shape[1:3], shape[1:3], strict=True))
    return whole[:, top : top + shape[1], left : left + shape[2]]


def doubled(codes):
    """Rows and columns twice as many, halfway between their neighbours by thirds of a quarter; halves up."""
    for axis in (1, 2):
        before, behind = (np.roll(codes, step, axis) for step in (1, -1))
        for side, place in ((before, 0), (behind, -1)):
            np.moveaxis(side, axis, 0)[place] = np.moveaxis(codes, axis, 0)[place]
        pairs = np.stack([codes * 3 + before, codes * 3 + behind], axis=axis + 1)
        codes = pairs.reshape(*codes.shape[:axis], -1, *codes.shape[axis + 1 :])
    return np.floor(codes / 16 + 0.5)


MOVED = {
    "TRANSPOSE": lambda codes, axes: codes.transpose(axes),
    "SLICE": lambda codes, begin, size: codes[:, begin[1] : begin[1] + size[1], :, begin[3] : begin[3] + size[3]],
    "STRIDED_SLICE": lambda codes, begin, end, step: codes[:, begin[1] : end[1] : step[1], ::-1],
    "GATHER": lambda codes, places: codes[..., places],
    "TILE": np.tile,
    "MIRROR_PAD": lambda codes, around: np.pad(codes, around, mode="reflect"),
    "REDUCE_MAX": lambda codes, axes: codes.max(axis=tuple(axes)),
    "RESIZE_NEAREST_NEIGHBOR": lambda codes, size: codes.repeat(2, axis=1).repeat(2, axis=2),
    "RESIZE_BILINEAR": lambda codes, size: doubled(codes),
}


def results(tensors, operator, known):
    known = {
        number: tensor.data.astype(np.int64)
        for number, tensor in enumerate(tensors)
        if tensor.type == "INT8" and tensor.data is not None
    } | known
    if operator.kind == "TRANSPOSE_CONV":
        _, w, x, output = (tensors[number] for number in (*operator.inputs, *operator.outputs))
        weights, values = w.data * w.scales.reshape(-1, 1, 1, 1), real(x, known[operator.inputs[2]])
        return rounded(output, transposed(values, weights, operator.options["StrideH"], output.shape))
    x, output = tensors[operator.inputs[0]], tensors[operator.outputs[0]]
    values, options = real(x, known[operator.inputs[0]]), operator.options
    activation = options.get("FusedActivationFunction", NONE)
    if operator.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        w, b = (tensors[number] for number in operator.inputs[1:])
        axis = 3 if operator.kind == "DEPTHWISE_CONV_2D" else 0
        scales = w.scales.reshape([-1 if dimension == axis else 1 for dimension in range(w.data.ndim)])
        weights, bias = w.data * scales, b.data * w.scales * x.scales[0] if operator.inputs[2] >= 0 else 0
        if operator.kind == "FULLY_CONNECTED":
            rows = values.reshape(-1, weights.shape[1]) @ weights.T + bias
            return rounded(output, rows.reshape(len(values), *output.shape[1:]), activation)
        weights = spread(weights, options)
        seen = views(values, weights.shape[1:3], options, 0.0)
        if operator.kind == "CONV_2D":
            return rounded(output, np.einsum("nyxijc,oijc->nyxo", seen, weights) + bias, activation)
        copies = np.repeat(seen, weights.shape[3] // values.shape[3], axis=-1)
        return rounded(output, np.einsum("nyxijc,ijc->nyxc", copies, weights[0]) + bias, activation)
    if operator.kind in ("ADD", "SUB"):
        second = real(tensors[operator.inputs[1]], known[operator.inputs[1]])
        return rounded(output, values + (second if operator.kind == "ADD" else -second), activation)
    if operator.kind in ("MUL", "MAXIMUM", "MINIMUM"):
        second = real(tensors[operator.inputs[1]], known[operator.inputs[1]])
        value = {"MUL": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum}[operator.kind]
        return rounded(output, value(values, second), activation)
    if operator.kind == "PRELU":
        slopes = tensors[operator.inputs[1]]
        steps, others = known[operator.inputs[0]] - x.zeros[0], known[operator.inputs[1]] - slopes.zeros[0]
        # TFLite's factors are in single precision
        units = [np.float32(tensor.scales[0]) for tensor in (x, slopes, output)]
        above, below = np.float64(units[0] / units[2]), np.float64(units[0] * units[1] / units[2])
        codes = np.where(steps >= 0, twice_rounded(steps, above), twice_rounded(steps * others, below))
        return np.clip(codes + output.zeros[0], -128, 127).astype(np.int64)
    if operator.kind == "SUM":
        return rounded(output, values.sum(axis=tuple(tensors[operator.inputs[1]].data)))
    if operator.kind in MOVED:
        given = (tensors[number].data for number in operator.inputs[1:])
        return MOVED[operator.kind](known[operator.inputs[0]], *given).reshape(-1, *output.shape[1:])
    if operator.kind in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"):
        return (depth if operator.kind[0] == "S" else space)(known[operator.inputs[0]], options["BlockSize"])
    if operator.kind == "QUANTIZE":
        ratio = np.float32(x.scales[0]) / np.float32(output.scales[0])
        codes = once_rounded(known[operator.inputs[0]] - x.zeros[0], ratio)
        return np.clip(codes + output.zeros[0], -128, 127).astype(np.int64)
    if operator.kind in KINDS:
        return rounded(output, values, KINDS[operator.kind])
    if operator.kind == "AVERAGE_POOL_2D" and x.scales == output.scales:
        size = options["FilterHeight"], options["FilterWidth"]
        sums = views(known[operator.inputs[0]], size, options, 0).sum(axis=(3, 4))
        # as C divides, half of the divisor added away from 0
        means = np.trunc((sums + np.where(sums > 0, 1, -1) * (np.prod(size) // 2)) / np.prod(size))
        return np.clip(means, *ends(output, activation)).astype(np.int64)
    if operator.kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        seen = views(values, (options["FilterHeight"], options["FilterWidth"]), options, -np.inf)
        pooled = seen.mean(axis=(3, 4)) if operator.kind == "AVERAGE_POOL_2D" else seen.max(axis=(3, 4))
        return rounded(output, pooled, activation)
    if operator.kind == "MEAN":
        return rounded(output, values.mean(axis=tuple(tensors[operator.inputs[1]].data)).reshape(-1, *output.shape[1:]))
    if operator.kind == "BATCH_MATMUL":
        other = tensors[operator.inputs[1]]
        steps, others = known[operator.inputs[0]] - x.zeros[0], known[operator.inputs[1]] - other.zeros[0]
        sums = steps @ (others.swapaxes(-1, -2) if options["AdjY"] else others)
        codes = twice_rounded(sums, x.scales[0] * other.scales[0] / output.scales[0]) + output.zeros[0]
        return np.clip(codes, -128, 127).astype(np.int64)
    if operator.kind == "SOFTMAX":
        powers = np.exp(options["Beta"] * values)
        return rounded(output, powers / powers.sum(axis=-1, keepdims=True))
    if operator.kind in CURVES:
        return rounded(output, CURVES[operator.kind](values))
    if operator.kind == "LEAKY_RELU":
        # TFLite's factors are in single precision
        steps, unit = known[operator.inputs[0]] - x.zeros[0], np.float32(output.scales[0])
        ratio, slope = (np.float64(np.float32(x.scales[0]) * np.float32(by) / unit) for by in (1, options["Alpha"]))
        multiply = once_rounded if min(ratio, slope) >= 2**-8 and ratio <= 128 else twice_rounded
        scaled = np.where(steps < 0, multiply(steps, slope), multiply(steps, ratio))
        return np.clip(scaled + output.zeros[0], -128, 127).astype(np.int64)
    codes = known[operator.inputs[0]]
    if operator.kind == "PACK":
        return np.stack([known[number] for number in operator.inputs], axis=options["Axis"])
    if operator.kind == "CONCATENATION":
        return np.concatenate([known[number] for number in operator.inputs], axis=options["Axis"])
    if operator.kind in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"):
        block, ends_ = (tensors[number].data for number in operator.inputs[1:])
        return split(codes, block, ends_, x.zeros[0]) if operator.kind[0] == "S" else joined(codes, block, ends_)
    if operator.kind == "PAD":
        around = [tuple(pair) for pair in tensors[operator.inputs[1]].data]
        return np.pad(codes, around, constant_values=x.zeros[0])
    assert operator.kind in ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
    return codes.reshape(len(codes), *output.shape[1:])


def kinds(described):
    return [stage.kind.name for stage in described.network.stages]


def imported(path, **options):
    return import_model(path, ImportOptions(name="model", **options))


def check_layers(tensors, operators, network, outputs, codes):
    """By layer, how far codes are from those of TFLite's operator on the same inputs, and how many are the same."""
    own = {}
    for stage, values in zip(network.stages, outputs, strict=True):
        number, clips = re.search(r"(\d+)(_clip)?$", stage.name).groups()
        operator = operators[int(number)]
        activation = KINDS.get(operator.kind, operator.options.get("FusedActivationFunction", NONE))
        # unsigned codes are 128 more in the network, or such that the greatest are 255
        more = 255 - ends(tensors[operator.outputs[0]], activation)[1] if clips else 128
        own[int(number)] = values.astype(np.int64) - (0 if stage.precision.y_signed else more)
    known, distances = {0: codes}, []
    for operator in operators:
        if operator.kind == "SOFTMAX":
            continue
        right = results(tensors, operator, known)
        known[operator.outputs[0]] = right
        if operator.kind not in ("PAD", "RESHAPE", "SQUEEZE"):
            known[operator.outputs[0]] = own.pop(operator.index).reshape(right.shape)
            differences = np.abs(known[operator.outputs[0]] - right)
            distances.append((int(differences.max()), float((differences == 0).mean())))
            assert np.unique(right).size > min(right[0].size // 20, 20)
    assert not own
    return distances


def check(graph, tmp_path, **options):
    """The network of a graph, and the distances of its layers for a few random inputs."""
    described = imported(graph.written(tmp_path / "model.tflite"), **options)
    codes = graph.rng.integers(-128, 128, (4, *graph.tensors[0].shape[1:]))
    outputs = run_reference(described.network, described.batch((codes + 128).astype(np.uint8)))
    return described, check_layers(graph.tensors, graph.operators, described.network, outputs, codes)


def check_codes(graph, tmp_path, last=-1, **options):
    """The network's results are the codes of the ``last`` operator that computes any; returns it, and what is noted."""
    notes = []
    path = graph.written(tmp_path / "model.tflite")
    described = imported(path, **({"note": notes.append} | options))
    codes = graph.rng.integers(-128, 128, (4, *graph.tensors[0].shape[1:]))
    known = {0: codes}
    for operator in graph.operators[: len(graph.operators) + 1 + last]:
        if graph.tensors[operator.outputs[0]].type == "INT8":
            known[operator.outputs[0]] = results(graph.tensors, operator, known)
    outputs = run_reference(described.network, described.batch((codes + 128).astype(np.uint8)))[-1].astype(np.int64)
    right = known[graph.operators[last].outputs[0]]
    own = outputs.reshape(right.shape) - (0 if described.network.stages[-1].precision.y_signed else 128)
    assert np.unique(right).size > 20
    np.testing.assert_array_equal(own, right)
    return described, notes
