"""ULPPACK: packed products against a prototype on the same core, depths, and other ways to multiply."""

from collections.abc import Iterator
from dataclasses import dataclass

from xpulpnn.config import preset
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, MOST_CYCLES
from xpulpnn_sim.api.packed_sweeps import USUAL_MATMUL, Wanted, sweep_points
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.packed_products import Point, run_point
from xpulpnn_sim.publishing.papers.runs import Record
from xpulpnn_sim.publishing.papers.table import Place, Quantity, Row, Table
from xpulpnn_sim.publishing.papers.tables.published import DEEPEST, OVER_OTHERS, PAPERS, PROTOTYPE, PROTOTYPE_RIVALS
from xpulpnn_sw.kernels.ulppack.packing import METHODS
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.convolution import MatmulLayer

BIT_SERIAL, BYTES = "p.cnt", "bytes"  # products of single bits; an element in each byte, with XpulpV2


def _measured(point: Point, *, check: bool) -> Record:
    """The record of a point on the usual core."""
    machine = Machine(max_cycles=MOST_CYCLES)
    return run_point(point, simulated(preset(DEFAULT_CONFIG)), machine, check=check).record


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRun:
    """A matrix product by the best packing for an instruction, or by what it is compared with."""

    product: str  # the instruction that multiplies packed operands; or BIT_SERIAL, BYTES, a kernel of the library
    w: int  # bits of a weight and of an activation
    a: int  # bits of a weight and of an activation

    @property
    def command(self) -> str:
        """The command line whose table has the row."""
        if self.product in VARIANTS:
            bits = f"--bits {self.w}"
            return f"xpulpnn cosim matmul --layer {USUAL_MATMUL} {bits} --variant {self.product} --engine core"
        return f"xpulpnn cosim ulppack --weights {self.w} --activations {self.a}"

    def measure(self, *, check: bool) -> Record:
        """Run it; the record is that of ``cosim ulppack --json``."""
        layer = MatmulLayer.parse(USUAL_MATMUL)
        if self.product in VARIANTS:
            return _measured(Point(layer=layer, w=self.w, a=self.a, variant=self.product), check=check)
        if self.product == BIT_SERIAL:
            return _measured(Point(layer=layer, w=self.w, a=self.a), check=check)
        wanted = Wanted(layer=layer)
        if self.product == BYTES:
            return _measured(wanted.bytes_point("xpulpv2", self.w, self.a), check=check)
        plan = wanted.plan(self.w, self.a, [method for method in METHODS if method.product == self.product])
        assert plan is not None
        return _measured(wanted.point(plan), check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRun:
    """The deepest packing of a pair of widths, with the largest operands."""

    scheme: str  # with the register's bits, such as `P2-16`
    w: int  # bits of a weight and of an activation
    a: int  # bits of a weight and of an activation

    @property
    def command(self) -> str:
        """The command line whose map has the cell."""
        return "xpulpnn cosim ulppack --sweep overflow"

    def measure(self, *, check: bool) -> Record:
        """Run it; the record is that of ``cosim ulppack --sweep overflow --json``."""
        points = sweep_points(["overflow"], Wanted(layer=MatmulLayer.parse(USUAL_MATMUL)))
        cell = (self.scheme, self.w, self.a)
        (point,) = [one for one in points if (one.way["scheme"], one.w, one.a) == cell]
        return {**_measured(point, check=check), **point.facts}


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
