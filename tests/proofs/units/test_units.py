"""Units of the core are proved equal to their definitions, and broken ones are found."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn.config import PRESETS, ClusterConfig, preset
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.cluster.parts import PARTS
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.engine.outcomes import Outcome
from xpulpnn_sim.proofs.units.decoder import COMPRESSED, DECODER
from xpulpnn_sim.proofs.units.divider import DIVIDER
from xpulpnn_sim.proofs.units.dotp import dot_products
from xpulpnn_sim.proofs.units.induction import faulty_induction_claims, induction_claims
from xpulpnn_sim.proofs.units.multiplier import MULTIPLIER
from xpulpnn_sim.proofs.units.quantiser import QUANTISER
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, Claim, Definition, ProvenUnit
from xpulpnn_sim.reference.golden.compressed import expanded

pytestmark = pytest.mark.flow

CONFIG = preset("xpulpnn2")
UNITS = {"mult": MULTIPLIER, "div": DIVIDER, "quantiser": QUANTISER, "dotp": dot_products()}
UNITS |= {"compressed-decoder": COMPRESSED, "decoder": DECODER}


@cache
def unit(top: str, *changes: tuple[str, str]) -> ProvenUnit:
    """A unit of the configuration, with some places of its text changed."""
    verilog, manifest = cached_emission(top, CONFIG)
    for old, new in changes:
        assert verilog.count(old) == 1
        verilog = verilog.replace(old, new)
    return ProvenUnit(gates=clocked_gates(verilog, manifest["top"]), ports=manifest["ports"], config=CONFIG)


def outcomes(claims: Sequence[Claim], *statements: str) -> list[Outcome]:
    """Verdicts on the claims that begin with one of the words, on all without them."""
    chosen = [claim for claim in claims if claim.statement.startswith(statements or "")]
    assert len(chosen) >= len(statements)
    return [claim.prove("unit", 120) for claim in chosen]


def verdicts(claims: Sequence[Claim], *statements: str) -> set[str]:
    return {outcome.verdict for outcome in outcomes(claims, *statements)}


def test_booth_multiplier():
    claims = MULTIPLIER.claims(unit("mult"))
    assert {"mul", "p.mac", "p.msu", "mulh", "mulhsu", "mulhu"} < {claim.statement for claim in claims}
    assert verdicts([claim for claim in claims if claim.statement in ("mul", "p.mac")]) == {EQUAL}


WRONG_SHIFT = "a shift by 16 places must be one of the sum's bits, but its gates are others"
WRONG_SUM = r"sum \d: .*must be 0x\w{8}, not 0x\w{8}"
FAULTS = {
    "mult": (
        ("carried <= half_adder_result[15:0]", "carried <= half_adder_result[31:16]", "mulhsu", WRONG_SUM),
        ("{5{ctrl_op == MULT_OP_HALF}});", "{5{ctrl_op == MULT_OP_HALF}} & ~5'd16);", "mulN mac", WRONG_SHIFT),
    ),
    "div": (("| (~(|difference))", "", "each step", ""), ("(opposite & (|op_b))", "opposite", "result", "")),
    "quantiser": (
        ("2'h2};", "2'h3};", "pv.qnt.n: addresses", ""),
        ("outstanding & answered;", "answered;", "pv.qnt.n: the same", ""),
    ),
}


@pytest.mark.parametrize("top", FAULTS)
def test_broken_unit_is_found(top: str):
    """Two faults at once, each of which another claim is wrong for."""
    claims = UNITS[top].claims(unit(top, *((old, new) for old, new, _, _ in FAULTS[top])))
    for _, _, claim, example in FAULTS[top]:
        outcome = outcomes(claims, claim)[-1]
        assert outcome.verdict == DIFFERENT
        assert re.match(example, *outcome.parts)


@pytest.mark.parametrize(
    ("top", "examples"),
    [
        ("mult", ["op_a=0xfff.*must be 0x", "nn_kappa=0xfff.*must be 0x|.*nn_kappa=0xfff.*must be 0x"]),
        (
            "decoder",
            [
                "word=0x8067: illegal must be 0x0|word=0x8066: illegal must be 0x1",
                ".*system.* must be 0x[0-9], not 0x[0-9]|.*must be 0x",
            ],
        ),
        ("div", ["op_a=0xfff|.*op_a=0xfff", ".*op_b=0xfff"]),
        ("quantiser", ["pixels=0x[23]", ".*middle=0x800000"]),
        ("dotp", [".*rd=0xffff"]),
    ],
)
def test_rare_faults_are_found(top: str, examples: list[str]):
    for claims, example in zip(UNITS[top].broken(unit(top)), examples, strict=True):
        (outcome,) = outcomes(claims[:1])
        assert outcome.verdict == DIFFERENT
        assert re.match(example, *outcome.parts)


@pytest.mark.parametrize(("top", "count"), [("decoder", 2), ("div", 3), ("quantiser", 4)])
def test_unit_is_proved(top: str, count: int):
    assert [outcome.verdict for outcome in outcomes(UNITS[top].claims(unit(top)))] == [EQUAL] * count


@pytest.mark.parametrize(("half", "word"), [(0x4501, 0x0000_0513), (0xFD7D, 0xFE05_1FE3), (0x8002, None), (0, None)])
def test_expansion_by_the_manual(half: int, word: int | None):
    assert expanded(half) == word


def run(*options: str) -> int:
    return execute_command(["prove", "units", *options])


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "found.json"
    assert run("compressed", "--preset", "all", "--json", str(target)) == 0
    result = read_results(target)[0]
    assert [proof["verdict"] for proof in result["proofs"]] == [EQUAL, EQUAL]
    assert result["faults"] == [{"unit": "compressed decoder", "presets": list(PRESETS), "found": True}]
    printed = capsys.readouterr().out
    assert "2 of 2 proved" in printed
    assert "1 of 1 " in printed
    monkeypatch.setattr(Definition, "broken", lambda self, unit: [self.claims(unit)[:1]])
    assert run("compressed", "--preset", "xpulpnn2") == 1
    assert "0 of 1 injected faults were found" in capsys.readouterr().out


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_the_cluster(part: str):
    for obligation in PARTS[part](ClusterConfig(cores=2)):
        assert verdicts(induction_claims(obligation, obligation.emit().text)) == {EQUAL}
        assert [verdicts(wrong) for wrong in faulty_induction_claims(obligation)] == [{DIFFERENT}], obligation.title
