"""Pieces of layers are parts of them, run as programs, and their energies become those of the layers."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import BEYOND, EVERY_ROW, FULL
from tests.networks import cifar10_case
from tests.random_graphs import random_graph

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, piece_of
from xpulpnn_sim.cosimulation.workloads import kernel_run
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.exploration import network_energy as energy
from xpulpnn_sim.exploration.network_energy import LayerEnergy, add_energies, layer_energies, piece_workload
from xpulpnn_sim.exploration.results import EnergyResult, ModuleEnergy
from xpulpnn_sim.reference.golden.network import run_reference


def pieces(bits: int, share: float, config=FULL):
    case = cifar10_case(bits, config)
    results = [values[0] for values in run_reference(case.network, case.image[np.newaxis])]
    inputs = [case.image, *results[:-1]]
    for stage, source, whole in zip(case.legalised.stages, inputs, results, strict=True):
        yield stage, source, whole, piece_of(stage, [source], share)


@pytest.mark.flow
def test_pieces_of_convolutions_are_their_middle():
    for share in (0.2, 0.02, 0.0005):
        for stage, _, whole, piece in pieces(8, share):
            if stage.kind.name != "conv":
                continue
            cut = piece.stage
            got = reference(cut.layer, cut.with_inputs(*piece.maps), cut.precision)
            rows, columns, channels = got.shape
            assert piece.share == pytest.approx(got.size / whole.size)
            assert piece.share <= max(share, 4 * 16 / whole.size)
            # with windows of five every result has its place two behind that of the first input
            top = (whole.shape[0] - cut.layer.height) // 2 + 2
            left = 0 if columns == whole.shape[1] else (whole.shape[1] - cut.layer.width) // 2 + 2
            assert (got == whole[top : top + rows, left : left + columns, :channels]).all(), str(cut.layer)


@pytest.mark.flow
def test_pieces_of_other_layers():
    sizes = {
        stage.name: (str(piece.stage.layer), [values.shape for values in piece.maps])
        for stage, _, _, piece in pieces(2, 0.3)
        if stage.kind.name != "conv"
    }
    assert sizes == {
        "pool1": ("9x32x32:3x3:s=2,p=0x0x0x1", [(9, 32, 32)]),
        "pool2": ("5x16x16:3x3:s=2,p=0x0x0x1", [(5, 16, 16)]),
        "pool3": ("3x8x32:3x3:s=2,p=0x0x0x1", [(3, 8, 32)]),
        "classify": ("512:10:raw", [(512,)]),
    }


@pytest.mark.flow
def test_a_layer_that_is_short_stays_whole():
    for stage, source, whole, piece in pieces(4, 1.5, BEYOND):
        assert (piece.stage.layer, piece.share) == (stage.layer, 1)
        assert (piece.maps[0] == source.reshape(piece.maps[0].shape)).all()
        assert not getattr(piece.stage.tensors, "folded", False)
        got = reference(piece.stage.layer, piece.stage.with_inputs(*piece.maps), piece.stage.precision)
        assert (got.reshape(-1) == whole.reshape(-1)).all()


@pytest.mark.cosim
def test_pieces_run_and_what_they_compute_is_checked(monkeypatch):
    library = model_library("core", FULL)
    case = cifar10_case(2)
    variants = [(piece, variant) for (*_, piece), variant in zip(pieces(2, 0.01), case.variants, strict=True)]
    for piece, variant in variants:
        workload = piece_workload(piece, variant, FULL)
        workload.run(library)
        assert (workload.top, workload.macs) == ("core", piece.stage.layer.macs if piece.stage.multiplies else 0)
    right = kernel_run.reference
    monkeypatch.setattr(kernel_run, "reference", lambda *operands: right(*operands) ^ 1)
    with pytest.raises(ToolError, match=r"^the core must compute what the reference does, not conv1"):
        piece_workload(*variants[0], FULL).run(library)


@pytest.mark.cosim
def test_pieces_of_graphs_run():
    # the core of programs with every instruction, whose model is compiled anyway
    config = EVERY_ROW
    library, kinds = model_library("core", config), set()
    expected = {"conv", "depthwise", "add", "linear"}
    for seed in range(20):
        if expected <= kinds:
            break
        graph, inputs = random_graph(seed, images=1)
        case = NetworkCase(network=graph, image=inputs[0], config=config, machine=Machine(), checked=False)
        for stage, maps, variant in energy.layers(case):
            piece_workload(piece_of(stage, maps, 0.4), variant, config).run(library)
            kinds.add(stage.kind.name)
    assert expected <= kinds


def result(per_cycle: float) -> EnergyResult:
    parts = {"switching": 0.5, "internal": 0.25, "clock": 0.2, "leakage": 0.05}
    module = ModuleEnergy(path="core", module="core", **{name: per_cycle * part for name, part in parts.items()})
    return EnergyResult(
        workload="a piece",
        top="core",
        tools={},
        conditions=["Library of ours.", "Netlist of its own, of a piece."],
        cycles=2048,
        macs=0.0,
        energy_per_cycle_fj=per_cycle,
        energy_per_mac_fj=None,
        modules=[module],
        area_kge=50.0,
        method="by hand",
        wall_s=0.0,
    )


def test_the_energy_of_a_cycle_times_the_cycles():
    record = {"layers": [{"name": "a", "cycles": 3000}, {"name": "b", "cycles": 500}]}
    energies = {"a": LayerEnergy(result=result(60_000), share=0.5), "b": LayerEnergy(result=result(40_000), share=1.0)}
    add_energies(record, energies)
    first, second = record["layers"]
    assert (first["energy_nj"], second["energy_nj"], record["energy_nj"]) == (180.0, 20.0, 200.0)
    assert first["energy_parts_nj"] == {"switching": 90.0, "internal": 45.0, "clock": 36.0, "leakage": 9.0}
    assert (first["energy_share"], second["energy_share"]) == (0.5, 1.0)
    text = record["energy_conditions"]
    assert "Library of ours." in text
    assert not any("of a piece." in sentence for sentence in text)


@pytest.mark.flow
def test_every_layer_is_estimated_by_a_piece_of_its_length(monkeypatch):
    seen = {}

    def estimate(config, workload, library, window):
        seen[workload.name] = (config, window, workload.macs)
        return result(1.0), {}

    monkeypatch.setattr(energy, "estimate_energy", estimate)
    case = cifar10_case(4)
    cycles = {stage.name: 60_000 for stage in case.network.stages} | {"classify": 1000}
    progress = []
    config = replace(preset("xpulpnn-full"))
    energies = layer_energies(case, config, cycles, library=None, progress=lambda *case: progress.append(case))
    assert progress == [(stage.name, number, 7) for number, stage in enumerate(case.network.stages)]
    assert list(energies) == [name for name, _, _ in progress]
    assert energies["classify"].share == 1
    assert 0.03 < energies["conv2"].share <= 0.1
    assert {entry[:2] for entry in seen.values()} == {(config, energy.PIECE_WINDOW_CYCLES)}
