"""PULP-NN-mixed: widths of inputs, weights and results independent of each other, 27 kernels."""

from collections.abc import Iterator
from itertools import product

from xpulpnn_sim.publishing.papers.runs import KernelRun
from xpulpnn_sim.publishing.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import MIXED_PEAK, PAPERS
from xpulpnn_sw.kernels.figures import PAPER_LAYER

NAME = "pulp-nn-mixed"

_WIDTHS = (8, 4, 2)
_CORES = 8
_FASTEST = (8, 8, 8)


def _rows() -> Iterator[Row]:
    for variant in ("xpulpv2_4x2", "nn_4x4"):
        for widths in product(_WIDTHS, repeat=3):
            precision = "x".join(map(str, widths))
            is_peak = variant == "xpulpv2_4x2" and widths == _FASTEST
            yield Row(
                figure=f"convolution {variant} {precision}, {_CORES} cores",
                unit="MAC/cycle",
                published=MIXED_PEAK if is_peak else None,
                ours=Quantity(
                    run=KernelRun(kernel="conv", layer=PAPER_LAYER, precision=precision, variant=variant, cores=_CORES),
                    field="macs_per_cycle",
                ),
                better="more",
                quick=False,
                place=Place(f"convolution on {_CORES} cores: MAC per cycle by widths", variant, precision),
            )


TABLE = Table(
    name=NAME,
    title="PULP-NN-mixed: 27 combinations of widths",
    printed_by=PAPERS[NAME],
    rows=tuple(_rows()),
    notes=(
        (
            f"Layer {PAPER_LAYER}, widths of inputs x weights x results, batch normalisation in 32 bits. The paper "
            "gives the peak of its kernels; xpulpv2_4x2 has the same instructions, nn_4x4 those of XpulpNN."
        ),
    ),
)
