"""Map of the memory of the testbenches."""

from collections.abc import Mapping

from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES

MEMORY_BASE = TEXT_BASE
MEMORY_WORDS = 1 << 15
OPERANDS_AT, SCRATCH_AT, RESULTS_AT, EXPECTED_AT = 0x1_0000, 0x1_0800, 0x1_1000, 0x1_8000
"""Places in memory, in bytes from its start; the code comes first."""

NOWHERE = 0x4000_0000  # an address outside the memory and the device

DEVICE_BASE = 0x8000_0000  # registers of the testbench: end of the program, interrupt lines now, interrupt lines later


def places() -> Mapping[str, int]:
    """Addresses that programs know by name."""
    return {
        "memory": MEMORY_BASE,
        "operands": MEMORY_BASE + OPERANDS_AT,
        "scratch": MEMORY_BASE + SCRATCH_AT,
        "results": MEMORY_BASE + RESULTS_AT,
        "expected": MEMORY_BASE + EXPECTED_AT,
        "stack": MEMORY_BASE + MEMORY_WORDS * WORD_BYTES,
        "nowhere": NOWHERE,
        "device": DEVICE_BASE,
        "lines": DEVICE_BASE + WORD_BYTES,
        "lines_later": DEVICE_BASE + 2 * WORD_BYTES,
    }
