"""Exceptions in words, and lines of traces."""

import numpy as np
import pytest
from tests.programs import encode_line

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.reference.programs.exits import Trapped, describe, fetched_word
from xpulpnn_sim.reference.programs.retirements import RETIREMENT, lines
from xpulpnn_sim.reference.programs.trace import TRACE_HEADER

ILLEGAL = (
    (
        "ri5cy",
        "pv.sdotsp.n a0, a1, a2",
        "ri5cy has no XpulpNN (it is in xpulpnn, xpulpnn-cu, xpulpnn-full, xpulpnn2, xpulpnn3)",
    ),
    ("xpulpnn", "pv.cusdotsp.b.0 a0, (a1!), a2", "xpulpnn has no XpulpMLcu (it is in xpulpnn-cu, xpulpnn-full)"),
    ("xpulpnn", "pv.mlsdotup.b a0, (a1!), 25", "xpulpnn has no XpulpMLcross (it is in xpulpnn2, xpulpnn3)"),
    (
        "xpulpnn-full",
        "pv.mldotup.b a0, (a1!), 24",
        "xpulpnn-full has no XpulpMLcross and no XpulpMLdot (it is in xpulpnn2, xpulpnn3)",
    ),
    ("xpulpnn", "pv.rqu.b a0, a1, a2, 3", "xpulpnn has no XpulpRq (it is in xpulpnn2, xpulpnn3)"),
    ("xpulpnn", "pv.qnt.n a0, a1, (a2)", "xpulpnn has no XpulpQnt"),
    ("xpulpnn", ".word 0x0000", "no core has such an instruction"),
    ("xpulpnn", ".word 0xffffffff", "no core has such an instruction"),
    ("xpulpnn", "csrrs a0, pccr0, zero", "CSR pccr0 is there with the PULP performance counters only"),
    ("xpulpnn", "csrrw zero, mhartid, a0", "CSR mhartid must not be written"),
    ("xpulpnn", "csrrs a0, 0x7ff, zero", "no core has a CSR 0x7ff"),
)
"""Cores, instructions as they are named, and why the core has none such."""
CASES = [
    (preset, 2, source, f"illegal instruction at 0x00000100 (f+0x4): {source.removeprefix('.word ')}; {why}")
    for preset, source, why in ILLEGAL
]
CASES += [
    ("xpulpnn", 3, "c.ebreak", "breakpoint at 0x00000100 (f+0x4): c.ebreak"),
    ("xpulpnn", 11, "ecall", "environment call at 0x00000100 (f+0x4): ecall"),
]


@pytest.mark.parametrize(("preset", "cause", "source", "text"), CASES)
def test_descriptions(preset: str, cause: int, source: str, text: str):
    trapped = Trapped(0x100, cause, encode_line(source))
    assert describe(trapped, PRESETS[preset], preset, lambda pc: f"f+0x{pc - 0xFC:x}") == text


@pytest.mark.parametrize(("before", "came"), [((0x104, 0x304), "0x00000104"), ((2, 0x304), "0x00000304")])
def test_an_exception_outside_functions_names_the_place_in_one_from_where_it_came(before: tuple[int, int], came: str):
    trapped = Trapped(0x4, 5, encode_line("c.lw a0, 0(a1)"), before, 0x80)
    text = f"load access fault at 0x00000004, coming from {came} (f), address 0x00000080: c.lw a0, 0(a1)"
    assert describe(trapped, PRESETS["xpulpnn"], "xpulpnn", lambda pc: "f" if pc >= 0x100 else "") == text


def test_the_word_in_memory():
    content = bytes.fromhex("5785c5b80100")

    def read(address: int, size: int) -> bytes:
        if address + size > len(content):
            raise InputError("outside")
        return content[address : address + size]

    assert [fetched_word(read, address) for address in (0, 4, 6)] == [0xB8C58557, 1, 0]


def line(text, **fields):
    record = np.zeros(1, RETIREMENT)
    values = {"insn": encode_line(text), "pc_rdata": 0x1C00_0080, "cycle": 12} | fields
    for name, value in values.items():
        record[name] = value
    (shown,) = lines(record)
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
    (shown,) = lines(record)
    assert shown.index("a0=") == TRACE_HEADER.index("effects")
    assert shown.index("add") == TRACE_HEADER.index("instruction")
