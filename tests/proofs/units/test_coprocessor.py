# amaranth: UnusedElaboratable=no
"""Promises of the coprocessor are proved, and refuted as soon as the hardware is wrong."""

import re
from dataclasses import replace
from functools import cache

import pytest

from xpulpnn.errors import ConfigError
from xpulpnn.xif.config import XIF_PRESETS
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.proofs.cluster.obligation import PROVED, TOP
from xpulpnn_sim.proofs.coprocessor.offload import OffloadClaims
from xpulpnn_sim.proofs.coprocessor.steps import StepsClaims
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.units.induction import _Cycles, prove_by_induction

pytestmark = pytest.mark.flow

TIMEOUT_S = 60
CYCLES = {"steps": 14, "single": 14}  # from a reset, in which faults show; of others 6


def small(preset, **settings):
    return replace(XIF_PRESETS[preset], simd=False, mixed_weights=False, **settings)


UNITS = {
    "standard": OffloadClaims("standard", small("xif", memory="obi", id_bits=3)),
    "orphans": OffloadClaims("orphans", small("cv32e40x", id_bits=2)),
    "alone": OffloadClaims("alone", small("cve2", id_bits=2)),
    "steps": StepsClaims(small("xif", memory="obi")),
    "single": StepsClaims(small("xif", memory="xif", dots="1")),
}
FAULT_TABLE = """
== standard
once: with_kill = |killed ~> with_kill = 1'b0
committed: ready = used[0] & ~waiting_next[0] & ~dropped_next[0] ~> ready = used[0] & ~dropped_next[0]
steady: taken = used[0] & result__ready ~> taken = used[0]
still: wire go = valid & ~(( ~> wire go = ~((
moves: (space | (|phase))) phase <= phase + 2'h1 ~> (space | (|phase))) phase <= phase + 2'h2
queue: committed = {waiting[1] & hit[1] & ~commit__kill, ~> committed = {waiting[1] & (|hit) & ~commit__kill,
results: used <= rest | {push & rest[0], ~> used <= rest | {push & used[0],
== orphans
once: dropped_next = dropped | killed ~> dropped_next = dropped
== orphans
offers: space = ~used[1] | ((&waiting) & ~commit__valid) ~> space = ~used[1]
queue: ((&waiting) & ~commit__valid) ~> (&waiting)
queue: (waiting[1] & push))} ~> 1'b0)}
moves: ((|hit) | (waiting[1] & push)) ~> (waiting[1] & push)
== alone
offers: alone = queue_empty & results_empty ~> alone = queue_empty
== steps
arrived: 3'h4: product_selected = 3'h4 ~> 3'h4: product_selected = 3'h3
kept: 3'h0: req_selected = 3'h4 ~> 3'h0: req_selected = 3'h5
once: later_pixels = made[2] ~> later_pixels = made[1]
addresses: if (is_weight) weights ~> if (~is_weight) weights
steady: assign addr = is_weight ? ~> assign addr = (is_weight | gnt) ?
all: busy = running | (requested != arrived) ~> busy = running
progress: 3'h4: product_selected = 3'h4 ~> 3'h4: product_selected = 3'h7
counted: if (stop) left <= 10'h0; ~> if (stop) left <= 10'h1;
== single
once: odd_pixel <= ~odd_pixel ~> odd_pixel <= 1'b1
"""
"""Faults ``CLAIM: TEXT ~> WRONG TEXT``, each in the unit above it alone."""


emitted = cache(lambda unit: UNITS[unit].emit().text)


def faults():
    for block in FAULT_TABLE.removeprefix("\n== ").split("\n== "):
        unit, *rows = block.strip().split("\n")
        for row in rows:
            yield unit, *re.fullmatch(r"(\w+): (.*) ~> ?(.*)", row).groups()


@pytest.mark.parametrize("unit", ["orphans", "steps"])
def test_promises_are_kept(unit):
    outcomes = prove_by_induction(UNITS[unit], emitted(unit), timeout_s=TIMEOUT_S)
    assert {outcome.name: outcome.verdict for outcome in outcomes} == dict.fromkeys(UNITS[unit].claims, PROVED)


@pytest.mark.parametrize(("unit", "claim", "old", "new"), list(faults()))
def test_faults_are_refuted(unit, claim, old, new):
    text = emitted(unit)
    assert text.count(old) == 1, f"{old} must be in the text once"
    gates = clocked_gates(text.replace(old, new), TOP, UNITS[unit].cutpoints)
    trace = _Cycles(UNITS[unit], gates, CYCLES.get(unit, 6), TIMEOUT_S, 0, resets=True).wrong([claim], since=1)[claim]
    assert trace
    assert trace[-1][claim] == 0


def test_every_promise_has_a_fault():
    refuted = {(unit == "steps", claim) for unit, claim, _, _ in faults()}
    assert refuted >= {(unit == "steps", claim) for unit in ("standard", "steps") for claim in UNITS[unit].claims}


def test_command_refuses_a_coprocessor_without_accumulators():
    message = "^accumulators must be true for proofs of the coprocessor, not false$"
    with pytest.raises(ConfigError, match=message):
        execute_command(["prove", "coprocessor", "--set", "accumulators=off"])
