"""Runs of kernels, of packed products, of the binarised classifier and of the CIFAR-10 network."""

import shlex
from dataclasses import dataclass
from typing import Any

from xpulpnn.config import BOTH_FORMS, ClusterConfig, CoreConfig, preset
from xpulpnn_sim.api.cosimulation import MOST_CYCLES, cosim
from xpulpnn_sim.api.packed_sweeps import USUAL_MATMUL, SweepRequest, sweep_points
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.workloads.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.cosimulation.workloads.packed_products import SweepPoint, run_point
from xpulpnn_sim.publishing.papers.table import Record
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.ulppack.packing import METHODS, methods
from xpulpnn_sw.kernels.ulppack.plan import best_plan
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.layer import MatmulLayer

_USUAL_BANKS = "16"  # default of a cluster


@dataclass(frozen=True, slots=True)
class CosimRun:
    """A run of ``xpulpnn cosim`` with one value per option; a kernel with ``--cores`` runs on a cluster."""

    command: str

    def measure(self, *, check: bool) -> Record:
        _, _, workload, *words = shlex.split(self.command)
        options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        if workload == "bnn":
            return _measure_classifier(check=check, **options)
        if workload == "cifar10":
            return _measure_cifar10(check=check, **options)
        case: dict[str, Any] = {
            "layers": [options["layer"]],
            "precisions": [options["precision"]],
            "variants": [options["variant"]],
            "rule": Rule(options.get("requantise", Rule.BN32)),
            "config": BOTH_FORMS,
            "check": check,
        }
        if "cores" in options:
            case |= {"cores": [int(options["cores"])], "banks": [int(options.get("banks", _USUAL_BANKS))]}
        (result,) = cosim(workload, **case)
        return result.record


def simulated_config(name: str, cores: int) -> CoreConfig | ClusterConfig:
    core = simulated(preset(name))
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


def _measure_classifier(variant: str, popcount: str, cores: str = "1", *, check: bool) -> Record:
    machine = Machine(max_cycles=MOST_CYCLES)
    config = simulated_config(BOTH_FORMS, int(cores))
    case = BnnCase(variant=variant, popcount=popcount, config=config, machine=machine, checked=check)
    return run_bnn(case).record


def _measure_cifar10(preset: str, bits: str, cores: str, *, check: bool) -> Record:
    machine = Machine(max_cycles=MOST_CYCLES)
    network, image = random_network(int(bits), machine.seed)
    config = simulated_config(preset, int(cores))
    case = NetworkCase(network=network, image=image, config=config, machine=machine, checked=check)
    return build_network(case).run().record


BIT_SERIAL, BYTES = "p.cnt", "bytes"  # products of single bits; one element per byte, with XpulpV2


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A matrix product of packed operands (several in a register) or by another method. A scheme such as ``P2-16``
    packs as many operands as are legal, all of the largest value."""

    # multiplying instruction, BIT_SERIAL, BYTES, library kernel, or scheme and register bits such as `P2-16`
    product: str
    w: int  # bits of a weight
    a: int  # bits of an activation

    @property
    def _is_depth(self) -> bool:
        return "-" in self.product

    @property
    def command(self) -> str:
        """Return the command whose table, or heat map of elements per register, contains this result."""
        if self.product in VARIANTS:
            bits = f"--bits {self.w}"
            return f"xpulpnn cosim matmul --layer {USUAL_MATMUL} {bits} --variant {self.product} --engine core"
        if self._is_depth:
            return "xpulpnn cosim ulppack --sweep overflow"
        return f"xpulpnn cosim ulppack --weights {self.w} --activations {self.a}"

    def measure(self, *, check: bool) -> Record:
        machine = Machine(max_cycles=MOST_CYCLES)
        return run_point(self._point(), simulated(preset(BOTH_FORMS)), machine, check=check).record

    def _point(self) -> SweepPoint:
        layer = MatmulLayer.parse(USUAL_MATMUL)
        request = SweepRequest(layer=layer)
        if self._is_depth:
            cell = self.product, self.w, self.a
            points = sweep_points(["overflow"], request)
            return next(point for point in points if (point.algorithm["scheme"], point.w, point.a) == cell)
        if self.product in VARIANTS:
            return SweepPoint(layer=layer, w=self.w, a=self.a, variant=self.product)
        if self.product == BIT_SERIAL:
            return SweepPoint(layer=layer, w=self.w, a=self.a)
        if self.product == BYTES:
            plan = best_plan(layer, self.w, self.a, methods("xpulpv2"), scheme=BYTES)
        else:
            plan = request.plan(self.w, self.a, [method for method in METHODS if method.product == self.product])
        assert plan is not None
        return request.point(plan)
