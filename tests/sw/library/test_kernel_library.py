"""The library of kernels: its functions are those of any layer, and packed weights give what numpy computes."""

from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.kinds import KINDS
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.functions import Selection, library_functions
from xpulpnn_sw.library.packed_layer import PackedLayer, c_header, c_source
from xpulpnn_sw.library.packing import PACKED_KERNELS, packed
from xpulpnn_sw.library.write import kernels_header, objects, texts
from xpulpnn_sw.networks.form import arrays_of
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.build_options import Options

from ..elf import run as run_program

FULL = preset("xpulpnn-full")

LAYERS = [
    # kernel, layer, precision, rule, variant
    ("conv", "5x4x6:7x3x2:s=2x1", "8x4x4", "bn64", "nn_4x4"),
    ("conv", "3x3x5:6x3x3:p=0", "4x4x8", "bn32", "nn_4x2"),
    ("conv1d", "13x6:5x3:d=2,p=2", "4x4x4", "multiply", "nn_4x4"),
    ("conv1d", "9x6:5x3", "8x8x8", "shift", "xpulpv2_4x2"),
    ("pointwise", "3x5x9:6", "2x2x4", "thresholds", "nn_4x4"),
    ("pointwise", "4x5x9:6:s=2", "4x4x4", "bn32", "cu_4x2"),
    ("linear", "37:10", "8x8x8", "bn32", "nn_4x1"),
    ("linear", "21:6", "8x2xi32", "bn32", "nn_4x1"),
    ("matmul", "6x11x5", "4x4xi32", "bn32", "simd_4x2"),
    ("depthwise", "6x5x5:3x3", "4x8x4", "bn32", "xpulpnn"),
    ("depthwise", "7x6x6:5x5:s=2,p=2", "8x4x4", "thresholds", "xpulpv2"),
    ("conv", "4x3x6:5x3x3:v=9", "4x4x4", "bn32", "nn_4x4"),
    ("conv1d", "9x6:5x3:d=2,p=2,v=-7", "i4x4x4", "bn32", "nn_4x2"),
    ("depthwise", "6x5x5:3x3:v=-128", "i8x8xi8", "bn32", "xpulpnn"),
]


def tensors_of(case):
    name, text, widths, rule, _ = case
    kind = KINDS[name]
    layer = kind.layer.parse(text)
    precision = kind.precision(layer, Precision.parse(widths))
    return kind, layer, precision, kind.tensors(layer, precision, np.random.default_rng(1), Rule(rule))


def saved(layer, precision, tensors) -> dict[str, np.ndarray]:
    """What a user would save."""
    network = Network(name="one", stages=(Stage(name="layer", layer=layer, precision=precision, tensors=tensors),))
    return {name.removeprefix("layer."): values for name, values in arrays_of(network).items()}


def pack(case) -> tuple[PackedLayer, KernelRun, np.ndarray]:
    """The packed layer, the kernel with its input, and the results by numpy."""
    kind, layer, precision, tensors = tensors_of(case)
    _, _, widths, rule, variant = case
    result = packed(kind, layer, Precision.parse(widths), variant, saved(layer, precision, tensors), Rule(rule))
    return result, kind.build(layer, precision, variant, tensors), reference(layer, tensors, precision)


@pytest.mark.flow
def test_packed_layers_of_a_c_program_equal_numpy(tmp_path):
    layers = [pack(case) for case in LAYERS]
    assert {case[0] for case in LAYERS} == set(PACKED_KERNELS)
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
    library = objects(list(functions.values()), tmp_path, compiler=None, options=Options(config=FULL))
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
    assert {name.split("_")[1] for name in names} == set(KINDS)
    text = kernels_header(functions)
    assert all(text.count(f"void {name}(") == 1 for name in names)
    assert not any("nn" in run.variant.name for run in functions)
    known = {"xp_maxpool_3x3_s2x2_8x8_xpulpv2", "xp_relu_i8xi8_xpulpv2", "xp_add_shift_8x8x8_xpulpv2"}
    assert known < set(names)


def test_functions_of_another_rule_have_other_names():
    chosen = Selection(kernels=["conv1d", "conv"], precisions=[Precision.parse("4x4x4")])
    other = replace(chosen, rule=Rule.THRESHOLDS)
    first, second = ({run.name for run in library_functions(one, FULL)} for one in (chosen, other))
    assert first.isdisjoint(second)


@pytest.mark.parametrize(
    ("selection", "named"),
    [
        (Selection(kernels=["convolution"]), "--kernels"),
        (Selection(variants=["nn_4x4"]), "--variant"),
        (Selection(kernels=["maxpool"], windows=["3"]), "layer"),
    ],
)
def test_what_no_library_can_have(selection, named):
    with pytest.raises(XpulpnnError, match=f"^{named} must be "):
        list(library_functions(selection, preset("ri5cy")))


GOOD = saved(*tensors_of(LAYERS[1])[1:])


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("shape of weights", {"weights": GOOD["weights"][..., :4]}),
        ("weights", {"weights": GOOD["weights"] + 8}),
        ("weights", {"weights": GOOD["weights"] * 1.0}),
        ("shape of kappa", {"kappa": GOOD["kappa"][:1]}),
        ("shift", {"shift": np.array(32)}),
        ("arrays", {"lambda": None}),
    ],
)
def test_what_cannot_be_packed(named, changes):
    kind, layer, precision, _ = tensors_of(LAYERS[1])
    arrays = {name: values for name, values in (GOOD | changes).items() if values is not None}
    with pytest.raises(XpulpnnError, match=f"^{named} must be "):
        packed(kind, layer, precision, "nn_4x2", arrays, Rule.BN32)
