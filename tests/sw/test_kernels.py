"""Kernels against the golden layers on the instruction-set simulator, the counts of their instructions, and im2col."""

import gc
from collections.abc import Collection
from itertools import pairwise

import numpy as np
import pytest

from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.reference.iss.kernel_calls import executed, kernel_memory
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.figures import PAPER_LAYER, estimate, paper_cycles_per_sdotp
from xpulpnn_sw.kernels.frame import SP
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_call
from xpulpnn_sw.kernels.layout import REGIONS, Placement
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import ConvLayer, MatmulLayer
from xpulpnn_sw.layers.precision import Precision

from . import runs
from .runs import built, check, check_named, counted, kernel

KERNELS = [(name, bits) for name, variant in VARIANTS.items() for bits in sorted(variant.widths - {1})]
SPLITS = [2, 3, 8]
SPECIALISE = pytest.mark.parametrize("specialise", [False, True], ids=["general", "specialised"])


# each variant specialised for some of its widths
@pytest.mark.parametrize(
    ("name", "bits", "specialise"), [(*chosen, number % 2 == 1) for number, chosen in enumerate(KERNELS)]
)
def test_convolution_and_matrix_product(name: str, bits: int, specialise: bool):
    layer = ConvLayer.parse("3x3x3:5x2x2:s=2x1,p=1x0x1x0")
    check(layer, Precision.uniform(bits), name, specialise=specialise)
    if (name, bits) == ("nn_4x4", 8):
        # pointers move further than a 12-bit immediate
        check(MatmulLayer.parse("5x600x2"), Precision.uniform(8), name, specialise=specialise)
    precision = Precision.uniform(bits).accumulators
    layer = MatmulLayer.parse("3x9x5")
    tensors = random_tensors(layer, precision, np.random.default_rng(bits), bias=False)
    check(layer, precision, name, tensors, specialise=specialise)


@pytest.mark.parametrize(
    ("name", "bits", "cores"), [(*chosen, SPLITS[number % len(SPLITS)]) for number, chosen in enumerate(KERNELS)]
)
def test_shares_of_a_convolution(name: str, bits: int, cores: int):
    check(ConvLayer.parse("7x4x4:4x3x3:s=2x1,p=2x1x1x0"), Precision.uniform(bits), name, cores=cores)


@pytest.mark.parametrize("specialise", [False, True])
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", ["rv32im_2x2", "nn_4x4"])
def test_cores_take_turns_that_begin_one_later_each(name: str, cores: int, specialise: bool):
    run = built("conv", "7x6x4:4x2x3:s=1x2", "8x8x8", name, seed=5, cores=cores, specialise=specialise)
    layer, output, pixel_bytes = run.layer, run.image.symbols["output"], run.output.pixel_bytes
    fill = bytes([255, 0, 255, 0])
    writers: dict[int, list[int]] = {}
    products = 0
    for core in range(cores):
        memory = kernel_memory(run)
        memory.write_bytes(output.address, fill * (output.length // len(fill)))
        products += runs.run_share(run, core, cores, memory)[0]
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
    run, _, _ = check_named("conv", "4x4x8:8x3x3", "8x8x8", name, seed=4, cores=3, placement=placement)
    strides = [run.arguments["weight_stride"], run.arguments["buffer_stride"]]
    assert [stride // 4 % 32 for stride in strides] == [banks, banks]
    assert run.stack_top(2) - run.stack_top(0) == 2 * (2048 + 8 * banks)


SHAPES = [
    # leftover pixels 3 and 2 of 4, with bias from the second channel block on
    ("1x7x4:8x1x1:p=0", 8), ("2x3x8:6x1x1:p=0", 4),
    # channels that fill no word, nor the output byte
    ("2x2x5:3x2x2:p=0", 4), ("2x2x7:9x1x2:p=0", 2),
    # kernel larger than the input, all pixels on the border; fields without any of the input
    ("1x1x4:4x3x3", 8), ("2x2x4:4x2x2:p=4", 8),
    # kernel wider, then higher than the input alone, padding behind it
    ("4x1x4:4x2x3:p=0x0x0x3", 8), ("1x4x4:4x3x2:p=0x3x0x0", 8),
    # long runs, and odd ones
    ("2x2x20:4x2x2:p=0", 8), ("3x8x52:4x3x3", 8),
    # one column: a new row after each pixel
    ("5x1x8:4x2x1:p=0", 8),
]  # fmt: skip


@pytest.mark.parametrize("name", ["rv32im_2x2", "xpulpv2_1x2", "simd_4x2", "cu_4x2", "nn_4x2", "nn_4x4"])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_shapes(name: str, number: int):
    text, bits = SHAPES[number]
    check(ConvLayer.parse(text), Precision.uniform(bits), name, specialise=bool((number + len(name)) % 2))


def test_one_function_for_every_layer_of_a_kind():
    texts = ["3x3x3:5x2x2:s=2x1,p=1x0x1x0", "1x7x4:8x1x1:p=0", "4x4x40:16x3x3"]
    several = [built("conv", text, "8x8x8", "nn_4x4") for text in texts]
    assert len({run.name for run in several}) == 1
    assert len({run.function.words.tobytes() for run in several}) == 1


@pytest.mark.flow
@pytest.mark.parametrize(("name", "bits"), [pair for pair in KERNELS if pair[1] in (8, 2)])
def test_calling_convention(name: str, bits: int):
    """The registers of the caller come back; sp, gp and tp are never anything but what a handler expects."""
    run = built("conv", "3x4x8:4x3x3", f"{bits}x{bits}x{bits}", name, specialise=KERNELS.index((name, bits)) % 2 == 0)
    call, memory = kernel_call(run), kernel_memory(run)
    hart = runs.hart_before(run, call, memory)
    preserved = {register_number(name): value for name, value in runs.PRESERVED.items()}
    for register, value in preserved.items():
        hart.state.regs[register] = value
    hart.run(1 << 10, until=int(call.program.pcs[0]))
    top = hart.state.regs[SP]
    untouched = [register_number("gp"), register_number("tp")]
    stack, seen = run.image.symbols["stack"], set()
    while hart.state.pc != int(call.program.pcs[-1]):
        retired = hart.step().retired
        assert retired.cause is None
        assert hart.executed < runs.LIMIT
        seen.add(hart.state.regs[SP])
        # below sp is what an interrupt handler may overwrite
        assert not stack.address <= retired.record.get("mem_addr", 0) < hart.state.regs[SP]
        assert all(hart.state.regs[register] == preserved[register] for register in untouched)
    # two values: that of the caller and that below the frame
    assert len(seen) == 2
    assert max(seen) == top
    assert min(seen) % 16 == top % 16 == 0
    assert {register: hart.state.regs[register] for register in preserved} == preserved


@pytest.mark.flow
def test_a_trap_is_not_taken_for_execution():
    run = built("matmul", "4x8x4", "8x8x8", "nn_4x4")
    run.function.words[20] = 0
    with pytest.raises(XpulpnnError, match=r"^kernel must not trap, not with cause 2$"):
        list(executed(run, kernel_call(run), kernel_memory(run)))


@pytest.mark.flow
def test_a_call_leaves_no_garbage():
    """Translated instructions go with the call; a search for it took half the time of short calls."""
    run = built("matmul", "4x8x4", "8x8x8", "nn_4x4")
    call, memory = kernel_call(run), kernel_memory(run)
    gc.collect()
    list(executed(run, call, memory))
    assert memory.watchers == []
    assert gc.collect() < len(call.program)


_INNER = {
    "rv32im_2x2": {8: (17, 4), 4: (119, 32), 2: (231, 64)}, "xpulpv2_1x2": {8: (5, 2)},
    # of single bits a word of 32 products, with p.cnt
    "xpulpv2_2x2": {8: (8, 4), 4: (38, 8), 2: (74, 16), 1: (16, 4)},
    "xpulpv2_4x2": {8: (14, 8), 4: (72, 16), 2: (140, 32), 1: (30, 8)}, "simd_4x2": dict.fromkeys((8, 4, 2), (14, 8)),
    "cu_4x2": dict.fromkeys((8, 2), (10, 8)), "nn_4x2": dict.fromkeys((8, 4), (9, 8)),
    "nn_4x4": dict.fromkeys((8, 4, 2, 1), (17, 16)), "x2_4x2": dict.fromkeys((8, 4, 2), (8, 8)),
    "x2_4x4": dict.fromkeys((8, 4, 2), (16, 16)), "x3_4x4": dict.fromkeys((8, 4, 2), (8, 16)),
}  # fmt: skip
INNER = {(name, bits): counts for name, widths in _INNER.items() for bits, counts in widths.items()}
"""Instructions and products of an inner iteration."""

FEW = "4x4x32:16x3x3"


# products per instruction of the inner loops ("XpulpNN", TETC 2021, section IV)
PAPER_OPEF = {"simd_4x2": 8 / 14, "cu_4x2": 8 / 10, "nn_4x2": 8 / 9, "nn_4x4": 16 / 17}


@pytest.mark.parametrize(("name", "bits"), INNER)
def test_inner_loop(name: str, bits: int):
    instructions, products = INNER[name, bits]
    program = kernel(name, bits).function
    # narrow blocks are repeated until they fill an output byte, or a word and once more for what is left
    copies = max(1, 8 // bits // VARIANTS[name].nch)
    if name.startswith(("x2", "x3")):
        copies = {8: 1, 4: 2 + 1, 2: 4 + 1}[bits]
    assert int(program.is_inner.sum()) == instructions * copies
    assert int((program.dotps + program.is_mul)[program.is_inner].sum()) == products * copies
    assert program.opef == products / instructions == pytest.approx(PAPER_OPEF.get(name, program.opef))


@pytest.mark.flow
@pytest.mark.parametrize(("name", "bits"), INNER)
def test_no_load_use(name: str, bits: int):
    """Nothing in a block waits for a load; a pixel group may once."""
    this = counted(name, bits, FEW)
    waits = runs.load_uses(this)
    groups = this.run.layer.pixels // this.run.variant.npx
    for region in ("matmul", "quant"):
        assert int(waits[this.program.region(region)[this.positions]].sum()) <= groups


PAPER_LIMITS = {("simd_4x2", 8): 1.78, ("cu_4x2", 8): 1.28, ("nn_4x2", 8): 1.165, ("nn_4x4", 8): 1.08}
PAPER_LIMITS |= {("xpulpv2_4x2", 4): 4.80, ("xpulpv2_4x2", 2): 4.56}
LEAST = {8: 3.26, 4: 5.96, 2: 10.2}
"""Cycles of a dot product at most, and products a cycle of nn_4x4 at least."""


@pytest.mark.parametrize(("name", "bits"), PAPER_LIMITS)
def test_matmul_reaches_the_paper(name: str, bits: int):
    this, limit = counted(name, bits), PAPER_LIMITS[name, bits]
    assert runs.cycles(this, "matmul") / this.program.dotps[this.positions].sum() < limit
    assert paper_cycles_per_sdotp(ConvLayer.parse(PAPER_LAYER), bits, name) == limit


@pytest.mark.flow
@pytest.mark.parametrize(("name", "bits"), [
    *((name, bits) for name in ("nn_4x4", "x2_4x4") for bits in LEAST), ("simd_4x2", 4), ("cu_4x2", 2), ("nn_4x2", 2)
])  # fmt: skip
def test_close_to_the_estimate(name: str, bits: int):
    """Never more than the estimate's instructions plus a few per cent, which an unintended stall would exceed."""
    this = counted(name, bits, PAPER_LAYER)
    guess = estimate(this.run.layer, bits, name)
    assert runs.cycles(this, *REGIONS) <= 1.03 * 1000 * guess.kilocycles
    assert name != "nn_4x4" or this.run.layer.macs / runs.cycles(this, *REGIONS) >= LEAST[bits]


@pytest.mark.flow
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_two_products_are_as_counted(bits: int):
    """The cycles of the whole layer, and those of the products, less the waits that the simulator does not know."""
    this = counted("x3_4x4", bits, PAPER_LAYER)
    guess = estimate(this.run.layer, bits, "x3_4x4")
    assert runs.cycles(this, *REGIONS) == pytest.approx(1000 * guess.kilocycles, rel=0.01)
    matmul = runs.cycles(this, "matmul") / this.program.dotps[this.positions].sum()
    # of which a wait for each set-up of a loop
    assert matmul == pytest.approx(guess.cycles_per_sdotp, rel=0.01)


@pytest.mark.parametrize("name", VARIANTS)
def test_products(name: str):
    """Every product is executed once; x3_4x4 leaves two that it begins the next block with behind a group."""
    this = counted(name, 4, FEW)
    left = 2 * 8 * this.run.layer.pixels // 4 if name == "x3_4x4" else 0
    assert int(this.program.products[this.positions].sum()) == this.run.layer.macs + left
    assert sum(map(this.executions, map(this.program.region, REGIONS))) == len(this.positions)


@pytest.mark.parametrize("bits", [8, 4, 2])
@pytest.mark.parametrize("name", ["x2_4x2", "x2_4x4", "x3_4x4"])
def test_requantisation(name: str, bits: int):
    """An instruction for each result, two loads for each channel of a block, a store for each word of a pixel."""
    this = counted(name, bits)
    chosen, layer = this.run.variant, this.run.layer
    results, groups = layer.pixels * layer.out_channels, layer.pixels // chosen.npx
    blocks, stores = groups * layer.out_channels // chosen.nch, results * bits // 32
    fetched = 2 if name == "x3_4x4" else 1
    # with four pixels also the way back from the last one's word to the first one's next
    back = stores // chosen.npx if bits < 8 and chosen.npx > 2 else 0
    most = results + 2 * chosen.nch * blocks + stores + (1 + fetched) * blocks + back + 4 * groups
    assert this.executions(this.program.region("quant")) <= most


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_nothing_between_blocks_waits_for_kappa_and_lambda(bits: int):
    this = counted("x3_4x4", bits)
    program, waits = this.program, 0
    names = [program.insns[position].op for position in this.positions]
    for before, name in pairwise(names):
        waits += before == "pv.rqld" and name.startswith("pv.rq") and name != before
    blocks = this.run.layer.pixels // 4 * this.run.layer.out_channels // 4
    assert waits == (blocks if bits == 8 else 0)


def read_by(run: KernelRun, pcs: Collection[int]) -> set[int]:
    call, seen = kernel_call(run), set[int]()
    hart = runs.hart_before(run, call, kernel_memory(run))
    while hart.state.pc != int(call.program.pcs[-1]):
        retired = hart.step().retired
        if retired.record["pc_rdata"] in pcs:
            seen.add(retired.record["mem_addr"] - run.image.symbols["input"].address)
    return seen


@pytest.mark.parametrize(("rule", "ahead"), [(Rule.THRESHOLDS, 2), (Rule.BN32, 0)])
def test_pairs_read_ahead_within_the_input(rule: Rule, ahead: int):
    """Two words behind the last row are read, and are the input's; none where blocks end with the next one's words."""
    run = built("matmul", "4x9x5", "8x8x8", "x3_4x4", rule=rule)
    rows = zip(run.function.pcs, run.function.insns, run.function.words.tolist(), strict=True)
    activations = {int(pc) for pc, insn, word in rows if insn.is_pair and insn.decode(word)["t"] in (0, 1, 8, 9)}
    # two groups of four rows of three words
    assert read_by(run, activations) == {*range(0, (2 * 4 * 3 + ahead) * 4, 4)}
    assert (2 * 4 * 3 + 2) * 4 == run.image.symbols["input"].length


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


@SPECIALISE
@pytest.mark.parametrize("text", BORDERS)
def test_borders(text: str, specialise: bool):
    for name, bits in BORDER_VARIANTS:
        check(ConvLayer.parse(text), Precision.uniform(bits), name, seed=bits, specialise=specialise)


@pytest.mark.parametrize("text", ["5x8x32:4x3x3", "4x8x16:4x1x3:p=0x0x2x2", "4x8x8:4x3x3:p=1"])
def test_reads_the_input_only(text: str):
    """Memory before the input is never read, behind it the first word at most."""
    run = built("conv", text, "4x4x4", "nn_4x4", seed=4)
    # stack and arguments come by plain loads
    rows = zip(run.function.pcs, run.function.insns, run.function.regions, strict=True)
    copies = {int(pc) for pc, insn, region in rows if region == "im2col" and insn.mnemonic == "p.lw"}
    size = run.layer.height * run.layer.width * run.layer.channels * 4 // 8
    assert {*range(0, size, 4)} <= read_by(run, copies) <= {*range(0, size + 4, 4)}
