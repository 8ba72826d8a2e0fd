"""Plots of networks: shares of the cycles, and the map of the memory."""

import pytest

from xpulpnn_sim.explorer.report.network_plots import layers_figure, memory_figure, write_network_plots

pytestmark = pytest.mark.unit

STALLS = {"jump": 10, "bank_conflict": 30, "sync": 40}
LAYERS = [
    {"name": "conv", "cycles": 100, "macs": 800, "macs_per_cycle": 8.0, "stalls": STALLS},
    {"name": "pool", "cycles": 20, "macs": 0, "macs_per_cycle": 0.0, "stalls": dict.fromkeys(STALLS, 0)},
]
STEPS = [{"name": name, "tcdm_bytes": size} for name, size in (("load", 1024), ("conv", 2048), ("pool", 1536))]
PLAN = [
    {"name": "stacks", "address": 0x1000_0000, "bytes": 512, "first": 0, "last": 2},
    {"name": "conv.output", "address": 0x1000_0400, "bytes": 1024, "first": 1, "last": 2},
    {"name": "conv.weights", "address": 0x1000_0800, "bytes": 8192, "first": 0, "last": 1},
]
RECORD = {
    "kernel": "net",
    "cores": 2,
    "cycles": 130,
    "layers": LAYERS,
    "steps": STEPS,
    "plan": PLAN,
    "tcdm_bytes": 16384,
    "data_bytes": 10240,
}


def test_shares_of_the_cycles_add_up():
    figure = layers_figure(RECORD)
    shares = {trace["name"]: trace["y"] for trace in figure["data"]}
    assert shares == {
        "instructions": [60.0, 100.0],
        "bank conflict": [15.0, 0.0],
        "jump": [5.0, 0.0],
        "other waits": [20.0, 0.0],
    }
    assert figure["data"][0]["x"] == ["conv<br>100 cycles<br>8.00 MAC/cycle", "pool<br>20 cycles"]


def test_memory_by_step():
    figure = memory_figure(RECORD)
    drawn = {
        piece[0]: (trace["name"], base, size, middle - width / 2, middle + width / 2)
        for trace in figure["data"]
        for piece, base, size, middle, width in zip(
            trace["customdata"], trace["base"], trace["y"], trace["x"], trace["width"], strict=True
        )
    }
    assert drawn["stacks"] == ("stacks, arguments, reports", 0, 0.5, pytest.approx(-0.47), pytest.approx(2.47))
    assert drawn["conv.output"] == ("activations", 1, 1, pytest.approx(0.53), pytest.approx(2.47))
    assert drawn["conv.weights"][:3] == ("weights", 2, 8)
    assert figure["layout"]["xaxis"]["ticktext"][1] == "conv<br>2.0 KiB"
    assert figure["layout"]["shapes"][0]["y0"] == 16


def test_the_page_needs_no_other_file(tmp_path):
    path = tmp_path / "net.html"
    alone = {name: value for name, value in RECORD.items() if name not in ("steps", "plan")} | {"cores": 1}
    write_network_plots(path, [alone, RECORD])
    page = path.read_text()
    assert "net on one core, 130 cycles" in page
    assert "10.0 of 16 KiB of TCDM" in page
    assert 'src="http' not in page
