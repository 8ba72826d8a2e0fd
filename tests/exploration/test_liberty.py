"""The Liberty reader and the built-in library: units, tables, registers, expressions, errors, efforts."""

import os
from pathlib import Path

import pytest

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.generic_library import liberty_text
from xpulpnn_sim.exploration.liberty import Expression, Liberty, read_liberty
from xpulpnn_sim.exploration.library import Library, load_library

TEXT = r"""/* a comment { with a brace */
library (small) {
  time_unit : "10ps";
  leakage_power_unit : "1uW";
  voltage_unit : "100mV";
  capacitive_load_unit (10, ff);
  nom_voltage : 12;
  lu_table_template (delay) {
    variable_1 : total_output_net_capacitance;
    variable_2 : input_net_transition;
    index_1 ("1, 3"); index_2 ("0, 10");
  }
  power_lut_template (edge) { variable_1 : input_transition_time; index_1 ("0, 10"); }
  cell (NAND) {
    area : 2.5;
    leakage_power () { value : 1; when : "!A"; }
    leakage_power () { value : 3; when : "A"; }
    pin (A, B) { direction : input; capacitance : 0.2; }
    pin (Y) {
      direction : output;
      function : "(A B)'";
      timing () {
        related_pin : "A B"; // two arcs
        timing_sense : negative_unate
        cell_rise (delay) { values ("1, 2", \
                                    "3, 4"); }
      }
      internal_power () { related_pin : "A"; power (edge) { values ("5, 7"); } }
    }
  }
  cell (DFF) {
    area : 7;
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; clear : "!R"; }
    pin (CK) { direction : input; clock : true; capacitance : 0.1; }
    pin (D) {
      direction : input;
      timing () {
        related_pin : "CK"; timing_type : setup_rising;
        rise_constraint (limits) { values ("1, 3", "2, 6"); }
      }
    }
    pin (Q) { direction : output; function : "IQ"; }
  }
  lu_table_template (limits) {
    variable_1 : related_pin_transition; variable_2 : constrained_pin_transition;
    index_1 ("0, 10"); index_2 ("0, 20");
  }
}
"""


def library(text: str = TEXT) -> Liberty:
    return read_liberty(text, "small.lib")


def test_units_are_ns_ff_fj_and_nw() -> None:
    read = library()
    nand = read.cells["NAND"]
    assert (read.name, read.voltage) == ("small", pytest.approx(1.2))
    assert nand.pins["B"].capacitance_ff == pytest.approx(2)
    assert nand.leakage_nw == pytest.approx(2000)
    # 0.1 V squared times 10 fF is 0.1 fJ
    power = nand.pins["Y"].internal_power[0].rise_power
    assert power.value_at(0.05, 99) == pytest.approx(0.6)


def test_tables_are_bilinear_whatever_the_order_of_their_axes() -> None:
    arcs = library().cells["NAND"].pins["Y"].timing
    assert [arc.related_pin for arc in arcs] == ["A", "B"]
    assert {arc.timing_sense for arc in arcs} == {"negative_unate"}
    table = arcs[0].cell_rise
    places = ((0.0, 10), (0.1, 10), (0.0, 30), (0.05, 20), (0.2, 40))
    (setup,) = library().cells["DFF"].pins["D"].timing[0].constraints
    # by the slew of the clock, then of the data
    assert [setup.value_at(*place) for place in ((0, 0), (0, 0.2), (0.1, 0), (0.1, 0.1))] == pytest.approx(
        [0.01, 0.03, 0.02, 0.04]
    )
    assert [table.value_at(*place) for place in places] == pytest.approx([0.01, 0.02, 0.03, 0.025, 0.06])


def test_registers_and_pins() -> None:
    cells = library().cells
    register = cells["DFF"].flip_flop
    assert (register.state, register.next_state, register.clocked_on, register.clear) == ("IQ", "D", "CK", "!R")
    assert [pin.name for pin in cells["DFF"].pins.values() if pin.clock] == ["CK"]
    assert cells["NAND"].truth_table() == 0b0111
    assert cells["DFF"].truth_table() is None


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("A*B", 0b1000),
        ("A B", 0b1000),
        ("A + B", 0b1110),
        ("A^B", 0b0110),
        ("!A^B", 0b1001),
        ("A'", 0b0101),
        ("(A+B)'", 0b0001),
        ("A+B*!A", 0b1110),
        ("A*B^A", 0b0010),
        ("1", 0b1111),
        ("", 0b1111),
    ],
)
def test_expressions(text: str, table: int) -> None:
    assert Expression(text).truth_table(["A", "B"]) == table


@pytest.mark.parametrize("text", ["A*", "(A", "A)", "A ? B", "+A"])
def test_malformed_expressions_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expression must be Boolean, not "):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("module top; endmodule", "line 1: library (NAME) { expected"),
        (TEXT[: TEXT.index("cell (DFF)")], "line 31: the file ends"),
        (TEXT.replace("area : 2.5;", "area 2.5;"), "line 15: attribute or group expected"),
        (TEXT.replace('"1uW"', '"1 furlong"'), "unit 1 furlong is unknown"),
        (TEXT.replace('"1, 2"', '"1, 2, 3"'), "cell_rise has 5 values for axes of [2, 2]"),
        ("library (empty) { }", "it holds no cell"),
    ],
)
def test_what_is_no_library_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        library(text)
    assert str(caught.value) == f"liberty must be a Liberty file, not small.lib ({reason})"


def test_a_missing_file_and_a_library_without_inverters(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^liberty must be a Liberty file, not .*none.lib \(No such file or dir.*$"):
        load_library(tmp_path / "none.lib")
    with pytest.raises(ToolError, match=r"^liberty must hold an inverter with delay tables, not none as .*small"):
        Library(TEXT.encode(), "small.lib")


@pytest.mark.skipif("XPULPNN_LIBERTY" not in os.environ, reason="XPULPNN_LIBERTY names no Liberty file")
def test_sg13g2_gives_the_reference_units() -> None:
    library = load_library(Path(os.environ["XPULPNN_LIBERTY"]))
    if not library.name.startswith("sg13g2_stdcell_typ_1p20V_25C"):
        pytest.skip(f"figures are those of SG13G2, not of {library.name}")
    assert (library.ge_area, library.fo4_ps, library.output_load_ff) == pytest.approx((7.2576, 58.8, 6))
    cells = (library.flip_flop, library.driving_cell, library.clock_gate)
    assert cells == ("sg13g2_dfrbpq_1", "sg13g2_buf_4", "sg13g2_lgcp_1")


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
    assert rise.value_at(0.1, 0.0) == pytest.approx(0.010 * parasitic / 3)
    assert rise.value_at(0.1, 6.0) == pytest.approx(0.010 * (parasitic / 3 + 6))


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
            assert fast.value_at(0, 20) < slow.value_at(0, 20), name


@pytest.mark.flow
def test_units_and_energies(library: Library) -> None:
    assert (library.ge_area, library.fo4_ps, library.nand2) == (1, 50, "NAND2_X1")
    assert (library.flip_flop, library.clock_gate, library.driving_cell) == ("DFF_X1", "CLKGATE_X1", "BUF_X4")
    assert not library.physical
    assert "xpulpnn_sim.exploration.generic_library" in liberty_text().splitlines()[0]
    # the energy of an inverter's edge is half its parasitic capacitance
    (power,) = library.cells["INV_X4"].pins["Y"].internal_power
    assert power.rise_power.value_at(0.1, 7) == pytest.approx(4 / 2)
    assert all(cell.leakage_nw > 0 for cell in library.cells.values())
