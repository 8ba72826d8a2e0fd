"""The properties between instructions: what a core has of them, and the command."""

from dataclasses import replace
from pathlib import Path

import pytest

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.proofs.engine.outcomes import PASSED, PROVED, Outcome
from xpulpnn_sim.proofs.faults.core import SEQUENCE_FAULTS
from xpulpnn_sim.proofs.pipeline.proof import Prover
from xpulpnn_sim.proofs.pipeline.rules import rules

pytestmark = pytest.mark.unit

_OF_RI5CY = ("loops", "obi", "fetches", "interrupts", "registers", "data", "system", "progress")


def test_rules_follow_from_the_core():
    names = {name: [rule.name for rule in rules(preset(name))] for name in ("ri5cy", "xpulpnn2")}
    assert names["xpulpnn2"] == ["loops", "mac_load", *_OF_RI5CY[1:]]
    assert set(names["xpulpnn2"]) - set(names["ri5cy"]) == {"mac_load"}
    counts = {name: sum(fault.check == name for fault in SEQUENCE_FAULTS) for name in names["xpulpnn2"]}
    assert min(counts.values()) >= 2
    with pytest.raises(InputError, match=r"^qnt must be false for these properties, not true$"):
        rules(replace(preset("xpulpnn"), qnt=True))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["mac_load", "--preset", "ri5cy"], f"PROPERTY must be one of {', '.join(_OF_RI5CY)}"),
        (["--depth", "3"], 'Invalid value "3" for --depth. It must be at least 5.'),
        (["--self-test", "--preset", "ri5cy"], "--preset must be xpulpnn2 with --self-test, not ri5cy"),
    ],
)
def test_bad_input(words: list[str], text: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sequences", *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}")


def test_list(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sequences", "--list", "--preset", "ri5cy"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert shown == ["property", *_OF_RI5CY]


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    found = {
        "obi": Outcome(name="obi", verdict=PROVED, cycle=-1, seconds=1.5),
        "loops": Outcome(name="loops", verdict=PASSED, cycle=15, seconds=2, broken=("EX counts late",)),
    }
    monkeypatch.setattr(Prover, "prove", lambda self, rule, scene, depth: found[rule.name])
    monkeypatch.setattr("xpulpnn_sim.cli.prove_core.emit_scene", lambda config: None)
    monkeypatch.setattr("xpulpnn_sim.cli.prove_core.find_abc", lambda: "abc")
    words = ["sequences", "obi", "loops", "-o", str(tmp_path), "--json", str(tmp_path / "found.json")]
    assert cli.main(words) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"loops 15 2.0 passes", "obi any 1.5 proved"} <= {*lines}
    assert "loops is not proved of every cycle: EX counts late" in lines
    records = read_results(tmp_path / "found.json")[0]["properties"]
    assert [(each["property"], each["verdict"]) for each in records] == [("loops", "passes"), ("obi", "proved")]
