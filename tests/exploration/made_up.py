"""Made-up results: what a test does not name is empty."""

from typing import Any

from xpulpnn_sim.exploration.results import EnergyResult, FlowResult, PointResult


def flow(**fields: Any) -> FlowResult:
    return FlowResult(**{"flow": "asic", "tools": {}, "conditions": [], **fields})


def energy(**fields: Any) -> EnergyResult:
    empty = {"top": "core", "tools": {}, "conditions": [], "cycles": 1, "macs": 1.0, "energy_per_cycle_fj": 1.0}
    return EnergyResult(**{**empty, "energy_per_mac_fj": 1.0, "modules": [], **fields})


def point(label: str, **fields: Any) -> PointResult:
    empty = {"top": "dotp", "preset": label, "settings": {}, "configuration": {}, "folder": ""}
    return PointResult(label=label, **{**empty, **fields})
