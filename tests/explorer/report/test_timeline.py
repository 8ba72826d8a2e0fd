"""The timeline of layers in tiles."""

import pytest

from xpulpnn_sim.explorer.report.timeline import timeline_figure, write_cluster_plots
from xpulpnn_sim.tools.pages import plots_of

pytestmark = pytest.mark.unit


def step(tile, begin, computed, end, moving):
    rows = [] if tile is None else [2 * tile, 2 * tile + 2]
    moved = {"loaded": 10 * moving, "stored": moving}
    ends = {"begin": begin, "computed": computed, "end": end, "waiting": end - computed}
    return {"tile": tile, "rows": rows, "channels": rows, "moving": moving, **ends, **moved}


RECORD = {
    "kernel": "conv",
    "layer": "4x4x4:4x3x3",
    "precision": "8x8x8",
    "variant": "nn_4x4",
    "cores": 8,
    "banks": 16,
    "arbiter": "counter",
    "placement": "padded",
    "cycles": 300,
    "macs_per_cycle": 12.5,
    "sdotp": 250,
    "cycles_per_sdotp": 1.2,
    "stalls": {},
    "tiling": {
        "tiles": 2,
        "unit": "rows",
        "steps": [step(None, 0, 5, 60, 50), step(0, 70, 170, 170, 80), step(1, 180, 280, 290, 0)],
    },
}


def test_a_bar_for_each_tile_each_transfer_and_each_wait():
    figure = timeline_figure(RECORD)
    compute, moves, waits = figure["data"]
    assert (compute["base"], compute["x"]) == ([70, 180], [100, 100])
    assert compute["customdata"][1] == ["tile 1, rows 2 to 3, channels 2 to 3", 180, 280]
    assert (moves["base"], moves["x"]) == ([0, 70], [50, 80])
    assert moves["customdata"][0][0] == "500 bytes in, 50 out"
    assert (waits["base"], waits["x"]) == ([5, 280], [55, 10])
    assert figure["layout"]["title"]["text"].endswith("8 cores: 2 tiles, 12.50 MAC per cycle")


def test_a_page_of_one_number_of_cores_has_no_plot_over_the_cores(tmp_path):
    pytest.importorskip("plotly")
    path = tmp_path / "tiles.html"
    write_cluster_plots(path, [RECORD])
    text = str(plots_of(path.read_text()))
    assert "waiting for DMA" in text
    assert "MAC per cycle, whole kernel" not in text
    write_cluster_plots(path, [RECORD, RECORD | {"cores": 4}])
    assert "MAC per cycle, whole kernel" in str(plots_of(path.read_text()))
