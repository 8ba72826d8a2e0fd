"""The binarised classifier: its words, and its layers on the RTL."""

import json
from dataclasses import replace

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn_sim import cli
from xpulpnn_sim.harness import bnn_run
from xpulpnn_sim.harness.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sw.bnn import network
from xpulpnn_sw.bnn.network import Weights, random_weights, synthetic_image

FULL = simulated(preset("xpulpnn-full"))
MOST_CYCLES = 11_900_000


@pytest.fixture
def weights() -> Weights:
    return random_weights(np.random.default_rng(5))


@pytest.mark.unit
def test_words_of_the_first_filters(weights):
    words = network.first_filters(weights)
    assert words.shape == (32, 3)
    for channel in (0, 31):
        bits = [int(value > 0) for value in weights.conv1[channel].reshape(-1)]
        low, middle, high = (int(word) for word in words[31 - channel])
        assert low | middle << 30 | high << 60 == sum(bit << place for place, bit in enumerate(bits))


@pytest.mark.unit
@pytest.mark.parametrize("together", [1, 2])
def test_words_of_the_second_filters(weights, together):
    words = network.second_filters(weights, together)
    assert words.shape == (32 // together, 25, together)
    channel, tap = 6, 13
    expected = sum(1 << c for c in range(32) if weights.conv2[channel, tap // 5, tap % 5, c] > 0)
    place = 31 - channel
    assert words[place // together, tap, place % together] == expected


@pytest.mark.unit
def test_the_operations_of_the_network():
    assert network.MACS == 82_954_400
    image = synthetic_image(np.random.default_rng(1))
    shares = [(image[..., colour] > limit).mean() for colour, limit in enumerate(network.THRESHOLDS)]
    assert all(0.1 < share < 0.95 for share in shares)


@pytest.mark.cosim
def test_every_layer_is_right_and_soon():
    case = BnnCase(popcount="hardware", config=FULL, machine=Machine(max_cycles=1 << 40, seed=2), checked=False)
    result = run_bnn(case)
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.record["cycles"] <= MOST_CYCLES
    assert sum(result.record["layers"].values()) == pytest.approx(result.record["cycles"], abs=64)


@pytest.mark.unit
def test_a_wrong_layer_is_named(weights):
    """What is compared, without a run: all maps are there and one bit makes a difference."""
    image = synthetic_image(np.random.default_rng(1))
    stages = bnn_run._expected(weights, image)
    assert {name: values.shape for name, values in stages.items()} == {
        "map1": (48, 48, 32),
        "map2": (24, 24, 32),
        "hidden1": (100,),
        "hidden2": (100,),
        "output": (4,),
    }
    turned = weights.conv1.copy()
    turned[3] *= -1
    other = bnn_run._expected(replace(weights, conv1=turned), image)
    assert not np.array_equal(stages["map1"][..., 3], other["map1"][..., 3])
    assert np.array_equal(np.delete(stages["map1"], 3, axis=2), np.delete(other["map1"], 3, axis=2))


BAD_INPUT = {
    "popcount": (["--popcount", "quick"], "--popcount must be a list out of hardware,software, not quick"),
    "cores": (["--cores", "0"], None),
    "layer": (["--layer", "1x1x1"], "--layer must be left out with bnn"),
    "other kernel": (["--depth", "2"], "--depth must be left out with bnn: it is for ulppack"),
}


@pytest.mark.unit
@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_and_code_2(case, capsys):
    arguments, message = BAD_INPUT[case]
    assert cli.main(["cosim", "bnn", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message is None or captured.err == f"error: {message}\n"


@pytest.mark.unit
def test_a_failed_check_is_exit_code_1(monkeypatch, capsys, tmp_path):
    record = {
        "popcount": "hardware",
        "cores": 1,
        "instructions": 1,
        "cycles": 2,
        "layers": {"pack": 1},
        "mismatches": 3,
    }
    monkeypatch.setattr(
        "xpulpnn_sim.commands.cosim_bnn.run_bnn", lambda case: bnn_run.BnnResult(record, ["map1: 3 of 9 wrong"])
    )
    path = tmp_path / "bnn.json"
    assert cli.main(["cosim", "bnn", "--popcount", "hardware", "--json", str(path)]) == 1
    assert json.loads(path.read_text()) == [record]
    assert "map1: 3 of 9 wrong" in capsys.readouterr().out
