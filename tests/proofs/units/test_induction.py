# amaranth: UnusedElaboratable=no
"""Promises of arbiters and event unit are proved, and refuted as soon as the hardware is wrong."""

import re
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


LOST = Fault(RegFile, "", "net.in_a", "right | net.in_a")
"""Port B's write is not seen where port A has written before."""


@pytest.mark.parametrize(("fault", "verdict"), [(nullcontext(), PROVED), (LOST.seeded(), REFUTED)])
def test_a_register_in_lut_ram_shows_the_last_write(fault, verdict):
    obligation = RegFileClaims("lut-ram", pairs=True)
    with fault:
        gates = clocked_gates(obligation.emit().text, TOP)
    outcomes = prove_number(obligation, gates, 3, timeout_s=TIMEOUT_S)
    assert [outcome.verdict for outcome in outcomes] == [verdict] * 3


COUNTER, STRICT = ArbiterClaims(4, "counter"), ArbiterClaims(4, "strict")
NAMES = ("core", "barrier", "mutex", "queue", "way", "bus", "halts", "transport", "share", "harts", "commands")
UNITS = {"counter": COUNTER, "strict": STRICT, **dict(zip(NAMES, OBLIGATIONS[-11:], strict=True))}
NEXT = "(state__status & ~{2{complete}}) | own | (named_by_1 | named_by_0)"
FAULT_TABLE = """
== counter
one: assign gnt = ~> assign gnt = req[0] ? 4'b0011 & req :
bounded: preferred + 2'h1 ~> preferred
== counter
asked: assign gnt = ~> assign gnt = 4'b1 ^
== strict
busy: assign gnt = ~> assign gnt = (&req) ? 4'b0 :
bounded: above <= { ~> above <= 4'h0 & {
== core
kept: (events & 32'hc10c03) ~> (events & 32'hc10c03 & ~cleared)
patient: wait_over = |active ~> wait_over = 1'b1
orderly: port__gnt = waits_for == WAIT_NONE ~> port__gnt = 1'b1
== core
masked: event_mask <= wdata & 32'hc10c03 ~> event_mask <= wdata
prompt: port__rvalid <= begins == WAIT_NONE ~> port__rvalid <= 1'b0
== core
genuine: & ~(active & {32{wait_over & (waits_for == WAIT_EVENT_CLEAR)}}) ~>
== core
waits: wait_over = |active ~> wait_over = &active
== core
honest: begins = WAIT_WORD ~> begins = WAIT_EVENT
== core
willing: port__gnt = waits_for == WAIT_NONE ~> port__gnt = 1'b0
== barrier
not_early: (state__status == state__trigger_mask) ~> (|(state__status & state__trigger_mask))
not_twice: NEXT ~> state__status | own | (named_by_1 | named_by_0)
== barrier
not_late: (state__status == state__trigger_mask) ~> (&state__status)
status: NEXT ~> {2{~complete}} & (NEXT)
== mutex
exclusive: if (|granted) locked ~> if (&granted) locked
one: waiting & (-waiting) ~> waiting
free: message <= accesses__0__data ~> locked <= locked
== mutex
served: waiting & (-waiting) ~> waiting & {2{waiting[0]}} & 2'h1
== queue
room: ((place_1 ^ tail) == 2'h2) ? 1'b1 : ~>
one: pushing & (-pushing) ~> pushing
waits: popping[0] & has_word_0 ~> popping[0]
passes: place_0 <= place_0 + 2'h1 ~> place_0 <= place_0 + {1'h0, in_team_1}
== way
one: hart__req & ~to_debug & free ~> hart__req & free
right: hart__addr[31:12] == 20'h1a110 ~> hart__addr[31:13] == 19'hd088
ordered: (to_debug == last) ~> 1'b1
counted:  - {2'h0, answered} ~>
passed: last ? debug__rvalid : others__rvalid ~> last ? others__rvalid : debug__rvalid
== way
counted: hart_reset | (stale & (|under_way)) ~> hart_reset
passed: hart__rvalid = answered & ~stale ~> hart__rvalid = answered
== way
counted: (under_way != 3'h7) & ~stale ~> (under_way != 3'h7)
== bus
steady: (access__addr == 7'h39) & ~busy) address ~> (access__addr == 7'h39)) address
alone: if (state == BUS_STATE_REQUESTED) bus__req ~> if (state != BUS_STATE_IDLE) bus__req
busy: GRANTED: if (bus__rvalid) state ~> GRANTED: if (bus__rvalid & ~bus__err) state
silent: & ~busy_error & (error == 3'h0) ~> & ~busy_error
told: if (bus__rvalid & bus__err) error ~> if (bus__rvalid & bus__err & ~bus__we) error
read: {10'h0, busy, 21'h0} ~> {10'h0, bus__req, 21'h0}
== halts
ends: port__rvalid <= 1'b1 ~> port__rvalid <= ~debug_mode
remembered:  wait_aborted <= 1'b1 ~>  wait_aborted <= waits_for == WAIT_EVENT
all: (access__offset == waited_at) & ~debug_mode ~> (access__offset == waited_at)
== transport
once: dmi__valid = value_2 & ~data_2 ~> dmi__valid = value_2
same: dmi__addr <= shifted[40:34] ~> dmi__addr <= shifted[39:33]
refused:  sticky <= 1'b1 ~>  sticky <= sticky
told: sticky <= sticky | data ~> sticky <= sticky
== transport
made: stages_2 <= {stages_2[0], data_2}; ~> stages_2 <= {stages_2[0], stages[0]};
steady: else if (answered) data <= 1'b0 ~> else data <= 1'b0
== transport
prompt: stages <= {stages[0], data}; ~> stages <= {&stages, data};
order: data_2 <= value_2; ~> data_2 <= ~data_2;
== transport
settles: data_2 <= value_2; ~> data_2 <= 1'b0;
== share
one: instr__gnt = memory__gnt & ~data__req ~> instr__gnt = memory__gnt
whole: memory__we = data__req & data__we ~> memory__we = data__we
answered: last <= data__req ~> last <= data__req & data__we
== harts
asked: (debug_req & ~addressed) ~> debug_req
halted: (halted | halts) & ~resumes & ~reset ~> (halted | halts) & ~reset
resumes: 2'h0) & halted)) ~> 2'h0)))
acknowledged: (resume_ack | resumes) & ~(( ~> (resume_ack | resumes) & ~(2'h0 & (
== commands
taken:  | (|(touched & auto)); ~> ;
looked: (!(|(halted & selected))) ~> (1'b0)
told: if (going | exception) going_2 ~> if (exception) going_2
ends: (|(halts & target_mask)) ~> (|halts)
steady: (access__addr == 7'h24) & ~busy) program__4 ~> (access__addr == 7'h24)) program__4
refused:  error <= COMMAND_ERROR_BUSY ~>  error <= access__reads ? COMMAND_ERROR_BUSY : error
read: {15'h4000, busy, 12'h0} ~> {15'h4000, under_way, 12'h0}
== halts
once: repeats ? 1'b0 : own & ~port__we ~> repeats ? own & port__addr[2] : own & ~port__we
== halts
willing: port__gnt = waits_for == WAIT_NONE ~> port__gnt = 1'b1
"""
"""Faults ``CLAIM: TEXT ~> WRONG TEXT``, below the unit that has them at the same time; each refutes another claim."""


def batches() -> list[tuple[str, list[tuple[str, ...]]]]:
    blocks = FAULT_TABLE.replace("NEXT", NEXT).strip().removeprefix("== ").split("\n== ")
    return [(block.split("\n")[0], re.findall(r"^(\w+): (.*) ~> ?(.*)$", block, re.MULTILINE)) for block in blocks]


FAULTS = batches()


@pytest.mark.parametrize(("unit", "faults"), FAULTS)
def test_faults_are_refuted(unit, faults):
    whole = UNITS[unit]
    obligation = copy(whole)
    obligation.claims = {claim: whole.claims[claim] for claim, _, _ in faults}
    text = emitted(whole)
    for _, old, new in faults:
        assert text.count(old) == 1, f"{old} must be in the text once"
        text = text.replace(old, new)
    for claim, finding in findings(obligation, text).items():
        assert (finding.verdict, finding.trace[-1][claim], finding.trace[0]["rst"]) == (REFUTED, 0, 1)


def test_every_claim_has_a_fault():
    refuted = {(UNITS[unit].title.split()[0], claim) for unit, faults in FAULTS for claim, _, _ in faults}
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
