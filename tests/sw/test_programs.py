"""Kernels as functions of C programs, on the instruction-set simulator, with every compiler that is installed."""

from pathlib import Path

import numpy as np
import pytest
from tests.designs import FULL as DESIGN

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.programs.c_program import CProgram, c_program
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.toolchain.build import CompileError, Options, build

from .elf import SOURCES, Ran, run

pytestmark = pytest.mark.flow

FULL = preset("xpulpnn-full")
CONV = ConvLayer.parse("4x5x6:5x3x3:s=2x1")
CASES = [("rv32im_2x2", 8), ("cu_4x2", 2), ("nn_4x4", 4)]


def compiled(program: CProgram, folder, compiler: str = "gcc") -> Path:
    build(program.write(folder), folder / "program.elf", compiler=compiler, options=Options(config=FULL))
    return folder / "program.elf"


def check(program: CProgram, folder, compiler: str = "gcc") -> Ran:
    ran = run(compiled(program, folder, compiler), FULL)
    assert ran.end.text == "pass", ran.output
    assert ran.output.endswith("0 wrong bytes\n")
    return ran


def conv_run(bits: int, variant: str, seed: int, **options) -> tuple[KernelRun, LayerTensors]:
    precision = Precision.uniform(bits)
    tensors = random_tensors(CONV, precision, np.random.default_rng(seed))
    return find_kernel("conv").build(CONV, precision, variant, tensors, **options), tensors


@pytest.mark.parametrize(("variant", "bits"), CASES)
def test_a_convolution_called_from_c_equals_plain_c_and_numpy(variant, bits, tmp_path):
    kernel, tensors = conv_run(bits, variant, seed=1)
    program = c_program(kernel, tensors)
    ran = check(program, tmp_path)
    output = kernel.image.symbols["output"].length
    memory = kernel.image.data.copy()
    kernel.image.view("output", memory)[:] = np.frombuffer(ran.read(f"{program.name}_output", output), np.uint8)
    pads = layers.Pads(*CONV.padding)
    sums = layers.conv(tensors.activations, tensors.weights, tensors.bias, CONV.stride, pads)
    after = tensors.requantisation
    expected = layers.quantise_bn(sums, after.kappa, after.lam, after.shift, bits)
    np.testing.assert_array_equal(kernel.output.decode(kernel.image, memory), expected)


def test_a_specialised_convolution_called_from_c_with_the_other_compiler(tmp_path):
    program = c_program(*conv_run(4, "nn_4x4", seed=2, specialise=True))
    assert program.name == "conv_4x4x4_nn_4x4_4x5x6_5x3x3_s_2x1"
    check(program, tmp_path, "zig")


@pytest.mark.parametrize(
    ("kernel", "text", "variant"), [("pointwise", "5x3x8:12", "nn_4x4"), ("matmul", "6x20x5", "nn_4x2")]
)
def test_activations_that_are_rows_in_a_kernel_called_from_c(kernel: str, text: str, variant: str, tmp_path):
    layer, precision = find_kernel(kernel).layer.parse(text), find_kernel(kernel).uniform(8)
    tensors = random_tensors(layer, precision, np.random.default_rng(7))
    check(c_program(find_kernel(kernel).build(layer, precision, variant, tensors), tensors), tmp_path)


def test_a_wrong_weight_is_noticed(tmp_path):
    program = c_program(*conv_run(8, "nn_4x4", seed=4))
    files = dict(program.files)
    name = f"{program.name}_tensors.S"
    before, after = files[name].split(f"{program.name}_filters:\n    .byte ", 1)
    first, rest = after.split(",", 1)
    files[name] = f"{before}{program.name}_filters:\n    .byte {(int(first) + 128) % 256},{rest}"
    assert not run(compiled(CProgram(program.name, files, program.sources), tmp_path), FULL).end.ok


HANDLERS = """
static volatile unsigned taken;

/* Uses the stack for more than registers. */
static void handle(unsigned line) {
    volatile unsigned local[16];
    for (unsigned i = 0; i < 16; ++i) local[i] = taken + line + i;
    taken += local[15] - local[14];
}

#define HANDLER(line) void xp_irq_##line(void) { handle(line); }
""" + "".join(f"HANDLER({line})\n" for line in range(1, 32))


@pytest.mark.cosim
def test_interrupts_of_a_c_program_while_kernels_run(tmp_path):
    """On the core, about every 300 cycles: handlers are C functions, entered through the runtime's own entries."""
    program = c_program(*conv_run(8, "nn_4x4", seed=5))
    main = f"{program.name}_main.c"
    before, call, after = program.files[main].partition("    uint32_t start = xp_cycles();\n")
    assert call
    text = before.replace("int main(void)", HANDLERS + "int main(void)")
    text += "    XP_CSR_WRITE(XP_MIE, -1);\n    xp_irq_on();\n" + call
    text += after.replace("    return wrong != 0;", "    return wrong != 0 || taken < 20;")
    program = CProgram(program.name, {**program.files, main: text}, program.sources)
    elf = compiled(program, tmp_path)
    result = run_program(load(elf), DESIGN, Machine(irq_rate=1 / 300, seed=1), check=True)
    assert result.exit.ok, result.exit.text
    assert (result.mismatches, result.interrupts > 20) == (0, True)


def test_interleaved_rows_have_no_plain_c_version():
    layer, precision = MatmulLayer.parse("8x16x4"), Precision.uniform(8).accumulators
    tensors = random_tensors(layer, precision, np.random.default_rng(6))
    interleaved = next(name for name, variant in VARIANTS.items() if variant.interleaved)
    with pytest.raises(InputError, match=f"^variant must be nn_4x2 or another .*, not {interleaved}$"):
        c_program(find_kernel("matmul").build(layer, precision, interleaved, tensors), tensors)


@pytest.mark.parametrize("kernel", ["conv", "pointwise", "matmul"])
def test_every_kernel_has_a_default_with_a_c_version(kernel, tmp_path):
    assert main(["kernel", kernel, "--bits", "8", "--no-build", "--output", str(tmp_path)]) == 0


def test_instructions_of_xpulpnn_2(tmp_path):
    source, elf = SOURCES / "requantise.c", tmp_path / "program.elf"
    build([source], elf, options=Options(config=preset("xpulpnn2")))
    ran = run(elf, preset("xpulpnn2"))
    assert (ran.end.text, ran.output) == ("pass", "64 25119412 4 2\n")
    with pytest.raises(CompileError):
        build([source], elf, options=Options(config=preset("xpulpnn")))
