"""The binarised classifier: its words, and its layers on the RTL."""

from itertools import product

import numpy as np
import pytest
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads import bnn_run
from xpulpnn_sim.cosimulation.workloads.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.workload import Result
from xpulpnn_sim.reference.golden import network as binary
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.bnn import network
from xpulpnn_sw.kernels.bnn.classifier import Classifier, classifier
from xpulpnn_sw.kernels.bnn.network import Weights, random_weights, synthetic_image

FULL = simulated(preset("xpulpnn-full"))
MOST_CYCLES = 11_900_000
MOST_CYCLES_OF_CRUMBS = 4_780_000
"""Limits of the second convolution."""
PIECE = 5
"""The core of 24 whose share is looked at."""


@pytest.fixture
def weights() -> Weights:
    return random_weights(np.random.default_rng(5))


def test_the_operations_of_the_network():
    assert network.MACS == 82_954_400
    image = synthetic_image(np.random.default_rng(1))
    shares = [(image[..., colour] > limit).mean() for colour, limit in enumerate(network.THRESHOLDS)]
    assert all(0.1 < share < 0.95 for share in shares)


def largest(values):
    height, width, channels = values.shape
    return values.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))


@pytest.mark.flow
@pytest.mark.parametrize(
    ("variant", "popcount"), [*product(("window", "dense"), ("hardware", "software")), ("crumbs", "hardware")]
)
def test_the_share_of_a_core(variant: str, popcount: str, weights):
    """A row of the second map and the two of the first that it begins with, from what the other cores would leave."""
    image = synthetic_image(np.random.default_rng(1))
    run = classifier(weights, image, variant=variant, software=popcount == "software")
    signs = binary.binary_image(image)
    first = largest(binary.convolution(signs, weights.conv1))
    second = largest(binary.convolution(binary.signs(first), weights.conv2))
    memory = Memory()
    memory.write_bytes(run.function.image.base, run.function.image.data.tobytes())
    strips, inner = before(variant, image, signs, binary.signs(first))
    around = run.function.image.view("map1").copy()
    around.view(inner.dtype).reshape(52, 52, -1)[2:-2, 2:-2] = inner
    for symbol, data in {"strips": strips, "map1": around}.items():
        memory.write_bytes(run.function.image.symbols[symbol].address, np.ascontiguousarray(data).tobytes())
    path = call(run, memory, core=PIECE, cores=network.LAST, trace=variant == "crumbs")
    after = np.frombuffer(memory.read_bytes(run.function.image.base, run.function.image.data.size), np.uint8)
    case = BnnCase(variant=variant, popcount=popcount, config=FULL, machine=Machine())
    maps = bnn_run._decoded_maps(case, run, after)
    # what is compared after a whole run
    assert variant != "dense" or {*maps} == {*bnn_run._expected(weights, image)}
    mine = slice(2 * PIECE, 2 * PIECE + 2)
    np.testing.assert_array_equal(maps["map1"][mine], first[mine] > 0)
    np.testing.assert_array_equal(maps["map2"][PIECE], second[PIECE] > 0)
    if variant == "window":
        bytes_ = run.function.image.view("map1", after).view("i1").reshape(52, 52, 32)[2:-2, 2:-2]
        np.testing.assert_array_equal(bytes_[mine], first[mine])
        halves = run.function.image.view("sums", after).view("<i2").reshape(24, 24, 32)
        np.testing.assert_array_equal(halves[PIECE], second[PIECE])
    if variant == "crumbs":
        positions = (np.array(path) - int(run.function.function.pcs[0])) // 4
        executed = run.function.function.region("conv2")[positions].sum()
        assert executed * network.LAST <= MOST_CYCLES_OF_CRUMBS


def before(variant: str, image, signs, first):
    bits = np.pad(signs > 0, ((2, 2), (2, 2), (0, 0))).astype(np.int64).reshape(100, -1)
    strips = sum(bits[:, place : place + 6 * 48 : 6] << place for place in range(18)).astype("<u4")
    if variant == "window":
        frame = np.zeros((100, 304), np.uint8)
        frame[2:98, 8:296] = image.reshape(96, -1)
        return frame, first.astype("i1")
    if variant == "dense":
        return strips, ((first > 0) << np.arange(32)).sum(axis=-1, keepdims=True).astype("<u4")
    halves = np.stack([first[..., ::2], first[..., 1::2]], axis=2)
    return strips, ((halves & 3) << 2 * np.arange(16)).sum(axis=-1).astype("<u4")


def call(run: Classifier, memory: Memory, *, core: int, cores: int, trace: bool) -> list[int]:
    text, end = run.function.function, 0x100
    hart = Iss(int(text.pcs[0]), extensions=BASE_EXTENSIONS | run.function.extensions, memory=memory)
    hart.memory.write_bytes(int(text.pcs[0]), text.words.tobytes())
    memory.write_bytes(run.outside_base, run.outside.astype("<u4").tobytes())
    values = {"sp": run.function.stack_top(0), "a0": run.function.image.symbols["arguments"].address, "ra": end}
    for name, value in (values | {"a1": core, "a2": cores}).items():
        hart.state.regs[register_number(name)] = value
    path: list[int] = []
    if trace:
        hart.observe(path.extend)
    # a trace is in parts
    executed = 0
    while hart.state.pc != end and executed < 1 << 23:
        executed += hart.run(1 << 23, until=end)
    assert hart.state.pc == end
    return path


@pytest.mark.cosim
def test_every_layer_is_right_and_soon():
    case = BnnCase(popcount="hardware", config=FULL, machine=Machine(max_cycles=1 << 40, seed=2), checked=False)
    result = run_bnn(case)
    assert (result.record["mismatches"], result.reports) == (0, [])
    assert result.record["cycles"] <= MOST_CYCLES
    assert sum(result.record["layers"].values()) == pytest.approx(result.record["cycles"], abs=64)


@pytest.mark.flow
@pytest.mark.parametrize(("words", "named"), [
    ("--popcount quick", "--popcount must"), ("--layer 1x1x1", "Unknown option: --layer"),
    ("--variant window --cores 8", "--variant must be without window with --cores"),
    ("--variant dense,crumbs --preset ri5cy", "variant"), ("--depth 2", "Unknown option: --depth"),
])  # fmt: skip
def test_bad_input(words, named, refused):
    assert refused("cosim", "bnn", *words.split()).startswith(f"{named}")


@pytest.mark.flow
def test_a_failed_check_is_exit_code_1(monkeypatch, capsys, tmp_path):
    record = {"variant": "dense", "popcount": "hardware", "cores": 1, "instructions": 1, "cycles": 2, "mismatches": 3}
    record |= {"operations": {"xor": 1, "compare": 2}, "layers": {"pack": 1}}
    result = Result(record=record, reports=["map1: 3 of 9 wrong"])
    monkeypatch.setattr("xpulpnn_sim.cli.cosim_papers.run_bnn", lambda case: result)
    path = tmp_path / "bnn.json"
    assert cli.main(["cosim", "bnn", "--variant", "dense", "--popcount", "hardware", "--json", str(path)]) == 1
    assert read_results(path) == [record]
    assert "map1: 3 of 9 wrong" in capsys.readouterr().out
