"""What a search makes small, and the points that no other beats."""

import pytest
from tests.exploration.made_up import flow, point

from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.search import Objective, objectives, pareto_front, pareto_table

pytestmark = pytest.mark.unit

AREA = Objective(name="area", flow="asic-area")
DELAY = Objective(name="delay", flow="asic-area")


def mapped(label, area=None, delay_ps=None, **figures):
    return point(label, flows=[flow(script="area", area_kge=area, delay_ps=delay_ps)], **figures)


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
        ("beauty", "objective must be a list out of area,delay,luts,fmax,cycles,energy, not beauty"),
        ("area,", "objective must be a list out of area,delay,luts,fmax,cycles,energy, not empty"),
        ("fmax@asic-area", "objective must be of what the run measures, not fmax@asic-area"),
    ],
)
def test_bad_objectives(text, message):
    with pytest.raises(InputError) as caught:
        objectives(text, ["asic-area"], kernels=False, energies=False)
    assert str(caught.value) == message


def test_front_is_what_no_point_beats():
    points = [
        mapped("small", 1.0, 900.0),
        mapped("beaten", 2.0, 900.0),
        mapped("fast", 3.0, 500.0),
        mapped("twin", 3.0, 500.0),
        mapped("unknown", 0.5),
        mapped("failed", 0.1, 1.0, error="late"),
    ]
    assert pareto_front(points, [AREA, DELAY]) == [0, 2, 3]
    assert [row[0] for row in pareto_table(points[::-1], [DELAY, AREA]).rows] == ["twin", "fast", "small"]


def test_more_is_better_for_some():
    points = [
        point(f"{luts}", flows=[flow(flow="ice40", luts=luts, fmax_mhz=fmax)])
        for luts, fmax in ((10, [1.0, 50.0, 60.0]), (20, [70.0]), (30, [60.0]))
    ]
    wanted = objectives("", ["ice40"], kernels=False, energies=False)
    assert [objective.direction for objective in wanted] == ["minimize", "maximize"]
    assert wanted[1].value(points[0]) == 50.0
    assert pareto_front(points, wanted) == [0, 1]


def test_cycles_are_those_of_all_kernels():
    (cycles,) = objectives("cycles", ["asic-area"], kernels=True, energies=False)
    assert cycles.value(mapped("a", kernels=[{"cycles": 3}, {"cycles": 4}])) == 7
    assert cycles.value(mapped("a")) is None
