"""What the pass knows of the intrinsics' instructions: registers, steps of pointers, what may not change places."""

import pytest
from tests.words import encode_line

from xpulpnn_sw.assembly.looppass.operation import FlowKind, parse

A0, A1, A2 = 10, 11, 12


def operation(text: str):
    """The operation as the headers write it: a directive of numbers."""
    word = encode_line(text)
    slots = word & 0x7F, word >> 12 & 7, word >> 25, *(word >> low & 31 for low in (7, 15, 20))
    return parse(".insn r {:#x}, {}, {:#x}, x{}, x{}, x{}".format(*slots))


@pytest.mark.parametrize(
    ("text", "reads", "writes", "step", "loads"),
    [
        ("pv.mlsdotup.b a0, (a1!), 8", {A0, A1}, {A0, A1}, 4, True),
        ("pv.mlsdotup.b a0, (a1!), 24", {A0, A1}, {A0, A1}, 4, True),
        ("pv.mlsdotup.b a0, (a1!), 0", {A0, A1}, {A0}, None, True),
        ("pv.mldotsp.c a0, (a1!), 25", {A1}, {A0, A1}, 4, True),
        ("pv.mldotsp.c a0, (a1!), 1", {A1}, {A0}, None, True),
        # the sum stays
        ("pv.mldotsp.c a1, (a1!), 25", {A1}, {A1}, None, True),
        ("pv.rqld 1, (a1!)", {A1}, {A1}, 4, True),
        ("pv.rqu.b a0, a1, a2, 3", {A0, A1, A2}, {A0}, None, False),
        ("pv.rqs.c a0, a1, a2, 15", {A0, A1, A2}, {A0}, None, False),
    ],
)
def test_mac_load_and_requantisation(text, reads, writes, step, loads):
    found = operation(text)
    assert (found.kind, found.reads, found.writes) == (FlowKind.PLAIN, reads, writes)
    assert (found.step(A1), found.is_load, found.is_store) == (step, loads, False)
    # entries of the NN-RF are no registers that the pass follows
    assert found.is_fixed


def test_other_instructions_may_move():
    assert not operation("pv.sdotup.b a0, a1, a2").is_fixed
