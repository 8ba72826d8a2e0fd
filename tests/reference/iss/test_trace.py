"""Trace lines."""

import numpy as np
import pytest

from xpulpnn_sim.reference.programs import trace
from xpulpnn_sim.reference.programs.trace import RETIREMENT
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.unit


def line(text, **fields):
    insn = assemble(text).words[0]
    record = np.zeros(1, RETIREMENT)
    values = {"insn": insn, "pc_rdata": 0x1C00_0080, "cycle": 12} | fields
    for name, value in values.items():
        record[name] = value
    (shown,) = trace.lines(record)
    assert shown.startswith("          12 1c000080 ")
    return " ".join(shown.split()[2:])


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("c.nop", {}, "0001 c.nop"),
        ("add a0, a1, a2", {"rd_we": 1, "rd_addr": 10, "rd_wdata": 5}, "00c58533 add a0, a1, a2 a0=0x00000005"),
        ("add x0, a1, a2", {"rd_we": 1}, "00c58033 add zero, a1, a2"),
        ("jal ra, pc+16", {"rd_we": 1, "rd_addr": 1}, "010000ef jal ra, pc+16 # 0x1c000090 ra=0x00000000"),
        (
            "p.lb a0, 1(a1!)",
            {
                "rd_we": 1,
                "rd_addr": 10,
                "rd_wdata": 0xFFFF_FF80,
                "base_we": 1,
                "base_addr": 11,
                "base_wdata": 0x2001,
                "mem_addr": 0x2000,
                "mem_rmask": 1,
                "mem_rdata": 0x80,
            },
            "0015850b p.lb a0, 1(a1!) a0=0xffffff80 a1=0x00002001 [0x00002000]->0x80",
        ),
        (
            "sh a0, 2(a1)",
            {"mem_addr": 0x2002, "mem_wmask": 3, "mem_wdata": 0x1234_5678},
            "00a59123 sh a0, 2(a1) [0x00002002]<-0x5678",
        ),
        (
            "pv.mlsdotsup.b x0, (a1!), 17",
            {"nn_we": 1, "nn_addr": 2, "nn_wdata": 7, "mem_addr": 4, "mem_rmask": 15, "mem_rdata": 7},
            "d9159077 pv.mlsdotsup.b zero, (a1!), 17 nn2=0x00000007 [0x00000004]->0x00000007",
        ),
        ("ecall", {"trap": 1, "cause": 11, "rd_we": 1, "rd_addr": 9}, "00000073 ecall trap: environment call"),
        ("addi x5, x5, 1", {"intr": 1, "cause": 0x20 | 19}, "00128293 addi t0, t0, 1 interrupt 19"),
        ("ecall", {"intr": 1, "trap": 1, "cause": 11}, "00000073 ecall interrupt trap: environment call"),
        (".word 0xffffffff", {"trap": 1, "cause": 2}, "ffffffff illegal trap: illegal instruction"),
        (".half 0", {"trap": 1, "cause": 2}, "0000 illegal trap: illegal instruction"),
    ],
)
def test_lines(text, fields, expected):
    assert line(text, **fields) == expected


def test_columns_line_up_with_the_header():
    record = np.zeros(1, RETIREMENT)
    record["insn"], record["rd_we"], record["rd_addr"] = 0x00C5_8533, 1, 10
    (shown,) = trace.lines(record)
    assert shown.index("a0=") == trace.TRACE_HEADER.index("effects")
    assert shown.index("add") == trace.TRACE_HEADER.index("instruction")
