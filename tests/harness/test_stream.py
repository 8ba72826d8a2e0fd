"""The engine finds what is wrong: every kind of disagreement between stream, reference and design is reported."""

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.isa.table import INSNS, Decoder, find
from xpulpnn_sim.harness.abi import KIND_TEXT, POKE, Kind, Property
from xpulpnn_sim.harness.build import NATIVE
from xpulpnn_sim.harness.engine import BusTiming, Engine
from xpulpnn_sim.harness.models import model_library
from xpulpnn_sim.harness.report import describe
from xpulpnn_sim.harness.statics import VectorProgram
from xpulpnn_sw.asm import assemble

pytestmark = pytest.mark.cosim

BASE = 0x1000
DATA = 0x1000_0000
CONFIG = preset("xpulpnn-full")
DECODER = Decoder(INSNS)


@pytest.fixture(scope="module")
def library():
    return model_library(CONFIG, checked=True)


def program(text, rows=None):
    """Assembled program; ``rows`` replaces table rows by position."""
    words = assemble(text, BASE).words
    insns = [DECODER.decode(word) for word in words]
    for position, key in (rows or {}).items():
        insns[position] = find(*key)
    count = len(words)
    return VectorProgram(
        words=np.array(words, np.uint32),
        pcs=BASE + 4 * np.arange(count, dtype=np.uint32),
        insns=tuple(insns),
        regions=("test",) * count,
        hwloop_end=np.zeros(count, np.bool_),
    )


def run(library, text, sequence=None, *, rows=None, memory=(), timing=None, tamper=None, sparse=False):
    static = program(text, rows)
    windows = [(DATA, np.array(memory, "<u4").view(np.uint8))] if len(memory) else []
    with Engine(library, static, windows, timing=timing, sparse=sparse) as engine:
        if tamper is not None:
            tamper(engine)
        outcome = engine.run([np.array(range(len(static.insns)) if sequence is None else sequence)])
    return outcome, static, windows


def found(outcome):
    return {mismatch.what for mismatch in outcome.mismatches}


def test_sequence_is_right_and_counted(library):
    text = "lui x5, 0x10000\nlw x6, 0(x5)\naddi x6, x6, 1\nsw x6, 4(x5)\nlw x7, 4(x5)"
    outcome, _, windows = run(library, text, memory=[41, 0])
    assert outcome.mismatch_count == 0
    assert outcome.instructions == 5
    assert outcome.stalls["load_use"] == 1
    assert outcome.cycles == outcome.cycles_at.sum() == 5 + 1 + 2  # one interlock, two cycles to the end of WB
    assert windows[0][1].view(np.uint32).tolist() == [41, 42]


def test_wrong_result_is_reported_with_operands(library):
    text = "addi x5, x0, 7\naddi x6, x0, 3\nadd x7, x5, x6\naddi x8, x0, 0"
    outcome, static, _ = run(library, text, rows={2: ("sub", None)})
    assert outcome.mismatch_count == 1
    assert "expected 0x00000004, got 0x0000000a" in describe(static, outcome.mismatches[0], outcome)
    assert "rs1      = 0x00000007" in describe(static, outcome.mismatches[0], outcome)
    assert outcome.mismatches[0].position == 2


def test_wrong_simd_result_is_shown_lane_by_lane(library):
    text = "addi x5, x0, -1\naddi x6, x0, 1\npv.add.h x7, x5, x6"
    outcome, static, _ = run(library, text, rows={2: ("pv.sub.h", None)})
    assert "expected lanes [65534, 65535]" in describe(static, outcome.mismatches[0], outcome)
    assert "got      lanes [0, 0]" not in describe(static, outcome.mismatches[0], outcome)


@pytest.mark.parametrize(
    ("text", "position", "row", "what"),
    [
        ("addi x5, x0, 8\np.lw x6, 4(x5!)", 1, ("p.lw", "rd,rs2(rs1)"), "write enable of the base register"),
        ("addi x5, x0, 8\nlw x6, 4(x5)", 1, ("lh", None), "bytes loaded"),
        ("addi x5, x0, 8\nsw x6, 4(x5)", 1, ("sb", None), "bytes stored"),
        ("addi x5, x0, 8\naddi x6, x5, 0", 1, ("sw", None), "write enable of rd"),
    ],
)
def test_wrong_control_is_reported(library, text, position, row, what):
    outcome, _, _ = run(library, text, rows={position: row}, sparse=True)
    assert what in found(outcome)


def test_source_differs_from_the_sequential_state(library):
    def spoil(engine):
        engine.shadow[0][1][0] ^= 1

    outcome, _, _ = run(library, "lui x5, 0x10000\nlw x6, 0(x5)", memory=[0x55], tamper=spoil)
    assert KIND_TEXT[Kind.LOADED] in found(outcome)
    assert "memory word at 0x10000000 after the run" in found(outcome)


def test_access_outside_the_memory(library):
    outcome, _, _ = run(library, "lui x5, 0x20000\nlw x6, 0(x5)", memory=[1])
    faults = [mismatch for mismatch in outcome.mismatches if mismatch.what == KIND_TEXT[Kind.FAULT]]
    assert [fault.got for fault in faults] == [0x2000_0000]


LOOP = "addi x5, x0, 2\naddi x5, x5, -1\nbne x5, x0, pc-4\naddi x6, x0, 1\njal x0, pc+8\naddi x6, x0, 2\naddi x7, x0, 3"


def test_branches_and_jumps_cost_what_they_should(library):
    outcome, _, _ = run(library, LOOP, [0, 1, 2, 1, 2, 3, 4, 6])
    assert outcome.mismatch_count == 0
    assert outcome.stalls["branch"] == 2
    assert outcome.stalls["jump"] == 1


@pytest.mark.parametrize(
    ("sequence", "what"),
    [
        ([0, 1, 2, 3], KIND_TEXT[Kind.BRANCH_UNEXPECTED]),
        ([0, 1, 2, 1, 2, 1], KIND_TEXT[Kind.STUCK]),
        ([0, 1, 2, 0], KIND_TEXT[Kind.BRANCH_TARGET]),
        ([0, 1, 2, 1, 2, 3, 4, 5], KIND_TEXT[Kind.JUMP_TARGET]),
        ([0, 1, 3], KIND_TEXT[Kind.DISCONTINUITY]),
    ],
)
def test_stream_and_redirects_disagree(library, sequence, what):
    outcome, _, _ = run(library, LOOP, sequence)
    assert what in found(outcome)


def test_branch_of_stream_is_checked_against_the_operands(library):
    # the design takes bne as the stream says, but the row says beq
    outcome, _, _ = run(library, LOOP, [0, 1, 2, 1, 2, 3, 4, 6], rows={2: ("beq", None)})
    assert "next pc" in found(outcome)


def test_illegal_instruction_is_a_trap(library):
    static = program("addi x5, x0, 1\naddi x6, x0, 1")
    static.words[1] = 0xFFFF_FFFF
    with Engine(library, static) as engine:
        outcome = engine.run([np.arange(2)])
    assert KIND_TEXT[Kind.TRAP] in found(outcome)


@pytest.mark.parametrize("timing", [BusTiming(grant_stalls=0.5, seed=3), BusTiming(response_latency=6, seed=4)])
def test_slow_memory_changes_cycles_and_nothing_else(library, timing):
    text = "lui x5, 0x10000\n" + "p.lw x6, 4(x5!)\nadd x7, x7, x6\nsw x7, 60(x5)\n" * 5
    memory = list(range(100, 140))
    ideal, _, [(_, before)] = run(library, text, memory=memory)
    slow, _, [(_, after)] = run(library, text, memory=memory, timing=timing)
    again, _, _ = run(library, text, memory=memory, timing=timing)
    assert ideal.mismatch_count == slow.mismatch_count == 0
    assert slow.cycles > ideal.cycles
    assert slow.cycles == again.cycles
    assert (before == after).all()


def test_pokes_appear_for_the_instruction_at_their_position(library):
    text = "lui x5, 0x20000\nlw x6, 0(x5)\nlw x7, 0(x5)\nlw x8, 0(x5)"
    records = {}
    static = program(text)
    with Engine(library, static, sparse=True) as engine:
        engine.add_pokes(np.array([(2, 0x2000_0000, 11), (3, 0x2000_0000, 22)], POKE))
        outcome = engine.run([np.arange(4)], observe=lambda at, values: records.update(rd=values["rd"].tolist()))
    assert outcome.mismatch_count == 0
    assert records["rd"][1:] == [0, 11, 22]


def test_unchecked_run_takes_the_same_cycles(library):
    plain = model_library(CONFIG, checked=False)
    checked, static, _ = run(library, LOOP, [0, 1, 2, 1, 2, 3, 4, 6])
    with Engine(plain, static, checked=False) as engine:
        outcome = engine.run([np.array([0, 1, 2, 1]), np.array([2, 3, 4, 6])])
    assert outcome.cycles == checked.cycles
    assert outcome.instructions == 8


def test_abi_constants_match_the_source():
    header = (NATIVE / "records.hpp").read_text()
    names = header.split("enum class Kind", 1)[1].split("{", 1)[1].split("}", 1)[0]
    listed = [name for line in names.splitlines() for name in line.split("//")[0].replace(",", " ").split()]
    assert listed[:-1] == [kind.name for kind in Kind]
    flags = header.split("enum Property", 1)[1].split("}", 1)[0]
    for flag in Property:
        assert f"{flag.name} = 1u << {flag.bit_length() - 1}," in flags
