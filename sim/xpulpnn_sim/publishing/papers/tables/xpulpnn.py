"""XpulpNN: inner loops, MatMul, whole convolutions, eight cores, twice the banks."""

from collections.abc import Iterator

from xpulpnn_sim.publishing.papers.runs import USUAL_BANKS, CosimRun, cosim_run
from xpulpnn_sim.publishing.papers.table import SPEED_UP, Metric, PaperTable, Published, TableRow, printed
from xpulpnn_sw.kernels.figures import PAPER_LAYER

_MATMUL = "64x288x256"
_MATMUL_IN_CLUSTER = "64x288x128"  # half the pixels, so that the results fit into the TCDM

_CORES = 8
_MORE_BANKS = 32
_OPEF = Metric(field="opef", better="more")
_PRODUCT_CYCLES = Metric(unit="cycles", field="cycles_per_sdotp")
_PRODUCT_SPEED_UP = Metric(unit="x", field="cycles_per_sdotp", better="more")


def _matmul(variant: str, bits: int, layer: str = _MATMUL, **cluster: int | None) -> CosimRun:
    return cosim_run("matmul", layer=layer, precision=f"{bits}x{bits}xi32", variant=variant, **cluster)


def _conv(variant: str, bits: int, cores: int = _CORES) -> CosimRun:
    return cosim_run("conv", layer=PAPER_LAYER, precision=f"{bits}x{bits}x{bits}", variant=variant, cores=cores)


_OPERATIONS_PER_INSTRUCTION = printed("section IV-C", {"simd_4x2": "0.57", "cu_4x2": "0.80"})
_OPERATIONS_PER_INSTRUCTION |= printed("section IV-D", {"nn_4x2": "0.88", "nn_4x4": "0.94"})
_MATMULS = printed(
    "section IV-D",
    {
        ("cu_4x2", "simd_4x2", 8): "1.39",
        ("nn_4x2", "cu_4x2", 8): "1.10",
        ("nn_4x2", "simd_4x2", 8): "1.53",
        ("nn_4x4", "nn_4x2", 8): "1.07",
        ("nn_4x4", "simd_4x2", 8): "1.65",
    },
) | printed("section VI-B", {("nn_4x4", "simd_4x2", 4): "1.66", ("nn_4x4", "simd_4x2", 2): "1.56"})
_CONVOLUTIONS = {
    **printed("section VI-B", {("simd_4x2", 8): "1.55", ("simd_4x2", 4): "1.45", ("simd_4x2", 2): "1.32"}),
    **printed("section VI-C", {("xpulpv2_4x2", 8): "1.6", ("xpulpv2_4x2", 4): "6", ("xpulpv2_4x2", 2): "8.7"}),
}


def _rows() -> Iterator[TableRow]:
    for variant, published in _OPERATIONS_PER_INSTRUCTION.items():
        figure = f"inner loop of {variant}, 8 bit: products per instruction"
        yield TableRow(figure, _OPEF, published, _matmul(variant, 8))
    figure, published = "MatMul nn_4x4, 8 bit: cycles per SIMD product", Published("1.08", "section IV-D")
    yield TableRow(figure, _PRODUCT_CYCLES, published, _matmul("nn_4x4", 8))
    for (variant, base, bits), published in _MATMULS.items():
        figure = f"MatMul {variant} over {base}, {bits} bit"
        yield TableRow(figure, _PRODUCT_SPEED_UP, published, _matmul(variant, bits), over=_matmul(base, bits))
    for (base, bits), published in _CONVOLUTIONS.items():
        figure = f"whole convolution nn_4x4 over {base}, {bits} bit, {_CORES} cores"
        yield TableRow(figure, SPEED_UP, published, _conv("nn_4x4", bits), over=_conv(base, bits), quick=False)
    for bits in (8, 4, 2):
        figure = f"whole convolution nn_4x4, {bits} bit: {_CORES} cores over one"
        yield TableRow(figure, SPEED_UP, None, _conv("nn_4x4", bits), over=_conv("nn_4x4", bits, 1), quick=False)
    for variant, published in (("cu_4x2", Published("1.05", "section V-A")), ("nn_4x2", None)):
        figure = f"MatMul {variant}, 8 bit, {_CORES} cores: {_MORE_BANKS} banks over {USUAL_BANKS}"
        usual = _matmul(variant, 8, _MATMUL_IN_CLUSTER, cores=_CORES)
        more = _matmul(variant, 8, _MATMUL_IN_CLUSTER, cores=_CORES, banks=_MORE_BANKS)
        yield TableRow(figure, Metric(unit="x", better=""), published, more, over=usual, quick=False)


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
