"""Programs: register rules, memory, compressed instructions, Mac&Load sequences."""

import numpy as np
import pytest

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension
from xpulpnn_sim.iss.core import DEFAULT_EXTENSIONS, Iss
from xpulpnn_sim.iss.memory import AccessError, Memory

pytestmark = pytest.mark.unit

POST, POST_REGISTER, STORE_POST, STORE_POST_REGISTER = (
    "rd,imm12(rs1!)",
    "rd,rs2(rs1!)",
    "rs2,stimm12(rs1!)",
    "rs2,rs3(rs1!)",
)


def steps(iss, count):
    return [iss.step() for _ in range(count)]


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


def test_x0_stays_zero(machine, asm):
    iss = machine(asm("addi", rd=0, rs1=0, imm12=5), asm("p.lw", POST, rd=5, rs1=0, imm12=4))
    iss.memory.write(0, 4, 77)
    steps(iss, 2)
    assert (iss.state.regs[0], iss.state.regs[5], iss.state.pc) == (0, 77, 0x88)


def test_loaded_data_beats_the_increment(machine, asm):
    iss = machine(asm("p.lw", POST, rd=5, rs1=5, imm12=4))
    iss.state.regs[5] = 0x1001
    iss.memory.write(0x1001, 4, 0xCAFE_F00D)
    iss.step()
    assert iss.state.regs[5] == 0xCAFE_F00D


def test_stores_of_their_own_base(machine, asm):
    iss = machine(
        asm("p.sw", STORE_POST, rs1=5, rs2=5, stimm12=8), asm("p.sw", STORE_POST_REGISTER, rs1=6, rs2=7, rs3=6)
    )
    iss.state.regs[5:8] = [0x1000, 0x2000, 0x1234]
    steps(iss, 2)
    assert (iss.memory.read(0x1000, 4), iss.state.regs[5]) == (0x1000, 0x1008)
    assert (iss.memory.read(0x2000, 4), iss.state.regs[6]) == (0x1234, 0x4000)


def test_compressed_instructions_mix_with_long_ones(machine, asm):
    iss = machine()
    # c.li x10, -3 ; addi x10, x10, 1 (at 2 mod 4) ; c.jal +6 ; (skipped) ; c.mv x11, x10
    iss.memory.write(0x80, 2, 0x5575)
    iss.memory.write(0x82, 4, asm("addi", rd=10, rs1=10, imm12=1))
    iss.memory.write(0x86, 2, 0x2019)
    iss.memory.write(0x8C, 2, 0x85AA)
    done = steps(iss, 4)
    assert [step.pc for step in done] == [0x80, 0x82, 0x86, 0x8C]
    assert (iss.state.regs[10], iss.state.regs[11], iss.state.regs[1]) == (0xFFFF_FFFE, 0xFFFF_FFFE, 0x88)
    assert (done[2].insn.mnemonic, done[3].insn.mnemonic) == ("jal", "add")


def test_call_and_return(machine, asm):
    iss = machine(asm("jal", rd=1, joff21=8), asm("addi", rd=5, rs1=0, imm12=1), asm("jalr", rd=0, rs1=1, imm12=0))
    assert iss.run(10, until=0x88) == 1
    iss.step()
    assert iss.state.pc == 0x84


def test_run_counts_its_steps(machine, asm):
    iss = machine(asm("jal", rd=0, joff21=0))
    assert (iss.run(7), iss.run(7, until=0x80)) == (7, 0)


def test_mac_load_sees_the_reloaded_entry_next(machine, asm):
    fill = asm("pv.mlsdotsup.b", rd=0, rs1=11, nnimm5=8)
    weight = asm("pv.mlsdotsup.b", rd=10, rs1=12, nnimm5=16)
    product = asm("pv.mlsdotsup.b", rd=10, rs1=13, nnimm5=0)
    iss = machine(fill, weight, weight, product)
    iss.state.regs[10:14] = [100, 0x1000, 0x2002, 0x3000]
    iss.memory.write(0x1000, 4, 0x0101_01FF)
    iss.memory.write(0x2002, 4, 0x0000_00FF)
    iss.memory.write(0x2006, 4, 0x0101_0101)
    iss.step()
    assert (iss.state.nn, iss.state.regs[0], iss.state.regs[11]) == ([0x0101_01FF, 0, 0, 0, 0, 0], 0, 0x1004)
    iss.step()
    assert (iss.state.regs[10], iss.state.nn[2], iss.state.regs[12]) == (100, 0xFF, 0x2006)
    iss.step()
    assert (iss.state.regs[10], iss.state.nn[2], iss.state.regs[12]) == ((100 - 255) % 2**32, 0x0101_0101, 0x200A)
    iss.step()
    assert (iss.state.regs[10], iss.state.regs[13]) == (100 - 255 + 258, 0x3000)


def test_mac_load_result_beats_the_increment(machine, asm):
    iss = machine(asm("pv.cusdotusp.b.1", rd=10, rs1=10, rs2=10), asm("pv.cusdotusp.b.1", rd=0, rs1=0, rs2=12))
    iss.state.regs[10] = 0x1000
    iss.state.nn[3] = 0x0000_0100
    iss.memory.write(0x1000, 4, 9)
    iss.memory.write(0, 4, 4)
    iss.step()
    assert (iss.state.regs[10], iss.state.nn[3]) == (0x1010, 9)
    iss.step()
    assert (iss.state.regs[0], iss.state.nn[3]) == (0, 4)


@pytest.mark.parametrize(("form", "letter", "width"), [("ml", "b", 8), ("ml", "n", 4), ("cu", "c", 2), ("cu", "h", 16)])
def test_mac_load_loop_computes_a_row(machine, asm, form, letter, width):
    """A hardware loop over one weight row and one activation row, against a sum over the elements."""
    words = 6
    generator = np.random.default_rng(4)
    rows = generator.integers(0, 2**32, (2, words), dtype=np.uint32)
    if form == "ml":
        setup = [asm(f"pv.mlsdotsup.{letter}", rd=0, rs1=11, nnimm5=16)]
        body = [
            asm(f"pv.mlsdotsup.{letter}", rd=0, rs1=12, nnimm5=8),
            asm(f"pv.mlsdotsup.{letter}", rd=10, rs1=11, nnimm5=16),
        ]
    else:
        setup = [asm(f"pv.cusdotusp.{letter}.0", rd=0, rs1=11, rs2=0)]
        body = [asm("p.lw", POST, rd=13, rs1=12, imm12=4), asm(f"pv.cusdotusp.{letter}.0", rd=10, rs1=11, rs2=13)]
    iss = machine(*setup, asm("lp.setupi", L=0, lpcnt12=words, lpoff5=8), *body)
    iss.state.regs[11:13] = [0x1000, 0x2000]
    for address, row in zip((0x1000, 0x2000), rows, strict=True):
        iss.load(address, row.tolist())
    iss.run(100, until=0x80 + 4 * 4)
    total = 0
    for weight, activation in zip(*rows.tolist(), strict=True):
        for lsb in range(0, 32, width):
            factor = (weight >> lsb) % 2**width
            total += (factor - (factor >> (width - 1) << width)) * ((activation >> lsb) % 2**width)
    assert iss.state.regs[10] == total % 2**32
    assert iss.state.regs[11:13] == [0x1000 + 4 * (words + 1), 0x2000 + 4 * words]


def test_threshold_quantisation_reads_memory(machine, asm):
    iss = machine(asm("pv.qnt.c", rd=10, rs1=11, rs2=12), extensions=DEFAULT_EXTENSIONS | {Extension.XPULPQNT})
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
    iss = machine(word, **settings)
    assert (iss.step().cause, iss.csrs["mepc"], iss.state.pc) == (2, 0x80, 0)


def test_harts_can_share_a_memory():
    memory = Memory()
    first, second = Iss(memory=memory), Iss(0x100, memory=memory, hart_id=1)
    first.load(0x100, [0xF140_2573])
    second.step()
    assert second.state.regs[10] == 1
