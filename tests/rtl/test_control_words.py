"""Which instructions use which unit, and their control words."""

import pytest

from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.core.div import div_control
from xpulpnn.core.mult import MultOp, mult_control
from xpulpnn.dotp.ctrl import dotp_control
from xpulpnn.isa.insn import DOT_PRODUCT_OPS
from xpulpnn.isa.table import INSNS, find

pytestmark = pytest.mark.unit

HALVES = {
    f"{kind}{half}{sign}N{rounding}"
    for kind in ("mul", "mac")
    for half in ("", "hh")
    for sign in "us"
    for rounding in ("", "R")
}


def test_additions_need_no_control() -> None:
    sums = {insn.op for insn in INSNS if alu_control(insn) == {}}
    memory = {insn.op for insn in INSNS if insn.is_load or insn.is_store}
    assert sums == memory | {"add", "lui", "auipc", "jal", "jalr", "pv.mlsdot", "pv.cusdot"}


def test_users_of_the_alu() -> None:
    idle = {insn.op for insn in INSNS if alu_control(insn) is None}
    others = {op for op in idle - DOT_PRODUCT_OPS if not op.startswith(("mul", "mac", "csr", "lp."))}
    assert others == {
        "div", "divu", "rem", "remu", "msu", "pv.mldot", "pv.qnt", "pv.rqld", "pv.rqs", "pv.rqu",
        "fence", "fence.i", "ecall", "ebreak", "mret", "wfi",
    }  # fmt: skip
    for insn in INSNS:
        fields = alu_control(insn)
        if fields is not None:
            AluCtrl.const(fields)


def test_users_of_the_multiplier() -> None:
    ops = {insn.op for insn in INSNS if mult_control(insn) is not None}
    assert ops == {"mul", "mac", "msu", "mulh", "mulhsu", "mulhu", *HALVES, "pv.rqu", "pv.rqs"}
    assert mult_control(find("p.msu")) == {"op": MultOp.WORD, "accumulate": True, "subtract": True}
    assert mult_control(find("p.mulhhsNR"))["upper"]


def test_users_of_the_divider() -> None:
    assert div_control(find("rem")) == {"signed": True, "remainder": True}
    assert div_control(find("divu")) == {"signed": False, "remainder": False}
    assert {insn.op for insn in INSNS if div_control(insn) is not None} == {"div", "divu", "rem", "remu"}


def test_users_of_the_dot_product_unit() -> None:
    insn = find("pv.mlsdotsup.n")
    assert dotp_control(insn) == {"fmt": insn.fmt, "a_signed": True, "b_signed": False, "accumulate": True}
