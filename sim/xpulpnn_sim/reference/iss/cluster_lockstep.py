"""Lock step of a cluster with the simulator: compares retirements in the order in which the bus granted their
accesses."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.cluster import hart_number
from xpulpnn_sim.reference.iss.cluster_devices import ClusterMemory
from xpulpnn_sim.reference.iss.library import Walk, library
from xpulpnn_sim.reference.iss.lockstep import Lockstep, Record
from xpulpnn_sim.reference.iss.memory import AccessError
from xpulpnn_sim.reference.iss.session import fill_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window, memory_of, windows
from xpulpnn_sim.reference.programs.retirements import GRANT, RETIREMENT, Records

_ADDRESS = (RETIREMENT.names or ()).index("mem_addr")


class ClusterLockstep:
    """Simulated harts that share a memory and are stepped by the retirements of all cores of a cluster. An instruction
    takes effect when the bus grants its access, the second one if there are two. Writes of DMA engine and host are
    taken from the bus, responses of peripherals from the retirements."""

    def __init__(
        self,
        executable: Executable,
        config: ClusterConfig,
        *,
        ram: Sequence[Window] = (),
        errors: Sequence[Window] = (),
    ) -> None:
        pieces = windows(executable, (*memory_of(config), *ram))
        memory = ClusterMemory(pieces, config, _unmapped, errors)
        # loads from peripherals have the response of the design; stores to them have no effect here
        memory.native.answers = _answering(config)
        fill_memory(memory, executable)
        self.harts = tuple(
            Lockstep(executable, config.core, hart_id=hart_number(0, core), memory=memory, who=f"hart {core}, ")
            for core in range(config.cores)
        )
        self._structures = tuple(
            (ctypes.c_void_p * config.cores)(*map(ctypes.addressof, kind))
            for kind in ([hart.iss.state for hart in self.harts], [hart.follower for hart in self.harts])
        )
        self._walked = Walk(*map(ctypes.addressof, self._structures), hart_count=config.cores)
        self._held = [np.zeros(0, RETIREMENT) for _ in self.harts]
        self._grants: NDArray[Any] = np.zeros(0, GRANT)

    def compare(self, records: Sequence[Records], grants: NDArray[Any], *, last: bool = False) -> None:
        """Compare the next block. Raises :class:`DifferenceError`, after which nothing can be compared."""
        walked, held = self._walked, self._held
        self._grants = np.concatenate([self._grants, grants])
        pointers = [
            (ctypes.c_void_p * len(self.harts))(*(part.ctypes.data for part in parts)) for parts in (held, records)
        ]
        walked.held, walked.records = map(ctypes.addressof, pointers)
        walked.grants, walked.grant_count, walked.at_end = self._grants.ctypes.data, len(self._grants), last
        for hart, (left, new) in enumerate(zip(held, records, strict=True)):
            walked.held_counts[hart], walked.counts[hart], walked.done[hart] = len(left), len(left) + len(new), 0
        made = library().walk(ctypes.byref(walked))
        self._grants = self._grants[made:]
        self._held = []
        for lockstep, left, new, done in zip(self.harts, held, records, walked.done, strict=False):
            split = max(done - len(left), 0)
            lockstep.keep(left[:done])
            lockstep.keep(new[:split])
            self._held.append(np.concatenate([left[done:], new[split:]]))
        if walked.failed < len(self.harts):
            self._report(self.harts[walked.failed], self._held[walked.failed][0].item())

    def finish(self) -> None:
        """Make the accesses that belong to no record, and compare what remains."""
        self.compare([np.zeros(0, RETIREMENT) for _ in self.harts], np.zeros(0, GRANT), last=True)

    def _report(self, lockstep: Lockstep, record: Record) -> None:
        try:
            raise lockstep.difference(record)
        except AccessError as error:
            why = f"{error.kind} outside memory"
            raise lockstep.differs(record, "mem_addr", error.address, record[_ADDRESS], why) from None


CLINT_BIT = 31  # of the mask for compiled code


def _unmapped(core: int, address: int, value: int | None) -> None:
    raise LookupError


def _answering(config: ClusterConfig) -> int:
    """Return a mask of the blocks of peripherals that exist."""
    blocks = [isa.CONTROL, isa.TIMER, isa.EVENT_UNIT, isa.EVENT_UNIT + isa.BLOCK_BYTES, isa.PRIVATE_EVENT_UNIT]
    blocks += [isa.DMA, isa.PRIVATE_DMA] if config.dma else []
    blocks += [isa.ICACHE_CONTROL] if config.icache_private else []
    return sum(1 << (block - isa.CONTROL) // isa.BLOCK_BYTES for block in blocks) | config.clint << CLINT_BIT
