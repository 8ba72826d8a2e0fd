"""XpulpNN: inner loops, MatMul, whole convolutions, eight cores, twice the banks."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.runs import USUAL_BANKS, KernelRun
from xpulpnn_sim.publishing.papers.table import Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import (
    BANK_GAIN,
    CONV_RATIOS,
    CYCLES_PER_SDOTP,
    MATMUL_RATIOS,
    OPEF,
    PAPERS,
)
from xpulpnn_sw.kernels.figures import PAPER_LAYER

NAME = "xpulpnn"

_MATMUL = "64x288x256"
_MATMUL_IN_CLUSTER = "64x288x128"  # of the same layer; half the pixels, so that the results fit into the TCDM

_CORES = 8
_MORE_BANKS = 32


def _matmul(variant: str, bits: int) -> KernelRun:
    return KernelRun(kernel="matmul", layer=_MATMUL, precision=f"{bits}x{bits}xi32", variant=variant)


def _conv(variant: str, bits: int, cores: int | None = _CORES) -> KernelRun:
    return KernelRun(kernel="conv", layer=PAPER_LAYER, precision=f"{bits}x{bits}x{bits}", variant=variant, cores=cores)


def _shared_matmul(variant: str, banks: int) -> KernelRun:
    return KernelRun(
        kernel="matmul",
        layer=_MATMUL_IN_CLUSTER,
        precision="8x8xi32",
        variant=variant,
        cores=_CORES,
        banks=banks,
    )


def _rows() -> Iterator[Row]:
    for variant, published in OPEF.items():
        yield Row(
            figure=f"inner loop of {variant}, 8 bit: products per instruction",
            unit="",
            published=published,
            ours=Quantity(run=_matmul(variant, 8), field="opef"),
            better="more",
        )
    yield Row(
        figure="MatMul nn_4x4, 8 bit: cycles per SIMD product",
        unit="cycles",
        published=CYCLES_PER_SDOTP,
        ours=Quantity(run=_matmul("nn_4x4", 8), field="cycles_per_sdotp"),
    )
    for (variant, base, bits), published in MATMUL_RATIOS.items():
        yield Row(
            figure=f"MatMul {variant} over {base}, {bits} bit",
            unit="x",
            published=published,
            ours=Quantity(run=_matmul(variant, bits), field="cycles_per_sdotp", over=_matmul(base, bits)),
            better="more",
        )
    for (base, bits), published in CONV_RATIOS.items():
        yield Row(
            figure=f"whole convolution nn_4x4 over {base}, {bits} bit, {_CORES} cores",
            unit="x",
            published=published,
            ours=Quantity(run=_conv("nn_4x4", bits), over=_conv(base, bits)),
            better="more",
            quick=False,
        )
    for bits in (8, 4, 2):
        yield Row(
            figure=f"whole convolution nn_4x4, {bits} bit: {_CORES} cores over one",
            unit="x",
            published=None,
            ours=Quantity(run=_conv("nn_4x4", bits), over=_conv("nn_4x4", bits, 1)),
            better="more",
            quick=False,
        )
    for variant, published in (("cu_4x2", BANK_GAIN), ("nn_4x2", None)):
        yield Row(
            figure=f"MatMul {variant}, 8 bit, {_CORES} cores: {_MORE_BANKS} banks over {USUAL_BANKS}",
            unit="x",
            published=published,
            ours=Quantity(run=_shared_matmul(variant, _MORE_BANKS), over=_shared_matmul(variant, USUAL_BANKS)),
            better="",
            quick=False,
        )


TABLE = Table(
    name=NAME,
    title="XpulpNN: inner loops, MatMul, whole convolutions",
    printed_by=PAPERS[NAME],
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
