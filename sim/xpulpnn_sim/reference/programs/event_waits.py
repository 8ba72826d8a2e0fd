"""Descriptions of what a core waits for whose load of the event unit or of the DMA engine is not answered."""

from xpulpnn.isa.cluster import BARRIER_BYTES, BLOCK_BYTES, DMA, PRIVATE_DMA, PRIVATE_EVENT_UNIT, Dma, EventRegister
from xpulpnn.isa.machine import WORD_BYTES

_TRIGGER_BYTES = EventRegister.SW_TRIGGER_WAIT - EventRegister.SW_TRIGGER


def waits_for(address: int) -> str:
    """``waits for barrier 0``, by the address of the load in the core's private view of the event unit; elsewhere
    ``waits for an answer from 0x...``.
    """
    if address in (PRIVATE_DMA + Dma.COMMAND, DMA + Dma.COMMAND):
        return "waits for an identifier of the DMA engine"
    offset = address - PRIVATE_EVENT_UNIT
    if EventRegister.BARRIER <= offset < BLOCK_BYTES:
        return f"waits for barrier {(offset - EventRegister.BARRIER) // BARRIER_BYTES}"
    if EventRegister.SW_TRIGGER <= offset < EventRegister.BARRIER:
        number = (offset - EventRegister.SW_TRIGGER) % _TRIGGER_BYTES // WORD_BYTES
        return f"waits for an event, having raised software event {number}"
    if EventRegister.MUTEX <= offset < EventRegister.SW_TRIGGER:
        return f"waits for mutex {(offset - EventRegister.MUTEX) // WORD_BYTES}"
    if offset == EventRegister.DISPATCH_FIFO:
        return "waits for a dispatched task"
    if offset in (EventRegister.WAIT, EventRegister.WAIT_CLEAR):
        return "waits for an event"
    return f"waits for an answer from 0x{address:08x}"
