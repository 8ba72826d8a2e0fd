"""What an exception was, in words."""

import pytest
from tests.programs import encode_line

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.reference.programs.exits import Trapped, describe, fetched_word

pytestmark = pytest.mark.unit

ILLEGAL = (
    ("ri5cy", "pv.sdotsp.n a0, a1, a2", "ri5cy has no XpulpNN (it is in xpulpnn, xpulpnn-cu, xpulpnn-full, xpulpnn2)"),
    ("xpulpnn", "pv.cusdotsp.b.0 a0, (a1!), a2", "xpulpnn has no XpulpMLcu (it is in xpulpnn-cu, xpulpnn-full)"),
    ("xpulpnn", "pv.mlsdotup.b a0, (a1!), 25", "xpulpnn has no XpulpMLcross (it is in xpulpnn2)"),
    (
        "xpulpnn-full",
        "pv.mldotup.b a0, (a1!), 24",
        "xpulpnn-full has no XpulpMLcross and no XpulpMLdot (it is in xpulpnn2)",
    ),
    ("xpulpnn", "pv.rqu.b a0, a1, a2, 3", "xpulpnn has no XpulpRq (it is in xpulpnn2)"),
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


def test_the_word_in_memory():
    content = bytes.fromhex("5785c5b80100")

    def read(address: int, size: int) -> bytes:
        if address + size > len(content):
            raise InputError("outside")
        return content[address : address + size]

    assert [fetched_word(read, address) for address in (0, 4, 6)] == [0xB8C58557, 1, 0]
