"""Signatures of the cores' accesses inside the event unit, and address helpers."""

from amaranth.hdl import Cat, Const, Value
from amaranth.utils import ceil_log2

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.isa.cluster import EventRegister
from xpulpnn.isa.machine import WORD_BYTES, XLEN

OFFSET_BITS = 10  # bits of an address within a private view

WORD_SHIFT = ceil_log2(WORD_BYTES)

REGION_BITS = 6  # bits of an address within a group of registers; mutexes and triggers have groups of their own

MUTEX_REGION = EventRegister.MUTEX >> REGION_BITS
TRIGGER_REGIONS = (
    EventRegister.SW_TRIGGER >> REGION_BITS,
    EventRegister.SW_TRIGGER_WAIT >> REGION_BITS,
    EventRegister.SW_TRIGGER_WAIT_CLEAR >> REGION_BITS,
)


class AccessSignature(PortSignature):
    """An access of a core in this cycle."""

    #: read, write: Load or store of the core; both are 0 without an access, and ``read`` is 0 for loads of the shared
    #:   view, which never trigger anything.
    read: Out(1)
    write: Out(1)
    offset: Out(OFFSET_BITS)  #: Byte address within the private view; bits 1:0 are 0.
    data: Out(XLEN)  #: Data to write; for loads the software event target mask of the core.


class SlotSignature(PortSignature):
    """An access of the shared view that waits for a cycle without an access of the core."""

    valid: Out(1)  #: An access waits.
    write: Out(1)  #: The access is a store.
    offset: Out(OFFSET_BITS)  #: Byte address within the core's private view; bits 1:0 are 0.
    wdata: Out(XLEN)  #: Data to write.
    taken: In(1)  #: The access is performed in this cycle.
    rdata: In(XLEN)  #: Data of a load, valid with ``taken``.


class BarrierStateSignature(PortSignature):
    """Registers of a barrier, a bit per core."""

    def __init__(self, cores: int):
        #: trigger_mask: Cores that must trigger.
        #: status: Cores that have triggered.
        #: target_mask: Cores that receive the event.
        super().__init__({name: Out(cores) for name in ("trigger_mask", "status", "target_mask")})


def aligned_offset(address: Value) -> Value:
    return Cat(Const(0, WORD_SHIFT), address[WORD_SHIFT:OFFSET_BITS])


def lowest(requests: Value) -> Value:
    return requests & (-requests)[: len(requests)]
