"""Layers as programs on the whole core."""

import pytest

from xpulpnn.config import preset
from xpulpnn_sim.harness.engine import BusTiming
from xpulpnn_sim.harness.kernel_run import Case, run_case, short_precision
from xpulpnn_sim.harness.program_run import run_program_case
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layer import ConvLayer, MatmulLayer

pytestmark = pytest.mark.cosim

FULL = preset("xpulpnn-full")
QUICK = BusTiming()
CONV = ConvLayer.parse("5x6x8:8x3x3")
START_AND_STOP = 8
"""Cycles between the two readings of mcycle that are not the kernel's."""


def case(layer, bits: int, variant: str, *, timing: BusTiming = QUICK, **options) -> Case:
    kernel = "conv" if isinstance(layer, ConvLayer) else "matmul"
    return Case(
        layer=layer,
        precision=short_precision(kernel, bits),
        variant=variant,
        config=FULL,
        timing=timing,
        **{"checked": False} | options,
    )


@pytest.mark.parametrize(("variant", "bits"), [("rv32im_2x2", 8), ("xpulpv2_4x2", 4), ("cu_4x2", 2), ("nn_4x4", 8)])
def test_a_program_takes_the_cycles_of_its_stream(variant, bits):
    chosen = case(CONV, bits, variant)
    stream, program = run_case(chosen).record, run_program_case(chosen).record
    assert program["mismatches"] == stream["mismatches"] == 0
    assert program["engine"] == "core"
    assert program["instructions"] == stream["instructions"]
    assert 0 <= program["cycles"] - stream["cycles"] <= START_AND_STOP
    assert program["cycles_per_sdotp"] == pytest.approx(stream["cycles_per_sdotp"], rel=0.01)


@pytest.mark.parametrize("bits", [8, 4, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_interrupts_at_any_time(variant, bits):
    """A handler that uses the stack, about every 50 cycles."""
    quiet = run_program_case(case(CONV, bits, variant)).record
    result = run_program_case(case(CONV, bits, variant, irq_rate=0.02, checked=True))
    assert result.record["mismatches"] == 0, result.reports
    assert result.record["instructions"] == quiet["instructions"]
    assert result.record["cycles"] > 1.3 * quiet["cycles"]


def test_a_specialised_kernel_takes_fewer_cycles():
    general = run_case(case(CONV, 4, "nn_4x4", checked=True)).record
    special = run_case(case(CONV, 4, "nn_4x4", checked=True, specialise=True)).record
    assert special["mismatches"] == general["mismatches"] == 0
    assert special["cycles"] < general["cycles"]
    assert special["sdotp"] == general["sdotp"]


def test_slow_memory_changes_the_cycles_but_not_the_results():
    layer = MatmulLayer.parse("8x32x8")
    quick = run_program_case(case(layer, 4, "nn_4x2")).record
    slow = run_program_case(
        case(layer, 4, "nn_4x2", timing=BusTiming(grant_stalls=0.4, response_latency=5, seed=3))
    ).record
    assert quick["mismatches"] == slow["mismatches"] == 0
    assert slow["cycles"] > quick["cycles"]


def test_a_wrong_result_is_reported(monkeypatch):
    monkeypatch.setattr(
        "xpulpnn_sim.harness.kernel_run.layers.matmul", lambda weights, activations: 1 + activations @ weights.T
    )
    result = run_program_case(case(MatmulLayer.parse("4x8x4"), 8, "simd_4x2"))
    assert result.record["mismatches"] == 4 * 4
    assert result.reports[0].startswith("output[0][0]: expected ")
