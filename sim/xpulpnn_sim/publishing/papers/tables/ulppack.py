"""ULPPACK: packed products and their depths, compared with a prototype on the same core and with other products."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xpulpnn.config import BOTH_FORMS, preset
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.api.packed_sweeps import USUAL_MATMUL, SweepRequest, sweep_points
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.packed_products import SweepPoint, run_point
from xpulpnn_sim.publishing.papers.table import SPEED_UP, Bar, Metric, PaperTable, Published, Record, TableRow, printed
from xpulpnn_sw.kernels.ulppack.packing import METHODS
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import MatmulLayer

BIT_SERIAL, BYTES = "p.cnt", "bytes"  # products of single bits; one element per byte, with XpulpV2


def _measured(point: SweepPoint, *, check: bool) -> Record:
    machine = Machine(max_cycles=MOST_CYCLES)
    return run_point(point, simulated(preset(BOTH_FORMS)), machine, check=check).record


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRun:
    """A matrix product with the best packing for an instruction, or a product without packing for comparison."""

    product: str  # multiplying instruction, BIT_SERIAL, BYTES, or a library kernel
    w: int  # bits of a weight
    a: int  # bits of an activation

    @property
    def command(self) -> str:
        """Return the command line that prints the table with this row."""
        if self.product in VARIANTS:
            bits = f"--bits {self.w}"
            return f"xpulpnn cosim matmul --layer {USUAL_MATMUL} {bits} --variant {self.product} --engine core"
        return f"xpulpnn cosim ulppack --weights {self.w} --activations {self.a}"

    def measure(self, *, check: bool) -> Record:
        """Run the product; return the record that ``cosim ulppack --json`` writes."""
        layer = MatmulLayer.parse(USUAL_MATMUL)
        if self.product in VARIANTS:
            return _measured(SweepPoint(layer=layer, w=self.w, a=self.a, variant=self.product), check=check)
        if self.product == BIT_SERIAL:
            return _measured(SweepPoint(layer=layer, w=self.w, a=self.a), check=check)
        request = SweepRequest(layer=layer)
        if self.product == BYTES:
            return _measured(request.bytes_point("xpulpv2", self.w, self.a), check=check)
        plan = request.plan(self.w, self.a, [method for method in METHODS if method.product == self.product])
        assert plan is not None
        return _measured(request.point(plan), check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRun:
    """The run of the deepest packing for a pair of widths, with the largest operands."""

    scheme: str  # scheme and register bits, such as `P2-16`
    w: int  # bits of a weight
    a: int  # bits of an activation

    @property
    def command(self) -> str:
        """Return the command line that draws the map with this cell."""
        return "xpulpnn cosim ulppack --sweep overflow"

    def measure(self, *, check: bool) -> Record:
        """Run the packing; return the record that ``cosim ulppack --sweep overflow --json`` writes."""
        points = sweep_points(["overflow"], SweepRequest(layer=MatmulLayer.parse(USUAL_MATMUL)))
        cell = (self.scheme, self.w, self.a)
        (point,) = [point for point in points if (point.way["scheme"], point.w, point.a) == cell]
        return {**_measured(point, check=check), **point.facts}


_CYCLES_PER_MAC = Metric(unit="cycles/MAC", field="cycles_per_mac", digits=4)
_PROTOTYPE: Mapping[str, Mapping[tuple[int, int], str]] = {
    "mul": {(1, 1): "0.653", (1, 2): "0.807", (2, 2): "0.870", (2, 4): "1.206", (3, 3): "1.237"}
    | {(4, 4): "1.604", (7, 7): "2.260"},
    "p.mac": {(1, 1): "0.369", (1, 2): "0.458", (2, 2): "0.517", (2, 4): "0.687", (3, 3): "0.703"}
    | {(4, 4): "0.889", (7, 7): "1.381"},
    "pv.sdotup.h": {(1, 1): "0.310", (1, 2): "0.350", (2, 2): "0.446", (2, 4): "0.469", (3, 3): "0.459"}
    | {(4, 4): "0.567"},
    "pv.sdotup.b": {(1, 1): "0.245"},
    "p.cnt": {(1, 1): "0.1259"},
}
"""Cycles per MAC of the prototype on this core, by instruction, and by bits of weights and activations."""

_RIVALS: Mapping[str, Mapping[int, str]] = {
    "rv32im_2x2": {8: "4.758"},
    "xpulpv2_4x2": {8: "0.4428", 4: "1.130", 2: "1.099"},
    "nn_4x4": {8: "0.2707", 4: "0.1376", 2: "0.0712"},
}
"""Cycles per MAC of products without packing, by kernel and bit width."""


_DEPTH = Metric(field="most_depth", better="more", digits=0)
_DEPTHS = printed("figure 7", {("P1-16", 1, 1): "5"})
_DEPTHS |= printed("section 3", {("P1-16", 1, 2): "4", ("P1-16", 2, 1): "4", ("P2-16", 2, 2): "3"})


def _rows() -> Iterator[TableRow]:
    for product, cells in _PROTOTYPE.items():
        for (w, a), text in cells.items():
            published, run = Published(text, "prototype"), PackedRun(product=product, w=w, a=a)
            bar = Bar(f"{USUAL_MATMUL}: cycles per MAC without packing of activations", product, f"W{w}A{a}")
            yield TableRow(f"W{w}A{a} by {product}", _CYCLES_PER_MAC, published, run, bar=bar)
    for variant, widths in _RIVALS.items():
        for bits, text in widths.items():
            published, run = Published(text, "prototype"), PackedRun(product=variant, w=bits, a=bits)
            yield TableRow(f"W{bits}A{bits} by the kernel {variant}", _CYCLES_PER_MAC, published, run)
    for (scheme, w, a), published in _DEPTHS.items():
        figure, run = f"W{w}A{a} {scheme}: operands packed into one", DepthRun(scheme=scheme, w=w, a=a)
        yield TableRow(figure, _DEPTH, published, run)
    packed = PackedRun(product="pv.sdotup.h", w=3, a=3)
    published, run = Published("1.8", "abstract, over QNNPACK"), PackedRun(product=BYTES, w=8, a=8)
    yield TableRow("W3A3 by pv.sdotup.h over bytes", SPEED_UP, published, packed, over=run)
    published, run = Published("2.7", "abstract, over bit-serial"), PackedRun(product=BIT_SERIAL, w=3, a=3)
    yield TableRow("W3A3 by pv.sdotup.h over bit-serial", SPEED_UP, published, packed, over=run)


TABLE = PaperTable(
    name="ulppack",
    title="ULPPACK: products of packed operands",
    printed_by="ULPPACK: Fast Sub-8-bit Matrix Multiply on Commodity SIMD Hardware, MLSys 2022",
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
