"""Kernels against the golden layers: the functions run on the instruction-set simulator."""

import gc

import numpy as np
import pytest

from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.reference.iss.kernel import executed, kernel_memory
from xpulpnn_sim.reference.iss.session import Observer
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.frame import SP
from xpulpnn_sw.kernels.kernel import kernel_call
from xpulpnn_sw.kernels.layout import Placement
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.convolution import ConvLayer, MatmulLayer
from xpulpnn_sw.layers.precision import Precision

from .runs import KEPT, LIMIT, built, check, check_followed, check_named, hart_before, run_share

KERNELS = [(name, bits) for name, variant in VARIANTS.items() for bits in sorted(variant.widths - {1})]
SPLITS = [2, 3, 8]
SPECIALISE = pytest.mark.parametrize("specialise", [False, True], ids=["general", "specialised"])


@SPECIALISE
@pytest.mark.parametrize(("name", "bits"), KERNELS)
def test_convolution(name: str, bits: int, specialise: bool):
    """Stride, uneven padding, partial words, blocks and pixel groups, border and interior pixels at once."""
    layer = ConvLayer.parse("3x3x3:5x2x2:s=2x1,p=1x0x1x0")
    run, _, _ = check(layer, Precision.uniform(bits), name, specialise=specialise)
    if bits == 8:
        check_followed(run)


@SPECIALISE
@pytest.mark.parametrize(("name", "bits"), KERNELS)
def test_matrix_product(name: str, bits: int, specialise: bool):
    """Accumulators without bias; two pixel groups, a partial channel block."""
    precision = Precision.uniform(bits).accumulators
    layer = MatmulLayer.parse("3x9x5")
    tensors = random_tensors(layer, precision, np.random.default_rng(bits), bias=False)
    check(layer, precision, name, tensors, specialise=specialise)


@pytest.mark.parametrize(
    ("name", "bits", "cores"), [(*chosen, SPLITS[number % len(SPLITS)]) for number, chosen in enumerate(KERNELS)]
)
def test_shares_of_a_convolution(name: str, bits: int, cores: int):
    """Buffers of their own, borders and odd runs in every share; strides and padding that differ in the two directions
    say where a share begins; with eight cores some have nothing to do."""
    check(ConvLayer.parse("7x4x4:4x3x3:s=2x1,p=2x1x1x0"), Precision.uniform(bits), name, cores=cores)


@pytest.mark.parametrize("specialise", [False, True])
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", ["rv32im_2x2", "nn_4x4"])
def test_cores_take_turns_that_begin_one_later_each(name: str, cores: int, specialise: bool):
    """What a core writes are the groups of its turns; none is computed twice, nor one that is not there."""
    run = built("conv", "7x6x4:4x2x3:s=1x2", "8x8x8", name, seed=5, cores=cores, specialise=specialise)
    layer, output, pixel_bytes = run.layer, run.image.symbols["output"], run.output.pixel_bytes
    fill = bytes([255, 0, 255, 0])
    writers: dict[int, list[int]] = {}
    products = 0
    for core in range(cores):
        memory = kernel_memory(run)
        memory.write_bytes(output.address, fill * (output.length // len(fill)))
        products += run_share(run, core, cores, memory)[0]
        for group in range(-(-layer.pixels // run.variant.npx)):
            size = run.variant.npx * pixel_bytes
            content = memory.read_bytes(output.address + group * size, size)
            if any(content[at : at + len(fill)] != fill for at in range(0, size, len(fill))):
                writers.setdefault(group, []).append(core)
    assert writers == {group: [(group + group // cores) % cores] for group in writers}
    groups = -(-layer.pixels // run.variant.npx)
    assert len(writers) == groups
    assert products == groups * run.variant.npx * layer.reduction * layer.out_channels


@pytest.mark.parametrize(("placement", "banks"), [("padded", 2), ("aligned", 0)])
@pytest.mark.parametrize("name", ["simd_4x2", "cu_4x2", "nn_4x4"])
def test_pieces_are_so_many_banks_apart(name: str, placement: Placement, banks: int):
    """Weight streams and im2col buffers, of 16 and of 32 banks of words."""
    run, _, _ = check_named("conv", "4x4x8:8x3x3", "8x8x8", name, seed=4, cores=3, placement=placement)
    strides = [run.arguments["weight_stride"], run.arguments["buffer_stride"]]
    assert [stride // 4 % 32 for stride in strides] == [banks, banks]
    assert run.stack_top(2) - run.stack_top(0) == 2 * (2048 + 8 * banks)


SHAPES = [
    # leftover pixels 3 and 2 of 4, with bias from the second channel block on
    ("1x7x4:8x1x1:p=0", 8),
    ("2x3x8:6x1x1:p=0", 4),
    # channels that fill no word, nor the output byte
    ("2x2x5:3x2x2:p=0", 4),
    ("2x2x7:9x1x2:p=0", 2),
    # kernel larger than the input, all pixels on the border; fields without any of the input
    ("1x1x4:4x3x3", 8),
    ("2x2x4:4x2x2:p=4", 8),
    # kernel wider, then higher than the input alone, padding behind it
    ("4x1x4:4x2x3:p=0x0x0x3", 8),
    ("1x4x4:4x3x2:p=0x3x0x0", 8),
    # long runs, and odd ones
    ("2x2x20:4x2x2:p=0", 8),
    ("3x8x52:4x3x3", 8),
    # one column: a new row after each pixel
    ("5x1x8:4x2x1:p=0", 8),
]


@pytest.mark.parametrize("name", ["rv32im_2x2", "xpulpv2_1x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4"])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_shapes(name: str, number: int):
    """Specialised and general functions by turns."""
    text, bits = SHAPES[number]
    check(ConvLayer.parse(text), Precision.uniform(bits), name, specialise=bool((number + len(name)) % 2))


@SPECIALISE
def test_long_rows(specialise: bool):
    """Pointers move further than a 12-bit immediate."""
    check(MatmulLayer.parse("5x600x2"), Precision.uniform(8), "nn_4x4", specialise=specialise)


def test_one_function_for_every_layer_of_a_kind():
    texts = ["3x3x3:5x2x2:s=2x1,p=1x0x1x0", "1x7x4:8x1x1:p=0", "4x4x40:16x3x3"]
    runs = [built("conv", text, "8x8x8", "nn_4x4") for text in texts]
    assert len({run.name for run in runs}) == 1
    assert len({run.function.words.tobytes() for run in runs}) == 1


@pytest.mark.parametrize(("name", "bits"), [one for one in KERNELS if one[1] in (8, 2)])
def test_calling_convention(name: str, bits: int):
    """The registers of the caller come back; sp, gp and tp are never anything but what a handler expects."""
    run = built("conv", "3x4x8:4x3x3", f"{bits}x{bits}x{bits}", name, specialise=KERNELS.index((name, bits)) % 2 == 0)
    call, memory = kernel_call(run), kernel_memory(run)
    hart = hart_before(run, call, memory)
    kept = {register_number(name): value for name, value in KEPT.items()}
    for register, value in kept.items():
        hart.state.regs[register] = value
    hart.run(1 << 10, until=int(call.program.pcs[0]))
    top = hart.state.regs[SP]
    untouched = [register_number("gp"), register_number("tp")]
    stack, observer, seen = run.image.symbols["stack"], Observer(hart), set()
    while hart.state.pc != int(call.program.pcs[-1]):
        step, retired = observer.step()
        assert step.cause is None
        assert hart.executed < LIMIT
        seen.add(hart.state.regs[SP])
        # below sp is what an interrupt handler may overwrite
        assert not stack.address <= retired.record.get("mem_addr", 0) < hart.state.regs[SP]
        assert all(hart.state.regs[register] == kept[register] for register in untouched)
    # two values: that of the caller and that below the frame
    assert len(seen) == 2
    assert max(seen) == top
    assert min(seen) % 16 == top % 16 == 0
    assert {register: hart.state.regs[register] for register in kept} == kept


def test_a_trap_is_not_taken_for_execution():
    run = built("matmul", "4x8x4", "8x8x8", "nn_4x4")
    run.function.words[20] = 0
    with pytest.raises(XpulpnnError, match=r"^kernel must not trap, not with cause 2$"):
        list(executed(run, kernel_call(run), kernel_memory(run)))


@pytest.mark.flow
def test_a_call_leaves_no_garbage():
    """What the simulator made of instructions goes with the call; a search for it took half the time of short calls."""
    run = built("matmul", "4x8x4", "8x8x8", "nn_4x4")
    call, memory = kernel_call(run), kernel_memory(run)
    gc.collect()
    list(executed(run, call, memory))
    assert memory.watchers == []
    assert gc.collect() < len(call.program)
