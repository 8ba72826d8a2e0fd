"""The cluster as software sees it: addresses, registers, event lines (guide, "The cluster").

Plain numbers and enumerations, for gates, simulators, software and golden models alike. Register numbers are byte
offsets within their block.
"""

from enum import IntEnum, IntFlag
from typing import Any

from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE

MAX_CORES = 16

TCDM_BASE = DATA_BASE
TCDM_ALIAS = 0x0000_0000
"""The TCDM answers here too."""

TEST_SET_BIT = 20
"""Address bit that makes a load of the TCDM a test&set."""

L2_BASE = TEXT_BASE
SOC_PERIPHERALS = 0x1A10_0000

CONTROL = 0x1020_0000
TIMER = 0x1020_0400
EVENT_UNIT = 0x1020_0800
"""Shared view: a block per core, the barriers, the triggers of software events."""

ICACHE_CONTROL = 0x1020_1400
DMA = 0x1020_1800
"""Shared command port."""

PRIVATE_EVENT_UNIT = 0x1020_4000
"""What a core reads and writes here is its own."""

PRIVATE_DMA = 0x1020_4400
"""Command port of the core itself."""

BLOCK_BYTES = 0x400
"""Size of each block of peripheral registers."""

EVENT_UNIT_BYTES = 2 * BLOCK_BYTES
"""Size of the shared view of the event unit."""


class Control(IntEnum):
    """Cluster control: end of computation, start of cores, result."""

    EOC = 0x00
    FETCH_ENABLE = 0x08
    CONFIG = 0x18
    CLOCK_GATE = 0x20
    DEBUG_STATUS = 0x28
    BOOT_ADDRESS = 0x40
    """Of core i, 4 i further."""
    RETURN = 0x100


RETURN_DONE_BIT = 31
"""Bit of ``Control.RETURN`` that says the other bits are the program's result."""


class Timer(IntEnum):
    """Two 32-bit timers, or one of 64 bits."""

    CONFIG_LOW = 0x00
    CONFIG_HIGH = 0x04
    COUNT_LOW = 0x08
    COUNT_HIGH = 0x0C
    COMPARE_LOW = 0x10
    COMPARE_HIGH = 0x14
    START_LOW = 0x18
    START_HIGH = 0x1C
    RESET_LOW = 0x20
    RESET_HIGH = 0x24


class TimerConfig(IntFlag):
    """Bits of ``Timer.CONFIG_LOW`` and ``CONFIG_HIGH``; the prescaler's period less one is in bits 15:8."""

    ENABLE = 1 << 0
    RESET = 1 << 1
    """Written as 1 clears the count; reads as 0."""
    EVENT = 1 << 2
    """Reaching the comparison is an event."""
    CLEAR = 1 << 4
    """The count begins again behind the comparison."""
    ONE_SHOT = 1 << 5
    """The timer stops at the comparison."""
    PRESCALER = 1 << 6
    CASCADE = 1 << 31
    """Of ``CONFIG_LOW``: both are one timer of 64 bits, whose other bits of configuration are those of the low one."""


TIMER_PRESCALE_LSB = 8
TIMER_PRESCALE_BITS = 8


class EventLine(IntEnum):
    """Event lines of a core; software events are the lines below ``DMA``."""

    DMA = 8
    DMA_INTERRUPT = 9
    TIMER_LOW = 10
    TIMER_HIGH = 11
    ACCELERATOR = 12
    """The first of four."""
    BARRIER = 16
    MUTEX = 17
    DISPATCH = 18
    CLUSTER = 22
    """The first of two."""


class EventRegister(IntEnum):
    """Registers of a core's event unit, in its private view."""

    MASK = 0x00
    MASK_AND = 0x04
    """Clears the bits written; likewise ``IRQ_MASK_AND``."""
    MASK_OR = 0x08
    IRQ_MASK = 0x0C
    IRQ_MASK_AND = 0x10
    IRQ_MASK_OR = 0x14
    STATUS = 0x18
    BUFFER = 0x1C
    BUFFER_MASKED = 0x20
    BUFFER_IRQ_MASKED = 0x24
    BUFFER_CLEAR = 0x28
    SW_EVENTS_MASK = 0x2C
    SW_EVENTS_MASK_AND = 0x30
    SW_EVENTS_MASK_OR = 0x34
    WAIT = 0x38
    WAIT_CLEAR = 0x3C
    DISPATCH_FIFO = 0x80
    DISPATCH_TEAM = 0x84
    MUTEX = 0xC0
    """Of mutex m, 4 m further; so too the triggers of software events."""
    SW_TRIGGER = 0x100
    SW_TRIGGER_WAIT = 0x140
    SW_TRIGGER_WAIT_CLEAR = 0x180
    BARRIER = 0x200
    """Of barrier b, ``BARRIER_BYTES`` b further: its registers are :class:`Barrier`."""


class Barrier(IntEnum):
    """Registers of a barrier."""

    TRIGGER_MASK = 0x00
    STATUS = 0x04
    SUMMARY = 0x08
    TARGET_MASK = 0x0C
    TRIGGER = 0x10
    TRIGGER_SELF = 0x14
    TRIGGER_WAIT = 0x18
    TRIGGER_WAIT_CLEAR = 0x1C


BARRIER_BYTES = 0x20
SHARED_CORE_BYTES = 0x40
"""Distance of the cores' blocks in the shared view; each has the registers up to ``WAIT_CLEAR``."""

SHARED_BARRIERS = 0x400
SHARED_SW_TRIGGERS = 0x600
"""Offsets in the shared view."""


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

    ENABLE = 0x00
    """Bit 0, set by reset: the caches keep lines. Clearing it empties them."""
    FLUSH = 0x04
    """Written with any value empties all caches; likewise the others, except that ``FLUSH_ADDRESS`` takes the address
    of a line."""
    FLUSH_PRIVATE = 0x08
    FLUSH_ADDRESS = 0x0C
    CLEAR_COUNTERS = 0x10
    COUNT = 0x14
    """Bit 0: the counters count."""
    PREFETCH = 0x18
    """Bit 0, set by reset: private caches fetch the next line ahead."""
    PRIVATE_COUNTERS = 0x30
    """Counters of all private caches together, in the order of :class:`IcacheCounter`; then those of the shared."""
    SHARED_COUNTERS = 0x40


class IcacheCounter(IntEnum):
    """Counters of a level of the instruction caches, in words from its first."""

    HITS = 0
    TRANSACTIONS = 1
    """Hits and misses."""
    MISSES = 2
    CONGESTION = 3
    """Cycles in which a request waits for its grant."""


ICACHE_LINE_BYTES = 16


def hart_number(cluster: int, core: int) -> int:
    """mhartid of a core: the cluster from bit 5 up, the core in bits 3:0."""
    return cluster << 5 | core


MASTER_BITS = 5
"""Width of the number of a master of the TCDM: cores from 0, then the DMA's four ports, then the host."""

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
