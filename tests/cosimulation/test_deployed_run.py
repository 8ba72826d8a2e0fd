"""Networks on clusters: memory shared by lifetime, weights by DMA, tiles where it is too small; and faults in that."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from tests import random_graphs
from tests.designs import FOUR, FULL, PAIR
from tests.networks import cifar10_case, network_of, wrong_on_the_simulator

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks import network_run
from xpulpnn_sim.cosimulation.networks.network_run import BuiltDeployment, build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sw.kernels.tiling.product_division import ProductDivision
from xpulpnn_sw.kernels.tiling.tile import LineMap
from xpulpnn_sw.networks import deployment, planning
from xpulpnn_sw.networks.deployed_program import DeployedProgram, deployed_program

pytestmark = pytest.mark.cosim

LAYERS = (
    ("conv", "8x8x16:16x3x3", "i8x8xi8"),
    ("maxpool", "8x8x16:2x2:s=2", "i8x8xi8"),
    ("conv", "4x4x16:32x3x3", "i8x8xi8"),
    ("relu", "4x4x32", "i8x8xi8"),
    ("linear", "512:10", "i8x8xi8"),
)
WEIGHTS = ("conv0", "conv2", "linear4")

BRANCHES = (
    ("conv", "12x13x3:16x3x3:p=1x1x0x1:image", "i8x8xi8"),
    ("maxpool", "12x12x16:3x3:s=1,p=1", "i8xi8xi8"),
    ("add", "12x12x16:shift", "i8xi8x8", "conv0", "maxpool1"),
    ("avgpool", "12x12x16:2x2:s=2:scaled", "8x8x8"),
    ("pointwise", "6x6x16:16", "8x8x8"),
    ("linear", "576:32", "8x8x8"),
    ("linear", "32:10:raw", "8x8x8"),
)
"""A network of 43 KiB, at most 9 of which are needed for a layer."""


def case_of(layers, *, checked: bool = False, l2_latency: int = 1) -> NetworkCase:
    network, image = network_of(layers)
    machine = Machine(l2_latency=l2_latency)
    return NetworkCase(network=network, image=image, config=FOUR, machine=machine, checked=checked)


EIGHT = ClusterConfig(core=FULL)


def planned(case: NetworkCase, memory: int) -> DeployedProgram:
    return deployed_program(case.legalised, case.legalised_input, case.variants, cores=case.config.cores, memory=memory)


def require_apart(program: DeployedProgram, memory: int) -> None:
    """No two pieces of memory that are needed in the same step have a byte in common."""
    plan = program.deployment
    for step in range(len(plan.steps)):
        live = sorted((plan.offsets[p.name], p.size) for p in plan.pieces if p.first <= step <= p.last)
        assert all(at + size <= after for (at, size), (after, _) in pairwise(live))
        assert all(at + size <= memory for at, size in live)
        for move in program.transfers[step]:
            at, last = move.inside - TCDM_BASE, max(move.lines - 1, 0) * move.inside_stride + move.line
            assert any(start <= at and at + last <= start + size for start, size in live)


def test_layers_and_their_accounts():
    result = build_network(case_of(LAYERS, checked=True, l2_latency=20)).run()
    record, steps = result.record, result.record["steps"]
    assert (record["mismatches"], result.reports) == (0, [])
    assert [step["name"] for step in steps] == ["load", *(f"{name}{n}" for n, (name, *_) in enumerate(LAYERS)), "store"]
    assert record["cycles"] == sum(step["cycles"] for step in steps)
    assert all(step["begin"] == sum(earlier["cycles"] for earlier in steps[:n]) for n, step in enumerate(steps))
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


@pytest.mark.parametrize("bits", [8, 2])
def test_the_usual_memory_holds_the_network(bits):
    case = cifar10_case(bits, EIGHT)
    program = BuiltDeployment(case, case.config).program
    assert len(program.data) == program.deployment.extent <= {8: 96, 2: 32}[bits] << 10
    assert case.config.tcdm_bytes == 128 << 10
    require_apart(program, case.config.tcdm_bytes)


LATE = {
    # all at the beginning; between the layers
    36_000: [("arguments", "input", "linear1.weights"), (), (), ()],
    26_000: [("arguments", "input"), (), ("linear1.weights",), (), ()],
}


@pytest.mark.parametrize("memory", LATE)
def test_filters_wait_where_memory_is_short(memory):
    """The less memory, the later they come; the results are right, on the instruction-set simulator."""
    case = case_of((("relu", "16x16x16", "i8x8xi8"), ("linear", "4096:4", "i8x8xi8")))
    program = planned(case, memory)
    assert [step.loads for step in program.deployment.steps] == LATE[memory]
    assert len(program.data) <= memory
    assert wrong_on_the_simulator(case, program) == [0, 0]


@pytest.mark.parametrize(("kib", "meanwhile"), [(128, "conv1"), (60, "pool1")])
def test_filters_come_while_a_layer_before_is_computed(kib, meanwhile):
    case = cifar10_case(8, EIGHT)
    (step,) = (step for step in planned(case, kib << 10).deployment.steps if "conv2.weights" in step.loads)
    assert case.network.stages[step.layer].name == meanwhile


def test_a_cluster_without_dma():
    with pytest.raises(InputError, match=r"^dma of the cluster must be true for networks, not false$"):
        BuiltDeployment(case_of(LAYERS), replace(FOUR, dma=False))


def test_a_buffer_on_one_in_use_is_found(monkeypatch):
    right = planning.arrange

    def wrong(pieces):
        memory = right(pieces)
        memory.offsets["conv0.output"] = memory.offsets["conv2.weights"]
        return memory

    monkeypatch.setattr(planning, "arrange", wrong)
    result = build_network(case_of(LAYERS)).run()
    assert result.record["mismatches"] > 0
    assert result.reports[0].startswith("conv2[")


def test_filters_that_come_too_late_are_found(monkeypatch):
    right = planning.Planner.steps

    def late(*arguments):
        first, conv, pool, other, *rest = right(*arguments)
        return (first, replace(conv, loads=()), pool, replace(other, loads=(*conv.loads, *other.loads)), *rest)

    monkeypatch.setattr(planning.Planner, "steps", late)
    result = build_network(case_of(LAYERS, l2_latency=100)).run()
    wrong = {layer["name"]: layer["mismatches"] for layer in result.record["layers"]}
    assert (wrong["conv0"], wrong["maxpool1"]) == (0, 0)
    assert wrong["conv2"] > 0
    assert result.reports[0].startswith("conv2[")


def test_the_beginning_of_memory_is_noise():
    program = BuiltDeployment(case_of(LAYERS), FOUR).program
    assert set(program.data) == {0xA5}
    assert program.data_base == TCDM_BASE


@pytest.fixture
def within(monkeypatch):
    def limit(memory: int) -> None:
        right = network_run.deployed_program
        monkeypatch.setattr(
            network_run, "deployed_program", lambda *given, **named: right(*given, **named | {"memory": memory})
        )

    return limit


MEMORY = 6656


def test_most_layers_in_tiles(within):
    within(MEMORY)
    result = build_network(case_of(BRANCHES, checked=True, l2_latency=20)).run()
    record = result.record
    assert (record["mismatches"], result.reports) == (0, [])
    tiles = {layer["name"]: layer["tiles"] for layer in record["layers"]}
    assert min(tiles[name] for name in ("conv0", "maxpool1", "add2", "linear5")) > 1
    assert tiles["linear6"] == 0
    assert record["data_bytes"] <= MEMORY
    # what is stored is there: each map that leaves does so once, row by row
    moved = {layer["name"]: (layer["loaded"], layer["stored"]) for layer in record["layers"]}
    assert moved["maxpool1"][1] == moved["add2"][1] == 12 * 12 * 16
    assert moved["add2"][0] >= 2 * 12 * 12 * 16
    assert moved["linear5"][0] > 32 * 576
    assert record["cycles"] == sum(step["cycles"] for step in record["steps"])
    last = len(record["steps"]) - 1
    assert all(0 <= piece["first"] <= piece["last"] <= last for piece in record["plan"])


def test_fewer_cores_where_the_rows_of_all_are_too_large(within):
    """A core copies four pixels of 576 bytes each, of which no part of the input channels is a multiple of 8 bytes."""
    within(12_200)
    layers = ("conv", "16x16x4:8x12x12:p=0", "8x8x8"), ("linear", "200:4:raw", "8x8x8")
    record = build_network(case_of(layers)).run().record
    assert record["mismatches"] == 0
    assert [layer["cores"] for layer in record["layers"]] == [2, 4]


RESIDUAL = (
    ("conv", "8x8x16:16x3x3", "8x8x8"),
    ("conv", "8x8x16:32x3x3", "8x8x8"),
    ("conv", "8x8x32:16x3x3", "8x8x8"),
    ("add", "8x8x16", "8xu8x8", "conv0", "conv2"),
    ("linear", "1024:4:raw", "8x8x8"),
)
"""Most is needed in the third layer; the map of the first one is needed behind it."""

LEAVING = 21_000
"""Bytes that are too few for it to stay."""


def test_a_map_leaves_and_comes_back():
    case = case_of(RESIDUAL)
    program = planned(case, LEAVING)
    steps = program.deployment.steps
    assert not program.deployment.tiled
    (stored,) = (number for number, step in enumerate(steps) if "conv0.output" in step.stores)
    (fetched,) = (number for number, step in enumerate(steps) if "conv0.output.1" in step.loads)
    (needy,) = (number for number, step in enumerate(steps) if step.layer == 2)
    assert stored < needy < fetched
    require_apart(program, LEAVING)
    assert wrong_on_the_simulator(case, program) == [0] * len(RESIDUAL)
    assert not any("conv0.output" in step.stores for step in planned(case, LEAVING * 2).deployment.steps)


def test_a_map_that_comes_back_from_slow_memory(within):
    within(LEAVING)
    record = build_network(case_of(RESIDUAL, l2_latency=100)).run().record
    assert record["mismatches"] == 0
    assert [step["name"] for step in record["steps"]].count("load") > 1


def unstored(right, *given):
    return tuple(replace(p, stores=()) for p in right(*given))


def short_lived(right, *given):
    return tuple(replace(p, last=max(p.first, p.last - p.name.endswith(".output"))) for p in right(*given))


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "layers", "memory", "first"),
    [
        # the map comes back as it was outside before
        (planning.Planner, "steps", unstored, RESIDUAL, LEAVING, 3),
        # the results of the layer that reads a map lie on that map
        (planning.Planner, "pieces", short_lived, BRANCHES, 1 << 16, None),
        (deployment, "schedule", lambda right, tiles, **named: right(tiles[:-1], **named), BRANCHES, 1 << 14, 5),
    ],
    ids=["not stored", "lifetime too short", "tile too few"],
)
def test_faults_are_found(monkeypatch, owner, name, wrong, layers, memory, first):
    right = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: wrong(right, *given, **named))
    case = case_of(layers)
    mismatches = wrong_on_the_simulator(case, planned(case, memory))
    assert any(mismatches)
    assert first in (None, next(number for number, count in enumerate(mismatches) if count))


@pytest.mark.parametrize(
    ("layers", "memory", "divided"),
    [
        ((("linear", "512:512", "8x8x8"), ("linear", "512:10:raw", "8x8x8")), 32 << 10, {"linear0"}),
        # planes of 49 bytes, of which the first words of a tile are whole
        ((("pointwise", "7x7x16:256", "8x8x8"), ("depthwise", "7x7x256:3x3", "8x8x8")), 29 << 10, {"depthwise1"}),
        # filters, or a map, that the cores read from main memory
        ((("linear", "4096:8", "8x8x8"), ("linear", "8:4:raw", "8x8x8")), 8 << 10, {"linear0"}),
        ((("avgpool", "16x32x64:8x1:s=8x1", "8x8x8"), ("linear", "4096:4:raw", "8x8x8")), 8 << 10, {"avgpool0"}),
        (
            (("depthwise", "24x23x8:3x3:s=2,v=7", "8x8x4"), ("pointwise", "12x12x8:16", "4x4x4")),
            8 << 10,
            {"depthwise0"},
        ),
        (
            (("pointwise", "16x15x8:8", "4x4x4"), ("depthwise", "16x15x8:5x3:p=2x2x1x1", "4x8x2")),
            4000,
            {"pointwise0", "pointwise0.planes", "depthwise1"},
        ),
        # sequences, in tiles of pixels of the only row
        (
            (
                ("relu", "1x300x4", "i8x8xi8"),
                ("avgpool", "1x300x4:1x4:s=1x2,p=0x0x1x1", "i8x8x8"),
                ("conv", "1x150x4:8x1x16:p=0x0x7x8", "8x8x8"),
                ("conv1d", "150x8:16x3:s=2,p=1x0,v=3", "8x8xi4"),
                ("maxpool", "1x75x16:1x3:s=1x2,p=0x0x1x0", "i4xi4xi4"),
            ),
            3600,
            {"relu0", "avgpool1", "conv2", "conv1d3"},
        ),
        (
            (("conv", "1x900x1:8x1x16:s=1x2,p=0x0x7x8:image", "8x8x8"), ("maxpool", "1x450x8:1x4:s=1x4", "8x8x8")),
            4000,
            {"conv0", "maxpool1"},
        ),
        # columns folded by the convolution; only the last tile of the pooling has pads below
        (
            (("conv", "24x24x3:16x3x3:image", "8x8x8"), ("maxpool", "24x24x16:3x3:s=2,p=0x1x0x1", "8x8x8")),
            7000,
            {"conv0", "maxpool1"},
        ),
    ],
)
def test_layers_of_every_kind(layers, memory, divided):
    case = case_of(layers)
    program = planned(case, memory)
    names = [stage.name for stage in case.legalised.stages]
    assert {names[number] for number in program.deployment.tiled} >= divided
    require_apart(program, memory)
    assert sum(wrong_on_the_simulator(case, program)) == 0


@pytest.mark.parametrize(("memory", "tiles"), [(FOUR.tcdm_bytes, 0), (7000, 4)])
def test_convolutions_write_planes_for_depthwise_ones(memory, tiles):
    """Rows that are no whole words, groups of pixels in two rows, and a plane that fills no whole words."""
    case = case_of(
        (
            ("conv", "20x14x3:8x3x3:image", "8x8x8"),
            ("depthwise", "20x14x8:3x3", "8x8x8"),
            ("pointwise", "20x14x8:12", "8x8xi8"),
            ("depthwise", "20x14x12:3x3:s=2,p=0x1x1x1", "i8x8x8"),
            ("conv", "10x7x12:16x3x3:p=1x0x0x1", "8x8x8"),
            ("depthwise", "9x6x16:3x3", "8x8x8"),
            ("linear", "864:4:raw", "8x8x8"),
        )
    )
    assert "transpose" not in {stage.kind.name for stage in case.legalised.stages}
    program = planned(case, memory)
    assert len(program.deployment.tiled) >= tiles
    require_apart(program, memory)
    assert sum(wrong_on_the_simulator(case, program)) == 0


# rows of whole groups, of groups and a half, and odd ones, of which pixels are left; steps of one and two
SEPARABLE = (
    ("conv", "24x24x4:12x3x3", "8x8x8"),
    ("depthwise", "24x24x12:3x3:s=2,p=0x1x0x1", "8x8x8"),
    ("pointwise", "12x12x12:20", "8x8xi8"),
    ("depthwise", "12x12x20:3x3:p=1x1x1x0", "i8x8xi8"),
    ("pointwise", "12x11x20:16", "i8x8x8"),
    ("depthwise", "12x11x16:3x3:p=1x0x1x0", "8x8x8"),
    ("pointwise", "11x10x16:16", "8x8x8"),
    ("depthwise", "11x10x16:3x3:p=0x1x1x1", "8x8x8"),
    ("pointwise", "10x10x16:20", "8x8x8"),
    ("depthwise", "10x10x20:3x3:s=2", "8x8x8"),
    ("pointwise", "5x5x20:4", "8x8x8"),
)
# convolutions with rows down the columns or not, pointwise layers and an addition write groups
BOTTLENECKS = (
    ("conv", "24x24x4:16x3x3", "8x8xi8"),
    ("pointwise", "24x24x16:24", "i8x8x8"),
    ("depthwise", "24x24x24:3x3:s=2,p=0x1x0x1", "8x8x8"),
    ("pointwise", "12x12x24:16", "8x8xi8"),
    ("pointwise", "12x12x16:32", "i8x8x8"),
    ("depthwise", "12x12x32:3x3", "8x8x8"),
    ("pointwise", "12x12x32:16", "8x8xi8"),
    ("add", "12x12x16:shift", "i8xi8xi8", "pointwise3", "pointwise6"),
    ("pointwise", "12x12x16:12", "i8x8x8"),
    ("conv", "12x12x12:12x3x3:p=1x1x1x0", "8x8x8"),
    ("pointwise", "12x11x12:8", "8x8x8"),
)


@pytest.mark.parametrize(
    ("layers", "plain", "memory", "tiles"),
    [
        (SEPARABLE, {0, 2, 4, 6, 8, 10}, FOUR.tcdm_bytes, set()),
        (SEPARABLE, {0, 2, 4, 6, 8, 10}, 6000, {"depthwise3", "pointwise4"}),
        (BOTTLENECKS, {1, 4, 8, 10}, FOUR.tcdm_bytes, set()),
        (BOTTLENECKS, {1, 4, 8, 10}, 5500, {"conv0", "depthwise2", "pointwise3", "pointwise6", "add7", "conv9"}),
    ],
)
def test_groups_of_pixels_are_written_for_pointwise_convolutions(layers, plain, memory, tiles):
    case = case_of(layers)
    stages = case.legalised.stages
    assert {number for number, stage in enumerate(stages) if not stage.tensors.grouped} == plain
    program = planned(case, memory)
    assert {stages[number].name for number in program.deployment.tiled} >= tiles
    require_apart(program, memory)
    assert sum(wrong_on_the_simulator(case, program)) == 0


def test_rows_of_odd_width_are_not_in_groups_where_memory_is_short():
    """Groups of pixels that go on in the next row would make tiles of four rows at least."""
    layers = (
        ("conv", "7x7x4:96x3x3", "8x8x8"),
        ("depthwise", "7x7x96:3x3", "8x8x8"),
        ("pointwise", "7x7x96:8", "8x8x8"),
    )
    case = case_of(layers)
    assert case.legalised.stages[1].tensors.grouped
    with pytest.raises(LayerError, match=r"^depthwise1: tiles must be at most the TCDM's 8192 bytes"):
        planned(case, 8192)
    case = replace(case, config=replace(FOUR, tcdm_bytes=8192))
    assert not any(stage.tensors.grouped for stage in case.legalised.stages)
    program = planned(case, 8192)
    assert "depthwise1" in {case.legalised.stages[number].name for number in program.deployment.tiled}
    assert sum(wrong_on_the_simulator(case, program)) == 0


@pytest.fixture
def in_parts(monkeypatch):
    """Layers of ``{n}`` channels in 32 bytes, in tiles of four parts of them, and the program of these layers."""

    def plan(layers, bits: int, cores: int, core=FOUR.core) -> tuple[NetworkCase, DeployedProgram]:
        right, (last, elements) = deployment.fastest_plan, layers[-1]

        def cut(divisions, *given, **named):
            return right([own for own in divisions if own.shape.parts == 4] or divisions, *given, **named)

        monkeypatch.setattr(deployment, "fastest_plan", cut)
        channels, widths = 256 // bits, f"{bits}x{bits}x{bits}"
        texts = [(kernel, text.format(n=channels), widths) for kernel, text in layers[:-1]]
        case = case_of([*texts, (last, f"{elements * channels}:4:raw", widths)])
        case = replace(case, config=replace(FOUR, core=core, cores=cores))
        program = planned(case, 4000 + 600 * cores)
        assert program.deployment.tiled[0].plan.division.shape.parts == 4
        return case, program

    return plan


ONE_PRODUCT = replace(FOUR.core, mac_load_pair=False, mixed_weights=False)
MAPS = ("conv", "7x6x{n}:{n}x3x3:p=0x1x1x1"), ("pointwise", "6x6x{n}:{n}:s=2"), ("linear", 9)
SEQUENCES = ("conv1d", "40x{n}:{n}x3:d=2,p=2x2"), ("conv1d", "40x{n}:{n}x4:s=2"), ("linear", 20)


@pytest.mark.parametrize(("cores", "layers"), [(1, MAPS), (8, SEQUENCES)], ids=["maps", "sequences"])
@pytest.mark.parametrize("core", [FOUR.core, ONE_PRODUCT, FULL, PAIR.core], ids=["x3", "x2", "nn", "xpulpv2"])
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_parts_of_the_input_channels(in_parts, bits, core, cores, layers):
    """Sums wait in memory for the next part, on cores that requantise and on those that do it in software."""
    case, program = in_parts(layers, bits, cores, core)
    require_apart(program, program.deployment.extent)
    assert sum(wrong_on_the_simulator(case, program)) == 0


def forgotten(right, self, tile):
    """The sums of the parts before are not added."""
    return False, not tile.is_last


def first_inputs(right, self, lines, inside, outside, part=0, **named):
    return right(self, lines, inside, outside, **named)


def first_filters(right, self, channels, part):
    return right(self, channels, 0)


def shared_sums(right, self, *given):
    """All cores leave their sums in the same place."""
    return replace(right(self, *given), stride=0)


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (ProductDivision, "function_of", forgotten),
        (LineMap, "transfer", first_inputs),
        (ProductDivision, "filters", first_filters),
        (ProductDivision, "_sums", shared_sums),
    ],
)
def test_faults_in_parts_are_found(in_parts, monkeypatch, owner, name, wrong):
    right = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: wrong(right, *given, **named))
    assert wrong_on_the_simulator(*in_parts(MAPS, 4, 8))[0]


def test_parts_are_chosen_where_they_are_faster():
    """Where four channels of all inputs and the rows of eight cores fill memory, and not where all filters fit."""
    layers = (("conv", "5x5x128:32x3x3", "8x8x8"), ("linear", "800:4:raw", "8x8x8"))
    case = replace(case_of(layers), config=replace(FOUR, cores=8))
    large, small = (planned(case, kib << 10).deployment.tiled for kib in (128, 44))
    assert not large
    assert small[0].plan.division.shape.parts > 1
    assert small[0].cores == 8


def test_code_does_not_grow_with_the_number_of_tiles():
    case = case_of((("conv", "64x16x8:8x3x3", "8x8x8"), ("avgpool", "64x16x8:4x4:s=4", "8x8x8")))
    few, many = (planned(case, memory) for memory in (24 << 10, 12 << 10))
    tiles = [len(program.deployment.tiled[0].plan.tiles) for program in (few, many)]
    assert tiles[1] > 2 * tiles[0]
    assert len(many.text) < len(few.text) + 512


def test_layers_that_no_tile_is_small_enough_for():
    """Not even a row of four channels by a single core."""
    for case, layer, least in (
        (case_of((("conv", "8x1000x4:4x3x3", "8x8x8"),)), "conv0", "19520"),
        (case_of((("linear", "8192:8", "8x8x8"),)), "linear0", "10920"),
    ):
        message = rf"^{layer}: tiles must be at most the TCDM's 8192 bytes with buffers and stacks, not {least}$"
        with pytest.raises(LayerError, match=message):
            BuiltDeployment(case, replace(case.config, tcdm_bytes=8 << 10))


@pytest.mark.parametrize(("seed", "moving"), [(0, False), (3, False), (9, True)])
def test_random_networks_in_ever_less_memory(seed, moving, monkeypatch):
    monkeypatch.setattr(random_graphs, "_PIXELS", (16, 13))
    network, inputs = random_graphs.random_graph(seed, images=1, moving=moving)
    case = NetworkCase(network=network, image=inputs[0], config=replace(FOUR, cores=2), machine=Machine())
    program, memory = planned(case, FOUR.tcdm_bytes), 0
    assert not program.deployment.tiled
    while program.deployment.extent != memory:
        memory = program.deployment.extent
        with suppress(LayerError):
            program = planned(case, memory * 7 // 8)
        require_apart(program, memory)
    assert program.deployment.tiled
    assert sum(wrong_on_the_simulator(case, program)) == 0


ATTENTION = (
    ("layernorm", "16x9x40", "8x8x8"),
    ("batchmatmul", "16x9x40:9", "8xu8x8", "layernorm0", "layernorm0"),
    ("softmax", "16x9x9", "8x8x8"),
    ("batchmatmul", "16x9x9:9", "8xu8xi8", "softmax2", "batchmatmul1"),
    ("gather", "16x9x9:9x9x16", "i8x8xi8"),
    ("linear", "1296:4", "i8x8x8"),
)
"""Products of each of sixteen heads, whose elements and columns fill no words and no pairs."""


def test_attention():
    assert build_network(case_of(ATTENTION, checked=True)).run().record["mismatches"] == 0


@pytest.mark.parametrize(("memory", "tiled"), [(9_700, {0, 1}), (6_200, {0, 1, 2, 3, 4, 5})])
def test_attention_in_tiles(memory, tiled):
    case = case_of(ATTENTION)
    program = planned(case, memory)
    assert program.deployment.tiled.keys() == tiled
    require_apart(program, memory)
    assert sum(wrong_on_the_simulator(case, program)) == 0


def test_many_layers():
    """More than an instruction can step over where the cores report."""
    case = replace(case_of([("relu", "2x2x16", "i8xi8xi8")] * 40), config=replace(FOUR, cores=16))
    assert wrong_on_the_simulator(case, planned(case, FOUR.tcdm_bytes)) == [0] * 40
