"""The map of the cluster, typed from its specification: gates, models, simulator and C headers share these numbers."""

import re
from enum import EnumType

from xpulpnn.isa import cluster
from xpulpnn_sw.toolchain.headers.generate import cluster_map

PLACES = {
    "TCDM": 0x1000_0000,
    "L2": 0x1C00_0000,
    "SOC_PERIPHERALS": 0x1A10_0000,
    "CONTROL": 0x1020_0000,
    "TIMER": 0x1020_0400,
    "SHARED_EVENT_UNIT": 0x1020_0800,
    "EVENT_UNIT": 0x1020_4000,
    "ICACHE": 0x1020_1400,
    "SHARED_DMA": 0x1020_1800,
    "DMA": 0x1020_4400,
    "CLINT": 0x1021_0000,
}
"""By the names in C; the blocks without SHARED are the core's own."""

NUMBERS = {
    "MAX_CORES": 16,
    "TCDM_BASE": PLACES["TCDM"],
    "TCDM_ALIAS": 0,
    "TEST_SET_BIT": 20,
    "L2_BASE": PLACES["L2"],
    "SOC_PERIPHERALS": PLACES["SOC_PERIPHERALS"],
    "CONTROL": PLACES["CONTROL"],
    "TIMER": PLACES["TIMER"],
    "EVENT_UNIT": PLACES["SHARED_EVENT_UNIT"],
    "ICACHE_CONTROL": PLACES["ICACHE"],
    "DMA": PLACES["SHARED_DMA"],
    "PRIVATE_EVENT_UNIT": PLACES["EVENT_UNIT"],
    "PRIVATE_DMA": PLACES["DMA"],
    "CLINT": PLACES["CLINT"],
    "BLOCK_BYTES": 0x400,
    "EVENT_UNIT_BYTES": 0x800,
    "RETURN_DONE_BIT": 31,
    "TIMER_PRESCALE_LSB": 8,
    "TIMER_PRESCALE_BITS": 8,
    "BARRIER_BYTES": 0x20,
    "SHARED_CORE_BYTES": 0x40,
    "SHARED_BARRIERS": 0x400,
    "SHARED_SW_TRIGGERS": 0x600,
    "DMA_LENGTH_BITS": 17,
    "ICACHE_LINE_BYTES": 16,
    "MASTER_BITS": 5,
    "NO_MASTER": 31,
}

TABLES = {
    "Control": """
        EOC 00  FETCH_ENABLE 08  CONFIG 18  CLOCK_GATE 20  DEBUG_STATUS 28  BOOT_ADDRESS 40  RETURN 100""",
    "Timer": """
        CONFIG_LOW 00  CONFIG_HIGH 04  COUNT_LOW 08  COUNT_HIGH 0C  COMPARE_LOW 10  COMPARE_HIGH 14
        START_LOW 18  START_HIGH 1C  RESET_LOW 20  RESET_HIGH 24""",
    "TimerConfig": """
        ENABLE 1  RESET 2  EVENT 4  CLEAR 10  ONE_SHOT 20  PRESCALER 40  CASCADE 80000000""",
    # 8, 9, 10, 11, 12, 16, 17, 18, 22
    "EventLine": """
        DMA 8  DMA_INTERRUPT 9  TIMER_LOW A  TIMER_HIGH B  ACCELERATOR C  BARRIER 10  MUTEX 11  DISPATCH 12
        CLUSTER 16""",
    "EventRegister": """
        MASK 00  MASK_AND 04  MASK_OR 08  IRQ_MASK 0C  IRQ_MASK_AND 10  IRQ_MASK_OR 14  STATUS 18
        BUFFER 1C  BUFFER_MASKED 20  BUFFER_IRQ_MASKED 24  BUFFER_CLEAR 28
        SW_EVENTS_MASK 2C  SW_EVENTS_MASK_AND 30  SW_EVENTS_MASK_OR 34  WAIT 38  WAIT_CLEAR 3C
        DISPATCH_FIFO 80  DISPATCH_TEAM 84  MUTEX C0
        SW_TRIGGER 100  SW_TRIGGER_WAIT 140  SW_TRIGGER_WAIT_CLEAR 180  BARRIER 200""",
    "Barrier": """
        TRIGGER_MASK 00  STATUS 04  SUMMARY 08  TARGET_MASK 0C  TRIGGER 10  TRIGGER_SELF 14  TRIGGER_WAIT 18
        TRIGGER_WAIT_CLEAR 1C""",
    "Dma": "COMMAND 0  STATUS 4",
    "DmaCommand": """
        FROM_EXTERNAL 020000  INCREMENT 040000  EXTERNAL_2D 080000  EVENT 100000  INTERRUPT 200000
        BROADCAST 400000  TCDM_2D 800000""",
    "Icache": """
        ENABLE 00  FLUSH 04  FLUSH_PRIVATE 08  FLUSH_ADDRESS 0C  CLEAR_COUNTERS 10  COUNT 14  PREFETCH 18
        PRIVATE_COUNTERS 30  SHARED_COUNTERS 40""",
    "IcacheCounter": "HITS 0  TRANSACTIONS 1  MISSES 2  CONGESTION 3",
}
"""Registers, bits and lines in hexadecimal."""

ENUMERATIONS = {
    name: dict(zip(words[::2], (int(word, 16) for word in words[1::2]), strict=True))
    for name, words in ((name, text.split()) for name, text in TABLES.items())
}


def test_every_number():
    public = {name: value for name, value in vars(cluster).items() if not name.startswith("_")}
    assert {name: value for name, value in public.items() if type(value) is int and name in NUMBERS} == NUMBERS
    # both names stand in machine.py, where the map takes them from
    assert {name for name, value in public.items() if type(value) is int} - NUMBERS.keys() == {"DATA_BASE", "TEXT_BASE"}


def test_every_register_field_and_line():
    enumerations = {
        name: {member: int(value) for member, value in members.__members__.items()}
        for name, members in vars(cluster).items()
        if isinstance(members, EnumType) and members.__module__ == cluster.__name__
    }
    assert enumerations == ENUMERATIONS


def test_harts_and_banks():
    assert [cluster.hart_number(*place) for place in ((0, 0), (0, 15), (1, 0), (63, 15))] == [0, 0xF, 0x20, 0x7EF]
    # 13 bits in groups of 4: 1, 0110, 1011, 0010
    assert cluster.bank_of_word(0b1_0110_1011_0010, 13, 4) & 0xF == 0b1110


C_PREFIXES = {
    "Control": "CONTROL_",
    "Timer": "TIMER_",
    "TimerConfig": "TIMER_",
    "EventLine": "EU_LINE_",
    "EventRegister": "EU_",
    "Barrier": "EU_BARRIER_",
    "Dma": "DMA_",
    "DmaCommand": "DMA_",
    "Icache": "ICACHE_",
}


def test_every_number_of_the_c_header():
    expected = PLACES | {
        prefix + name: value for table, prefix in C_PREFIXES.items() for name, value in ENUMERATIONS[table].items()
    }
    expected |= {
        "TEST_SET_BIT": 20,
        "TIMER_PRESCALE_LSB": 8,
        "CONTROL_RETURN_DONE": 1 << 31,
        "EU_BARRIER_BYTES": 0x20,
        "EU_SHARED_CORE_BYTES": 0x40,
        "EU_SHARED_BARRIERS": 0x400,
        "EU_SHARED_SW_TRIGGERS": 0x600,
    }
    definitions = re.findall(r"^#define XP_(\w+) 0x([0-9A-F]+)u?$", cluster_map(), re.MULTILINE)
    assert {name: int(value, 16) for name, value in definitions} == expected
    assert len(definitions) == len(expected)
