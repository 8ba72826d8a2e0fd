"""XpulpNN: inner loops, MatMul, whole convolutions, eight cores, twice the banks."""

from collections.abc import Iterator
from dataclasses import replace

from xpulpnn_sim.publishing.papers.table import (
    USUAL_BANKS,
    PaperRun,
    PaperTable,
    Published,
    TableRow,
    printed,
    speed_up,
)
from xpulpnn_sw.kernels.figures import PAPER_LAYER

_MATMUL = "64x288x256"
_MATMUL_IN_CLUSTER = "64x288x128"  # of the same layer; half the pixels, so that the results fit into the TCDM

_CORES = 8
_MORE_BANKS = 32
_PER_PRODUCT = "cycles_per_sdotp"


def _matmul(variant: str, bits: int) -> PaperRun:
    return PaperRun(kernel="matmul", layer=_MATMUL, precision=f"{bits}x{bits}xi32", variant=variant)


def _conv(variant: str, bits: int, cores: int | None = _CORES) -> PaperRun:
    return PaperRun(kernel="conv", layer=PAPER_LAYER, precision=f"{bits}x{bits}x{bits}", variant=variant, cores=cores)


def _rows() -> Iterator[TableRow]:
    products = printed("section IV-C", {"simd_4x2": "0.57", "cu_4x2": "0.80"})
    products |= printed("section IV-D", {"nn_4x2": "0.88", "nn_4x4": "0.94"})
    for variant, published in products.items():
        figure, run = f"inner loop of {variant}, 8 bit: products per instruction", _matmul(variant, 8)
        yield TableRow(figure=figure, unit="", published=published, run=run, field="opef", better="more")
    figure, published = "MatMul nn_4x4, 8 bit: cycles per SIMD product", Published("1.08", "section IV-D")
    yield TableRow(figure=figure, unit="cycles", published=published, run=_matmul("nn_4x4", 8), field=_PER_PRODUCT)
    matmuls = printed(
        "section IV-D",
        {
            ("cu_4x2", "simd_4x2", 8): "1.39",
            ("nn_4x2", "cu_4x2", 8): "1.10",
            ("nn_4x2", "simd_4x2", 8): "1.53",
            ("nn_4x4", "nn_4x2", 8): "1.07",
            ("nn_4x4", "simd_4x2", 8): "1.65",
        },
    )
    matmuls |= printed("section VI-B", {("nn_4x4", "simd_4x2", 4): "1.66", ("nn_4x4", "simd_4x2", 2): "1.56"})
    for (variant, base, bits), published in matmuls.items():
        figure = f"MatMul {variant} over {base}, {bits} bit"
        yield speed_up(figure, published, _matmul(variant, bits), _matmul(base, bits), field=_PER_PRODUCT)
    simd = printed("section VI-B", {("simd_4x2", 8): "1.55", ("simd_4x2", 4): "1.45", ("simd_4x2", 2): "1.32"})
    xpulpv2 = printed("section VI-C", {("xpulpv2_4x2", 8): "1.6", ("xpulpv2_4x2", 4): "6", ("xpulpv2_4x2", 2): "8.7"})
    for (base, bits), published in {**simd, **xpulpv2}.items():
        figure = f"whole convolution nn_4x4 over {base}, {bits} bit, {_CORES} cores"
        yield speed_up(figure, published, _conv("nn_4x4", bits), _conv(base, bits), quick=False)
    for bits in (8, 4, 2):
        figure = f"whole convolution nn_4x4, {bits} bit: {_CORES} cores over one"
        yield speed_up(figure, None, _conv("nn_4x4", bits), _conv("nn_4x4", bits, 1), quick=False)
    for variant, published in (("cu_4x2", Published("1.05", "section V-A")), ("nn_4x2", None)):
        figure = f"MatMul {variant}, 8 bit, {_CORES} cores: {_MORE_BANKS} banks over {USUAL_BANKS}"
        more, usual = (
            replace(_matmul(variant, 8), layer=_MATMUL_IN_CLUSTER, cores=_CORES, banks=banks)
            for banks in (_MORE_BANKS, USUAL_BANKS)
        )
        yield speed_up(figure, published, more, usual, better="", quick=False)


TABLE = PaperTable(
    name="xpulpnn",
    title="XpulpNN: inner loops, MatMul, whole convolutions",
    printed_by="XpulpNN: Enabling Energy Efficient and Flexible Inference of Quantized Neural Networks on RISC-V based "
    "IoT End Nodes, IEEE TETC 2021",
    rows=tuple(_rows()),
    notes=(
        (
            f"Layer {PAPER_LAYER}; MatMul alone: {_MATMUL} (channels x reduction x pixels), in clusters "
            f"{_MATMUL_IN_CLUSTER}. One core: the back end, on memory that answers in the next cycle. Clusters: "
            f"{USUAL_BANKS} banks, instructions fetched without delay."
        ),
        (
            "xpulpv2_4x2 is the fastest kernel of RI5CY's instructions, on the same core. It is scheduled by hand as "
            "all of ours are: where both sides of a ratio are faster than the paper's, the ratio may be smaller."
        ),
        "The paper calls the speed-up over the cores near-linear, and twice the banks almost no gain for nn_4x2.",
    ),
)
