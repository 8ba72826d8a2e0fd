"""The gather: words that neighbours share are read once; groups down the columns copy only rows new to them."""

from collections import Counter

import numpy as np
import pytest

from xpulpnn_sim.reference.iss.kernel_calls import executed, kernel_memory
from xpulpnn_sw.kernels.catalogue import find_kernel, kernel_of
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_call
from xpulpnn_sw.layers.layer import ImageConvLayer
from xpulpnn_sw.layers.precision import Precision

from .runs import alternating, built, check_named

LAYERS = {
    "columns beside the input left and right, rows above and below": ("9x8x8:4x3x3:p=1", "8x8x8"),
    "the only group of a row has columns beside it on both sides": ("3x4x8:4x3x3:p=1", "4x4x4"),
    "nothing beside the input, an odd number of words": ("5x6x4:4x3x3:p=0", "8x8x8"),
    "another value around the input": ("5x8x16:4x3x3:p=1,v=1", "2x2x2"),
    "two columns beside the input": ("4x8x4:4x3x5:p=1x1x2x2", "8x8x8"),
    "the same with another value": ("4x4x8:4x5x5:p=2,v=5", "8x8x8"),
    "a column of the filters beside the input for all pixels": ("4x8x4:4x3x6:p=1x1x4x1", "8x8x8"),
    "the same on both sides, steps of two, another value": ("7x9x8:4x4x11:p=1x1x8x9,s=2,v=3", "4x4x4"),
    "an input as wide as a group reaches": ("5x3x8:4x3x3:p=1x1x1x2", "4x4x4"),
    "an input that is narrower": ("5x2x8:4x3x3:p=1x1x2x2", "4x4x4"),
    "filters of two columns": ("5x8x8:4x3x2:p=1x1x0x1", "4x4x4"),
    "steps of two, of whose rows one is known": ("9x17x8:4x3x3:s=2", "8x4x8"),
    "steps of two in x alone": ("5x15x4:4x3x3:p=1,s=1x2", "8x8x8"),
    "rows that step further than filters reach": ("7x8x4:4x2x3:p=0x0x1x1,s=2x1", "8x8x8"),
    "a row of groups": ("1x8x4:4x3x3:p=1", "8x8x8"),
    "one strip is longer than the buffer": ("20x4x16:4x3x3:p=1", "8x8x8"),
    "groups go on in the next row": ("4x6x8:4x3x3:p=1", "8x8x8"),
}


@pytest.mark.flow
@pytest.mark.parametrize(("name", "cores", "specialise"), alternating(LAYERS, (1, 3), (False, True)))
def test_layers(name: str, cores: int, specialise: bool):
    layer, precision = LAYERS[name]
    check_named("conv", layer, precision, "x3_4x4", cores=cores, specialise=specialise)


def words_copied(run: KernelRun) -> tuple[int, int]:
    function, seen = run.function, Counter[str]()
    for positions in executed(run, kernel_call(run), kernel_memory(run)):
        for position in positions.tolist():
            if position < len(function) and function.regions[position] == "im2col":
                seen[function.insns[position].mnemonic] += 1
    return seen["p.lw"], seen["p.sw"]


@pytest.mark.flow
@pytest.mark.parametrize("specialise", [False, True])
def test_rows_of_the_input_are_read_once_in_a_strip(specialise: bool):
    """Six columns of the twelve rows that ten groups meet, in each of two strips: half as many loads as stores."""
    words, strips, rows = 4, 8 // 4, 12
    run = built("conv", "12x10x32:4x3x3:p=0", "4x4x4", "x3_4x4", specialise=specialise)
    assert words_copied(run) == (strips * rows * 6 * words, strips * rows * 4 * 3 * words)


@pytest.mark.flow
def test_rows_of_an_image_are_read_once_in_a_strip():
    """Three words of each of twelve rows for each of four pixels, in two strips."""
    layer = ImageConvLayer.parse("10x8x3:4x3x3:image")
    tensors = find_kernel("conv").tensors(layer, Precision.uniform(8), np.random.default_rng(1))
    run = kernel_of(layer).build(layer, Precision.uniform(8), "x3_4x4", tensors, specialise=True)
    assert words_copied(run) == (2 * 12 * 4 * 3, 2 * 12 * 4 * 3)


@pytest.mark.flow
@pytest.mark.parametrize(("bits", "words"), [(8, 8), (4, 4), (2, 2)])
def test_words_are_read_once_in_a_group(bits: int, words: int):
    """Four neighbours meet six columns: half as many loads as stores."""
    groups, rows = 4 * 8 // 4, 3
    run = built("conv", "6x10x32:4x3x3:p=0", f"{bits}x{bits}x{bits}", "nn_4x4", seed=bits)
    assert words_copied(run) == (groups * rows * 6 * words, groups * rows * 4 * 3 * words)


@pytest.mark.parametrize(("layer", "is_down"), [
    ("16x4x8:4x5x5:p=2,s=2x1", True), ("8x8x8:4x5x5:p=2,s=3x1", False), ("4x18x32:4x3x7:s=2x1,p=1x0x2x2", False),
    ("5x3x8:4x3x3:p=1x1x1x2", True), ("5x2x8:4x3x3:p=1x1x2x2", False),
])  # fmt: skip
def test_groups_go_down_where_that_copies_less(layer: str, is_down: bool):
    run = built("conv", layer, "8x8x8", "x3_4x4", specialise=True)
    room, field = run.arguments["buffer_stride"], 4 * run.arguments["row_stride"]
    assert (room > field + (16 + 32) * 4) is is_down


@pytest.mark.parametrize(("placement", "banks"), [("padded", 2), ("aligned", None)])
def test_rows_of_all_cores_begin_two_banks_behind_the_filters(placement: str, banks: int | None):
    run = built("conv", "8x8x8:8x3x3:p=1", "8x8x8", "x3_4x4", cores=3, placement=placement)
    arguments = run.arguments
    assert arguments["buffer_stride"] // 4 % 32 == 0
    if banks is not None:
        assert (arguments["buffer"] - arguments["weights"]) // 4 % 32 == banks


@pytest.mark.parametrize(("cores", "groups"), [(1, 8), (3, 6), (16, 1)])
def test_buffers_have_room_for_the_groups_of_a_core(cores: int, groups: int):
    """Those of a column at most: 24 words a row, three rows for the first group and one for each of the others."""
    run = built("conv", "8x8x8:8x3x3:p=1", "8x8x8", "x3_4x4", cores=cores)
    assert run.arguments["buffer_stride"] == -(-(24 * (2 + groups) + 16) // 32) * 32 * 4
