"""What more banks bring, and the plot of it."""

import pytest

from xpulpnn_sim.explorer.report.banking import bank_gains, banking_figure
from xpulpnn_sim.explorer.report.timeline import write_cluster_plots
from xpulpnn_sim.tools.pages import plots_of

pytestmark = pytest.mark.unit

SAME = {
    "kernel": "matmul",
    "layer": "4x8x4",
    "precision": "8x8xi32",
    "arbiter": "counter",
    "placement": "padded",
    "sdotp": 9,
    "cycles": 100,
    "macs_per_cycle": 2.0,
}


def record(variant: str, cores: int, banks: int, cycles_per_sdotp: float, **others: object) -> dict:
    return {**SAME, "variant": variant, "cores": cores, "banks": banks, "cycles_per_sdotp": cycles_per_sdotp, **others}


RECORDS = [
    record("cu_4x2", 1, 16, 1.25),
    record("cu_4x2", 8, 16, 1.5),
    record("cu_4x2", 8, 32, 1.2),
    record("cu_4x2", 1, 32, 1.25),
    record("nn_4x2", 8, 64, 1.0),
    record("nn_4x2", 8, 16, 1.1),
]


def test_gains_are_over_half_the_banks_of_the_same_on_several_cores():
    assert bank_gains(RECORDS) == [None, None, pytest.approx(0.25), None, None, None]
    assert bank_gains([RECORDS[1], {**RECORDS[2], "placement": "aligned"}]) == [None, None]
    assert bank_gains([{**run, "sdotp": 0} for run in RECORDS[1:3]]) == [None, None]


def test_a_bar_for_one_core_and_one_for_each_banking_factor():
    figure = banking_figure(RECORDS)
    assert {bar["name"]: dict(zip(bar["x"], bar["y"], strict=True)) for bar in figure["data"]} == {
        "1 core": {"cu_4x2": 1.25},
        "8 cores, 16 banks (BF2)": {"cu_4x2": 1.5, "nn_4x2": 1.1},
        "8 cores, 32 banks (BF4)": {"cu_4x2": 1.2},
        "8 cores, 64 banks (BF8)": {"nn_4x2": 1.0},
    }
    assert figure["layout"]["title"]["text"].endswith(": matmul, 4x8x4, 8x8xi32")


def test_what_differs_in_its_arbiter_has_bars_of_its_own():
    names = [bar["name"] for bar in banking_figure([RECORDS[1], {**RECORDS[1], "arbiter": "strict"}])["data"]]
    assert names == ["8 cores, 16 banks (BF2), counter", "8 cores, 16 banks (BF2), strict"]


def test_the_page_shows_it_where_banks_were_varied(tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "banks.html"
    write_cluster_plots(page, RECORDS)
    assert "(BF4)" in str(plots_of(page.read_text()))
    write_cluster_plots(page, RECORDS[:2])
    assert "(BF2)" not in str(plots_of(page.read_text()))
