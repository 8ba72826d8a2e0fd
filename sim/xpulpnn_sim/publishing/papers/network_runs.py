"""Runs of whole networks."""

from dataclasses import dataclass

from xpulpnn.config import ClusterConfig, preset
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, MOST_CYCLES
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import run_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.workloads.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sim.publishing.papers.runs import Record


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
        """Run it; the record is that of ``cosim bnn --json``."""
        core = simulated(preset(DEFAULT_CONFIG))
        config = core if self.cores == 1 else ClusterConfig(core=core, cores=self.cores)
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
        """Run it; the record is that of ``cosim cifar10 --json``."""
        machine = Machine(max_cycles=MOST_CYCLES)
        network, image = random_network(self.bits, machine.seed)
        core = simulated(preset(self.preset))
        config = core if self.cores == 1 else ClusterConfig(core=core, cores=self.cores)
        case = NetworkCase(network=network, image=image, config=config, machine=machine, checked=check)
        return run_network(case).record
