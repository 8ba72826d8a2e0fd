"""MLPerf Tiny: four models on one core and on eight, beside published cycles of other processors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from xpulpnn.config import CoreConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.exploration.library import load_library
from xpulpnn_sim.exploration.network_energy import add_energies, layer_energies
from xpulpnn_sim.publishing.papers.published import read_table
from xpulpnn_sim.publishing.papers.runs import simulated_config
from xpulpnn_sim.publishing.papers.table import PaperTable, Record
from xpulpnn_sim.tools.results import digest, sources_digest
from xpulpnn_sw.networks.importers.registry import ImportOptions, import_model
from xpulpnn_sw.networks.network import NetworkModel

NAME = "mlperf-tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    model: Path
    preset: str
    cores: int  # cores that share each layer; one core has its own memory
    is_fast: bool  # if sums are requantised in 32 bits
    liberty: Path | None  # library for energies of the layers, on one core
    contents: str  # digest of the model files and of what energies depend on

    @property
    def command(self) -> str:
        network = f"build/{self.model.stem}{'_fast' if self.is_fast else ''}.json"
        fast = " --fast" if self.is_fast else ""
        library = "" if self.liberty is None else f" --liberty {self.liberty}"
        run = f"xpulpnn net run {network} --preset {self.preset} --cores {self.cores}{library}"
        return f"xpulpnn net import {self.model} -o {network}{fast} && {run}"

    def measure(self, *, check: bool) -> Record:
        described = _network(self.model, self.is_fast)
        case = NetworkCase(
            network=described.network,
            image=described.random_input(0),
            config=simulated_config(self.preset, self.cores),
            machine=Machine(max_cycles=MOST_CYCLES),
            checked=check,
        )
        record = build_network(case).run().record
        if self.liberty is not None:
            core: CoreConfig = preset(self.preset)
            cycles = {layer["name"]: layer["cycles"] for layer in record["layers"]}
            add_energies(record, layer_energies(replace(case, config=core), core, cycles, load_library(self.liberty)))
        return record


@cache
def _network(model: Path, is_fast: bool) -> NetworkModel:
    return import_model(model, ImportOptions(name=model.stem, is_fast=is_fast))


def mlperf_tiny(folder: Path, liberty: Path | None) -> PaperTable:
    library = "" if liberty is None else digest(load_library(liberty).sha256, sources_digest())

    def run(keys: Mapping[str, Any]) -> ModelRun:
        model, cells = folder / keys["model"], liberty if "cells" in keys else None
        try:
            content = model.read_bytes()
        except OSError as error:
            raise InputError(
                f"{keys['title']} must be a file that can be read, not {model}: {error.strerror}"
            ) from None
        return ModelRun(
            model=model,
            preset=keys["preset"],
            cores=keys["cores"],
            is_fast=keys["rule"] == "bn32",
            liberty=cells,
            contents=digest(content, library if cells else ""),
        )

    table = read_table(NAME, run)
    rows = [row for row in table.rows if liberty or row.metric.field != "energy_nj"]
    return replace(table, rows=rows)
