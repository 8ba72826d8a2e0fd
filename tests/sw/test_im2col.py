"""im2col of whole pixel groups: borders of every kind, words read once, nothing read beside the input."""

from collections import Counter

import pytest

from xpulpnn_sim.reference.iss.kernel import executed, kernel_memory
from xpulpnn_sim.reference.iss.observe import Observer
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_call
from xpulpnn_sw.layers.convolution import ConvLayer
from xpulpnn_sw.layers.precision import Precision

from . import runs
from .runs import check, hart_before

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
VARIANTS = [("nn_4x4", 4), ("nn_4x2", 2), ("simd_4x2", 8)]


def built(text: str, bits: int, name: str) -> KernelRun:
    return runs.built("conv", text, f"{bits}x{bits}x{bits}", name, seed=bits)


@pytest.mark.parametrize("specialise", [False, True], ids=["general", "specialised"])
@pytest.mark.parametrize("text", BORDERS)
def test_borders(text: str, specialise: bool):
    for name, bits in VARIANTS:
        check(ConvLayer.parse(text), Precision.uniform(bits), name, seed=bits, specialise=specialise)


@pytest.mark.parametrize("text", ["5x8x32:4x3x3", "4x8x16:4x1x3:p=0x0x2x2", "4x8x8:4x3x3:p=1"])
def test_reads_the_input_only(text: str):
    """What lies before the input is never read, of what is behind it the first word at most."""
    run = built(text, 4, "nn_4x4")
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
        if retired.pc in copies:
            assert retired.address is not None
            seen.add(retired.address - source.address)
    layer = run.layer
    size = layer.height * layer.width * layer.channels * 4 // 8
    assert {*range(0, size, 4)} <= seen <= {*range(0, size + 4, 4)}


@pytest.mark.parametrize(("bits", "words"), [(8, 8), (4, 4), (2, 2)])
def test_words_are_read_once_in_a_group(bits: int, words: int):
    """Four neighbours meet six columns: half as many loads as stores."""
    run = built("6x10x32:4x3x3:p=0", bits, "nn_4x4")
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
    run = built("4x4x32:64x3x3", bits, "nn_4x4")
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
