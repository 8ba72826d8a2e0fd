"""Instructions of whole pixel groups, counted by hand: words read once, requantisation of a block; shares of blocks."""

from collections import Counter

import numpy as np
import pytest

from xpulpnn_sim.reference.iss.session import executed, kernel_memory
from xpulpnn_sw.kernels.kernel import kernel_call
from xpulpnn_sw.kernels.requantisation import Rule

from .runs import built, check_named, computed, run_share


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


@pytest.mark.flow
@pytest.mark.parametrize(("layer", "precision", "rule", "variant"), [
    ("3x3x16:32", "8x8x8", Rule.EXACT_ONE_SHIFT, "x3_4x4"),
    ("3x3x16:64", "4x4x4", Rule.EXACT, "x2_4x4"),
    ("2x5x16:64", "2x2x2", Rule.BN32, "x2_4x2"),
    ("3x3x8:32", "8x8x4", Rule.THRESHOLDS, "x3_4x4"),
    ("3x3x8:32", "8x8xi32", Rule.BN32, "nn_4x4"),
])  # fmt: skip
def test_cores_share_channels_where_groups_do_not_go_round(layer: str, precision: str, rule: Rule, variant: str):
    """Also on fewer cores than the function is made for, and on numbers that only two parts suit."""
    run, *_ = check_named("pointwise", layer, precision, variant, rule=rule, cores=8, specialise=True)
    products = [run_share(run, core, 8, kernel_memory(run))[0] for core in range(8)]
    assert max(products) < sum(products) / 5
    np.testing.assert_array_equal(computed(run, 3), computed(run, 8))
    check_named("pointwise", layer, precision, variant, rule=rule, cores=6, specialise=True)
