"""Instructions as the loop pass sees them: the registers that Mac&Load and requantisation read and write."""

import pytest
from tests.programs import encode_line

from xpulpnn_sw.assembly.disasm import insn_directive
from xpulpnn_sw.assembly.looppass.operation import FlowKind, parse_operation

A0, A1, A2, A3 = 10, 11, 12, 13


def operation(text: str):
    """The operation as the headers write it: a directive of numbers."""
    return parse_operation(insn_directive(encode_line(text)))


@pytest.mark.parametrize(
    ("text", "reads", "writes", "step", "loads"),
    [
        ("pv.mlsdotup.b a0, (a1!), 8", {A0, A1}, {A0, A1}, 4, True),
        ("pv.mlsdotup.b a0, (a1!), 24", {A0, A1}, {A0, A1}, 4, True),
        ("pv.mlsdotup.b a0, (a1!), 0", {A0, A1}, {A0}, None, True),
        ("pv.mldotsp.c a0, (a1!), 25", {A1}, {A0, A1}, 4, True),
        ("pv.mldotsp.c a0, (a1!), 1", {A1}, {A0}, None, True),
        ("pv.mldotsp.c a1, (a1!), 25", {A1}, {A1}, None, True),
        ("pv.mlsduoup.b a2, (a1!), 0, 1, 8", {A1, A2, A3}, {A1, A2, A3}, 4, True),
        ("pv.mlduoup.b a2, (a1!), 0, 1, 8", {A1}, {A1, A2, A3}, 4, True),
        ("pv.mlsduoup.b a2, 0, 1", {A2, A3}, {A2, A3}, None, False),
        ("pv.mlsduoup.b zero, (a1!), 0, 1, 8", {A1}, {A1}, 4, True),
        ("pv.mlduoup.b a0, (a1!), 0, 1, 8", {A1}, {A0, A1}, None, True),
        ("pv.rqld 1, (a1!)", {A1}, {A1}, 4, True),
        ("pv.rqu.b a0, a1, a2, 3", {A0, A1, A2}, {A0}, None, False),
        ("pv.rqs.c a0, a1, a2, 15", {A0, A1, A2}, {A0}, None, False),
    ],
)
def test_mac_load_and_requantisation(text, reads, writes, step, loads):
    flow = operation(text)
    assert (flow.kind, flow.reads, flow.writes) == (FlowKind.PLAIN, reads, writes)
    assert (flow.step(A1), flow.is_load, flow.is_store) == (step, loads, False)
    # entries of the NN-RF are no registers that the pass follows; other instructions may move
    assert flow.is_fixed
    assert not operation("pv.sdotup.b a0, a1, a2").is_fixed
