"""The facts of the machine and its CSRs against the manual's figures, typed from there, and the retirement port."""

import pytest

from xpulpnn.errors import EncodingError
from xpulpnn.isa import machine
from xpulpnn.isa.csr import CSRS, PERFORMANCE_EVENTS, CsrGroup, ResetSource, csr_address
from xpulpnn.isa.machine import Cost, ExceptionCause, Interrupt, division_cycles
from xpulpnn.isa.retirement import RETIREMENT_FIELDS, WIDTHS, WaitCause
from xpulpnn_sim.reference.programs.retirements import RETIREMENT
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS

COSTS = {"MULTIPLY_HIGH": 5, "TAKEN_BRANCH": 3, "INTERRUPT": 4}
"""Cycles with the instruction's own, where they are not 2."""

BASE = {
    0x300: ("mstatus", "RW", 0x1800, 0x88),
    0x301: ("misa", "WI", 0x4080_1104, 0),
    0x304: ("mie", "RW", 0, 0xFFFF_0888),
    0x305: ("mtvec", "RW", 1, 0xFFFF_FF01),
    0x320: ("mcountinhibit", "RW", 0, 5),
    0x340: ("mscratch", "RW", 0, 0xFFFF_FFFF),
    0x341: ("mepc", "RW", 0, 0xFFFF_FFFE),
    0x342: ("mcause", "RW", 0, 0x8000_001F),
    0x343: ("mtval", "WI", 0, 0),
    0x344: ("mip", "WI", 0, 0),
    0xB00: ("mcycle", "RW", 0, 0xFFFF_FFFF),
    0xB80: ("mcycleh", "RW", 0, 0xFFFF_FFFF),
    0xB02: ("minstret", "RW", 0, 0xFFFF_FFFF),
    0xB82: ("minstreth", "RW", 0, 0xFFFF_FFFF),
    0xC00: ("cycle", "RO", 0, 0),
    0xC80: ("cycleh", "RO", 0, 0),
    0xC02: ("instret", "RO", 0, 0),
    0xC82: ("instreth", "RO", 0, 0),
    0xF11: ("mvendorid", "RO", 0, 0),
    0xF12: ("marchid", "RO", 0, 0),
    0xF13: ("mimpid", "RO", 0, 0),
    0xF14: ("mhartid", "RO", 0, 0),
    0xF15: ("mconfigptr", "RO", 0, 0),
    0x310: ("mstatush", "WI", 0, 0),
}
BASE |= {0x323 + k: (f"mhpmevent{3 + k}", "WI", 0, 0) for k in range(29)}
BASE |= {0xB03 + k: (f"mhpmcounter{3 + k}", "WI", 0, 0) for k in range(29)}
BASE |= {0xB83 + k: (f"mhpmcounter{3 + k}h", "WI", 0, 0) for k in range(29)}
HWLOOP = {
    0x7C0: ("lpstart0", "RW", 0, 0xFFFF_FFFE),
    0x7C1: ("lpend0", "RW", 0, 0xFFFF_FFFE),
    0x7C2: ("lpcount0", "RW", 0, 0xFFFF_FFFF),
    0x7C4: ("lpstart1", "RW", 0, 0xFFFF_FFFE),
    0x7C5: ("lpend1", "RW", 0, 0xFFFF_FFFE),
    0x7C6: ("lpcount1", "RW", 0, 0xFFFF_FFFF),
}
PERFORMANCE = {0x780 + k: (f"pccr{k}", "RW", 0, 0xFFFF_FFFF) for k in range(17)} | {
    0x79F: ("pccrall", "WO", 0, 0xFFFF_FFFF),
    0xCC0: ("pcer", "RW", 0, 0x1_FFFF),
    0xCC1: ("pcmr", "RW", 3, 3),
}
DEBUG = {
    0x7B0: ("dcsr", "RW", 0x4000_0403, 0x8C04),
    0x7B1: ("dpc", "RW", 0, 0xFFFF_FFFE),
    0x7B2: ("dscratch0", "RW", 0, 0xFFFF_FFFF),
    0x7B3: ("dscratch1", "RW", 0, 0xFFFF_FFFF),
}
TRIGGER = {
    0x7A0: ("tselect", "RW", 0, 1),
    0x7A1: ("tdata1", "RW", 0x2800_1000, 0x47),
    0x7A2: ("tdata2", "RW", 0, 0xFFFF_FFFF),
    0x7A4: ("tinfo", "WI", 4, 0),
}


def nn_words(*numbers: int) -> dict[int, tuple[str, str, int, int]]:
    return {0x7D0 + number: (f"nn{number}", "RW", 0, 0xFFFF_FFFF) for number in numbers}


def test_traps_and_interrupts():
    assert [cause.value for cause in ExceptionCause] == [1, 2, 3, 5, 7, 11]
    assert (Interrupt.SOFTWARE, Interrupt.TIMER, Interrupt.EXTERNAL) == (3, 7, 11)
    assert machine.IRQ_PRIORITY == (31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 11, 3, 7)
    assert machine.IRQ_BITS == 0xFFFF_0888


def test_costs():
    assert {cost.name: 1 + cost.cycles for cost in Cost} == dict.fromkeys(Cost.__members__, 2) | COSTS
    assert all(cost.cause is not WaitCause.NONE and cost.meaning for cost in Cost)


@pytest.mark.parametrize(
    ("divisor", "signed", "cycles"),
    [(0, False, 35), (1, False, 34), (1 << 31, False, 3), (0xFFFFFFFF, True, 34), (1 << 31, True, 3), (7, True, 32)],
)
def test_division_formula(divisor, signed, cycles):
    assert division_cycles(divisor, signed=signed) == cycles


def test_blocks_of_retirements_follow_the_table():
    assert RETIREMENT.names == ("order", "cycle", *WORD_FIELDS)
    assert WORD_FIELDS == tuple(field.name for field in RETIREMENT_FIELDS if field.name != "order")
    assert RETIREMENT.itemsize == 2 * 8 + 4 * len(WORD_FIELDS)


RVFI = {
    1: "valid trap halt intr",
    2: "mode ixl",
    4: "mem_rmask mem_wmask",
    5: "rs1_addr rs2_addr rd_addr",
    32: "insn rs1_rdata rs2_rdata rd_wdata pc_rdata pc_wdata mem_addr mem_rdata mem_wdata",
    64: "order",
}
XPULP = {
    1: "rd_we base_we nn_we",
    5: "base_addr",
    # the interrupt bit and the five bits of a code
    6: "cause",
    32: "rd_rdata base_wdata nn_act_rdata nn_wgt_rdata nn_wdata",
}


def test_widths_of_the_risc_v_formal_interface_and_of_what_xpulp_adds():
    expected = {name: width for ports in (RVFI, XPULP) for width, names in ports.items() for name in names.split()}
    expected |= {"nn_addr": (machine.NNRF_ENTRIES - 1).bit_length(), "wait": (len(WaitCause) - 1).bit_length()}
    assert expected == WIDTHS


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (CsrGroup.BASE, BASE),
        (CsrGroup.HWLOOP, HWLOOP),
        (CsrGroup.PERFORMANCE, PERFORMANCE),
        (CsrGroup.DEBUG, DEBUG),
        (CsrGroup.TRIGGER, TRIGGER),
        (CsrGroup.NN_ACTIVATION, nn_words(0, 1)),
        (CsrGroup.NN_WEIGHT, nn_words(2, 3, 4, 5)),
        (CsrGroup.NN_PARAMETER, nn_words(6, 7)),
        (CsrGroup.NN_PAIR, nn_words(8, 9)),
    ],
)
def test_registers(group: CsrGroup, expected: dict[int, tuple[str, str, int, int]]):
    table = {c.address: (c.name, c.access.name, c.reset, c.writable) for c in CSRS if c.group is group}
    assert table == expected
    assert len(table) == sum(c.group is group for c in CSRS)


def test_reset_from_inputs():
    sources = {c.name: c.source for c in CSRS if c.source is not ResetSource.CONSTANT}
    assert sources == {"mtvec": ResetSource.BOOT_ADDRESS, "mip": ResetSource.IRQ_LINES, "mhartid": ResetSource.HART_ID}


def test_lookup():
    assert csr_address("MEPC") == 0x341
    with pytest.raises(EncodingError, match=r"^csr must be a known name or an address, not uepc$"):
        csr_address("uepc")


def test_performance_events_by_number():
    expected = "cycles instructions load_use_stalls jump_register_stalls fetch_stalls loads stores jumps branches"
    expected += " taken_branches compressed elw_stalls ext_loads ext_stores ext_load_cycles ext_store_cycles"
    assert " ".join(PERFORMANCE_EVENTS) == f"{expected} tcdm_contention"
