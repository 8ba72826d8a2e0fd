"""CSRs, traps, interrupts and wfi (guide, "Machine state")."""

import pytest

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension

pytestmark = pytest.mark.unit

MSTATUS, MISA, MIE, MTVEC, MSCRATCH, MEPC, MCAUSE, MIP = 0x300, 0x301, 0x304, 0x305, 0x340, 0x341, 0x342, 0x344
LPEND0, MCYCLE, MINSTRET, MINSTRETH, INSTRET, MHARTID, PCER = 0x7C1, 0xB00, 0xB02, 0xB82, 0xC02, 0xF14, 0xCC0
COUNT_INHIBIT = 0x320


@pytest.fixture
def nop(asm):
    return asm("addi", rd=0, rs1=0, imm12=0)


@pytest.fixture
def write_and_read(machine, asm):
    """Value of a CSR after writing all ones, as software sees it."""

    def run(address, **settings):
        iss = machine(asm("csrrw", rd=5, csr=address, rs1=6), asm("csrrs", rd=7, csr=address, rs1=0), **settings)
        iss.state.regs[6] = 0xFFFF_FFFF
        causes = [iss.step().cause for _ in range(2)]
        return causes[0] or (iss.state.regs[5], iss.state.regs[7])

    return run


@pytest.mark.parametrize(
    ("address", "reset", "after"),
    [
        (MSTATUS, 0x1800, 0x1888),
        (MISA, 0x4080_1104, 0x4080_1104),
        (MIE, 0, 0xFFFF_0888),
        (MTVEC, 0x0100_0001, 0xFFFF_FF01),
        (COUNT_INHIBIT, 0, 5),
        (MSCRATCH, 0, 0xFFFF_FFFF),
        (MEPC, 0, 0xFFFF_FFFE),
        (MCAUSE, 0, 0x8000_001F),
        (0x343, 0, 0),
        (MIP, 0, 0),
        (LPEND0, 0, 0xFFFF_FFFE),
        (0x7C6, 0, 0xFFFF_FFFF),
    ],
)
def test_fields_and_reset_values(write_and_read, address, reset, after):
    assert write_and_read(address, boot_address=0x0100_0080) == (reset, after)


def test_forbidden_accesses_trap(write_and_read):
    illegal = 2
    assert write_and_read(0x7FF) == illegal
    assert write_and_read(PCER) == illegal
    assert write_and_read(MHARTID) == illegal
    assert write_and_read(INSTRET) == illegal
    assert write_and_read(LPEND0, extensions=BASE_EXTENSIONS) == illegal
    assert write_and_read(MISA, extensions=BASE_EXTENSIONS)[0] == 0x4000_1104
    assert write_and_read(MISA, extensions=BASE_EXTENSIONS | {Extension.XPULPV2})[0] == 0x4080_1104


def test_forbidden_access_has_no_effect(machine, asm):
    iss = machine(asm("csrrw", rd=5, csr=MHARTID, rs1=6), hart_id=3)
    iss.state.regs[5] = 99
    iss.step()
    assert (iss.state.regs[5], iss.csrs["minstret"], iss.csrs["mcause"]) == (99, 0, 2)


def test_set_and_clear_do_not_write_with_x0(machine, asm):
    iss = machine(
        asm("csrrs", rd=5, csr=MHARTID, rs1=0),
        asm("csrrci", rd=6, csr=MHARTID, zimm5=0),
        asm("csrrsi", rd=7, csr=MSCRATCH, zimm5=0b10101),
        asm("csrrci", rd=8, csr=MSCRATCH, zimm5=0b00101),
        asm("csrrwi", rd=9, csr=MSCRATCH, zimm5=3),
        asm("csrrc", rd=10, csr=MSCRATCH, rs1=9),
        hart_id=0x25,
    )
    assert [iss.step().cause for _ in range(6)] == [None] * 6
    assert iss.state.regs[5:11] == [0x25, 0x25, 0, 0b10101, 0b10000, 3]
    assert iss.csrs["mscratch"] == 0b00011


def test_register_name_decides_not_its_value(machine, asm):
    """csrrs with a register that holds 0 is a write all the same."""
    assert machine(asm("csrrs", rd=5, csr=MHARTID, rs1=6)).step().cause == 2


def test_counters_count_retired_instructions(machine, asm, nop):
    iss = machine(
        nop,
        asm("csrrs", rd=5, csr=INSTRET, rs1=0),
        asm("csrrw", rd=0, csr=MINSTRET, rs1=6),
        asm("csrrs", rd=7, csr=INSTRET, rs1=0),
        nop,
        asm("csrrs", rd=8, csr=0xC82, rs1=0),
        asm("ecall"),
    )
    iss.state.regs[6] = 0xFFFF_FFFE
    for _ in range(6):
        iss.step()
    assert (iss.state.regs[5], iss.state.regs[7], iss.state.regs[8]) == (1, 0xFFFF_FFFE, 1)
    before = iss.csrs["minstret"]
    iss.step()
    assert (iss.csrs["minstret"], iss.csrs["mcycle"]) == (before, 7)


def test_counters_can_be_stopped(machine, asm, nop):
    iss = machine(asm("csrrwi", rd=0, csr=COUNT_INHIBIT, zimm5=5), nop, nop)
    for _ in range(3):
        iss.step()
    assert (iss.csrs["mcycle"], iss.csrs["minstret"]) == (1, 1)


@pytest.mark.parametrize(("mnemonic", "cause"), [("ecall", 11), ("ebreak", 3)])
def test_exceptions_enter_at_the_table_base(machine, asm, mnemonic, cause):
    iss = machine(asm(mnemonic), boot_address=0x1280)
    iss.csrs["mstatus"] |= 8
    assert iss.step().cause == cause
    assert (iss.state.pc, iss.csrs["mepc"], iss.csrs["mcause"]) == (0x1200, 0x1280, cause)
    assert iss.csrs["mstatus"] == 0x1880
    iss.load(0x1200, [asm("mret")])
    iss.step()
    assert (iss.state.pc, iss.csrs["mstatus"]) == (0x1280, 0x1888)


def test_compressed_ebreak_traps_at_its_own_address(machine):
    iss = machine()
    iss.memory.write(0x80, 4, 0x9002_0001)  # c.nop ; c.ebreak
    assert [iss.step().cause for _ in range(2)] == [None, 3]
    assert iss.csrs["mepc"] == 0x82


def interruptible(iss, lines):
    iss.csrs["mstatus"] |= 8
    iss.csrs["mie"] = 0xFFFF_0888
    iss.csrs.irq = lines


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [(0xFFFF_FFFF, 31), (0x0001_0888, 16), (0x888, 11), (0x88, 3), (0x80, 7), (1 << 20 | 1 << 19, 20)],
)
def test_interrupt_priority_and_vectors(machine, nop, lines, chosen):
    iss = machine(nop)
    interruptible(iss, lines)
    step = iss.step()
    assert (step.insn, step.cause, iss.state.pc) == (None, 0x8000_0000 | chosen, 4 * chosen)
    assert (iss.csrs["mepc"], iss.csrs["minstret"], iss.csrs["mstatus"]) == (0x80, 0, 0x1880)


def test_direct_mode_does_not_vector(machine, nop):
    iss = machine(nop)
    interruptible(iss, 1 << 11)
    iss.csrs["mtvec"] = 0x4000
    iss.step()
    assert iss.state.pc == 0x4000


def test_lines_without_meaning_or_enable_do_nothing(machine, nop):
    iss = machine(nop, nop)
    interruptible(iss, 1 << 5)
    assert iss.step().cause is None
    interruptible(iss, 1 << 16)
    iss.csrs["mie"] = 1 << 17
    assert iss.step().cause is None


def test_enabling_takes_effect_before_the_next_instruction(machine, asm, nop):
    iss = machine(asm("csrrsi", rd=0, csr=MSTATUS, zimm5=8), nop)
    iss.csrs["mie"], iss.csrs.irq = 1 << 7, 1 << 7
    assert [iss.step().cause for _ in range(2)] == [None, 0x8000_0007]
    assert iss.csrs["mepc"] == 0x84


def test_mip_follows_the_lines(machine, asm):
    iss = machine(asm("csrrs", rd=5, csr=MIP, rs1=0))
    iss.csrs.irq = 0xFFFF_FFFF
    iss.step()
    assert iss.state.regs[5] == 0xFFFF_0888


def test_wfi_sleeps_until_an_enabled_line(machine, asm, nop):
    iss = machine(asm("wfi"), nop)
    iss.csrs["mie"] = 1 << 7
    iss.step()
    assert [iss.step().insn for _ in range(3)] == [None] * 3
    iss.csrs.irq = 1 << 11
    assert iss.step().insn is None
    iss.csrs.irq = 1 << 7
    assert iss.step().pc == 0x84
    assert (iss.state.pc, iss.csrs["mcycle"], iss.csrs["minstret"]) == (0x88, 6, 2)


def test_wfi_with_interrupts_enabled_returns_behind_it(machine, asm):
    iss = machine(asm("wfi"))
    iss.step()
    interruptible(iss, 1 << 7)
    assert iss.step().cause == 0x8000_0007
    assert iss.csrs["mepc"] == 0x84


def test_pending_wfi_is_a_nop(machine, asm, nop):
    iss = machine(asm("wfi"), nop)
    iss.csrs["mie"], iss.csrs.irq = 1 << 7, 1 << 7
    assert [iss.step().pc for _ in range(2)] == [0x80, 0x84]
