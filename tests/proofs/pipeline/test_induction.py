"""The proof of every cycle: its step, what it proves of a core, and what it fails at."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.abc_program import ABC, needs_abc

from xpulpnn.config import CoreConfig, preset
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PROVED
from xpulpnn_sim.proofs.faults.catalog import CORE_FAULTS
from xpulpnn_sim.proofs.pipeline.catalog import PipelineProperty, pipeline_properties
from xpulpnn_sim.proofs.pipeline.harness_gates import EmittedHarness, emit_harness
from xpulpnn_sim.proofs.pipeline.proof import PropertyGraph, Prover
from xpulpnn_sim.tools.yosys import find_yosys

needs_native = pytest.mark.skipif(not shutil.which("yosys"), reason="the wheel takes twice as long as a native yosys")

_BESIDE_BUSES = ("backend/rvfi_tap", "backend/stall_monitor", "core/csr_file", "id_stage/csr_check")
"""Parts of a core without which requests are as they must be, left out to save time."""


def test_step(tmp_path: Path):
    """A latch that becomes what the input is, and is wrong when it is 1."""
    ports = "input clk, input go, output reg wrong_small = 0, output broken_small"
    text = (
        f"module small({ports});\n    assign broken_small = 0;\n    always @(posedge clk) wrong_small <= go;\nendmodule"
    )
    gates = clocked_gates(text, "small")

    def wrong(frames: list[list[int]], rule: PipelineProperty, **how: object) -> list[int]:
        graph = PropertyGraph(gates, rule, **how)
        violation = graph.after_good_cycle(graph.wrong)
        inputs = graph.aiger([violation]).inputs
        ones = [{literal for literal, bit in zip(inputs, frame, strict=True) if bit} for frame in frames]
        return [each["found"] for each in graph.replay(ones, {"found": [violation]})]

    rule = PipelineProperty(name="small", statement="", cutpoints=())
    # inputs of each cycle: the latch in the first one, and that of the design
    assert wrong([[0, 1], [0, 0], [0, 0]], rule, any_but=()) == [0, 1, 0]
    assert wrong([[0, 0], [1, 0], [1, 1]], rule, any_but=()) == [0, 0, 0]
    # a state in which something is wrong already says nothing
    assert wrong([[1, 1], [0, 1]], rule, any_but=()) == [0, 0]
    # where it says something if only invariants must hold there
    assert wrong([[1, 1], [0, 1]], replace(rule, within=1), any_but=()) == [0, 1]
    assert wrong([[1], [0], [0]], rule, any_but=gates.ports["wrong_small"]) == [0, 1, 0]


smallest = cache(lambda: emit_harness(preset("ri5cy")))


@pytest.fixture(name="prover")
def prover_in(tmp_path: Path) -> Prover:
    """The tools that are used unless others are asked for."""
    return Prover(folder=tmp_path, yosys=find_yosys(), abc=ABC, timeout_s=60)


@pytest.mark.flow
@needs_abc
@pytest.mark.parametrize("name", ["interrupts", "system"])
def test_proved_of_every_cycle(prover: Prover, name: str):
    """Properties of the smallest preset that take least; `xpulpnn prove pipeline` proves all, and other presets."""
    harness = smallest()
    rule = next(rule for rule in pipeline_properties(harness.description.config) if rule.name == name)
    outcome = prover.prove(rule, harness)
    assert (outcome.verdict, outcome.broken, outcome.trace) == (PROVED, (), ())
    assert replace(prover, resume=True, abc="none").prove(rule, harness).verdict == PROVED


def buses(harness: EmittedHarness) -> PipelineProperty:
    rule = next(rule for rule in pipeline_properties(harness.description.config) if rule.name == "obi")
    reads = tuple(f"id_stage/rs{number}_read" for number in (1, 2, 3))
    return replace(rule, cutpoints=(*rule.cutpoints, *_BESIDE_BUSES, *reads))


@pytest.mark.flow
@needs_abc
@needs_native
def test_a_fault_is_found(prover: Prover):
    dotp = replace(CoreConfig().dotp, widths=frozenset({16}))
    fault = next(each for each in CORE_FAULTS if each.name == "a second access before the first is answered")
    with fault.seeded():
        harness = emit_harness(CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=dotp))
    outcome = replace(prover, yosys=find_yosys("native")).prove(buses(harness), harness)
    assert (outcome.verdict, outcome.parts) == (FAILED, ["data too many"])
    assert outcome.cycle <= 6
    assert len(outcome.trace) == outcome.cycle + 1
    assert outcome.broken
