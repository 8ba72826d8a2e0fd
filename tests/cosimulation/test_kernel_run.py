"""Kernels on both engines: the same figures, right results, and wrong ones reported."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.designs import BEYOND, FOUR, FULL, kernel_case

from xpulpnn.config import CoreConfig, preset
from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.workloads.cluster_run import run_kernel
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, run_case
from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import VARIANTS

pytestmark = pytest.mark.cosim

CONV, MATMUL = "5x6x8:8x3x3", "8x32x8"
CALL = 16
"""Cycles between the two readings of mcycle that are not the function's."""


def config_of(variant: str) -> CoreConfig:
    known = VARIANTS.get(variant)
    return FULL if known is None or known.extensions <= FULL.extensions else BEYOND


def case(text: str, bits: int, variant: str, *, checked: bool = False, config=None, **timing) -> Case:
    kernel = "conv" if ":" in text else "matmul"
    machine = Machine(**timing)
    return kernel_case(kernel, text, bits, variant, config or config_of(variant), machine=machine, checked=checked)


@pytest.mark.parametrize(
    ("variant", "bits"), [("rv32im_2x2", 8), ("xpulpv2_4x2", 4), ("cu_4x2", 2), ("nn_4x4", 8), ("x2_4x4", 2)]
)
def test_a_program_takes_the_cycles_of_its_stream(variant, bits):
    chosen = case(CONV, bits, variant)
    stream, program = run_case(chosen).record, run_case(chosen, "core").record
    assert (stream["mismatches"], program["mismatches"]) == (0, 0)
    assert (stream["engine"], program["engine"]) == ("stream", "core")
    assert program["instructions"] == stream["instructions"]
    assert 0 <= program["cycles"] - stream["cycles"] <= CALL
    assert program["cycles_per_sdotp"] == pytest.approx(stream["cycles_per_sdotp"], rel=0.01)
    for record, around in ((stream, 0), (program, CALL)):
        assert 0 <= record["cycles"] - record["instructions"] - sum(record["stalls"].values()) <= around


@pytest.mark.parametrize("engine", ["stream", "core"])
def test_slow_memory_changes_the_cycles_but_not_the_results(engine):
    quick = run_case(case(MATMUL, 4, "nn_4x2", checked=True), engine).record
    slow_case = case(MATMUL, 4, "nn_4x2", checked=True, grant_stalls=0.4, response_latency=5, seed=3)
    slow = run_case(slow_case, engine).record
    assert (quick["mismatches"], slow["mismatches"]) == (0, 0)
    assert slow["cycles"] > quick["cycles"]
    assert quick["stalls"]["grant"] == quick["stalls"]["response"] == 0
    assert min(slow["stalls"]["grant"], slow["stalls"]["response"]) > 0


@pytest.mark.parametrize(("number", "variant"), list(enumerate(VARIANTS)))
def test_interrupts_at_any_time(number, variant):
    """A handler that uses the stack, about every 50 cycles."""
    bits = (8, 4, 2)[number % 3]
    quiet = run_case(case(CONV, bits, variant), "core").record
    result = run_case(case(CONV, bits, variant, irq_rate=0.02, checked=True), "core")
    assert result.record["mismatches"] == 0, result.reports
    assert result.record["instructions"] == quiet["instructions"]
    assert result.record["cycles"] > 1.3 * quiet["cycles"]


def test_a_specialised_kernel_takes_fewer_cycles():
    general = case(CONV, 4, "nn_4x4", checked=True)
    special = run_case(replace(general, specialise=True)).record
    general = run_case(general).record
    assert special["mismatches"] == general["mismatches"] == 0
    assert special["cycles"] < general["cycles"]
    assert special["sdotp"] == general["sdotp"]


@pytest.mark.parametrize("engine", ["stream", "core"])
def test_a_wrong_result_is_reported(monkeypatch, engine):
    monkeypatch.setattr(
        "xpulpnn_sim.reference.golden.layers.products", lambda rows, weights, most: 1 + rows @ weights.T
    )
    result = run_case(case("4x8x4", 8, "simd_4x2"), engine)
    assert result.record["mismatches"] == 4 * 4
    assert result.reports[0].startswith("output[0][0]: expected ")


@pytest.mark.parametrize(
    ("kernel", "text", "precision", "variant", "rule"),
    [
        ("conv", "5x6x8:8x3x3", "8x4xi4", "nn_4x4", Rule.BN64),
        ("conv", "5x6x8:8x3x3", "i8xi2x8", "cu_4x2", Rule.MULTIPLY),
        ("conv1d", "9x12:5x3:d=2", "4xu2x4", "simd_4x2", Rule.SHIFT),
        ("pointwise", "3x5x16:6", "4x4x2", "nn_4x4", Rule.THRESHOLDS),
        ("linear", "70:10", "i8x4xi8", "nn_4x1", Rule.BN32),
        ("conv", "5x6x8:21x3x3", "8x4xi2", "x2_4x4", Rule.BN32),
        ("conv1d", "9x12:5x3:d=2", "i4xu2xi4", "x2_4x2", Rule.SHIFT),
        ("conv", "4x6x8:9x3x2", "8x8x4", "x2_4x4", Rule.THRESHOLDS),
        ("conv", "5x6x8:21x3x3", "8x4xi2", "x3_4x4", Rule.BN32),
        ("linear", "44:9:raw", "8x8x32", "cu_4x1", Rule.BN32),
        ("linear", "44:9", "4x2x2", "rv32im_4x1", Rule.BN64),
        ("conv", "4x5x40:9x3x2:p=1x0x1x2", "1x1x1", "xpulpv2_4x2", Rule.THRESHOLDS),
        ("linear", "70:11", "1x1x1", "nn_4x1", Rule.THRESHOLDS),
    ],
)
@pytest.mark.parametrize("engine", ["stream", "core"])
def test_kernels_of_other_layers_and_precisions(kernel, text, precision, variant, rule, engine):
    """With memory that lets wait; as programs they also show that the caller gets its registers back."""
    machine = Machine(grant_stalls=0.3, response_latency=4, seed=5)
    chosen = kernel_case(kernel, text, precision, variant, config_of(variant), machine=machine, rule=rule)
    chosen.check()
    result = run_case(chosen, engine)
    assert result.record["mismatches"] == 0, result.reports
    assert result.record["rule"] == ("" if precision.endswith("32") else rule.value)


def test_a_program_that_does_not_end_in_time_is_a_mismatch():
    result = run_case(case(MATMUL, 8, "nn_4x4", max_cycles=500), "core")
    assert result.record["mismatches"] >= 1
    assert any(report.startswith("not finished after 500 cycles") for report in result.reports)


def test_waveforms_of_a_few_instructions(tmp_path):
    # a small core, whose model with waveforms is compiled soon
    chosen = case(MATMUL, 8, "xpulpv2_4x2", config=simulated(preset("ri5cy")))
    sizes: list[int] = []
    for last in (20, 200):
        path: Path = tmp_path / f"{last}.fst"
        run_case(chosen, waves=Waves(path=path, first=10, last=last, by_instruction=True))
        sizes.append(path.stat().st_size)
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            case(CONV, 8, "nn_4x4", config=preset("ri5cy")),
            (
                "variant must be one that the configuration can run, not nn_4x4 (needs XpulpMLnn: preset xpulpnn or "
                "xpulpnn-full or xpulpnn2 or xpulpnn3)"
            ),
        ),
        (case(CONV, 16, "xpulpv2_4x2"), "precision of xpulpv2_4x2 must be widths out of 8,4,2,1, not 16x16x16"),
    ],
)
def test_cases_that_cannot_run(chosen, message):
    with pytest.raises(XpulpnnError) as caught:
        chosen.check()
    assert str(caught.value) == message


CHANNELWISE = {
    "depthwise": "5x6x5:3x3",
    "add": "2x3x9",
    "maxpool": "6x7x9:3x3:s=2,p=1",
    "avgpool": "5x6x9:2x2:s=2,p=1:scaled",
    "relu": "3x3x9",
    "transpose": "3x7x9",
}


def channelwise(name: str, bits: int, level: str, **timing) -> Case:
    chosen = find_kernel(name)
    return Case(
        layer=chosen.layer.parse(CHANNELWISE[name]),
        precision=chosen.uniform(bits),
        variant=level if level in chosen.variants else "xpulpv2",
        config=FULL,
        machine=Machine(**timing),
    )


@pytest.mark.parametrize(("number", "name"), list(enumerate(CHANNELWISE)))
def test_channelwise_kernels_in_slow_memory(number: int, name: str):
    chosen = (8, 4, 2)[number % 3], ("xpulpnn", "xpulpv2", "rv32im")[number // 2]
    quick = run_case(channelwise(name, *chosen))
    slow = run_case(channelwise(name, *chosen, grant_stalls=0.4, response_latency=4, seed=number))
    assert (quick.reports, slow.reports) == ([], [])
    assert quick.record["mismatches"] == slow.record["mismatches"] == 0
    assert slow.record["cycles"] > quick.record["cycles"]


@pytest.mark.parametrize("name", CHANNELWISE)
def test_channelwise_kernels_under_interrupts_and_on_four_cores(name: str):
    chosen = channelwise(name, 2, "xpulpnn")
    for result in (
        run_case(replace(chosen, machine=Machine(irq_rate=0.02)), "core"),
        run_kernel(replace(chosen, config=FOUR)),
    ):
        assert result.record["mismatches"] == 0, result.reports
