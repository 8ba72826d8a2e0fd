"""Memory of networks in C: nothing lies on what is still needed, and weights are there before their layer."""

import random
import re
from itertools import pairwise

import numpy as np
import pytest
from tests.random_graphs import random_graph

from xpulpnn.config import preset
from xpulpnn_sw.networks.c_programs.c_network import c_identifiers, c_string, comment_text, planned_memory
from xpulpnn_sw.networks.deployment import Piece, PlannedMemory, arrange
from xpulpnn_sw.networks.kernels import edges, kernels
from xpulpnn_sw.networks.legalise import legalise, padded_input
from xpulpnn_sw.networks.network import NETWORK_INPUT
from xpulpnn_sw.networks.network_file import NetworkBuilder

CORE = preset("xpulpnn")


def runs_of(network, image):
    variants = [stage.fastest_variant(CORE.extensions, CORE.widths) for stage in network.stages]
    return kernels(network, image, variants, cores=2, specialise=False)


def chain(*widths: int):
    builder = NetworkBuilder("chain")
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        arrays = {"weights": np.ones((outputs, inputs), int), "shift": np.array(1)}
        builder.add(f"row{number}", "linear", f"{inputs}:{outputs}", "8x8x8", arrays, requantise="shift")
    network = builder.finish().network
    return network, runs_of(network, np.zeros(widths[0], int))


def owners(memory: PlannedMemory, step: int) -> dict[int, str]:
    """Whose the bytes in use are in a step; fails if one is of two."""
    owner: dict[int, str] = {}
    for piece in memory.pieces:
        if piece.first <= step <= piece.last:
            for address in range(memory.offsets[piece.name], memory.offsets[piece.name] + piece.size):
                assert address not in owner, (piece.name, owner[address])
                owner[address] = piece.name
    return owner


def test_results_take_turns():
    """A chain of layers: where the results of one are, those of the one after the next can be."""
    pieces = [Piece(name=f"layer{number}", size=100, first=number, last=number + 1) for number in range(6)]
    memory = arrange(pieces)
    assert all(owners(memory, step) for step in range(7))
    assert memory.extent == 2 * 104


@pytest.mark.parametrize("seed", range(20))
def test_random_lifetimes(seed: int):
    rng = random.Random(seed)
    pieces: list[Piece] = []
    for number in range(rng.randint(1, 12)):
        size, first = rng.choice([1, 7, 8, 30, 64, 100]), rng.randint(0, 6)
        pieces.append(Piece(name=str(number), size=size, first=first, last=rng.randint(first, 7)))
    memory = arrange(pieces)
    least = max(memory.demand(step) for step in range(8))
    for step in range(8):
        owners(memory, step)
    assert all(address % 8 == 0 for address in memory.offsets.values())
    assert least <= memory.extent <= 1.5 * least


@pytest.mark.flow
@pytest.mark.parametrize(("seed", "memory"), [(5, None), (49, 1 << 16)])
def test_what_a_layer_needs_is_there(seed: int, memory: int | None):
    """Looked at step by step: what was written stays until it has been read."""
    original, inputs = random_graph(seed, images=1)
    network = legalise(original, CORE.extensions)
    runs = runs_of(network, padded_input(inputs[0], network))
    plan = planned_memory(network, runs, memory)
    assert [step.layer for step in plan.steps if step.layer is not None] == list(range(len(runs)))
    present: dict[int, str] = {}
    weights: dict[str, bool] = {}
    for number, step in enumerate(plan.steps):
        mine = owners(plan, number)
        # bytes that have another owner now have lost their content
        present = {address: name for address, name in present.items() if mine.get(address, name) == name}
        if step.layer is None:
            assert memory is not None
        else:
            stage, run = network.stages[step.layer], runs[step.layer]
            for edge in edges(network, runs):
                if edge.reader == step.layer and edge.source != NETWORK_INPUT:
                    name = f"{edge.source}.output"
                    assert sum(owner == name for owner in present.values()) >= run.length(edge.symbol)
            if memory is not None and run.weight_bytes:
                assert weights.pop(f"{stage.name}.weights")
            present |= {address: name for address, name in mine.items() if name == f"{stage.name}.output"}
        if step.load is not None:
            weights[f"{network.stages[step.load].name}.weights"] = True
    last = f"{network.stages[-1].name}.output"
    assert last in present.values()
    assert not weights
    assert plan.extent <= (memory or plan.extent)


@pytest.mark.flow
def test_weights_come_as_early_as_there_is_room():
    """Three layers of 4 KiB of weights each: during the layer before, unless two do not fit."""
    network, runs = chain(64, 64, 64, 64)
    usual = planned_memory(network, runs, 1 << 16)
    assert [(step.layer, step.load) for step in usual.steps] == [(None, 0), (0, 1), (1, 2), (2, None)]
    tight = planned_memory(network, runs, usual.extent - 2048)
    one_by_one = [step for layer in range(3) for step in ((None, layer), (layer, None))]
    assert [(step.layer, step.load) for step in tight.steps] == one_by_one
    assert tight.extent <= usual.extent - 2048


@pytest.mark.flow
def test_the_largest_stays_outside_where_there_is_too_little_room():
    """Rows of 64, 128, 64 and 64 elements: 8 KiB of weights in both layers before the last."""
    network, runs = chain(64, 128, 64, 64)
    plan = planned_memory(network, runs, 6000)
    assert plan.weights_outside == (0, 1)
    assert not plan.outside.pieces
    assert [(step.layer, step.load) for step in plan.steps] == [(None, None), (0, None), (1, 2), (2, None)]
    assert plan.extent <= 6000
    none = planned_memory(network, runs, 0)
    assert (none.weights_outside, none.extent, none.pieces) == ((0, 1, 2), 0, ())
    assert {piece.name for piece in none.outside.pieces} == {"input", "row0.output", "row1.output", "row2.output"}
    assert all(owners(none.outside, step) for step in range(len(none.steps)))


@pytest.mark.flow
def test_the_input_comes_before_a_layer_without_weights():
    builder = NetworkBuilder("pooled")
    builder.add("pool", "maxpool", "4x4x4:2x2:s=2", "8x8x8")
    network = builder.finish().network
    plan = planned_memory(network, runs_of(network, np.zeros((4, 4, 4), int)), 1 << 12)
    assert [(step.layer, step.load) for step in plan.steps] == [(None, None), (0, None)]


def test_names_of_any_network_are_names_in_c():
    identifiers = c_identifiers(["conv 1", "conv_1", "conv-1", "größe", "1"])
    assert identifiers == {"conv 1": "conv_1", "conv_1": "conv_1_2", "conv-1": "conv_1_3", "größe": "gr__e", "1": "1"}
    assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in identifiers.values())
    assert comment_text("ends */ here\\\n") == "ends * / here??"
    assert c_string('say "a\\b"\n') == r'"say \"a\\b\"?"'
