"""Proofs about the dot-product unit: all structures are equal, and a broken one is found."""

import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from tests.programs import read_results

from xpulpnn.config import Adders, preset
from xpulpnn.field_values import apply_settings
from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sim.cli import prove_units
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.units.dotp import ALL_SIGNS, Signs
from xpulpnn_sim.proofs.units.dotp_structures import LANES, SAMPLED, Comparison, check, unit_structures
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL

CONFIG = preset("xpulpnn")
STRUCTURES = unit_structures(CONFIG)
BOTH = Signs(True, True)


def covering() -> list[str]:
    """Structures that have each kind of multipliers, of adders and of isolation; xpulpnn prove units proves all."""
    chosen: list[str] = []
    seen: set[object] = set()
    for label, one in STRUCTURES.items():
        choices = {one.dotp.multipliers, one.dotp.adders, one.dotp.isolation}
        if not seen.issuperset(choices):
            chosen.append(label)
            seen |= choices
    return chosen


Emitted = tuple[str, dict[str, Any]]
"""Verilog and manifest."""


def design_of(**settings: str) -> Emitted:
    return cached_emission("dotp", replace(CONFIG, dotp=replace(CONFIG.dotp, **settings)))


def broken(design: Emitted, old: str, new: str) -> Emitted:
    verilog, manifest = design
    assert verilog.count(old) >= 1
    return verilog.replace(old, new, 1), manifest


def run(*options: str) -> int:
    return execute_command(["prove", "units", *options])


@pytest.mark.unit
def test_every_accepted_combination_is_a_structure():
    placed = [("replicated", isolation) for isolation in ("none", "and", "register")]
    placed += [("shared", isolation) for isolation in ("none", "and")]
    signed = [("signed", isolation, "inferred") for isolation in ("none", "and", "register")]
    found = [(one.dotp.multipliers, one.dotp.isolation, one.dotp.adders) for one in STRUCTURES.values()]
    assert sorted(found) == sorted([*signed, *((*where, adders) for where in placed for adders in get_args(Adders))])


@pytest.mark.unit
def test_fixed_settings_and_widths():
    config = preset("ri5cy")
    some = unit_structures(config, ["multipliers"], widths=True).values()
    assert {one.dotp.multipliers for one in some} == {config.dotp.multipliers}
    assert {one.dotp.widths for one in some} == {frozenset({16}), frozenset({8}), frozenset({16, 8})}


@pytest.mark.flow
@pytest.mark.parametrize("structure", covering())
def test_structure_is_proved_for_all_operands(structure: str):
    config = STRUCTURES[structure]
    # the algebra does not decide sums of narrower signed products; SAT and all operands of each lane do, in a minute
    formats = [ElemFmt.H, ElemFmt.C] if config.dotp.multipliers == "signed" else list(ElemFmt)
    outcomes = list(check(*cached_emission("dotp", config), formats=formats, signs=[BOTH]))
    assert [(one.fmt, one.verdict) for one in outcomes] == [(fmt, EQUAL) for fmt in formats]


@pytest.mark.flow
@pytest.mark.parametrize(("method", "verdict"), [("sat", LANES), ("exhaustive", LANES), ("random", SAMPLED)])
def test_every_method_agrees(method: str, verdict: str):
    fmt = ElemFmt.N if method == "sat" else ElemFmt.B
    (one,) = check(*design_of(adders="inferred"), formats=[fmt], signs=[BOTH], methods=[method], timeout_s=300)
    assert (one.method, one.verdict) == (method, verdict)


def first(design: Emitted, fmt: ElemFmt) -> Comparison:
    (outcome,) = check(*design, formats=[fmt], signs=[BOTH])
    return outcome


@pytest.mark.flow
@pytest.mark.parametrize("fmt", [ElemFmt.H, ElemFmt.C])
def test_inverted_bit_is_found(fmt: ElemFmt):
    design = design_of(multipliers="shared", isolation="and")
    row = re.search(r"\[15:0\] row_0_15 = .*;", design[0])
    assert row
    outcome = first(broken(design, row[0], row[0].replace(";", " ^ 16'h8000;")), fmt)
    assert outcome.verdict == DIFFERENT
    example = outcome.counterexample
    assert example
    lanes = [(example.rs1 >> low, example.rs2 >> low) for low in range(0, 32, fmt.width)]
    top, wrap = 1 << (fmt.width - 1), (1 << fmt.width) - 1
    products = [((x & wrap ^ top) - top) * ((y & wrap ^ top) - top) for x, y in lanes]
    assert example.expected == (sum(products) + example.rd * example.accumulate) % 2**32
    assert example.result != example.expected


@pytest.mark.flow
@pytest.mark.parametrize("carries", ["tree_carry17_45_1, 1'b0", "both[44:0], 1'b0"])
def test_masked_carry_bit_is_found(carries: str):
    design = design_of(multipliers="shared", isolation="and", adders="carry-save")
    masked = f"{{{carries}}} & ~(46'h1 << 20)"
    outcome = first(broken(design, f"= {{{carries}}};", f"= {masked};"), ElemFmt.B)
    assert outcome.verdict == DIFFERENT
    assert outcome.counterexample


RARE = """module dotp (input [4:0] ctrl, input [31:0] rs1, rs2, rd, output [31:0] result);
    wire [31:0] low = {{16{rs1[15] & ctrl[2]}}, rs1[15:0]} * {{16{rs2[15] & ctrl[3]}}, rs2[15:0]};
    wire [31:0] high = {{16{rs1[31] & ctrl[2]}}, rs1[31:16]} * {{16{rs2[31] & ctrl[3]}}, rs2[31:16]};
    assign result = low + high + (rd & {32{ctrl[4]}})RARE;
endmodule
"""


@pytest.mark.flow
@pytest.mark.parametrize("method", ["algebra", "exhaustive"])
def test_difference_in_one_of_a_billion_operands_is_found(method: str):
    plain, manifest = RARE.replace("RARE", ""), design_of(isolation="none")[1]
    sparse = RARE.replace("RARE", " + (rs1[11:0] == 12'hfff && rs2[15:0] == 16'h0fff)")
    assert [one.verdict for one in check(plain, manifest, formats=[ElemFmt.H], signs=[BOTH])] == [EQUAL]
    (one,) = check(sparse, manifest, formats=[ElemFmt.H], signs=[BOTH], methods=[method], timeout_s=60)
    assert one.verdict == DIFFERENT
    assert one.counterexample
    assert one.counterexample.rs2 & 0xFFFF == 0x0FFF
    assert (one.counterexample.result - one.counterexample.expected) % 2**32 == 1


@pytest.mark.flow
def test_a_bit_without_a_value_is_a_difference():
    manifest = design_of(isolation="none")[1]
    undefined = RARE.replace("RARE;", " | {31'h0, 1'bx};")
    (one,) = check(undefined, manifest, formats=[ElemFmt.H], signs=[BOTH])
    assert one.verdict == DIFFERENT


@pytest.mark.flow
def test_wrong_registers_are_found():
    design = design_of(multipliers="replicated", isolation="register")
    stale = first(broken(design, "else if (enable)", "else if (enable & ~ctrl[3])"), ElemFmt.B)
    assert stale.verdict == DIFFERENT
    passing = first(broken(design, "else if (enable)", "else"), ElemFmt.B)
    assert (passing.covered, passing.verdict) == ("result until the next operation", DIFFERENT)


@pytest.mark.flow
def test_command_writes_every_operation(tmp_path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "found.json"
    settings = {"adders": "inferred", "multipliers": "replicated"}
    options = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    assert run("--preset", "ri5cy", *options, "--formats", "b", "--json", str(target)) == 0
    found = unit_structures(apply_settings(preset("ri5cy"), settings), list(settings))
    records = read_results(target)
    assert [record["signs"] for record in records] == len(found) * [str(signs) for signs in ALL_SIGNS]
    assert {(record["format"], record["method"], record["verdict"]) for record in records} == {("b", "algebra", EQUAL)}
    assert set(re.findall(r"multipliers=.* adders=\S+", capsys.readouterr().out)) == set(found)


@pytest.mark.flow
def test_command_fails_on_a_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    wrong = broken(design_of(isolation="none"), "assign result = ", "assign result = 32'h1 + ")
    monkeypatch.setattr(prove_units, "cached_emission", lambda top, config: wrong)
    options = "--set isolation=none --set adders=inferred --set multipliers=shared --formats h"
    assert run(*options.split()) == 1
    assert re.search(r"rs1=0x\w{8} .*: result must be 0x\w{8}, not 0x\w{8}", capsys.readouterr().out)
