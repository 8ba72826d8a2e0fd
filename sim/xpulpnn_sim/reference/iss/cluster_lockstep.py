"""Lock step of a cluster with the simulator."""

from collections.abc import Sequence
from functools import partial

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import hart_number
from xpulpnn_sim.reference.iss.cluster_devices import ClusterMemory
from xpulpnn_sim.reference.iss.lockstep import Followers, Lockstep
from xpulpnn_sim.reference.iss.session import loaded_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of


class ClusterLockstep(Followers):
    """The harts of a cluster. Writes of DMA engine and host are taken from the bus, responses of peripherals from the
    retirements."""

    def __init__(
        self,
        executable: Executable,
        config: ClusterConfig,
        *,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
    ) -> None:
        kind = partial(ClusterMemory, config=config, reach=_unmapped)
        memory = loaded_memory(executable, (*memory_of(config), *ram), errors, kind)
        # loads from peripherals have the response of the design; stores to them have no effect here
        memory.native.answers = _answering(config)
        given = ({"hart_id": hart_number(0, core), "who": f"hart {core}, "} for core in range(config.cores))
        super().__init__([Lockstep(executable, config.core, memory=memory, **each) for each in given])


CLINT_BIT = 31  # of the mask for compiled code


def _unmapped(address: int, value: int | None) -> None:
    raise LookupError


def _answering(config: ClusterConfig) -> int:
    """Return a mask of the blocks of peripherals that exist."""
    blocks = [isa.CONTROL, isa.TIMER, isa.EVENT_UNIT, isa.EVENT_UNIT + isa.BLOCK_BYTES, isa.PRIVATE_EVENT_UNIT]
    blocks += [isa.DMA, isa.PRIVATE_DMA] if config.dma else []
    blocks += [isa.ICACHE_CONTROL] if config.icache_private else []
    return sum(1 << (block - isa.CONTROL) // isa.BLOCK_BYTES for block in blocks) | config.clint << CLINT_BIT
