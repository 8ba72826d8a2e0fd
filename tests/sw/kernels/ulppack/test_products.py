"""Functions of packed products on the instruction-set simulator, against plain products."""

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.frame import SP
from xpulpnn_sw.kernels.kernel import Function, kernel_call
from xpulpnn_sw.kernels.ulppack.bit_serial import bit_serial_gemm
from xpulpnn_sw.kernels.ulppack.gemm import gemm
from xpulpnn_sw.kernels.ulppack.packing import ISAS, METHODS, methods
from xpulpnn_sw.kernels.ulppack.plan import PackedPlan, best_plan, plans
from xpulpnn_sw.layers.convolution import MatmulLayer

from ...runs import KEPT, hart_before

OWN = ("packed", "corrections", "output", "stack")
LIMIT = 1 << 20
LAYER = MatmulLayer.parse("5x53x3")


def results(function: Function, cores: int = 1) -> np.ndarray:
    """What the function computes, shared by ``cores`` one after the other; it must leave all else alone."""
    memory = Memory()
    memory.write_bytes(function.image.base, function.image.data.tobytes())
    for core in range(cores):
        call = kernel_call(function, core, cores)
        hart = hart_before(function, call, memory)
        for name, value in KEPT.items():
            hart.state.regs[register_number(name)] = value
        last = int(call.program.pcs[-1])
        hart.run(LIMIT, until=last)
        assert hart.state.pc == last
        assert hart.csrs["mcause"] == 0
        assert hart.state.regs[SP] == function.stack_top(core)
        assert {name: hart.state.regs[register_number(name)] for name in KEPT} == KEPT
        hart.retire()
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
    got = results(gemm(plan, weights, activations, signed=signed, cores=cores), cores)
    assert np.array_equal(got, activations @ weights.T), plan


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.isa}-{method.product}-{method.register}")
def test_every_legal_packing(method):
    """All depths of all widths, the most iterations or few, blocks, signs and largest operands by turns."""
    tried = 0
    for number, (w, a) in enumerate((w, a) for w in range(1, 8) for a in range(1, 8)):
        for scheme in method.schemes:
            for plan in plans(LAYER, w, a, [method], scheme=scheme.value, iterations=None if number % 3 else 1):
                if (tried := tried + 1) % STRIDE == 0:
                    check(plan, signed=number % 2 == 0, extreme=tried % 4 == 0, seed=number)
    assert tried > STRIDE


STRIDE = 11
"""Of the plans one in so many is run here; the sweep ``overflow`` of the command line runs all widths."""


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("spec", ["1x1x1", "4x8x2", "9x100x5", "300x9x4", "6x1000x4"])
def test_sizes(isa, spec):
    """Rows shorter than a packed word, channels too many for an offset, rows of many chunks."""
    layer = MatmulLayer.parse(spec)
    for w, a in ((1, 1), (3, 3), (4, 4)):
        plan = best_plan(layer, w, a, methods(isa))
        assert plan is not None
        check(plan, signed=True, extreme=False, seed=w)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cores", [2, 3, 8])
def test_cores_share_the_pixels(isa, cores):
    plan = best_plan(MatmulLayer.parse("4x40x11"), 2, 2, methods(isa))
    assert plan is not None
    check(plan, signed=True, extreme=False, seed=cores, cores=cores)


@pytest.mark.parametrize(("w", "a"), [(1, 1), (2, 3), (4, 1), (7, 7), (8, 8)])
def test_bit_serial(w, a):
    random = np.random.default_rng(w)
    weights, activations = random.integers(0, 1 << w, (6, 45)), random.integers(0, 1 << a, (3, 45))
    got = results(bit_serial_gemm(MatmulLayer.parse("6x45x3"), w, a, weights, activations, cores=2), 2)
    assert np.array_equal(got, activations @ weights.T)


def test_the_planner_takes_what_it_estimates_lowest():
    layer = MatmulLayer.parse("32x512x8")
    for w, a in ((1, 1), (2, 4), (7, 7)):
        chosen = best_plan(layer, w, a, METHODS)
        assert chosen is not None
        assert chosen.cycles == min(plan.cycles for plan in plans(layer, w, a, METHODS))
    assert best_plan(layer, 8, 8, METHODS) is None


def test_too_many_iterations_are_refused():
    plan = best_plan(LAYER, 2, 2, METHODS, scheme="P1-32", depth=4)
    assert plan is not None
    with pytest.raises(LayerError, match=r"^iter of P1-32 at depth 4 must be 1\.\.7, not 8$"):
        PackedPlan(layer=LAYER, method=plan.method, packing=plan.packing, iterations=8, block=plan.block)
