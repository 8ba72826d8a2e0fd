"""Runs of the tables, as data: each run knows the command that repeats it, and returns its record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from xpulpnn_sim.api.cluster_cosimulation import cosim_cluster
from xpulpnn_sim.api.cosimulation import DEFAULT_CONFIG, cosim
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

        The record has ``mismatches``, which is 0 if all is right.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRun:
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
        if self.rule != Rule.BN32.value:
            words += ["--requantise", self.rule]
        if self.cores is not None:
            words += ["--cores", str(self.cores)]
        if self.banks != USUAL_BANKS:
            words += ["--banks", str(self.banks)]
        return " ".join(words)

    def measure(self, *, check: bool) -> Record:
        """Run it; the record is that of ``cosim --json``."""
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
