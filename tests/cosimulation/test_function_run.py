"""Products of packed operands on the RTL, and ``xpulpnn cosim ulppack``: figures to stay below, wrong ones reported."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import FULL
from tests.programs import read_results

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.api.packed_sweeps import SweepRequest, sweep_points
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.packed_products import FunctionWork, SweepPoint, run_point
from xpulpnn_sim.exploration.report.packed_tables import sweep_tables
from xpulpnn_sw.kernels.ulppack.gemm import packed_gemm
from xpulpnn_sw.kernels.ulppack.packing import METHODS, methods
from xpulpnn_sw.kernels.ulppack.plan import PackedPlan, best_plan
from xpulpnn_sw.layers.layer import MatmulLayer

LAYER = MatmulLayer.parse("32x512x8")
SMALL = MatmulLayer.parse("4x64x4")

FIGURES = {
    (1, 1): {"mul": 0.653, "p.mac": 0.369, "pv.sdotup.h": 0.310, "pv.sdotup.b": 0.245, "p.cnt": 0.1259},
    (1, 2): {"mul": 0.807, "p.mac": 0.458, "pv.sdotup.h": 0.350},
    (2, 2): {"mul": 0.870, "p.mac": 0.517, "pv.sdotup.h": 0.446},
    (2, 4): {"mul": 1.206, "p.mac": 0.687, "pv.sdotup.h": 0.469},
    (3, 3): {"mul": 1.237, "p.mac": 0.703, "pv.sdotup.h": 0.459},
    (4, 4): {"mul": 1.604, "p.mac": 0.889, "pv.sdotup.h": 0.567},
    (7, 7): {"mul": 2.260, "p.mac": 1.381},
}
"""Cycles per MAC at most, by bits of weights and activations, and instruction."""


@pytest.mark.cosim
@pytest.mark.parametrize(("w", "a"), FIGURES)
def test_cycles_per_mac(w, a):
    points = sweep_points(["table"], SweepRequest(layer=LAYER, pairs=[(w, a)]))
    records = [run_point(point, FULL, Machine(), check=False).record for point in points if point.kind == "ulppack"]
    if "p.cnt" in FIGURES[w, a]:
        records.append(run_point(SweepPoint(layer=LAYER, w=w, a=a), FULL, Machine(), check=False).record)
    assert not any(record["mismatches"] for record in records)
    figures = {record["product"]: record["cycles_per_mac"] for record in records}
    assert {product: figure for product, figure in FIGURES[w, a].items() if figures[product] > figure} == {}
    for record in records:
        if record["kind"] == "ulppack":
            assert record["estimated_cycles"] == pytest.approx(record["cycles"], rel=0.02)


@pytest.mark.cosim
def test_every_retirement_is_checked_under_stalls():
    plan = best_plan(SMALL, 2, 2, methods("xpulpv2"))
    point = SweepPoint(layer=SMALL, w=2, a=2, plan=plan, signed=True)
    quick = run_point(point, FULL, Machine()).record
    slow = run_point(point, FULL, Machine(grant_stalls=0.3, seed=3)).record
    assert (quick["mismatches"], slow["mismatches"]) == (0, 0)
    assert slow["cycles"] > quick["cycles"]


@pytest.mark.cosim
def test_an_iteration_too_many_is_found(monkeypatch):
    """The largest operands overflow if the bound is lifted, and only then."""
    plan = best_plan(SMALL, 2, 2, METHODS, scheme="P1-32", depth=4)
    assert plan is not None
    point = SweepPoint(layer=SMALL, w=2, a=2, plan=plan, extreme=True)
    assert run_point(point, FULL, Machine()).record["mismatches"] == 0
    monkeypatch.setattr(plan.packing, "iterations", 8)
    deeper = PackedPlan(layer=SMALL, method=plan.method, packing=plan.packing, iterations=8, block=plan.block)
    wrong = run_point(replace(point, plan=deeper), FULL, Machine())
    assert wrong.record["mismatches"] > 0
    assert wrong.reports[0].startswith("output[0][0]: expected 576, got ")


@pytest.mark.cosim
def test_wrong_results_are_counted():
    plan = best_plan(SMALL, 1, 1, methods("rv32im"))
    assert plan is not None
    weights, activations = np.ones((4, 64), np.int64), np.ones((4, 64), np.int64)
    expected = activations @ weights.T
    expected[2, 1] += 1
    result = FunctionWork(packed_gemm(plan, weights, activations), expected, FULL, Machine(), checked=True).run()
    assert result.record["mismatches"] == 1
    assert result.reports == ["output[2][1]: expected 65, got 64 (1 wrong results)"]


@pytest.mark.flow
def test_the_core_must_have_the_instructions():
    plan = best_plan(SMALL, 1, 1, methods("xpulpv2"))
    assert plan is not None
    function = packed_gemm(plan, np.ones((4, 64), np.int64), np.ones((4, 64), np.int64))
    poor = CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=DotpConfig(widths=frozenset({16, 8})))
    with pytest.raises(InputError, match=r"^configuration must be one with XpulpV2, not "):
        FunctionWork(function, np.zeros((4, 4), np.int64), poor, Machine(), checked=True)


COMMAND = ["cosim", "ulppack", "--matmul", "4x36x4", "--jobs", "1"]


@pytest.mark.cosim
def test_a_pair_of_widths(tmp_path, capsys):
    path = tmp_path / "records.json"
    assert cli.main([*COMMAND, "--weights", "2", "--activations", "1", "--json", str(path), "--signed"]) == 0
    records = read_results(path)
    assert [record["product"] for record in records] == [
        *("mul", "p.mac", "pv.sdotup.h", "pv.sdotup.b", "p.cnt", "mul", "pv.sdotup.b"),
        *("rv32im_2x2", "xpulpv2_4x2", "nn_4x4", "nn_4x4", "nn_4x4"),
    ]
    assert not any(record["mismatches"] for record in records)
    for record in records:
        assert record["cycles_per_mac"] == pytest.approx(record["cycles"] / (4 * 36 * 4), abs=1e-4)
    assert "12 products, 0 wrong" in capsys.readouterr().out


@pytest.mark.cosim
def test_sweeps_and_their_plots(tmp_path, capsys):
    page = tmp_path / "plots.html"
    arguments = [*COMMAND, "--sweep", "iter", "--isa", "rv32im", "--scheme", "P1-32"]
    assert cli.main([*arguments, "--report", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "W1A1 rv32im mul P1-32: times faster than bytes" in shown
    assert next(row for row in shown.splitlines() if row.startswith(" depth 8")).count("-") == 12
    assert "W1A1 rv32im mul P1-32: times faster than bytes" in page.read_text()


def record(**changes):
    usual = {"kind": "ulppack", "sweep": "best", "isa": "xpulpv2", "product": "p.mac", "scheme": "P1-32", "depth": 4}
    usual |= {"iterations": 7, "weights": 2, "activations": 3, "cycles": 100, "cycles_per_mac": 0.5, "mismatches": 0}
    return usual | {"matmul": "1x2x3"} | changes


def test_the_fastest_packing_is_shown():
    records = [
        record(),
        record(scheme="P2-16", product="pv.sdotup.h", depth=2, iterations=455, cycles=50),
        record(kind="bytes", scheme="bytes", cycles=75),
        record(kind="bit-serial", scheme=None, cycles=200),
    ]
    best, rival = sweep_tables(records)
    assert [column.name for column in best.columns] == ["weights", *(f"A{n}" for n in range(1, 8))]
    for shown, faster in ((best, "1.50x"), (rival, "4.00x")):
        cells = {f"W{n}": [f"W{n}", *[None] * 7] for n in range(1, 8)}
        cells["W2"][3] = f"P2-16 2 99+ {faster}"
        assert shown.rows == list(cells.values())


def test_equal_widths_hold_for_what_is_narrower():
    records = [
        record(sweep="bits", weights=1, activations=1),
        record(sweep="bits", weights=4, activations=4, cycles_per_mac=0.75),
        record(sweep="bits", kind="library", product="nn_4x4", weights=4, cycles_per_mac=0.25),
    ]
    (shown,) = sweep_tables(records)
    assert shown.rows == [["xpulpv2 p.mac", "0.5000", "0.7500"], ["nn_4x4 4 bit", "0.2500", "0.2500"]]


@pytest.mark.flow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--weights 2", "--weights"),
        ("--matmul 4x4", "layer"),
        ("--report /dev/null/plot.html", ""),
        ("--weights 7 --activations 7 --depth 3", "packing"),
    ],
)
def test_bad_input(words, named, refused):
    assert refused("cosim", "ulppack", *words.split()).startswith(named)


def test_extreme_operands():
    point = SweepPoint(layer=MatmulLayer.parse("1x2x1"), w=3, a=2, signed=True, extreme=True)
    weights, activations = point.operands(0)
    assert (weights.tolist(), activations.tolist()) == ([[3, 3]], [[3, 3]])
