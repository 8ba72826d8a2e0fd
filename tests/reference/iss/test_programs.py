"""Programs: register rules, memory, compressed instructions, Mac&Load sequences."""

import pytest

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension
from xpulpnn_sim.reference.iss.core import DEFAULT_EXTENSIONS
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


def test_stores_of_their_own_base(machine):
    """The old base is stored; the increment of the second is another register."""
    iss = machine("p.sw x5, 8(x5!); p.sw x7, x6(x6!)")
    iss.state.regs[5:8] = [0x1000, 0x2000, 0x1234]
    iss.run(2)
    assert (iss.memory.read(0x1000, 4), iss.state.regs[5]) == (0x1000, 0x1008)
    assert (iss.memory.read(0x2000, 4), iss.state.regs[6]) == (0x1234, 0x4000)


def test_compressed_instructions_mix_with_long_ones(machine):
    iss = machine("c.li x10, -3; addi x10, x10, 1; c.jal pc+6; c.nop; c.nop; c.mv x11, x10")
    done = [iss.step() for _ in range(4)]
    assert [step.pc for step in done] == [0x80, 0x82, 0x86, 0x8C]
    assert (iss.state.regs[10], iss.state.regs[11], iss.state.regs[1]) == (0xFFFF_FFFE, 0xFFFF_FFFE, 0x88)
    assert (done[2].insn.mnemonic, done[3].insn.mnemonic) == ("jal", "add")


def test_mac_load_sees_the_reloaded_entry_next(machine):
    weight = "pv.mlsdotsup.b x10, (x12!), 16"
    iss = machine(f"pv.mlsdotsup.b x0, (x11!), 8; {weight}; {weight}; pv.mlsdotsup.b x10, (x13!), 0")
    iss.state.regs[10:14] = [100, 0x1000, 0x2002, 0x3000]
    for address, word in ((0x1000, 0x0101_01FF), (0x2002, 0x0000_00FF), (0x2006, 0x0101_0101)):
        iss.memory.write(address, 4, word)
    iss.step()
    assert (iss.state.nn, iss.state.regs[0], iss.state.regs[11]) == ([0x0101_01FF, 0, 0, 0, 0, 0], 0, 0x1004)
    iss.step()
    assert (iss.state.regs[10], iss.state.nn[2], iss.state.regs[12]) == (100, 0xFF, 0x2006)
    iss.step()
    assert (iss.state.regs[10], iss.state.nn[2], iss.state.regs[12]) == ((100 - 255) % 2**32, 0x0101_0101, 0x200A)
    iss.step()
    assert (iss.state.regs[10], iss.state.regs[13]) == (100 - 255 + 258, 0x3000)


def test_mac_load_result_beats_the_increment(machine):
    iss = machine("pv.cusdotusp.b.1 x10, (x10!), x10; pv.cusdotusp.b.1 x0, (x0!), x12")
    iss.state.regs[10], iss.state.nn[3] = 0x1000, 0x0000_0100
    iss.memory.write(0x1000, 4, 9)
    iss.memory.write(0, 4, 4)
    iss.step()
    assert (iss.state.regs[10], iss.state.nn[3]) == (0x1010, 9)
    iss.step()
    assert (iss.state.regs[0], iss.state.nn[3]) == (0, 4)


def test_threshold_quantisation_reads_memory(machine):
    iss = machine("pv.qnt.c x10, x11, (x12)", extensions=DEFAULT_EXTENSIONS | {Extension.XPULPQNT})
    iss.state.regs[11:13] = [0x0000_FFFF, 0x1002]
    for index, threshold in enumerate((-4, -3, -2, 0, 1, 2, 3)):
        iss.memory.write(0x1000 + 2 * index, 2, threshold)
    iss.step()
    # pixel 0 = -1 is above -4, -3, -2: code 1; pixel 1 = 0 is above none of 1, 2, 3: code -2
    assert iss.state.regs[10] == 0b1001


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
