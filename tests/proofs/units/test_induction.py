# amaranth: UnusedElaboratable=no
"""Promises of arbiters and event unit are proved, and refuted as soon as the hardware is wrong."""

from contextlib import nullcontext
from copy import copy
from functools import cache

import pytest
from tests.programs import read_results

from xpulpnn.config import ClusterConfig
from xpulpnn.core.regfile import RegFile
from xpulpnn.errors import ToolError
from xpulpnn_sim.cli import prove_modules
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.proofs.cluster.arbiter import ArbiterClaims
from xpulpnn_sim.proofs.cluster.obligation import PROVED, REFUTED, TOP, Obligation
from xpulpnn_sim.proofs.cluster.parts import PARTS
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.engine.outcomes import Outcome
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.units.induction import prove_by_induction, prove_number
from xpulpnn_sim.proofs.units.register_file import RegFileClaims
from xpulpnn_sim.proofs.units.unit_proof import UNDECIDED

pytestmark = pytest.mark.flow

SMALL = ClusterConfig(cores=2, barriers=1, sw_events=2, dispatch_depth=2, dma=False)
TIMEOUT_S = 30
OBLIGATIONS = [each for part in PARTS.values() for each in part(SMALL)]


emitted = cache(lambda obligation: obligation.emit().text)


def findings(obligation: Obligation, text: str) -> dict[str, Outcome]:
    return {outcome.name: outcome for outcome in prove_by_induction(obligation, text, timeout_s=TIMEOUT_S)}


@pytest.mark.parametrize("obligation", OBLIGATIONS, ids=[each.title for each in OBLIGATIONS])
def test_claims_hold(obligation):
    verdicts = {claim: finding.verdict for claim, finding in findings(obligation, emitted(obligation)).items()}
    assert verdicts == {claim: REFUTED if claim in obligation.refuted else PROVED for claim in obligation.claims}


LOST = Fault(RegFile, "", "net.in_a", "right | net.in_a", "")
"""Port B's write is not seen where port A has written before."""


@pytest.mark.parametrize(("fault", "verdict"), [(nullcontext(), PROVED), (LOST.seeded(), REFUTED)])
def test_a_register_in_lut_ram_shows_the_last_write(fault, verdict):
    obligation = RegFileClaims("lut-ram", pairs=True)
    with fault:
        gates = clocked_gates(obligation.emit().text, TOP)
    outcomes = prove_number(obligation, gates, 3, timeout_s=TIMEOUT_S)
    assert [outcome.verdict for outcome in outcomes] == [verdict] * 3


COMPLETE = "(state__status == state__trigger_mask)"
NEXT = "(state__status & ~{2{complete}}) | own | (named_by_1 | named_by_0)"
CORE, BARRIER, MUTEX, QUEUE, WAY, BUS, HALTS, TRANSPORT, SHARE, HARTS, COMMANDS = OBLIGATIONS[-11:]
COUNTER, STRICT = ArbiterClaims(4, "counter"), ArbiterClaims(4, "strict")
FAULTS = {
    "two are granted, the counter stands still": (
        COUNTER,
        ("assign gnt = ", "assign gnt = req[0] ? 4'b0011 & req : ", "one"),
        ("preferred + 2'h1", "preferred", "bounded"),
    ),
    "somebody is granted who does not ask": (COUNTER, ("assign gnt = ", "assign gnt = 4'b1 ^ ", "asked")),
    "nobody is granted, the last winner is forgotten": (
        STRICT,
        ("assign gnt = ", "assign gnt = (&req) ? 4'b0 : ", "busy"),
        ("above <= {", "above <= 4'h0 & {", "bounded"),
    ),
    "events are lost in a clear, a core wakes for nothing, an access is granted on top": (
        CORE,
        ("(events & 32'hc10c03)", "(events & 32'hc10c03 & ~cleared)", "kept"),
        ("wait_over = |active", "wait_over = 1'b1", "patient"),
        ("port__gnt = waits_for == WAIT_NONE", "port__gnt = 1'b1", "orderly"),
    ),
    "a mask has bits it should not, a load is not answered": (
        CORE,
        ("event_mask <= wdata & 32'hc10c03", "event_mask <= wdata", "masked"),
        ("port__rvalid <= begins == WAIT_NONE", "port__rvalid <= 1'b0", "prompt"),
    ),
    "what is told stays": (CORE, ("& ~(active & {32{wait_over & (waits_for == WAIT_EVENT_CLEAR)}})", "", "genuine")),
    "an event wakes nobody": (CORE, ("wait_over = |active", "wait_over = &active", "waits")),
    "a core waits for the wrong thing": (CORE, ("begins = WAIT_WORD", "begins = WAIT_EVENT", "honest")),
    "nothing is granted": (CORE, ("port__gnt = waits_for == WAIT_NONE", "port__gnt = 1'b0", "willing")),
    "a barrier opens early, and twice": (
        BARRIER,
        (COMPLETE, "(|(state__status & state__trigger_mask))", "not_early"),
        (NEXT, "state__status | own | (named_by_1 | named_by_0)", "not_twice"),
    ),
    "a barrier stays shut, the next round's trigger is lost": (
        BARRIER,
        (COMPLETE, "(&state__status)", "not_late"),
        (NEXT, f"{{2{{~complete}}}} & ({NEXT})", "status"),
    ),
    "a mutex has two owners, goes to all, is not unlocked by a store": (
        MUTEX,
        ("if (|granted) locked", "if (&granted) locked", "exclusive"),
        ("waiting & (-waiting)", "waiting", "one"),
        ("message <= accesses__0__data", "locked <= locked", "free"),
    ),
    "a mutex is not given": (MUTEX, ("waiting & (-waiting)", "waiting & {2{waiting[0]}} & 2'h1", "served")),
    "words are overwritten, pushed together, not there, given twice": (
        QUEUE,
        ("((place_1 ^ tail) == 2'h2) ? 1'b1 : ", "", "room"),
        ("pushing & (-pushing)", "pushing", "one"),
        ("popping[0] & has_word_0", "popping[0]", "waits"),
        ("place_0 <= place_0 + 2'h1", "place_0 <= place_0 + {1'h0, in_team_1}", "passes"),
    ),
    "a way asks both places, in the wrong half, too early, counts no answers, loses some": (
        WAY,
        ("hart__req & ~to_debug & free", "hart__req & free", "one"),
        ("hart__addr[31:12] == 20'h1a110", "hart__addr[31:13] == 19'hd088", "right"),
        ("(to_debug == last)", "1'b1", "ordered"),
        (" - {2'h0, hart__rvalid}", "", "counted"),
        ("last ? debug__rvalid : others__rvalid", "last ? others__rvalid : debug__rvalid", "passed"),
    ),
    "the bus is asked for another address, before the answer, in spite of an error, which is not told": (
        BUS,
        ("(access__addr == 7'h39) & ~busy) address", "(access__addr == 7'h39)) address", "steady"),
        ("if (state == BUS_STATE_REQUESTED) bus__req", "if (state != BUS_STATE_IDLE) bus__req", "alone"),
        ("GRANTED: if (bus__rvalid) state", "GRANTED: if (bus__rvalid & ~bus__err) state", "busy"),
        ("& ~busy_error & (error == 3'h0)", "& ~busy_error", "silent"),
        ("if (bus__rvalid & bus__err) error", "if (bus__rvalid & bus__err & ~bus__we) error", "told"),
        ("{10'h0, busy, 21'h0}", "{10'h0, bus__req, 21'h0}", "read"),
    ),
    "a core that is to halt waits on, what is broken off is forgotten, or is not triggered by others": (
        HALTS,
        ("port__rvalid <= 1'b1", "port__rvalid <= ~debug_mode", "ends"),
        (" wait_aborted <= 1'b1", " wait_aborted <= waits_for == WAIT_EVENT", "remembered"),
        ("(access__offset == waited_at) & ~debug_mode", "(access__offset == waited_at)", "all"),
    ),
    "an access is made twice, is another, is refused in silence, and so is an outcome": (
        TRANSPORT,
        ("dmi__valid = request_sync_1 & ~done", "dmi__valid = request_sync_1", "once"),
        ("dmi__addr <= shifted[40:34]", "dmi__addr <= shifted[39:33]", "same"),
        (" sticky <= 1'b1", " sticky <= sticky", "refused"),
        ("sticky <= sticky | request", "sticky <= sticky", "told"),
    ),
    "an access is taken back before it is made, while the module looks at it": (
        TRANSPORT,
        ("done_sync_0 <= done;", "done_sync_0 <= request_sync_0;", "made"),
        ("else if (answered) request <= 1'b0", "else request <= 1'b0", "steady"),
    ),
    "an access is never made, an answer comes by itself": (
        TRANSPORT,
        ("request_sync_1 <= request_sync_0;", "request_sync_1 <= request_sync_0 & request_sync_1;", "prompt"),
        (" done <= request_sync_1;", " done <= ~done;", "order"),
    ),
    "an answer never comes": (TRANSPORT, (" done <= request_sync_1;", " done <= 1'b0;", "settles")),
    "a fetch is granted beside an access, is a store, an answer is the other's": (
        SHARE,
        ("instr__gnt = memory__gnt & ~data__req", "instr__gnt = memory__gnt", "one"),
        ("memory__we = data__req & data__we", "memory__we = data__we", "whole"),
        ("last <= data__req", "last <= data__req & data__we", "answered"),
    ),
    "a request to halt stays, resumed harts are halted, running ones resume, nothing asks for another answer": (
        HARTS,
        ("(debug_req & ~addressed)", "debug_req", "asked"),
        ("(halted | halts) & ~resumes & ~reset", "(halted | halts) & ~reset", "halted"),
        ("2'h0) & halted))", "2'h0)))", "resumes"),
        ("(resume_ack | resumes) & ~((", "(resume_ack | resumes) & ~(2'h0 & (", "acknowledged"),
    ),
    "commands are lost, begin on harts that run, begin again, end with others, are changed, in silence": (
        COMMANDS,
        (" | (|(touched & auto));", ";", "taken"),
        ("(!(|(halted & selected)))", "(1'b0)", "looked"),
        ("if (going | exception) going_2", "if (exception) going_2", "told"),
        ("(|(halts & target_mask))", "(|halts)", "ends"),
        ("(access__addr == 7'h24) & ~busy) program__4", "(access__addr == 7'h24)) program__4", "steady"),
        (" error <= COMMAND_ERROR_BUSY", " error <= access__reads ? COMMAND_ERROR_BUSY : error", "refused"),
        ("{15'h4000, busy, 12'h0}", "{15'h4000, under_way, 12'h0}", "read"),
    ),
    "a barrier is triggered twice": (
        HALTS,
        ("repeats ? 1'b0 : own & ~port__we", "repeats ? own & port__addr[2] : own & ~port__we", "once"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_refuted(name):
    """Some faults at a time, each of which another claim is wrong for."""
    whole, *faults = FAULTS[name]
    obligation = copy(whole)
    obligation.claims = {claim: whole.claims[claim] for _, _, claim in faults}
    text = emitted(whole)
    for old, new, _ in faults:
        assert text.count(old) == 1, f"{old} must be in the text once"
        text = text.replace(old, new)
    for claim, finding in findings(obligation, text).items():
        assert (finding.verdict, finding.trace[-1][claim], finding.trace[0]["rst"]) == (REFUTED, 0, 1)


def test_every_claim_has_a_fault():
    refuted = {(whole.title.split()[0], claim) for whole, *faults in FAULTS.values() for _, _, claim in faults}
    claims = {(each.title.split()[0], claim) for each in OBLIGATIONS for claim in each.claims}
    # the state of an arbiter is a step of the proof of its bound
    assert claims - refuted == {("arbiter", "valid")}


def test_proof_that_looks_back_too_little_is_undecided():
    short = ArbiterClaims(4, "counter")
    short.depth = 1
    reported = findings(short, short.emit().text)
    assert {claim: each.verdict for claim, each in reported.items() if each.verdict != PROVED} == {"bounded": UNDECIDED}
    assert reported["bounded"].trace


def test_unknown_register_is_told():
    wrong = ArbiterClaims(4, "counter")
    wrong.registers = {"state": "nowhere"}
    with pytest.raises(ToolError, match=r"^arbiter counter, 4 inputs must have a register nowhere$"):
        findings(wrong, wrong.emit().text)


def run(words: list[str]) -> int:
    return execute_command(["prove", "cluster", *words])


def test_command_writes_table_and_records(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prove_modules, "PARTS", {"arbiter": lambda config: [ArbiterClaims(config.cores, "fixed")]})
    assert run(["arbiter", "--set", "cores=2", "--json", str(tmp_path / "proofs.json")]) == 0
    assert "refuted, as must be" in capsys.readouterr().out
    (record,) = read_results(tmp_path / "proofs.json")
    assert record["unit"] == "arbiter fixed, 2 inputs"
    assert {claim["verdict"] for claim in record["claims"]} == {PROVED, REFUTED}


def test_command_fails_and_shows_the_cycles(monkeypatch, capsys):
    fixed = ArbiterClaims(2, "fixed")
    fixed.refuted = frozenset()
    monkeypatch.setattr(prove_modules, "PARTS", {"arbiter": lambda _: [fixed]})
    assert run([]) == 1
    waits = "a request that stays waits for at most inputs - 1 grants"
    assert f"{waits}: refuted\n  cycle 0: " in capsys.readouterr().out
