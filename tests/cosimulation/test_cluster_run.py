"""Kernels on the cores of a cluster, in tiles too: right results, figures that add up, and faults that are reported."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.designs import BEYOND, FOUR, FULL, PAIR, kernel_case

from xpulpnn.config import preset
from xpulpnn.errors import XpulpnnError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import check_cluster_case, cluster_executable, run_kernel, tiles_of
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors, compared_results, run_case
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.kernels.programs import bare, tiled
from xpulpnn_sw.kernels.programs.bare import cluster_program
from xpulpnn_sw.kernels.programs.tiled import Tiling
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.precision import Precision

pytestmark = pytest.mark.cosim

CONV = "6x6x8:8x3x3"
MATMUL = "8x32x14"


def case(text: str, bits: int, variant: str, config=FOUR, **options: Any) -> Case:
    return kernel_case("conv" if ":" in text else "matmul", text, bits, variant, config, **options)


def figures_of(chosen: Case) -> dict[str, Any]:
    result = run_kernel(chosen)
    assert not result.reports
    assert result.record["mismatches"] == 0
    return result.record


@pytest.mark.parametrize(("number", "name"), list(enumerate(VARIANTS)))
def test_every_variant(number, name):
    layer = (CONV, MATMUL)[number // 3 % 2]
    figures = figures_of(case(layer, (8, 4, 2)[number % 3], name))
    assert (figures["cores"], figures["banks"], figures["engine"]) == (4, 16, "cluster")
    config = FULL if VARIANTS[name].extensions <= FULL.extensions else BEYOND
    alone = run_case(case(layer, figures["bits"], name, config, checked=False), "core").record
    assert figures["sdotp"] == alone["sdotp"]
    assert 0.8 * alone["instructions"] <= figures["instructions"] <= 1.6 * alone["instructions"]
    assert figures["cycles"] < alone["cycles"] / 1.5


@pytest.mark.parametrize(
    ("kernel", "text", "precision", "variant"),
    [
        ("conv", "6x7x8:8x3x3", "8x2x4", "nn_4x4"),
        ("conv1d", "30x8:4x3:d=3", "8x8x8", "nn_4x2"),
        ("pointwise", "5x6x16:8", "4x4xi8", "nn_4x4"),
        ("conv", "6x7x8:36x3x3", "8x2x2", "x2_4x4"),
        ("pointwise", "5x6x16:8", "4x4xi8", "x2_4x4"),
        ("pointwise", "5x6x16:8", "4x4xi8", "x3_4x4"),
        ("pointwise", "1x1x31:27", "8x2x32", "x3_4x4"),
        ("linear", "64:22", "2x2x2", "nn_4x1"),
        ("linear", "48:21", "8x4x4", "cu_4x1"),
    ],
)
def test_other_layers_and_precisions(kernel, text, precision, variant):
    assert min(figures_of(kernel_case(kernel, text, precision, variant, FOUR))["shares"]) > 0


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


def test_aligned_operands_conflict_more():
    padded, aligned = (
        figures_of(case("6x8x16:16x3x3", 8, "cu_4x2", checked=False, placement=placement))
        for placement in ("padded", "aligned")
    )
    assert (padded["placement"], aligned["placement"]) == ("padded", "aligned")
    assert 0 < padded["stalls"]["bank_conflict"] < aligned["stalls"]["bank_conflict"]


def test_a_share_that_nobody_takes_is_reported(monkeypatch):
    monkeypatch.setattr(bare, "CLUSTER_CALLER", bare.CLUSTER_CALLER.replace("li a2, {cores}", "li a2, 5"))
    result = run_kernel(case(CONV, 8, "nn_4x4"))
    assert result.record["mismatches"] > 0
    assert any(report.startswith("output[") for report in result.reports)


def test_a_core_that_does_not_come_to_the_barrier_is_reported():
    result = run_kernel(case(CONV, 8, "nn_4x4", checked=False, machine=Machine(max_cycles=500)))
    assert result.record["mismatches"] >= 1
    assert any("not finished after 500 cycles" in report for report in result.reports)


@pytest.mark.parametrize(
    ("layer", "config", "tiling", "message"),
    [
        (CONV, replace(FOUR, core=preset("ri5cy")), None, r"variant must .* can run, not nn_4x4 "),
        ("3x2000x64:4x3x3", FOUR, None, r"tiles must be at most the TCDM's 131072 bytes with .*, not \d+$"),
        (CONV, replace(FOUR, dma=False), Tiling(), "dma of the cluster must be true for tiles, not false"),
        (
            "32x32x64:64x3x3",
            replace(FOUR, dma=False),
            None,
            r"operands, buffers and stacks must .* 131072 bytes, not \d+ of .* 4 cores without DMA$",
        ),
    ],
)
def test_rejected(layer, config, tiling, message):
    with pytest.raises(XpulpnnError, match=f"^{message}"):
        check_cluster_case(case(layer, 8, "nn_4x4", config, tiling=tiling))


def test_second_pass_hits():
    machine = Machine(l2_latency=20, max_cycles=100_000)
    case = kernel_case("conv", "6x6x8:8x3x3", 8, "xpulpv2_4x2", PAIR, machine=machine, checked=True)
    figures = figures_of(case)
    assert (figures["icache"], figures["l2_latency"]) == (512, 20)
    # once only, from memory: the same work takes longer
    program = cluster_program(case_kernel(case, case_tensors(case)), PAIR.cores)
    first = run_program(cluster_executable(case, program), PAIR, machine, account=True)
    cold = program.measured_cycles(first.memory[TCDM_BASE])
    lines = len(program.text) // 16
    assert cold > figures["cycles"] + lines * machine.l2_latency / 2
    # all the code is in the shared cache, and a fetch from there takes three cycles
    assert 0 < figures["stalls"]["fetch"] < figures["instructions"] / 20
    assert figures["instructions"] < first.instructions < 2 * figures["instructions"]


@pytest.mark.parametrize(
    ("text", "bits", "variant", "tiling"),
    [
        ("7x5x8:9x3x3:p=2x1x0x1", 8, "nn_4x4", Tiling(rows=2, channels=4)),
        ("6x5x5:20x3x2:s=2x1", 2, "simd_4x2", Tiling(rows=1, channels=16)),
        ("5x4x8:8x3x3", 4, "xpulpv2_1x2", Tiling(rows=3)),
        ("4x4x4:6x2x2", 4, "rv32im_2x2", Tiling(rows=1)),
        ("13x40x19", 8, "nn_4x4", Tiling(rows=8, channels=4)),
        ("10x37x9", 2, "cu_4x2", Tiling(rows=4)),
    ],
)
def test_tiles_give_the_layer(text, bits, variant, tiling):
    figures = figures_of(case(text, bits, variant, tiling=tiling, machine=Machine(l2_latency=5, response_latency=3)))
    tiling_figures = figures["tiling"]
    assert tiling_figures["tiles"] == len([step for step in tiling_figures["steps"] if step["tile"] is not None]) > 1
    assert tiling_figures["overlap"]


@pytest.mark.parametrize(
    ("kernel", "text", "precision", "variant", "tiling"),
    [
        ("pointwise", "3x2x20:22", "8x2xi2", "xpulpv2_1x2", Tiling(rows=4, channels=16)),
        ("pointwise", "6x4x12:8:s=2,p=1", "8x8x8", "nn_4x4", Tiling(rows=1)),
        ("conv", "7x6x8:24x3x3", "4x4x4", "x2_4x4", Tiling(rows=2, channels=16)),
        ("conv1d", "15x6:8x3:s=2,p=2,d=2", "4x8x8", "nn_4x4", Tiling(rows=3)),
        ("linear", "33:24", "8x4x8", "nn_4x1", Tiling(channels=8)),
        ("linear", "50:40:raw", "8x8x8", "cu_4x1", Tiling(channels=16, overlap=False)),
    ],
)
def test_other_layers_with_filters_on_the_simulator(kernel, text, precision, variant, tiling):
    widths = KERNELS[kernel].precision(KERNELS[kernel].layer.parse(text), Precision.parse(precision))
    chosen = kernel_case(kernel, text, str(widths), variant, FOUR, tiling=tiling)
    tensors = case_tensors(chosen)
    program = tiles_of(chosen, case_kernel(chosen, tensors))
    assert program is not None
    assert len(program.plan.tiles) > 1
    session = ClusterSession(cluster_executable(chosen, program), FOUR, output=lambda _: None)
    assert session.run(200_000).ok
    image = program.run.image
    outside = np.frombuffer(session.memory.read_bytes(image.base, image.data.size), np.uint8)
    assert not compared_results(program.run, outside, chosen, tensors).wrong


@pytest.mark.parametrize("specialise", [False, True])
def test_what_does_not_fit_comes_in_tiles(specialise):
    chosen = case("8x512x300", 8, "nn_4x4", checked=False, specialise=specialise)
    check_cluster_case(chosen)
    figures = figures_of(chosen)
    tiling = figures["tiling"]
    assert tiling["tiles"] > 1
    assert tiling["tcdm_bytes"] <= FOUR.tcdm_bytes
    weights = max(place["bytes"] for place in tiling["tcdm"] if place["name"] == "weights0")
    assert tiling["loaded"] == 300 * 512 + weights
    assert tiling["stored"] == 300 * 8 * 4
    assert 4 < tiling["bytes_per_cycle"] <= 16
    assert sum(figures["shares"]) + figures["barrier"] == 4 * figures["cycles"]
    for before, after in zip(tiling["steps"][:-1], tiling["steps"][1:], strict=True):
        assert before["begin"] <= before["computed"] <= before["end"] <= after["begin"] <= before["end"] + 40
        assert before["moving"] <= after["begin"] - before["begin"]
    assert tiling["waiting"] == sum(step["end"] - step["computed"] for step in tiling["steps"])


def test_moving_meanwhile_saves_time():
    text = "12x8x16:16x3x3"
    figures = [
        figures_of(case(text, 8, "nn_4x4", tiling=Tiling(rows=2, overlap=overlap), checked=False))
        for overlap in (True, False)
    ]
    together, apart = (figure["tiling"] for figure in figures)
    assert (together["tiles"], apart["tiles"], together["overlap"], apart["overlap"]) == (6, 6, True, False)
    assert apart["tcdm_bytes"] < together["tcdm_bytes"]
    assert figures[0]["cycles"] < figures[1]["cycles"]
    assert together["waiting"] < apart["waiting"] / 2
    assert not any(step["loaded"] + step["stored"] for step in apart["steps"] if step["tile"] is not None)
    assert all(step["loaded"] + step["stored"] for step in together["steps"])


@pytest.mark.parametrize(
    ("correct", "wrong", "report"),
    [
        # the tile before the one that is computed comes out, when the results of the next are there
        (" bne t1, zero, wait{number};", "", "output["),
        ("mv s4, t0;", "mv s4, s3;", ""),
    ],
    ids=["not-awaited", "old-description"],
)
def test_faults_of_the_program_are_reported(monkeypatch, correct, wrong, report):
    assert tiled._CALLER.count(correct) == 1
    monkeypatch.setattr(tiled, "_CALLER", tiled._CALLER.replace(correct, wrong))
    machine = Machine(l2_latency=200, max_cycles=60_000)
    chosen = case("6x4x4:4x1x1:p=0", 8, "nn_4x4", tiling=Tiling(rows=1), checked=False, machine=machine)
    result = run_kernel(chosen)
    assert result.record["mismatches"] > 0
    assert any(text.startswith(report) for text in result.reports)
