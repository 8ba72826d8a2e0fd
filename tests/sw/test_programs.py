"""Kernels as functions of C programs, on the instruction-set simulator, with every compiler that is installed."""

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.elf import load
from xpulpnn_sim.golden import layers
from xpulpnn_sim.iss.session import Session
from xpulpnn_sw.kernels.conv import conv_kernel
from xpulpnn_sw.kernels.matmul import matmul_kernel
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.programs.c_program import CProgram, c_program
from xpulpnn_sw.programs.function import kernel_function
from xpulpnn_sw.toolchain import Options, build, find

pytestmark = pytest.mark.flow

FULL = preset("xpulpnn-full")
CONV = ConvLayer.parse("4x5x6:5x3x3:s=2x1")
ENOUGH = 10_000_000
CASES = [("rv32im_2x2", 8), ("xpulpv2_4x2", 2), ("simd_4x2", 8), ("cu_4x2", 2), ("nn_4x2", 4), ("nn_4x4", 8)]


def compiler(name: str) -> str:
    try:
        find(name)
    except ToolError:
        pytest.skip(f"{name} is not installed")
    return name


def run_program(program: CProgram, name: str, folder) -> tuple[str, Session, dict[str, int]]:
    elf = folder / "program.elf"
    build(program.write(folder), elf, compiler=compiler(name), options=Options(config=FULL))
    executable = load(elf)
    printed = bytearray()
    session = Session(executable, FULL, output=lambda output: printed.extend(output.data))
    assert session.run(ENOUGH).text == "pass", printed.decode()
    return printed.decode(), session, dict(executable.symbols)


@pytest.mark.parametrize(("variant", "bits"), CASES)
def test_a_convolution_called_from_c_equals_plain_c_and_numpy(variant, bits, tmp_path):
    tensors = random_tensors(CONV, bits, np.random.default_rng(1), requantise=True)
    run = conv_kernel(CONV, bits, variant, tensors)
    program = c_program(run, tensors)
    printed, session, symbols = run_program(program, "gcc", tmp_path)
    assert printed.endswith("0 wrong bytes\n")
    output = run.image.symbols["output"].length
    memory = run.image.data.copy()
    run.image.view("output", memory)[:] = np.frombuffer(
        session.memory.read_bytes(symbols[f"{program.name}_output"], output), np.uint8
    )
    pads = layers.Pads(*CONV.padding)
    sums = layers.conv(tensors.activations, tensors.weights, tensors.bias, CONV.stride, pads)
    after = tensors.requantisation
    expected = layers.quantise_bn(sums, after.kappa, after.lam, after.shift, bits)
    np.testing.assert_array_equal(run.output.decode(run.image, memory), expected)


def test_the_other_compiler_gives_the_same_results(tmp_path):
    tensors = random_tensors(CONV, 4, np.random.default_rng(2), requantise=True)
    printed, _, _ = run_program(c_program(conv_kernel(CONV, 4, "nn_4x4", tensors), tensors), "zig", tmp_path)
    assert printed.endswith("0 wrong bytes\n")


def test_a_matrix_product_with_accumulators_called_from_c(tmp_path):
    layer = MatmulLayer.parse("6x20x5")
    tensors = random_tensors(layer, 8, np.random.default_rng(3), requantise=False)
    printed, _, _ = run_program(c_program(matmul_kernel(layer, 8, "nn_4x2", tensors), tensors), "gcc", tmp_path)
    assert printed.endswith("0 wrong bytes\n")


def test_a_wrong_weight_is_noticed(tmp_path):
    tensors = random_tensors(CONV, 8, np.random.default_rng(4), requantise=True)
    program = c_program(conv_kernel(CONV, 8, "nn_4x4", tensors), tensors)
    files = dict(program.files)
    name = f"{program.name}_tensors.S"
    before, after = files[name].split(f"{program.name}_filters:\n    .byte ", 1)
    first, rest = after.split(",", 1)
    files[name] = f"{before}{program.name}_filters:\n    .byte {(int(first) + 128) % 256},{rest}"
    program = CProgram(program.name, files, program.sources)
    elf = tmp_path / "program.elf"
    build(program.write(tmp_path), elf, compiler=compiler("gcc"), options=Options(config=FULL))
    assert not Session(load(elf), FULL, output=lambda output: None).run(ENOUGH).ok


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_becomes_a_function_without_absolute_addresses(variant):
    tensors = random_tensors(CONV, 8, np.random.default_rng(5), requantise=True)
    run = conv_kernel(CONV, 8, variant, tensors)
    text = kernel_function(run)
    assert text.count(".word") + len(run.relocations) == len(run.program.words)
    base, end = run.image.base, run.image.base + run.image.data.size
    words = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith("    .word")]
    pages = {word >> 12 for word in words if word & 0x7F == 0x37}
    assert not {page for page in pages if base >> 12 <= page <= end >> 12}


def test_interleaved_rows_have_no_plain_c_version():
    layer = MatmulLayer.parse("8x16x4")
    tensors = random_tensors(layer, 8, np.random.default_rng(6), requantise=False)
    interleaved = next(name for name, variant in VARIANTS.items() if variant.interleaved)
    with pytest.raises(InputError, match=f"^variant must be one with plain activation rows .*, not {interleaved}$"):
        c_program(matmul_kernel(layer, 8, interleaved, tensors), tensors)
