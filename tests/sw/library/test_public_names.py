"""Functions with the public names of PULP-NN: calls and programs in its manner, and their headers.

``make examples`` runs a network with these names beside plain loops.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.public import PREFIXES, PublicFunctions
from xpulpnn_sw.library.write import objects, public_header, texts
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.build_options import ClusterLayout, Options

from ..elf import SOURCES, Ran, run

pytestmark = pytest.mark.flow

CORE = preset("xpulpnn2")
WARNED = ("-Wall", "-Werror")
GUARD = 32
"""Bytes before and behind each output that must stay as they are."""

GUARDED = b"\xa5"


@dataclass
class Call:
    text: str
    operands: dict[str, bytes]
    values: np.ndarray
    bits: int
    offset: int = 0

    @property
    def name(self) -> str:
        return self.text.partition("(")[0]

    @property
    def expected(self) -> bytes:
        return packed(self.values, self.bits)


def packed(values: np.ndarray, bits: int) -> bytes:
    """Elements in order, the first in the lowest bits of a byte."""
    if bits == 32:
        return values.astype("<i4").tobytes()
    each = 8 // bits
    lanes = values.reshape(-1, each).astype(np.int64) & ((1 << bits) - 1)
    return (lanes << np.arange(each) * bits).sum(axis=1).astype(np.uint8).tobytes()


def apart(values: np.ndarray, bits: int) -> np.ndarray:
    """``[channel][...]`` with the channels of a byte beside each other."""
    each = 8 // bits
    return np.moveaxis(values.reshape(-1, each, *values.shape[1:]), 1, -1)


def drawn(rng: np.random.Generator, kernel: str, name: str, text: str, rule: Rule):
    match = re.search(r"_([iu]\d)_([iu]\d+|i32)_(i\d)", name)
    x, y, w = match.groups() if match else ("u8", "i32", "i8")
    layer, precision = find_kernel(kernel).layer.parse(text), Precision.parse(f"{x}x{w}x{y}")
    tensors = find_kernel(kernel).tensors(layer, precision, rng, rule)
    tensors = tensors if precision.requantised else replace(tensors, bias=None)
    operands = {"BIAS": packed(tensors.bias, 32)} if tensors.bias is not None else {}
    return precision, layer, tensors, operands, reference(layer, tensors, precision)


def sizes_of(layer: Any, channels: int) -> str:
    numbers = (layer.width, layer.height, layer.channels, layer.out_width, layer.out_height, channels)
    window = (layer.kernel_width, layer.kernel_height, *layer.padding, *reversed(layer.stride))
    return ", ".join(map(str, (*numbers, *window)))


def conv(rng: np.random.Generator, name: str, text: str) -> Call:
    precision, layer, tensors, operands, results = drawn(rng, "conv", name, text, Rule.BN32)
    after = tensors.requantisation
    operands |= {"KAPPA": packed(after.kappa, 32), "LAMBDA": packed(after.lam, 32)}
    operands |= {"IN": packed(tensors.activations, precision.x), "W": packed(tensors.weights, precision.w)}
    sizes = sizes_of(layer, layer.out_channels)
    call = f"{name}(IN, NULL, BIAS, OUT, W, KAPPA, LAMBDA, 0, {after.shift}, {sizes}, 1, 1)"
    return Call(call, operands, results, precision.y)


def depthwise(rng: np.random.Generator, name: str, text: str) -> Call:
    precision, layer, tensors, operands, results = drawn(rng, "depthwise", name, text, Rule.MULTIPLY)
    after = tensors.requantisation
    maps = apart(tensors.activations.transpose(2, 0, 1), precision.x)
    operands |= {"IN": packed(maps, precision.x), "W": packed(apart(tensors.weights, precision.w), precision.w)}
    scale = f"NULL, NULL, NULL, {after.factor}, {after.shift}"
    call = f"{name}(IN, NULL, BIAS, OUT, W, {scale}, {sizes_of(layer, layer.channels)}, 1, 0)"
    return Call(call, operands, results, precision.y)


def linear(rng: np.random.Generator, name: str, inputs: int, outputs: int) -> Call:
    precision, _, tensors, operands, results = drawn(rng, "linear", name, f"{inputs}:{outputs}", Rule.SHIFT)
    operands |= {"IN": packed(tensors.activations, precision.x), "W": packed(tensors.weights, precision.w)}
    if precision.requantised:
        shift = tensors.requantisation.shift
        call = f"{name}(IN, BIAS, OUT, W, NULL, NULL, 0, {shift}, {inputs}, {outputs}, 0, 0)"
    else:
        call = f"{name}(IN, NULL, OUT, W, {inputs}, {outputs})"
    return Call(call, operands, results, precision.y)


def pools(rng: np.random.Generator, channels: int, bits: int) -> list[Call]:
    image = rng.integers(0, 1 << bits, (7, 6, channels))
    operands, sizes = {"IN": packed(image, bits)}, f"6, 7, {channels}"
    window = layers.Window(3, 3, (2, 2), layers.Pads(0, 1, 1, 0))
    most = layers.max_pool(image, window)
    sides = f"{most.shape[1]}, {most.shape[0]}, 3, 3, 0, 1, 1, 0, 2, 2"
    calls = [Call(f"pulp_nn_maxpool_u{bits}(IN, OUT, {sizes}, {sides})", operands, most, bits)]
    for rows, columns, step, factor in ((2, 2, 2, 1030), (3, 2, 1, 901)):
        window = layers.Window(rows, columns, (step, step), layers.Pads(1, 0, 0, 1))
        sums = layers.window_sums(image, window)
        means = np.clip(sums * (factor // (rows * columns)) + 300 >> 10, 0, (1 << bits) - 1)
        sides = f"{means.shape[1]}, {means.shape[0]}, {columns}, {rows}, 1, 0, 0, 1, {step}, {step}"
        call = f"xpulp_nn_avgpool_u{bits}_u{bits}(IN, OUT, {factor}, 10, 300, {sizes}, {sides}, 1)"
        calls.append(Call(call, operands, means, bits))
    return calls


def add(rng: np.random.Generator, *, requantised: bool) -> Call:
    first, second = (rng.integers(0, 1 << bits, (3, 4, 6)) for bits in (8, 4))
    scales = (140, 90, 8), (1800, 200, 8)
    total = sum(
        layers.add_shifted([values], [factor], shift, 8, signed=False, summand=summand).astype(int)
        for values, (factor, summand, shift) in zip((first, second), scales, strict=True)
    )
    total = total * 3 + 5 >> 3 if requantised else total
    results = np.clip(total, 0, 255)
    numbers = ", ".join(str(number) for scale in scales for number in scale)
    call = f"pulp_nn_add_u8_u4_u8(IN, W, OUT, {numbers}, 3, 5, 3, 4, 3, 6, {requantised:d})"
    return Call(call, {"IN": packed(first, 8), "W": packed(second, 4)}, results, 8)


def calls_of(rng: np.random.Generator) -> list[Call]:
    return [
        # whole words and groups; a rest of pixels; a rest of channels, of the input too
        conv(rng, "pulp_nn_conv_u8_u8_i8", "6x6x8:8x3x3:s=2x1,p=1x0x0x2"),
        conv(rng, "xpulp_nn_conv_u8_u4_i4_4x4", "5x7x8:12x2x3:s=2x1,p=1x0x0x2"),
        conv(rng, "pulp_nn_conv_u8_u4_i4", "5x5x6:6x3x2:s=2x1,p=1x0x0x2"),
        conv(rng, "xpulp_nn_mix_conv_u4_u8_i8", "4x5x8:5x3x1:s=2x1,p=1x0x0x2"),
        conv(rng, "pulp_nn_conv_i8_i8_i8", "4x5x3:7x3x3:s=2x1,p=1x0x0x2"),
        # plain single pixels are read where they are
        conv(rng, "pulp_nn_pointwise_u8_u8_i8", "5x3x12:8x1x1:p=0"),
        depthwise(rng, "pulp_nn_depthwise_u8_u8_i8", "5x6x5:3x3:p=0x2x1x0"),
        depthwise(rng, "pulp_nn_depthwise_u8_u4_i4", "5x6x6:2x5:p=0x1x1x0"),
        depthwise(rng, "xpulp_nn_depthwise_u4_u8_i8", "5x5x6:3x2:p=0x2x1x0"),
        # in quarters, of bytes, nibbles and crumbs; by blocks, where rows are no whole words; few
        linear(rng, "pulp_nn_linear_u8_u8_i8", 64, 12),
        linear(rng, "pulp_nn_linear_u4_u4_i4", 64, 24),
        linear(rng, "pulp_nn_linear_u8_u2_i8", 16, 32),
        linear(rng, "pulp_nn_linear_u8_u4_i4", 32, 8),
        linear(rng, "pulp_nn_linear_u8_i32_i8", 23, 9),
        linear(rng, "xpulp_nn_linear_u4_u8_i8", 14, 7),
        linear(rng, "pulp_nn_linear_out_32", 16, 3),
        *pools(rng, 8, 8),
        *pools(rng, 3, 8),
        add(rng, requantised=False),
        add(rng, requantised=True),
    ]  # fmt: skip


_LITTLE_MEMORY = (
    "#ifdef LEFT",
    "    void *left = xp_l1_malloc(LEFT);",
    "    for (uint32_t size = 1 << 17; size > 8;)",
    "        if (xp_l1_malloc(size) == NULL) size /= 2;",
    "    xp_l1_free(left);",
    "#endif",
)
"""Takes what there is of the TCDM but for some bytes: too few for some layers, and for all channels of others."""


def program(calls: list[Call]) -> str:
    """An application that makes the calls, each operand in the TCDM and as long as it must be."""
    lines = ["#include <pmsis.h>", "#include <pulp_nn_kernels.h>", "#include <string.h>"]
    body: list[str] = []
    for number, call in enumerate(calls):
        names = {"NULL": "NULL", "OUT": f"(void *)(out{number} + {GUARD + call.offset})"}
        for operand in ("IN", "W", "BIAS", "KAPPA", "LAMBDA"):
            name = f"{operand.lower()}{number}"
            names[operand] = "NULL"
            if operand in call.operands:
                # what a kernel reads in words may begin anywhere
                offset = call.offset if operand in ("IN", "W") else 0
                content = ", ".join(map(str, bytes(offset) + call.operands[operand]))
                lines.append(f"PI_L1 static uint8_t {name}[] __attribute__((aligned(4))) = {{{content}}};")
                names[operand] = f"(void *)({name} + {offset})"
        size = len(call.expected) + call.offset + 2 * GUARD
        lines.append(f"PI_L1 uint8_t out{number}[{size}] __attribute__((aligned(4)));")
        words = [names.get(word, word) for word in call.text.partition("(")[2].rstrip(")").split(", ")]
        body.append(f"    {call.name}({', '.join(words)});")
    fills = [f"    memset(out{number}, {GUARDED[0]}, sizeof out{number});" for number in range(len(calls))]
    team = ["static void team(void *unused) {", "    (void)unused;", *body, "}"]
    main = ["int main(void) {", *fills, *_LITTLE_MEMORY, "    pi_cl_team_fork(NUM_CORES, team, NULL);", "    return 0;"]
    return "\n".join([*lines, *team, *main, "}"])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Options:
    folder = tmp_path_factory.mktemp("library")
    used = set(re.findall(r"x?pulp_nn_\w+(?=\()", (SOURCES / "public_names.c").read_text()))
    used |= {call.name for call in calls_of(np.random.default_rng())} | {text.partition(":")[0] for text in REFUSED}
    precisions = ["8x8x8", "8x8x2", "8x4x4", "8x8x4", "8x4x8", "4x4x8", "4x8x8", "4x4x4", "i8x8xi8"]
    every = PublicFunctions([Precision.parse(precision) for precision in precisions], Rule.BN32, CORE)
    public = [function for function in every if not used.isdisjoint(function.names)]
    assert used <= {name for function in public for name in function.names}
    kernels = list({run.name: run for function in public for run in function.kernels}.values())
    for path, text in texts(kernels, "", "", public).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    objects(kernels, folder / "libxpulpnn.a", compiler=None, options=Options(config=CORE, extra=WARNED), public=public)
    linking = (f"-L{folder}", "-lxpulpnn")
    return Options(config=CORE, include=(folder / "include",), linking=linking, extra=WARNED)


def simulated(elf: Path, cores: int, **options) -> Ran:
    return run(elf, ClusterConfig(core=CORE, cores=cores, **options) if cores else CORE, quantum=16)


def with_cores(options: Options, cores: int, **memory: int) -> Options:
    return replace(options, cluster=ClusterLayout(cores=cores, **memory) if cores else None)


def test_calls_of_an_application_equal_numpy(tmp_path, library):
    rng = np.random.default_rng(3)
    calls = calls_of(rng)
    assert all(np.unique(call.values, return_counts=True)[1].max() <= call.values.size // 2 for call in calls)
    for cores, offset in ((0, 0), (3, 1)):
        for call in calls:
            call.offset = offset if "32" not in call.name else 0
        (tmp_path / "main.c").write_text(program(calls))
        elf = tmp_path / f"main{cores}.elf"
        options = replace(with_cores(library, cores), define=("LEFT=1700",) if cores else ())
        build([tmp_path / "main.c"], elf, options=options)
        ran = simulated(elf, cores)
        assert ran.end.text == "pass"
        for number, call in enumerate(calls):
            guard = GUARDED * GUARD
            expected = guard + GUARDED * call.offset + call.expected + guard
            assert ran.read(f"out{number}", len(expected)) == expected, f"{cores} cores: {call.text}"


_OPERANDS = "data, NULL, NULL, data, weights, NULL, NULL, 0"
_WINDOW = "4, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0"
REFUSED = {
    "pulp_nn_conv_u4_u4_i4: ch_in must be whole bytes of channels, not 3": f"{_OPERANDS}, 3, 4, 4, 3, 4, 4, {_WINDOW}",
    "pulp_nn_conv_u4_u4_i4: out_shift must be 0..31, not 40": f"{_OPERANDS}, 40, 4, 4, 8, 4, 4, {_WINDOW}",
    "pulp_nn_linear_u4_u4_i4: num_o_neurons must be whole bytes of elements, not 5": "data, NULL, data, weights, "
    "NULL, NULL, 0, 3, 8, 5, 0, 0",
    "pulp_nn_conv_u4_u4_i4: memory left to xp_l1_malloc must be at least 55752 bytes, not less": f"{_OPERANDS}, "
    f"3, 4, 4, 1024, 4, 4, {_WINDOW}",
}
"""Lines printed, by the arguments of the function that is named first."""


def test_what_a_function_cannot_take_ends_the_program(tmp_path, library):
    calls = "\n".join(
        f"    if (which == {number}) {text.partition(':')[0]}({arguments});"
        for number, (text, arguments) in enumerate(REFUSED.items())
    )
    source = f"""
#include <pmsis.h>
#include <pulp_nn_kernels.h>
PI_L1 static uint8_t data[64];
static int8_t weights[64];
volatile int which = -1;
static void team(void *unused) {{
    (void)unused;
{calls}
}}
int main(void) {{
    pi_cl_team_fork(NUM_CORES, team, NULL);
    return 0;
}}
"""
    (tmp_path / "main.c").write_text(source)
    elf = tmp_path / "main.elf"
    build([tmp_path / "main.c"], elf, options=replace(with_cores(library, 2, tcdm=8 << 10), heap=1 << 10))
    config = ClusterConfig(core=CORE, cores=2, tcdm_bytes=8 << 10)
    for number, text in enumerate(REFUSED):
        ran = run(elf, config, patch={"which": number})
        assert not ran.end.ok
        assert ran.errors + ran.output == f"{text}\n"


def test_names_are_declared_once_and_aliases_are_of_one_function():
    functions = list(PublicFunctions([Precision.parse("8x8x8"), Precision.parse("4x8x2")], Rule.BN32, CORE))
    names = [name for function in functions for name in function.names]
    assert len(names) == len(set(names))
    text = public_header(functions)
    assert all(text.count(f"void {name}(") == 1 for name in names)
    assert {f"{prefix}_{kind}_u4_u2_i8" for prefix in PREFIXES for kind in ("conv", "depthwise", "linear")} < set(names)
    assert {"xpulp_nn_conv_u4_u2_i8_4x4", "pulp_nn_linear_u4_i32_i8", "pulp_nn_conv_HoWo_parallel"} < set(names)


def test_kappa_of_64_bits_has_functions_of_the_same_names():
    narrow, wide = (
        {function.name: function for function in PublicFunctions([Precision.parse("8x8x8")], rule, CORE)}
        for rule in (Rule.BN32, Rule.BN64)
    )
    assert narrow.keys() == wide.keys()
    for name, parameter in (("pulp_nn_conv_u8_u8_i8", "int64_t *kappa"), ("pulp_nn_avgpool_u8_u8", "int64_t lambda")):
        assert parameter in wide[name].prototype(name)
        assert parameter not in narrow[name].prototype(name)


@pytest.mark.parametrize(("precision", "rule", "text"), [
    ("8x8x8", Rule.THRESHOLDS, "--requantise with --pulp-nn must be bn32 or bn64, not thresholds"),
    ("8xu8x8", Rule.BN32, "--precision with --pulp-nn must be 8, 4 or 2 bits, weights signed, not 8xu8x8"),
    ("8x8xi32", Rule.BN32, "--precision with --pulp-nn must be 8, 4 or 2 bits, weights signed, not 8x8xi32"),
])  # fmt: skip
def test_what_the_public_libraries_do_not_have(precision, rule, text):
    with pytest.raises(InputError, match=f"^{text}$"):
        PublicFunctions([Precision.parse(precision)], rule, CORE)


def golden_header(rng: np.random.Generator) -> str:
    side, inputs, channels, classes = 6, 8, 8, 5
    image = rng.integers(0, 256, (side, side, inputs))
    filters = rng.integers(-8, 8, (channels, 3, 3, inputs))
    sums = layers.conv(image, filters, np.zeros(channels, int), (1, 1), layers.Pads(1, 1, 1, 1))
    kappa = rng.integers(20, 40, channels)
    shift = int(sums.std() * 30 / 8).bit_length()
    lam = (8 << shift) - kappa * sums.reshape(-1, channels).mean(axis=0).astype(int)
    map_ = layers.quantise_bn(sums, kappa, lam, shift, 4)
    pooled = layers.max_pool(map_, layers.Window(2, 2, (2, 2), layers.Pads()))
    weights = rng.integers(-40, 128, (classes, pooled.size))
    products = (weights @ pooled.reshape(-1)).astype(np.int32)
    scores = layers.quantise_bn(products[np.newaxis, :], 3, 0, 9, 8)
    assert np.unique(map_).size == 16
    assert np.unique(scores).size == classes
    assert np.unique(pooled).size > 3
    arrays = {"IMAGE": image, "FILTERS": filters, "WEIGHTS": weights, "KAPPA": kappa, "LAMBDA": lam}
    arrays |= {"MAP": map_, "LARGEST": pooled, "SCORES": scores}
    numbers = {"SIDE": side, "INPUTS": inputs, "CHANNELS": channels, "CLASSES": classes, "MAP_SHIFT": shift}
    numbers |= {"SCORE_FACTOR": 3, "SCORE_SHIFT": 9}
    lines = [f"#define {name} {number}" for name, number in numbers.items()]
    lines += [f"#define {name} {{{', '.join(map(str, array.reshape(-1)))}}}" for name, array in arrays.items()]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("cores", "define"), [(1, ()), (8, ("OLDER",))])
def test_a_program_of_the_public_library_compiles_and_passes(tmp_path, library, cores, define):
    (tmp_path / "golden.h").write_text(golden_header(np.random.default_rng(5)))
    elf = tmp_path / "main.elf"
    options = replace(with_cores(library, cores), include=(*library.include, tmp_path), define=define)
    assert build([SOURCES / "public_names.c"], elf, options=options) == ""
    ran = run(elf, ClusterConfig(core=CORE, cores=cores))
    assert ran.output == f"cores: {cores}, errors: 0, counted: 1\n"
    assert ran.end.ok
