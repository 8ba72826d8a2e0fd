"""What a search makes small, and the points that no other beats."""

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.explorer.objectives import Objective, objectives, pareto_front, pareto_table
from xpulpnn_sim.explorer.results import FlowResult, PointResult

pytestmark = pytest.mark.unit

AREA = Objective(name="area", flow="asic-area")
DELAY = Objective(name="delay", flow="asic-area")


def point(label, area=None, delay_ps=None, error="", **figures):
    flow = FlowResult(flow="asic", script="area", tools={}, conditions=[], area_kge=area, delay_ps=delay_ps)
    return PointResult(
        label=label,
        top="dotp",
        preset="p",
        settings={},
        configuration={},
        folder="",
        error=error,
        flows=[flow],
        **figures,
    )


@pytest.mark.parametrize(
    ("text", "flows", "kernels", "found"),
    [
        ("", ["asic-area", "asic-speed"], False, [("area", "asic-area"), ("delay", "asic-area")]),
        ("", ["ecp5"], False, [("luts", "ecp5"), ("fmax", "ecp5")]),
        ("", ["builtin-area"], True, [("area", "builtin-area"), ("delay", "builtin-area"), ("cycles", "")]),
        (
            "delay@asic-speed,area,area",
            ["asic-area", "asic-speed"],
            False,
            [("delay", "asic-speed"), ("area", "asic-area")],
        ),
        ("fmax,area", ["asic-area", "ice40"], False, [("fmax", "ice40"), ("area", "asic-area")]),
    ],
)
def test_objectives(text, flows, kernels, found):
    assert [(one.name, one.flow) for one in objectives(text, flows, kernels=kernels, energies=False)] == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beauty", "--objective must be a list out of area,delay,luts,fmax,cycles,energy, not beauty"),
        ("area,", "--objective must be a list out of area,delay,luts,fmax,cycles,energy, not empty"),
        ("area@ecp5", "--objective area must be of a flow out of asic-area, not ecp5"),
        ("fmax", "--objective must be of what the run measures, not fmax"),
        ("fmax@asic-area", "--objective must be of what the run measures, not fmax@asic-area"),
        ("cycles", "--objective must be of what the run measures, not cycles"),
        ("energy", "--objective must be of what the run measures, not energy"),
    ],
)
def test_bad_objectives(text, message):
    with pytest.raises(InputError) as caught:
        objectives(text, ["asic-area"], kernels=False, energies=False)
    assert str(caught.value) == message


def test_front_is_what_no_point_beats():
    points = [
        point("small", 1.0, 900.0),
        point("beaten", 2.0, 900.0),
        point("fast", 3.0, 500.0),
        point("twin", 3.0, 500.0),
        point("unknown", 0.5),
        point("failed", 0.1, 1.0, error="late"),
    ]
    assert pareto_front(points, [AREA, DELAY]) == [0, 2, 3]
    assert [row[0] for row in pareto_table(points[::-1], [DELAY, AREA]).rows] == ["twin", "fast", "small"]


def test_more_is_better_for_some():
    points = [
        PointResult(
            label=f"{luts}",
            top="",
            preset="",
            settings={},
            configuration={},
            folder="",
            flows=[FlowResult(flow="ice40", tools={}, conditions=[], luts=luts, fmax_mhz=fmax)],
        )
        for luts, fmax in ((10, [1.0, 50.0, 60.0]), (20, [70.0]), (30, [60.0]))
    ]
    wanted = objectives("", ["ice40"], kernels=False, energies=False)
    assert [objective.direction for objective in wanted] == ["minimize", "maximize"]
    assert wanted[1].value(points[0]) == 50.0
    assert pareto_front(points, wanted) == [0, 1]


def test_cycles_are_those_of_all_kernels():
    (cycles,) = objectives("cycles", ["asic-area"], kernels=True, energies=False)
    assert cycles.value(point("a", kernels=[{"cycles": 3}, {"cycles": 4}])) == 7
    assert cycles.value(point("a")) is None
