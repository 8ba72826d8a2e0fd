"""Plots and tables of networks: shares of the cycles, and the map of the memory."""

from colorsys import rgb_to_hsv

import pytest
from rich.console import Console

from xpulpnn_sim.cosimulation.networks.figures import energy_figure, layers_figure, memory_figure
from xpulpnn_sim.cosimulation.networks.page import layer_table
from xpulpnn_sim.tools.named_table import TerminalTable

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
    figure = layers_figure(RECORD, shares=True)
    shares = {trace["name"]: trace["y"] for trace in figure["data"]}
    assert shares == {
        "instructions": [60.0, 100.0],
        "bank conflict": [15.0, 0.0],
        "jump": [5.0, 0.0],
        "other waits": [20.0, 0.0],
    }
    assert figure["data"][0]["x"] == ["conv", "pool"]


def test_cycles_of_all_cores_and_the_rate():
    *stacked, rate = layers_figure(RECORD, shares=False)["data"]
    assert [sum(column) for column in zip(*(trace["y"] for trace in stacked), strict=True)] == [200, 40]
    assert (rate["y"], rate["yaxis"]) == ([8.0, None], "y2")


def test_energy_of_the_layers_that_have_one():
    parts = {"switching": 1.0, "internal": 2.0, "clock": 3.0, "leakage": 0.5}
    record = {**RECORD, "layers": [{**LAYERS[0], "energy_nj": 6.5, "energy_parts_nj": parts}, LAYERS[1]]}
    figure = energy_figure(record)
    assert {trace["name"]: (trace["x"], trace["y"]) for trace in figure["data"]} == {
        name: (["conv"], [value]) for name, value in parts.items()
    }


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
    assert figure["layout"]["xaxis"]["ticktext"] == ["load", "conv", "pool"]
    assert figure["layout"]["shapes"][0]["y0"] == 16
    assert figure["layout"]["title"]["text"] == "10.0 of 16 KiB of TCDM, by step"


def test_buffers_of_tiles_are_known_by_what_is_in_them():
    names = {"a.weights1": "weights", "a.input0": "activations", "b.output.1": "activations", "a.calls0": "stacks"}
    pieces = [{"name": name, "address": 0x1000_0000, "bytes": 8, "first": 0, "last": 1} for name in names]
    drawn = {
        piece[0]: trace["name"]
        for trace in memory_figure({**RECORD, "plan": pieces})["data"]
        for piece in trace["customdata"]
    }
    assert {name: kind.split(",")[0] for name, kind in drawn.items()} == names


def test_memory_outside_by_transfer():
    pieces = [{"name": "conv.weights", "address": 0x1C00_1000, "bytes": 3072, "first": 0, "last": 0}]
    figure = memory_figure({**RECORD, "outside": pieces}, external=True)
    assert [trace["name"] for trace in figure["data"] if trace["y"]] == ["weights"]
    assert (
        figure["layout"]["title"]["text"] == "3.0 KiB of memory outside, from the first to the last transfer, by step"
    )
    assert "shapes" not in figure["layout"]


def test_memory_of_one_core_by_layer():
    plan = [{**piece, "last": 1, "first": min(piece["first"], 1)} for piece in PLAN]
    alone = {**{name: RECORD[name] for name in ("kernel", "cycles", "layers")}, "cores": 1, "plan": plan}
    figure = memory_figure(alone)
    assert figure["layout"]["xaxis"]["ticktext"] == ["conv", "pool"]
    assert figure["layout"]["title"]["text"].startswith("10.0 KiB of memory")
    assert "shapes" not in figure["layout"]


CAUSES = ("fetch", "jump", "branch", "load_use", "misaligned", "loop", "sync", "bank_conflict", "barrier", "external")


def record(count: int):
    stalls = {cause: 0 if number >= count else (number + 1) * 1000 for number, cause in enumerate(CAUSES)}
    layer = {
        **dict.fromkeys(("name", "layer", "precision", "variant"), "x"),
        "folded": False,
        **dict.fromkeys(("cycles", "cycles_least", "cycles_most"), 123),
        "macs": 10,
        "macs_per_cycle": 1.0,
        "stalls": stalls,
        "mismatches": 0,
    }
    return {"kernel": "net", "cores": 8, "images": 1, "stalls": stalls, "layers": [layer]}


@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.parametrize("width", [60, 300])
def test_causes_that_occur_have_columns_whatever_the_width(count, width):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(TerminalTable(layer_table(record(count))))
    table, _ = capture.get().replace("\n", " \n").split("*")
    for number, cause in enumerate(CAUSES, 1):
        is_shown = number <= count
        assert [f" {text} " in table for text in (cause.replace("_", " "), f"{number},000")] == [is_shown] * 2


def test_no_cause_has_the_hue_of_retired_instructions():
    def hue(colour: str) -> float:
        return rgb_to_hsv(*bytes.fromhex(colour[1:]))[0]

    causes = dict.fromkeys((*CAUSES, "multicycle", "peripheral"), 1000)
    layer = record(0)["layers"][0] | {"cycles": 10000, "stalls": causes}
    traces = layers_figure(record(0) | {"layers": [layer]}, shares=True)["data"]
    own, *others = (hue(bar["marker"]["color"]) for bar in traces if bar["name"] not in ("barrier", "other waits"))
    assert len(others) == 9
    assert all(abs(own - other) > 1 / 12 for other in others)
