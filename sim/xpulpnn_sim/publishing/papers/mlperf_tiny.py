"""MLPerf Tiny: four models on one core and on eight, beside published cycles of other processors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from xpulpnn.config import CoreConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.exploration.library import load_library
from xpulpnn_sim.exploration.network_energy import add_energies, layer_energies
from xpulpnn_sim.publishing.papers.runs import simulated_config
from xpulpnn_sim.publishing.papers.table import Bar, Metric, PaperTable, Published, Record, TableRow
from xpulpnn_sim.reference.golden.network import run_reference
from xpulpnn_sim.tools.results import digest, sources_digest
from xpulpnn_sw.networks.importers.registry import ImportOptions, import_model
from xpulpnn_sw.networks.network import NetworkModel

NAME = "mlperf-tiny"
_MODELS: Mapping[str, str] = {
    "image classification": "resnet8_int8.tflite",
    "visual wake words": "vww_96_int8.tflite",
    "keyword spotting": "kws_dscnn_int8.tflite",
    "anomaly detection": "ad01_int8.tflite",
}
_MEGACYCLES = Metric(unit="M cycles", per=1e6, digits=3)
_MICROJOULES = Metric(unit="uJ", field="energy_nj", per=1000.0)
_CORES = 8
# millions of cycles (frequency over throughput), in the order of the models
_ALONE: Mapping[str, tuple[str, ...]] = {
    "Cortex-M85": ("4.07", "6.43", "1.66", "0.255"),
    "Cortex-M7": ("11.4", "6.67", "3.17", "0.343"),
    "Cortex-M4": ("19.8", "10.7", "5.18", "0.631"),
}
_SHARED = {"GAP9 with its accelerator": ("0.228", "0.416", "0.176", "0.065")}
_NEWEST = "xpulpnn3"
# preset, whether sums are requantised in 32 bits, and whether energies are estimated
_TARGETS = ((_NEWEST, False, True), ("xpulpnn2", False, False), ("xpulpnn2", True, True))


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
        image = described.random_input(0)
        expected = [values[0] for values in run_reference(described.network, image[np.newaxis])]
        case = NetworkCase(
            network=described.network,
            image=image,
            config=simulated_config(self.preset, self.cores),
            machine=Machine(max_cycles=MOST_CYCLES),
            checked=check,
            expected=expected,
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
    rows: list[TableRow] = []
    for number, (title, name) in enumerate(_MODELS.items()):
        model = folder / name
        try:
            content = model.read_bytes()
        except OSError as error:
            raise InputError(f"{title} must be a file that can be read, not {model}: {error.strerror}") from None
        for preset_name, is_fast, is_counted in _TARGETS:
            for cores in (1, _CORES):
                cells = liberty if is_counted and cores == 1 else None
                run = ModelRun(
                    model=model,
                    preset=preset_name,
                    cores=cores,
                    is_fast=is_fast,
                    liberty=cells,
                    contents=digest(content, library if cells else ""),
                )
                rows += _rows(title, number, run)
    return PaperTable(
        name=NAME,
        title="MLPerf Tiny: four models on one core and on eight",
        printed_by="MLPerf Tiny, cycles as frequency over throughput",
        rows=rows,
        notes=(
            (
                f"Ours: {', '.join(_MODELS.values())}, one random input, from the codes of the input to those of the "
                "last layer, without SOFTMAX. The rule exact gives the codes of TFLite, bn32 those of net import with "
                "its fast rule."
            ),
            (
                "One core: memory that answers in the next cycle. Eight cores: weights and input come by DMA from "
                "memory that answers in the next cycle too, TCDM of 16 banks, instructions without delay."
            ),
            (
                "Energy, at gate level on one core without memory: each layer's, that of a cycle of a piece of it "
                "times its cycles, as net run tells with cells."
            ),
        ),
        reference="published",
    )


def _rows(title: str, number: int, run: ModelRun) -> Iterator[TableRow]:
    rule = "bn32" if run.is_fast else "exact"
    own = f"{title}, {run.preset}, {rule}, {'one core' if run.cores == 1 else f'{run.cores} cores'}"
    others = _ALONE if run.cores == 1 else _SHARED
    if run.preset != _NEWEST:
        # the fastest of the other cores only
        others = dict([*others.items()][:1])
    published = {other: Published(figures[number], other) for other, figures in others.items()}
    chart = f"millions of cycles, cores: {run.cores}"
    for number, (other, figure) in enumerate(published.items()):
        bar = None if number else Bar(chart, f"{run.preset}, {rule}", title)
        yield TableRow(f"{own}: {other}", _MEGACYCLES, figure, run, quick=False, bar=bar)
    if run.liberty is not None:
        yield TableRow(f"{own}: energy", _MICROJOULES, None, run, quick=False)
