"""Instructions of whole pixel groups, counted by hand: words read once, requantisation of a block."""

from collections import Counter

import pytest

from xpulpnn_sim.reference.iss.session import executed, kernel_memory
from xpulpnn_sw.kernels.kernel import kernel_call

from .runs import built


@pytest.mark.flow
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


@pytest.mark.flow
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
