"""Operators of TFLite models besides those of convolutions and products: results are TFLite's codes."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.reference.golden.network import run_reference

from .tflite_models import (
    NONE,
    RELU,
    RELU6,
    SAME,
    VALID,
    Graph,
    attention,
    check_codes,
    convolving,
    imported,
    kinds,
    results,
    window,
)

pytestmark = pytest.mark.flow


def test_flattening_with_an_open_batch(tmp_path):
    """The shape that a map is brought to is computed by the model, as Keras writes it."""
    g = Graph((1, 4, 3, 4), 0.02, 11)
    a = g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (1, 4, 3, 6), 0.05, -128, **convolving((1, 1), SAME, RELU))
    shape = g.operator("SHAPE", (a,), (4,), 1, 0, kind="INT32")
    ends = [g.numbers([end]) for end in (0, 1, 1)]
    first = g.operator("STRIDED_SLICE", (shape, *ends), (), 1, 0, kind="INT32")
    packed = g.operator("PACK", (first, g.numbers(-1)), (2,), 1, 0, kind="INT32")
    flat = g.operator("RESHAPE", (a, packed), (1, 72), 0.05, -128)
    g.weighted("FULLY_CONNECTED", flat, (30, 72), (1, 30), 0.2, 3)
    described, notes = check_codes(g, tmp_path)
    assert kinds(described) == ["conv", "linear"]
    assert not notes


@pytest.mark.parametrize(
    ("shares", "kernel", "options"), [("LOGISTIC", "lookup", {}), ("SOFTMAX", "softmax", {"Beta": 0.75})]
)
def test_attention(tmp_path, shares, kernel, options):
    """Products of maps, by heads that are gathered, of rows that fill no words."""
    described, notes = check_codes(attention(shares=shares, **options), tmp_path)
    assert [kind for kind in kinds(described) if kind not in ("gather", "pointwise")] == [
        *("batchmatmul", kernel, "batchmatmul", "add")
    ]
    assert not notes


@pytest.mark.parametrize("end", ["SOFTMAX", "LOGISTIC"])
def test_ends_that_do_not_change_the_greatest(tmp_path, end):
    """What is written down as bytes, a quantiser behind it, is left out with it."""
    g = Graph((1, 24), 0.02, 11)
    a = g.weighted("FULLY_CONNECTED", g.input, (30, 24), (1, 30), 0.1, 3)
    b = g.operator(end, (a,), (1, 30), 1 / 256, -128)
    g.operator("QUANTIZE", (b,), (1, 30), 1 / 256, 0, kind="UINT8")
    _, notes = check_codes(g, tmp_path, -3)
    left = [f"operator 2 (QUANTIZE) is left out: {(same := 'results are the codes before it')}"]
    assert notes == [*left, f"operator 1 ({end}) is left out: {same}"]


@pytest.mark.parametrize(
    ("kind", "scale", "zero", "options"),
    [
        ("LOGISTIC", 1 / 256, -128, {}),
        ("TANH", 1 / 128, 0, {}),
        ("LEAKY_RELU", 0.013, -60, {"Alpha": 0.1}),
        ("LEAKY_RELU", 0.04, 20, {"Alpha": 0.3}),
        ("LEAKY_RELU", 0.031, 20, {"Alpha": 0.5}),
        # beyond the range of the default interpreter's own arithmetic
        ("LEAKY_RELU", 0.031, 20, {"Alpha": 0.003}),
    ],
)
def test_tables(tmp_path, kind, scale, zero, options):
    for before in (-20, -128):
        g = Graph((1, 5, 6, 4), 0.02, 11)
        a = g.weighted("CONV_2D", g.input, (6, 1, 1, 4), (1, 5, 6, 6), 0.031, before, **convolving())
        b = g.operator(kind, (a,), (1, 5, 6, 6), scale, zero, **options)
        pooling = window((1, 1), VALID, FilterHeight=1, FilterWidth=2)
        g.operator("MAX_POOL_2D", (b,), (1, 5, 5, 6), scale, zero, **pooling)
        described, _ = check_codes(g, tmp_path)
        assert kinds(described) == ["pointwise", "lookup", "maxpool"]


def test_maps_beside_each_other(tmp_path):
    for zero in (11, -128):
        g = Graph((1, 5, 6, 4), 0.02, zero)
        a = g.weighted("CONV_2D", g.input, (3, 3, 3, 4), (1, 5, 6, 3), 0.02, zero, **convolving())
        b = g.weighted("CONV_2D", a, (5, 1, 1, 3), (1, 5, 6, 5), 0.02, zero, **convolving())
        sides = {"Axis": 3, "FusedActivationFunction": NONE}
        c = g.operator("CONCATENATION", (g.input, b, a), (1, 5, 6, 12), 0.02, zero, **sides)
        g.weighted("CONV_2D", c, (4, 2, 2, 12), (1, 4, 5, 4), 0.1, 5, **convolving((1, 1), VALID))
        described, _ = check_codes(g, tmp_path)
        assert kinds(described)[2:] == [*["pointwise"] * 3, "add", "add", "conv"]
    g.operators[2].options["Axis"] = 0
    with pytest.raises(InputError, match=re.escape("operator 2 (CONCATENATION): axis must be 1..3, not 0")):
        imported(g.written(tmp_path / "model.tflite"))


@pytest.mark.parametrize("axis", [1, 2])
def test_rows_and_columns_behind_others(tmp_path, axis):
    shape, more = [1, 5, 6, 4], [1, 5, 6, 4]
    more[axis] = 2
    shape[axis] += 4
    g = Graph((1, 5, 6, 4), 0.02, -128)
    pooling = window((1, 1), VALID, FilterHeight=6 - more[1], FilterWidth=7 - more[2])
    a = g.operator("MAX_POOL_2D", (g.input,), tuple(more), 0.02, -128, **pooling)
    g.operator("CONCATENATION", (a, g.input, a), tuple(shape), 0.02, -128, Axis=axis, FusedActivationFunction=NONE)
    described, _ = check_codes(g, tmp_path)
    assert kinds(described) == ["maxpool", *["depthwise"] * 3, "add", "add"]


def blocks(kind="CONV_2D"):
    """A convolution between blocks that are taken apart and put together again has gaps in its filters."""
    g = Graph((1, 9, 8, 6), 0.02, 11)
    block, around, cut = g.numbers([2, 3]), g.numbers([[2, 3], [3, 4]]), g.numbers([[0, 1], [0, 1]])
    a = g.operator("SPACE_TO_BATCH_ND", (g.input, block, around), (6, 7, 5, 6), 0.02, 11)
    filters, axis = ((6, 3, 3, 6), 0) if kind == "CONV_2D" else ((1, 3, 3, 6), 3)
    more = {} if kind == "CONV_2D" else {"DepthMultiplier": 1}
    b = g.weighted(kind, a, filters, (6, 5, 3, 6), 0.05, 3, axis=axis, **convolving((1, 1), VALID), **more)
    g.operator("BATCH_TO_SPACE_ND", (b, block, cut), (1, 9, 8, 6), 0.05, 3)
    return g


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_gaps_by_blocks(tmp_path, kind):
    g = blocks(kind)
    described, notes = check_codes(g, tmp_path)
    assert kinds(described) == ["conv" if kind == "CONV_2D" else "depthwise"]
    assert len(notes) == 1
    g.operators[1] = g.operators[0]
    with pytest.raises(InputError, match=r"^operator 2 \(BATCH_TO_SPACE_ND\): SPACE_TO_BATCH_ND and a "):
        imported(g.written(tmp_path / "model.tflite"))


def test_sequences(tmp_path):
    """Convolutions in one direction, one with gaps by blocks, and the mean of all places."""
    g = Graph((1, 14, 4), 0.02, 11)
    a = g.operator("EXPAND_DIMS", (g.input, g.numbers(1)), (1, 1, 14, 4), 0.02, 11)
    b = g.weighted("CONV_2D", a, (6, 1, 3, 4), (1, 1, 14, 6), 0.05, -128, **convolving((1, 1), SAME, RELU))
    c = g.operator("SQUEEZE", (b,), (1, 14, 6), 0.05, -128)
    block = g.numbers([2])
    d = g.operator("SPACE_TO_BATCH_ND", (c, block, g.numbers([[4, 0]])), (2, 9, 6), 0.05, -128)
    e = g.operator("EXPAND_DIMS", (d, g.numbers(1)), (2, 1, 9, 6), 0.05, -128)
    f = g.weighted("CONV_2D", e, (8, 1, 3, 6), (2, 1, 7, 8), 0.2, 5, **convolving((1, 1), VALID))
    h = g.operator("SQUEEZE", (f,), (2, 7, 8), 0.2, 5)
    i = g.operator("BATCH_TO_SPACE_ND", (h, block, g.numbers([[0, 0]])), (1, 14, 8), 0.2, 5)
    j = g.operator("MEAN", (i, g.numbers([1])), (1, 8), 0.05, -3)
    g.weighted("FULLY_CONNECTED", j, (30, 8), (1, 30), 0.05, 3)
    described, _ = check_codes(g, tmp_path)
    assert kinds(described) == ["conv", "conv", "avgpool", "linear"]


def square(side):
    return window((1, 1), VALID, FilterHeight=side, FilterWidth=side)


PADDED = {
    "depthwise": lambda g, x: g.weighted(
        "DEPTHWISE_CONV_2D", x, (1, 2, 2, 4), (1, 8, 10, 4), 0.05, 3, axis=3, **convolving((1, 1), VALID)
    ),
    "avgpool": lambda g, x: g.operator("AVERAGE_POOL_2D", (x,), (1, 7, 9, 4), 0.02, 11, **square(3)),
    "maxpool": lambda g, x: g.operator("MAX_POOL_2D", (x,), (1, 8, 10, 4), 0.02, 11, **square(2)),
    "add": lambda g, x: g.operator("ADD", (x, x), (1, 9, 11, 4), 0.03, 2, FusedActivationFunction=NONE),
}


def padded(behind="avgpool"):
    g = Graph((1, 5, 6, 4), 0.02, 11)
    a = g.operator("PAD", (g.input, g.numbers([[0, 0], [3, 1], [2, 3], [0, 0]])), (1, 9, 11, 4), 0.02, 11)
    PADDED[behind](g, a)
    return g


@pytest.mark.parametrize("behind", PADDED)
def test_padding_that_no_layer_has(tmp_path, behind):
    """Zeros around a map in front of what cannot add them itself are written into memory."""
    described, _ = check_codes(padded(behind), tmp_path)
    assert kinds(described) == ["depthwise", behind]


@pytest.mark.parametrize("size", [(2, 2), (2, 1), (4, 4), (3, 5), (8, 8)])
@pytest.mark.parametrize(("zero", "activation"), [(-20, NONE), (-128, NONE), (5, RELU)])
def test_halves_of_averages_go_away_from_the_code_0(tmp_path, size, zero, activation):
    g = Graph((1, 33, 34, 2), 0.02, zero)
    pooling = window((1, 1), VALID, activation, FilterHeight=size[0], FilterWidth=size[1])
    g.operator("AVERAGE_POOL_2D", (g.input,), (1, 34 - size[0], 35 - size[1], 2), 0.02, zero, **pooling)
    _, notes = check_codes(g, tmp_path)
    assert not notes


def test_averages_that_no_factor_rounds_so(tmp_path):
    g = Graph((1, 24, 24, 2), 0.02, -20)
    g.operator("AVERAGE_POOL_2D", (g.input,), (1, 5, 5, 2), 0.02, -20, **square(20))
    notes = []
    imported(g.written(tmp_path / "model.tflite"), note=notes.append)
    assert notes == ["avgpool0: halves of averages go up, not away from the code 0 as TFLite's"]


@pytest.mark.parametrize("kind", ["TANH", "LEAKY_RELU", "AVERAGE_POOL_2D", "CONCATENATION"])
def test_codes_behind_an_activation_that_clips_inside_their_range(tmp_path, kind):
    """The network numbers them from where the activation begins to clip."""
    g = Graph((1, 6, 5, 4), 0.02, -11, seed=3)
    a = g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (1, 6, 5, 6), 0.05, -10, **convolving((1, 1), SAME, RELU6))
    match kind:
        case "TANH":
            g.operator(kind, (a,), (1, 6, 5, 6), 1 / 128, 0)
        case "LEAKY_RELU":
            g.operator(kind, (a,), (1, 6, 5, 6), 0.05, -50, Alpha=0.1)
        case "AVERAGE_POOL_2D":
            g.operator(kind, (a,), (1, 5, 4, 6), 0.05, -10, **square(2))
        case _:
            b = g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (1, 6, 5, 6), 0.05, -10, **convolving((1, 1), SAME, NONE))
            g.operator(kind, (a, b), (1, 6, 5, 12), 0.05, -10, Axis=3, FusedActivationFunction=NONE)
    check_codes(g, tmp_path)


HALVES = {"AlignCorners": False, "HalfPixelCenters": True}
MASKS = dict.fromkeys(("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask"), 0)
# operators on a map of 6x8x4: shape of the results, constants, options
CHANGES = {
    "TRANSPOSE": ((1, 8, 4, 6), [[0, 2, 3, 1]], {}),
    "SLICE": ((1, 3, 8, 2), [[0, 2, 0, 1], [1, 3, 8, 2]], {}),
    "STRIDED_SLICE": ((1, 2, 8, 4), [[0, 1, 7, 0], [1, 5, 0, 4], [1, 2, -1, 1]], MASKS | {"EndMask": 4}),
    "GATHER": ((1, 6, 8, 5), [[3, 0, 0, 2, 1]], {"Axis": 3}),
    "TILE": ((1, 6, 16, 8), [[1, 1, 2, 2]], {}),
    "MIRROR_PAD": ((1, 9, 10, 4), [[[0, 0], [2, 1], [0, 2], [0, 0]]], {"Mode": 0}),
    "SPACE_TO_DEPTH": ((1, 3, 4, 16), [], {"BlockSize": 2}),
    "DEPTH_TO_SPACE": ((1, 12, 16, 1), [], {"BlockSize": 2}),
    "REDUCE_MAX": ((1, 8, 4), [[1]], {}),
    "SUM": ((1, 6, 8), [[3]], {}),
    "MEAN": ((1, 6, 4), [[2]], {}),
    "RESIZE_NEAREST_NEIGHBOR": ((1, 12, 16, 4), [[12, 16]], HALVES),
    "RESIZE_BILINEAR": ((1, 12, 16, 4), [[12, 16]], HALVES),
    "PAD": ((1, 7, 8, 6), [[[0, 0], [1, 0], [0, 0], [0, 2]]], {}),
}


def moving(kind):
    shape, constants, options = CHANGES[kind]
    g = Graph((1, 6, 8, 4), 0.02, 11)
    scale, zero = (0.09, -7) if kind == "SUM" else (0.02, 11) if kind != "MEAN" else (0.0131, 11)
    g.operator(kind, (g.input, *map(g.numbers, constants)), shape, scale, zero, **options)
    return g


def together(kind, second):
    """An operator of a map and a constant, or of two maps, one of them with an element for each channel."""
    g = Graph((1, 6, 8, 4), 0.02, -128 if second == "map" else 11)
    a = g.weighted("CONV_2D", g.input, (4, 3, 3, 4), (1, 6, 8, 4), 0.05, -10, **convolving((1, 1), SAME, NONE))
    same = kind in ("MAXIMUM", "MINIMUM")
    options = {} if same or kind == "PRELU" else {"FusedActivationFunction": NONE}
    if second == "map":
        b = g.weighted("CONV_2D", a, (4, 3, 3, 4), (1, 6, 8, 4), 0.05, -10, **convolving((1, 1), SAME, NONE))
    elif second == "channels":
        b = g.operator("REDUCE_MAX", (a, g.numbers([1, 2])), (1, 1, 1, 4), 0.05, -10)
    else:
        data = np.array([9] if same else [-60, 3, 50, 127] if kind == "PRELU" else [-100, 3, 50, -128], np.int8)
        scale, zero = (0.05, -10) if same else (0.013, -7)
        b = g.tensor("constant", (1, 1, 1, len(data)), scale, zero, data=data)
    scale, zero = (0.05, -10) if same else (0.0613, 5)
    g.operator(kind, (a, b), (1, 6, 8, 4), scale, zero, **options)
    return g


TOGETHER = [(kind, "map") for kind in ("MUL", "MAXIMUM", "MINIMUM")] + [("MUL", "channels"), ("ADD", "channels")]
TOGETHER += [(kind, "constant") for kind in ("MUL", "ADD", "SUB", "MAXIMUM", "PRELU")]


def widened():
    """A transposed convolution, whose first input is the shape of its results."""
    g = Graph((1, 4, 3, 6), 0.02, 11)
    data = g.rng.integers(-127, 128, (5, 3, 3, 6)).astype(np.int8)
    w = g.tensor("weights", (5, 3, 3, 6), g.rng.uniform(0.002, 0.02, 5), data=data)
    inputs = (g.numbers([1, 8, 6, 5]), w, g.input)
    g.operator("TRANSPOSE_CONV", inputs, (1, 8, 6, 5), 0.05, 3, **window((2, 2), SAME))
    return g


def functions(kind):
    g = Graph((1, 6, 8, 4), 0.04, -3)
    g.operator(kind, (g.input,), (1, 6, 8, 4), 0.03, -60)
    return g


NEW = {
    **{kind: partial(moving, kind) for kind in CHANGES},
    **{f"{kind} of a {second}": partial(together, kind, second) for kind, second in TOGETHER},
    "TRANSPOSE_CONV": widened,
    **{kind: partial(functions, kind) for kind in ("HARD_SWISH", "ELU")},
}


@pytest.mark.parametrize("name", NEW)
def test_operators_that_move_join_or_map(tmp_path, name):
    check_codes(NEW[name](), tmp_path)


def test_causal_sequences_with_gaps(tmp_path):
    """Pads in front of a sequence that is then taken apart by blocks, as Keras writes dilated causal convolutions."""
    g = Graph((1, 9, 4), 0.02, 11)
    a = g.operator("PAD", (g.input, g.numbers([[0, 0], [4, 0], [0, 0]])), (1, 13, 4), 0.02, 11)
    block, none = g.numbers([2]), g.numbers([[0, 1]])
    b = g.operator("SPACE_TO_BATCH_ND", (a, block, none), (2, 7, 4), 0.02, 11)
    b = g.operator("RESHAPE", (b,), (2, 1, 7, 4), 0.02, 11)
    c = g.weighted("CONV_2D", b, (6, 1, 3, 4), (2, 1, 5, 6), 0.05, 3, **convolving((1, 1), VALID))
    c = g.operator("RESHAPE", (c,), (2, 5, 6), 0.05, 3)
    g.operator("BATCH_TO_SPACE_ND", (c, block, none), (1, 9, 6), 0.05, 3)
    check_codes(g, tmp_path)


def test_convolutions_that_share_their_blocks(tmp_path):
    """Gates: two convolutions of the same places, each put together by itself, multiplied."""
    g = Graph((1, 14, 4), 0.02, 11)
    block, none = g.numbers([2]), g.numbers([[0, 0]])
    a = g.operator("SPACE_TO_BATCH_ND", (g.input, block, none), (2, 7, 4), 0.02, 11)
    a = g.operator("RESHAPE", (a,), (2, 1, 7, 4), 0.02, 11)
    both = []
    for zero in (3, -20):
        b = g.weighted("CONV_2D", a, (6, 1, 3, 4), (2, 1, 5, 6), 0.05, zero, **convolving((1, 1), VALID))
        b = g.operator("RESHAPE", (b,), (2, 5, 6), 0.05, zero)
        both.append(g.operator("BATCH_TO_SPACE_ND", (b, block, none), (1, 10, 6), 0.05, zero))
    g.operator("MUL", tuple(both), (1, 10, 6), 0.2, 3, FusedActivationFunction=NONE)
    described, _ = check_codes(g, tmp_path)
    assert kinds(described) == ["conv", "conv", "multiply"]


def test_constants_that_differ_inside_channels(tmp_path):
    """A position's own summands, as of transformers, and factors that make a map of several channels."""
    g = Graph((1, 6, 4), 0.02, -128)
    places = g.tensor("places", (1, 6, 4), 0.04, 5, data=g.rng.integers(-128, 128, (1, 6, 4)).astype(np.int8))
    a = g.operator("ADD", (places, g.input), (1, 6, 4), 0.04, 7, FusedActivationFunction=NONE)
    b = g.operator("REDUCE_MAX", (a, g.numbers([2])), (1, 6, 1), 0.04, 7, KeepDims=True)
    gains = g.tensor("gains", (1, 1, 8), 0.02, -3, data=g.rng.integers(-128, 128, (1, 1, 8)).astype(np.int8))
    g.operator("MUL", (b, gains), (1, 6, 8), 0.05, 7, FusedActivationFunction=NONE)
    check_codes(g, tmp_path)


def test_states_of_unrolled_sequences(tmp_path):
    """States that begin as a constant, whose shape the model computes, and results that become a sequence."""
    g = Graph((1, 2, 5), 0.02, 11)
    shape = g.operator("SHAPE", (g.input,), (3,), 1, 0, kind="INT32")
    ends = [g.numbers([end]) for end in (0, 1, 1)]
    first = g.operator("STRIDED_SLICE", (shape, *ends), (), 1, 0, kind="INT32", **(MASKS | {"ShrinkAxisMask": 1}))
    sizes = g.operator("PACK", (first, g.numbers(5)), (2,), 1, 0, kind="INT32", Axis=0)
    zero = g.tensor("zero", (), 0.04, 30, data=np.array(30, np.int8))
    state, states = g.operator("FILL", (sizes, zero), (1, 5), 0.04, 30), []
    for number in range(2):
        cut = (g.numbers([0, number, 0]), g.numbers([1, number + 1, 5]), g.numbers([1, 1, 1]))
        step = g.operator("STRIDED_SLICE", (g.input, *cut), (1, 5), 0.02, 11, **(MASKS | {"ShrinkAxisMask": 2}))
        own = {"FusedActivationFunction": NONE}
        state = g.operator("ADD", (step, state), (1, 5), 0.04, 30, **own)
        states.append(state)
    g.operator("PACK", tuple(states), (1, 2, 5), 0.04, 30, Axis=1)
    described = imported(g.written(tmp_path / "model.tflite"))
    codes = g.rng.integers(-128, 128, (4, 2, 5))
    results = run_reference(described.network, described.batch((codes + 128).astype(np.uint8)))[-1].reshape(4, 2, 5)
    first = np.floor((codes[:, 0] - 11) / 2 + 0.5)
    np.testing.assert_array_equal(
        results[:, 0] - (0 if described.network.stages[-1].precision.y_signed else 128), np.clip(first + 30, -128, 127)
    )


@pytest.mark.parametrize("has_constants", [True, False])
def test_layer_normalisation(tmp_path, has_constants):
    """The operators of Keras are one layer, right by a code, and what their own roundings do is said."""
    g, notes = Graph((1, 6, 16), 0.02, 11), []
    last, own = g.numbers([2]), {"FusedActivationFunction": NONE}
    mean = g.operator("MEAN", (g.input, last), (1, 6, 1), 0.01, 3, KeepDims=True)
    square = g.operator("SQUARED_DIFFERENCE", (g.input, mean), (1, 6, 16), 0.03, -128)
    variance = g.operator("MEAN", (square, last), (1, 6, 1), 0.02, -128, KeepDims=True)
    epsilon = g.tensor("epsilon", (), 0.001 / 127, 0, data=np.array(127, np.int8))
    root = g.operator("ADD", (variance, epsilon), (1, 6, 1), 0.02, -128, **own)
    gain = g.operator("RSQRT", (root,), (1, 6, 1), 0.01, -128)
    gains, offsets = np.ones(16), np.zeros(16)
    if has_constants:
        data = [g.rng.integers(-128, 128, (1, 1, 16)).astype(np.int8) for _ in range(2)]
        gains, offsets = (values.ravel() * 0.01 for values in data)
        scales, biases = (g.tensor(f"constant{values[0, 0, 0]}", (1, 1, 16), 0.01, 0, data=values) for values in data)
        gain = g.operator("MUL", (gain, scales), (1, 6, 16), 0.02, 0, **own)
    shape = (1, 6, 16) if has_constants else (1, 6, 1)
    away = g.operator("MUL", (mean, gain), shape, 0.02, 0, **own)
    if has_constants:
        away = g.operator("SUB", (biases, away), (1, 6, 16), 0.02, 0, **own)
    product = g.operator("MUL", (g.input, gain), (1, 6, 16), 0.03, 0, **own)
    g.operator("ADD" if has_constants else "SUB", (product, away), (1, 6, 16), 0.02, -9, **own)
    described = imported(g.written(tmp_path / "model.tflite"), note=notes.append)
    assert kinds(described) == ["layernorm"]
    codes = g.rng.integers(-128, 128, (4, 6, 16))
    real = (codes - 11) * 0.02
    centred = real - real.mean(axis=-1, keepdims=True)
    right = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 0.001) * gains + offsets
    results = run_reference(described.network, described.batch((codes + 128).astype(np.uint8)))[-1].astype(np.int64)
    results = results.reshape(codes.shape)
    assert np.abs(results - np.clip(np.rint(right / 0.02) - 9, -128, 127)).max() <= 1
    (note,) = notes
    assert re.fullmatch(
        r"operators 0 to \d+ are one layer normalisation, .* \d+% of codes differ .*, by \d+ at the most", note
    )
    # means of other axes are none
    g.tensors[last] = replace(g.tensors[last], data=np.array([1], np.int32))
    with pytest.raises(InputError, match=r"^operators must be known, not operator 1 \(SQUARED_DIFFERENCE\)"):
        imported(g.written(tmp_path / "model.tflite"))


def test_rows_that_the_file_leaves_open(tmp_path):
    """Rows repeated as Keras repeats them, with a shape that the model computes; the file has 1 for all behind it."""
    g = Graph((1, 4, 3, 4), 0.02, 11)
    a = g.weighted("CONV_2D", g.input, (4, 1, 1, 4), (1, 4, 3, 4), 0.02, 11, **convolving())
    a = g.operator("RESHAPE", (a, g.numbers([1, 4, 1, 12])), (1, 4, 1, 12), 0.02, 11)
    a = g.operator("TILE", (a, g.numbers([1, 1, 2, 1])), (1, 4, 2, 12), 0.02, 11)
    shape = g.operator("SHAPE", (g.input,), (4,), 1, 0, kind="INT32")
    ends = [g.numbers([end]) for end in (0, 1, 1)]
    first = g.operator("STRIDED_SLICE", (shape, *ends), (1,), 1, 0, kind="INT32", **(MASKS | {"ShrinkAxisMask": 0}))
    parts = (first, g.numbers([8]), g.numbers([3, 4]))
    sizes = g.operator("CONCATENATION", parts, (4,), 1, 0, kind="INT32", Axis=0, FusedActivationFunction=NONE)
    b = g.operator("RESHAPE", (a, sizes), (1, 8, 3, 4), 0.02, 11)
    c = g.operator("MIRROR_PAD", (b, g.numbers([[0, 0], [1, 1], [1, 1], [0, 0]])), (1, 10, 5, 4), 0.02, 11, Mode=0)
    d = g.weighted("CONV_2D", c, (4, 3, 3, 4), (1, 8, 3, 4), 0.02, 11, **convolving((1, 1), VALID))
    around = g.numbers([[0, 0], [1, 0], [0, 0], [0, 0]])
    e = g.operator("PAD", (d, around), (1, 9, 3, 4), 0.02, 11)
    pooling = window((2, 1), SAME, FilterHeight=2, FilterWidth=2)
    f = g.operator("MAX_POOL_2D", (e,), (1, 5, 3, 4), 0.02, 11, **pooling)
    h = g.operator("CONCATENATION", (f, f), (1, 10, 3, 4), 0.02, 11, Axis=1, FusedActivationFunction=NONE)
    i = g.operator("ADD", (h, h), (1, 10, 3, 4), 0.02, 11, FusedActivationFunction=NONE)
    described, _ = check_codes(g, tmp_path)
    for place in (b, c, d, e, f, h, i):
        g.tensors[place] = replace(g.tensors[place], shape=(1, 1, *g.tensors[place].shape[2:]))
    again = imported(g.written(tmp_path / "model.tflite"))
    images = g.rng.integers(0, 256, (2, 4, 3, 4)).astype(np.uint8)
    results = [run_reference(each.network, each.batch(images))[-1] for each in (described, again)]
    np.testing.assert_array_equal(*results)


def test_functions_in_floating_point(tmp_path):
    """Between DEQUANTIZE and QUANTIZE, with another shape behind; not if something else reads the floats."""
    g = Graph((1, 9, 4), 0.02, 11)
    a = g.weighted("FULLY_CONNECTED", g.input, (6, 4), (1, 9, 6), 0.03, 5)
    b = g.operator("DEQUANTIZE", (a,), (1, 9, 6), 1, 0, kind="FLOAT32")
    c = g.operator("ELU", (b,), (1, 9, 6), 1, 0, kind="FLOAT32")
    d = g.operator("EXPAND_DIMS", (c, g.numbers(1)), (1, 1, 9, 6), 1, 0, kind="FLOAT32")
    e = g.operator("QUANTIZE", (d,), (1, 1, 9, 6), 0.041, -90)
    pooling = window((1, 3), VALID, FilterHeight=1, FilterWidth=3)
    g.operator("MAX_POOL_2D", (e,), (1, 1, 3, 6), 0.041, -90, **pooling)
    codes = g.rng.integers(-128, 128, (4, 9, 4))
    described = imported(g.written(tmp_path / "model.tflite"))
    assert kinds(described) == ["pointwise", "lookup", "maxpool"]
    first = results(g.tensors, g.operators[0], {0: codes})
    real = (first - 5) * float(np.float32(0.03))
    right = np.clip(np.rint(np.where(real > 0, real, np.expm1(real)) / float(np.float32(0.041))) - 90, -128, 127)
    outputs = run_reference(described.network, described.batch((codes + 128).astype(np.uint8)))[-1].astype(np.int64)
    np.testing.assert_array_equal(outputs.reshape(4, 3, 6), right.reshape(4, 3, 3, 6).max(axis=2))
    g.operators[4] = replace(g.operators[4], inputs=(b,))
    with pytest.raises(InputError, match=r"^operators must be known, not operator 1 \(DEQUANTIZE\)"):
        imported(g.written(tmp_path / "model.tflite"))


def test_averages_of_large_maps_say_what_differs(tmp_path):
    g = Graph((1, 80, 90, 4), 0.02, -128)
    g.operator("MEAN", (g.input, g.numbers([1, 2])), (1, 4), 0.0187, -128)
    notes: list[str] = []
    described = imported(g.written(tmp_path / "model.tflite"), note=notes.append)
    halves, note = notes
    assert halves == "operator 0 (MEAN): halves of means go up, not to even numbers as TFLite's"
    number = re.fullmatch(r"avgpool0: (\d+) of 255 steps are at other sums, by 1", note)
    assert number
    assert int(number[1]) > 0
    centres = g.rng.integers(100, 156, (4, 1, 1, 4))
    images = np.clip(g.rng.normal(centres, 20, (4, 80, 90, 4)), 0, 255).astype(np.uint8)
    results = run_reference(described.network, described.batch(images))[-1].reshape(4, 4).astype(np.int64)
    right = np.clip(np.rint(images.mean(axis=(1, 2)) * 0.02 / 0.0187), 0, 255)
    assert np.abs(results - right).max() <= 1


def test_images_of_a_batch_come_one_by_one(tmp_path):
    g = Graph((3, 4, 3, 4), 0.02, 11)
    a = g.weighted("CONV_2D", g.input, (6, 3, 3, 4), (3, 4, 3, 6), 0.05, -128, **convolving((1, 1), SAME, RELU))
    a = g.operator("RESHAPE", (a, g.numbers([3, 72])), (3, 72), 0.05, -128)
    g.weighted("FULLY_CONNECTED", a, (30, 72), (3, 30), 0.2, 3)
    described, notes = check_codes(g, tmp_path)
    assert kinds(described) == ["conv", "linear"]
    assert notes == ["a batch of 3 images is computed one by one: the network is of one"]


def test_several_inputs_and_outputs(tmp_path):
    g = Graph((1, 4, 3, 4), 0.02, -128)
    other = g.tensor("other", (1, 4, 3, 4), 0.03, -128)
    a = g.operator("ADD", (g.input, other), (1, 4, 3, 4), 0.05, -100, FusedActivationFunction=NONE)
    b = g.operator("RELU", (a,), (1, 4, 3, 4), 0.04, -128)
    g.operator("TANH", (a,), (1, 4, 3, 4), 1 / 128, 0)
    c = g.operator("REDUCE_MAX", (a, g.numbers([1, 2])), (1, 4), 0.05, -100)
    notes: list[str] = []
    path = g.written(tmp_path / "model.tflite", inputs=(g.input, other), outputs=(b, c))
    described = imported(path, note=notes.append)
    codes = g.rng.integers(-128, 128, (4, 2, 4, 3, 4))
    known = {g.input: codes[:, 0], other: codes[:, 1]}
    for operator in g.operators:
        known[operator.outputs[0]] = results(g.tensors, operator, known)
    own = run_reference(described.network, described.batch((codes + 128).astype(np.uint8).reshape(4, -1)))[-1]
    expected = np.concatenate([known[b].reshape(4, -1), known[c].reshape(4, -1)], axis=1) + 128
    np.testing.assert_array_equal(own.reshape(4, -1), expected)
    assert notes[0] == "samples are those of input, other one after the other"
    assert notes[-1] == "results are 48 of RELU1, 4 of REDUCE_MAX3, as codes plus 128"
