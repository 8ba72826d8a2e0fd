"""Plots of kernels on clusters: over the cores, over the banks, and layers in tiles over time."""

import pytest
from tests.programs import plots_of

from xpulpnn_sim.exploration.report.cluster_plots import (
    bank_gains,
    scaling_figure,
    speed_ups,
    timeline_figure,
    write_cluster_plots,
)


def record(cores: int = 8, **fields: object) -> dict:
    """Figures of a kernel; what is not told is the same in all."""
    kernel = {"kernel": "conv", "layer": "4x4x4:4x3x3", "precision": "8x8x8", "variant": "nn_4x4"}
    cluster = {"banks": 16, "arbiter": "counter", "placement": "padded", "cores": cores}
    figures = {"cycles": 100, "macs_per_cycle": 2.0, "sdotp": 9, "cycles_per_sdotp": 1.0, "stalls": {}}
    return {**kernel, **cluster, **figures, **fields}


def timed(cores: int, cycles: int, banks: int = 16, precision: str = "8x8x8") -> dict:
    return record(cores, cycles=cycles, banks=banks, precision=precision, macs_per_cycle=1000 / cycles)


SCALED = [timed(8, 125), timed(1, 800), timed(8, 100, 32), timed(2, 390, 32), timed(1, 800, 32)]


def test_speed_up_is_over_one_core_of_the_same_kind():
    assert speed_ups(SCALED) == pytest.approx([6.4, 1, 8, 800 / 390, 1])
    assert speed_ups([timed(8, 125), timed(1, 900, 32), timed(1, 700, precision="4x4x4")])[0] is None


def test_a_line_for_each_cluster_with_what_differs_as_its_name():
    figure = scaling_figure(SCALED)
    rates = figure["data"]
    assert [line["name"] for line in rates] == ["16 banks", "32 banks"]
    assert rates[1]["x"] == [1, 2, 8]
    assert rates[1]["y"] == pytest.approx([1000 / 800, 1000 / 390, 10])
    assert rates[1]["customdata"] == [800, 390, 100]
    assert figure["layout"]["title"]["text"] == "conv, 4x4x4:4x3x3, 8x8x8, nn_4x4, counter, padded"
    assert figure["layout"]["xaxis"]["tickvals"] == [1, 2, 8]


def banked(variant: str, cores: int, banks: int, cycles_per_sdotp: float) -> dict:
    return record(cores, variant=variant, banks=banks, cycles_per_sdotp=cycles_per_sdotp)


BANKED = [
    banked("cu_4x2", 1, 16, 1.25),
    banked("cu_4x2", 8, 16, 1.5),
    banked("cu_4x2", 8, 32, 1.2),
    banked("cu_4x2", 1, 32, 1.25),
    banked("nn_4x2", 8, 64, 1.0),
    banked("nn_4x2", 8, 16, 1.1),
]


def test_gains_are_over_half_the_banks_of_the_same_on_several_cores():
    assert bank_gains(BANKED) == [None, None, pytest.approx(0.25), None, None, None]
    assert bank_gains([BANKED[1], {**BANKED[2], "placement": "aligned"}]) == [None, None]
    assert bank_gains([{**run, "sdotp": 0} for run in BANKED[1:3]]) == [None, None]


def step(tile, begin, computed, end, moving):
    rows = [] if tile is None else [2 * tile, 2 * tile + 2]
    moved = {"loaded": 10 * moving, "stored": moving}
    ends = {"begin": begin, "computed": computed, "end": end, "waiting": end - computed}
    return {"tile": tile, "rows": rows, "channels": rows, "moving": moving, **ends, **moved}


STEPS = [step(None, 0, 5, 60, 50), step(0, 70, 170, 170, 80), step(1, 180, 280, 290, 0)]
TILED = record(cycles=300, macs_per_cycle=12.5, tiling={"tiles": 2, "unit": "rows", "steps": STEPS})


def test_a_bar_for_each_tile_each_transfer_and_each_wait():
    figure = timeline_figure(TILED)
    compute, moves, waits = figure["data"]
    assert (compute["base"], compute["x"]) == ([70, 180], [100, 100])
    assert compute["customdata"][1] == ["tile 1, rows 2 to 3, channels 2 to 3", 180, 280]
    assert (moves["base"], moves["x"]) == ([0, 70], [50, 80])
    assert moves["customdata"][0][0] == "500 bytes in, 50 out"
    assert (waits["base"], waits["x"]) == ([5, 280], [55, 10])
    assert figure["layout"]["title"]["text"].endswith("8 cores: 2 tiles, 12.50 MAC per cycle")


OVER_CORES = "MAC per cycle, whole kernel"


@pytest.mark.flow
@pytest.mark.parametrize(
    ("records", "has", "lacks"),
    [
        (SCALED, "32 banks", "waiting for DMA"),
        (BANKED[:2], OVER_CORES, "waiting for DMA"),
        ([TILED], "waiting for DMA", OVER_CORES),
        ([TILED, TILED | {"cores": 4}], OVER_CORES, "speed-up"),
    ],
)
def test_the_page_shows_what_was_varied(tmp_path, records, has, lacks):
    pytest.importorskip("plotly")
    path = tmp_path / "plots.html"
    write_cluster_plots(path, records)
    plots = str(plots_of(path.read_text()))
    assert has in plots
    assert lacks not in plots
    assert '<script src="' not in path.read_text()
