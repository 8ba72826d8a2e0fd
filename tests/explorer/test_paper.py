"""The comparison of Table II: which points it runs, and how its rows come from their figures."""

import pytest

from xpulpnn_sim.explorer import paper
from xpulpnn_sim.explorer.flows import Request
from xpulpnn_sim.explorer.results import EnergyResult, FlowResult, PointResult

pytestmark = pytest.mark.unit

AREAS = {"ri5cy ex-stage": 20.0, "xpulpnn ex-stage": 25.0, "ri5cy core": 50.0, "xpulpnn core": 55.0}


def flow(area, script, library="plain"):
    return FlowResult(
        flow="asic",
        script=script,
        tools={"yosys": "0"},
        conditions=[f"Library {library} at 1 V."],
        area_kge=area * (1.0 if script == "area" else 1.1),
        delay_fo4=80.0 if script == "area" else 60.0,
    )


def energy(workload, macs, femtojoule):
    return EnergyResult(
        workload=workload,
        top="core",
        tools={},
        conditions=[],
        cycles=100,
        macs=macs,
        energy_per_cycle_fj=femtojoule,
        energy_per_mac_fj=femtojoule / 2 if macs else None,
        modules=[],
    )


def results(library="plain", with_energy=True, without=""):
    points = []
    for label, area in AREAS.items():
        name, top = label.split()
        flows = [] if label == without else [flow(area, script, library) for script in ("area", "speed")]
        scale = 1.0 if name == "ri5cy" else 1.02
        energies = [energy("matmul", 200.0, 6000.0 * scale), energy("general", 0.0, 3000.0 * scale * scale)]
        points.append(
            PointResult(
                label=label,
                top=top,
                preset=name,
                settings={},
                configuration={},
                folder="",
                error="",
                flows=flows,
                energies=energies if with_energy and top == "core" else [],
            )
        )
    return points


def rows(table):
    return {row[0]: list(row[1:]) for row in table.rows}


def test_points_and_steps(monkeypatch):
    monkeypatch.setattr(paper, "flow_steps", lambda request: list(request.scripts))
    monkeypatch.setattr(paper, "library", lambda request: "cells")
    monkeypatch.setattr(
        paper, "EnergyStep", lambda cells, spec, core=False, yosys="": (cells, spec and str(spec), core)
    )
    request = Request(flows=("builtin",), scripts=("area", "speed"), liberty=None, seeds=1)
    space, steps = paper.paper_points(request, energy=True)
    assert [point.label for point in space.points] == list(AREAS)
    assert [(point.preset, point.top) for point in space.points] == [tuple(label.split()) for label in AREAS]
    energies = [("cells", "matmul:8:xpulpv2_4x2:32x64x16", True), ("cells", None, False)]
    assert steps == [["area", "speed"]] * 2 + [["area", "speed", *energies]] * 2
    assert paper.paper_points(request, energy=False)[1] == [["area", "speed"]] * 4


def test_overheads_beside_the_paper():
    table = paper.paper_table(results())
    found = rows(table)
    assert found["ex-stage, area [kGE], area script"] == [20.0, 25.0, pytest.approx(25.0), "+32.6"]
    assert found["ex-stage, area [kGE], speed script"][:3] == pytest.approx([22.0, 27.5, 25.0])
    assert found["core, area [kGE], area script"] == [50.0, 55.0, pytest.approx(10.0), "+17.5"]
    assert found["core, delay [FO4], speed script"] == [60.0, 60.0, 0.0, "same clock"]
    assert found["core with clock gates, energy per cycle on 8-bit MatMul [pJ]"] == [
        6.0,
        pytest.approx(6.12),
        pytest.approx(2.0),
        "+2.1 to +2.5",
    ]
    general = found["core with clock gates, energy per cycle on general code [pJ]"]
    assert general[2:] == [pytest.approx(4.04), "+2.17 to +3.7"]
    assert len(found) == 10
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_authors_figures_need_their_flow():
    plain = paper.paper_table(results())
    assert not any("authors" in column.group for column in plain.columns)
    table = paper.paper_table(results(library=paper.REFERENCE_LIBRARY))
    assert [column.group for column in table.columns][-1] == "authors' RTL, same flow"
    found = rows(table)
    assert found["ex-stage, area [kGE], area script"][4:] == [27.1, 37.4, pytest.approx(38.0, abs=0.05)]
    assert found["core with clock gates, energy per cycle on general code [pJ]"][4:] == [None, None, None]


def test_missing_figures_leave_gaps():
    found = rows(paper.paper_table(results(with_energy=False, without="xpulpnn ex-stage")))
    assert found["ex-stage, area [kGE], area script"] == [20.0, None, None, "+32.6"]
    assert found["core, area [kGE], area script"][2] == pytest.approx(10.0)
    assert not any("energy" in figure for figure in found)
