"""The plot of kernels over the cores of clusters."""

import pytest

from xpulpnn_sim.explorer.report.scaling import scaling_figure, speed_ups
from xpulpnn_sim.explorer.report.timeline import write_cluster_plots
from xpulpnn_sim.tools.pages import plots_of

pytestmark = pytest.mark.unit

SAME = {"kernel": "conv", "layer": "4x4x4:4x3x3", "variant": "nn_4x4", "arbiter": "counter", "placement": "padded"}


def record(cores: int, cycles: int, banks: int = 16, precision: str = "8x8x8") -> dict:
    return SAME | {
        "cores": cores,
        "cycles": cycles,
        "banks": banks,
        "precision": precision,
        "macs_per_cycle": 1000 / cycles,
        "sdotp": 1,
        "cycles_per_sdotp": 1.0,
    }


RECORDS = [record(8, 125), record(1, 800), record(8, 100, 32), record(2, 390, 32), record(1, 800, 32)]


def test_speed_up_is_over_one_core_of_the_same_kind():
    assert speed_ups(RECORDS) == pytest.approx([6.4, 1, 8, 800 / 390, 1])
    assert speed_ups([record(8, 125), record(1, 900, 32), record(1, 700, precision="4x4x4")])[0] is None


def test_a_line_for_each_cluster_with_what_differs_as_its_name():
    figure = scaling_figure(RECORDS)
    rates, ratios = figure["data"][::2], figure["data"][1::2]
    assert [line["name"] for line in rates] == ["16 banks", "32 banks"]
    assert rates[1]["x"] == ratios[1]["x"] == [1, 2, 8]
    assert rates[1]["y"] == pytest.approx([1000 / 800, 1000 / 390, 10])
    assert rates[1]["customdata"] == [800, 390, 100]
    assert ratios[0]["y"] == pytest.approx([100, 80])
    assert ratios[1]["y"] == pytest.approx([100, 100 * 800 / 780, 100])
    assert figure["layout"]["title"]["text"] == "conv, 4x4x4:4x3x3, 8x8x8, nn_4x4, counter, padded"
    assert figure["layout"]["xaxis"]["tickvals"] == [1, 2, 8]


def test_without_one_core_there_is_no_speed_up():
    figure = scaling_figure([record(8, 125), record(4, 260)])
    assert len(figure["data"]) == 1
    assert "yaxis2" not in figure["layout"]


def test_the_page_needs_nothing_else(tmp_path):
    pytest.importorskip("plotly")
    path = tmp_path / "cores.html"
    write_cluster_plots(path, RECORDS)
    text = path.read_text()
    assert "32 banks" in str(plots_of(text))
    assert '<script src="' not in text
