"""The back end fed with a stream: results and cycles are right, and every kind of disagreement is reported."""

from dataclasses import replace

import numpy as np
import pytest
from tests.designs import FULL as CONFIG

from xpulpnn.errors import InputError
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.machine import WATCHDOG_CYCLES, Machine
from xpulpnn_sim.cosimulation.model.schema import POKE
from xpulpnn_sim.cosimulation.model.statics import stream_text
from xpulpnn_sim.cosimulation.workloads import workload
from xpulpnn_sim.cosimulation.workloads.workload import ExecutedStream, run_stream, stream_reference
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.cosim

BASE = 0x1000
DATA = 0x1000_0000
DRAIN = 2
"""Cycles of the last instruction on its way to the end of WB."""


def words_of(text):
    return np.array(assemble(text, BASE).words, np.uint32)


def run(words, sequence=None, memory=(), **options):
    """The stream of the positions in ``sequence``, or of all words one after the other."""
    words = words_of(words) if isinstance(words, str) else words
    pcs = BASE + 4 * np.arange(len(words), dtype=np.uint32)
    windows = {DATA: np.array(memory, "<u4").view(np.uint8)} if len(memory) else {}
    sequence = np.arange(len(words)) if sequence is None else np.array(sequence, np.uint32)
    return run_stream(ExecutedStream(words, pcs, sequence, windows), CONFIG, **options)


@pytest.fixture
def believe(monkeypatch):
    """Makes the check take one instruction for another, so that the design seems to execute it wrongly."""

    def mistake(real, other):
        (raw,), (replacement,) = words_of(real), words_of(other)

        def reference(stream, config):
            lockstep = stream_reference(stream, config)
            decode = lockstep.iss.decode
            lockstep.iss.decode = lambda word: replace(decode(int(replacement) if word == raw else word), raw=word)
            return lockstep

        monkeypatch.setattr(workload, "stream_reference", reference)

    return mistake


@pytest.fixture
def spoil(monkeypatch):
    """Changes a byte of the memory that the check starts from."""

    def change(address):
        def reference(stream, config):
            lockstep = stream_reference(stream, config)
            memory = lockstep.iss.memory
            memory.write(address, 1, memory.read(address, 1) ^ 1)
            return lockstep

        monkeypatch.setattr(workload, "stream_reference", reference)

    return change


def test_sequence_is_right_and_counted():
    text = "lui x5, 0x10000\nlw x6, 0(x5)\naddi x6, x6, 1\nsw x6, 4(x5)\nlw x7, 4(x5)"
    result = run(text, memory=[41, 0], account=True)
    assert (result.exit.reason, result.mismatches, result.instructions) == (Reason.PASS, 0, 5)
    assert result.stalls["load_use"] == 1
    assert result.cycles == 5 + 1 + DRAIN
    assert result.accounts[0][:, WaitCause.NONE].tolist() == [1, 0] * 5 + [0]
    assert np.frombuffer(result.memory[DATA].tobytes(), "<u4").tolist() == [41, 42]


SUM = "addi x5, x0, 7\naddi x6, x0, 3\nadd x7, x5, x6\naddi x8, x0, 0"
LANES = "addi x5, x0, -1\naddi x6, x0, 1\npv.add.h x7, x5, x6"
LOOP = "addi x5, x0, 2\naddi x5, x5, -1\nbne x5, x0, pc-4\naddi x6, x0, 1\njal x0, pc+8\naddi x6, x0, 2\naddi x7, x0, 3"
EXECUTED = [0, 1, 2, 1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("real", "other", "text", "sequence", "position", "expected"),
    [
        (
            "add x7, x5, x6",
            "sub x7, x5, x6",
            SUM,
            None,
            2,
            ["rd_wdata must be 0x00000004, not 0x0000000a", "rs1_rdata=0x00000007"],
        ),
        (
            "pv.add.h x7, x5, x6",
            "pv.sub.h x7, x5, x6",
            LANES,
            None,
            2,
            ["be lanes [65534, 65535]", "are lanes [0, 65535]"],
        ),
        (
            "p.lw x6, 0(x5!)",
            "lw x6, 0(x5)",
            "addi x5, x0, 8\np.lw x6, 0(x5!)",
            None,
            1,
            ["base_addr must be none, not t0"],
        ),
        # the design takes bne as the stream says, but the check thinks it is beq
        ("bne x5, x0, pc-4", "beq x5, x0, pc-4", LOOP, EXECUTED, 3, ["pc_rdata must be 0x0000100c, not 0x00001004"]),
    ],
)
def test_wrong_instruction_is_reported(believe, real, other, text, sequence, position, expected):
    believe(real, other)
    result = run(text, sequence, sparse=real.startswith("p.lw"))
    assert (result.exit.reason, result.mismatch_position) == (Reason.DIFFERENCE, position)
    assert [part for part in expected if part not in result.difference] == []


def test_loaded_value_differs_from_the_memory(spoil):
    spoil(DATA)
    result = run("lui x5, 0x10000\nlw x6, 0(x5)", memory=[0x55])
    assert result.mismatch_position == 1
    assert "mem_rdata must be 0x00000054, not 0x00000055, address 0x10000000" in result.difference


def test_memory_differs_after_the_run(spoil):
    spoil(DATA + 5)
    result = run("lui x5, 0x10000\nlw x6, 0(x5)", memory=[0x55, 0])
    assert (result.exit.reason, result.mismatches, result.mismatch_position) == (Reason.DIFFERENCE, 1, None)
    assert result.difference == "memory word at 0x10000004 must be 0x100 after the run, not 0x0"


@pytest.mark.parametrize("check", [True, False])
def test_access_outside_the_memory(check):
    result = run("lui x5, 0x20000\nlw x6, 0(x5)\nnop\nnop\nnop", memory=[1], check=check)
    assert (result.exit.reason, result.exit.address, result.mismatches) == (Reason.BAD_ACCESS, 0x2000_0000, 1)
    assert result.difference.startswith("load of 4 bytes outside memory: address 0x20000000, instruction at 0x00001004")


def test_branches_and_jumps_cost_what_they_should():
    result = run(LOOP, EXECUTED, account=True)
    assert (result.mismatches, result.instructions) == (0, len(EXECUTED))
    assert result.stalls["branch"] == 2
    assert result.stalls["jump"] == 1
    assert result.cycles == len(EXECUTED) + 2 + 1 + DRAIN


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("sequence", "line"),
    [
        ([0, 1, 2, 3], "next pc of instruction 2 must be 0x0000100c, not 0x00001004"),
        ([0, 1, 2, 0], "next pc of instruction 2 must be 0x00001000, not 0x00001004"),
        ([0, 1, 2, 1, 2, 3, 4, 5], "next pc of instruction 6 must be 0x00001014, not 0x00001018"),
    ],
)
def test_stream_and_redirects_disagree(sequence, line, check):
    result = run(LOOP, sequence, check=check)
    assert (result.exit.reason, result.mismatches, result.difference) == (Reason.DIFFERENCE, 1, line)


def test_jump_that_the_stream_does_not_have(monkeypatch):
    def plain(words, pcs):
        text = stream_text(words, pcs)
        text["insn_class"] = 0
        return text

    monkeypatch.setattr(workload, "stream_text", plain)
    result = run(LOOP, [3, 4, 6], check=False)
    assert (result.exit.reason, result.mismatch_position) == (Reason.DIFFERENCE, 1)
    assert result.difference.endswith(", not 0x00001018")


ILLEGAL = [*words_of(SUM)[:2], 0xFFFF_FFFF]


@pytest.mark.parametrize(
    ("words", "sequence", "reason", "text"),
    [
        # a branch that the design does not take, a sequence that no program counter takes, a trap
        (LOOP, [0, 1, 2, 1, 2, 1], Reason.STUCK, f"not retired an instruction for {WATCHDOG_CYCLES} cycles"),
        (LOOP, [0, 1, 3], Reason.DIFFERENCE, "pc_rdata must be 0x00001008, not 0x0000100c"),
        (np.array(ILLEGAL, np.uint32), [0, 1, 2], Reason.DIFFERENCE, "trap must be 0, not 1"),
    ],
)
def test_streams_that_cannot_be(words, sequence, reason, text):
    result = run(words, sequence)
    assert (result.exit.reason, text in result.difference) == (reason, True)
    assert result.mismatch_position == (2 if reason is Reason.DIFFERENCE else None)


def test_slow_memory_changes_cycles_and_nothing_else():
    machine = Machine(grant_stalls=0.5, response_latency=6, seed=3)
    text = "lui x5, 0x10000\n" + "p.lw x6, 4(x5!)\nadd x7, x7, x6\nsw x7, 60(x5)\n" * 5
    memory = list(range(100, 140))
    ideal = run(text, memory=memory)
    slow, again = (run(text, memory=memory, machine=machine, account=True) for _ in range(2))
    assert ideal.mismatches == slow.mismatches == 0
    assert slow.cycles > ideal.cycles
    assert slow.cycles == again.cycles
    assert min(slow.stalls["grant"], slow.stalls["response"]) > 0
    assert (ideal.memory[DATA] == slow.memory[DATA]).all()


def test_pokes_appear_for_the_instruction_at_their_position():
    text = "lui x5, 0x20000\nlw x6, 0(x5)\nlw x7, 0(x5)\nlw x8, 0(x5)"
    loaded = []
    pokes = np.array([(2, 0x2000_0000, 11), (3, 0x2000_0000, 22)], POKE)
    run(
        text,
        sparse=True,
        pokes=pokes,
        check=False,
        observer=lambda records: loaded.extend(records[0]["rd_wdata"].tolist()),
    )
    assert loaded[1:] == [0, 11, 22]


def test_unchecked_run_takes_the_same_cycles(monkeypatch):
    checked = run(LOOP, EXECUTED, account=True)
    progress = []
    monkeypatch.setattr(workload, "CHUNK_CYCLES", 3)
    pieces = run(LOOP, EXECUTED, check=False, account=True, progress=progress.append)
    assert pieces.cycles == checked.cycles
    assert pieces.instructions == sum(progress) == len(EXECUTED)
    assert len(progress) > 2
    assert (pieces.accounts[0] == checked.accounts[0]).all()


def test_nothing_to_execute():
    result = run(LOOP, [])
    assert (result.exit.reason, result.instructions, result.mismatches) == (Reason.PASS, 0, 0)


def test_memory_must_be_whole_words():
    pcs = np.zeros(1, np.uint32)
    with pytest.raises(InputError) as caught:
        run_stream(ExecutedStream(words_of("nop"), pcs, np.zeros(1), {DATA: np.zeros(6, np.uint8)}), CONFIG)
    assert str(caught.value) == "memory window must be whole words, not 6 bytes at 0x10000000"
