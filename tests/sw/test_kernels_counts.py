"""Instruction counts of the kernels, from their text and what the simulator executes; im2col of whole pixel groups."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from xpulpnn.isa.machine import Cost
from xpulpnn_sim.reference.iss.kernel import executed, kernel_memory
from xpulpnn_sim.reference.iss.session import Observer
from xpulpnn_sw.kernels.figures import PAPER_LAYER, PAPER_OPEF, estimate, paper_cycles_per_sdotp
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_call
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.kernels.program import REGIONS, Program
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.convolution import ConvLayer
from xpulpnn_sw.layers.precision import Precision

from .runs import built, check, hart_before

_INNER = {
    "rv32im_2x2": {8: (17, 4), 4: (119, 32), 2: (231, 64)},
    "xpulpv2_1x2": {8: (5, 2)},
    "xpulpv2_2x2": {8: (8, 4), 4: (38, 8), 2: (74, 16)},
    "xpulpv2_4x2": {8: (14, 8), 4: (72, 16), 2: (140, 32)},
    "simd_4x2": dict.fromkeys((8, 4, 2), (14, 8)),
    "cu_4x2": dict.fromkeys((8, 2), (10, 8)),
    "nn_4x2": dict.fromkeys((8, 4), (9, 8)),
    "nn_4x4": dict.fromkeys((8, 4, 2), (17, 16)),
    "x2_4x2": dict.fromkeys((8, 4, 2), (8, 8)),
    "x2_4x4": dict.fromkeys((8, 4, 2), (16, 16)),
}
INNER = {(name, bits): counts for name, widths in _INNER.items() for bits, counts in widths.items()}
"""Instructions and products of an inner iteration."""

TAKEN_BRANCH, JUMP = (1 + cost.cycles for cost in (Cost.TAKEN_BRANCH, Cost.JUMP))

CORNER = "4x4x32:64x3x3"
"""A sixteenth of the papers' layer: the same per pixel group but for the borders."""

FEW = "4x4x32:16x3x3"
"""A quarter of its channels."""


@dataclass(frozen=True)
class Counted:
    """What a kernel executes: positions in the program of its call, in order."""

    run: KernelRun
    program: Program
    positions: NDArray[np.int64]

    def executions(self, chosen: NDArray[np.bool_]) -> int:
        return int(chosen[self.positions].sum())


@cache
def kernel(name: str, bits: int, text: str = CORNER) -> KernelRun:
    layer, precision = ConvLayer.parse(text), Precision.uniform(bits)
    return kind("conv").build(layer, precision, name, random_tensors(layer, precision, np.random.default_rng(0)))


@cache
def counted(name: str, bits: int, text: str = CORNER) -> Counted:
    run = kernel(name, bits, text)
    call = kernel_call(run)
    return Counted(run, call.program, np.concatenate(list(executed(run, call, kernel_memory(run), products=False))))


def load_uses(kernel: Counted) -> NDArray[np.bool_]:
    """Which executed instructions use what the one before loads."""
    program, positions = kernel.program, kernel.positions
    loaded = np.zeros(len(program), dtype=np.int64)
    reads = np.zeros((len(program), 32), dtype=np.bool_)
    for position, (insn, word) in enumerate(zip(program.insns, program.words.tolist(), strict=True)):
        values = insn.decode(word)
        loaded[position] = values["rd"] if insn.is_load else 0
        for name in insn.reads:
            reads[position, values["rs3" if name == "rd" and "rs3" in values else name]] = True
    before = loaded[positions[:-1]]
    return np.append(False, (before != 0) & reads[positions[1:], before])


def cycles(kernel: Counted, *regions: str) -> int:
    """Cycles on the core: one per instruction, taken branches, jumps, and uses of a value just loaded."""
    program, positions = kernel.program, kernel.positions
    taken = np.append(positions[1:] != positions[:-1] + 1, False)
    jumps = np.array([insn.is_jump for insn in program.insns])[positions]
    branches = np.array([insn.is_branch for insn in program.insns])[positions]
    cost = 1 + (branches & taken) * (TAKEN_BRANCH - 1) + jumps * (JUMP - 1) + load_uses(kernel)
    return int(cost[np.isin(np.array(program.regions), regions)[positions]].sum())


@pytest.mark.parametrize(("name", "bits"), INNER)
def test_inner_loop(name: str, bits: int):
    instructions, products = INNER[name, bits]
    program = kernel(name, bits).function
    # narrow blocks are repeated until they fill an output byte, or a word and once more for what is left
    copies = max(1, 8 // bits // VARIANTS[name].nch)
    if name.startswith("x2"):
        copies = {8: 1, 4: 2 + 1, 2: 4 + 1}[bits]
    assert int(program.inner.sum()) == instructions * copies
    assert int((program.inner & (program.is_dotp | program.is_mul)).sum()) == products * copies
    assert program.opef == products / instructions
    if name in PAPER_OPEF:
        assert program.opef == pytest.approx(PAPER_OPEF[name])


@pytest.mark.flow
@pytest.mark.parametrize(("name", "bits"), INNER)
def test_no_load_use(name: str, bits: int):
    """Nothing in a block waits for a load; a pixel group may once."""
    this = counted(name, bits, FEW)
    waits = load_uses(this)
    groups = this.run.layer.pixels // this.run.variant.npx
    for region in ("matmul", "quant"):
        assert int(waits[this.program.region(region)[this.positions]].sum()) <= groups


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
    this = counted(name, bits)
    assert cycles(this, "matmul") / this.executions(this.program.is_dotp) < limit
    assert paper_cycles_per_sdotp(ConvLayer.parse(PAPER_LAYER), bits, name) == limit


@pytest.mark.flow
@pytest.mark.parametrize(
    ("name", "bits", "most"),
    [
        *(("nn_4x4", bits, most) for bits, most in ((8, 1), (4, 0.9996), (2, 0.9948))),
        *(("xpulpv2_4x2", 8, 1.03), ("simd_4x2", 4, 1.03), ("cu_4x2", 2, 1.03), ("nn_4x2", 2, 1.03)),
    ],
)
def test_convolution_reaches_the_estimate(name: str, bits: int, most: float):
    """Never more than the estimate's cycles, or a few per cent, which an unintended stall would exceed."""
    this = counted(name, bits, PAPER_LAYER)
    guess = estimate(this.run.layer, bits, name)
    assert guess is not None
    assert cycles(this, *REGIONS) <= most * 1000 * guess.kilocycles


@pytest.mark.parametrize("name", VARIANTS)
def test_products(name: str):
    """Every product of the layer is executed once; each instruction belongs to one region."""
    this = counted(name, 4, FEW)
    assert int(this.program.products[this.positions].sum()) == this.run.layer.macs
    assert sum(map(this.executions, map(this.program.region, REGIONS))) == len(this.positions)


@pytest.mark.parametrize("bits", [8, 4, 2])
@pytest.mark.parametrize("name", ["x2_4x2", "x2_4x4"])
def test_requantisation(name: str, bits: int):
    """An instruction for each result, two loads for each channel of a block, a store for each word of a pixel.

    What else belongs to a block are the pointer of the next one's activations and their first word.
    """
    this = counted(name, bits)
    chosen, layer = this.run.variant, this.run.layer
    results, groups = layer.pixels * layer.out_channels, layer.pixels // chosen.npx
    blocks = groups * layer.out_channels // chosen.nch
    executed_insns = [this.program.insns[position] for position in this.positions if position < len(this.run.function)]
    ops = Counter(insn.op for insn in executed_insns)
    assert ops["pv.rqu"] == results
    assert ops["pv.rqld"] == 2 * chosen.nch * blocks
    assert ops["pv.mldot"] == chosen.nch * chosen.npx * blocks
    requantising = this.executions(this.program.region("quant"))
    stores = results * bits // 32
    # with four pixels also the way back from the last one's word to the first one's next
    back = stores // chosen.npx if bits < 8 and chosen.npx > 2 else 0
    assert requantising <= results + 2 * chosen.nch * blocks + stores + 2 * blocks + back + 4 * groups


BORDERS = [
    # all around; rows above and below at once; beside the input on both sides at once
    *("5x9x32:4x3x3", "2x8x16:4x5x3:p=2x2x1x1", "9x3x16:4x3x5:p=1x1x4x4"),
    # fields that lie outside altogether, above and beside
    *("3x6x16:4x2x2:p=3x0x0x6", "3x4x16:4x1x3:p=0x0x5x1"),
    # columns between those at the ends; narrower than the group; steps; odd runs of words
    *("4x8x8:4x3x6:p=1", "4x8x16:4x2x1:p=1", "5x9x16:4x3x3:s=1x2,p=1", "5x8x4:4x3x3"),
    # rows that end within a group
    *("5x6x16:4x3x3:p=1", "6x7x16:4x3x3:p=0"),
]
BORDER_VARIANTS = [("nn_4x4", 4), ("nn_4x2", 2), ("simd_4x2", 8)]


@pytest.mark.parametrize("specialise", [False, True], ids=["general", "specialised"])
@pytest.mark.parametrize("text", BORDERS)
def test_borders(text: str, specialise: bool):
    for name, bits in BORDER_VARIANTS:
        check(ConvLayer.parse(text), Precision.uniform(bits), name, seed=bits, specialise=specialise)


@pytest.mark.parametrize("text", ["5x8x32:4x3x3", "4x8x16:4x1x3:p=0x0x2x2", "4x8x8:4x3x3:p=1"])
def test_reads_the_input_only(text: str):
    """What lies before the input is never read, of what is behind it the first word at most."""
    run = built("conv", text, "4x4x4", "nn_4x4", seed=4)
    call, function = kernel_call(run), run.function
    hart = hart_before(run, call, kernel_memory(run))
    source, observer, seen = run.image.symbols["input"], Observer(hart), set[int]()
    # stack and arguments come by plain loads
    copies = {
        int(pc)
        for pc, insn, region in zip(function.pcs, function.insns, function.regions, strict=True)
        if region == "im2col" and insn.mnemonic == "p.lw"
    }
    while hart.state.pc != int(call.program.pcs[-1]):
        _, retired = observer.step()
        if retired.record["pc_rdata"] in copies:
            seen.add(retired.record["mem_addr"] - source.address)
    layer = run.layer
    size = layer.height * layer.width * layer.channels * 4 // 8
    assert {*range(0, size, 4)} <= seen <= {*range(0, size + 4, 4)}


@pytest.mark.parametrize(("bits", "words"), [(8, 8), (4, 4), (2, 2)])
def test_words_are_read_once_in_a_group(bits: int, words: int):
    """Four neighbours meet six columns: half as many loads as stores."""
    run = built("conv", "6x10x32:4x3x3:p=0", f"{bits}x{bits}x{bits}", "nn_4x4", seed=bits)
    function, seen = run.function, Counter[str]()
    for positions in executed(run, kernel_call(run), kernel_memory(run), products=False):
        for position in positions.tolist():
            if position < len(function) and function.regions[position] == "im2col":
                seen[function.insns[position].mnemonic] += 1
    groups, rows = 4 * 8 // 4, 3
    assert seen["p.lw"] == groups * rows * 6 * words
    assert seen["p.sw"] == groups * rows * 4 * 3 * words


@pytest.mark.parametrize(("bits", "instructions"), [(8, 68), (4, 72), (2, 72)])
def test_requantisation_of_a_block(bits: int, instructions: int):
    """Kappa and lambda of four channels; product, shifted sum and clip of 16 results; packing and stores."""
    run = built("conv", "4x4x32:64x3x3", f"{bits}x{bits}x{bits}", "nn_4x4", seed=bits)
    function = run.function
    names = Counter(
        insn.mnemonic for insn, region in zip(function.insns, function.regions, strict=True) if region == "quant"
    )
    packing = {8: {"pv.packlo.b": 4, "pv.packhi.b": 4, "p.sw": 4}, 4: {"p.sh": 4}, 2: {"p.sb": 4}}[bits]
    block = {"p.lw": 4, "mul": 16, "p.addN": 16, "p.clipui": 16, **packing}
    assert {name: names[name] for name in block} == block
    assert names["p.inserti"] == (0 if bits == 8 else 12)
    # one of the loads of each channel leaves its pointer; another and a sum move to the next group
    assert sum(names.values()) - 2 == instructions
