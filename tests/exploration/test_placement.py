"""Placements: wires of hand-placed cells, rows, sizing that keeps the function, OpenSTA on the written wires."""

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.exploration.test_sta import ARRIVALS, NETLIST, opensta

from xpulpnn.config import preset
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.exploration.asic import AsicFlow
from xpulpnn_sim.exploration.clock_tree import clock_tree
from xpulpnn_sim.exploration.flows import flow_steps
from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.liberty import expression
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import CombinationalCells, MappedGate, MappedNetlist
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.placement import Placement, Placer, default_row_um, module_tiles
from xpulpnn_sim.exploration.results import emit_design
from xpulpnn_sim.exploration.sizing import place_and_size, resized
from xpulpnn_sim.exploration.timing import OpenSta, longest_paths

pytestmark = pytest.mark.flow
__all__ = ["opensta"]

CELLS = generic_library().cells


def test_wires_are_half_perimeters_and_more_for_many_pins() -> None:
    # 36 um2 at a quarter of the area: a border of 12 um in rows of 2 um; ports at two of its corners
    placement = Placement([(9.0, [2, 3])] * 4, [2, 4], Placer(row_um=2.0, utilisation=0.25, wire_ff_um=0.1))
    assert (placement.width_um, placement.height_um, placement.rows) == (12.0, 12.0, 6)
    assert placement.border.tolist() == [[0.0, 0.0], [12.0, 12.0]]
    placement.places = np.array([[1.0, 1.0], [4.0, 1.0], [4.0, 7.0], [2.0, 3.0]])
    wires = placement.wires_ff()
    # three units to the right and six up; a tree of four pins is longer, and one of five, with the port in the corner
    assert wires == pytest.approx({2: 0.1 * (4 + 7) * 1.1536, 3: 0.1 * 9 * 1.0828, 4: 0.0})


def chain(count: int, library: Library) -> MappedNetlist:
    """NANDs of earlier nets, most of them near, and a register."""
    random, gates = Random(count), list[MappedGate]()
    for number in range(count):
        a, b = (max(3, 5 + number - random.randrange(1, 12)) for _ in "ab")
        gates.append(
            MappedGate(f"g{number}", f"part{number % 3}", CELLS["NAND2_X1"], {"A": a, "B": b, "Y": 5 + number})
        )
    last = 4 + count
    names = {2: "clk", 3: "a", 4: "b", **{5 + number: f"n{number}" for number in range(count)}, last + 1: "q"}
    gates.append(MappedGate("held", "", CELLS["DFF_X1"], {"D": last, "CK": 2, "Q": last + 1}))
    inputs, outputs = {"clk": 2, "a": 3, "b": 4}, {"q": last + 1, "y": last}
    return MappedNetlist(module="chain", gates=gates, inputs=inputs, outputs=outputs, names=names)


def values(netlist: MappedNetlist) -> dict[str, int]:
    """Values of outputs and next states in 64 random vectors."""
    logic, ones = CombinationalCells(netlist), (1 << 64) - 1
    known = {net: Random(name).getrandbits(64) for net, name in logic.starts.items()}
    for gate in logic.gates:
        pins = {pin.name: known[gate.pins[pin.name]] for pin in gate.cell.inputs}
        known |= {gate.pins[pin.name]: expression(pin.function).evaluate(pins, ones) for pin in gate.cell.outputs}
    return {f"{name} {number}": known[net] for number, (net, name) in enumerate(logic.ends)}


@pytest.fixture(scope="module")
def placer(library: Library) -> Placer:
    """Wires of many times the usual capacitance, so that gates must be changed."""
    return Placer(row_um=default_row_um(library.ge_area), wire_ff_um=4.0)


def test_sizing_keeps_the_function_and_makes_the_path_shorter(library, placer, opensta, tmp_path) -> None:
    netlist = chain(150, library)
    placed = place_and_size(netlist, library, placer, 1, 0.0)
    result, placement = placed.result, placed.placement
    assert values(placed.netlist) == values(netlist)
    assert result.resized > 0
    assert result.buffers == len(placed.netlist.gates) - len(netlist.gates) > 0
    assert placed.delay_ps < 0.9 * result.unsized_ps
    assert result.clock.buffers == 1
    assert longest_paths(placed.netlist, library)[0].delay_ps == pytest.approx(placed.delay_ps, abs=0.01)
    assert opensta.delay_ps(placed.netlist, library, tmp_path) == pytest.approx(placed.delay_ps, rel=0.01)
    # every cell is in a row, inside of the border, and on no other
    rows: dict[float, list[tuple[float, float]]] = {}
    for gate, (x, y) in zip(placed.netlist.gates, placement.places, strict=True):
        width = gate.cell.area / placer.row_um
        assert width / 2 - 0.02 <= x <= placement.width_um - width / 2 + 0.02
        rows.setdefault(round(float(y / placer.row_um - 0.5), 1), []).append((x - width / 2, x + width / 2))
    assert set(rows) <= set(range(placement.rows))
    for cells in rows.values():
        cells.sort()
        assert all(after[0] > before[1] - 0.02 for before, after in pairwise(cells))
    area = sum(gate.cell.area for gate in placed.netlist.gates)
    assert area / placement.width_um / placement.height_um == pytest.approx(0.7)
    modules, tiles = module_tiles(placed.netlist, placement)
    assert {"part0", "part1", "part2"} < set(modules)
    assert {-1, 0, 1, 2} <= {module for row in tiles for module in row}


def test_gates_of_joined_parts_are_changed_for_their_wires(library: Library) -> None:
    plain = chain(150, library)
    netlist = replace(plain, wires_ff={net: 60.0 for gate in plain.gates for net in gate.driven})
    changed = resized(netlist, library)
    assert values(changed) == values(netlist)
    assert len(changed.gates) == len(netlist.gates)
    before, after = (longest_paths(each, library)[0].delay_ps for each in (netlist, changed))
    assert after < 0.95 * before


def flip_flops(places: list[tuple[float, float]], library: Library) -> tuple[MappedNetlist, Placement]:
    gates = [MappedGate(f"f{n}", "", CELLS["DFF_X1"], {"D": 3, "CK": 2, "Q": 4 + n}) for n in range(len(places))]
    netlist = MappedNetlist(module="m", gates=gates, inputs={"clk": 2, "d": 3}, outputs={}, names={})
    placement = Placement([(4.0, [3, 4 + n]) for n in range(len(places))], [2, 3], Placer(row_um=2.0, wire_ff_um=0.25))
    placement.places = np.array(places)
    return netlist, placement


def test_a_clock_tree_has_buffers_of_buffers(library: Library) -> None:
    """Two rows of 16 flip-flops, 1000 um apart: a buffer in the middle of each row, and one between the two."""
    netlist, placement = flip_flops([(10.0 * n, y) for y in (0.0, 1000.0) for n in range(16)], library)
    tree = clock_tree(netlist, placement, library)
    assert tree.buffers == 3
    # half perimeters of 150 um of 17 pins in two rows, and 1000 um between two buffers and that in the middle
    row = 150 * np.interp(17, [15, 20], [1.6899, 1.8924])
    assert tree.wire_mm == pytest.approx((2 * row + 1000) / 1e3, abs=0.001)
    # flip-flops and the buffer of size 4 have inputs of 1 fF; V is 1 V
    assert tree.energy_pj == pytest.approx((0.25 * (2 * row + 1000) + 32 + 2) / 1e3, abs=0.001)
    assert tree.skew_ps == 0
    # tau of 10 ps: 1 + 4 + 1 in the inverters of sizes 1 and 4 of a buffer, and load by size
    assert tree.latency_ps == pytest.approx(10 * (6 + (0.25 * row + 16) / 4 + 6 + (0.25 * 1000 + 2) / 4), abs=0.1)
    shorter = flip_flops(
        [(10.0 * n, y) for y, pitch in ((0.0, 1), (1000.0, 0.5)) for n in np.arange(16) * pitch], library
    )
    later = clock_tree(*shorter, library)
    assert later.skew_ps == pytest.approx(10 * 0.25 * row / 2 / 4, rel=0.01)
    assert clock_tree(*flip_flops([(0.0, 0.0)], library), library).buffers == 1


def test_wires_of_places_are_in_the_delay(library: Library, opensta: OpenSta, tmp_path: Path) -> None:
    pin = library.cells["INV_X1"].inputs[0].capacitance_ff
    wired = replace(NETLIST, wires_ff={5: 2 * pin, 6: 3 * pin, 7: pin})
    # an inverter of size 2 drives the wire of n6
    expected = ARRIVALS[-1] + 2 + 3 / 2 + 1
    path = longest_paths(wired, library)[0]
    assert path.delay_ps == pytest.approx(10 * expected, abs=0.01)
    assert [step.wire_ps for step in path.steps] == pytest.approx([20, 15, 10], abs=0.01)
    assert opensta.delay_ps(wired, library, tmp_path) == pytest.approx(10 * expected, abs=0.1)


def test_a_component_is_placed_with_every_seed(library, placer, opensta) -> None:
    wired = library.with_placement(replace(placer, wire_ff_um=0.5, seeds=3))
    output = AsicFlow(wired, "asic", "area").run(emit_design("nnrf", preset("xpulpnn")))
    result = output.result
    assert (len(result.runs), len({run.delay_ps for run in result.runs})) == (3, 3)
    assert result.delay_ps == sorted(run.delay_ps for run in result.runs)[1] == result.path.delay_ps
    assert result.path.others == {f"OpenSTA {opensta.version}": pytest.approx(result.delay_ps, rel=0.03)}
    assert result.placement.wireless_ps < result.delay_ps
    assert 0 < sum(step.wire_ps for step in result.path.steps) < result.delay_ps
    assert any(name.endswith("wires.spef") for name in output.files)
    assert "placed with 3 seeds" in " ".join(result.conditions)
    assert wired.wire_settings["placement"] != library.with_placement(placer).wire_settings["placement"]


def test_what_cannot_be_placed(library: Library, placer: Placer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = r"^coloquinte must be able to place the cells with utilisation 0\.999: Not all cells have been placed$"
    with pytest.raises(ToolError, match=text):
        Placement([(9.0 + number % 7, [2, 3]) for number in range(200)], [2], replace(placer, utilisation=0.999)).place(
            1, {}
        )
    with pytest.raises(InputError, match=r"^flow must be asic with placement, not ecp5$"):
        flow_steps(ExploreOptions(placement=True, flow="ecp5"))
    monkeypatch.setitem(sys.modules, "coloquinte", None)
    with pytest.raises(ToolError, match=r"^coloquinte must be installed for placement: pip install '.\[placement\]'$"):
        library.with_placement(placer)
