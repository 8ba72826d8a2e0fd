"""Kernels on the cores of a cluster: right results, figures that add up, and faults that are reported."""

from dataclasses import replace
from typing import Any

import pytest
from tests.designs import BEYOND, FOUR, FULL, PAIR, kernel_case

from xpulpnn.config import preset
from xpulpnn.errors import XpulpnnError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import check_cluster_case, cluster_executable, run_cluster_case
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors, run_case
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sw.kernels.programs import bare
from xpulpnn_sw.kernels.programs.bare import cluster_program
from xpulpnn_sw.kernels.variants import VARIANTS

CONV = "6x6x8:8x3x3"
MATMUL = "8x32x14"


def case(text: str, bits: int, variant: str, config=FOUR, **options: Any) -> Case:
    return kernel_case("conv" if ":" in text else "matmul", text, bits, variant, config, **options)


def figures_of(chosen: Case) -> dict[str, Any]:
    result = run_cluster_case(chosen)
    assert not result.reports
    return result.record


@pytest.mark.cosim
@pytest.mark.parametrize(("number", "name"), list(enumerate(VARIANTS)))
def test_every_variant(number, name):
    layer = (CONV, MATMUL)[number // 3 % 2]
    figures = figures_of(case(layer, (8, 4, 2)[number % 3], name))
    assert figures["mismatches"] == 0
    assert (figures["cores"], figures["banks"], figures["engine"]) == (4, 16, "cluster")
    config = FULL if VARIANTS[name].extensions <= FULL.extensions else BEYOND
    alone = run_case(case(layer, figures["bits"], name, config, checked=False), "core").record
    assert figures["sdotp"] == alone["sdotp"]
    assert 0.8 * alone["instructions"] <= figures["instructions"] <= 1.6 * alone["instructions"]
    assert figures["cycles"] < alone["cycles"] / 1.5


@pytest.mark.cosim
@pytest.mark.parametrize(
    ("kernel", "text", "precision", "variant"),
    [
        ("conv", "6x7x8:8x3x3", "8x2x4", "nn_4x4"),
        ("conv1d", "30x8:4x3:d=3", "8x8x8", "nn_4x2"),
        ("pointwise", "5x6x16:8", "4x4xi8", "nn_4x4"),
        ("conv", "6x7x8:36x3x3", "8x2x2", "x2_4x4"),
        ("pointwise", "5x6x16:8", "4x4xi8", "x2_4x4"),
        ("linear", "64:22", "2x2x2", "nn_4x1"),
        ("linear", "48:21", "8x4x4", "cu_4x1"),
    ],
)
def test_other_layers_and_precisions(kernel, text, precision, variant):
    figures = figures_of(kernel_case(kernel, text, precision, variant, FOUR))
    assert figures["mismatches"] == 0
    assert all(share > 0 for share in figures["shares"])


@pytest.mark.cosim
def test_every_cycle_of_every_core_has_a_reason():
    figures = figures_of(case(CONV, 8, "nn_4x4"))
    assert len(figures["shares"]) == len(figures["stalls_by_core"]) == 4
    assert max(figures["shares"]) <= figures["cycles"] <= max(figures["shares"]) + 10
    assert figures["barrier"] == 4 * figures["cycles"] - sum(figures["shares"])
    for cause, cycles in figures["stalls"].items():
        assert cycles == sum(stalls[cause] for stalls in figures["stalls_by_core"]), cause
    # what is around the function: the call, and readings of mcycle
    missing = sum(figures["shares"]) - figures["instructions"] - sum(figures["stalls"].values())
    assert 0 <= missing <= 4 * 8


@pytest.mark.cosim
def test_aligned_operands_conflict_more():
    padded, aligned = (
        figures_of(case("6x8x16:16x3x3", 8, "cu_4x2", checked=False, placement=placement))
        for placement in ("padded", "aligned")
    )
    assert padded["mismatches"] == aligned["mismatches"] == 0
    assert (padded["placement"], aligned["placement"]) == ("padded", "aligned")
    assert 0 < padded["stalls"]["bank_conflict"] < aligned["stalls"]["bank_conflict"]


@pytest.mark.cosim
@pytest.mark.parametrize("name", ["cu_4x2", "nn_4x4"])
def test_a_share_that_nobody_takes_is_reported(monkeypatch, name):
    monkeypatch.setattr(bare, "CLUSTER_CALLER", bare.CLUSTER_CALLER.replace("li a2, {cores}", "li a2, 5"))
    result = run_cluster_case(case(CONV, 8, name))
    assert result.record["mismatches"] > 0
    assert any(report.startswith("output[") for report in result.reports)


@pytest.mark.cosim
def test_a_core_that_does_not_come_to_the_barrier_is_reported():
    result = run_cluster_case(case(CONV, 8, "nn_4x4", checked=False, machine=Machine(max_cycles=500)))
    assert result.record["mismatches"] >= 1
    assert any("not finished after 500 cycles" in report for report in result.reports)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("layer", "config", "message"),
    [
        (CONV, replace(FOUR, core=preset("ri5cy")), r"variant must be one that the configuration can run, not nn_4x4 "),
        (
            "3x2000x64:4x3x3",
            FOUR,
            r"tiles must be at most the TCDM's 131072 bytes with buffers and stacks, not \d+$",
        ),
    ],
)
def test_rejected(layer, config, message):
    with pytest.raises(XpulpnnError, match=f"^{message}"):
        check_cluster_case(case(layer, 8, "nn_4x4", config))


@pytest.mark.cosim
def test_second_pass_hits():
    machine = Machine(l2_latency=20, max_cycles=100_000)
    case = kernel_case("conv", "6x6x8:8x3x3", 8, "xpulpv2_4x2", PAIR, machine=machine, checked=True)
    result = run_cluster_case(case)
    assert not result.reports
    figures = result.record
    assert (figures["icache"], figures["l2_latency"], figures["mismatches"]) == (512, 20, 0)
    # once only, from memory: the same work takes longer
    program = cluster_program(case_kernel(case, case_tensors(case)), PAIR.cores)
    first = run_program(cluster_executable(case, program), PAIR, machine, account=True)
    cold = program.measured(first.memory[TCDM_BASE])
    lines = len(program.text) // 16
    assert cold > figures["cycles"] + lines * machine.l2_latency / 2
    # all the code is in the shared cache, and a fetch from there takes three cycles
    assert 0 < figures["stalls"]["fetch"] < figures["instructions"] / 20
    assert figures["instructions"] < first.instructions < 2 * figures["instructions"]
