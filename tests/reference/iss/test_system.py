"""Absent instructions, CSRs, traps, interrupts and wfi (guide, "Machine state")."""

from typing import Any, NamedTuple

import pytest
from tests.isa.test_machine import BASE, HWLOOP
from tests.reference.iss.conftest import booted

from xpulpnn.isa.formats import BASE_EXTENSIONS, Extension
from xpulpnn_sw.assembly.asm import assemble

ILLEGAL = 2


def write_and_read(csr, **settings):
    """Value of a CSR, and that after writing all ones, as software sees them; the cause if the write traps."""
    iss = booted(f"csrrw x5, {csr}, x6; csrrs x7, {csr}, x0", **settings)
    iss.state.regs[6] = 0xFFFF_FFFF
    causes = [iss.step().cause for _ in range(2)]
    return causes[0] or (iss.state.regs[5], iss.state.regs[7])


@pytest.mark.parametrize(
    ("csr", "access", "reset", "writable"),
    [row for row in {**BASE, **HWLOOP}.values() if not row[0].startswith(("mcycle", "minstret"))],
)
def test_fields_and_reset_values(csr, access, reset, writable):
    assert write_and_read(csr) == (ILLEGAL if access == "RO" else (reset, reset & ~writable | writable))


@pytest.mark.parametrize("csr", ["0x7ff", "pcer"])
def test_forbidden_accesses_trap(csr):
    assert write_and_read(csr) == ILLEGAL


def test_csrs_of_extensions():
    assert write_and_read("lpend0", extensions=BASE_EXTENSIONS) == ILLEGAL
    assert write_and_read("misa", extensions=BASE_EXTENSIONS)[0] == 0x4000_1104
    assert write_and_read("misa", extensions=BASE_EXTENSIONS | {Extension.XPULPV2})[0] == 0x4080_1104


@pytest.mark.parametrize(("mnemonic", "cause"), [("ecall", 11), ("ebreak", 3)])
def test_exceptions_enter_at_the_table_base(mnemonic, cause):
    iss = booted(mnemonic, at=0x1280)
    iss.csrs["mstatus"] |= 8
    assert iss.step().cause == cause
    assert (iss.state.pc, iss.csrs["mepc"], iss.csrs["mcause"]) == (0x1200, 0x1280, cause)
    assert iss.csrs["mstatus"] == 0x1880
    iss.memory.write_bytes(0x1200, assemble("mret").to_bytes())
    iss.step()
    assert (iss.state.pc, iss.csrs["mstatus"]) == (0x1280, 0x1888)


class Steps(NamedTuple):
    """Steps from the boot address, their causes, and what they leave; CSRs by name, registers by number."""

    source: str
    causes: list[int | None]
    expected: dict[int | str, int]
    given: dict[int | str, int] = {}
    settings: dict[str, Any] = {}


ENABLED = {"mstatus": 0x1808, "mie": 0xFFFF_0888}
INTERRUPT = 1 << 31
STEPS = {
    **{
        f"absent {word:08x} {number}": Steps(f".word {word}", [ILLEGAL], {"mepc": 0x80, "pc": 0}, {}, settings)
        for number, (word, settings) in enumerate(
            (
                (0xA8C5_9557, {"extensions": BASE_EXTENSIONS}),
                (0xA8C5_A557, {"extensions": BASE_EXTENSIONS | {Extension.XPULPV2}}),
                (0xA8C5_9557, {"widths": frozenset({4, 2})}),
                (0xE0C5_A557, {}),
                (0x0000_0000, {}),
                (0x0000_8002, {}),
            )
        )
    },
    "a forbidden access has no effect": Steps(
        "csrrw x5, mhartid, x6", [ILLEGAL], {5: 99, "minstret": 0, "mcause": ILLEGAL}, {5: 99}, {"hart_id": 3}
    ),
    "set and clear do not write with x0": Steps(
        """
        csrrs x5, mhartid, x0
        csrrci x6, mhartid, 0
        csrrsi x7, mscratch, 0b10101
        csrrci x8, mscratch, 0b00101
        csrrwi x9, mscratch, 3
        csrrc x10, mscratch, x9
        """,
        [None] * 6,
        {5: 0x25, 6: 0x25, 7: 0, 8: 0b10101, 9: 0b10000, 10: 3, "mscratch": 0b00011},
        {},
        {"hart_id": 0x25},
    ),
    "csrrs with a register that holds 0 is a write": Steps("csrrs x5, mhartid, x6", [ILLEGAL], {}),
    "counters count retired instructions": Steps(
        "nop; csrrs x5, instret, x0; csrrw x0, minstret, x6; csrrs x7, instret, x0; nop; csrrs x8, instreth, x0; ecall",
        [None] * 6 + [11],
        {5: 1, 7: 0xFFFF_FFFE, 8: 1, "minstret": 1, "mcycle": 7},
        {6: 0xFFFF_FFFE},
    ),
    "counters can be stopped": Steps("csrrwi x0, mcountinhibit, 5; nop; nop", [None] * 3, {"mcycle": 1, "minstret": 1}),
    "a compressed ebreak traps at its own address": Steps("c.nop; c.ebreak", [None, 3], {"mepc": 0x82}),
    **{
        f"line {chosen} first": Steps(
            "nop",
            [INTERRUPT | chosen],
            {"pc": 4 * chosen, "mepc": 0x80, "minstret": 0, "mstatus": 0x1880},
            ENABLED | {"mip": lines},
        )
        for lines, chosen in (
            *((0xFFFF_FFFF, 31), (0x0001_0888, 16), (0x888, 11), (0x88, 3), (0x80, 7)),
            (1 << 20 | 1 << 19, 20),
        )
    },
    "direct mode": Steps("nop", [INTERRUPT | 11], {"pc": 0x4000}, ENABLED | {"mtvec": 0x4000, "mip": 1 << 11}),
    "a line that is not enabled": Steps("nop", [None], {}, ENABLED | {"mip": 1 << 16, "mie": 1 << 17}),
    "enabling takes effect before the next instruction": Steps(
        "csrrsi x0, mstatus, 8; nop", [None, INTERRUPT | 7], {"mepc": 0x84}, {"mie": 1 << 7, "mip": 1 << 7}
    ),
    "mip follows the lines": Steps("csrrs x5, mip, x0", [None], {5: 0xFFFF_0888}, {"mip": 0xFFFF_0888}),
    "pending, wfi is a nop": Steps("wfi; nop", [None] * 2, {"pc": 0x88, "minstret": 2}, {"mie": 1 << 7, "mip": 1 << 7}),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    source, causes, expected, given, settings = STEPS[name]
    iss = booted(source, **settings)
    for key, value in given.items():
        (iss.csrs if isinstance(key, str) else iss.state.regs)[key] = value
    assert [iss.step().cause for _ in causes] == causes
    seen = dict(enumerate(iss.state.regs)) | {"pc": iss.state.pc}
    assert {key: seen[key] if key in seen else iss.csrs[key] for key in expected} == expected


@pytest.mark.flow
def test_wfi_sleeps_until_an_enabled_line():
    iss = booted("wfi; nop")
    iss.csrs["mie"] = 1 << 7
    iss.step()
    assert [iss.step().retired for _ in range(3)] == [None] * 3
    iss.csrs["mip"] = 1 << 11
    assert iss.step().retired is None
    iss.csrs["mip"] = 1 << 7
    assert iss.step().pc == 0x84
    assert (iss.state.pc, iss.csrs["mcycle"], iss.csrs["minstret"]) == (0x88, 6, 2)


def test_wfi_with_interrupts_enabled_returns_behind_it():
    iss = booted("wfi")
    iss.step()
    iss.csrs["mstatus"], iss.csrs["mie"], iss.csrs["mip"] = 0x1808, 1 << 7, 1 << 7
    assert iss.step().cause == 0x8000_0007
    assert iss.csrs["mepc"] == 0x84
