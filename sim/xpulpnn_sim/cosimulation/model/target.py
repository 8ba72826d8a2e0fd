"""Designs that run programs, cores or a cluster, as far as their surroundings have to know."""

from dataclasses import dataclass

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import TCDM_BASE, hart_number
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.programs.cluster_program import require_cluster, require_one_core
from xpulpnn_sim.reference.programs.elf import Executable, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A design that runs programs."""

    config: CoreConfig | ClusterConfig
    hart_ids: tuple[int, ...]  # value of mhartid of each core

    @classmethod
    def of(cls, config: CoreConfig | ClusterConfig, machine: Machine) -> "Target":
        """A core alone, or a cluster in the surroundings ``machine``, which must suit it."""
        if isinstance(config, CoreConfig):
            if machine.l2_latency != 1:
                raise InputError(f"latency of the L2 must be 1 without a cluster, not {machine.l2_latency}")
            return cls(config=config, hart_ids=(machine.hart_id,))
        for option, value in (
            ("hart number", machine.hart_id),
            ("interrupt rate", machine.irq_rate),
            ("interrupts", machine.irqs),
        ):
            if value:
                raise InputError(f"{option} must be left out for a cluster, whose event unit raises interrupts")
        return cls(config=config, hart_ids=tuple(hart_number(0, core) for core in range(config.cores)))

    @property
    def cluster(self) -> ClusterConfig | None:
        """The cluster, if it is one."""
        return self.config if isinstance(self.config, ClusterConfig) else None

    @property
    def core(self) -> CoreConfig:
        """Configuration of each core."""
        return self.config.core if isinstance(self.config, ClusterConfig) else self.config

    @property
    def engine(self) -> str:
        """Its key among the models."""
        return "core" if self.cluster is None else "cluster"

    @property
    def memory(self) -> tuple[Window, ...]:
        """Its own memory."""
        return () if self.cluster is None else ((TCDM_BASE, self.cluster.tcdm_bytes),)

    @property
    def settings(self) -> dict[str, int]:
        """Settings of a run that only clusters have."""
        if self.cluster is None:
            return {}
        return {"bank_hash": self.cluster.bank_hash, "tcdm_bytes": self.cluster.tcdm_bytes}

    def require(self, executable: Executable, ram: tuple[Window, ...]) -> None:
        """Raise :class:`InputError` unless the program is for this design and lies, as ``ram``, where memory can be."""
        if self.cluster is None:
            require_one_core(executable)
        else:
            require_cluster(executable, self.cluster, ram)
