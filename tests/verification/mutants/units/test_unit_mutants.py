"""What a campaign asks the record of a bench, and what the bench itself."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from xpulpnn_sim.benches.benched import BenchedUnit
from xpulpnn_sim.tools.results import Results
from xpulpnn_sim.verification.mutants.units import unit_mutants
from xpulpnn_sim.verification.mutants.units.lanes import KILLED, OPEN, SAME
from xpulpnn_sim.verification.mutants.units.mutants import Mutant
from xpulpnn_sim.verification.mutants.units.unit_mutants import Replayed

pytestmark = pytest.mark.unit

SETTINGS = unit_mutants.Settings(count=3, seed=1, bench_seed=1, jobs=1, limit_s=1, proof_s=0)


def mutant(number: int) -> Mutant:
    words = dict.fromkeys(("module", "cell", "port", "change", "source", "command"), "")
    return Mutant(number=number, bit=0, **words)


@pytest.mark.parametrize(("reacts", "recorded", "run"), [(False, 1, [3]), (True, 0, [0, 1, 2, 3])])
def test_the_record_of_a_bench_that_reacts_tells_nothing(monkeypatch, tmp_path, reacts, recorded, run):
    asked: list[int] = []
    benches: list[list[int]] = []

    def replay(*arguments, **named):
        asked.append(1)
        return {1: Replayed(outcome=KILLED, test="some"), 2: Replayed(outcome=SAME), 3: Replayed(outcome=OPEN)}

    def run_bench(*arguments, data, **named):
        benches.append(data["mutants"])
        for number in data["mutants"]:
            row = {"killed": "check" if number == 1 else "", "test": "", "benches": data["benches"]}
            Results(Path(data["verdicts"])).keep(str(number), row, data["key"])

    unit = BenchedUnit("some", lambda: None, reacts=reacts)
    design = SimpleNamespace(text="", manifest={"top": "some"})
    made = SimpleNamespace(design=design, inputs=(), mutants=tuple(map(mutant, (1, 2, 3))))
    monkeypatch.setattr(BenchedUnit, "emit", lambda self: design)
    monkeypatch.setattr(unit_mutants, "UNITS", {"some": unit})
    for name, stand_in in (("mutate", made), ("mutated_netlist", None)):
        monkeypatch.setattr(unit_mutants, name, lambda *arguments, stand_in=stand_in: stand_in)
    monkeypatch.setattr(unit_mutants, "replay", replay)
    monkeypatch.setattr(unit_mutants, "run_bench", run_bench)
    found = unit_mutants.judge_unit("some", SETTINGS, tmp_path / "out", None, resume=False, told=lambda *progress: None)
    assert (len(asked), benches) == (recorded, [run])
    assert [judged.killed for judged in found] == ["check", "", ""]
