"""Instances and names of gates that a mapper made out of several modules, against netlists written by hand."""

from pathlib import Path

import pytest
from tests.exploration.sample_results import Cells, netlist

from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.mapped_netlist import SHARED, MappedNetlist, mapped_module, with_origins
from xpulpnn_sim.tools.netlists import read_module

CELLS = generic_library().cells
# nets: 2..5 inputs a..d, 6 clk, 7 register
INPUTS = {"a": 2, "b": 3, "c": 4, "d": 5, "clk": 6}


SOURCE = {
    "$flatten\\one.$a": ("$_AND_", {"A": 2, "B": 3, "Y": 10}),
    "$flatten\\two.\\deep.$x": ("$_XOR_", {"A": 10, "B": 4, "Y": 11}),
    "$flatten\\two.$o": ("$_OR_", {"A": 4, "B": 5, "Y": 12}),
    "$flatten\\two.$r": ("$_DFF_P_", {"C": 6, "D": 12, "Q": 7}),
    "$m": ("$_MUX_", {"A": 11, "B": 7, "S": 5, "Y": 13}),
}
NAMES = {"one.both": 10, "two.deep.odd": 11, "two.held": 7}


def attributed(folder: Path, cells: Cells) -> tuple[MappedNetlist, dict[str, float]]:
    source = read_module(netlist(folder, SOURCE, INPUTS, {"y": 13}, NAMES), "top")
    flat = read_module(netlist(folder, cells, INPUTS, {"y": 13}, {"two.held": 7}), "top")
    return with_origins(source, flat, mapped_module(flat, CELLS))


def paths(mapped: MappedNetlist) -> dict[str, str]:
    return {gate.name: gate.path for gate in mapped.gates}


@pytest.mark.flow
def test_gates_belong_where_their_functions_come_from(tmp_path: Path) -> None:
    mapped, shares = attributed(
        tmp_path,
        {
            "nand": ("NAND2_X1", {"A": 2, "B": 3, "Y": 20}),
            "xnor": ("XNOR2_X1", {"A": 20, "B": 4, "Y": 21}),
            "nor": ("NOR2_X1", {"A": 4, "B": 5, "Y": 22}),
            "inv": ("INV_X1", {"A": 22, "Y": 23}),
            "dff": ("DFF_X1", {"CK": 6, "D": 23, "Q": 7}),
            "mux": ("MUX2_X1", {"A": 21, "B": 7, "S": 5, "Y": 13}),
        },
    )
    own = dict.fromkeys(("nor", "inv", "dff"), "two")
    assert paths(mapped) == {"nand": "one", "xnor": "two.deep", "mux": "", **own}
    assert shares == {"function": 1.0, "readers": 0.0, "shared": 0.0}
    names = {20: "!one.both", 21: "two.deep.odd", 7: "two.held", 22: "two.n22"}
    assert mapped.names.items() >= names.items()


def test_gates_without_a_net_of_the_source_belong_to_their_readers(tmp_path: Path) -> None:
    mapped, shares = attributed(
        tmp_path,
        {
            # the exclusive or of a & b and c out of four gates, of which the source has one
            "both": ("AND2_X1", {"A": 2, "B": 3, "Y": 20}),
            "n1": ("NAND2_X1", {"A": 20, "B": 4, "Y": 21}),
            "n2": ("NAND2_X1", {"A": 20, "B": 21, "Y": 22}),
            "n3": ("NAND2_X1", {"A": 4, "B": 21, "Y": 23}),
            "n4": ("NAND2_X1", {"A": 22, "B": 23, "Y": 24}),
            "or": ("OR2_X1", {"A": 4, "B": 5, "Y": 25}),
            "dff": ("DFF_X1", {"CK": 6, "D": 25, "Q": 7}),
            "mux": ("MUX2_X1", {"A": 24, "B": 7, "S": 5, "Y": 13}),
        },
    )
    assert {name for name, path in paths(mapped).items() if path == "two.deep"} == {"n1", "n2", "n3", "n4"}
    nand, whole = CELLS["NAND2_X1"].area, sum(gate.cell.area for gate in mapped.gates)
    assert shares["readers"] == pytest.approx(3 * nand / whole)
    assert shares["shared"] == 0.0


@pytest.mark.flow
def test_what_serves_several_instances_is_shared_below_the_lowest_above_them(tmp_path: Path) -> None:
    mapped, shares = attributed(
        tmp_path,
        {
            # of c inverted the source knows nothing; two and two.deep read it
            "inv": ("NOR3_X1", {"A": 4, "B": 2, "C": 3, "Y": 20}),
            "both": ("AND2_X1", {"A": 2, "B": 3, "Y": 21}),
            "xor": ("XOR2_X1", {"A": 21, "B": 4, "Y": 22}),
            "waste": ("AND2_X1", {"A": 22, "B": 20, "Y": 26}),
            "xor2": ("OR2_X1", {"A": 22, "B": 26, "Y": 27}),
            "or": ("OR2_X1", {"A": 4, "B": 5, "Y": 23}),
            "zero": ("AND3_X1", {"A": 23, "B": 20, "C": 4, "Y": 28}),
            "or2": ("OR2_X1", {"A": 23, "B": 28, "Y": 25}),
            "dff": ("DFF_X1", {"CK": 6, "D": 25, "Q": 7}),
            "mux": ("MUX2_X1", {"A": 27, "B": 7, "S": 5, "Y": 13}),
        },
    )
    assert paths(mapped).items() >= {"xor2": "two.deep", "or2": "two", "inv": f"two.{SHARED}"}.items()
    assert mapped.names[20] == f"two.{SHARED}.n20"
    assert shares["shared"] == pytest.approx(CELLS["NOR3_X1"].area / sum(gate.cell.area for gate in mapped.gates))
