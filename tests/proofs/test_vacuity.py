"""Every family of proofs tells, and fails, if nothing meets what a claim assumes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.abc_program import needs_abc
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn.core.id_stage import IdStage
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.table import enabled
from xpulpnn_sim.cli import prove_core, prove_instructions, prove_modules, prove_units
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.proofs.cluster.arbiter import ArbiterClaims
from xpulpnn_sim.proofs.emitter.correspondence import ModuleLogic
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates, clocked_gates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE
from xpulpnn_sim.proofs.engine.outcomes import PROVED, VACUOUS
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.instructions import unrolling
from xpulpnn_sim.proofs.instructions.unrolling import BackendGates
from xpulpnn_sim.proofs.pipeline import proof
from xpulpnn_sim.proofs.units import divider, induction
from xpulpnn_sim.tools.components import emit_top
from xpulpnn_sim.tools.netlists import NetlistModule
from xpulpnn_sim.tools.yosys import find_yosys

pytestmark = pytest.mark.flow


def verdicts(rows: str, words: Sequence[str], folder: Path) -> list[str]:
    """Verdicts in some rows of what a command finds, which fails."""
    result = folder / "result.json"
    assert execute_command(["prove", *words, "--json", str(result)]) == 1
    results = read_results(result)
    return [proof["verdict"] for row in results for proof in (row[rows] if rows else [row])]


def test_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No remainder is within its bound before a step."""
    structures = prove_units._unit_structures

    def only_step(*given: object) -> list[object]:
        ((structure, presets),) = structures(*given)
        return [(replace(structure, claims=lambda: structure.claims()[1:2], broken=list), presets)]

    monkeypatch.setattr(prove_units, "_unit_structures", only_step)
    monkeypatch.setattr(divider._Division, "is_bound", lambda *_: FALSE)
    assert verdicts("proofs", ["units", "div"], tmp_path) == [VACUOUS]


def test_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The claims never held before."""
    monkeypatch.setattr(induction._Cycles, "_held", lambda _cycles, claims, _since: FALSE if claims else TRUE)
    monkeypatch.setattr(prove_modules, "PARTS", {"arbiter": lambda _config: [ArbiterClaims(2, "counter")]})
    assert set(verdicts("claims", ["cluster", "--preset", "cluster"], tmp_path)) == {VACUOUS}


def test_emitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two modules have nothing that could be compared."""
    nothing = NetlistModule(name="", inputs={}, outputs={}, wires={}, cells=[], initial={})
    logic = ModuleLogic(nothing, {})
    monkeypatch.setattr(prove_modules, "elaborate", lambda batch: [(module, logic, logic) for module in batch])
    assert verdicts("", ["emitter", "--top", "nnrf"], tmp_path) == [VACUOUS]


(PV_ADD_B,) = (row for row in enabled(frozenset(Extension), frozenset({8, 16})) if row.mnemonic == "pv.add.b")
STUCK = Fault(
    IdStage,
    "pv.add.b never leaves ID",
    "net.id_goes",
    f"right & ~Value.cast(insn.payload.word).matches('{PV_ADD_B.pattern}')",
)


@needs_abc
def test_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An instruction never leaves ID; another one has no words."""

    @cache
    def gates() -> BackendGates:
        with STUCK.seeded():
            core = emit_top("core", replace(preset("ri5cy"), rvfi=True))
        return BackendGates(core.text, core.manifest, find_yosys())

    monkeypatch.setattr(prove_instructions, "BackendGates", lambda *_: gates())
    words = ["instructions", "pv.add.h", "pv.add.b", "--preset", "ri5cy", "--jobs", "1", "-o", str(tmp_path)]
    assert verdicts("instructions", words, tmp_path) == [PROVED, VACUOUS]
    monkeypatch.setattr(unrolling, "allowed_fields", lambda *_: [FALSE])
    assert verdicts("instructions", [*words, "--fresh"], tmp_path) == [VACUOUS, VACUOUS]


STILL = """module harness(input clk, rst, gnt, output reg rvfi_valid = 0, output rvfi_trap, wrong_obi, broken_obi);
    assign {rvfi_trap, wrong_obi, broken_obi} = 3'h0;
    always @(posedge clk) rvfi_valid <= ~rst & gnt & rvfi_valid;
endmodule"""


@needs_abc
def test_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing retires, whatever the memory does."""
    harness = SimpleNamespace(
        emitted=SimpleNamespace(modules={"harness": STILL}),
        description=SimpleNamespace(parts={"obi": ["wrong"]}, invariants={"obi": ["broken"]}),
    )
    monkeypatch.setattr(prove_core, "emit_harness", lambda _config: harness)
    monkeypatch.setattr(proof, "script", lambda *_: "")
    monkeypatch.setattr(proof, "build_gates", lambda _rule, _scene, folder, _yosys: made(folder))
    words = ["pipeline", "obi", "--preset", "ri5cy", "-o", str(tmp_path)]
    assert verdicts("properties", words, tmp_path) == [VACUOUS]


def made(folder: Path) -> ClockedGates:
    """Gates in which nothing retires."""
    folder.mkdir(parents=True)
    return clocked_gates(STILL, "harness")
