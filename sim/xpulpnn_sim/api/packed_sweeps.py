"""Sweeps of matrix products with packed operands: a table, and the sweeps of the ULPPACK paper."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from xpulpnn.errors import LayerError, require
from xpulpnn_sim.cosimulation.workloads.packed_products import SweepPoint
from xpulpnn_sw.kernels.ulppack.packing import (
    ISAS,
    Method,
    Packing,
    Scheme,
    legal_depths,
    methods,
    most_depth,
    most_iterations,
)
from xpulpnn_sw.kernels.ulppack.plan import PackedPlan, best_plan
from xpulpnn_sw.layers.layer import MatmulLayer

USUAL_PAIRS = ((1, 1), (1, 2), (2, 2), (2, 4), (3, 3), (4, 4), (7, 7))  # bits of weights and activations in the table
USUAL_MATMUL = "32x512x8"
WIDTHS = range(1, 8)  # bits of a packed operand
_BYTES = 8
_LIBRARY = {"rv32im": (("rv32im_2x2", (8,)),), "xpulpv2": (("xpulpv2_4x2", (8,)), ("nn_4x4", (8, 4, 2)))}
"""Library kernels that are compared with packed products of an instruction set, with their widths."""

_ITERATIONS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
_REDUCTIONS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_LONGEST = 4096  # maximum of elements of a row in the overflow map; some bounds on iterations are higher
MAPPED = ((Scheme.P1, 16), (Scheme.P2, 16), (Scheme.P1, 32))
"""Schemes and register widths of the overflow map; P2 in 32 bits would need the upper half of the products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    layer: MatmulLayer
    pairs: Sequence[tuple[int, int]] = ()  # bits of weights and activations; default USUAL_PAIRS
    isas: Sequence[str] = ISAS
    scheme: str | None = None
    depth: int | None = None
    iterations: int | None = None
    block: str | None = None
    signed: bool = False  # signed weights

    def plan(self, w: int, a: int, candidates: Iterable[Method]) -> PackedPlan | None:
        choice: dict[str, Any] = {"scheme": self.scheme, "depth": self.depth, "block": self.block}
        return best_plan(self.layer, w, a, candidates, iterations=self.iterations, **choice)

    def point(self, plan: PackedPlan) -> SweepPoint:
        return SweepPoint(layer=plan.layer, w=plan.packing.w, a=plan.packing.a, plan=plan, signed=self.signed)

    def bytes_points(self) -> Iterator[SweepPoint]:
        for isa in self.isas:
            plan = best_plan(self.layer, _BYTES, _BYTES, methods(isa), scheme=Scheme.BYTES.value)
            assert plan is not None
            yield self.point(plan)


def _products(isa: str) -> list[list[Method]]:
    products = dict[str, list[Method]]()
    for method in methods(isa):
        products.setdefault(method.product, []).append(method)
    return list(products.values())


def _packed(request: SweepRequest, w: int, a: int) -> list[SweepPoint]:
    plans = [request.plan(w, a, candidates) for isa in request.isas for candidates in _products(isa)]
    return [request.point(plan) for plan in plans if plan is not None]


def _library(request: SweepRequest) -> list[SweepPoint]:
    return [
        SweepPoint(layer=request.layer, w=bits, a=bits, variant=variant)
        for isa in request.isas
        for variant, widths in _LIBRARY[isa]
        for bits in widths
    ]


def _with_baselines(request: SweepRequest, pairs: Iterable[tuple[int, int]]) -> Iterator[SweepPoint]:
    """Yield packed products, bit-serial ones if an instruction set has a popcount, and products of bytes."""
    for w, a in pairs:
        yield from _packed(request, w, a)
        if ISAS[-1] in request.isas:
            yield SweepPoint(layer=request.layer, w=w, a=a)
    yield from request.bytes_points()


def _table(request: SweepRequest) -> Iterator[SweepPoint]:
    pairs = request.pairs or USUAL_PAIRS
    is_chosen = request.pairs or request.scheme or request.depth or request.iterations or request.block
    for pair in pairs if is_chosen else ():
        if not _packed(request, *pair):
            raise LayerError(_illegal(request, *pair))
    yield from _with_baselines(request, pairs)
    yield from _library(request)


def _illegal(request: SweepRequest, w: int, a: int) -> str:
    legal = [
        f"{scheme.value}-{(register := method.register)} {depth} "
        f"({most_iterations(scheme, register, depth, w, a) // method.lanes})"
        for isa in request.isas
        for method in methods(isa)
        for scheme in method.schemes
        if scheme is not Scheme.BYTES
        for depth in legal_depths(scheme, method.register, w, a, method.lanes)
    ]
    rule = ", ".join(dict.fromkeys(legal)) or "operands that fit into a register twice"
    requested = [f"W{w}A{a}", request.scheme, request.depth and f"depth {request.depth}"]
    requested += [request.iterations and f"iter {request.iterations}", request.block and f"block {request.block}"]
    words = " ".join(map(str, filter(None, requested)))
    return f"packing must be one of scheme depth (iter up to): {rule}; not {words}"


def _overflow(request: SweepRequest) -> Iterator[SweepPoint]:
    """Yield products of operands with the largest values, as many per register as their widths allow."""
    by_register = {method.register: method for method in methods(ISAS[0]) if Scheme.P1 in method.schemes}
    for (scheme, register), w, a in product(MAPPED, WIDTHS, WIDTHS):
        depth = most_depth(scheme, register, w, a)
        if depth == 1:
            continue
        most = most_iterations(scheme, register, depth, w, a)
        # whole words, a multiple of the largest number of iterations
        step = Packing(scheme=scheme, register=register, depth=depth, w=w, a=a).words(1)
        words = min(math.lcm(step, most), _LONGEST // (depth * step) * step)
        layer = MatmulLayer(out_channels=2, reduction=depth * words, pixels=2)
        plan = best_plan(layer, w, a, [by_register[register]], scheme=f"{scheme.value}-{register}", depth=depth)
        assert plan is not None
        facts = {"most_depth": depth, "most_iterations": most}
        yield replace(request.point(plan), signed=False, extreme=True, facts=facts)


def _best(request: SweepRequest) -> Iterator[SweepPoint]:
    return _with_baselines(request, product(WIDTHS, WIDTHS))


def _iterations(request: SweepRequest) -> Iterator[SweepPoint]:
    products = [candidates for isa in request.isas for candidates in _products(isa)]
    for (w, a), candidates in product(request.pairs or ((1, 1),), products):
        if (best := request.plan(w, a, candidates)) is None:
            continue
        scheme, register, lanes = best.packing.scheme, best.packing.register, best.packing.lanes
        for depth in legal_depths(scheme, register, w, a, lanes):
            packing = Packing(scheme=scheme, register=register, depth=depth, w=w, a=a, lanes=lanes)
            for iterations in (count for count in _ITERATIONS if count <= packing.iterations):
                chosen = replace(request, scheme=packing.name, depth=depth, iterations=iterations)
                plan = chosen.plan(w, a, candidates)
                if plan is not None:
                    yield request.point(plan)
    yield from request.bytes_points()


def _bits(request: SweepRequest) -> Iterator[SweepPoint]:
    yield from _with_baselines(request, [(bits, bits) for bits in (*WIDTHS, _BYTES)])
    yield from _library(request)


def _reduction(request: SweepRequest) -> Iterator[SweepPoint]:
    for pair, reduction in product(request.pairs or ((3, 3),), _REDUCTIONS):
        longer = replace(request, layer=replace(request.layer, reduction=reduction))
        yield from _with_baselines(longer, [pair])
        yield from _library(longer)


SWEEPS: Mapping[str, Callable[[SweepRequest], Iterator[SweepPoint]]] = {
    "table": _table,
    "overflow": _overflow,
    "best": _best,
    "iter": _iterations,
    "bits": _bits,
    "k": _reduction,
}
"""Functions that run a sweep, by name of the sweep."""


def sweep_points(names: Sequence[str], request: SweepRequest) -> list[SweepPoint]:
    """Return the points of sweeps; raise :class:`InputError` for an unknown sweep, :class:`LayerError` if one has no
    legal point."""
    points: list[SweepPoint] = []
    for name in names:
        require(name in SWEEPS, f"sweep must be one of {', '.join(SWEEPS)}, not {name}")
        points += [replace(point, sweep=name) for point in SWEEPS[name](request)]
    require(points, "scheme, depth, iter and block must leave something that is legal, not nothing", LayerError)
    return points
