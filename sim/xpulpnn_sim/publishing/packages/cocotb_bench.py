"""Folder ``cocotb`` of a package: the bench of its unit, for cocotb with an installed xpulpnn."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, CoreConfig
from xpulpnn.errors import ConfigError
from xpulpnn.field_values import settings_between
from xpulpnn.isa.machine import NNRF_WEIGHTS
from xpulpnn_sim.benches.launcher_data import DATA_VARIABLE, DEFAULT_SEED, SEED_VARIABLE
from xpulpnn_sim.benches.units import UNITS, BenchedUnit
from xpulpnn_sim.publishing.packages.design import GENERATED, Design, fill

_UNITS: Mapping[str, str] = {
    "dotp": "dotp-shared",
    "nnrf": "nnrf-6",
    "mult": "mult",
    "backend": "backend-2",
    "core": "core-2",
    **{name: name for name in ("simd-alu", "ex-stage", "tcdm", "event-unit", "dma", "icache", "cluster-axi")},
    **{name: name for name in ("dm", "jtag-dtm")},
}
"""Units with the benches of components; other components are packaged without one."""

_SYNCHRONOUS = ("dma", "cluster-axi", "jtag-dtm")  # their benches know what reset does in each cycle

_FILES = {"Makefile": "cocotb.mk", "test_runner.py": "cocotb_runner.py", "README.md": "cocotb_readme.md"}


def cocotb_files(design: Design) -> tuple[dict[str, str], str]:
    """Return the files of the folder by name, or none and the reason why the unit's bench cannot run."""
    if design.top not in _UNITS:
        return {}, ""
    if design.top in _SYNCHRONOUS and design.resets_low:
        return {}, "it needs `--reset sync`"
    try:
        unit = _benched_unit(design)
    except ConfigError as error:
        return {}, str(error)
    names = {"seed": DEFAULT_SEED, "seed_variable": SEED_VARIABLE, "data_variable": DATA_VARIABLE}
    names["bench"] = f"xpulpnn_sim.benches.bench_{unit.bench}"
    files = {name: fill(template, design, **names) for name, template in _FILES.items()}
    ports = {f"{side}s": [port.name for port in design.ports if port.direction == side] for side in ("input", "output")}
    data = {"generator": GENERATED, "unit": design.top, **ports, **unit.describe()}
    return files | {"data.json": json.dumps(data) + "\n"}, ""


def _benched_unit(design: Design) -> BenchedUnit:
    name: str = _UNITS[design.top]
    config: Any = design.config
    parameters: dict[str, Any] = {}
    if isinstance(config, CoreConfig):
        preset, base = "xpulpnn", PRESETS["xpulpnn"]
        if name == "mult":
            name += "-dot-product" if config.multiplies_by_dotp else "-wide" if config.requantise_exact else ""
        if design.top == "nnrf":
            weights = NNRF_WEIGHTS + config.reads_factor
            parameters = {"entries": config.nnrf_entries, "weights": weights, "pairs": config.mac_load_pair}
    elif isinstance(config, ClusterConfig):
        preset, base = "cluster", CLUSTER_PRESETS["cluster"]
        parameters = {"others": config.masters - config.cores} if name == "tcdm" else {}
    else:
        preset, base = "", config
        parameters = {"harts": config.harts} if name == "dm" else {"idcode": config.idcode}
    unit = UNITS[name]
    if unit.design:
        settings = settings_between(base, config) | {"rvfi": str(config.rvfi).lower()}
        unit = unit.with_configuration(preset, [f"{key}={value}" for key, value in settings.items()])
    return replace(unit, parameters={**unit.parameters, **parameters})
