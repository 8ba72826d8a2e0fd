"""``xpulpnn prove instructions``: instructions that are proved, wrong statements and gates that are found."""

from pathlib import Path

import pytest
from tests.abc_program import ABC, needs_abc
from tests.programs import read_results

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, GateGraph
from xpulpnn_sim.proofs.engine.integers import Integers
from xpulpnn_sim.proofs.engine.outcomes import PROVED, UNDECIDED, Ledger, Outcome
from xpulpnn_sim.proofs.engine.solvers import find_case

pytestmark = pytest.mark.flow


@needs_abc
def test_solver_tells_equal_from_unequal():
    graph = GateGraph()
    x, y = graph.input(), graph.input()
    both = graph.and_(graph.or_(x, y), graph.and_(x, y) ^ 1)
    assert find_case(ABC, graph, graph.xor(both, graph.xor(x, y)), timeout_s=10) is None
    assert find_case(ABC, graph, graph.and_(x, graph.xor(both, y ^ 1)), timeout_s=10) is None
    assert find_case(ABC, graph, FALSE, timeout_s=10) is None
    assert find_case(ABC, graph, graph.and_(y, both), timeout_s=10) == {y}


@needs_abc
def test_products_of_equal_words_are_made_alike():
    graph = GateGraph()
    z, x, y, other = Integers(graph), graph.inputs(14), graph.inputs(14), graph.input()
    like_x = [graph.and_(bit, graph.or_(bit, other)) for bit in x]
    product, same = (z.multiply([*word, FALSE], [*y, FALSE]) for word in (x, like_x))
    wrong = graph.any(graph.xor(*bits) for bits in zip(product, same, strict=True))
    assert find_case(ABC, graph, wrong, timeout_s=10) is None


def test_outcomes_of_an_earlier_run_count_under_the_same_key(tmp_path: Path):
    ledger = Ledger(tmp_path, 10, resume=True)
    for name in (PROVED, UNDECIDED):
        ledger.store(Outcome(name=name, verdict=name, seconds=1.0), "core")
        outcome = ledger.find(name, "core")
        assert outcome
        assert outcome.verdict == name
    assert ledger.find(PROVED, "another core") is None
    # more time may bring an answer
    assert Ledger(tmp_path, 20, resume=True).find(UNDECIDED, "core") is None
    assert Ledger(tmp_path, 10, resume=False).find(PROVED, "core") is None


@needs_abc
def test_instructions_are_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    result, names = tmp_path / "result.json", "pv.mlsdotsup.b,p.beqimm,csrrw"
    words = ["prove", "instructions", *names.split(","), "-o", str(tmp_path), "--json", str(result)]
    assert cli.main(words) == 0
    proved = read_results(result)[0]
    assert proved["left"] == ["csrrw rd,csr,rs1"]
    assert {each["verdict"] for each in (*proved["granted"], *proved["instructions"])} == {PROVED}
    assert "3 of 3 instructions proved" in capsys.readouterr().out


@needs_abc
def test_faults_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    result = tmp_path / "result.json"
    words = ["prove", "instructions", "--preset", "ri5cy", "pv.dotusp.h", "--self-test"]
    words += ["-o", str(tmp_path), "--json", str(result)]
    assert cli.main(words) == 0
    faults = read_results(result)[0]["faults"]
    assert [(each["where"], each["found"]) for each in faults] == [("statements", True), ("id_stage", True)]
    assert "1 of 1 faults of the core found" in capsys.readouterr().out
