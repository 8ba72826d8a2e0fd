"""Static properties of instructions and of registers after reset, against the manual's rows."""

import numpy as np
import pytest

from xpulpnn.config import CoreConfig, DotpConfig
from xpulpnn.isa.csr import csr_address
from xpulpnn.isa.machine import ExceptionCause
from xpulpnn.isa.table import INSNS, find
from xpulpnn_sim.harness import check
from xpulpnn_sim.harness.schema import NO_GROUP, Action, CsrFlag, InsnKind, Property
from xpulpnn_sim.harness.statics import Describer, stream_text

pytestmark = pytest.mark.unit

P = Property
NN_READS = P.READS_RD | P.WRITES_RD | P.READS_ACT | P.READS_WGT
UPDATE = P.READS_RS1 | P.WRITES_BASE | P.LOADS | P.WRITES_NN

CASES = {
    "add": (("add", None), {"rd": 1, "rs1": 2, "rs2": 3}, P.READS_RS1 | P.READS_RS2 | P.WRITES_RD, 0),
    "lui": (("lui", None), {"rd": 1, "uimm20": 0}, P.WRITES_RD, 0),
    "lhu": (("lhu", None), {"rd": 1, "rs1": 2, "imm12": 0}, P.READS_RS1 | P.WRITES_RD | P.LOADS, 2),
    "p.lw": (
        ("p.lw", "rd,rs2(rs1!)"),
        {"rd": 1, "rs1": 2, "rs2": 3},
        P.READS_RS1 | P.READS_RS2 | P.WRITES_RD | P.WRITES_BASE | P.LOADS,
        4,
    ),
    "p.sb": (
        ("p.sb", "rs2,rs3(rs1!)"),
        {"rs2": 3, "rs3": 4, "rs1": 2},
        P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_BASE | P.STORES,
        1,
    ),
    "bne": (("bne", None), {"rs1": 1, "rs2": 2, "boff13": 8}, P.READS_RS1 | P.READS_RS2, 0),
    "jal": (("jal", None), {"rd": 1, "joff21": 8}, P.WRITES_RD, 0),
    "pv.qnt.c": (("pv.qnt.c", None), {"rd": 1, "rs1": 2, "rs2": 3}, P.READS_RS1 | P.READS_RS2 | P.WRITES_RD, 0),
    "div": (("div", None), {"rd": 1, "rs1": 2, "rs2": 3}, P.READS_RS1 | P.READS_RS2 | P.WRITES_RD, 0),
    "p.mac": (
        ("p.mac", None),
        {"rd": 1, "rs1": 2, "rs2": 3},
        P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_RD,
        0,
    ),
    "mlsdot": (("pv.mlsdotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b00101}, NN_READS, 0),
    "mlsdot act": (("pv.mlsdotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b01101}, NN_READS | UPDATE, 4),
    "mlsdot wgt": (("pv.mlsdotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b10101}, NN_READS | UPDATE, 4),
    "mldot": (("pv.mldotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b00101}, NN_READS & ~P.READS_RD, 0),
    "mlsdot other": (
        ("pv.mlsdotup.n", "rd~,(rs1!),nnimm5'"),
        {"rd": 1, "rs1": 2, "nnimm5": 0b11101},
        NN_READS | UPDATE,
        4,
    ),
    "rqld": (("pv.rqld", None), {"uimm1": 1, "rs1": 2}, UPDATE, 4),
    "rqu": (
        ("pv.rqu.b", None),
        {"rd": 1, "rs1": 2, "rs2": 3, "lane": 1},
        P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_RD | P.READS_PARAMETERS,
        0,
    ),
    "cusdot": (
        ("pv.cusdotsp.c.3", None),
        {"rd": 1, "rs1": 2, "rs2": 3},
        P.READS_RS2 | P.READS_RD | P.WRITES_RD | P.READS_WGT | UPDATE,
        4,
    ),
}


def described(*raws):
    return Describer(INSNS).describe(np.array(raws, np.uint32))


def describe(key, values):
    return described(find(*key).encode(**values))[0]


@pytest.mark.parametrize("case", CASES)
def test_properties_and_access_size(case):
    key, values, properties, access = CASES[case]
    row = describe(key, values)
    assert Property(int(row["properties"])) == properties
    assert row["access"] == access


@pytest.mark.parametrize(
    ("case", "entries"),
    [
        ("mlsdot act", (1, 4, 1)),
        ("mlsdot wgt", (1, 4, 4)),
        ("mlsdot other", (1, 4, 0)),
        ("cusdot", (None, 5, 5)),
        ("rqld", (None, None, 7)),
    ],
)
def test_entries(case, entries):
    key, values, _, _ = CASES[case]
    row = describe(key, values)
    act, wgt, reloaded = entries
    assert act is None or row["act"] == act
    assert wgt is None or row["wgt"] == wgt
    assert row["reloaded"] == reloaded


@pytest.mark.parametrize(
    ("key", "values", "action", "fields"),
    [
        (("add", None), {"rd": 1, "rs1": 2, "rs2": 3}, Action.NO_ACTION, {}),
        (("bne", None), {"rs1": 1, "rs2": 2, "boff13": 8}, Action.TRANSFER, {}),
        (("jalr", None), {"rd": 1, "rs1": 2, "imm12": 8}, Action.TRANSFER, {}),
        (("mret", None), {}, Action.RETURN, {}),
        (("pv.qnt.n", None), {"rd": 1, "rs1": 2, "rs2": 3}, Action.QUANTISE, {"number": 4}),
        (("ecall", None), {}, Action.RAISE, {"number": ExceptionCause.ENVIRONMENT_CALL}),
        (("ebreak", None), {}, Action.RAISE, {"number": ExceptionCause.BREAKPOINT}),
        (
            ("csrrw", None),
            {"rd": 0, "rs1": 0, "csr": csr_address("mepc")},
            Action.CSR_WRITE,
            {"number": csr_address("mepc"), "is_constant": 0},
        ),
        (
            ("csrrs", None),
            {"rd": 1, "rs1": 0, "csr": csr_address("mepc")},
            Action.CSR_READ,
            {"number": csr_address("mepc")},
        ),
        (
            ("csrrci", None),
            {"rd": 1, "zimm5": 9, "csr": csr_address("mstatus")},
            Action.CSR_CLEAR,
            {"number": csr_address("mstatus"), "is_constant": 1, "constant": 9},
        ),
        (
            ("csrrsi", None),
            {"rd": 1, "zimm5": 0, "csr": csr_address("mstatus")},
            Action.CSR_READ,
            {"number": csr_address("mstatus")},
        ),
        (("lp.starti", None), {"L": 1, "lpoff12": 20}, Action.SET_LOOP_START, {"number": 1, "offset": 20}),
        (("lp.endi", None), {"L": 1, "lpoff12": 24}, Action.SET_LOOP_END, {"number": 1, "offset": 24}),
        (("lp.count", None), {"L": 1, "rs1": 2}, Action.SET_LOOP_COUNT, {"number": 1, "is_constant": 0}),
        (
            ("lp.counti", None),
            {"L": 0, "lpcnt12": 100},
            Action.SET_LOOP_COUNT,
            {"number": 0, "is_constant": 1, "constant": 100},
        ),
        (
            ("lp.setup", None),
            {"L": 1, "rs1": 2, "lpoff12": 40},
            Action.SET_LOOP,
            {"number": 1, "offset": 40, "is_constant": 0},
        ),
        (
            ("lp.setupi", None),
            {"L": 1, "lpcnt12": 9, "lpoff5": 12},
            Action.SET_LOOP,
            {"number": 1, "offset": 12, "is_constant": 1, "constant": 9},
        ),
    ],
)
def test_actions(key, values, action, fields):
    row = describe(key, values)
    assert row["action"] == action
    assert {name: row[name] for name in fields} == fields


def test_compressed_words_are_described_as_what_they_expand_to():
    short, long = described(find("c.add").encode(rd=9, rs2=15), find("add").encode(rd=9, rs1=9, rs2=15))
    assert (short["length"], long["length"]) == (2, 4)
    same = [name for name in short.dtype.names if name not in ("raw", "length", "group")]
    assert [short[name] for name in same] == [long[name] for name in same]
    # their results differ in the next address
    assert short["group"] != long["group"]


def test_illegal_words_raise():
    (row,) = described(0xFFFF_FFFF)
    assert (row["action"], row["number"], row["group"]) == (Action.RAISE, ExceptionCause.ILLEGAL_INSTRUCTION, NO_GROUP)


def test_groups_are_told_apart_by_what_counts():
    words = [find("p.lw", "rd,imm12(rs1!)").encode(rd=rd, rs1=2, imm12=4) for rd in (1, 3, 2, 0)]
    describer = Describer(INSNS)
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
    keys = [
        (("addi", None), {"rd": 1, "rs1": 2, "imm12": 4}, InsnKind.PLAIN_INSN),
        (("jal", None), {"rd": 1, "joff21": 8}, InsnKind.JUMP_INSN),
        (("jalr", None), {"rd": 1, "rs1": 2, "imm12": 8}, InsnKind.JUMP_INSN),
        (("bne", None), {"rs1": 1, "rs2": 2, "boff13": 8}, InsnKind.BRANCH_INSN),
        (("p.beqimm", None), {"rs1": 1, "simm5": 2, "boff13": 8}, InsnKind.BRANCH_INSN),
    ]
    words = np.array([find(*key).encode(**values) for key, values, _ in keys], np.uint32)
    text = stream_text(words, np.arange(5, dtype=np.uint32) * 4)
    assert text["kind"].tolist() == [kind for _, _, kind in keys]
    assert text["pc"].tolist() == [0, 4, 8, 12, 16]


def test_registers_after_reset():
    base = CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=DotpConfig(widths=frozenset({16, 8})))
    table = {
        name: {row["address"]: row for row in check._csr_table(config, 0x1C00_0180, hart_id)}
        for name, config, hart_id in (
            ("base", base, None),
            ("full", CoreConfig(performance_counters=True), 3),
        )
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
