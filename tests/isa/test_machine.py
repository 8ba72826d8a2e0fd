"""The facts of the machine against the manual's figures, typed from there, and the table of the retirement port."""

import pytest

from xpulpnn.isa import machine
from xpulpnn.isa.machine import Cost, ExceptionCause, Interrupt, division_cycles
from xpulpnn.isa.retirement import ORDER_BITS, RETIREMENT_FIELDS, WIDTHS, WaitCause
from xpulpnn_sim.reference.programs.trace import RETIREMENT, WORD_FIELDS

pytestmark = pytest.mark.unit

COSTS = {"MULTIPLY_HIGH": 5, "TAKEN_BRANCH": 3, "INTERRUPT": 4}
"""Cycles with the instruction's own, where they are not 2."""


def test_traps_and_interrupts():
    assert [cause.value for cause in ExceptionCause] == [1, 2, 3, 5, 7, 11]
    assert (Interrupt.SOFTWARE, Interrupt.TIMER, Interrupt.EXTERNAL) == (3, 7, 11)
    assert machine.IRQ_PRIORITY == (31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 11, 3, 7)
    assert machine.IRQ_BITS == 0xFFFF_0888


def test_memory_map():
    assert (machine.TEXT_BASE, machine.ENTRY, machine.DATA_BASE) == (0x1C00_0000, 0x1C00_0080, 0x1000_0000)


def test_costs():
    assert {cost.name: 1 + cost.cycles for cost in Cost} == dict.fromkeys(Cost.__members__, 2) | COSTS
    assert all(cost.cause is not WaitCause.NONE and cost.meaning for cost in Cost)


@pytest.mark.parametrize(
    ("divisor", "signed", "cycles"),
    [(0, False, 35), (1, False, 34), (1 << 31, False, 3), (0xFFFFFFFF, True, 34), (1 << 31, True, 3), (7, True, 32)],
)
def test_division_formula(divisor, signed, cycles):
    assert division_cycles(divisor, signed=signed) == cycles


def test_retirement_port():
    names = [field.name for field in RETIREMENT_FIELDS]
    assert len(set(names)) == len(names)
    assert list(WIDTHS) == ["valid", "wait", *names]
    assert all(0 < field.width <= machine.XLEN or field.width == ORDER_BITS for field in RETIREMENT_FIELDS)
    assert max(WaitCause) < 1 << WIDTHS["wait"] <= 2 * max(WaitCause)


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
