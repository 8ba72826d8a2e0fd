"""What occurs at units, of instructions worked out by hand."""

import pytest

from xpulpnn.config import preset
from xpulpnn_sim.proofs.units.situations import OCCURRING

pytestmark = pytest.mark.unit


def test_alu():
    found = OCCURRING["alu"](preset("ri5cy")).situations
    by_output = {output: one.values for one in found for output in one.outputs or () if "op_b" not in one.values}
    assert by_output.keys() == {"result", "sum", "comparison"}
    # a 32-bit addition is all zeros, and makes addresses
    assert set(by_output["sum"]["ctrl"]) == {0}
    assert 0 in by_output["result"]["ctrl"]
    # beq, bne, blt, bge, bltu, bgeu, p.beqimm and p.bneimm: the last two as the first two
    assert len(set(by_output["comparison"]["ctrl"])) == 6
    zero = [one for one in found if set(one.values.get("op_b", ())) == {0}]
    assert len(zero) == 1


def test_requantiser():
    found = OCCURRING["requantiser"](preset("xpulpnn2")).situations
    lanes = sorted(len(set(one.values["lane"])) for one in found if "lane" in one.values)
    assert lanes == [4, 4, 8, 8, 16, 16]


def test_dotp():
    (one,) = OCCURRING["dotp"](preset("ri5cy")).situations
    # two formats; unsigned, mixed and signed; with and without an accumulator
    assert len(set(one.values["ctrl"])) == 2 * 3 * 2


def test_mult():
    found = OCCURRING["mult"](preset("xpulpnn2")).situations
    done = [one.values for one in found if one.values.get("done") == {1}]
    # the field of the number of places is 1 in all instructions that do not shift
    assert sorted(set(values.get("shamt", {-1})) == {1} for values in done) == [False, True]
