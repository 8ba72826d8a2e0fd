"""Accesses of a cluster's cores to its peripherals, taken from a block of retirements."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import TCDM_SPACE
from xpulpnn.isa.cluster import CONTROL
from xpulpnn_sim.cosimulation.model.model import Block
from xpulpnn_sim.cosimulation.model.schema import DEVICE_ACCESS, LINE_EVENT
from xpulpnn_sim.reference.programs.exits import NameOf, place


class DeviceAccess(NamedTuple):
    """A load or store of a register."""

    granted: int  # cycle in which the core's own request was granted
    retired: int  # cycle of the retirement
    core: int
    address: int
    mask: int  # A bit for each byte
    write: bool
    data: int  # what is loaded or stored
    order: int  # number and address of the instruction
    pc: int  # number and address of the instruction

    def where(self, name_of: NameOf) -> str:
        """The head of a report about it."""
        return (
            f"difference at hart {self.core}, retirement {self.order}, cycle {self.retired}, "
            f"pc {place(self.pc, name_of)}"
        )


def device_accesses(block: Block, core: int) -> Iterator[DeviceAccess]:
    """The accesses of a core to registers inside the cluster, in order."""
    records = block.records(core)
    grants = block.grants[block.grants["hart"] == DEVICE_ACCESS + core]
    if not len(grants):
        return
    inside = records["mem_addr"] - np.uint32(CONTROL) < TCDM_SPACE
    devices = records[inside & ((records["mem_rmask"] | records["mem_wmask"]) != 0)]
    for granted, record in zip(grants["cycle"].tolist(), devices, strict=False):
        write = bool(record["mem_wmask"])
        yield DeviceAccess(
            granted=granted,
            retired=int(record["cycle"]),
            core=core,
            address=int(record["mem_addr"]),
            mask=int(record["mem_rmask"] | record["mem_wmask"]),
            write=write,
            data=int(record["mem_wdata"] if write else record["mem_rdata"]),
            order=int(record["order"]),
            pc=int(record["pc_rdata"]),
        )


def line_events(grants: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Event lines in a log of grants: cycle, kind (0 of the DMA engine, 1 as interrupt, 2 of the timers), word."""
    chosen = grants[grants["hart"] >= LINE_EVENT]
    return zip(
        chosen["cycle"].tolist(), (chosen["hart"] - LINE_EVENT).tolist(), chosen["address"].tolist(), strict=True
    )
