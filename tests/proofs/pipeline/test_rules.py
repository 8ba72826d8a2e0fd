"""The properties between instructions: what they see, refuse and find."""

from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from xpulpnn.config import preset
from xpulpnn.core.obi import ObiSignature
from xpulpnn.errors import InputError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.proofs.engine.outcomes import PASSED, PROVED, Outcome
from xpulpnn_sim.proofs.faults.sequencing import SEQUENCE_FAULTS
from xpulpnn_sim.proofs.pipeline.proof import Prover
from xpulpnn_sim.proofs.pipeline.properties.scene import watch_bus, watch_progress
from xpulpnn_sim.proofs.pipeline.rules import rules

_OF_RI5CY = ("loops", "obi", "fetches", "interrupts", "registers", "data", "system", "progress")


def stepped(module: Module, inputs: dict[str, Signal], cycles: list[dict[str, int]], wrong) -> list[list[str]]:
    """What is wrong in each cycle."""
    shown: list[list[str]] = []

    async def bench(ctx):
        for values in cycles:
            for name, signal in inputs.items():
                ctx.set(signal, values.get(name, 0))
            shown.append([name for name, value in wrong.items() if ctx.get(value)])
            await ctx.tick()

    simulator = Simulator(module)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return shown


@pytest.mark.unit
def test_bus():
    module, port, under_way = Module(), ObiSignature().create(), Signal(3)
    wrong = watch_bus(module, "data", port, under_way, 1)
    names = ("req", "gnt", "addr", "we", "be", "wdata", "rvalid")
    inputs = {name: getattr(port, name) for name in names} | {"under_way": under_way}
    word = {"req": 1, "addr": 8, "be": 0b1111}
    cycles = [word, word | {"gnt": 1}, {}, word, {}, word, word | {"wdata": 1}, word | {"gnt": 1}]
    cycles += [word | {"under_way": 1, "gnt": 1}, word | {"under_way": 1, "rvalid": 1, "gnt": 1}]
    cycles += [{"req": 1, "gnt": 1, "addr": 2, "be": 0b0101}]
    assert stepped(module, inputs, cycles, wrong) == [
        *([[]] * 4),
        ["data request withdrawn", "data request changed"],
        [],
        ["data request changed"],
        ["data request changed"],
        ["data too many"],
        [],
        ["data address", "data bytes"],
    ]


@pytest.mark.unit
def test_progress():
    class Port:
        rvfi_valid, irq_ack = Signal(), Signal()

    names = (
        "sleeping",
        "any_pending",
        "ex_valid",
        "ex_access",
        "ex_done",
        "booted",
        "fetch_running",
        "late",
        "gives_back",
    )
    module, seen = Module(), {name: Signal(name=name) for name in names}
    watched = watch_progress(module, Port, seen, 3)
    inputs = {"valid": Port.rvfi_valid, **seen}
    computing, accessing = {"ex_valid": 1}, {"ex_valid": 1, "ex_access": 1}
    cycles = [{"valid": 1}, *[{}] * 3, {"valid": 1}, *[{"sleeping": 1}] * 6, *[computing] * 6, *[accessing] * 5]
    shown = stepped(module, inputs, cycles, watched.wrong)
    assert shown == [*([[]] * 21), ["nothing retires"]]
    cycles = [*[{"sleeping": 1, "any_pending": 1}] * 5]
    assert stepped(module, inputs, cycles, watched.wrong)[-1] == ["nothing retires"]
    cycles = [{"booted": 1}, {"booted": 1, "fetch_running": 1, "late": 1}]
    assert stepped(module, inputs, cycles, watched.invariants) == [
        ["what counts late is in EX"],
        ["what is booted fetches"],
    ]


@pytest.mark.unit
def test_rules_follow_from_the_core():
    names = {name: [rule.name for rule in rules(preset(name))] for name in ("ri5cy", "xpulpnn2")}
    assert names["xpulpnn2"] == ["loops", "mac_load", *_OF_RI5CY[1:]]
    assert set(names["xpulpnn2"]) - set(names["ri5cy"]) == {"mac_load"}
    counts = {name: sum(fault.check == name for fault in SEQUENCE_FAULTS) for name in names["xpulpnn2"]}
    assert min(counts.values()) >= 2
    with pytest.raises(InputError, match=r"^qnt must be false for these properties, not true$"):
        rules(replace(preset("xpulpnn"), qnt=True))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["mac_load", "--preset", "ri5cy"], f"PROPERTY must be one of {', '.join(_OF_RI5CY)}"),
        (["--depth", "3"], "--depth must be at least 5, not 3"),
        (["--self-test", "--preset", "ri5cy"], "--preset must be xpulpnn2 with --self-test, not ri5cy"),
    ],
)
def test_bad_input(words: list[str], text: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sequences", *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}")


@pytest.mark.unit
def test_list(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sequences", "--list", "--preset", "ri5cy"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert shown == ["property", *_OF_RI5CY]


@pytest.mark.unit
def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    found = {
        "obi": Outcome(name="obi", verdict=PROVED, cycle=-1, seconds=1.5),
        "loops": Outcome(name="loops", verdict=PASSED, cycle=15, seconds=2, broken=("EX counts late",)),
    }
    monkeypatch.setattr(Prover, "prove", lambda self, rule, scene, depth: found[rule.name])
    monkeypatch.setattr("xpulpnn_sim.cli.prove_pipeline.emit_scene", lambda config: None)
    monkeypatch.setattr("xpulpnn_sim.cli.proof_options.find_abc", lambda: "abc")
    words = ["sequences", "obi", "loops", "-o", str(tmp_path), "--json", str(tmp_path / "found.json")]
    assert cli.main(words) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"loops 15 2.0 passes", "obi any 1.5 proved"} <= {*lines}
    assert "loops is not proved of every cycle: EX counts late" in lines
    records = read_results(tmp_path / "found.json")[0]["properties"]
    assert [(each["property"], each["verdict"]) for each in records] == [("loops", "passes"), ("obi", "proved")]
