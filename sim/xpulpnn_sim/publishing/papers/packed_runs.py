"""Runs of packed products."""

from dataclasses import dataclass

from xpulpnn.config import preset
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, MOST_CYCLES
from xpulpnn_sim.api.packed_sweeps import USUAL_MATMUL, Wanted, sweep_points
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.packed_products import Point, run_point
from xpulpnn_sim.publishing.papers.runs import Record
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
