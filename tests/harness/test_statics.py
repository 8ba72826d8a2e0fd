"""Static properties of instructions, against the manual's rows."""

import numpy as np
import pytest

from xpulpnn.isa.table import find
from xpulpnn_sim.harness.abi import Property
from xpulpnn_sim.harness.statics import VectorProgram, static_table

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
    "bne": (("bne", None), {"rs1": 1, "rs2": 2, "boff13": 8}, P.READS_RS1 | P.READS_RS2 | P.BRANCHES, 0),
    "jal": (("jal", None), {"rd": 1, "joff21": 8}, P.WRITES_RD | P.JUMPS, 0),
    "div": (("div", None), {"rd": 1, "rs1": 2, "rs2": 3}, P.READS_RS1 | P.READS_RS2 | P.WRITES_RD | P.MULTICYCLE, 0),
    "p.mac": (
        ("p.mac", None),
        {"rd": 1, "rs1": 2, "rs2": 3},
        P.READS_RS1 | P.READS_RS2 | P.READS_RD | P.WRITES_RD,
        0,
    ),
    "mlsdot": (("pv.mlsdotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b00101}, NN_READS, 0),
    "mlsdot act": (("pv.mlsdotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b01101}, NN_READS | UPDATE, 4),
    "mlsdot wgt": (("pv.mlsdotup.n", None), {"rd": 1, "rs1": 2, "nnimm5": 0b10101}, NN_READS | UPDATE, 4),
    "cusdot": (
        ("pv.cusdotsp.c.3", None),
        {"rd": 1, "rs1": 2, "rs2": 3},
        P.READS_RS2 | P.READS_RD | P.WRITES_RD | P.READS_WGT | UPDATE,
        4,
    ),
}


def describe(key, values):
    insn = find(*key)
    words = np.array([insn.encode(**values)], np.uint32)
    program = VectorProgram(words, np.zeros(1, np.uint32), (insn,), ("test",), np.zeros(1, np.bool_))
    return static_table(program)[0]


@pytest.mark.parametrize("case", CASES)
def test_properties_and_access_size(case):
    key, values, properties, access = CASES[case]
    row = describe(key, values)
    assert Property(int(row["properties"])) == properties
    assert row["access"] == access


@pytest.mark.parametrize(
    ("case", "entries"),
    [("mlsdot act", (1, 4, 1)), ("mlsdot wgt", (1, 4, 4)), ("cusdot", (None, 5, 5))],
)
def test_entries(case, entries):
    key, values, _, _ = CASES[case]
    row = describe(key, values)
    act, wgt, reloaded = entries
    assert act is None or row["act"] == act
    assert (row["wgt"], row["reloaded"]) == (wgt, reloaded)
