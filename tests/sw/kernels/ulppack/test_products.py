"""Packed products: what is legal, where elements stand, and the functions on the simulator against plain products."""

from itertools import product

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.frame import SP
from xpulpnn_sw.kernels.kernel import Function, kernel_call
from xpulpnn_sw.kernels.ulppack import packing as packings
from xpulpnn_sw.kernels.ulppack.gemm import bit_serial_gemm, packed_gemm
from xpulpnn_sw.kernels.ulppack.packing import Packing, Scheme, legal_depths
from xpulpnn_sw.kernels.ulppack.plan import PackedPlan, best_plan, plans
from xpulpnn_sw.layers.layer import MatmulLayer

from ...runs import PRESERVED, hart_before

# the ULPPACK paper's Fig. 6, rows W1 to W7, columns A1 to A7, 1 where nothing can be packed; then the 32-bit P1 map
MAPS = {
    (Scheme.P1, 16): ["5432222", "4322211", "3222111", "2221111", "2211111", "2111111", "2111111"],
    (Scheme.P2, 16): ["6433222", "4332221", "3322221", "3222211", "2222211", "2221111", "2111111"],
    (Scheme.P1, 32): ["8654443", "6544332", "5443322", "4433222", "4332222", "4322222", "3222222"],
}


@pytest.mark.parametrize(("scheme", "register"), MAPS)
def test_largest_depths_are_those_of_the_paper(scheme, register):
    depths = ["".join(str(packings.most_depth(scheme, register, w, a)) for a in range(1, 8)) for w in range(1, 8)]
    assert depths == MAPS[scheme, register]


def field(packing: Packing, total: int) -> int:
    return total >> packing.position & (1 << packing.pitch) - 1


def first_operand(packing: Packing, elements: np.ndarray) -> np.ndarray:
    rows = np.zeros((len(elements), packing.order.size), np.int64)
    rows[:, packing.order[0]] = elements
    return rows


@pytest.mark.flow
@pytest.mark.parametrize(
    ("scheme", "register"), [(Scheme.P1, 8), (Scheme.P1, 16), (Scheme.P1, 32), (Scheme.P2, 8), (Scheme.P2, 16)]
)
def test_all_small_operands_give_their_dot_product(scheme, register):
    tried = 0
    for w, a in product((1, 2), repeat=2):
        for depth in (d for d in legal_depths(scheme, register, w, a) if d <= 3):
            packing = Packing(scheme=scheme, register=register, depth=depth, w=w, a=a)
            weights = np.array(list(product(range(1 << w), repeat=depth)))
            activations = np.array(list(product(range(1 << a), repeat=depth)))
            packed_w = packing.pack_weights(first_operand(packing, weights))[:, 0]
            packed_a = activations @ (1 << np.arange(depth) * packing.pitch)
            for row, packed_row in zip(weights.tolist(), packed_w.tolist(), strict=True):
                for column, other in zip(activations.tolist(), packed_a.tolist(), strict=True):
                    dot = sum(x * y for x, y in zip(row, column, strict=True))
                    total = packed_row * other * packing.iterations & 0xFFFF_FFFF
                    assert field(packing, total) == dot * packing.iterations
                    tried += 1
    assert tried > 0


@pytest.mark.parametrize("scheme", [Scheme.P1, Scheme.P2])
@pytest.mark.parametrize("register", [8, 16, 32])
def test_one_more_iteration_overflows(scheme, register):
    for w, a in product(range(1, 8), repeat=2):
        for depth in legal_depths(scheme, register, w, a):
            most = packings.most_iterations(scheme, register, depth, w, a)
            space = 1 << (register // depth if scheme is Scheme.P1 else (register - max(w, a)) // (depth - 1))
            largest = depth * ((1 << w) - 1) * ((1 << a) - 1)
            assert most * largest < space <= (most + 1) * largest


@pytest.mark.parametrize(("named", "changes"), [
    ("weights", {"w": 0}), ("activations", {"a": 9}), ("depth of P1-16 at W2A2", {"depth": 5}),
    ("depth of P1-16 at W7A7", {"w": 7, "a": 7}), ("depth of P1-16 in 2 lanes at W2A2", {"lanes": 2, "depth": 3}),
])  # fmt: skip
def test_what_overflows_is_refused(named, changes):
    with pytest.raises(LayerError, match=f"^{named} must be "):
        Packing(**{"scheme": Scheme.P1, "register": 16, "depth": 2, "w": 2, "a": 2} | changes)


OWN = ("packed", "corrections", "output", "stack")
LIMIT = 1 << 20
LAYER = MatmulLayer.parse("5x53x3")


def results(function: Function, cores: int = 1) -> np.ndarray:
    """Results of the function, shared by ``cores`` one after the other; it must leave all else alone."""
    memory = Memory()
    memory.write_bytes(function.image.base, function.image.data.tobytes())
    for core in range(cores):
        call = kernel_call(function, core, cores)
        hart = hart_before(function, call, memory)
        for name, value in PRESERVED.items():
            hart.state.regs[register_number(name)] = value
        last = int(call.program.pcs[-1])
        hart.run(LIMIT, until=last)
        assert hart.state.pc == last
        assert hart.csrs["mcause"] == 0
        assert hart.state.regs[SP] == function.stack_top(core)
        assert {name: hart.state.regs[register_number(name)] for name in PRESERVED} == PRESERVED
    after = np.frombuffer(memory.read_bytes(function.image.base, function.image.data.size), np.uint8)
    for name, symbol in function.image.symbols.items():
        if name not in OWN:
            start = symbol.address - function.image.base
            before = function.image.data[start : start + symbol.length]
            assert np.array_equal(after[start : start + symbol.length], before), name
    return function.output.decode(function.image, after)


def check(plan: PackedPlan, *, signed: bool, extreme: bool, seed: int, cores: int = 1) -> None:
    w, a, layer = plan.packing.w, plan.packing.a, plan.layer
    random = np.random.default_rng(seed)
    low = -(1 << w - 1) if signed else 0
    weights = random.integers(low, low + (1 << w), (layer.out_channels, layer.reduction))
    activations = random.integers(0, 1 << a, (layer.pixels, layer.reduction))
    if extreme:
        weights[:], activations[:] = low + (1 << w) - 1, (1 << a) - 1
        weights[::2] = low
    got = results(packed_gemm(plan, weights, activations, signed=signed, cores=cores), cores)
    assert np.array_equal(got, activations @ weights.T), plan


@pytest.mark.flow
@pytest.mark.parametrize(
    "method", packings.METHODS, ids=lambda method: f"{method.isa}-{method.product}-{method.register}"
)
def test_every_legal_packing(method):
    tried = 0
    for number, (w, a) in enumerate((w, a) for w in range(1, 8) for a in range(1, 8)):
        for scheme in method.schemes:
            for plan in plans(LAYER, w, a, [method], scheme=scheme.value, iterations=None if number % 3 else 1):
                if (tried := tried + 1) % STRIDE == 0:
                    check(plan, signed=number % 2 == 0, extreme=tried % 4 == 0, seed=number)
    assert tried > STRIDE


STRIDE = 37
"""One plan in so many is run here; the sweep ``overflow`` of the command line runs all widths."""


@pytest.mark.flow
@pytest.mark.parametrize("isa", packings.ISAS)
@pytest.mark.parametrize(("spec", "cores"), [
    ("1x1x1", 1), ("4x8x2", 1), ("9x100x5", 1), ("300x9x4", 1), ("6x1000x4", 1),
    ("4x40x11", 2), ("4x40x11", 3), ("4x40x11", 8),
])  # fmt: skip
def test_sizes_and_shares(isa, spec, cores):
    for w, a in ((1, 1), (4, 4)) if cores == 1 else ((2, 2),):
        plan = best_plan(MatmulLayer.parse(spec), w, a, packings.methods(isa))
        assert plan is not None
        check(plan, signed=True, extreme=False, seed=w + cores, cores=cores)


@pytest.mark.flow
@pytest.mark.parametrize(("w", "a"), [(1, 1), (2, 3), (8, 8)])
def test_bit_serial(w, a):
    random = np.random.default_rng(w)
    weights, activations = random.integers(0, 1 << w, (6, 45)), random.integers(0, 1 << a, (3, 45))
    got = results(bit_serial_gemm(MatmulLayer.parse("6x45x3"), w, a, weights, activations, cores=2), 2)
    assert np.array_equal(got, activations @ weights.T)


@pytest.mark.flow
def test_the_planner_takes_what_it_estimates_lowest():
    layer = MatmulLayer.parse("32x512x8")
    for w, a in ((1, 1), (2, 4), (7, 7)):
        chosen = best_plan(layer, w, a, packings.METHODS)
        assert chosen is not None
        assert chosen.cycles == min(plan.cycles for plan in plans(layer, w, a, packings.METHODS))
    assert best_plan(layer, 8, 8, packings.METHODS) is None


def test_too_many_iterations_are_refused():
    plan = best_plan(LAYER, 2, 2, packings.METHODS, scheme="P1-32", depth=4)
    assert plan is not None
    with pytest.raises(LayerError, match=r"^iter of P1-32 at depth 4 must be 1\.\.7, not 8$"):
        PackedPlan(layer=LAYER, method=plan.method, packing=plan.packing, iterations=8, block=plan.block)
