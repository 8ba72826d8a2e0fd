"""Accesses that increment their base: what may change, and what must not; what is known of the intrinsics."""

import pytest
from tests.words import encode_line

from xpulpnn_sw.assembly.disasm import insn_directive
from xpulpnn_sw.assembly.looppass.operation import FlowKind, parse_operation

from .test_loops import turned

A0, A1, A2 = 10, 11, 12


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


def change(body: str, **options) -> list[str]:
    lines, _ = turned(f"{body}\nret", **options)
    return lines[1:-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("lw a1,0(a0)\naddi a0,a0,4", ["p.lw a1,4(a0!)"]),
        ("addi a0,a0,-2\nlhu a1,2(a0)", ["p.lhu a1,-2(a0!)"]),
        ("sb a1,0(a0)\naddi a0,a0,1", ["p.sb a1,1(a0!)"]),
        # other accesses follow the pointer
        ("lw a1,4(a0)\nlw a2,0(a0)\nlw a3,8(a0)\naddi a0,a0,12", ["lw a1,4(a0)", "p.lw a2,12(a0!)", "lw a3,-4(a0)"]),
        ("sw a1,0(a0)\naddi a0,a0,8\nsw a2,-4(a0)", ["p.sw a1,8(a0!)", "sw a2,-4(a0)"]),
        ("lw a1,0(a0)\naddi a2,a0,4\naddi a0,a0,8", ["p.lw a1,8(a0!)", "addi a2,a0,-4"]),
        # two steps, two accesses
        ("lb a1,0(a0)\naddi a0,a0,1\nlb a2,0(a0)\naddi a0,a0,1", ["p.lb a1,1(a0!)", "p.lb a2,1(a0!)"]),
        # the sum of two registers as an address
        ("add a5,a0,a1\nlw a5,0(a5)", ["p.lw a5,a1(a0)"]),
        ("add a5,a0,a1\nsw a2,0(a5)\nli a5,0", ["p.sw a2,a1(a0)", "li a5,0"]),
    ],
)
def test_changes(body, expected):
    assert change(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "lw a0,0(a0)\naddi a0,a0,4",  # the load replaces the base
        "lw a1,0(a0)\nadd a1,a1,a0\naddi a0,a0,4",  # the old base is read in between
        "lw a1,4(a0)\naddi a0,a0,4\nmv a2,a0",  # no access at the base itself
        "sw a0,0(a0)\naddi a0,a0,4",  # the base is what is stored
        "lw a1,0(sp)\naddi sp,sp,16",  # the stack is shared with handlers
        "lw a1,0(a0)\nlw a2,-2048(a0)\naddi a0,a0,4",  # an offset would be too large
        "lw a1,%lo(x)(a0)\naddi a0,a0,4",  # the linker knows the offset
        "sw a1,0(a0)\ncall g\naddi a0,a0,4",  # the call reads or writes it
        "add a5,a0,a1\nlw a2,0(a5)\nmv a0,a5",  # the sum is read again
        "add a5,a0,a1\naddi a0,a0,4\nsw a2,0(a5)\nmv a3,a0\nli a5,0\nlw a4,0(a5)\nmv a0,a4\nadd a0,a0,a3",
        "add a5,a0,a1\nlw a5,4(a5)",  # an offset beside the sum
    ],
)
def test_stays(body):
    changed = change(body)
    assert not [line for line in changed if line.startswith("p.") and "!" in line]
    if "add a5" not in body or "li a5" not in body:
        assert [line.split() for line in changed] == [line.split() for line in body.replace("\t", " ").splitlines()]


def test_loads_change_places_only_if_they_may():
    body = "lw a1,0(a0)\nadd a5,a0,a2\nlw a3,0(a5)\nli a5,0\naddi a0,a0,4"
    assert change(body, swap_loads=True) == ["p.lw a3,a2(a0)", "p.lw a1,4(a0!)", "li a5,0"]
    assert change(body) == ["lw a1,0(a0)", "p.lw a3,a2(a0)", "li a5,0", "addi a0,a0,4"]


def test_no_access_passes_a_store():
    body = "lw a1,0(a0)\nsw a4,0(a2)\nadd a5,a0,a2\nlw a3,0(a5)\nli a5,0\naddi a0,a0,4"
    assert "p.lw a1,4(a0!)" not in change(body, swap_loads=True)


def test_in_a_loop_the_reader_waits_no_longer():
    body = ".L2:\nlw a4,0(a1)\nadd a2,a2,a4\nxor a3,a3,a1\nbne a3,a5,.L2"
    lines = change(body)
    assert [line for line in lines if not line.startswith(".")][:3] == ["lw a4,0(a1)", "xor a3,a3,a1", "add a2,a2,a4"]
