"""The cluster as software sees it: addresses, registers, event lines (guide, "The cluster").

Plain numbers and enumerations, for gates, simulators, software and golden models alike. Register numbers are byte
offsets within their block.
"""

from enum import IntEnum, IntFlag
from typing import Any

from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE

MAX_CORES = 16

TCDM_BASE = DATA_BASE
TCDM_ALIAS = 0x0000_0000  # The TCDM answers here too.
TEST_SET_BIT = 20  # Address bit that makes a load of the TCDM a test&set.

L2_BASE = TEXT_BASE
SOC_PERIPHERALS = 0x1A10_0000

CONTROL = 0x1020_0000
TIMER = 0x1020_0400
EVENT_UNIT = 0x1020_0800  # Shared view: a block per core, the barriers, the triggers of software events.

ICACHE_CONTROL = 0x1020_1400
DMA = 0x1020_1800  # Shared command port.
PRIVATE_EVENT_UNIT = 0x1020_4000  # A core reads and writes its own registers here.
PRIVATE_DMA = 0x1020_4400  # Command port of the core itself.
BLOCK_BYTES = 0x400  # Size of each block of peripheral registers.
EVENT_UNIT_BYTES = 2 * BLOCK_BYTES  # Size of the shared view of the event unit.


class Control(IntEnum):
    """Cluster control: end of computation, start of cores, result."""

    EOC = 0x00  # bit 0: end of computation, the output eoc
    FETCH_ENABLE = 0x08  # a bit for each core: it may start
    CONFIG = 0x18  # reads 0
    CLOCK_GATE = 0x20  # bit 0, 1 after reset: core_clock_en may be low; while it is 0 all clocks are needed
    DEBUG_STATUS = 0x28  # reads 0: nothing halts a core
    BOOT_ADDRESS = 0x40  # first instruction of core i, at 4 i further; reads as boot_addr until it is written
    RETURN = 0x100  # result, the output return_value; bit 31 says that it is there


RETURN_DONE_BIT = 31  # Bit of ``Control.RETURN`` that says the other bits are the program's result.


class Timer(IntEnum):
    """Two 32-bit timers, or one of 64 bits."""

    CONFIG_LOW = 0x00  # settings of the low timer, below
    CONFIG_HIGH = 0x04  # those of the high timer
    COUNT_LOW = 0x08  # count
    COUNT_HIGH = 0x0C  # count of the high timer, or upper half
    COMPARE_LOW = 0x10  # comparison
    COMPARE_HIGH = 0x14  # that of the high timer, or upper half
    START_LOW = 0x18  # any write enables the low timer
    START_HIGH = 0x1C  # any write enables the high timer
    RESET_LOW = 0x20  # any write clears the count of the low timer
    RESET_HIGH = 0x24  # any write clears that of the high timer


class TimerConfig(IntFlag):
    """Bits of ``Timer.CONFIG_LOW`` and ``CONFIG_HIGH``; the prescaler's period less one is in bits 15:8."""

    ENABLE = 1 << 0  # it counts
    RESET = 1 << 1  # written as 1 clears the count
    EVENT = 1 << 2  # the end of a period is an event
    CLEAR = 1 << 4  # the count begins again behind the comparison
    ONE_SHOT = 1 << 5  # it stops at the end of a period
    PRESCALER = 1 << 6  # it steps in every (bits 15:8 + 1)-th cycle
    CASCADE = 1 << 31  # of the low timer: both are one of 64 bits


TIMER_PRESCALE_LSB = 8
TIMER_PRESCALE_BITS = 8


class EventLine(IntEnum):
    """Event lines of a core; software events are the lines below ``DMA``."""

    DMA = 8  # end of a DMA transfer
    DMA_INTERRUPT = 9  # likewise, as interrupt
    TIMER_LOW = 10  # low timer
    TIMER_HIGH = 11  # high timer
    ACCELERATOR = 12  # accelerators; nothing drives them
    BARRIER = 16  # a barrier
    MUTEX = 17  # a mutex
    DISPATCH = 18  # a word in the dispatch queue
    CLUSTER = 22  # the input events of the cluster


class EventRegister(IntEnum):
    """Registers of a core's event unit, in its private view."""

    MASK = 0x00  # events that p.elw waits for
    MASK_AND = 0x04  # clears the bits of the mask that are written as 1
    MASK_OR = 0x08  # sets them
    IRQ_MASK = 0x0C  # events that interrupt the core
    IRQ_MASK_AND = 0x10  # clears its bits
    IRQ_MASK_OR = 0x14  # sets them
    STATUS = 0x18  # bit 0: the clock is needed
    BUFFER = 0x1C  # events that have come
    BUFFER_MASKED = 0x20  # those in the mask
    BUFFER_IRQ_MASKED = 0x24  # those in the interrupt mask
    BUFFER_CLEAR = 0x28  # clears the bits that are written as 1
    SW_EVENTS_MASK = 0x2C  # cores that software events triggered by reads go to
    SW_EVENTS_MASK_AND = 0x30  # clears its bits
    SW_EVENTS_MASK_OR = 0x34  # sets them
    WAIT = 0x38  # p.elw: waits for an event in the mask, and gives those
    WAIT_CLEAR = 0x3C  # likewise, and clears what it gives
    DISPATCH_FIFO = 0x80  # a write pushes a word; p.elw waits for the next word meant for the core
    DISPATCH_TEAM = 0x84  # cores that words pushed from now on are meant for
    MUTEX = 0xC0  # of mutex m at 4 m further: p.elw locks and gives the last message, a write unlocks with one
    SW_TRIGGER = 0x100  # software event e at 4 e further: a write sends it to the cores written, 0 for all
    SW_TRIGGER_WAIT = 0x140  # a read sends it and waits
    SW_TRIGGER_WAIT_CLEAR = 0x180  # likewise, and clears
    BARRIER = 0x200  # barrier b at 32 b further, below


class Barrier(IntEnum):
    """Registers of a barrier."""

    TRIGGER_MASK = 0x00  # cores that must come; with 0 there is no barrier
    STATUS = 0x04  # those that have come
    SUMMARY = 0x08  # the same of all barriers together
    TARGET_MASK = 0x0C  # cores that are told
    TRIGGER = 0x10  # a write says that the cores written have come
    TRIGGER_SELF = 0x14  # a read says so of the core itself
    TRIGGER_WAIT = 0x18  # likewise with p.elw, and waits
    TRIGGER_WAIT_CLEAR = 0x1C  # likewise, and clears the event


BARRIER_BYTES = 0x20
SHARED_CORE_BYTES = 0x40
"""Distance of the cores' blocks in the shared view; each has the registers up to ``WAIT_CLEAR``."""

SHARED_BARRIERS = 0x400
SHARED_SW_TRIGGERS = 0x600  # Offsets in the shared view.


class Dma(IntEnum):
    """Registers of a DMA command port: MCHAN version 7."""

    COMMAND = 0x00
    STATUS = 0x04


class DmaCommand(IntFlag):
    """Bits of the first word of a transfer; those below are its length in bytes."""

    FROM_EXTERNAL = 1 << 17
    INCREMENT = 1 << 18
    EXTERNAL_2D = 1 << 19
    EVENT = 1 << 20
    INTERRUPT = 1 << 21
    BROADCAST = 1 << 22
    TCDM_2D = 1 << 23


DMA_LENGTH_BITS = 17


class Icache(IntEnum):
    """Control of the instruction caches."""

    ENABLE = 0x00  # Bit 0, set by reset: the caches keep lines. Clearing it empties them.
    FLUSH = 0x04
    """Written with any value empties all caches; likewise the others, except that ``FLUSH_ADDRESS`` takes the address
    of a line."""
    FLUSH_PRIVATE = 0x08
    FLUSH_ADDRESS = 0x0C
    CLEAR_COUNTERS = 0x10
    COUNT = 0x14  # Bit 0: the counters count.
    PREFETCH = 0x18  # Bit 0, set by reset: private caches fetch the next line ahead.
    PRIVATE_COUNTERS = 0x30
    """Counters of all private caches together, in the order of :class:`IcacheCounter`; then those of the shared."""
    SHARED_COUNTERS = 0x40


class IcacheCounter(IntEnum):
    """Counters of a level of the instruction caches, in words from its first."""

    HITS = 0
    TRANSACTIONS = 1  # Hits and misses.
    MISSES = 2
    CONGESTION = 3  # Cycles in which a request waits for its grant.


ICACHE_LINE_BYTES = 16


def hart_number(cluster: int, core: int) -> int:
    """mhartid of a core: the cluster from bit 5 up, the core in bits 3:0."""
    return cluster << 5 | core


MASTER_BITS = 5  # Width of the number of a master of the TCDM: cores from 0, then the DMA's four ports, then the host.

NO_MASTER = (1 << MASTER_BITS) - 1
"""Stands for the second half of a test&set, which no instruction asks for on its own."""


def bank_of_word(word: Any, word_bits: int, bank_bits: int) -> Any:
    """The bank of a word with ``ClusterConfig.bank_hash``: its number's groups of ``bank_bits``, exclusive-or.

    For plain numbers and for values of the hardware description. ``word`` has ``word_bits`` bits; the result counts
    in its low ``bank_bits`` bits.
    """
    bank = word
    for low in range(bank_bits, word_bits, bank_bits):
        bank = bank ^ word >> low
    return bank
