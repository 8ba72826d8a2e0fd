"""The retirement port: widths of the RISC-V Formal Interface, and of what Xpulp adds."""

import pytest

from xpulpnn.isa.machine import NNRF_ENTRIES
from xpulpnn.isa.retirement import WIDTHS, WaitCause

pytestmark = pytest.mark.unit

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


def test_widths():
    expected = {name: width for ports in (RVFI, XPULP) for width, names in ports.items() for name in names.split()}
    expected |= {"nn_addr": (NNRF_ENTRIES - 1).bit_length(), "wait": (len(WaitCause) - 1).bit_length()}
    assert expected == WIDTHS
