"""Runs of kernels, of the binarised classifier and of the CIFAR-10 network, made as ``xpulpnn cosim`` makes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xpulpnn.config import BOTH_FORMS, ClusterConfig, CoreConfig, preset
from xpulpnn_sim.api.cosimulation import MOST_CYCLES, cosim, cosim_cluster
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.workloads.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.publishing.papers.table import Record
from xpulpnn_sw.kernels.requantisation import Rule

USUAL_BANKS = 16  # default of a cluster


@dataclass(frozen=True, slots=True)
class CosimRun:
    """A run of ``xpulpnn cosim`` with one value per option."""

    workload: str  # kernel, `bnn` or `cifar10`
    options: tuple[tuple[str, str | int], ...]  # command-line names and values

    @property
    def command(self) -> str:
        return " ".join(["xpulpnn cosim", self.workload, *(f"--{name} {value}" for name, value in self.options)])

    def measure(self, *, check: bool) -> Record:
        options: dict[str, Any] = dict(self.options)
        if self.workload == "bnn":
            return _measure_classifier(check=check, **options)
        if self.workload == "cifar10":
            return _measure_cifar10(check=check, **options)
        return _measure_kernel(self.workload, options, check=check)


def cosim_run(workload: str, **options: str | int | None) -> CosimRun:
    """Return a run with all options that are not None; a kernel with the option ``cores`` runs on a cluster."""
    return CosimRun(workload, tuple((name, value) for name, value in options.items() if value is not None))


def _measure_kernel(kernel: str, options: Mapping[str, Any], *, check: bool) -> Record:
    case: dict[str, Any] = {
        "layers": [options["layer"]],
        "precisions": [options["precision"]],
        "variants": [options["variant"]],
        "rule": Rule(options.get("requantise", Rule.BN32)),
        "config": BOTH_FORMS,
        "check": check,
    }
    if "cores" not in options:
        (result,) = cosim(kernel, **case)
    else:
        (result,) = cosim_cluster(kernel, cores=[options["cores"]], banks=[options.get("banks", USUAL_BANKS)], **case)
    return result.record


def simulated_config(name: str, cores: int) -> CoreConfig | ClusterConfig:
    core = simulated(preset(name))
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


def _measure_classifier(variant: str, popcount: str, cores: int = 1, *, check: bool) -> Record:
    machine = Machine(max_cycles=MOST_CYCLES)
    config = simulated_config(BOTH_FORMS, cores)
    case = BnnCase(variant=variant, popcount=popcount, config=config, machine=machine, checked=check)
    return run_bnn(case).record


def _measure_cifar10(preset: str, bits: int, cores: int, *, check: bool) -> Record:
    machine = Machine(max_cycles=MOST_CYCLES)
    network, image = random_network(bits, machine.seed)
    config = simulated_config(preset, cores)
    return (
        build_network(NetworkCase(network=network, image=image, config=config, machine=machine, checked=check))
        .run()
        .record
    )
