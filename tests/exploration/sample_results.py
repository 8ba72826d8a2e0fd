"""Sample results of the explorer: what a test does not name is empty."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpulpnn.config import PRESETS, ClusterConfig, CoreConfig
from xpulpnn_sim.exploration.liberty import LibraryCell
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.results import (
    CriticalPath,
    EmittedDesign,
    EnergyResult,
    FlowOutput,
    FlowResult,
    ModuleArea,
    ModuleEnergy,
    PathStep,
    PointResult,
)
from xpulpnn_sim.exploration.space import Space


def design(
    verilog: str = "", top: str = "top", config: CoreConfig | ClusterConfig = PRESETS["ri5cy"], **manifest: Any
) -> EmittedDesign:
    return EmittedDesign(top=top, module=top, config=config, verilog=verilog, manifest={"top": top, **manifest})


def flow(**fields: Any) -> FlowResult:
    return FlowResult(**{"flow": "asic", "tools": {}, "conditions": [], **fields})


def energy(**fields: Any) -> EnergyResult:
    empty = {"top": "core", "tools": {}, "conditions": [], "cycles": 1, "macs": 1.0, "energy_per_cycle_fj": 1.0}
    return EnergyResult(**{**empty, "energy_per_mac_fj": 1.0, "modules": [], **fields})


def spent_by(path: str, femtojoule: float) -> ModuleEnergy:
    return ModuleEnergy(path=path, module="m", switching=femtojoule, internal=0.0, clock=0.0, leakage=0.0)


def point(label: str, **fields: Any) -> PointResult:
    empty = {"top": "dotp", "preset": label, "settings": {}, "configuration": {}, "folder": ""}
    return PointResult(label=label, **{**empty, **fields})


def labels(space: Space) -> list[str]:
    return [point.label for point in space.points]


class RecordingFlow:
    def __init__(self, name: str = "asic", script: str = "", **settings: str) -> None:
        self.name, self.script, self._settings = name, script, settings
        self.seen: list[EmittedDesign] = []

    def settings(self) -> dict[str, str]:
        return self._settings

    def run(self, design: EmittedDesign) -> FlowOutput:
        self.seen.append(design)
        step = PathStep(net="n", cell="c", delay_ps=1, arrival_ps=1)
        path = CriticalPath(tool="t", netlist="flat", start="x", end="y", delay_ps=1.5, steps=[step])
        area = ModuleArea(path="a", module="a", own_ge=1.0, total_ge=2.0, own_cells=3)
        result = flow(flow=self.name, script=self.script, conditions=["Made up."], path=path, modules=[area])
        return FlowOutput(result=result, files={"run1/tool.log": "said\n"})


def mapped_cells(netlist: str, library: Library) -> list[LibraryCell]:
    """Cells of a mapped netlist in Verilog, without the reader that the flow uses."""
    words = (line.split() for line in netlist.splitlines())
    return [library.cells[line[0]] for line in words if len(line) > 1 and line[0] in library.cells]


def mapped_ge(netlist: str, library: Library) -> float:
    return sum(cell.area for cell in mapped_cells(netlist, library)) / library.ge_area


Cells = Mapping[str, tuple[str, Mapping[str, int | str]]]
"""Type, and net of each pin, by name."""


def netlist(
    folder: Path, cells: Cells, inputs: Mapping[str, int], outputs: Mapping[str, int], names: Mapping[str, int]
) -> Path:
    """A netlist as Yosys writes it; the pins Y and Q are outputs."""
    ports = {name: {"direction": "input", "bits": [net]} for name, net in inputs.items()}
    ports |= {name: {"direction": "output", "bits": [net]} for name, net in outputs.items()}
    described = {
        name: {
            "type": kind,
            "connections": {pin: [net] for pin, net in pins.items()},
            "port_directions": {pin: "output" if pin in ("Y", "Q") else "input" for pin in pins},
        }
        for name, (kind, pins) in cells.items()
    }
    nets = {name: {"bits": [net], "hide_name": 0} for name, net in {**inputs, **outputs, **names}.items()}
    path = folder / "netlist.json"
    path.write_text(json.dumps({"modules": {"top": {"ports": ports, "cells": described, "netnames": nets}}}))
    return path
