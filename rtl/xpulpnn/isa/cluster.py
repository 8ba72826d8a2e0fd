"""Addresses, registers and event lines of the cluster as software sees them (guide, "The cluster").

Plain numbers and enumerations, for hardware, simulators, software and golden models. Register numbers are byte offsets
within their block.
"""

from enum import IntEnum, IntFlag
from typing import Any

from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE

MAX_CORES = 16

TCDM_BASE = DATA_BASE
TCDM_ALIAS = 0x0000_0000  # second address of the TCDM
TEST_SET_BIT = 20  # address bit that turns a load from the TCDM into a test-and-set

L2_BASE = TEXT_BASE
SOC_PERIPHERALS = 0x1A10_0000

CONTROL = 0x1020_0000
TIMER = 0x1020_0400
EVENT_UNIT = 0x1020_0800  # shared view: a block per core, the barriers, the triggers of software events

ICACHE_CONTROL = 0x1020_1400
DMA = 0x1020_1800  # command port shared by all cores
PRIVATE_EVENT_UNIT = 0x1020_4000  # each core accesses its own registers here
PRIVATE_DMA = 0x1020_4400  # command port of the accessing core
CLINT = 0x1021_0000  # core-local interruptor, in clusters that have one
BLOCK_BYTES = 0x400  # size of each block of peripheral registers
EVENT_UNIT_BYTES = 2 * BLOCK_BYTES  # size of the shared view of the event unit


class Control(IntEnum):
    """Registers of the cluster control unit."""

    EOC = 0x00  # bit 0: end of computation, the output eoc
    FETCH_ENABLE = 0x08  # a bit for each core: it may start
    CONFIG = 0x18  # reads 0
    CLOCK_GATE = 0x20  # bit 0, 1 after reset: core_clock_en may be low; while it is 0 all clocks are needed
    DEBUG_STATUS = 0x28  # reads 0, as no core can be halted here
    BOOT_ADDRESS = 0x40  # first instruction of core 0, of core i at offset 4 i; reads as boot_addr until it is written
    RETURN = 0x100  # result, the output return_value; bit 31 marks it as valid


RETURN_DONE_BIT = 31  # bit of ``Control.RETURN`` that marks the other bits as the program's result


class Timer(IntEnum):
    """Registers of the two 32-bit timers, which can be joined to one of 64 bits."""

    CONFIG_LOW = 0x00  # settings of the low timer, see TimerConfig
    CONFIG_HIGH = 0x04  # settings of the high timer
    COUNT_LOW = 0x08  # count of the low timer, or lower half of the 64-bit count
    COUNT_HIGH = 0x0C  # count of the high timer, or upper half of the 64-bit count
    COMPARE_LOW = 0x10  # comparison value of the low timer, or lower half
    COMPARE_HIGH = 0x14  # comparison value of the high timer, or upper half
    START_LOW = 0x18  # any write enables the low timer
    START_HIGH = 0x1C  # any write enables the high timer
    RESET_LOW = 0x20  # any write clears the count of the low timer
    RESET_HIGH = 0x24  # any write clears the count of the high timer


class TimerConfig(IntFlag):
    """Bits of ``Timer.CONFIG_LOW`` and ``CONFIG_HIGH``; bits 15:8 hold the period of the prescaler less one."""

    ENABLE = 1 << 0  # the timer counts
    RESET = 1 << 1  # writing 1 clears the count
    EVENT = 1 << 2  # the end of a period is an event
    CLEAR = 1 << 4  # the count restarts at 0 after it reaches the comparison value
    ONE_SHOT = 1 << 5  # the timer stops at the end of a period
    PRESCALER = 1 << 6  # the timer counts every (bits 15:8 + 1)-th cycle
    CASCADE = 1 << 31  # low timer only: both timers form one of 64 bits


TIMER_PRESCALE_LSB = 8
TIMER_PRESCALE_BITS = 8


class EventLine(IntEnum):
    """Event lines of a core; lines below ``DMA`` are software events."""

    DMA = 8  # end of a DMA transfer
    DMA_INTERRUPT = 9  # end of a DMA transfer, to interrupt the core
    TIMER_LOW = 10  # low timer
    TIMER_HIGH = 11  # high timer
    ACCELERATOR = 12  # accelerators; never set
    BARRIER = 16  # a barrier
    MUTEX = 17  # a mutex
    DISPATCH = 18  # a word in the dispatch queue
    CLUSTER = 22  # the input events of the cluster


class EventRegister(IntEnum):
    """Registers of a core's event unit, in its private view."""

    MASK = 0x00  # events that p.elw waits for
    MASK_AND = 0x04  # a write clears the mask bits that are written as 1
    MASK_OR = 0x08  # a write sets the mask bits that are written as 1
    IRQ_MASK = 0x0C  # events that interrupt the core
    IRQ_MASK_AND = 0x10  # a write clears the interrupt mask bits that are written as 1
    IRQ_MASK_OR = 0x14  # a write sets the interrupt mask bits that are written as 1
    STATUS = 0x18  # bit 0: the clock is needed
    BUFFER = 0x1C  # events that have occurred
    BUFFER_MASKED = 0x20  # events that have occurred and are in the mask
    BUFFER_IRQ_MASKED = 0x24  # events that have occurred and are in the interrupt mask
    BUFFER_CLEAR = 0x28  # a write clears the events that are written as 1
    SW_EVENTS_MASK = 0x2C  # cores that receive software events triggered by reads
    SW_EVENTS_MASK_AND = 0x30  # a write clears the cores that are written as 1
    SW_EVENTS_MASK_OR = 0x34  # a write adds the cores that are written as 1
    WAIT = 0x38  # p.elw: waits for an event in the mask, and returns the events
    WAIT_CLEAR = 0x3C  # p.elw: waits like WAIT, and clears the events that it returns
    DISPATCH_FIFO = 0x80  # a write pushes a word; p.elw waits for the next word for the core
    DISPATCH_TEAM = 0x84  # cores that receive the words pushed from now on
    MUTEX = 0xC0  # mutex m at offset 4 m: p.elw locks and returns the last message, a write unlocks with a message
    SW_TRIGGER = 0x100  # software event e at offset 4 e: a write sends it to the cores written, 0 for all
    SW_TRIGGER_WAIT = 0x140  # a read sends the software event and waits
    SW_TRIGGER_WAIT_CLEAR = 0x180  # a read sends the software event, waits, and clears the event
    BARRIER = 0x200  # barrier b at offset 32 b, see Barrier


class Barrier(IntEnum):
    TRIGGER_MASK = 0x00  # cores that must arrive; 0 disables the barrier
    STATUS = 0x04  # cores that have arrived
    SUMMARY = 0x08  # cores that have arrived at any incomplete barrier
    TARGET_MASK = 0x0C  # cores that receive the event
    TRIGGER = 0x10  # a write marks the cores written as arrived
    TRIGGER_SELF = 0x14  # a read marks the reading core as arrived
    TRIGGER_WAIT = 0x18  # p.elw marks the core as arrived and waits
    TRIGGER_WAIT_CLEAR = 0x1C  # p.elw marks the core as arrived, waits, and clears the event


BARRIER_BYTES = 0x20
SHARED_CORE_BYTES = 0x40
"""Distance between the cores' blocks in the shared view, each with the registers up to ``WAIT_CLEAR``."""

SHARED_BARRIERS = 0x400
SHARED_SW_TRIGGERS = 0x600  # offsets of the barriers and of the triggers in the shared view


class Dma(IntEnum):
    """Registers of a DMA command port, as in MCHAN version 7."""

    COMMAND = 0x00
    STATUS = 0x04


class DmaCommand(IntFlag):
    """Bits of the first word of a transfer; the lower bits are its length in bytes."""

    FROM_EXTERNAL = 1 << 17
    INCREMENT = 1 << 18
    EXTERNAL_2D = 1 << 19
    EVENT = 1 << 20
    INTERRUPT = 1 << 21
    BROADCAST = 1 << 22
    TCDM_2D = 1 << 23


DMA_LENGTH_BITS = 17


class Icache(IntEnum):
    """Registers of the instruction cache control."""

    ENABLE = 0x00  # bit 0, set by reset: the caches keep lines; clearing it empties them
    FLUSH = 0x04  # any write empties all caches
    FLUSH_PRIVATE = 0x08  # any write empties the private caches
    FLUSH_ADDRESS = 0x0C  # a write of an address empties the set of its line in all caches
    CLEAR_COUNTERS = 0x10  # any write
    COUNT = 0x14  # bit 0: the counters count
    PREFETCH = 0x18  # bit 0, set by reset: private caches fetch the next line ahead
    PRIVATE_COUNTERS = 0x30
    """Sums of the counters of all private caches, in the order of :class:`IcacheCounter`."""
    SHARED_COUNTERS = 0x40


class IcacheCounter(IntEnum):
    """Counters of one level of the instruction caches, as word offsets."""

    HITS = 0
    TRANSACTIONS = 1  # hits and misses
    MISSES = 2
    CONGESTION = 3  # cycles in which a request waits for its grant


ICACHE_LINE_BYTES = 16


def hart_number(cluster: int, core: int) -> int:
    """Return the mhartid of a core: the cluster from bit 5 up, the core in bits 3:0."""
    return cluster << 5 | core


MASTER_BITS = 5  # width of a TCDM master's number: the cores from 0, then the four ports of the DMA, then the host

NO_MASTER = (1 << MASTER_BITS) - 1
"""Master number reported for the second half of a test-and-set, which is not a request of a master."""


def bank_of_word(word: Any, word_bits: int, bank_bits: int) -> Any:
    """Return the bank of a word number with ``ClusterConfig.bank_hash``: the XOR of its groups of ``bank_bits`` bits.

    ``word``, an integer or an Amaranth value, has ``word_bits`` bits; only the low ``bank_bits`` bits of the result are
    valid.
    """
    bank = word
    for low in range(bank_bits, word_bits, bank_bits):
        bank = bank ^ word >> low
    return bank
