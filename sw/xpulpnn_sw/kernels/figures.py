"""Published and estimated performance of kernels, for comparison with measurements.

Paper values are from "XpulpNN" (TETC 2021), figures 8 and 11 and section VI-C. Estimates count the instructions and
stalls of hand-written kernels with the same inner loops, one core with ideal memory, for the two layers of the paper.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xpulpnn_sw.layers.layer import ConvLayer, Layer

PAPER_LAYER = "16x16x32:64x3x3"  # layer of the paper's single-core figures
PAPER_LARGE_LAYER = "32x32x32:64x3x3"  # second layer of the paper's cluster figures

PAPER_CYCLES_PER_SDOTP: Mapping[tuple[str, int], float] = {
    ("simd_4x2", 8): 1.78,
    ("cu_4x2", 8): 1.28,
    ("nn_4x2", 8): 1.165,
    ("nn_4x4", 8): 1.08,
    # 1.20 and 1.14 cycles per MAC, four MACs per sdotp
    ("xpulpv2_4x2", 4): 4.80,
    ("xpulpv2_4x2", 2): 4.56,
}
"""MatMul cycles per sdotp by variant and width; the paper prints 1.08, and the other numbers follow from its ratios."""


@dataclass(frozen=True, slots=True)
class KernelEstimate:
    cycles_per_sdotp: float | None  # MatMul alone; per scalar MAC in RV32IM; None if only the whole was estimated
    kilocycles: float  # the whole convolution, in thousands
    macs_per_cycle: float  # the whole convolution


_BITS = (8, 4, 2)

_ESTIMATES: Mapping[str, Mapping[str, tuple[tuple[float | None, float, float], ...]]] = {
    PAPER_LAYER: {
        "rv32im_2x2": ((4.760, 22680, 0.21), (3.792, 18284, 0.26), (3.651, 17616, 0.27)),
        "xpulpv2_1x2": ((2.569, 3199, 1.47),),
        "xpulpv2_2x2": ((2.045, 2581, 1.83), (4.795, 5908, 0.80), (4.670, 5756, 0.82)),
        "xpulpv2_4x2": ((1.783, 2271, 2.08), (4.533, 5598, 0.84), (4.408, 5446, 0.87)),
        "simd_4x2": ((1.783, 2271, 2.08), (1.816, 1212, 3.89), (1.882, 682, 6.92)),
        "cu_4x2": ((1.299, 1700, 2.78), (1.347, 935, 5.05), (1.444, 553, 8.54)),
        "nn_4x2": ((1.167, 1544, 3.06), (1.208, 853, 5.53), (1.292, 508, 9.30)),
        "nn_4x4": ((1.092, 1446, 3.26), (1.122, 792, 5.96), (1.181, 465, 10.15)),
        "x2_4x4": ((None, 1279, 3.69), (None, 663, 7.12), (None, 353, 13.36)),
    },
    PAPER_LARGE_LAYER: {
        "rv32im_2x2": ((4.760, 90712, 0.21), (3.792, 73128, 0.26), (3.651, 70455, 0.27)),
        "xpulpv2_1x2": ((2.569, 12790, 1.48),),
        "xpulpv2_2x2": ((2.045, 10316, 1.83), (4.795, 23623, 0.80), (4.670, 23015, 0.82)),
        "xpulpv2_4x2": ((1.783, 9079, 2.08), (4.533, 22386, 0.84), (4.408, 21778, 0.87)),
        "simd_4x2": ((1.783, 9079, 2.08), (1.816, 4839, 3.90), (1.882, 2720, 6.94)),
        "cu_4x2": ((1.299, 6793, 2.78), (1.347, 3733, 5.06), (1.444, 2203, 8.57)),
        "nn_4x2": ((1.167, 6170, 3.06), (1.208, 3406, 5.54), (1.292, 2023, 9.33)),
        "nn_4x4": ((1.092, 5779, 3.27), (1.122, 3162, 5.97), (1.181, 1853, 10.19)),
    },
}
"""Fields of :class:`KernelEstimate` by layer and variant, for 8, 4 and 2 bits; of ``xpulpv2_1x2`` for 8 bits only."""

_SET_UP = 3  # cycles to set up a block's loop and the activation pointer of the next block
_BLOCK_END = 8 + 16  # cycles of a block's parameters and results
_GROUP_BEGIN, _GROUP = 15, 63  # cycles of a group of four pixels: pointers and first words; the rest without the copy


def _pair_estimate(layer: ConvLayer, bits: int) -> KernelEstimate:
    blocks_of_group, words, groups = layer.out_channels // 4, layer.reduction * bits // 32, layer.pixels // 4
    # four stores and a step back to the first pixel, shared by the blocks that fill a word
    stores = (4 + 1) / (8 / bits)
    matmul = groups * (blocks_of_group * (8 * words + _SET_UP) + _GROUP_BEGIN)
    rows = (layer.out_height + layer.kernel_height - 1) * layer.out_width // 4
    columns = (4 + layer.kernel_width - 1) + 4 * layer.kernel_width
    copied = rows * columns * layer.channels * bits // 32
    total = matmul + groups * (blocks_of_group * (_BLOCK_END + stores) + _GROUP) + copied
    dotps = groups * blocks_of_group * 16 * words
    return KernelEstimate(matmul / dotps, total / 1000, layer.macs / total)


def estimate(layer: Layer, bits: int, variant: str) -> KernelEstimate | None:
    if not isinstance(layer, ConvLayer):
        return None
    if variant == "x3_4x4" and bits in _BITS and str(layer) in _ESTIMATES:
        return _pair_estimate(layer, bits)
    estimates = dict(zip(_BITS, _ESTIMATES.get(str(layer), {}).get(variant, ()), strict=False))
    return KernelEstimate(*estimates[bits]) if bits in estimates else None


def paper_cycles_per_sdotp(layer: Layer, bits: int, variant: str) -> float | None:
    return PAPER_CYCLES_PER_SDOTP.get((variant, bits)) if str(layer) == PAPER_LAYER else None


PUBLIC_CYCLES: Mapping[tuple[str, str, int], int] = {
    ("add", "16x16x32", 8): 145_000,
    ("add", "16x16x32", 4): 242_000,
    ("add", "16x16x32", 2): 243_000,
    ("avgpool", "16x16x32:2x2:s=2:scaled", 8): 137_000,
    ("avgpool", "16x16x32:2x2:s=2:scaled", 4): 86_000,
    ("avgpool", "16x16x32:2x2:s=2:scaled", 2): 65_000,
    ("depthwise", "16x16x32:3x3", 8): 390_000,
    ("depthwise", "16x16x32:3x3", 4): 716_000,
    ("maxpool", "32x32x32:3x3:s=2,p=0x1x0x1", 8): 82_000,
    ("maxpool", "32x32x32:3x3:s=2,p=0x1x0x1", 4): 45_000,
    ("maxpool", "32x32x32:3x3:s=2,p=0x1x0x1", 2): 27_000,
}
"""Cycles of the public PULP-NN kernels in C, compiled by GCC with -O2, on one core, by kernel, layer and element width.
The 8-bit depthwise kernel is specialised for this window, the 4-bit kernel is for any window. The sizes of the pools
are not published but inferred: an average pooling that reads each channel's window separately and multiplies, with a
division before all loops, needs more than 60 cycles per result, hence 2048 results."""
