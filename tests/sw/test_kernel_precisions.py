"""Kernels of every precision, rule and layer against the golden layers, on the instruction-set simulator."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.reference.iss.kernel_calls import kernel_memory
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.layout import ImageBuilder
from xpulpnn_sw.kernels.requantisation import Requantisation, Rule, SearchedThresholds, Shifting, Thresholds
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import ONE_PIXEL, VARIANTS
from xpulpnn_sw.layers.layer import ConvLayer, ImageConvLayer, MatmulLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.packed_layer import packed

from .runs import RULES, alternating, built, check, check_named, computed, run_share, tensors_of

WIDTHS = ["8x4x8", "8x2x4", "4x2x2", "4x8x2", "2x8x8", "2x4x4", "i8xu4xi8", "u8xi2xi4", "u4xu2xu8"]


@pytest.mark.parametrize("number", range(len(VARIANTS)))
def test_widths_that_differ(number: int):
    """Border and interior pixels, leftovers of every kind, an odd number of words in a row; of the widths a third."""
    layer, name = find_kernel("conv").layer.parse("3x6x9:5x3x2:p=1x0x1x0"), [*VARIANTS][number]
    for precision in map(Precision.parse, WIDTHS[number % 3 :: 3]):
        # C&U has no product of signed inputs with unsigned weights
        if not name.startswith("cu") or not precision.x_signed or precision.w_signed:
            check(layer, precision, name)


CASES = {
    # filters are filled up with zeros; what is there instead of activations does not matter, but between planes
    "rows shorter than the turns around the loop": ("conv", "3x3x4:7x1x1:p=0", "8x8x4", "x2_4x4", Rule.BN32, 2),
    "the same with gaps": ("conv1d", "12x4:9x2:s=2,p=2x1,d=2", "4x2x2", "x2_4x2", Rule.BN32, 2),
    "the same of single pixels": ("pointwise", "3x5x4:40", "8x8x2", "x2_4x4", Rule.BN32, 2),
    "the same of rows": ("matmul", "9x3x5", "8x8x8", "x2_4x2", Rule.BN32, 2),
    "the same of two products at a time": ("conv", "3x3x4:7x1x1:p=0", "8x8x4", "x3_4x4", Rule.BN32, 2),
    "pixels read in place, two products at a time": ("pointwise", "3x5x4:40", "i8xi8x2", "x3_4x4", Rule.SHIFT, 3),
    "planes of two products at a time": ("conv1d", "13x12:9x3:d=2", "8x2xi4", "x3_4x4", Rule.BN32, 2),
    "two products at a time before thresholds": ("conv", "3x6x8:7x3x3", "4x4x2", "x3_4x4", Rule.THRESHOLDS, 1),
    "beyond the reach of a branch": ("conv", "3x4x16:8x3x3", "8x2x1", "rv32im_2x2", Rule.BN32, 1),
    "the same of crumbs": ("conv", "3x4x16:8x3x3", "2x2x1", "rv32im_2x2", Rule.BN32, 1),
    # what is wrong in one public library or another
    "leftover elements of pixels 3 and 4": ("conv", "2x4x5:4x3x1:p=0x2x0x0", "8x8x8", "nn_4x4", Rule.BN32, 1),
    "three leftover pixels of a row, on cores": ("conv", "5x7x8:4x3x3", "2x2x2", "nn_4x4", Rule.BN32, 8),
    "last store of 4-bit shift and clip": ("conv", "2x4x8:8x1x1:p=0", "4x4x4", "nn_4x4", Rule.SHIFT, 1),
    "thresholds on XpulpNN": ("conv", "2x5x8:5x2x2", "4x4x4", "nn_4x4", Rule.THRESHOLDS, 1),
    "signed thresholds": ("conv", "2x5x8:5x2x2", "4x4xi2", "nn_4x4", Rule.THRESHOLDS, 1),
    "biases from the second row on": ("conv", "4x3x8:6x1x1:p=0", "8x8x8", "simd_4x2", Rule.BN32, 2),
    "stride of a pointwise layer": ("pointwise", "5x4x8:4:s=2x3", "8x8x8", "simd_4x2", Rule.BN32, 1),
    "padding of a pointwise layer": ("pointwise", "3x3x8:4:p=1x0x0x2", "8x8x8", "nn_4x4", Rule.BN32, 1),
    "bias of leftover pointwise pixels": ("pointwise", "1x3x8:6", "8x8x8", "nn_4x4", Rule.BN32, 1),
    "leftover inputs of a linear layer": ("linear", "67:9", "8x8x8", "nn_4x1", Rule.BN32, 1),
    "bias of the second neuron": ("linear", "32:2", "8x8x8", "simd_4x1", Rule.BN32, 1),
    "one neuron of a core": ("linear", "40:8", "8x8x8", "xpulpv2_4x1", Rule.BN32, 8),
    "three neurons of a core, 4 bit": ("linear", "40:24", "4x4x4", "xpulpv2_4x1", Rule.BN32, 8),
    "last neuron alone, on one core": ("linear", "32:5", "8x8x8", "xpulpv2_2x1", Rule.SHIFT, 1),
    "even channels, on cores": ("conv", "5x3x4:10x3x3", "8x8x8", "xpulpv2_4x2", Rule.SHIFT, 8),
    "bias of other cores' channels": ("linear", "33:40", "8x8x8", "cu_4x1", Rule.BN32, 3),
    "product of more than 16 bits": ("conv", "2x4x16:4x3x3", "8x8x8", "nn_4x4", Rule.MULTIPLY, 1),
}
"""Kernel, layer, precision, variant, rule, cores."""


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str):
    kernel, text, precision, variant, rule, cores = CASES[name]
    check_named(kernel, text, precision, variant, cores=cores, seed=7, rule=rule)


@pytest.mark.parametrize("specialise", [False, True])
@pytest.mark.parametrize("precision", ["8x4x8", "8x2xi32", "i8x4xi8", "4x2x4", "4xu2x8"])
def test_a_pixel_of_weights_that_the_core_widens(precision: str, specialise: bool):
    for text, cores in (("1x1x32:16", 1), ("1x1x31:7", 8), ("1x1x1:1", 1), ("1x1x5:9", 8)):
        run, *_ = check_named("pointwise", text, precision, "x3_4x4", cores=cores, specialise=specialise)
        assert run.name.startswith(f"pointwise_{Precision.parse(precision)}_x2_4x1")


@pytest.mark.parametrize("text", ["3x3x9:8x3x3", "3x3x9:3x1x1:p=0"])
@pytest.mark.parametrize("name", ["simd_4x2", "x3_4x4"])
def test_signs_of_sums_that_nearly_leave_32_bits(name: str, text: str):
    layer, precision = find_kernel("conv").layer.parse(text), Precision.parse("16xu16x1")
    tensors = tensors_of(layer, precision, 0, Rule.THRESHOLDS)
    scale = ((1 << 31) - 1) // ((1 << 16) * tensors.weights.reshape(layer.out_channels, -1).sum(axis=1).max())
    check(layer, precision, name, replace(tensors, weights=np.clip(tensors.weights * max(1, scale), 0, (1 << 16) - 1)))
    check(layer, precision, name, tensors)


@pytest.mark.parametrize("name", ["rv32im_2x2", "xpulpv2_4x2", "simd_4x2", "cu_4x2", "nn_4x4"])
@pytest.mark.parametrize("text", ["8x4x8", "i8xi2xi8", "8xu8x4", "i4xi8xi2", "2x2x32"])
def test_extreme_values(text: str, name: str):
    layer, precision = find_kernel("matmul").layer.parse("4x24x4"), Precision.parse(text)
    signs = (precision.x, precision.x_signed), (precision.w, precision.w_signed)
    ends = [(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1) for bits, signed in signs]
    rng = np.random.default_rng(1)
    activations, weights = (rng.choice(pair, (4, 24)) for pair in ends)
    activations[:2], weights[:2] = np.array(ends[0])[:, np.newaxis], np.array(ends[1])[:, np.newaxis]
    spread = 24 * max(map(abs, ends[0])) * max(map(abs, ends[1]))
    after = None
    if precision.requantised:
        shift = max(0, (2 * spread).bit_length() - precision.y)
        lam = np.full(4, 0 if precision.y_signed else spread)
        after = Requantisation(kappa=np.ones(4, np.int64), lam=lam, shift=shift)
    bias = np.array([0, 1, -1, spread])
    check(
        layer, precision, name, LayerTensors(activations=activations, weights=weights, bias=bias, requantisation=after)
    )


@pytest.mark.parametrize(("name", "variant", "result"), alternating(RULES, ("rv32im_2x2", "nn_4x4"), ("u4", "i4")))
def test_rules_at_their_ends(name: str, variant: str, result: str):
    change = partial(replace, requantisation=RULES[name])
    check_named("matmul", "4x9x6", f"8x4x{result}", variant, seed=3, change=change)


@pytest.mark.parametrize("text", ["8x4x4", "4x4xi4", "2x2x2", "i8xi8xi2"])
@pytest.mark.parametrize(("kernel", "layer", "name", "cores"), [
    ("conv", "3x5x8:13x2x2", "nn_4x4", 2), ("conv", "3x5x8:5x2x2", "xpulpv2_2x2", 1),
    ("pointwise", "3x3x16:6", "simd_4x2", 1), ("conv1d", "7x8:9x3:d=2", "cu_4x2", 1),
    ("linear", "40:23", "nn_4x1", 8),
])  # fmt: skip
def test_thresholds_by_pv_qnt(kernel: str, layer: str, name: str, cores: int, text: str):
    check_named(kernel, layer, text, name, cores=cores, rule=Rule.QNT)


@pytest.mark.parametrize("result", ["u4", "i4"])
def test_pv_qnt_takes_accumulators_beyond_16_bits(result: str):
    values = np.array([[-32768] * 7 + [32766] * 8, [*range(-7, 8)], [0] * 15, [*range(-32768, 32760, 4369)][:15]])
    changes = {"bias": np.array([0, 1 << 20, -(1 << 20), 40000]), "requantisation": SearchedThresholds(values=values)}
    check_named("matmul", "4x64x6", f"8x8x{result}", "nn_4x4", seed=3, change=partial(replace, **changes))


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("text", ["8x8x8", "8x4xi4", "i8xi2x2", "4xu2xi8", "2x8x4"])
def test_random_results_spread_over_their_range(text: str, rule: Rule):
    """No value takes half of the results, and both halves of the range are met; constants would hide every fault."""
    layer, precision = find_kernel("conv").layer.parse("8x8x16:16x3x3"), Precision.parse(text)
    values = reference(layer, find_kernel("conv").tensors(layer, precision, np.random.default_rng(0), rule), precision)
    _, counts = np.unique(values, return_counts=True)
    assert counts.max() < values.size / 2
    centre = 0 if precision.y_signed else 1 << (precision.y - 1)
    assert 0.15 < (values < centre).mean() < 0.85


@pytest.mark.parametrize(("kernel", "text", "name"), [
    ("conv", "3x3x8:8x3x3:p=0", "nn_4x4"), ("conv", "3x3x8:8x3x3:p=0", "rv32im_2x2"),
    ("conv1d", "5x8:8x3:p=0,d=2", "cu_4x2"), ("pointwise", "1x1x16:8", "nn_4x4"), ("matmul", "8x32x1", "simd_4x2"),
    ("linear", "32:8", "nn_4x1"),
])  # fmt: skip
def test_a_single_pixel_takes_no_more_products_than_it_has(kernel: str, text: str, name: str):
    layer, precision = find_kernel(kernel).layer.parse(text), Precision.uniform(8)
    _, products, _ = check(layer, precision, name, cores=2)
    # rows of an odd number of words are filled up
    assert layer.macs <= products <= layer.macs * 1.06


@pytest.mark.parametrize(("kernel", "text", "precision", "name", "most"), [
    # multiplications per instruction, a little more than per cycle
    ("conv", "4x4x32:64x3x3", "8x4x8", "nn_4x4", 294912 / 2.7),
    ("conv", "4x4x32:64x3x3", "8x2x8", "nn_4x4", 294912 / 2.6),
    ("conv", "4x4x32:64x3x3", "4x2x4", "nn_4x4", 294912 / 4.8),
    ("pointwise", "4x8x64:64", "8x8x8", "nn_4x4", 131072 / 2.6), ("linear", "512:64", "8x8x8", "nn_4x1", 11200),
    ("linear", "512:64", "4x4x4", "nn_4x1", 6000), ("linear", "512:64", "2x2x2", "nn_4x1", 3450),
    ("linear", "512:64:raw", "8x8x8", "cu_4x1", 10900),
])  # fmt: skip
def test_instructions(kernel: str, text: str, precision: str, name: str, most: float):
    layer = find_kernel(kernel).layer.parse(text)
    chosen = find_kernel(kernel).precision(layer, Precision.parse(precision))
    assert check(layer, chosen, name)[2] <= most


def shares(text: str, bits: int, name: str, cores: int) -> list[int]:
    run = built("linear", text, f"{bits}x{bits}x{bits}", name, cores=cores)
    memory = kernel_memory(run)
    return [run_share(run, core, cores, memory)[1] for core in range(cores)]


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_what_many_cores_do_besides_in_a_linear_layer(bits: int):
    (alone,) = shares("512:64", bits, "nn_4x1", 1)
    assert sum(shares("512:64", bits, "nn_4x1", 8)) <= alone + 7 * 65


def test_blocks_of_two_neurons_serve_more_cores():
    blocks_of_two, blocks_of_four = (shares("256:16", 8, name, 8) for name in ("xpulpv2_2x1", "xpulpv2_4x1"))
    assert max(blocks_of_two) <= min(blocks_of_two) + 2
    assert min(blocks_of_four) < 80 < max(blocks_of_two) < 0.6 * max(blocks_of_four)


@pytest.mark.parametrize("name", ["nn_4x4", "simd_4x2", "rv32im_2x2"])
def test_a_pointwise_layer_needs_no_buffer(name: str):
    assert "im2col" not in built("pointwise", "2x2x8:4", "8x8x8", name).image.symbols


IMAGES = {
    "5x6x3:4x5x5:p=2:image": "i8x8xi8",
    "4x7x3:5x3x2:s=1x2,p=1x0x0x1:image": "8x8x4",
    "5x5x1:4x3x3:image": "8x8x8",
    "3x9x5:3x2x3:s=2,p=0:image": "8x8x2",
    # groups down the columns
    "9x8x3:4x3x3:image": "8x8x8",
    "12x16x3:4x3x3:s=2,p=0x1x0x1:image": "i8x8x8",
}


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("xpulpv2_1x2", "xpulpv2_2x2", "simd_4x2")])
@pytest.mark.parametrize("text", IMAGES)
def test_images(text, name):
    layer, precision = ImageConvLayer.parse(text), Precision.parse(IMAGES[text])
    run, _, _ = check(layer, precision, name, cores=3, seed=len(text), specialise=name != "nn_4x2")
    if text.startswith("5x6x3"):
        # five times 15 bytes in whole words, of which every filter reads one after the other
        filters = 5 * 4 * 4 * (-(-4 // run.variant.nch) * run.variant.nch)
        assert filters <= run.image.symbols["weights"].length < filters + 4 * 160


@pytest.mark.flow
def test_an_image_takes_fewer_products_than_channels_in_words():
    """RGB in words of four channels: 25 words a filter instead of 20."""
    precision = Precision.parse("i8x8xi8")
    image = ImageConvLayer.parse("8x8x3:4x5x5:p=2:image")
    plain = ConvLayer.parse(str(image).removesuffix(":image"))
    words = [check(layer, precision, "nn_4x4")[1] // (4 * 64 * 4) for layer in (image, plain)]
    assert words == [20, 25]


@pytest.mark.flow
@pytest.mark.parametrize(("layer", "precision", "rule", "variant"), [
    ("3x3x16:32", "8x8x8", Rule.EXACT_ONE_SHIFT, "x3_4x4"), ("3x3x16:64", "4x4x4", Rule.EXACT, "x2_4x4"),
    ("2x5x16:64", "2x2x2", Rule.BN32, "x2_4x2"), ("3x3x8:32", "8x8x4", Rule.THRESHOLDS, "x3_4x4"),
    ("3x3x8:32", "8x8xi32", Rule.BN32, "nn_4x4"),
])  # fmt: skip
def test_cores_share_channels_where_groups_do_not_go_round(layer: str, precision: str, rule: Rule, variant: str):
    run, *_ = check_named("pointwise", layer, precision, variant, rule=rule, cores=8, specialise=True)
    products = [run_share(run, core, 8, kernel_memory(run))[0] for core in range(8)]
    assert max(products) < sum(products) / 5
    np.testing.assert_array_equal(computed(run, 3), computed(run, 8))
    check_named("pointwise", layer, precision, variant, rule=rule, cores=6, specialise=True)


CONV = ("conv", "3x3x8:4x2x2")
EIGHT = ConvLayer.parse(CONV[1]), Precision.uniform(8)


@pytest.mark.parametrize(("named", "make"), [
    ("shift", lambda: Shifting(shift=32)), ("thresholds", lambda: Thresholds(values=np.array([[2, 1, 3]]))),
    ("thresholds", lambda: Thresholds(values=np.array([[0, 1, 40000]]))),
    # what clipped accumulators cannot exceed
    ("thresholds", lambda: SearchedThresholds(values=np.array([[0, 1, 32767]]))),
    ("weights of cu_4x2", lambda: VARIANTS["cu_4x2"].check_precision(Precision.parse("i8xu4x8"))),
    ("inputs and weights", lambda: VARIANTS["nn_4x4"].check_precision(Precision.parse("16x8x8"))),
    (
        "inputs and weights of an image",
        lambda: check(ImageConvLayer.parse("4x4x3:4x3x3:image"), Precision.parse("8x4x8"), "nn_4x4"),
    ),
    ("variant", lambda: built(*CONV, "8x8x8", "nn_8x8")),
    (
        "requantisation",
        lambda: check(ConvLayer.parse(CONV[1]), Precision.parse("8x8xi32"), "nn_4x4", tensors_of(*EIGHT)),
    ),
    ("shape of activations", lambda: check(ConvLayer.parse("4x3x8:4x2x2"), EIGHT[1], "nn_4x4", tensors_of(*EIGHT))),
    ("requantisation", lambda: check(EIGHT[0], Precision(8, 8, 1), "xpulpv2_4x2", tensors_of(*EIGHT))),
    ("operands", lambda: ImageBuilder().reserve("output", (1 << 27) + 1)),
    ("results of the rule qnt", lambda: check_named(*CONV, "8x8x8", "nn_4x4", rule=Rule.QNT)),
    ("variant of the rule qnt", lambda: check_named(*CONV, "8x8x4", "rv32im_2x2", rule=Rule.QNT)),
])  # fmt: skip
def test_rejected(named: str, make):
    with pytest.raises(LayerError, match=f"^{named} must "):
        make()


ONE = Precision(1, 1, 1)
SUMS = ONE.accumulators
SEED = 11


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("text", "precision"), [("4x5x41:9x3x2:p=1x0x1x2,s=2x1", "1x1x1"), ("3x5x32:6x3x3", "1x1x32")])
def test_convolution_of_single_bits(name: str, text: str, precision: str):
    """Channels that fill no word, borders on three sides, pixels and channels left over; then a word by itself."""
    layer, widths = ConvLayer.parse(text), Precision.parse(precision)
    tensors = tensors_of(layer, widths, SEED)
    check(layer, widths, name, tensors, cores=2 if widths.requantised else 1)
    assert not widths.requantised or 0.2 < (reference(layer, tensors, widths) > 0).mean() < 0.8


OTHERS = [
    *(("pointwise", "3x5x70:9", "1x1x1", name) for name in ("xpulpv2_4x2", "nn_4x4")),
    *(("conv1d", "7x33:5x3:p=2,d=2", "1x1x1", name) for name in ("xpulpv2_4x2", "nn_4x4")),
    *(("matmul", "9x75x5", "1x1x1", name) for name in ("xpulpv2_4x2", "nn_4x4")),
    *(("linear", "101:19", precision, name) for name in ONE_PIXEL for precision in ("1x1x1", "1x1xi32")),
    # of one bit are the weights only, as in a first layer, or the inputs only
    ("conv", "4x5x20:9x3x3", "8x1x4", "nn_4x4"),
    ("conv", "4x5x20:9x3x3", "i4x1x1", "simd_4x2"),
    ("conv", "4x5x20:9x3x3", "1x4x8", "cu_4x2"),
    ("conv", "4x5x20:9x3x3", "1xu2x1", "nn_4x2"),
]


@pytest.mark.parametrize(("kernel", "text", "precision", "name"), OTHERS)
def test_other_layers_and_widths_of_single_bits(kernel: str, text: str, precision: str, name: str):
    cores = 1 if kernel == "conv" else 3
    check_named(kernel, text, precision, name, cores=cores, seed=SEED, specialise=kernel == "conv1d")


def test_counts_that_are_normalised():
    layer, precision = MatmulLayer.parse("5x40x3"), Precision(1, 1, 4)
    after = Requantisation(kappa=np.arange(3, 8), lam=np.full(5, 64), shift=4)
    tensors = replace(tensors_of(layer, SUMS, SEED), requantisation=after)
    for name in ("rv32im_2x2", "xpulpv2_1x2"):
        check(layer, precision, name, tensors)


@pytest.mark.parametrize("name", ["rv32im_2x2", "xpulpv2_4x2", "nn_4x4"])
def test_a_sum_at_its_threshold_is_minus_one(name: str):
    """Rows of 33 numbers of which 0 to 33 are +1, and thresholds that meet sums, lie between them, and beyond."""
    inputs = np.where(np.arange(33) < np.arange(34)[:, np.newaxis], 1, -1)
    sums = inputs.sum(axis=1)
    thresholds = np.array([-34, -33, -32, -1, 0, 1, 32, 33, 32767, -32768])
    layer = MatmulLayer(out_channels=10, reduction=33, pixels=34)
    weights, bias = np.ones((10, 33), np.int64), np.array([0] * 8 + [7, 2**31 - 40])
    after = Thresholds(values=thresholds[:, np.newaxis])
    tensors = LayerTensors(activations=inputs, weights=weights, bias=bias, requantisation=after)
    got = computed(find_kernel("matmul").build(layer, ONE, name, tensors))
    above = sums[:, np.newaxis] + bias > thresholds
    np.testing.assert_array_equal(got, np.where(above, 1, -1))


def test_bad_commands(refused):
    assert "must be thresholds" in refused("cosim", "conv", "--precision", "1x1x1", "--requantise", "shift")
    assert "(needs XpulpMLnn: preset " in refused(
        "cosim", "conv", "--bits", "1", "--variant", "nn_4x4", "--preset", "ri5cy"
    )


def test_packed_weights_of_one_bit():
    """The words are those of the kernel; anything but -1 and +1 is refused, and so is a rule without thresholds."""
    layer, computing = ConvLayer.parse("4x4x40:8x3x3"), find_kernel("conv")
    tensors = tensors_of(layer, ONE, SEED)
    arrays = {"weights": tensors.weights, "bias": tensors.bias, "thresholds": tensors.requantisation.values}
    run = packed(computing, layer, ONE, "xpulpv2_4x2", arrays, Rule.BN32)
    built = computing.build(layer, ONE, "xpulpv2_4x2", tensors).image
    assert sorted(run.contents) == ["parameters", "weights"]
    for name, words in run.contents.items():
        np.testing.assert_array_equal(words.view(np.uint8), built.view(name))
    with pytest.raises(InputError, match=r"^weights of one bit must be -1 or 1, not 0$"):
        packed(computing, layer, ONE, "xpulpv2_4x2", arrays | {"weights": tensors.weights * 0}, Rule.BN32)
    with pytest.raises(InputError, match=r"^requantisation must be thresholds for results of one bit, not shift$"):
        packed(computing, layer, ONE, "xpulpv2_4x2", arrays, Rule.SHIFT)
