"""Channel-wise kernels against the numpy references: the functions run on the instruction-set simulator."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.reference.iss.kernel_calls import kernel_memory
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.channelwise.elementwise import Scale
from xpulpnn_sw.kernels.channelwise.maps import reciprocal
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import ELEMENT_LEVELS, PLAIN_LEVELS, TRANSPOSE_LEVELS
from xpulpnn_sw.layers.precision import Precision

from .runs import RULES, check_named, computed, run_share, tensors_of

pytestmark = pytest.mark.flow

ELEMENTS = ("u8", "i8", "u4", "i4", "u2", "i2")
GEOMETRIES = (
    # stride 1 with padding; padding beyond the stride; uneven padding; areas that fill no words; windows side by side
    "5x6x5:3x3:p=1", "5x4x3:3x3:p=2", "4x7x2:3x2:p=0x2x1x0", "5x5x3:2x3:s=2x1,p=1x0x0x2", "3x8x2:1x3:s=1x2,p=0x0x2x1",
    "8x6x1:3x5:s=3x2,p=2x1x0x4", "7x7x9:2x2:s=2", "9x9x2:3x3:s=3", "4x4x2:1x1:s=2", "6x5x1:5x4:p=4x4x3x3",
)  # fmt: skip


def mixed(precision: Precision):
    """Puts elements that have nothing to do with their neighbours into a map, if there is one: each place matters."""
    least = -(1 << (precision.x - 1)) if precision.x_signed else 0

    def change(tensors):
        rng = np.random.default_rng(11)
        values = rng.integers(least, least + (1 << precision.x), tensors.activations.shape)
        return replace(tensors, activations=values)

    return lambda tensors: change(tensors) if hasattr(tensors, "activations") else tensors


def level_of(number: int, name: str = "") -> str:
    names = tuple(find_kernel(name).variants if name else ELEMENT_LEVELS)
    return names[number % len(names)]


def triples(first: str) -> list[Precision]:
    """A Latin square of the triples: every pair of elements is there. Others: xpulpnn cosim KERNEL --random N."""
    at = ELEMENTS.index(first)
    return [Precision.parse(f"{first}x{second}x{ELEMENTS[(at + n) % 6]}") for n, second in enumerate(ELEMENTS)]


@pytest.mark.parametrize("first", ELEMENTS)
def test_every_precision(first: str):
    for number, precision in enumerate(triples(first)):
        level = level_of(number + ELEMENTS.index(first))
        check_named("depthwise", "3x4x3:3x3:p=1x0x1x2", precision, level)
        text = f"1x2x{(5, 16)[number % 2]}" + (":shift" if number // 3 % 2 else "")
        check_named("add", text, precision, level, specialise=number % 4 == 0)


@pytest.mark.parametrize("level", ELEMENT_LEVELS)
@pytest.mark.parametrize("rule", find_kernel("depthwise").rules)
def test_depthwise_by_every_rule(rule: Rule, level: str):
    turn = [*ELEMENT_LEVELS].index(level) + find_kernel("depthwise").rules.index(rule)
    number, results = turn % 3, ("8", "i4", "2", "i2", "4", "i8")[turn % 6]
    text = ("3x5x5:3x3", "2x3x4:1x3:p=0x0x1x1", "4x4x3:2x4:p=1x0x0x2")[number]
    check_named("depthwise", text, f"8x4x{results}", level, rule=rule, cores=1 + number)
    check_named("depthwise", "5x6x3:3x3:s=2,p=0x1x0x1", f"4x8x{results}", level, rule=rule, cores=2)


@pytest.mark.parametrize(("text", "cores"), [
    ("7x5x3:3x3", 1), ("6x1x2:3x3", 1), ("8x4x3:3x3:p=0,v=3", 3), ("3x2x4:3x2", 2), ("3x2100x1:3x3", 1),
])  # fmt: skip
@pytest.mark.parametrize("rule", [Rule.BN32, Rule.EXACT, Rule.SHIFT])
def test_depthwise_down_the_columns(rule: Rule, text: str, cores: int):
    for precision in ("8x8x8", "i4x2xi8"):
        check_named("depthwise", text, precision, "xpulpnn2", rule=rule, cores=cores, specialise=True)


IN_PLACE = {
    "even columns": ("6x6x4:3x3", True), "odd columns, many rows": ("14x7x4:3x3", True),
    "all in one word": ("3x3x4:3x3", True), "one pixel": ("1x1x4:3x3", True), "two columns": ("2x2x4:3x3", True),
    "nothing around": ("9x8x4:3x3:p=0", True),
    "steps of two, the last row and column outside": ("8x6x4:3x3:s=2,p=0x1x0x1", True),
    "steps of two, the first row and column outside": ("17x7x4:3x3:s=2,p=1", True),
    "steps of two in y": ("16x5x4:3x3:s=2x1", True), "filters of two columns": ("7x6x4:3x2:p=1x1x1x0", True),
    "filters of one column": ("7x6x4:3x1:p=0", False), "two columns outside": ("7x6x4:3x3:p=1x1x2x1", False),
    "two rows outside": ("7x6x4:3x3:p=1x2x1x1", False), "another value around": ("7x6x4:3x3:v=3", True),
    "another around one column": ("5x1x4:3x3:v=9", True), "around two columns": ("2x2x4:3x3:v=100", True),
    "beside steps of two": ("8x6x4:3x3:s=2,p=0x1x0x1,v=5", True), "before them": ("17x7x4:3x3:s=2,p=1,v=77", True),
    "around odd columns": ("14x7x4:3x3:v=1", True), "around filters of two": ("7x6x4:3x2:p=1x1x1x0,v=4", True),
    "more rows of the filters": ("7x6x4:4x3:p=1", False), "rows too long": ("3x2100x1:3x3", False),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_depthwise_in_place(name: str):
    (text, is_in_place), rng = IN_PLACE[name], np.random.default_rng(1)
    for seed, (precision, rule) in enumerate([("8x8x8", Rule.EXACT), ("i8x8xi8", Rule.BN32), ("8xu4xi8", Rule.SHIFT)]):
        layer, widths = find_kernel("depthwise").layer.parse(text), Precision.parse(precision)
        tensors = tensors_of(layer, widths, seed, rule)
        run = find_kernel("depthwise").build(layer, widths, "xpulpnn2", tensors, specialise=True)
        assert ("im2col" not in run.function.regions) is is_in_place
        rows = run.image.view("input")[: layer.channels * layer.height * run.arguments["row_bytes"]]
        behind = rows.reshape(-1, run.arguments["row_bytes"])[:, layer.width :]
        behind[:] = rng.integers(0, 256, behind.shape)
        np.testing.assert_array_equal(computed(run), reference(layer, tensors, widths), f"{text} {precision}")


@pytest.mark.parametrize(
    ("channels", "cores", "is_in_place"),
    [(8, 8, True), (12, 8, True), (11, 8, True), (10, 8, False), (40, 8, True), (5, 4, False)],
)
def test_depthwise_in_place_shares_whole_channels(channels: int, cores: int, is_in_place: bool):
    """Unless some cores would have much more of them than others."""
    run, *_ = check_named("depthwise", f"3x4x{channels}:3x3", "8x8x8", "xpulpnn2", cores=cores, specialise=True)
    assert ("im2col" not in run.function.regions) is is_in_place


@pytest.mark.parametrize("name", RULES)
def test_rules_at_their_ends(name: str):
    after = RULES[name]

    def change(tensors):
        bias = np.array([0, -1, (1 << 31) - 9, -(1 << 31) + 9])
        return replace(tensors, bias=bias, requantisation=after)

    for level in [*ELEMENT_LEVELS][[*RULES].index(name) % 2 :: 2]:
        precision = "8x8x4" if after.rule is Rule.THRESHOLDS else "8x8xi8"
        check_named("depthwise", "3x3x4:3x3", precision, level, rule=after.rule, change=change)


BUGS = {
    "addition on cores that start in another row": ("add", "5x3x3:shift", "4xu4x4", "xpulpnn", 8),
    "sum of 16 bits": ("add", "2x3x4:shift", "8xu8x8", "xpulpv2", 1),
    "windows that start on what is written": ("maxpool", "5x7x4:3x3:p=1x0x2x0", "8xu8x8", "xpulpnn", 1),
    "channels beyond a word": ("avgpool", "4x4x7:2x2:s=2", "8xu8x8", "xpulpnn", 1),
    "channels of 2 bits beyond a word": ("maxpool", "5x5x21:2x2", "2xu2x2", "xpulpnn", 1),
    "filters with one element beyond words": ("depthwise", "7x7x3:5x5:s=2,p=2", "2x2x2", "xpulpv2", 1),
    "the last row of the last channel": ("depthwise", "3x5x1:3x3", "8x8x8", "xpulpnn", 1),
}
"""Mistakes of one public library or another: kernel, layer, precision, level, cores."""


@pytest.mark.parametrize("name", BUGS)
def test_what_public_libraries_get_wrong(name: str):
    kernel, text, elements, level, cores = BUGS[name]
    precision = Precision.parse(elements)
    check_named(kernel, text, precision, level, cores=cores, change=mixed(precision))


@pytest.mark.parametrize("first", ELEMENTS)
@pytest.mark.parametrize("form", ["", ":scaled"])
def test_averages_of_every_precision(first: str, form: str):
    for number, last in [*enumerate(ELEMENTS)][(ELEMENTS.index(first) + len(form)) % 2 :: 2]:
        text = ("3x4x3:3x3:p=1x0x0x2", "2x4x16:2x2:s=2")[(number + ELEMENTS.index(first)) % 2] + form
        check_named("avgpool", text, f"{first}x{first}x{last}", level_of(number), specialise=number > 2)


@pytest.mark.parametrize("level", PLAIN_LEVELS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_maxima_and_relu(element: str, level: str):
    precision = Precision.parse(f"{element}x{element}x{element}")
    relu = ":relu" if precision.x_signed and level != "xpulpv2" else ""
    check_named("maxpool", f"5x4x16:3x3:s=2,p=1x1x0x1{relu}", precision, level, change=mixed(precision))
    if precision.x_signed:
        check_named("relu", "1x3x16", precision, level)


@pytest.mark.parametrize("level", PLAIN_LEVELS)
def test_maxima_of_single_bits(level: str):
    precision = Precision.parse("1x1x1")
    check_named("maxpool", "5x4x40:3x3:s=2,p=1x1x0x1", precision, level)
    check_named("maxpool", "4x4x64:2x2:s=2", precision, level, cores=2, specialise=True)


@pytest.mark.parametrize("name", ["depthwise", "maxpool", "avgpool"])
@pytest.mark.parametrize(("number", "geometry"), list(enumerate(GEOMETRIES)))
def test_geometries(number: int, geometry: str, name: str):
    bits = (8, 4, 2)[number % 3]
    # depthwise would take a missing option for a padding of one
    text = geometry if "p=" in geometry or name != "depthwise" else f"{geometry},p=0"
    # their own functions, and those without XpulpV2
    level = "xpulpnn" if number % 2 else level_of(number // 2, name)
    options = {"cores": 1 + number % 4 // 2, "specialise": number % 4 == 3}
    precision = find_kernel(name).uniform(bits)
    check_named(name, text, precision, level, change=mixed(precision), **options)


@pytest.mark.parametrize(("name", "text", "cores"), [
    ("depthwise", "5x3x7:3x3", 8), ("maxpool", "6x3x9:3x3:s=2,p=1", 3), ("avgpool", "4x3x9:2x2:p=0x1x1x0", 3),
    ("add", "3x5x17:shift", 3), ("relu", "3x5x17", 3), ("transpose", "3x5x17", 8),
])  # fmt: skip
def test_shares(name: str, text: str, cores: int):
    """No two cores write the same byte, and together they write all; results of two bits share bytes."""
    level = "xpulpnn" if "xpulpnn" in find_kernel(name).variants else "rv32im"
    run, _, _ = check_named(name, text, find_kernel(name).uniform(2), level, cores=cores)
    output = run.image.symbols["output"]
    writers = np.zeros(output.length, np.int64)
    for core in range(cores):
        written = np.zeros(output.length, np.bool_)
        for fill in (b"\x00", b"\xff"):
            memory = kernel_memory(run)
            memory.write_bytes(output.address, fill * output.length)
            run_share(run, core, cores, memory)
            content = np.frombuffer(memory.read_bytes(output.address, output.length), np.uint8)
            written |= content != fill[0]
        writers += written
    assert writers.max() == 1


@pytest.mark.parametrize("name", ["depthwise", "avgpool", "add"])
def test_extreme_elements(name: str):
    text = "2x3x4" if name == "add" else "3x3x4:3x3:p=1"
    for number, end in product(range(6), (0, -1)):
        bits, signed = (8, 4, 2)[number % 3], number >= 3
        precision = Precision(bits, bits, bits, signed, signed, signed)
        values = np.arange(1 << bits) - ((1 << (bits - 1)) if signed else 0)

        def change(tensors, value=int(values[end])):
            fields = {"first", "second", "activations", "weights"} & set(type(tensors).__dataclass_fields__)
            return replace(tensors, **{field: np.full_like(getattr(tensors, field), value) for field in fields})

        check_named(name, text, precision, level_of(number, name), change=change)


def test_biases_and_sums_have_32_bits():
    def biased(tensors):
        bias = np.array([100_000, -70_000, 129, -200, 1 << 30])
        after = tensors.requantisation
        lam = after.lam - after.kappa * (bias - tensors.bias)
        return replace(tensors, bias=bias, requantisation=replace(after, lam=lam))

    def scaled(tensors):
        return replace(tensors, factors=(40_000, 50_000), shift=17, scales=(Scale(9999, -5, 13), Scale(-77, 70_000, 8)))

    for level in ELEMENT_LEVELS:
        check_named("depthwise", "4x4x5:3x3", "8x8x8", level, change=biased)
        for form in ("", ":shift"):
            check_named("add", f"2x3x5{form}", "8xu8x8", level, change=scaled)


def test_reciprocals():
    for divisor in range(1, 100):
        greatest = min(divisor * 255, 65_535)
        division = reciprocal(divisor, greatest)
        assert division is not None
        factor, shift = division
        numbers = np.arange(greatest + 1, dtype=np.int64)
        np.testing.assert_array_equal(numbers * factor >> shift, numbers // divisor)
        assert greatest * factor < 1 << 32
    assert reciprocal(3, (1 << 32) - 1) is None


def test_large_windows():
    for text, element in (("9x9x3:9x9", "i2"), ("17x16x2:17x16", "u8"), ("6x3x5:6x3", "u4"), ("18x17x3:18x17", "i8")):
        check_named("avgpool", text, f"{element}x{element}x{element}", "xpulpnn")


@pytest.mark.parametrize(
    ("name", "text", "precision"),
    [("relu", "1x1x4", "8x8x8"), ("maxpool", "3x3x4:2x2", "8x8x4"), ("maxpool", "4x4x64:2x2:s=2:relu", "1x1x1")],
)
def test_rejected(name: str, text: str, precision: str):
    layer = find_kernel(name).layer.parse(text)
    operands = find_kernel(name).random(layer, find_kernel(name).uniform(8), np.random.default_rng(0))
    with pytest.raises(LayerError, match=rf"^precision of {name}( with relu)? must be "):
        find_kernel(name).build(layer, Precision.parse(precision), "xpulpnn", operands)


@pytest.mark.parametrize(("name", "text", "most"), [
    # less than a tenth of the depthwise convolution of 3x3 behind it, which takes more than 110,000
    ("transpose", "16x16x32", (10_300, 8_400, 6_400)), ("depthwise", "16x16x4:3x3", (13_500, 16_500, 16_500)),
    ("add", "4x4x32", (3_920, 3_790, 3_730)), ("maxpool", "8x32x32:3x3:s=2,p=0x1x0x1", (9_200, 4_700, 2_460)),
    ("avgpool", "8x32x32:2x2:s=2", (11_800, 6_250, 4_000)), ("relu", "4x4x32", (450, 260, 160)),
])  # fmt: skip
def test_instructions_stay_few(name: str, text: str, most: tuple[int, int, int]):
    level = "xpulpnn" if name != "transpose" else "xpulpv2"
    for bits, limit in zip((8, 4, 2), most, strict=True):
        assert check_named(name, text, find_kernel(name).uniform(bits), level)[2] <= limit


@pytest.mark.parametrize("level", TRANSPOSE_LEVELS)
@pytest.mark.parametrize("signs", [*product("ui", repeat=3)])
def test_attention(signs: tuple[str, str, str], level: str):
    """Rows of words and other rows, odd columns, one element, cores without work; elements at their ends."""
    first, second, result = signs
    precision = Precision.parse(f"{first}8x{second}8x{result}8")
    for seed, text in enumerate(("2x3x5:4", "2x3x8:5", "3x5x20:7", "1x1x3:1", "1x7x33:9")):
        options = {"cores": (1, 3, 8)[seed % 3], "specialise": (seed + (first == "i")) % 2 == 0, "seed": seed}
        check_named("batchmatmul", text, precision, level, **options)
        check_named("batchmatmul", text, precision, level, change=lambda own: at_ends(own, precision), **options)


@pytest.mark.parametrize("level", TRANSPOSE_LEVELS)
@pytest.mark.parametrize("signs", ["".join(signs) for signs in product("ui", repeat=2)])
def test_softmax(signs: str, level: str):
    """Pixels of words and others, of one channel, cores without work; the largest sums of exponentials there are."""
    precision = Precision.parse(f"{signs[0]}8x8x{signs[1]}8")
    for seed, text in enumerate(("2x3x5", "2x3x8", "1x1x1", "3x5x20", "1x2x33", "1x1x500")):
        options = {"cores": (1, 3, 8)[seed % 3], "specialise": (seed + (signs == "ii")) % 2 == 0, "seed": seed}
        for change in (unchanged, without_order, as_large_as_can_be):
            check_named("softmax", text, precision, level, change=change, **options)


def unchanged(tensors):
    return tensors


def without_order(tensors):
    """A table of which no entry stands for another, as exponentials in equal distances do."""
    return replace(tensors, table=np.random.default_rng(7).permutation(tensors.table[-1] >> np.arange(256) // 16))


def as_large_as_can_be(tensors):
    """Every exponential the greatest, sums of which have 31 bits, and the greatest factor."""
    return replace(tensors, table=np.full_like(tensors.table, tensors.table[-1]), factor=(1 << 31) - 1)


@pytest.mark.parametrize("level", TRANSPOSE_LEVELS)
@pytest.mark.parametrize("signs", ["".join(signs) for signs in product("ui", repeat=2)])
def test_layernorm(signs: str, level: str):
    """Pixels of words and others, cores without work; the greatest and the least variances there are."""
    precision = Precision.parse(f"{signs[0]}8x8x{signs[1]}8")
    for seed, text in enumerate(("2x3x5", "2x3x8", "1x2x1", "3x5x20", "1x2x33", "2x1x512")):
        options = {"cores": (1, 3, 8)[seed % 3], "specialise": (seed + (signs == "ii")) % 2 == 0, "seed": seed}
        for change in (unchanged, nearly_equal, far_apart):
            check_named("layernorm", text, precision, level, change=change, **options)


def nearly_equal(tensors):
    """A pixel of equal elements, others with one or two that differ, and nothing is added to variances."""
    activations = np.full_like(tensors.activations, 77)
    activations[..., 0].flat[1:] = 78
    activations[..., -1].flat[2:] = 75
    return replace(tensors, activations=activations, epsilon=0)


def far_apart(tensors):
    """Half of the elements at one end, half at the other, and the most that can be added to variances."""
    activations = np.where(tensors.activations % 2, tensors.activations.min(), tensors.activations.max())
    return replace(tensors, activations=activations, epsilon=(1 << 24) - 1)


def at_ends(tensors, precision: Precision):
    """The largest sums of products there are, of elements farthest from their zero points."""
    least, other = (-(1 << 7) * signed for signed in (precision.x_signed, precision.w_signed))
    first, second = np.full_like(tensors.first, least + 255), np.full_like(tensors.second, other + 255)
    return replace(tensors, first=first, second=second, zeros=np.array([least, other]))


@pytest.mark.parametrize("element", ELEMENTS)
def test_transpositions(element: str):
    for number, text in enumerate(("4x16x16", "3x5x9", "1x1x1", "2x9x33", "5x3x2")):
        options = {"cores": (1, 2, 3, 8, 1)[number], "specialise": number % 2 == 0}
        level = level_of(number + ELEMENTS.index(element) // 3, "transpose")
        check_named("transpose", text, f"{element}x8x{element}", level, seed=7, **options)


@pytest.mark.parametrize(("bits", "alone"), [(8, 10_300), (2, 6_400)])
def test_cores_share_a_transposition_evenly(bits: int, alone: int):
    run, _, _ = check_named("transpose", "16x16x32", find_kernel("transpose").uniform(bits), "xpulpv2", cores=8)
    memory = kernel_memory(run)
    assert max(run_share(run, core, 8, memory)[1] for core in range(8)) < alone / 7
