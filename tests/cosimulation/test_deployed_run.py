"""A network on a cluster: memory shared by lifetime, weights by DMA, and what goes wrong if either is."""

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.designs import FOUR, FULL
from tests.networks import network_of, wrong_on_the_simulator

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import deployed_network, run_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sw.networks import planning
from xpulpnn_sw.networks.deployed_program import deployed_program

LAYERS = (
    ("conv", "8x8x16:16x3x3"),
    ("maxpool", "8x8x16:2x2:s=2"),
    ("conv", "4x4x16:32x3x3"),
    ("relu", "4x4x32"),
    ("linear", "512:10"),
)
WEIGHTS = ("conv0", "conv2", "linear4")


def small_case(layers=LAYERS, *, checked: bool = False, l2_latency: int = 1) -> NetworkCase:
    network, image = network_of([(*layer, "i8x8xi8") for layer in layers], seed=8)
    machine = Machine(l2_latency=l2_latency)
    return NetworkCase(network=network, image=image, config=FOUR, machine=machine, checked=checked)


@pytest.mark.cosim
def test_layers_and_their_accounts():
    result = run_network(small_case(checked=True, l2_latency=20))
    record, steps = result.record, result.record["steps"]
    assert (record["mismatches"], result.reports) == (0, [])
    assert [step["name"] for step in steps] == ["load", *(f"{name}{n}" for n, (name, _) in enumerate(LAYERS)), "store"]
    assert record["cycles"] == sum(step["cycles"] for step in steps)
    assert all(step["begin"] == sum(one["cycles"] for one in steps[:n]) for n, step in enumerate(steps))
    weights = {layer["name"]: layer["weight_bytes"] for layer in record["layers"] if layer["weight_bytes"]}
    assert tuple(weights) == WEIGHTS
    # filters come while the layer with filters before is computed; the image, 1024 bytes and words ahead, first
    assert [step["loaded"] for step in steps[1:]] == [weights["conv2"], 0, weights["linear4"], 0, 0, 0]
    assert weights["conv0"] + 1024 < steps[0]["loaded"] < weights["conv0"] + 2048
    assert [step["stored"] for step in steps] == [0] * 6 + [12]
    assert all(step["moving"] >= step["loaded"] / 8 and step["moving"] <= step["cycles"] for step in steps)
    # with nothing to compute everything is waited for, and while there is, nothing
    assert steps[0]["waiting"] > 0.8 * steps[0]["cycles"]
    assert all(step["waiting"] < 40 for step in steps[1:-1])
    assert record["data_bytes"] <= record["tcdm_bytes"] == FOUR.tcdm_bytes
    assert max(step["tcdm_bytes"] for step in steps) <= record["data_bytes"]


@pytest.mark.unit
@pytest.mark.parametrize("bits", [8, 2])
def test_the_usual_memory_holds_the_network(bits):
    network, image = random_network(bits, seed=bits)
    case = NetworkCase(network=network, image=image, config=ClusterConfig(core=FULL), machine=Machine())
    program = deployed_network(case, case.config)
    plan = program.deployment
    assert len(program.data) == plan.extent <= {8: 96, 2: 32}[bits] << 10
    assert case.config.tcdm_bytes == 128 << 10
    for step in range(len(plan.steps)):
        here = sorted((plan.places[one.name], one.size) for one in plan.pieces if one.first <= step <= one.last)
        assert all(at + size <= after for (at, size), (after, _) in pairwise(here))


LATE = {
    # all at the beginning; between the layers
    36_000: [("arguments", "input", "linear1.weights"), (), (), ()],
    26_000: [("arguments", "input"), (), ("linear1.weights",), (), ()],
}


@pytest.mark.unit
@pytest.mark.parametrize("memory", LATE)
def test_filters_wait_where_memory_is_short(memory):
    """The less memory, the later they come; the results are right, on the instruction-set simulator."""
    case = small_case((("relu", "16x16x16"), ("linear", "4096:4")))
    program = deployed_program(case.network, case.image, case.variants, cores=4, memory=memory)
    assert [step.loads for step in program.deployment.steps] == LATE[memory]
    assert len(program.data) <= memory
    assert wrong_on_the_simulator(case, program) == [0, 0]


@pytest.mark.unit
@pytest.mark.parametrize(("kib", "meanwhile"), [(128, "conv1"), (60, "pool1")])
def test_filters_come_while_a_layer_before_is_computed(kib, meanwhile):
    network, image = random_network(8, seed=8)
    case = NetworkCase(network=network, image=image, config=ClusterConfig(core=FULL), machine=Machine())
    plan = deployed_program(network, image, case.variants, cores=8, memory=kib << 10).deployment
    (step,) = (step for step in plan.steps if "conv2.weights" in step.loads)
    assert network.stages[step.layer].name == meanwhile


@pytest.mark.unit
@pytest.mark.flow
def test_a_network_that_does_not_fit():
    network, image = random_network(8, seed=8)
    case = NetworkCase(network=network, image=image, config=ClusterConfig(core=FULL), machine=Machine())
    # even a row of four channels by a single core
    with pytest.raises(LayerError) as error:
        deployed_network(case, replace(case.config, tcdm_bytes=1 << 13))
    assert str(error.value) == "conv3: tiles must be at most the TCDM's 8192 bytes with buffers and stacks, not 9136"


@pytest.mark.unit
def test_a_cluster_without_dma():
    with pytest.raises(InputError, match=r"^dma of the cluster must be true for networks, not false$"):
        deployed_network(small_case(), replace(FOUR, dma=False))


@pytest.mark.cosim
def test_a_buffer_on_one_in_use_is_found(monkeypatch):
    """Results where filters for a later layer have arrived."""
    right = planning.arranged
    monkeypatch.setattr(
        planning, "arranged", lambda pieces: (places := right(pieces)) | {"conv0.output": places["conv2.weights"]}
    )
    result = run_network(small_case())
    assert result.record["mismatches"] > 0
    assert result.reports[0].startswith("conv2[")


@pytest.mark.cosim
def test_filters_that_come_too_late_are_found(monkeypatch):
    """Commanded as soon as the layer begins that needs them."""
    right = planning.Planner.steps

    def late(*arguments):
        first, conv, pool, other, *rest = right(*arguments)
        return (first, replace(conv, loads=()), pool, replace(other, loads=(*conv.loads, *other.loads)), *rest)

    monkeypatch.setattr(planning.Planner, "steps", late)
    result = run_network(small_case(l2_latency=100))
    wrong = {layer["name"]: layer["mismatches"] for layer in result.record["layers"]}
    assert (wrong["conv0"], wrong["maxpool1"]) == (0, 0)
    assert wrong["conv2"] > 0
    assert result.reports[0].startswith("conv2[")


@pytest.mark.unit
def test_the_beginning_of_memory_is_noise():
    program = deployed_network(small_case(), FOUR)
    assert set(program.data) == {0xA5}
    assert program.data_base == TCDM_BASE
