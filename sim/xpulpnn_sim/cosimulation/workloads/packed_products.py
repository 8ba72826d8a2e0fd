"""Runs generated functions on one core, and sweeps of matrix products with packed operands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads import workload
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, run_case
from xpulpnn_sim.reference.golden import layers
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.kernel import Function
from xpulpnn_sw.kernels.programs.bare import bare_program
from xpulpnn_sw.kernels.ulppack.gemm import SERIAL_BLOCK, bit_serial_gemm, packed_gemm
from xpulpnn_sw.kernels.ulppack.packing import ISAS, largest
from xpulpnn_sw.kernels.ulppack.plan import PackedPlan
from xpulpnn_sw.layers.layer import MatmulLayer
from xpulpnn_sw.toolchain.build_options import core_name


class FunctionWork(workload.Workload):
    """A function with its expected results. Raises :class:`InputError` if the core lacks its instructions."""

    def __init__(
        self, function: Function, expected: NDArray[np.int64], config: CoreConfig, machine: Machine, *, checked: bool
    ) -> None:
        missing = sorted(extension.value for extension in function.extensions - config.extensions)
        if missing:
            raise InputError(f"configuration must be one with {missing[0]}, not {core_name(config)}")
        self.function, self.expected = function, expected
        self.program = bare_program(function)
        executable = workload.executable_of(self.program, function.name)
        super().__init__(config, machine, executable, macs=function.macs, checked=checked)

    def compared(self, outcome: RunResult) -> list[workload.Comparison]:
        image = self.function.image
        return [
            workload.Comparison.of(
                "output", self.expected, self.function.output.decode(image, outcome.memory[image.base])
            )
        ]

    def figures(self, outcome: RunResult, compared: Sequence[workload.Comparison]) -> dict[str, Any]:
        text = self.function.function
        (rows,) = workload.function_cycles(outcome, text, self.program.text_base)
        cycles_at = rows.sum(axis=1)
        return {
            "cycles": self.program.measured_cycles(outcome.memory[self.program.data_base]),  # of the call, by mcycle
            "instructions": int(rows[:, WaitCause.NONE].sum()),
            "region_cycles": {name: int(cycles_at[text.region(name)].sum()) for name in dict.fromkeys(text.regions)},
            "stalls": stalls_of(rows, devices=False),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    layer: MatmulLayer
    w: int  # bits of a weight
    a: int  # bits of an activation
    plan: PackedPlan | None = None  # packing of the operands; None: bit-serial, unless there is a `variant`
    variant: str | None = None  # kernel of the library to compare with; its weights are signed and `w` = `a`
    signed: bool = False  # whether weights are signed
    extreme: bool = False  # whether all operands have their greatest value instead of random ones
    sweep: str = "table"  # name of the sweep
    facts: dict[str, int] = field(default_factory=dict[str, int])  # further fields of the record

    @property
    def kind(self) -> str:
        """Kind of the algorithm: ``ulppack``, ``bytes``, ``bit-serial`` or ``library``."""
        if self.variant is not None:
            return "library"
        if self.plan is None:
            return "bit-serial"
        return "ulppack" if self.plan.packing.depth > 1 else "bytes"

    @property
    def isa(self) -> str:
        if self.variant is not None:
            needs_more = Extension.XPULPNN in KERNELS["matmul"].variant(self.variant).extensions
            return "xpulpnn" if needs_more else self.variant.split("_")[0]
        return ISAS[-1] if self.plan is None else self.plan.method.isa

    def runs_on(self, config: CoreConfig) -> bool:
        if self.variant is not None:
            chosen = KERNELS["matmul"].variant(self.variant)
            return chosen.extensions <= config.extensions and (not chosen.xpulp or self.w in config.widths)
        return self.isa == ISAS[0] or Extension.XPULPV2 in config.extensions

    @property
    def algorithm(self) -> dict[str, Any]:
        if self.variant is not None:
            block = self.variant.split("_")[-1]
            return {"product": self.variant, "scheme": None, "depth": 1, "iterations": None, "block": block}
        if self.plan is None:
            return {"product": "p.cnt", "scheme": None, "depth": 1, "iterations": None, "block": str(SERIAL_BLOCK)}
        plan = self.plan
        return {
            "product": plan.method.product,
            "scheme": plan.packing.name,
            "depth": plan.packing.depth,
            "iterations": plan.iterations,
            "block": str(plan.block),
        }

    def operands(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return weights [channel][k] and activations [pixel][k]."""
        layer, low = self.layer, -(1 << self.w - 1) if self.signed else 0
        shapes = (layer.out_channels, layer.reduction), (layer.pixels, layer.reduction)
        if self.extreme:
            return np.full(shapes[0], largest(self.w) >> self.signed), np.full(shapes[1], largest(self.a))
        random = np.random.default_rng(seed)
        weights = random.integers(low, low + (1 << self.w), shapes[0])
        return weights, random.integers(0, 1 << self.a, shapes[1])


def run_point(point: SweepPoint, config: CoreConfig, machine: Machine, *, check: bool = True) -> workload.Result:
    """Compute a matrix product on the core and compare its results; with ``check`` every retirement is checked too."""
    if point.variant is not None:
        return _library(point, config, machine, check=check)
    weights, activations = point.operands(machine.seed)
    if point.plan is None:
        function = bit_serial_gemm(point.layer, point.w, point.a, weights, activations)
    else:
        function = packed_gemm(point.plan, weights, activations, signed=point.signed)
    expected = layers.matmul(weights, activations).astype(np.int64)
    result = FunctionWork(function, expected, config, machine, checked=check).run()
    return _recorded(point, result, result.record["region_cycles"].get("im2col", 0))


def _library(point: SweepPoint, config: CoreConfig, machine: Machine, *, check: bool) -> workload.Result:
    assert point.variant is not None
    case = Case(
        layer=point.layer,
        precision=KERNELS["matmul"].uniform(point.w),
        variant=point.variant,
        config=config,
        machine=machine,
        checked=check,
    )
    case.check()
    return _recorded(point, run_case(case, "core"), 0)


def _recorded(point: SweepPoint, result: workload.Result, packing: int) -> workload.Result:
    layer, plan, measured = point.layer, point.plan, result.record
    cycles = measured["cycles"] - packing
    record = {
        "kernel": "ulppack",
        "kind": point.kind,
        "sweep": point.sweep,
        "matmul": str(layer),
        "weights": point.w,
        "activations": point.a,
        "signed": point.signed or point.variant is not None,
        "isa": point.isa,
        **point.algorithm,
        "pitch": None if plan is None or plan.packing.depth == 1 else plan.packing.pitch,
        "cycles": cycles,
        "packing_cycles": packing,
        "macs": layer.macs,
        "cycles_per_mac": round(cycles / layer.macs, workload.DIGITS),
        "cycles_per_mac_with_packing": round((cycles + packing) / layer.macs, workload.DIGITS),
        "estimated_cycles": None if plan is None else plan.cycles,
        **{name: measured[name] for name in ("instructions", "stalls", "mismatches")},
        **point.facts,
        **{name: measured[name] for name in ("wall_s", "sim_cycles_per_s")},
    }
    return replace(result, record=record)


def run_sweep_points(
    points: Sequence[SweepPoint], config: CoreConfig, machine: Machine, *, check: bool = True, jobs: int = 1
) -> Iterator[workload.Result]:
    """Compute matrix products on ``jobs`` processes and yield the results in order; the model is compiled first."""
    names, same = [repr(replace(point, sweep="", facts={})) for point in points], dict[str, SweepPoint]()
    for name, point in zip(names, points, strict=True):
        same.setdefault(name, point)
    run_one = partial(run_point, config=config, machine=machine, check=check)
    with executor(min(jobs, max(len(same), 1))) as pool:
        if points:
            model_library("core", config)
        results, done = pool.map(run_one, same.values()), dict[str, workload.Result]()
        for point, name in zip(points, names, strict=True):
            result = done[name] = done[name] if name in done else next(results)
            yield replace(result, record=result.record | {"sweep": point.sweep, **point.facts})
