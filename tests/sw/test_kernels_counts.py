"""Instruction counts of the kernels, from their text and their streams alone."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.conv import conv_kernel
from xpulpnn_sw.kernels.figures import PAPER_LAYER, PAPER_OPEF, estimate, paper_cycles_per_sdotp
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS, variant
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layout import ImageBuilder

pytestmark = pytest.mark.unit

INNER = {
    ("rv32im_2x2", 8): (17, 4),
    ("rv32im_2x2", 4): (119, 32),
    ("rv32im_2x2", 2): (231, 64),
    ("xpulpv2_1x2", 8): (5, 2),
    ("xpulpv2_2x2", 8): (8, 4),
    ("xpulpv2_4x2", 8): (14, 8),
    ("xpulpv2_2x2", 4): (38, 8),
    ("xpulpv2_2x2", 2): (74, 16),
    ("xpulpv2_4x2", 4): (72, 16),
    ("xpulpv2_4x2", 2): (140, 32),
    ("simd_4x2", 8): (14, 8),
    ("simd_4x2", 4): (14, 8),
    ("simd_4x2", 2): (14, 8),
    ("cu_4x2", 8): (10, 8),
    ("cu_4x2", 2): (10, 8),
    ("nn_4x2", 8): (9, 8),
    ("nn_4x2", 4): (9, 8),
    ("nn_4x4", 8): (17, 16),
    ("nn_4x4", 4): (17, 16),
    ("nn_4x4", 2): (17, 16),
}
"""Instructions and products of an inner iteration."""

TAKEN_BRANCH = 3
JUMP = 2


@cache
def paper_kernel(name: str, bits: int) -> KernelRun:
    layer = ConvLayer.parse(PAPER_LAYER)
    return conv_kernel(layer, bits, name, random_tensors(layer, bits, np.random.default_rng(0)))


def load_uses(run: KernelRun) -> NDArray[np.bool_]:
    """Which executed instructions use what the one before loads."""
    program, indices = run.program, run.stream.indices().astype(np.int64)
    loaded = np.zeros(len(program), dtype=np.int64)
    reads = np.zeros((len(program), 32), dtype=np.bool_)
    for position, (insn, word) in enumerate(zip(program.insns, program.words.tolist(), strict=True)):
        values = insn.decode(word)
        loaded[position] = values["rd"] if insn.is_load else 0
        for name in insn.reads:
            reads[position, values["rs3" if name == "rd" and "rs3" in values else name]] = True
    before = loaded[indices[:-1]]
    return np.append(False, (before != 0) & reads[indices[1:], before])


def cycles(run: KernelRun, region: str | None = None) -> int:
    """Cycles on the core: one per instruction, taken branches, jumps, and uses of a value just loaded."""
    program, indices = run.program, run.stream.indices().astype(np.int64)
    taken = np.append(indices[1:] != indices[:-1] + 1, False)
    jumps = np.array([insn.is_jump for insn in program.insns])[indices]
    branches = np.array([insn.is_branch for insn in program.insns])[indices]
    cost = 1 + (branches & taken) * (TAKEN_BRANCH - 1) + jumps * (JUMP - 1) + load_uses(run)
    if region is not None:
        cost = cost[program.region(region)[indices]]
    return int(cost.sum())


@pytest.mark.parametrize(("name", "bits"), INNER)
def test_inner_loop(name: str, bits: int):
    instructions, products = INNER[name, bits]
    program = paper_kernel(name, bits).program
    # narrow blocks are repeated until they fill an output byte
    copies = max(1, 8 // bits // variant(name).nch)
    assert int(program.inner.sum()) == instructions * copies
    assert int((program.inner & (program.is_dotp | program.is_mul)).sum()) == products * copies
    assert variant(name).products_per_iteration(bits) == products
    assert program.opef == products / instructions
    if name in PAPER_OPEF:
        assert program.opef == pytest.approx(PAPER_OPEF[name])


@pytest.mark.parametrize(("name", "bits"), INNER)
def test_no_load_use(name: str, bits: int):
    """Nothing waits for a load, neither in the MatMul nor in the requantisation."""
    run = paper_kernel(name, bits)
    indices = run.stream.indices()
    waits = load_uses(run)
    # the only accumulator of a 1x2 block is copied right after its bias is loaded
    copies = 256 // 2 * 64 if name == "xpulpv2_1x2" else 0
    assert int(waits[run.program.region("matmul")[indices]].sum()) == copies
    assert int(waits[run.program.region("quant")[indices]].sum()) == 0


@pytest.mark.parametrize(
    ("name", "bits", "limit"),
    [
        ("simd_4x2", 8, 1.78),
        ("cu_4x2", 8, 1.28),
        ("nn_4x2", 8, 1.165),
        ("nn_4x4", 8, 1.08),
        ("xpulpv2_4x2", 4, 4.80),
        ("xpulpv2_4x2", 2, 4.56),
    ],
)
def test_matmul_reaches_the_paper(name: str, bits: int, limit: float):
    run = paper_kernel(name, bits)
    assert cycles(run, "matmul") / run.stream.steps < limit
    assert paper_cycles_per_sdotp(run.layer, bits, name) == limit


@pytest.mark.parametrize(("bits", "least"), [(8, 3.26), (4, 5.96), (2, 10.2)])
def test_convolution_reaches_the_estimate(bits: int, least: float):
    run = paper_kernel("nn_4x4", bits)
    assert run.layer.macs / cycles(run) >= least


@pytest.mark.parametrize(("name", "bits"), INNER)
def test_close_to_the_estimate(name: str, bits: int):
    """Never more than the estimate's instructions plus a few per cent, which an unintended stall would exceed."""
    run = paper_kernel(name, bits)
    guess = estimate(run.layer, bits, name)
    assert guess is not None
    assert cycles(run) <= 1.03 * 1000 * guess.kilocycles


@pytest.mark.parametrize("name", VARIANTS)
def test_stream_counts(name: str):
    """Every product of the layer is executed once; each region is a part of the whole."""
    run = paper_kernel(name, 4)
    assert run.stream.products == run.layer.macs
    assert run.stream.steps == run.layer.macs // (1 if name == "rv32im_2x2" else 32 // run.variant.row_bits(4))
    regions = ("setup", "im2col", "matmul", "quant")
    assert sum(map(run.stream.region_instructions, regions)) == run.stream.instructions
    assert sum(map(len, run.stream.blocks())) == run.stream.instructions


def test_only_the_needed_extensions():
    for name, chosen in VARIANTS.items():
        for bits in chosen.widths:
            used = {insn.extension for insn in paper_kernel(name, bits).program.insns if insn.extension.value[0] == "X"}
            assert used <= chosen.extensions


def test_rejected():
    layer = ConvLayer.parse("4x4x4:4x3x3")
    tensors = random_tensors(layer, 8, np.random.default_rng(0))
    with pytest.raises(LayerError, match=r"^variant must be one of rv32im_2x2, .*, nn_4x4, not nn_8x8$"):
        conv_kernel(layer, 8, "nn_8x8", tensors)
    with pytest.raises(LayerError, match=r"^bits of xpulpv2_4x2 must be one of 8,4,2, not 16$"):
        conv_kernel(layer, 16, "xpulpv2_4x2", tensors)
    other = ConvLayer.parse("5x4x4:4x3x3")
    with pytest.raises(LayerError, match=r"^shape of activations must be \(5, 4, 4\), not \(4, 4, 4\)$"):
        conv_kernel(other, 8, "nn_4x4", tensors)


def test_memory_limit():
    with pytest.raises(LayerError, match=r"^operands must be at most 134217728 bytes, not 134217729$"):
        ImageBuilder().reserve("output", (1 << 27) + 1)
