"""The built-in library: efforts against the textbook, functions of all cells, and the units of the flows."""

import pytest

from xpulpnn_sim.exploration.builtin import builtin_library, liberty_text
from xpulpnn_sim.exploration.liberty import Expression
from xpulpnn_sim.exploration.library import Library

pytestmark = pytest.mark.unit

# Sutherland, Sproull, Harris: Logical Effort, tables 4.1 and 4.2; chapter 4.4 for the asymmetric gates.
EFFORTS = {
    "INV": ("A", 3, 3),
    "NAND2": ("A", 4, 6),
    "NAND3": ("C", 5, 9),
    "NAND4": ("D", 6, 12),
    "NOR2": ("A", 5, 6),
    "NOR3": ("B", 7, 9),
    "NOR4": ("C", 9, 12),
    "AOI21": ("A", 6, 7),
    "AOI22": ("D", 6, 12),
}

FUNCTIONS = {
    "INV": "!A",
    "BUF": "A",
    "NAND2": "!(A*B)",
    "NAND3": "!(A*B*C)",
    "NAND4": "!(A*B*C*D)",
    "NOR2": "!(A+B)",
    "NOR3": "!(A+B+C)",
    "NOR4": "!(A+B+C+D)",
    "AND2": "A*B",
    "AND3": "A*B*C",
    "OR2": "A+B",
    "OR3": "A+B+C",
    "AOI21": "!(A*B+C)",
    "AOI22": "!(A*B+C*D)",
    "AOI211": "!(A*B+C+D)",
    "OAI21": "!((A+B)*C)",
    "OAI22": "!((A+B)*(C+D))",
    "OAI211": "!((A+B)*C*D)",
    "AO21": "A*B+C",
    "OA21": "(A+B)*C",
    "NAND2B": "A+!B",
    "NOR2B": "A*!B",
    "XOR2": "A^B",
    "XNOR2": "!(A^B)",
    "MUX2": "A*!S+B*S",
}


@pytest.mark.parametrize("kind", EFFORTS)
def test_efforts_and_parasitics_are_those_of_the_textbook(library: Library, kind: str) -> None:
    name, effort, parasitic = EFFORTS[kind]
    cell = library.cells[f"{kind}_X1"]
    assert cell.pins[name].capacitance_ff == pytest.approx(effort / 3)
    rise = next(arc for arc in cell.pins["Y"].timing if arc.related_pin == name).cell_rise
    assert rise is not None
    assert rise.at(0.1, 0.0) == pytest.approx(0.010 * parasitic / 3)
    assert rise.at(0.1, 6.0) == pytest.approx(0.010 * (parasitic / 3 + 6))


def test_functions(library: Library) -> None:
    gates = {name: cell for name, cell in library.cells.items() if not cell.sequential}
    assert {name.rpartition("_X")[0] for name in gates} == set(FUNCTIONS)
    for name, cell in gates.items():
        inputs = [pin.name for pin in cell.inputs]
        assert cell.truth_table() == Expression(FUNCTIONS[name.rpartition("_X")[0]]).truth_table(inputs), name


def test_larger_cells_are_larger_and_drive_more(library: Library) -> None:
    for name, cell in library.cells.items():
        if name.endswith("_X2"):
            unit = library.cells[name.replace("_X2", "_X1")]
            assert cell.area > unit.area, name
            slow, fast = (gate.outputs[0].timing[0].cell_rise for gate in (unit, cell))
            assert slow is not None
            assert fast is not None
            assert fast.at(0, 20) < slow.at(0, 20), name


def test_units_of_the_flows(library: Library) -> None:
    assert (library.ge_area, library.fo4_ps, library.nand2) == (1, 50, "NAND2_X1")
    assert (library.flip_flop, library.clock_gate, library.driving_cell) == ("DFF_X1", "CLKGATE_X1", "BUF_X4")
    assert not library.physical


def test_energy_of_an_inverter_edge_is_half_its_parasitic_capacitance(library: Library) -> None:
    (power,) = library.cells["INV_X4"].pins["Y"].internal_power
    assert power.rise_power is not None
    assert power.rise_power.at(0.1, 7) == pytest.approx(4 / 2)
    assert all(cell.leakage_nw > 0 for cell in library.cells.values())


def test_the_file_names_its_generator() -> None:
    assert "xpulpnn_sim.exploration.builtin" in liberty_text().splitlines()[0]
    assert builtin_library().path == builtin_library().path
