"""The proof of every cycle: its step, what it proves of a core, and what it fails at."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from xpulpnn.config import CoreConfig
from xpulpnn_sim.proofs.engine.aiger import Aiger
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PROVED
from xpulpnn_sim.proofs.faults.core import SEQUENCE_FAULTS
from xpulpnn_sim.proofs.pipeline.gates import SceneGates, emit_scene, latches
from xpulpnn_sim.proofs.pipeline.proof import Prover, from_any_state
from xpulpnn_sim.proofs.pipeline.rules import PipelineRule, rules
from xpulpnn_sim.tools.yosys import ABC_PROGRAMS, find_yosys

ABC = next((name for name in ABC_PROGRAMS if shutil.which(name)), "")
needs_tools = pytest.mark.skipif(
    not ABC or not shutil.which("yosys"),
    reason="needs berkeley-abc and yosys: the wheel would take several times as long",
)

_BESIDE_BUSES = ("backend/rvfi_tap", "backend/wait_tap", "core/csr_file", "id_stage/csr_check")
"""Parts of a core without which requests are as they must be, left out to save time."""


@pytest.mark.unit
def test_step():
    # a latch that becomes what the input is, and is wrong when it is 1
    graph = Aiger(inputs=1, latches=[(2, 0)], outputs=[4], bad=[], constraints=[], gates=[])
    step = from_any_state(graph, 4)
    assert (step.inputs, len(step.latches), len(step.outputs)) == (2, 3, 2)
    # inputs of each cycle: that of the graph, and the latch in the first one
    assert step.run([[1, 0], [0, 0], [0, 0]]) == [[0, 0], [1, 1], [0, 0]]
    assert step.run([[0, 0], [0, 1], [1, 1]]) == [[0, 0], [0, 0], [0, 0]]
    # a state in which something is wrong already says nothing
    assert step.run([[1, 1], [1, 0]]) == [[1, 0], [1, 0]]
    # what is looked for behind a state in which nothing is wrong
    within = from_any_state(graph, 0, found=4, zero=[0])
    # it begins with 0, whatever its input for the first cycle says
    assert within.run([[0, 1], [1, 0], [0, 0]]) == [[0, 0], [0, 0], [1, 1]]
    assert from_any_state(graph, 4, found=2).run([[1, 1], [1, 0]])[1][-1] == 0


@pytest.fixture(scope="module", name="scene")
def small_scene() -> SceneGates:
    """A core of RV32IMC with its properties."""
    dotp = replace(CoreConfig().dotp, widths=frozenset({16}))
    return emit_scene(CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=dotp))


def buses(scene: SceneGates) -> PipelineRule:
    """The property of the buses."""
    rule = next(rule for rule in rules(scene.description.config) if rule.name == "obi")
    reads = tuple(f"id_stage/rs{number}_read" for number in (1, 2, 3))
    return replace(rule, cutpoints=(*rule.cutpoints, *_BESIDE_BUSES, *reads))


@pytest.fixture(name="prover")
def prover_in(tmp_path: Path) -> Prover:
    """The tools."""
    return Prover(folder=tmp_path, yosys=find_yosys("native"), abc=ABC, timeout_s=60)


@pytest.mark.flow
@needs_tools
def test_proved_of_every_cycle(scene: SceneGates, prover: Prover):
    rule = buses(scene)
    outcome = prover.prove(rule, scene)
    assert (outcome.verdict, outcome.broken, outcome.trace) == (PROVED, (), ())
    assert replace(prover, resume=True, abc="none").prove(rule, scene).verdict == PROVED


@pytest.mark.flow
@needs_tools
def test_a_fault_is_found(scene: SceneGates, prover: Prover):
    fault = next(each for each in SEQUENCE_FAULTS if each.name == "a second access before the first is answered")
    outcome = prover.prove(buses(scene), scene.with_fault(fault))
    assert (outcome.verdict, outcome.parts) == (FAILED, ["data too many"])
    assert outcome.cycle <= 6
    assert len(outcome.trace) == outcome.cycle + 1
    assert outcome.broken


def test_latches_are_found_beside_other_rows(tmp_path: Path) -> None:
    """A recent Yosys also writes how many latches have no reset value."""
    (tmp_path / "rule.map").write_text("input 0 0 clk\nlatch 4 0 core.count\nlatch 5 1 core.count\nninitff 2\n")
    assert latches("count", tmp_path) == {4, 5}
