"""``xpulpnn cosim ulppack``: tables, sweeps, plots, and one line for bad input."""

import pytest

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cosimulation.workloads.packed_products import SweepPoint
from xpulpnn_sim.exploration.report.packed_plots import grids
from xpulpnn_sim.tools.pages import plots_of
from xpulpnn_sw.layers.convolution import MatmulLayer

SMALL = ["--matmul", "4x36x4", "--jobs", "1"]


@pytest.mark.cosim
def test_a_pair_of_widths(tmp_path, capsys):
    path = tmp_path / "records.json"
    arguments = ["cosim", "ulppack", "--weights", "2", "--activations", "1", *SMALL, "--json", str(path), "--signed"]
    assert cli.main(arguments) == 0
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
    arguments = ["cosim", "ulppack", "--sweep", "iter", "--isa", "rv32im", "--scheme", "P1-32", *SMALL]
    assert cli.main([*arguments, "--plot", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "W1A1 rv32im mul P1-32: times faster than bytes" in shown
    assert next(row for row in shown.splitlines() if row.startswith(" depth 8")).count("-") == 12
    assert "lines+markers" in str(plots_of(page.read_text()))


def record(**changes):
    """A record with what grids need."""
    usual = {"kind": "ulppack", "sweep": "best", "isa": "xpulpv2", "product": "p.mac", "scheme": "P1-32", "depth": 4}
    usual |= {"iterations": 7, "weights": 2, "activations": 3, "cycles": 100, "cycles_per_mac": 0.5, "mismatches": 0}
    return usual | {"matmul": "1x2x3"} | changes


@pytest.mark.unit
def test_the_fastest_packing_is_shown():
    records = [
        record(),
        record(scheme="P2-16", product="pv.sdotup.h", depth=2, iterations=455, cycles=50),
        record(kind="bytes", scheme="bytes", cycles=75),
        record(kind="bit-serial", scheme=None, cycles=200),
    ]
    best, rival = grids(records)
    assert best.texts == {("W2", "A3"): "P2-16 2 99+ 1.50x"}
    assert rival.texts == {("W2", "A3"): "P2-16 2 99+ 4.00x"}
    assert (best.rows, best.columns) == ([f"W{n}" for n in range(1, 8)], [f"A{n}" for n in range(1, 8)])


@pytest.mark.unit
def test_equal_widths_hold_for_what_is_narrower():
    records = [
        record(sweep="bits", weights=1, activations=1),
        record(sweep="bits", weights=4, activations=4, cycles_per_mac=0.75),
        record(sweep="bits", kind="library", product="nn_4x4", weights=4, cycles_per_mac=0.25),
    ]
    (grid,) = grids(records)
    assert grid.numbers["nn_4x4 4 bit", "1"] == grid.numbers["nn_4x4 4 bit", "4"] == 0.25
    assert grid.numbers["xpulpv2 p.mac", "4"] == 0.75


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--weights 2", "--weights"),
        ("--matmul 4x4", "layer"),
        ("--plot /dev/null/plot.html", ""),
        ("--weights 7 --activations 7 --depth 3", "packing"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, named, capsys):
    assert cli.main(["cosim", "ulppack", *words.split()]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith(f"error: {named}")


@pytest.mark.unit
def test_extreme_operands():
    point = SweepPoint(layer=MatmulLayer.parse("1x2x1"), w=3, a=2, signed=True, extreme=True)
    weights, activations = point.operands(0)
    assert (weights.tolist(), activations.tolist()) == ([[3, 3]], [[3, 3]])
