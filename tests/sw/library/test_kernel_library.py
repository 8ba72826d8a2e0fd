"""The library of kernels and packed layers: what they compute, what the commands write and refuse."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.functions import Selection, library_functions
from xpulpnn_sw.library.packed_layer import PackedLayer, c_header, c_source, packed
from xpulpnn_sw.library.public import PublicFunctions
from xpulpnn_sw.library.write import kernels_header, objects, texts
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.networks.network_file import arrays_of
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.build_options import Options

from ..elf import run as run_program

pytestmark = pytest.mark.flow

ARRAYS = {"weights": np.arange(-8, 8).reshape(2, 8), "bias": np.array([3, -3]), "kappa": np.array([5, 7])}
ARRAYS |= {"lambda": np.array([1000, 2000]), "shift": np.array(6)}
FEW = ["--kernel", "linear,relu", "--precision", "4x4x4,i4x4xi4"]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.npz"
    np.savez(path, **ARRAYS)
    return path


def test_a_library_has_headers_objects_and_a_table(tmp_path):
    record = tmp_path / "record.json"
    assert main(["library", *FEW, "-o", str(tmp_path), "--json", str(record)]) == 0
    names = read_results(record)[0]["functions"]
    assert {"xp_linear_4x4x4_x2_4x1", "xp_relu_i4xi4_xpulpnn"} < set(names)
    header = (tmp_path / "include/xpulpnn_kernels.h").read_text()
    table = (tmp_path / "README.md").read_text()
    library = (tmp_path / "lib/libxpulpnn.a").read_bytes()
    for name in names:
        assert f"void {name}(" in header
        assert f"| `{name}` |" in table
        assert f"{name}.o".encode() in library or f"{name}\0".encode() in library
    structures = (tmp_path / "include/xp_arguments.h").read_text()
    used = {line.partition("struct ")[2].partition(" ")[0] for line in header.splitlines() if line.startswith("void")}
    assert all(f"struct {name} {{" in structures for name in used)


def test_a_library_is_the_same_every_time(tmp_path):
    """Debug information names no folder that only this run has."""
    public = [next(iter(PublicFunctions([Precision(8, 8, 8)], Rule.BN32, preset("xpulpnn2"))))]
    for name in ("first.a", "second.a"):
        objects([], tmp_path / name, compiler=None, options=Options(), public=public)
    assert (tmp_path / "first.a").read_bytes() == (tmp_path / "second.a").read_bytes()


def test_a_missing_compiler_is_told_before_anything_is_written(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(compilers, "_installed", lambda: iter(()))
    folder = tmp_path / "library"
    assert refused("library", "-o", folder).startswith("C compiler must be installed")
    assert not folder.exists()


@pytest.mark.parametrize(("words", "named"), [
    ("--kernel pool", "--kernel"), ("--kernel conv,", "--kernel"), ("--precision 8x8", "precision"),
    ("--variant nn_4x4 --preset ri5cy", "--variant"), ("--windows 3", "layer"),
])  # fmt: skip
def test_what_no_library_has(words, named, tmp_path, refused):
    folder = tmp_path / "library"
    assert refused("library", *words.split(), "-o", folder).startswith(f"{named} must be ")
    assert not folder.exists()


def test_packed_weights_as_arrays(weights, tmp_path):
    output = tmp_path / "layer.npz"
    words = ["pack", "linear", "8:2", str(weights), "--variant", "nn_4x1", "--precision", "8x4x4"]
    assert main([*words, "-o", str(output)]) == 0
    with np.load(output) as packed:
        assert str(packed["function"]) == "xp_conv_8x4x4_nn_4x1"
        assert int(packed["shift"]) == ARRAYS["shift"]
        # per block of four channels the biases, then lambda and kappa of each
        block = [3, -3, 0, 0, 1000, 5, 2000, 7, 0, 0, 0, 0]
        np.testing.assert_array_equal(packed["parameters"].view(np.int32)[:12], block)
        # the rows, in words of eight elements: in which order is the kernel's business
        elements = packed["weights"][:, np.newaxis] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
        values = np.sort((elements.astype(int).reshape(-1) ^ 8) - 8)
        np.testing.assert_array_equal(values[values != 0], np.sort(ARRAYS["weights"][ARRAYS["weights"] != 0]))


def packed_maps(words: list[str], folder: Path, **arrays) -> dict[str, np.ndarray]:
    numbers, output = folder / "numbers.npz", folder / "packed.npz"
    if arrays:
        np.savez(numbers, **{name: np.array(value) for name, value in arrays.items()})
    assert main(["pack", *words[:2], *([str(numbers)] if arrays else []), *words[2:], "-o", str(output)]) == 0
    with np.load(output) as packed:
        return {name: packed[name] for name in packed.files}


def test_scales_of_an_addition_become_tables(tmp_path):
    packed = packed_maps(
        ["add", "4x4x8", "--precision", "i8xu4x8"], tmp_path, factors=[140, 1800], summands=[90, -200], shifts=[7, 8]
    )
    assert str(packed["function"]) == "xp_add_i8xu4x8_xpulpnn2"
    first, second = (packed[f"{which}_table"].view(np.uint8) for which in ("first", "second"))
    elements = np.arange(256).astype(np.int8).astype(int)
    np.testing.assert_array_equal(first, np.clip(elements * 140 + 90 >> 7, 0, 255))
    np.testing.assert_array_equal(second, np.clip(np.arange(16) * 1800 - 200 >> 8, 0, 255))
    assert (packed["first_bytes"], packed["second_bytes"], packed["steps"]) == (128, 64, 32)


POWERS = ((1 << 26) - 1) >> (255 - np.arange(256)) // 9


def test_numbers_of_other_maps_become_arguments(tmp_path):
    packed = packed_maps(["add", "4x4x8:shift"], tmp_path, factors=[140, -18], shift=9)
    numbers = [int(packed[name].view(np.int32)) for name in ("first_factor", "second_factor", "shift")]
    assert numbers == [140, -18, 9]
    assert packed["summand"] == 0
    packed = packed_maps(["add", "4x4x8:shift"], tmp_path, factors=[140, -18], summand=-700, shift=9)
    assert packed["summand"].view(np.int32) == -700
    packed = packed_maps(["avgpool", "4x4x8:2x2:s=2:scaled"], tmp_path, factor=140, summand=-8, shift=5)
    assert [int(packed[name].view(np.int32)) for name in ("factor", "summand", "shift")] == [140, -8, 5]
    packed = packed_maps(["softmax", "4x4x8"], tmp_path, table=POWERS, factor=1 << 29, summand=-3)
    assert [int(packed[name].view(np.int32)) for name in ("factor", "summand", "channels", "gap")] == [
        1 << 29,
        -3,
        8,
        0,
    ]
    np.testing.assert_array_equal(packed["table"], POWERS)
    for text in ("maxpool 4x4x8:2x2:s=2", "relu 4x4x8", "avgpool 4x4x8:2x2:s=2", "transpose 4x4x8"):
        packed = packed_maps(text.split(), tmp_path)
        assert packed["input_bytes"] == 128
        assert str(packed["function"]).startswith(f"xp_{text.split()[0]}_")


UNIT = {"gains": [64] * 8, "offsets": [0] * 8, "epsilon": 0, "shift": 0}
NOT_PACKED = (
    ("layernorm 1x1x513", UNIT, "channels must be at most 512, not 513"),
    ("layernorm 1x1x9", UNIT, "gains must be of shape (9,), not (8,)"),
    ("layernorm 1x1x8", UNIT | {"epsilon": 1 << 24}, "epsilon must be 0..16777215, not 16777216"),
    ("layernorm 1x1x8", UNIT | {"offsets": [1 << 30] * 8}, "offsets must be -1073741824..1073741823, not 1073741824"),
    ("softmax 1x1x64", {"table": POWERS, "factor": 1, "summand": 0}, "table must be 0..33554431, not 67108863"),
    ("softmax 1x1x8", {"table": POWERS[1:], "factor": 1, "summand": 0}, "table must be of shape (256,), not (255,)"),
    ("softmax 1x1x8", {"table": POWERS, "factor": 1, "summand": 0}, "factor must be 129 at least, not less"),
    ("linear 8:3", ARRAYS, "shape of weights must be (3, 8), not (2, 8)"),
    ("linear 8:2:raw", ARRAYS, "arrays must be weights, bias (bias if there is one), not also kappa"),
    ("linear 8:2 --variant nn_4x4", ARRAYS, "variant must be one of rv32im_2x1, "),
    ("depthwise 4x4x2:2x4 --requantise shift", ARRAYS, "arrays must be weights, bias, shift (bias if there is "),
    ("add 4x4x8", {"factors": [1, 2], "shifts": [1, 2]}, "arrays must be factors, summands, shifts, not wi"),
    ("add 4x4x8:shift", {"factors": [1], "shift": 1}, "factors must be [2], a number for each map, not of"),
    ("avgpool 4x4x8:2x2:scaled", {"factor": -1, "summand": 0, "shift": 1}, "factor must be at least 0, not -1"),
    ("maxpool 4x4x8:2x2 --requantise shift", {}, "requantisation must be left out with maxpool, not shift"),
    ("linear 8:2", ARRAYS | {"weights": ARRAYS["weights"] * 100}, "weights must be -128..127, not -800"),
    ("linear 8:2", ARRAYS | {"weights": ARRAYS["weights"] * 1.0}, "weights must be integers, not float64"),
    ("linear 8:2", ARRAYS | {"kappa": ARRAYS["kappa"][:1]}, "shape of kappa must be (2,), not (1,)"),
    ("linear 8:2", ARRAYS | {"shift": np.array(32)}, "shift must be 0..31, not 32"),
    ("conv 4x4x8:4x3x3", {}, "arrays must be weights, bias, kappa, lambda, shift (bias if there is one), not wi"),
)


@pytest.mark.parametrize(("words", "arrays", "text"), NOT_PACKED)
def test_what_cannot_be_packed(words, arrays, text, tmp_path, refused):
    numbers, output = tmp_path / "numbers.npz", tmp_path / "layer.c"
    np.savez(numbers, **{name: np.array(value) for name, value in arrays.items()})
    kernel, layer, *rest = words.split()
    assert refused("pack", kernel, layer, *([numbers] if arrays else []), *rest, "-o", output).startswith(text)
    assert not output.exists()


def test_files_that_are_none(weights, tmp_path, refused):
    single, text, objects = (tmp_path / name for name in ("weights.npy", "text.npz", "objects.npz"))
    np.save(single, ARRAYS["weights"])
    text.write_text("no numbers")
    np.savez(objects, weights=np.array([None]))
    for path in (single, text, objects, tmp_path / "missing.npz"):
        assert refused("pack", "linear", "8:2", path).startswith("weights must be a")
    for name in ("layer.txt", "1.c"):
        assert refused("pack", "linear", "8:2", weights, "-o", tmp_path / name).startswith("--output must ")


_BEYOND = ("mac_load_cross", "mac_load_dot", "mac_load_pair", "mixed_weights", "requantise", "requantise_exact")
FULL = replace(preset("xpulpnn-full"), **dict.fromkeys(_BEYOND, True))

LAYERS = [
    # kernel, layer, precision, rule, variant
    ("conv", "5x4x6:7x3x2:s=2x1", "8x4x4", "bn64", "nn_4x4"), ("conv", "3x3x5:6x3x3:p=0", "4x4x8", "bn32", "nn_4x2"),
    ("conv1d", "13x6:5x3:d=2,p=2", "4x4x4", "multiply", "nn_4x4"),
    ("conv1d", "9x6:5x3", "8x8x8", "shift", "xpulpv2_4x2"), ("pointwise", "3x5x9:6", "2x2x4", "thresholds", "nn_4x4"),
    ("pointwise", "1x1x9:8", "8x4x8", "bn32", "x3_4x4"), ("pointwise", "4x5x9:6:s=2", "4x4x4", "bn32", "cu_4x2"),
    ("linear", "37:10", "8x8x8", "bn32", "nn_4x1"), ("linear", "21:6", "8x2xi32", "bn32", "nn_4x1"),
    ("matmul", "6x11x5", "4x4xi32", "bn32", "simd_4x2"), ("depthwise", "6x5x5:3x3", "4x8x4", "bn32", "xpulpnn"),
    ("depthwise", "7x6x6:5x5:s=2,p=2", "8x4x4", "thresholds", "xpulpv2"),
    ("conv", "4x3x6:5x3x3:v=9", "4x4x4", "bn32", "nn_4x4"),
    ("conv1d", "9x6:5x3:d=2,p=2,v=-7", "i4x4x4", "bn32", "nn_4x2"),
    ("depthwise", "6x5x5:3x3:v=-128", "i8x8xi8", "bn32", "xpulpnn"),
    ("conv", "4x3x6:5x3x3", "8x4xi8", "exact", "x3_4x4"), ("linear", "37:10", "8x8x4", "exact", "nn_4x1"),
    ("pointwise", "3x5x9:6", "8x8x8", "exact_one_shift", "x3_4x4"),
    ("depthwise", "6x5x5:3x3:s=2,p=1", "8x8x8", "exact", "xpulpnn2"),
]  # fmt: skip


def tensors_of(case):
    name, text, widths, rule, _ = case
    kind = KERNELS[name]
    layer = kind.layer.parse(text)
    precision = kind.precision(layer, Precision.parse(widths))
    return kind, layer, precision, kind.tensors(layer, precision, np.random.default_rng(1), Rule(rule))


def saved(layer, precision, tensors) -> dict[str, np.ndarray]:
    network = Network(name="one", stages=(Stage(name="layer", layer=layer, precision=precision, tensors=tensors),))
    return {name.removeprefix("layer."): values for name, values in arrays_of(network).items()}


def pack(case) -> tuple[PackedLayer, KernelRun, np.ndarray]:
    """The packed layer, the kernel with its input, and the results by numpy."""
    kind, layer, precision, tensors = tensors_of(case)
    _, _, widths, rule, variant = case
    result = packed(kind, layer, Precision.parse(widths), variant, saved(layer, precision, tensors), Rule(rule))
    return result, kind.build(layer, precision, variant, tensors), reference(layer, tensors, precision)


def test_packed_layers_of_a_c_program_equal_numpy(tmp_path):
    layers = [pack(case) for case in LAYERS]
    assert {case[0] for case in LAYERS} == {kind.name for kind in KERNELS.values() if kind.rules}
    # an output with most values equal would hide wrong ones
    assert all(np.unique(expected, return_counts=True)[1].max() <= expected.size // 2 for *_, expected in layers)
    functions: dict[str, KernelRun] = {}
    for kernel, _, precision, rule, variant in LAYERS:
        chosen = Selection(kernels=[kernel], precisions=[Precision.parse(precision)], variants=[variant])
        chosen = replace(chosen, rule=Rule(rule), outside=True)
        functions |= {run.name: run for run in library_functions(chosen, FULL)}
    called, sources = [], ['#include "xpulpnn_kernels.h"']
    for number, (layer, run, _) in enumerate(layers):
        name = f"layer{number}"
        (tmp_path / f"{name}.h").write_text(c_header(layer, name, defines=number == 0))
        if number:
            (tmp_path / f"{name}.c").write_text(c_source(layer, name))
        content = run.image.view("input").view("<u4").tolist()
        buffer = f", buffers[{number}]" if layer.buffer_bytes else ""
        sources += [
            f'#include "{name}.h"',
            f"static const uint32_t input{number}[] = {{{', '.join(map(str, content))}}};",
            f'_Static_assert(sizeof(input{number}) == {name}_input_bytes, "input");',
            f"uint32_t output{number}[{name}_output_bytes / 4];",
        ]
        structure = layer.run.structure.name
        called += [
            f"    const struct {structure} a{number} = {name}_arguments(input{number}, output{number}{buffer});",
            f"    for (uint32_t core = 0; core < 2; ++core) {name}_function(&a{number}, core, 2);",
        ]
    most = max(layer.buffer_bytes for layer, _, _ in layers)
    buffers = f"static uint32_t buffers[{len(layers)}][{2 * most // 4}];"
    (tmp_path / "main.c").write_text("\n".join([*sources, buffers, "int main(void) {", *called, "    return 0;", "}"]))
    for path, text in texts(list(functions.values()), "xpulpnn-full", "").items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    library = tmp_path / "libxpulpnn.a"
    objects(list(functions.values()), library, compiler=None, options=Options(config=FULL))
    elf = tmp_path / "main.elf"
    options = Options(config=FULL, include=(tmp_path, tmp_path / "include"), extra=("-Wall", "-Werror"))
    parts = [tmp_path / f"layer{number}.c" for number in range(1, len(layers))]
    build([tmp_path / "main.c", *parts, library], elf, options=options)
    ran = run_program(elf, FULL)
    assert ran.end.text == "pass"
    for number, (layer, run, expected) in enumerate(layers):
        memory = run.image.data.copy()
        got = ran.read(f"output{number}", layer.output_bytes)
        run.image.view("output", memory)[:] = np.frombuffer(got, np.uint8)
        np.testing.assert_array_equal(run.output.decode(run.image, memory), expected, str(LAYERS[number]))


def test_every_kernel_has_a_function_and_each_one_name():
    selection = Selection(precisions=[Precision.parse("8x8x8"), Precision.parse("i8x8xi8")])
    functions = list(library_functions(selection, preset("ri5cy")))
    names = [run.name for run in functions]
    assert len(names) == len(set(names))
    assert {name.split("_")[1] for name in names} == set(KERNELS)
    text = kernels_header(functions)
    assert all(text.count(f"void {name}(") == 1 for name in names)
    assert not any("nn" in run.variant.name for run in functions)
    known = {"xp_maxpool_3x3_s2x2_8x8_xpulpv2", "xp_relu_i8xi8_xpulpv2", "xp_add_shift_8x8x8_xpulpv2"}
    assert known < set(names)


def test_functions_of_another_rule_have_other_names():
    chosen = Selection(kernels=["conv1d"], precisions=[Precision.parse("4x4x4")])
    other = replace(chosen, rule=Rule.THRESHOLDS)
    first, second = ({run.name for run in library_functions(selection, FULL)} for selection in (chosen, other))
    assert first.isdisjoint(second)
