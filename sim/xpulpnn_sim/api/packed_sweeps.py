"""Matrix products that show the use of packing operands: a table, and the sweeps of the ULPPACK paper."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from xpulpnn.errors import InputError, LayerError
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

WIDTHS = range(1, 8)  # bits of an operand that may be packed

_BYTES = 8
_LIBRARY = {"rv32im": (("rv32im_2x2", (8,)),), "xpulpv2": (("xpulpv2_4x2", (8,)), ("nn_4x4", (8, 4, 2)))}
"""The library's kernels shown beside an instruction set, with their widths; the Mac&Load needs more than that."""

_ITERATIONS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
_REDUCTIONS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_LONGEST = 4096  # elements of a row in the overflow map at most: not all of the bounds on iterations are reached

MAPPED = ((Scheme.P1, 16), (Scheme.P2, 16), (Scheme.P1, 32))
"""Schemes and registers of the overflow map. P2 in 32 bits would need the upper half of each product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request for points."""

    layer: MatmulLayer  # product to compute
    pairs: Sequence[tuple[int, int]] = ()  # bits of weights and activations; empty: the usual ones
    isas: Sequence[str] = ISAS
    scheme: str | None = None  # only this scheme
    depth: int | None = None  # only this depth
    iterations: int | None = None  # only so many iterations
    block: str | None = None  # only this block
    signed: bool = False  # whether weights are signed

    def plan(self, w: int, a: int, candidates: Iterable[Method]) -> PackedPlan | None:
        return best_plan(
            self.layer,
            w,
            a,
            candidates,
            scheme=self.scheme,
            depth=self.depth,
            iterations=self.iterations,
            block=self.block,
        )

    def point(self, plan: PackedPlan) -> SweepPoint:
        return SweepPoint(layer=plan.layer, w=plan.packing.w, a=plan.packing.a, plan=plan, signed=self.signed)

    def bytes_point(self, isa: str, w: int, a: int) -> SweepPoint:
        plan = best_plan(self.layer, w, a, methods(isa), scheme=Scheme.BYTES.value)
        assert plan is not None
        return self.point(plan)

    def bytes_points(self) -> Iterator[SweepPoint]:
        return (self.bytes_point(isa, _BYTES, _BYTES) for isa in self.isas)


def _products(isa: str) -> list[list[Method]]:
    found = dict[str, list[Method]]()
    for method in methods(isa):
        found.setdefault(method.product, []).append(method)
    return list(found.values())


def _packed(wanted: Wanted, w: int, a: int) -> list[SweepPoint]:
    """The best plan of every instruction."""
    plans = [wanted.plan(w, a, one) for isa in wanted.isas for one in _products(isa)]
    return [wanted.point(plan) for plan in plans if plan is not None]


def _library(wanted: Wanted) -> list[SweepPoint]:
    return [
        SweepPoint(layer=wanted.layer, w=bits, a=bits, variant=variant)
        for isa in wanted.isas
        for variant, widths in _LIBRARY[isa]
        for bits in widths
    ]


def _rivals(wanted: Wanted, w: int, a: int) -> list[SweepPoint]:
    """Bit-serial products, of unsigned operands, where there is an instruction to count bits."""
    return [SweepPoint(layer=wanted.layer, w=w, a=a)] if ISAS[-1] in wanted.isas else []


def _table(wanted: Wanted) -> Iterator[SweepPoint]:
    for w, a in wanted.pairs or USUAL_PAIRS:
        points = _packed(wanted, w, a)
        if not points and (wanted.pairs or wanted.scheme or wanted.depth or wanted.iterations or wanted.block):
            raise LayerError(_illegal(wanted, w, a))
        yield from points
        yield from _rivals(wanted, w, a)
    yield from wanted.bytes_points()
    yield from _library(wanted)


def _illegal(wanted: Wanted, w: int, a: int) -> str:
    legal = [
        f"{one.value}-{method.register} {depth} ({most_iterations(one, method.register, depth, w, a) // method.lanes})"
        for isa in wanted.isas
        for method in methods(isa)
        for one in method.schemes
        if one is not Scheme.BYTES
        for depth in legal_depths(one, method.register, w, a, method.lanes)
    ]
    rule = ", ".join(dict.fromkeys(legal)) or "operands that fit into a register twice"
    asked = [f"W{w}A{a}", wanted.scheme, wanted.depth and f"depth {wanted.depth}"]
    asked += [wanted.iterations and f"iter {wanted.iterations}", wanted.block and f"block {wanted.block}"]
    return f"packing must be one of scheme depth (iter up to): {rule}; not {' '.join(str(one) for one in asked if one)}"


def _overflow(wanted: Wanted) -> Iterator[SweepPoint]:
    """The largest legal depth of every pair, at the largest operands and as many iterations as a row has room for."""
    by_register = {method.register: method for method in methods(ISAS[0]) if Scheme.P1 in method.schemes}
    for scheme, register in MAPPED:
        for w in WIDTHS:
            for a in WIDTHS:
                depth = most_depth(scheme, register, w, a)
                if depth == 1:
                    continue
                most = most_iterations(scheme, register, depth, w, a)
                # whole words that are cut into chunks of the most iterations
                step = Packing(scheme=scheme, register=register, depth=depth, w=w, a=a).words(1)
                words = min(math.lcm(step, most), _LONGEST // (depth * step) * step)
                layer = MatmulLayer(out_channels=2, reduction=depth * words, pixels=2)
                name = f"{scheme.value}-{register}"
                plan = best_plan(layer, w, a, [by_register[register]], scheme=name, depth=depth)
                assert plan is not None
                facts = {"most_depth": depth, "most_iterations": most}
                yield replace(wanted.point(plan), signed=False, extreme=True, facts=facts)


def _best(wanted: Wanted) -> Iterator[SweepPoint]:
    """Every pair of widths: the best of every instruction, bytes and bit-serial."""
    for w, a in product(WIDTHS, WIDTHS):
        yield from _packed(wanted, w, a)
        yield from _rivals(wanted, w, a)
    yield from wanted.bytes_points()


def _iterations(wanted: Wanted) -> Iterator[SweepPoint]:
    for w, a in wanted.pairs or ((1, 1),):
        for isa in wanted.isas:
            for one in _products(isa):
                if (best := wanted.plan(w, a, one)) is None:
                    continue
                scheme, register, lanes = best.packing.scheme, best.packing.register, best.packing.lanes
                for depth in legal_depths(scheme, register, w, a, lanes):
                    packing = Packing(scheme=scheme, register=register, depth=depth, w=w, a=a, lanes=lanes)
                    for iterations in (count for count in _ITERATIONS if count <= packing.iterations):
                        chosen = replace(wanted, scheme=packing.name, depth=depth, iterations=iterations)
                        plan = chosen.plan(w, a, one)
                        if plan is not None:
                            yield wanted.point(plan)
    yield from wanted.bytes_points()


def _bits(wanted: Wanted) -> Iterator[SweepPoint]:
    for bits in (*WIDTHS, _BYTES):
        yield from _packed(wanted, bits, bits)
        yield from _rivals(wanted, bits, bits)
    yield from wanted.bytes_points()
    yield from _library(wanted)


def _reduction(wanted: Wanted) -> Iterator[SweepPoint]:
    for w, a in wanted.pairs or ((3, 3),):
        for reduction in _REDUCTIONS:
            longer = replace(wanted, layer=replace(wanted.layer, reduction=reduction))
            yield from _packed(longer, w, a)
            yield from _rivals(longer, w, a)
            yield from longer.bytes_points()
            yield from _library(longer)


SWEEPS: Mapping[str, Callable[[Wanted], Iterator[SweepPoint]]] = {
    "table": _table,
    "overflow": _overflow,
    "best": _best,
    "iter": _iterations,
    "bits": _bits,
    "k": _reduction,
}
"""Sweeps that may be shown, by name."""


def sweep_points(names: Sequence[str], wanted: Wanted) -> list[SweepPoint]:
    """The points of sweeps.

    Raises :class:`InputError` for an unknown one, :class:`LayerError` if nothing that was asked for is legal.
    """
    points: list[SweepPoint] = []
    for name in names:
        if name not in SWEEPS:
            raise InputError(f"sweep must be one of {', '.join(SWEEPS)}, not {name}")
        points += [replace(point, sweep=name) for point in SWEEPS[name](wanted)]
    if not points:
        raise LayerError("scheme, depth, iter and block must leave something that is legal, not nothing")
    return points
