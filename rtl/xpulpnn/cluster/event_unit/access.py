"""The cores' accesses as the parts of the event unit see them, and their answers."""

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
"""Group numbers."""


class AccessSignature(PortSignature):
    """An access that a core makes in this cycle."""

    #: read, write: It is a load or a store of the core; both are 0 if there is none, and ``read`` for loads of the
    #:   shared view, which never trigger anything.
    read: Out(1)
    write: Out(1)
    offset: Out(OFFSET_BITS)  #: Byte address within the private view; bits 1:0 are 0.
    data: Out(XLEN)  #: Data to write; for loads the core's target mask of software events.


class SlotSignature(PortSignature):
    """An access of the shared view that waits for a cycle in which the core concerned makes none."""

    valid: Out(1)  #: There is one.
    write: Out(1)  #: It is a store.
    offset: Out(OFFSET_BITS)  #: Byte address within the core's private view; bits 1:0 are 0.
    wdata: Out(XLEN)  #: Data to write.
    taken: In(1)  #: It happens in this cycle.
    rdata: In(XLEN)  #: What a load finds, valid with ``taken``.


class BarrierStateSignature(PortSignature):
    """Registers of a barrier, a bit per core."""

    def __init__(self, cores: int):
        #: trigger_mask: Cores that must trigger.
        #: status: Those that have.
        #: target_mask: Cores that get the event.
        super().__init__({name: Out(cores) for name in ("trigger_mask", "status", "target_mask")})


def within(address: Value) -> Value:
    """The offset in a private view, of an aligned address."""
    return Cat(Const(0, WORD_SHIFT), address[WORD_SHIFT:OFFSET_BITS])


def lowest(requests: Value) -> Value:
    """The lowest bit set, alone."""
    return requests & (-requests)[: len(requests)]
