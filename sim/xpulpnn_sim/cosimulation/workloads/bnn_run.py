"""Runs the binarised classifier on one core or on a cluster, with the cycles of every layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads import workload
from xpulpnn_sim.reference.golden.network import classify
from xpulpnn_sw.kernels.bnn import network
from xpulpnn_sw.kernels.bnn.classifier import Classifier, classifier
from xpulpnn_sw.kernels.bnn.classifier_code import MAP_SIDE
from xpulpnn_sw.kernels.bnn.network import random_weights, synthetic_image
from xpulpnn_sw.kernels.layout import Image
from xpulpnn_sw.kernels.programs.bare import bare_program, cluster_program

HARDWARE, SOFTWARE = "hardware", "software"
POPCOUNTS = (HARDWARE, SOFTWARE)  # population count by `p.cnt`, or by shifts and masks

_OPERATIONS = {"xor": ("xor",), "compare": ("slt", "slti", "sltu", "sltiu")}
"""Operations of the instructions that are counted, as in the paper: products of words, and binarisations of sums."""

_INNER = slice(network.BORDER, network.BORDER + network.POOLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BnnCase:
    variant: str = "dense"
    popcount: str
    config: CoreConfig | ClusterConfig  # all cores of a cluster share the work
    machine: Machine  # its seed is also that of weights and image
    checked: bool = True  # whether every retirement is checked


def run_bnn(case: BnnCase) -> workload.Result:
    """Classify a synthetic image with random weights. ``cycles`` of the record count the call of the classifier, on a
    cluster from barrier to barrier; ``layers`` are measured on core 0."""
    return BnnWork(case).run()


class BnnWork(workload.Workload):
    def __init__(self, case: BnnCase) -> None:
        random = np.random.default_rng(case.machine.seed)
        weights, image = random_weights(random), synthetic_image(random)
        self.case, self.expected = case, _expected(weights, image)
        software = case.popcount == SOFTWARE
        self.built = classifier(weights, image, variant=case.variant, software=software, cores=case.config.cores)
        alone = not isinstance(case.config, ClusterConfig)
        function = self.built.function
        self.program = bare_program(function) if alone else cluster_program(function, case.config.cores)
        outside = Image(
            self.built.outside_base, np.ascontiguousarray(self.built.outside, "<u4").view(np.uint8).reshape(-1), {}
        )
        executable = workload.executable_of(self.program, function.name, [outside])
        super().__init__(case.config, case.machine, executable, macs=function.macs, checked=case.checked)

    def compared(self, outcome: RunResult) -> list[workload.Comparison]:
        maps = _decoded_maps(self.case, self.built, outcome.memory[self.program.data_base])
        return [workload.Comparison.of(name, self.expected[name], values) for name, values in maps.items()]

    def figures(self, outcome: RunResult, compared: Sequence[workload.Comparison]) -> dict[str, Any]:
        function = self.built.function
        accounts = workload.function_cycles(outcome, function.function, self.program.text_base)
        totals, cycles_at = accounts.sum(axis=0), accounts[0].sum(axis=1)
        cycles = self.program.measured_cycles(outcome.memory[self.program.data_base])
        names = dict.fromkeys(function.function.regions)
        return {
            "kernel": "bnn",
            "variant": self.case.variant,
            "popcount": self.case.popcount,
            "cores": self.case.config.cores,
            "instructions": int(totals[:, WaitCause.NONE].sum()),
            "cycles": cycles,
            "operations": {name: self._executed(totals, names) for name, names in _OPERATIONS.items()},
            "macs": function.macs,
            "cycles_per_mac": round(cycles / function.macs, workload.DIGITS),
            "layers": {name: int(cycles_at[function.function.region(name)].sum()) for name in names},
            "stalls": stalls_of(totals, devices=False),
        }

    def _executed(self, totals: NDArray[np.uint64], operations: Sequence[str]) -> int:
        matches = [insn.op in operations for insn in self.built.function.function.insns]
        return int(totals[matches, WaitCause.NONE].sum())


def _expected(weights: network.Weights, image: NDArray[np.uint8]) -> Mapping[str, NDArray[np.int64]]:
    stages = classify(image, (weights.conv1, weights.conv2), (weights.fc1, weights.fc2, weights.fc3))
    names = ("map1", "map2", "hidden1", "hidden2", "output")
    layers = dict(zip(names, stages, strict=True))
    return {name: values if name == "output" else (values > 0).astype(np.int64) for name, values in layers.items()}


def _decoded_maps(case: BnnCase, run: Classifier, memory: NDArray[np.uint8]) -> Mapping[str, NDArray[np.int64]]:
    image = run.function.image

    def words(name: str) -> NDArray[np.int64]:
        return image.view(name, memory).view("<u4").astype(np.int64)

    def channels(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values[..., np.newaxis] >> np.arange(network.CHANNELS) & 1

    def first_map() -> NDArray[np.int64]:
        match case.variant:
            case "window":
                sums = image.view("map1", memory).view("i1").reshape(MAP_SIDE, MAP_SIDE, network.CHANNELS)
                return (sums > 0).astype(np.int64)
            case "crumbs":
                # even channels, then odd ones; the upper bit of a crumb is its sign
                crumbs = words("map1").reshape(MAP_SIDE, MAP_SIDE, 2)[..., np.newaxis]
                bits = 1 - (crumbs >> np.arange(1, XLEN, 2) & 1)
                return bits.swapaxes(2, 3).reshape(MAP_SIDE, MAP_SIDE, network.CHANNELS)
            case _:
                return channels(words("map1").reshape(MAP_SIDE, MAP_SIDE))

    return {
        "map1": first_map()[_INNER, _INNER],
        "map2": channels(words("map2").reshape(network.LAST, network.LAST)),
        "hidden1": words("hidden1")[: network.HIDDEN],
        "hidden2": words("hidden2")[: network.HIDDEN],
        "output": run.function.output.decode(image, memory)[0],
    }
