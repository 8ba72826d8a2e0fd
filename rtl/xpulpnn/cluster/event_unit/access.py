"""The cores' accesses as the parts of the event unit see them, and their answers."""

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

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


class AccessSignature(wiring.Signature):
    """An access that a core makes in this cycle."""

    def __init__(self):
        #: read, write: It is a load or a store of the core; both are 0 if there is none, and ``read`` for loads of the
        #:   shared view, which never trigger anything.
        #: offset: Byte address within the private view; bits 1:0 are 0.
        #: data: Data to write; for loads the core's target mask of software events.
        super().__init__({"read": Out(1), "write": Out(1), "offset": Out(OFFSET_BITS), "data": Out(XLEN)})

    def __eq__(self, other):
        return isinstance(other, AccessSignature)

    def __repr__(self):
        return "AccessSignature()"


class SlotSignature(wiring.Signature):
    """An access of the shared view that waits for a cycle in which the core concerned makes none."""

    def __init__(self):
        #: valid: There is one.
        #: write: It is a store.
        #: offset: Byte address within the core's private view; bits 1:0 are 0.
        #: wdata: Data to write.
        outputs = {"valid": Out(1), "write": Out(1), "offset": Out(OFFSET_BITS), "wdata": Out(XLEN)}
        #: taken: It happens in this cycle.
        #: rdata: What a load finds, valid with ``taken``.
        super().__init__(outputs | {"taken": In(1), "rdata": In(XLEN)})

    def __eq__(self, other):
        return isinstance(other, SlotSignature)

    def __repr__(self):
        return "SlotSignature()"


class BarrierStateSignature(wiring.Signature):
    """Registers of a barrier, a bit per core.

    Parameters
    ----------
    cores : int
        Number of cores.
    """

    def __init__(self, cores: int):
        self.cores = cores
        #: trigger_mask: Cores that must trigger.
        #: status: Those that have.
        #: target_mask: Cores that get the event.
        super().__init__({name: Out(cores) for name in ("trigger_mask", "status", "target_mask")})

    def __eq__(self, other):
        return isinstance(other, BarrierStateSignature) and other.cores == self.cores

    def __repr__(self):
        return f"BarrierStateSignature({self.cores})"


def within(address: Value) -> Value:
    """The offset in a private view, of an aligned address."""
    return Cat(Const(0, WORD_SHIFT), address[WORD_SHIFT:OFFSET_BITS])


def lowest(requests: Value) -> Value:
    """The lowest bit set, alone."""
    return requests & (-requests)[: len(requests)]
