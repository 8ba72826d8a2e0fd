"""Divider, quantiser and requantiser are proved equal to their definitions, and broken ones are found."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from xpulpnn.config import preset
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.engine.elaborate import ClockedGates, clocked_gates
from xpulpnn_sim.proofs.units import divider, dot_products, quantiser, requantiser
from xpulpnn_sim.proofs.units.unit_proof import DIFFERENT, EQUAL, Claim, proofs

pytestmark = pytest.mark.flow

CONFIG = preset("xpulpnn2")
TIMEOUT_S = 120


@cache
def unit(top: str, *change: str) -> tuple[ClockedGates, Sequence[dict[str, Any]]]:
    """A unit of the configuration, with one place of its text changed."""
    verilog, manifest = cached_emission(top, CONFIG)
    if change:
        old, new = change
        assert verilog.count(old) == 1
        verilog = verilog.replace(old, new)
    return clocked_gates(verilog, manifest["top"]), manifest["ports"]


def verdicts(claims: Sequence[Claim], begins: str = "") -> set[str]:
    chosen = [claim for claim in claims if claim.what.startswith(begins)]
    assert chosen
    return {one.verdict for one in proofs("unit", chosen, timeout_s=TIMEOUT_S)}


def test_divider():
    gates, _ = unit("div")
    assert verdicts(divider.claims(gates)) == {EQUAL}
    assert verdicts(divider.broken(gates)[1]) == {DIFFERENT}


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("{~op_b[14:0], 1'b1}", "~op_b[15:0]", "first"),
        ("| (~(|difference))", "", "each step"),
        ("(opposite & (|op_b))", "opposite", "result"),
    ],
)
def test_broken_divider_is_found(old: str, new: str, claim: str):
    assert verdicts(divider.claims(unit("div", old, new)[0]), claim) == {DIFFERENT}


def test_quantiser():
    gates, _ = unit("quantiser")
    assert verdicts(quantiser.claims(gates, CONFIG)) == {EQUAL}
    assert verdicts(quantiser.broken(gates, CONFIG)[0]) == {DIFFERENT}


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("2'h2};", "2'h3};", "pv.qnt.n: addresses"),
        ("else if (answered) outstanding", "else if (answered & ~crumbs) outstanding", "pv.qnt.c: the same"),
        ("outstanding & answered;", "answered;", "pv.qnt.n: the same"),
    ],
)
def test_broken_quantiser_is_found(old: str, new: str, claim: str):
    assert verdicts(quantiser.claims(unit("quantiser", old, new)[0], CONFIG), claim) == {DIFFERENT}


def test_requantiser():
    gates, ports = unit("requantiser")
    # xpulpnn prove units requantiser proves all of them
    claims = requantiser.claims(gates, ports, CONFIG)
    assert len(claims) == 7
    assert verdicts(claims, "pv.rqs") == {EQUAL}
    (wrong,) = requantiser.broken(gates, ports, CONFIG)
    (found,) = proofs("unit", wrong[:1], timeout_s=TIMEOUT_S)
    assert found.verdict == DIFFERENT
    assert "result must be 0x" in found.example


def test_rare_fault_of_a_dot_product_is_found():
    gates, ports = unit("dotp")
    (wrong,) = dot_products.broken(gates, ports, CONFIG)
    (found,) = proofs("unit", wrong, timeout_s=TIMEOUT_S)
    assert found.verdict == DIFFERENT
    assert "rd=0xffff" in found.example
