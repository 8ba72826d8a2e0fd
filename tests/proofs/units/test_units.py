"""Units of the core are proved equal to their definitions, and broken ones are found."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from xpulpnn.config import PRESETS, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.cli import prove_units
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import execute
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.cluster.arbiter import arbiter
from xpulpnn_sim.proofs.engine.elaborate import ClockedGates, clocked_gates
from xpulpnn_sim.proofs.units import cluster_parts, compressed, decoder, multiplier
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, Claim, UnitProof, proofs
from xpulpnn_sim.reference.golden.compressed import expanded

CONFIG = preset("xpulpnn2")

Unit = tuple[ClockedGates, list[dict[str, Any]]]


@cache
def unit(top: str, *change: str) -> Unit:
    """A unit of the configuration, with one place of its text changed."""
    verilog, manifest = cached_emission(top, CONFIG)
    if change:
        old, new = change
        assert verilog.count(old) == 1
        verilog = verilog.replace(old, new)
    return clocked_gates(verilog, manifest["top"]), manifest["ports"]


def outcomes(claims: Sequence[Claim], *wanted: str) -> list[UnitProof]:
    """What becomes of the claims that begin with one of the words, of all without them."""
    chosen = [claim for claim in claims if claim.what.startswith(wanted or "")]
    assert len(chosen) >= len(wanted)
    return list(proofs("unit", chosen, timeout_s=120))


def verdicts(claims: Sequence[Claim], *wanted: str) -> set[str]:
    return {one.verdict for one in outcomes(claims, *wanted)}


@pytest.mark.flow
def test_booth_multiplier():
    claims = multiplier.claims(*unit("mult"))
    assert {"mul", "p.mac", "p.msu", "mulh", "mulhsu", "mulhu"} < {one.what for one in claims}
    # all of them are proved by xpulpnn prove units mult; here one of each manner
    assert verdicts([claim for claim in claims if claim.what in ("mul", "p.mac", "mulh")]) == {EQUAL}


@pytest.mark.flow
@pytest.mark.parametrize(
    ("old", "new", "operation"),
    [
        ("carried_signed <= half_adder_result[31:16]", "carried_signed <= half_adder_result[31:17]", "mulhu"),
        ("carried <= half_adder_result[15:0]", "carried <= half_adder_result[31:16]", "mulhsu"),
    ],
)
def test_broken_multiplier_is_found(old: str, new: str, operation: str):
    (found,) = [one for one in outcomes(multiplier.claims(*unit("mult", old, new)), operation) if one.what == operation]
    assert found.verdict == DIFFERENT
    assert re.match(r"sum \d: .*must be 0x\w{8}, not 0x\w{8}", found.example)


@pytest.mark.flow
def test_wrong_shift_is_found():
    claims = multiplier.claims(*unit("mult", ">> result_part;", ">> (result_part & ~5'd16);"))
    (found,) = outcomes(claims, "mulN mac")
    assert found.example == "a shift by 16 places must be one of the sum's bits, but its gates are others"


@pytest.mark.flow
def test_rare_faults_of_the_multiplier_are_found():
    broken = multiplier.broken(*unit("mult"))
    assert [[one.verdict for one in outcomes(claims)] for claims in broken] == [[DIFFERENT]] * 2


@pytest.mark.flow
def test_every_compressed_word():
    gates, _ = unit("compressed-decoder")
    assert verdicts(compressed.claims(gates)) == {EQUAL}
    (wrong, _) = outcomes(compressed.broken(gates)[0])
    assert wrong.example == "0x4500 must become 0x00852403, not 0x00000513"


@pytest.mark.unit
@pytest.mark.parametrize(("half", "word"), [(0x4501, 0x0000_0513), (0xFD7D, 0xFE05_1FE3), (0x8002, None), (0, None)])
def test_expansion_by_the_manual(half: int, word: int | None):
    assert expanded(half) == word


@pytest.mark.flow
def test_every_word():
    gates, ports = unit("decoder")
    assert verdicts(decoder.claims(gates, ports, CONFIG)) == {EQUAL}
    opcode, width = decoder.broken(gates, ports, CONFIG)
    (illegal,) = outcomes(opcode)
    assert illegal.example == "word=0x8067 must be legal" or illegal.example == "word=0x8066 must be illegal"
    (size,) = outcomes(width)
    assert re.search("lsu.size must be [01], not [01]", size.example)


@pytest.mark.flow
def test_decoder_of_another_configuration_is_found():
    gates, ports = unit("decoder")
    illegal, control = outcomes(decoder.claims(gates, ports, preset("ri5cy")))
    assert (illegal.verdict, control.verdict) == (DIFFERENT, EQUAL)


def run(*options: str) -> int:
    return execute(["prove", "units", *options])


@pytest.mark.flow
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "found.json"
    assert run("compressed", "--preset", "all", "--json", str(target)) == 0
    found = read_results(target)[0]
    assert [one["verdict"] for one in found["proofs"]] == [EQUAL, EQUAL]
    assert found["faults"] == [{"unit": "compressed decoder", "presets": list(PRESETS), "found": True}]
    printed = capsys.readouterr().out
    assert "2 of 2 proved" in printed
    assert "1 of 1 " in printed
    monkeypatch.setattr(prove_units.compressed, "broken", lambda gates: [compressed.claims(gates)])
    assert run("compressed", "--preset", "xpulpnn2") == 1
    assert "0 of 1 injected faults were found" in capsys.readouterr().out


@pytest.mark.flow
def test_parts_of_the_cluster():
    obligation = arbiter(3, "counter")
    assert verdicts(cluster_parts.claims(obligation, obligation.emit().text)) == {EQUAL}
    assert [verdicts(wrong) for wrong in cluster_parts.broken(obligation)] == [{DIFFERENT}]


@pytest.mark.unit
def test_units_that_a_preset_does_not_have():
    with pytest.raises(InputError, match=r"^preset must have the unit requantiser, not be ri5cy$"):
        run("requantiser", "--preset", "ri5cy")


@pytest.mark.unit
def test_options_of_other_proofs_are_refused():
    with pytest.raises(InputError, match=r"^--formats, --method and --all-widths must be left out for mult$"):
        run("mult", "--formats", "b")
