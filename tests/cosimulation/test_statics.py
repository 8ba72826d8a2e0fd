"""Static properties of instructions and of registers after reset, against the manual's rows."""

import numpy as np
import pytest
from tests.programs import encode_line

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.isa.csr import csr_address
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import InsnClass
from xpulpnn.isa.machine import ExceptionCause
from xpulpnn.isa.table import find
from xpulpnn_sim.cosimulation.checks import retirements as check
from xpulpnn_sim.cosimulation.model.schema import NO_GROUP, Action, CsrFlag, Property
from xpulpnn_sim.cosimulation.model.statics import Describer, stream_text
from xpulpnn_sim.reference.iss.fetched import decoding

DECODE = decoding(frozenset(Extension), frozenset({2, 4, 8, 16}))
P = Property
NN_READS = P.READS_RD | P.WRITES_RD | P.READS_ACT | P.READS_WGT
UPDATE = P.READS_RS1 | P.WRITES_BASE | P.LOADS | P.WRITES_NN

CASES = {
    "add x1, x2, x3": (P.READS_RS1 | P.READS_RS2 | P.WRITES_RD, 0),
    "lhu x1, 0(x2)": (P.READS_RS1 | P.WRITES_RD | P.LOADS, 2),
    "p.lw x1, x3(x2!)": (P.READS_RS1 | P.READS_RS2 | P.WRITES_RD | P.WRITES_BASE | P.LOADS, 4),
    "p.sb x3, x4(x2!)": (P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_BASE | P.STORES, 1),
    "pv.qnt.c x1, x2, (x3)": (P.READS_RS1 | P.READS_RS2 | P.WRITES_RD, 0),
    "p.mac x1, x2, x3": (P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_RD, 0),
    "pv.mlsdotup.n x1, (x2!), 5": (NN_READS, 0),
    "pv.mlsdotup.n x1, (x2!), 13": (NN_READS | UPDATE, 4),
    "pv.mldotup.n x1, (x2!), 5": (NN_READS & ~P.READS_RD, 0),
    "pv.mlsduoup.n x2, (x1!), 1, 1, 4": (NN_READS | P.READS_RS2 | P.WRITES_RD2 | UPDATE, 4),
    "pv.mlsduoup.n x2, 1, 1": (NN_READS | P.READS_RS2 | P.WRITES_RD2, 0),
    "pv.mlduoup.n x2, 1, 1": ((NN_READS | P.WRITES_RD2) & ~P.READS_RD, 0),
    "pv.rqld 1, (x2!)": (UPDATE, 4),
    "pv.rqu.b x1, x2, x3, 1": (P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_RD | P.READS_PARAMETERS, 0),
    "pv.cusdotsp.c.3 x1, (x2!), x3": (P.READS_RS2 | P.READS_RD | P.WRITES_RD | P.READS_WGT | UPDATE, 4),
}


def described(*raws):
    return Describer(DECODE).describe(np.array(raws, np.uint32))


def describe(text):
    return described(encode_line(text))[0]


@pytest.mark.parametrize("text", CASES)
def test_properties_and_access_size(text):
    row = describe(text)
    assert (Property(int(row["properties"])), row["access"]) == CASES[text]


MEPC, MSTATUS = csr_address("mepc"), csr_address("mstatus")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("pv.mlsdotup.n x1, (x2!), 13", {"act": 1, "wgt": 4, "reloaded": 1}),
        ("pv.mlsdotup.n x1, (x2!), 21", {"act": 1, "wgt": 4, "reloaded": 4}),
        ("pv.mlsdotup.n x1, (x2!), 29", {"act": 1, "wgt": 4, "reloaded": 0}),
        ("pv.cusdotsp.c.3 x1, (x2!), x3", {"wgt": 5, "reloaded": 5}),
        ("pv.rqld 1, (x2!)", {"reloaded": 7}),
        ("pv.mlsduoup.n x4, (x2!), 3, 1, 9", {"act": 8, "wgt": 5, "reloaded": 9, "rd": 4, "rs2": 5}),
        ("pv.mlsduoup.n x4, 2, 0", {"act": 0, "wgt": 4, "rs2": 5}),
        ("add x1, x2, x3", {"action": Action.NO_ACTION}),
        ("bne x1, x2, pc+8", {"action": Action.TRANSFER}),
        ("jalr x1, 8(x2)", {"action": Action.TRANSFER}),
        ("mret", {"action": Action.RETURN}),
        ("pv.qnt.n x1, x2, (x3)", {"action": Action.QUANTISE, "number": 4}),
        ("ecall", {"action": Action.RAISE, "number": ExceptionCause.ENVIRONMENT_CALL}),
        ("ebreak", {"action": Action.RAISE, "number": ExceptionCause.BREAKPOINT}),
        ("csrrw x0, mepc, x0", {"action": Action.CSR_WRITE, "number": MEPC, "is_constant": 0}),
        ("csrrs x1, mepc, x0", {"action": Action.CSR_READ, "number": MEPC}),
        ("csrrci x1, mstatus, 9", {"action": Action.CSR_CLEAR, "number": MSTATUS, "is_constant": 1, "constant": 9}),
        ("csrrsi x1, mstatus, 0", {"action": Action.CSR_READ, "number": MSTATUS}),
        ("lp.starti 1, pc+20", {"action": Action.SET_LOOP_START, "number": 1, "offset": 20}),
        ("lp.endi 1, pc+24", {"action": Action.SET_LOOP_END, "number": 1, "offset": 24}),
        ("lp.count 1, x2", {"action": Action.SET_LOOP_COUNT, "number": 1, "is_constant": 0}),
        ("lp.counti 0, 100", {"action": Action.SET_LOOP_COUNT, "number": 0, "is_constant": 1, "constant": 100}),
        ("lp.setup 1, x2, pc+40", {"action": Action.SET_LOOP, "number": 1, "offset": 40, "is_constant": 0}),
        (
            "lp.setupi 1, 9, pc+12",
            {"action": Action.SET_LOOP, "number": 1, "offset": 12, "is_constant": 1, "constant": 9},
        ),
    ],
)
def test_entries_and_actions(text, fields):
    row = describe(text)
    assert {name: row[name] for name in fields} == fields


def test_compressed_words_are_described_as_what_they_expand_to():
    short, long = described(find("c.add").encode(rd=9, rs2=15), encode_line("add x9, x9, x15"))
    assert (short["length"], long["length"]) == (2, 4)
    same = [name for name in short.dtype.names if name not in ("raw", "length", "group")]
    assert [short[name] for name in same] == [long[name] for name in same]
    # their results differ in the next address
    assert short["group"] != long["group"]


def test_illegal_words_raise():
    (row,) = described(0xFFFF_FFFF)
    assert (row["action"], row["number"], row["group"]) == (Action.RAISE, ExceptionCause.ILLEGAL_INSTRUCTION, NO_GROUP)


def test_groups_are_told_apart_by_what_counts():
    words = [encode_line(f"p.lw x{rd}, 4(x2!)") for rd in (1, 3, 2, 0)]
    describer = Describer(DECODE)
    groups = describer.describe(np.array(words, np.uint32))["group"].tolist()
    assert groups == [0, 0, 1, 2]
    assert [(group.rd_is_base, group.rd_is_x0) for group in describer.groups] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    # known rows keep their group in later blocks
    assert describer.describe(np.array(words[:1], np.uint32))["group"] == [0]


def test_a_stream_tells_jumps_and_branches():
    insns = {
        "addi x1, x2, 4": 0,
        "jal x1, pc+8": InsnClass.JUMP,
        "jalr x1, 8(x2)": InsnClass.JUMP,
        "bne x1, x2, pc+8": InsnClass.BRANCH,
        "p.beqimm x1, 2, pc+8": InsnClass.BRANCH,
    }
    words = np.array([encode_line(text) for text in insns], np.uint32)
    text = stream_text(words, np.arange(5, dtype=np.uint32) * 4)
    assert text["insn_class"].tolist() == list(insns.values())
    assert text["pc"].tolist() == [0, 4, 8, 12, 16]


def test_registers_after_reset():
    base = CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=DotpConfig(widths=frozenset({16, 8})))
    table = {
        name: {row["address"]: row for row in check._csr_table(config, 0x1C00_0180, hart_id, frozenset())}
        for name, config, hart_id in (("base", base, None), ("full", CoreConfig(performance_counters=True), 3))
    }

    def value(name, csr):
        return table[name][csr_address(csr)]["value"]

    assert value("base", "mtvec") == 0x1C00_0101
    assert value("full", "misa") - value("base", "misa") == 1 << 23
    assert value("full", "mhartid") == 3
    free = {name: table[name][csr_address("mhartid")]["flags"] & CsrFlag.FREE for name in table}
    assert (free["base"] != 0, free["full"]) == (True, 0)
    assert csr_address("lpcount0") not in table["base"]
    # what is written to all counters is never read back
    assert table["full"][csr_address("pccrall")]["writable"] == 0
