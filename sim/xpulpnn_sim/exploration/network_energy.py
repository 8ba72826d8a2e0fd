"""Estimate the energy of layers on a core: parts of the layers run on the mapped netlist."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase, WorkPiece, piece_of
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, KernelProgram
from xpulpnn_sim.exploration.energy.estimate import EnergyWorkload, estimate_energy
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.results import ENERGY_PARTS, EnergyResult
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.network import NETWORK_INPUT, Stage

PIECE_CYCLES = 6000  # approximate cycles of a piece on the core
PIECE_WINDOW_CYCLES = 2048  # cycles whose switching is counted
_FJ_PER_NJ = 1e6
_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerEnergy:
    result: EnergyResult
    share: float  # fraction of the layer's results that the piece computes


def layer_energies(
    case: NetworkCase,
    config: CoreConfig,
    cycles: Mapping[str, int],
    library: Library,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, LayerEnergy]:
    energies: dict[str, LayerEnergy] = {}
    total = len(case.legalised.stages)
    for stage, inputs, variant in layers(case):
        if progress is not None:
            progress(stage.name, len(energies), total)
        piece = piece_of(stage, inputs, PIECE_CYCLES / max(cycles[stage.name], 1))
        workload = piece_workload(piece, variant, config)
        result = estimate_energy(config, workload, library, PIECE_WINDOW_CYCLES)[0]
        energies[stage.name] = LayerEnergy(result=result, share=piece.share)
    return energies


def piece_workload(piece: WorkPiece, variant: str, config: CoreConfig) -> EnergyWorkload:
    stage = piece.stage
    name = f"{stage.kind.name}:{stage.precision}:{variant}:{stage.layer}"
    tensors = stage.with_inputs(*piece.maps)
    kernel = stage.kind.build(stage.layer, stage.precision, variant, tensors, cores=1, specialise=True)
    case = Case(layer=stage.layer, precision=stage.precision, variant=variant, config=config)
    work = KernelProgram(case, tensors, kernel)
    work.output = stage.name
    macs = float(stage.layer.macs) if stage.multiplies else 0.0
    return EnergyWorkload(name=name, top="core", key=repr(work.executable), macs=macs, run=work.run_on)


def add_energies(record: dict[str, Any], energies: Mapping[str, LayerEnergy]) -> None:
    for layer in record["layers"]:
        energy_of_piece = energies[layer["name"]]
        scale = layer["cycles"] / _FJ_PER_NJ
        layer["energy_nj"] = round(energy_of_piece.result.energy_per_cycle_fj * scale, _DIGITS)
        parts = {part: energy_of_piece.result.part_fj(part) * scale for part in ENERGY_PARTS}
        layer["energy_parts_nj"] = {part: round(energy, _DIGITS) for part, energy in parts.items()}
        layer["energy_share"] = round(energy_of_piece.share, _DIGITS)
    record["energy_nj"] = round(sum(layer["energy_nj"] for layer in record["layers"]), _DIGITS)
    first = next(iter(energies.values())).result
    # conditions of the run differ between layers
    method = (
        "Energy of a layer: that of a cycle of a piece of it, at gate level on the mapped netlist of the core with the "
        f"weights and maps of the first image, times the cycles of the layer; pieces of about {PIECE_CYCLES} cycles, "
        f"of which {PIECE_WINDOW_CYCLES} are looked at, away from the edge of the map, their results checked."
    )
    record["energy_conditions"] = [
        method,
        *(sentence for sentence in first.conditions if not sentence.startswith("Netlist of its own")),
        f"Netlist: {first.method}, {first.area_kge:.1f} kGE.",
    ]


def layers(case: NetworkCase) -> Iterator[tuple[Stage, list[Ints], str]]:
    results = run_reference(case.legalised, case.legalised_input[np.newaxis])
    maps = {NETWORK_INPUT: case.legalised_input}
    maps |= {stage.name: values[0] for stage, values in zip(case.legalised.stages, results, strict=True)}
    for number, (stage, variant) in enumerate(zip(case.legalised.stages, case.variants, strict=True)):
        yield stage, [maps[source] for source in case.legalised.sources(number)], variant
