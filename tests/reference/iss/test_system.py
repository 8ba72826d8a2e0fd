"""Absent instructions, CSRs, traps, interrupts and wfi (guide, "Machine state")."""

import pytest
from tests.isa.test_machine import BASE, HWLOOP

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension
from xpulpnn_sw.assembly.asm import assemble

ILLEGAL = 2


@pytest.fixture
def write_and_read(machine):
    """Value of a CSR, and that after writing all ones, as software sees them; the cause if the write traps."""

    def run(csr, **settings):
        iss = machine(f"csrrw x5, {csr}, x6; csrrs x7, {csr}, x0", **settings)
        iss.state.regs[6] = 0xFFFF_FFFF
        causes = [iss.step().cause for _ in range(2)]
        return causes[0] or (iss.state.regs[5], iss.state.regs[7])

    return run


@pytest.mark.parametrize(
    ("csr", "access", "reset", "writable"),
    [row for row in {**BASE, **HWLOOP}.values() if not row[0].startswith(("mcycle", "minstret"))],
)
def test_fields_and_reset_values(write_and_read, csr, access, reset, writable):
    assert write_and_read(csr) == (ILLEGAL if access == "RO" else (reset, reset & ~writable | writable))


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


@pytest.mark.parametrize("csr", ["0x7ff", "pcer"])
def test_forbidden_accesses_trap(write_and_read, csr):
    assert write_and_read(csr) == ILLEGAL


def test_csrs_of_extensions(write_and_read):
    assert write_and_read("lpend0", extensions=BASE_EXTENSIONS) == ILLEGAL
    assert write_and_read("misa", extensions=BASE_EXTENSIONS)[0] == 0x4000_1104
    assert write_and_read("misa", extensions=BASE_EXTENSIONS | {Extension.XPULPV2})[0] == 0x4080_1104


def test_forbidden_access_has_no_effect(machine):
    iss = machine("csrrw x5, mhartid, x6", hart_id=3)
    iss.state.regs[5] = 99
    iss.step()
    assert (iss.state.regs[5], iss.csrs["minstret"], iss.csrs["mcause"]) == (99, 0, ILLEGAL)


def test_set_and_clear_do_not_write_with_x0(machine):
    source = """
        csrrs x5, mhartid, x0
        csrrci x6, mhartid, 0
        csrrsi x7, mscratch, 0b10101
        csrrci x8, mscratch, 0b00101
        csrrwi x9, mscratch, 3
        csrrc x10, mscratch, x9
    """
    iss = machine(source, hart_id=0x25)
    assert [iss.step().cause for _ in range(6)] == [None] * 6
    assert iss.state.regs[5:11] == [0x25, 0x25, 0, 0b10101, 0b10000, 3]
    assert iss.csrs["mscratch"] == 0b00011


def test_register_name_decides_not_its_value(machine):
    """csrrs with a register that holds 0 is a write all the same."""
    assert machine("csrrs x5, mhartid, x6").step().cause == ILLEGAL


def test_counters_count_retired_instructions(machine):
    reads = "csrrs x5, instret, x0; csrrw x0, minstret, x6; csrrs x7, instret, x0; nop; csrrs x8, instreth, x0"
    iss = machine(f"nop; {reads}; ecall")
    iss.state.regs[6] = 0xFFFF_FFFE
    for _ in range(6):
        iss.step()
    assert (iss.state.regs[5], iss.state.regs[7], iss.state.regs[8]) == (1, 0xFFFF_FFFE, 1)
    before = iss.csrs["minstret"]
    iss.step()
    assert (iss.csrs["minstret"], iss.csrs["mcycle"]) == (before, 7)


def test_counters_can_be_stopped(machine):
    iss = machine("csrrwi x0, mcountinhibit, 5; nop; nop")
    iss.run(3)
    assert (iss.csrs["mcycle"], iss.csrs["minstret"]) == (1, 1)


@pytest.mark.parametrize(("mnemonic", "cause"), [("ecall", 11), ("ebreak", 3)])
def test_exceptions_enter_at_the_table_base(machine, mnemonic, cause):
    iss = machine(mnemonic, boot_address=0x1280)
    iss.csrs["mstatus"] |= 8
    assert iss.step().cause == cause
    assert (iss.state.pc, iss.csrs["mepc"], iss.csrs["mcause"]) == (0x1200, 0x1280, cause)
    assert iss.csrs["mstatus"] == 0x1880
    iss.load(0x1200, assemble("mret").words)
    iss.step()
    assert (iss.state.pc, iss.csrs["mstatus"]) == (0x1280, 0x1888)


def test_compressed_ebreak_traps_at_its_own_address(machine):
    iss = machine("c.nop; c.ebreak")
    assert [iss.step().cause for _ in range(2)] == [None, 3]
    assert iss.csrs["mepc"] == 0x82


def interruptible(iss, lines):
    iss.csrs["mstatus"] |= 8
    iss.csrs["mie"] = 0xFFFF_0888
    iss.csrs.irq = lines
    return iss


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [(0xFFFF_FFFF, 31), (0x0001_0888, 16), (0x888, 11), (0x88, 3), (0x80, 7), (1 << 20 | 1 << 19, 20)],
)
def test_interrupt_priority_and_vectors(machine, lines, chosen):
    iss = interruptible(machine("nop"), lines)
    step = iss.step()
    assert (step.insn, step.cause, iss.state.pc) == (None, 0x8000_0000 | chosen, 4 * chosen)
    assert (iss.csrs["mepc"], iss.csrs["minstret"], iss.csrs["mstatus"]) == (0x80, 0, 0x1880)


def test_direct_mode_does_not_vector(machine):
    iss = interruptible(machine("nop"), 1 << 11)
    iss.csrs["mtvec"] = 0x4000
    iss.step()
    assert iss.state.pc == 0x4000


def test_lines_without_meaning_or_enable_do_nothing(machine):
    iss = interruptible(machine("nop; nop"), 1 << 5)
    assert iss.step().cause is None
    interruptible(iss, 1 << 16)
    iss.csrs["mie"] = 1 << 17
    assert iss.step().cause is None


def test_enabling_takes_effect_before_the_next_instruction(machine):
    iss = machine("csrrsi x0, mstatus, 8; nop")
    iss.csrs["mie"], iss.csrs.irq = 1 << 7, 1 << 7
    assert [iss.step().cause for _ in range(2)] == [None, 0x8000_0007]
    assert iss.csrs["mepc"] == 0x84


def test_mip_follows_the_lines(machine):
    iss = machine("csrrs x5, mip, x0")
    iss.csrs.irq = 0xFFFF_FFFF
    iss.step()
    assert iss.state.regs[5] == 0xFFFF_0888


@pytest.mark.flow
def test_wfi_sleeps_until_an_enabled_line(machine):
    iss = machine("wfi; nop")
    iss.csrs["mie"] = 1 << 7
    iss.step()
    assert [iss.step().insn for _ in range(3)] == [None] * 3
    iss.csrs.irq = 1 << 11
    assert iss.step().insn is None
    iss.csrs.irq = 1 << 7
    assert iss.step().pc == 0x84
    assert (iss.state.pc, iss.csrs["mcycle"], iss.csrs["minstret"]) == (0x88, 6, 2)


def test_wfi_with_interrupts_enabled_returns_behind_it(machine):
    iss = machine("wfi")
    iss.step()
    assert interruptible(iss, 1 << 7).step().cause == 0x8000_0007
    assert iss.csrs["mepc"] == 0x84


def test_pending_wfi_is_a_nop(machine):
    iss = machine("wfi; nop")
    iss.csrs["mie"], iss.csrs.irq = 1 << 7, 1 << 7
    assert [iss.step().pc for _ in range(2)] == [0x80, 0x84]
