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
from xpulpnn_sim.proofs.engine.clocked_gates import clocked_gates
from xpulpnn_sim.proofs.engine.outcomes import Outcome
from xpulpnn_sim.proofs.units import dotp
from xpulpnn_sim.proofs.units.dotp import LANES, SAMPLED, dot_products, unit_structures
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, ProvenUnit

pytestmark = pytest.mark.flow

CONFIG = preset("xpulpnn")
STRUCTURES = unit_structures(CONFIG)


@pytest.fixture(autouse=True)
def less_work(monkeypatch: pytest.MonkeyPatch):
    """Both factors signed, and few random operands; xpulpnn prove units proves all signs and takes more operands."""
    monkeypatch.setattr(dotp, "ALL_SIGNS", ("ss",))
    monkeypatch.setattr(dotp, "_RANDOM_BLOCKS", 4)


def covering() -> list[str]:
    """Structures that have each kind of multipliers, of adders and of isolation; xpulpnn prove units proves all."""
    chosen: list[str] = []
    seen: set[object] = set()
    for label, core in STRUCTURES.items():
        choices = {core.dotp.multipliers, core.dotp.adders, core.dotp.isolation}
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


def proved(design: Emitted, *formats: ElemFmt, methods: tuple[str, ...] = (), timeout_s: float = 60) -> list[Outcome]:
    verilog, manifest = design
    unit = ProvenUnit(gates=clocked_gates(verilog, manifest["top"]), ports=manifest["ports"], config=CONFIG)
    return [claim.prove("dotp", timeout_s) for claim in dot_products(formats, methods).claims(unit)]


def test_every_accepted_combination_is_a_structure():
    placed = [("replicated", isolation) for isolation in ("none", "and", "register")]
    placed.append(("shared", "none"))
    signed = [("signed", isolation, "inferred") for isolation in ("none", "and", "register")]
    options = [(core.dotp.multipliers, core.dotp.isolation, core.dotp.adders) for core in STRUCTURES.values()]
    assert sorted(options) == sorted([*signed, *((*where, adders) for where in placed for adders in get_args(Adders))])


def test_fixed_settings_and_widths():
    config = preset("ri5cy")
    some = unit_structures(config, ["multipliers"], widths=True).values()
    assert {core.dotp.multipliers for core in some} == {config.dotp.multipliers}
    assert {core.dotp.widths for core in some} == {frozenset({16}), frozenset({8}), frozenset({16, 8})}


@pytest.mark.parametrize("structure", covering())
def test_structure_is_proved_for_all_operands(structure: str):
    config = STRUCTURES[structure]
    # the algebra does not decide sums of narrower signed products; SAT and all operands of each lane do, in a minute
    fewer = config.dotp.multipliers == "signed" or config.dotp.isolation != "none"
    formats = [ElemFmt.H, ElemFmt.C] if fewer else list(ElemFmt)
    outcomes = proved(cached_emission("dotp", config), *formats)
    assert [outcome.verdict for outcome in outcomes] == [EQUAL] * len(formats)


@pytest.mark.parametrize(("method", "verdict"), [("sat", LANES), ("exhaustive", LANES), ("random", SAMPLED)])
def test_every_method_agrees(method: str, verdict: str):
    fmt = ElemFmt.N if method == "sat" else ElemFmt.B
    (outcome,) = proved(design_of(adders="inferred"), fmt, methods=(method,), timeout_s=300)
    assert (outcome.method, outcome.verdict) == (method, verdict)


def operands(outcome: Outcome) -> dict[str, int]:
    """Numbers of a counterexample; the result that must be, and the one that is, last."""
    assert outcome.verdict == DIFFERENT
    (text,) = outcome.parts
    numbers = dict(re.findall(r"(rs1|rs2|rd|accumulate)=(\w+)", text))
    expected, result = re.findall(r"0x\w{8}", text)[-2:]
    return {name: int(value, 0) for name, value in (numbers | {"expected": expected, "result": result}).items()}


@pytest.mark.parametrize("fmt", [ElemFmt.H, ElemFmt.C])
def test_inverted_bit_is_found(fmt: ElemFmt):
    design = design_of(multipliers="shared")
    row = re.search(r"\[15:0\] row_0_15 = .*;", design[0])
    assert row
    (outcome,) = proved(broken(design, row[0], row[0].replace(";", " ^ 16'h8000;")), fmt)
    case = operands(outcome)
    lanes = [(case["rs1"] >> low, case["rs2"] >> low) for low in range(0, 32, fmt.width)]
    top, wrap = 1 << (fmt.width - 1), (1 << fmt.width) - 1
    products = [((x & wrap ^ top) - top) * ((y & wrap ^ top) - top) for x, y in lanes]
    assert case["expected"] == (sum(products) + case["rd"] * case["accumulate"]) % 2**32
    assert case["result"] != case["expected"]


@pytest.mark.parametrize("carries", ["tree_carry17_45_1, 1'b0", "both[44:0], 1'b0"])
def test_masked_carry_bit_is_found(carries: str):
    design = design_of(multipliers="shared", adders="carry-save")
    masked = f"{{{carries}}} & ~(46'h1 << 20)"
    (outcome,) = proved(broken(design, f"= {{{carries}}};", f"= {masked};"), ElemFmt.B)
    assert outcome.verdict == DIFFERENT


RARE = """module dotp (input [4:0] ctrl, input [31:0] rs1, rs2, rd, output [31:0] result);
    wire [31:0] low = {{16{rs1[15] & ctrl[2]}}, rs1[15:0]} * {{16{rs2[15] & ctrl[3]}}, rs2[15:0]};
    wire [31:0] high = {{16{rs1[31] & ctrl[2]}}, rs1[31:16]} * {{16{rs2[31] & ctrl[3]}}, rs2[31:16]};
    assign result = low + high + (rd & {32{ctrl[4]}})RARE;
endmodule
"""


@pytest.mark.parametrize("method", ["algebra", "exhaustive"])
def test_difference_in_one_of_a_billion_operands_is_found(method: str):
    plain, manifest = RARE.replace("RARE", ""), design_of(isolation="none")[1]
    sparse = RARE.replace("RARE", " + (rs1[11:0] == 12'hfff && rs2[15:0] == 16'h00ff)")
    assert [outcome.verdict for outcome in proved((plain, manifest), ElemFmt.H)] == [EQUAL]
    (outcome,) = proved((sparse, manifest), ElemFmt.H, methods=(method,), timeout_s=300)
    case = operands(outcome)
    assert case["rs2"] & 0xFFFF == 0x00FF
    assert (case["result"] - case["expected"]) % 2**32 == 1


def test_a_bit_without_a_value_is_a_difference():
    undefined = RARE.replace("RARE;", " | {31'h0, 1'bx};")
    (outcome,) = proved((undefined, design_of(isolation="none")[1]), ElemFmt.H)
    assert outcome.verdict == DIFFERENT


def test_wrong_registers_are_found():
    design = design_of(multipliers="replicated", isolation="register")
    (stale,) = proved(broken(design, "else if (enable)", "else if (enable & ~ctrl[3])"), ElemFmt.B)
    assert stale.verdict == DIFFERENT
    (passing,) = proved(broken(design, "else if (enable)", "else"), ElemFmt.B)
    assert passing.parts == ("ss: the result must stay until the next operation",)


def test_command(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "found.json"
    settings = {"adders": "inferred", "multipliers": "replicated"}
    words = ["prove", "units", "--preset", "ri5cy", "--formats", "b", "--json", str(target)]
    words += [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    assert execute_command(words) == 0
    structures = unit_structures(apply_settings(preset("ri5cy"), settings), list(settings))
    records = read_results(target)[0]["proofs"]
    assert [record["unit"] for record in records] == [f"dotp {structure}" for structure in structures]
    assert {(record["method"], record["verdict"]) for record in records} == {("algebra", EQUAL)}
    wrong = broken(design_of(isolation="none"), "assign result = ", "assign result = 32'h1 + ")
    monkeypatch.setattr(prove_units, "cached_emission", lambda top, config: wrong)
    options = "--set isolation=none --set adders=inferred --set multipliers=shared --formats h"
    assert execute_command(["prove", "units", *options.split()]) == 1
    assert re.search(r"rs1=0x\w{8} .*: result must be 0x\w{8}, not 0x\w{8}", capsys.readouterr().out)
