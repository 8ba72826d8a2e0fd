"""What an exception was, in words."""

import pytest

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn.isa.table import find
from xpulpnn_sim.reference.programs.exits import Trapped, describe, fetched_word

pytestmark = pytest.mark.unit

ILLEGAL, BREAKPOINT, CALL = 2, 3, 11
QNT = find("pv.qnt.n").encode(rd=10, rs1=11, rs2=12)
NIBBLES = find("pv.sdotsp.n").encode(rd=10, rs1=11, rs2=12)
CU = find("pv.cusdotsp.b.0").encode(rd=10, rs1=11, rs2=12)
CROSS = find("pv.mlsdotup.b", "rd~,(rs1!),nnimm5'").encode(rd=10, rs1=11, nnimm5=25)
CROSS_PRODUCT = find("pv.mldotup.b", "rd,(rs1!),nnimm5'").encode(rd=10, rs1=11, nnimm5=24)
REQUANTISE = find("pv.rqu.b").encode(rd=10, rs1=11, rs2=12, lane=3)
READ_COUNTER = find("csrrs").encode(rd=10, rs1=0, csr=0x780)
WRITE_ID = find("csrrw").encode(rd=0, rs1=10, csr=0xF14)
NO_CSR = find("csrrs").encode(rd=10, rs1=0, csr=0x7FF)

AT = "illegal instruction at 0x00000100 (f+0x4):"
COUNTER = "CSR pccr0 is there with the PULP performance counters only"
CASES = (
    (
        "ri5cy",
        ILLEGAL,
        NIBBLES,
        f"{AT} pv.sdotsp.n a0, a1, a2; ri5cy has no XpulpNN (it is in xpulpnn, xpulpnn-cu, xpulpnn-full, xpulpnn2)",
    ),
    (
        "xpulpnn",
        ILLEGAL,
        CU,
        f"{AT} pv.cusdotsp.b.0 a0, (a1!), a2; xpulpnn has no XpulpMLcu (it is in xpulpnn-cu, xpulpnn-full)",
    ),
    (
        "xpulpnn",
        ILLEGAL,
        CROSS,
        f"{AT} pv.mlsdotup.b a0, (a1!), 25; xpulpnn has no XpulpMLcross (it is in xpulpnn2)",
    ),
    (
        "xpulpnn-full",
        ILLEGAL,
        CROSS_PRODUCT,
        f"{AT} pv.mldotup.b a0, (a1!), 24; xpulpnn-full has no XpulpMLcross and no XpulpMLdot (it is in xpulpnn2)",
    ),
    ("xpulpnn", ILLEGAL, REQUANTISE, f"{AT} pv.rqu.b a0, a1, a2, 3; xpulpnn has no XpulpRq (it is in xpulpnn2)"),
    ("xpulpnn", ILLEGAL, QNT, f"{AT} pv.qnt.n a0, a1, (a2); xpulpnn has no XpulpQnt"),
    ("xpulpnn", ILLEGAL, 0, f"{AT} 0x0000; no core has such an instruction"),
    ("xpulpnn", ILLEGAL, 0xFFFF_FFFF, f"{AT} 0xffffffff; no core has such an instruction"),
    ("xpulpnn", ILLEGAL, READ_COUNTER, f"{AT} csrrs a0, pccr0, zero; {COUNTER}"),
    ("xpulpnn", ILLEGAL, WRITE_ID, f"{AT} csrrw zero, mhartid, a0; CSR mhartid must not be written"),
    ("xpulpnn", ILLEGAL, NO_CSR, f"{AT} csrrs a0, 0x7ff, zero; no core has a CSR 0x7ff"),
    ("xpulpnn", BREAKPOINT, 0x9002, "breakpoint at 0x00000100 (f+0x4): c.ebreak"),
    ("xpulpnn", CALL, 0x73, "environment call at 0x00000100 (f+0x4): ecall"),
)


@pytest.mark.parametrize(("preset", "cause", "word", "text"), CASES)
def test_descriptions(preset: str, cause: int, word: int, text: str):
    trapped = Trapped(0x100, cause, word)
    assert describe(trapped, PRESETS[preset], preset, lambda pc: f"f+0x{pc - 0xFC:x}") == text


def test_the_word_in_memory():
    content = bytes.fromhex("5785c5b80100")

    def read(address: int, size: int) -> bytes:
        if address + size > len(content):
            raise InputError("outside")
        return content[address : address + size]

    assert fetched_word(read, 0) == 0xB8C58557
    assert fetched_word(read, 4) == 1
    assert fetched_word(read, 6) == 0
