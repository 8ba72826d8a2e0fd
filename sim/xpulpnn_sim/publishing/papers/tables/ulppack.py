"""ULPPACK: packed products against a prototype on the same core, depths, and other ways to multiply."""

from collections.abc import Iterator

from xpulpnn_sim.api.packed_sweeps import USUAL_MATMUL
from xpulpnn_sim.publishing.papers.packed_runs import BIT_SERIAL, BYTES, DepthRun, PackedRun
from xpulpnn_sim.publishing.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import DEEPEST, OVER_OTHERS, PAPERS, PROTOTYPE, PROTOTYPE_RIVALS

NAME = "ulppack"

_CHART = f"{USUAL_MATMUL}: cycles per MAC without packing of activations"
_FIELD = "cycles_per_mac"
_THREE = 3


def _rows() -> Iterator[Row]:
    for (product, w, a), published in PROTOTYPE.items():
        yield Row(
            figure=f"W{w}A{a} by {product}",
            unit="cycles/MAC",
            published=published,
            ours=Quantity(run=PackedRun(product=product, w=w, a=a), field=_FIELD),
            digits=4,
            place=Place(_CHART, product, f"W{w}A{a}"),
        )
    for (variant, bits), published in PROTOTYPE_RIVALS.items():
        yield Row(
            figure=f"W{bits}A{bits} by the kernel {variant}",
            unit="cycles/MAC",
            published=published,
            ours=Quantity(run=PackedRun(product=variant, w=bits, a=bits), field=_FIELD),
            digits=4,
        )
    for (scheme, w, a), published in DEEPEST.items():
        yield Row(
            figure=f"W{w}A{a} {scheme}: operands packed into one",
            unit="",
            published=published,
            ours=Quantity(run=DepthRun(scheme=scheme, w=w, a=a), field="most_depth"),
            better="more",
            digits=0,
        )
    packed = PackedRun(product="pv.sdotup.h", w=_THREE, a=_THREE)
    for product, bits in ((BYTES, 8), (BIT_SERIAL, _THREE)):
        yield Row(
            figure=f"W{_THREE}A{_THREE} by pv.sdotup.h over {'bytes' if product == BYTES else 'bit-serial'}",
            unit="x",
            published=OVER_OTHERS[product],
            ours=Quantity(run=packed, over=PackedRun(product=product, w=bits, a=bits)),
            better="more",
        )


TABLE = Table(
    name=NAME,
    title="ULPPACK: products of packed operands",
    printed_by=PAPERS[NAME],
    rows=tuple(_rows()),
    reference="reference",
    notes=(
        (
            f"Products {USUAL_MATMUL} (channels x reduction x pixels) on one core, memory that answers in the next "
            "cycle; the packing of the activations is left out. Prototype: the first such kernels on this core."
        ),
        (
            "The paper measures ratios on an ARM core with NEON, of 512x512x512; bytes here are pv.sdotup.b of bytes, "
            "which is four products in an instruction, bit-serial is p.cnt."
        ),
        "Depths are run with the largest operands and as many iterations as the bound allows.",
    ),
)
