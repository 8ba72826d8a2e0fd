"""Faults by structure, each with its place in the core; what occurs at units, of instructions worked out by hand."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from xpulpnn.config import PRESETS, preset
from xpulpnn.core.core import Core
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.requantiser import Requantiser
from xpulpnn.errors import ToolError
from xpulpnn.verilog import emit
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.faults.catalog import PROOF_FAULTS
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.mutants.unit_constraints import CONSTRAINTS


def test_alu():
    cases = CONSTRAINTS["alu"](preset("ri5cy")).cases
    by_output = {output: case.values for case in cases for output in case.outputs or () if "op_b" not in case.values}
    assert by_output.keys() == {"result", "sum", "comparison"}
    # a 32-bit addition is all zeros, and makes addresses
    assert set(by_output["sum"]["ctrl"]) == {0}
    assert 0 in by_output["result"]["ctrl"]
    # beq, bne, blt, bge, bltu, bgeu, p.beqimm and p.bneimm: the last two as the first two
    assert len(set(by_output["comparison"]["ctrl"])) == 6
    zero = [case for case in cases if set(case.values.get("op_b", ())) == {0}]
    assert len(zero) == 1


def test_requantiser():
    cases = CONSTRAINTS["requantiser"](preset("xpulpnn2")).cases
    lanes = sorted(len(set(case.values["lane"])) for case in cases if "lane" in case.values)
    assert lanes == [4, 4, 8, 8, 16, 16]


def test_dotp():
    (case,) = CONSTRAINTS["dotp"](preset("ri5cy")).cases
    # two formats; unsigned, mixed and signed; with and without an accumulator
    assert len(set(case.values["ctrl"])) == 2 * 3 * 2


def test_mult():
    cases = CONSTRAINTS["mult"](preset("xpulpnn2")).cases
    done = [case.values for case in cases if case.values.get("done") == {1}]
    # the field of the number of places is 1 in all instructions that do not shift
    assert sorted(set(values.get("shamt", {-1})) == {1} for values in done) == [False, True]


def test_products_on_arrays():
    cases = CONSTRAINTS["mult"](preset("xpulpnn3")).cases
    forms = {next(iter(case.values["dotp_form"])): set(case.outputs or ()) for case in cases}
    # lanes, both halves, those of pairs, and words
    assert forms.keys() == {0, 0b0101, 0b1001, 0b1100, 0b1111}
    assert {output for case in cases for output in case.outputs or ()} == {"first", "second", "result", "upper"}
    wide = CONSTRAINTS["mult"](replace(preset("xpulpnn3"), multiplier="booth")).cases
    assert {tuple(case.values["start"]) for case in wide} == {(1,)}


def test_nnrf():
    cases = CONSTRAINTS["nnrf"](replace(preset("xpulpnn3"), mac_load_pair=True)).cases
    # two activations, four weights, two parameters, two activations of the second pair; the factor is weight 4
    assert {tuple(sorted(case.values["waddr"])) for case in cases if case.values["we"] == {1}} == {tuple(range(10))}
    assert {tuple(case.values["wgt_addr"]) for case in cases if case.outputs == ("wgt",)} == {(0, 1, 2, 3, 4)}
    # a write without a place for it never occurs, whatever is read
    assert all("waddr" in case.values for case in cases if case.values["we"] == {1})


def test_ex_stage():
    cases = CONSTRAINTS["ex-stage"](replace(preset("xpulpnn-full"), mac_load_pair=True, multiplier="dot-product")).cases
    units = {number: set[str]() for number in range(5)}
    for case in cases:
        for number in case.values.get("ctrl.unit", ()):
            units[number].update(case.outputs or ())
    always = {"done", "first", "upper"}
    # ALU with sums of pairs, products, divider, dot products, CSRs
    sums, result = always | {"result", "second"}, always | {"result"}
    assert units == {0: sums, 1: sums, 2: result, 3: result, 4: result}
    others = {tuple(case.outputs or ()) for case in cases if "ctrl.unit" not in case.values}
    assert others >= {("sum",), ("comparison",), ()}


@pytest.mark.flow
def test_every_fault_has_its_place_and_changes_its_module_alone():
    config = replace(PRESETS["xpulpnn3"], rvfi=True, debug=True)
    right, _ = cached_emission("core", config)
    faults = [fault for fault in PROOF_FAULTS if fault.fits(config)]
    with ExitStack() as seeded:
        for fault in faults:
            seeded.enter_context(fault.seeded())
        wrong = emit(Core(config), "core", config={}).modules
    assert {name for name, text in wrong.items() if text not in right} == {fault.module for fault in faults}
    # a requantiser that is not exact has the same ports
    clipping = Requantiser(preset("xpulpnn2"))
    right = emit(clipping, "requantiser", config={}).text
    (unfit,) = (fault for fault in PROOF_FAULTS if not fault.fits(config))
    with unfit.seeded():
        assert emit(clipping, "requantiser", config={}).text != right


def test_the_value_that_is_assigned_is_another():
    (text,) = emit(Lsu(), "lsu", config={}).modules.values()
    with Fault(Lsu, "", "ex_granted", "right & net.second").seeded():
        (changed,) = emit(Lsu(), "lsu", config={}).modules.values()
    granted = "assign ex_granted = data__req & data__gnt"
    assert changed == text.replace(f"{granted};", f"{granted} & second;") != text
    assert [*emit(Lsu(), "lsu", config={}).modules.values()] == [text]


PLACES = [("nowhere", "have nowhere"), ("net.nowhere", "have net.nowhere"), ("data.gnt", "assign data.gnt")]


@pytest.mark.parametrize(("path", "message"), PLACES)
def test_a_place_that_is_gone_is_told(path: str, message: str):
    with Fault(Lsu, "", path, "right").seeded(), pytest.raises(ToolError, match=f"^Lsu must {message}$"):
        emit(Lsu(), "lsu", config={})
