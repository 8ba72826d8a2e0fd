"""What the observer reports, instruction by instruction, against records written by hand."""

import pytest

from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.observe import Observer
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.unit

BASE = 0x1000
REGS = {5: 0x2000, 6: 0x2006, 7: 3, 8: 0x1122_3344}


@pytest.fixture
def retire():
    """Fields of the first instruction of a program that are not zero or in every record.

    From 0x2000 memory holds 0x80, 0x81, ...
    """

    def observe(text, **csrs):
        iss = Iss(BASE)
        iss.memory.write_bytes(BASE, assemble(text).to_bytes())
        iss.memory.write_bytes(0x2000, bytes(range(0x80, 0xC0)))
        for number, value in REGS.items():
            iss.state.regs[number] = value
        iss.state.nn[:] = range(0x10, 0x16)
        iss.csrs.values |= csrs
        step, retired = Observer(iss).step()
        fields = retired.fields()
        assert step.pc == fields.pop("pc_rdata") == BASE
        assert fields.pop("insn") == assemble(text).words[0]
        for name in ("rs1_addr", "rs2_addr"):
            fields.pop(name, None)
        return {name: value for name, value in fields.items() if value}

    return observe


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nop", ""),
        ("c.nop", "pc_wdata=0x1002"),
        ("add x9, x7, x8", "rs1_rdata=3 rs2_rdata=0x11223344 rd_we=1 rd_addr=9 rd_wdata=0x11223347"),
        ("add x0, x7, x7", "rs1_rdata=3 rs2_rdata=3"),
        ("p.mac x7, x7, x7", "rs1_rdata=3 rs2_rdata=3 rd_rdata=3 rd_we=1 rd_addr=7 rd_wdata=12"),
        ("lui x9, 5", "rd_we=1 rd_addr=9 rd_wdata=0x5000"),
        (
            "lh x9, 1(x5)",
            "rs1_rdata=0x2000 rd_we=1 rd_addr=9 rd_wdata=0xffff8281 mem_addr=0x2001 mem_rmask=3 mem_rdata=0x8281",
        ),
        (
            "p.lbu x9, x7(x5!)",
            (
                "rs1_rdata=0x2000 rs2_rdata=3 rd_we=1 rd_addr=9 rd_wdata=0x80 base_we=1 base_addr=5 base_wdata=0x2003 "
                "mem_addr=0x2000 mem_rmask=1 mem_rdata=0x80"
            ),
        ),
        (
            "p.lw x5, 4(x5!)",
            "rs1_rdata=0x2000 rd_we=1 rd_addr=5 rd_wdata=0x83828180 mem_addr=0x2000 mem_rmask=15 mem_rdata=0x83828180",
        ),
        ("sh x8, 2(x6)", "rs1_rdata=0x2006 rs2_rdata=0x11223344 mem_addr=0x2008 mem_wmask=3 mem_wdata=0x3344"),
        (
            "p.sb x8, x7(x6!)",
            (
                "rs1_rdata=0x2006 rs2_rdata=0x11223344 rd_rdata=3 base_we=1 base_addr=6 base_wdata=0x2009 "
                "mem_addr=0x2006 mem_wmask=1 mem_wdata=0x44"
            ),
        ),
        (
            "pv.mlsdotup.b x9, (x5!), 16",
            (
                "rs1_rdata=0x2000 rd_we=1 rd_addr=9 rd_wdata=0x120 base_we=1 base_addr=5 base_wdata=0x2004 "
                "mem_addr=0x2000 mem_rmask=15 mem_rdata=0x83828180 nn_act_rdata=16 nn_wgt_rdata=18 nn_we=1 nn_addr=2 "
                "nn_wdata=0x83828180"
            ),
        ),
        ("pv.mlsdotup.b x9, (x5!), 7", "rd_we=1 rd_addr=9 rd_wdata=0x165 nn_act_rdata=17 nn_wgt_rdata=21"),
        (
            "pv.cusdotup.b.3 x0, (x5!), x7",
            (
                "rs1_rdata=0x2000 rs2_rdata=3 base_we=1 base_addr=5 base_wdata=0x2004 mem_addr=0x2000 mem_rmask=15 "
                "mem_rdata=0x83828180 nn_wgt_rdata=21 nn_we=1 nn_addr=5 nn_wdata=0x83828180"
            ),
        ),
        ("beq x7, x7, pc+64", "rs1_rdata=3 rs2_rdata=3 pc_wdata=0x1040"),
        ("c.jalr x5", "rs1_rdata=0x2000 rd_we=1 rd_addr=1 rd_wdata=0x1002 pc_wdata=0x2000"),
        ("csrrw x9, mscratch, x7", "rs1_rdata=3 rd_we=1 rd_addr=9 rd_wdata=0x4d"),
        ("csrrwi x0, mscratch, 5", ""),
        ("mret", "pc_wdata=0x3000"),
        ("ecall", "trap=1 cause=11 pc_wdata=0x1000"),
        (".word 0xffffffff", "trap=1 cause=2 pc_wdata=0x1000"),
        (".half 0", "trap=1 cause=2 pc_wdata=0x1000"),
        ("csrrw x9, mhartid, x7", "rs1_rdata=3 trap=1 cause=2 pc_wdata=0x1000"),
    ],
)
def test_records(retire, text, expected):
    fields = dict(pair.split("=") for pair in expected.split())
    wanted = {"pc_wdata": BASE + 4} | {name: int(value, 0) for name, value in fields.items()}
    assert retire(text, mscratch=77, mepc=0x3000) == wanted


def test_the_first_instruction_of_a_handler():
    iss = Iss(BASE)
    iss.csrs["mstatus"], iss.csrs["mie"], iss.csrs.irq = 0x1808, 1 << 20, 1 << 20
    iss.memory.write_bytes(BASE, assemble("nop;" * 32).to_bytes())
    observer = Observer(iss)
    step, retired = observer.step()
    assert (step.cause, retired) == (0x8000_0014, None)
    _, retired = observer.step()
    assert (retired.pc, retired.interrupt, retired.fields()["cause"]) == (BASE + 80, 20, 0x34)
    _, retired = observer.step()
    assert (retired.interrupt, retired.fields()["cause"]) == (None, 0)


def test_sleep_retires_nothing():
    iss = Iss(BASE)
    iss.memory.write_bytes(BASE, assemble("wfi; nop").to_bytes())
    observer = Observer(iss)
    assert observer.step()[1].pc == BASE
    assert observer.step()[1] is None
    iss.csrs["mie"], iss.csrs.irq = 1 << 20, 1 << 20
    assert observer.step()[1].pc == BASE + 4
