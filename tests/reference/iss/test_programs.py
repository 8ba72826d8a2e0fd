"""Programs: register rules, memory, compressed instructions, Mac&Load sequences."""

import pytest

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension
from xpulpnn_sim.reference.iss.memory import AccessError, Memory

pytestmark = pytest.mark.unit


def test_memory_is_sparse_little_endian_and_wraps():
    memory = Memory()
    memory.write(0xFFF, 4, 0x4433_2211)
    assert memory.read_bytes(0xFFE, 6) == bytes([0, 0x11, 0x22, 0x33, 0x44, 0])
    assert memory.read(0x1000, 2) == 0x3322
    memory.write(0xFFFF_FFFF, 2, 0xABCD)
    assert (memory.read(0, 1), memory.read(0xFFFF_FFFF, 2)) == (0xAB, 0xABCD)
    assert memory.read(0x8000_0000, 4) == 0


def test_memory_across_pages_that_exist():
    memory = Memory()
    for page in (0x1000, 0x2000):
        memory.write(page, 1, 0)
    memory.write(0x1FFE, 4, 0x4433_2211)
    memory.write(0x2FFF, 2, 0x6655)
    assert memory.read_bytes(0x1FFD, 6) == bytes([0, 0x11, 0x22, 0x33, 0x44, 0])
    assert memory.read_bytes(0x2FFE, 4) == bytes([0, 0x55, 0x66, 0])
    assert memory.read(0x1FFF, 2) == 0x3322


def test_memory_with_windows():
    """Only what lies in one window is accessible, to the byte; the rest reads as zeros for the host."""
    memory = Memory([(0x1004, 0x1FFA), (0xFFFF_FFFE, 2), (0, 4)])
    memory.write(0x1004, 1, 1)
    memory.write(0x2FFD, 1, 2)
    memory.write(0xFFFF_FFFE, 4, 0x8765_4321)
    assert (memory.read(0x1004, 2), memory.read(0x2FFC, 2), memory.read(0xFFFF_FFFF, 2)) == (1, 0x200, 0x6543)
    for address, size in ((0x1003, 2), (0x1003, 1), (0x2FFE, 1), (0x2FFC, 4), (0x5000, 4), (0xFFFF_FFFD, 1), (3, 2)):
        for kind in ("load", "store"):
            with pytest.raises(AccessError) as caught:
                memory.read(address, size) if kind == "load" else memory.write(address, size, 0)
            assert (caught.value.kind, caught.value.address, caught.value.size) == (kind, address, size)
    assert memory.read_bytes(0x1000, 6) == bytes([0, 0, 0, 0, 1, 0])


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        (0xA8C5_9557, {"extensions": BASE_EXTENSIONS}),
        (0xA8C5_A557, {"extensions": BASE_EXTENSIONS | {Extension.XPULPV2}}),
        (0xA8C5_9557, {"widths": frozenset({4, 2})}),
        (0xE0C5_A557, {}),
        (0x0000_0000, {}),
        (0x0000_8002, {}),
    ],
)
def test_absent_instructions_trap(machine, word, settings):
    iss = machine(f".word {word}", **settings)
    assert (iss.step().cause, iss.csrs["mepc"], iss.state.pc) == (2, 0x80, 0)
