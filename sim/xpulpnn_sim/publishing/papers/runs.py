"""Runs of the tables, as data: each run knows the command that repeats it, and returns its record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from xpulpnn.config import ClusterConfig, CoreConfig, preset
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, MOST_CYCLES, cosim, cosim_cluster
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import run_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.workloads.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sw.kernels.requantisation import Rule

Record = Mapping[str, Any]

USUAL_BANKS = 16


class Run(Protocol):
    """Something that runs on the RTL; equal ones are run once, and ``repr`` tells different ones apart."""

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        ...

    def measure(self, *, check: bool) -> Record:
        """Run it and compare its results, with ``check`` every retired instruction too.

        The record is that of ``cosim --json``; its ``mismatches`` are 0 if all is right.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """A kernel, on the back end fed with its instructions or on the cores of a cluster."""

    kernel: str  # as on the command line of `cosim`
    layer: str  # as on the command line of `cosim`
    precision: str  # as on the command line of `cosim`
    variant: str  # as on the command line of `cosim`
    rule: str = Rule.BN32.value  # how results come of accumulators
    cores: int | None = None  # cores of a cluster that share it; None: one by itself, with memory of its own
    banks: int = USUAL_BANKS

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        words = ["xpulpnn cosim", self.kernel, "--layer", self.layer, "--precision", self.precision]
        words += ["--variant", self.variant]
        words += [] if self.rule == Rule.BN32.value else ["--requantise", self.rule]
        words += [] if self.cores is None else ["--cores", str(self.cores)]
        words += [] if self.banks == USUAL_BANKS else ["--banks", str(self.banks)]
        return " ".join(words)

    def measure(self, *, check: bool) -> Record:
        """Run it."""
        asked: dict[str, Any] = {
            "layers": [self.layer],
            "precisions": [self.precision],
            "variants": [self.variant],
            "rule": Rule(self.rule),
            "config": DEFAULT_CONFIG,
            "check": check,
        }
        if self.cores is None:
            (result,) = cosim(self.kernel, **asked)
        else:
            (result,) = cosim_cluster(self.kernel, cores=[self.cores], banks=[self.banks], **asked)
        return result.record


def _simulated_config(name: str, cores: int) -> CoreConfig | ClusterConfig:
    """A core of a preset, or a cluster of such cores."""
    core = simulated(preset(name))
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierRun:
    """The binarised classifier."""

    variant: str  # how bits lie in words: `window`, `dense` or `crumbs`
    popcount: str  # how bits are counted: `hardware` or `software`
    cores: int = 1  # that share it; one has memory of its own

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        shared = "" if self.cores == 1 else f" --cores {self.cores}"
        return f"xpulpnn cosim bnn --variant {self.variant} --popcount {self.popcount}{shared}"

    def measure(self, *, check: bool) -> Record:
        """Run it."""
        config = _simulated_config(DEFAULT_CONFIG, self.cores)
        machine = Machine(max_cycles=MOST_CYCLES)
        case = BnnCase(variant=self.variant, popcount=self.popcount, config=config, machine=machine, checked=check)
        return run_bnn(case).record


@dataclass(frozen=True, slots=True, kw_only=True)
class Cifar10Run:
    """The CIFAR-10 network with random weights."""

    preset: str
    bits: int  # width of all layers but the first
    cores: int  # that share each layer; one has memory of its own, several a TCDM and DMA

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return f"xpulpnn cosim cifar10 --preset {self.preset} --bits {self.bits} --cores {self.cores}"

    def measure(self, *, check: bool) -> Record:
        """Run it."""
        machine = Machine(max_cycles=MOST_CYCLES)
        network, image = random_network(self.bits, machine.seed)
        config = _simulated_config(self.preset, self.cores)
        case = NetworkCase(network=network, image=image, config=config, machine=machine, checked=check)
        return run_network(case).record
