"""Searches: points are the same for the same seed, none twice, none impossible; what is made small, and the front."""

import sys

import pytest
from tests.exploration.sample_results import flow, labels, point

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError, ToolError
from xpulpnn.field_values import apply_settings
from xpulpnn_sim.exploration.search import (
    Objective,
    Search,
    objectives,
    pareto_front,
    pareto_table,
    require_optuna,
    structures,
)

pytestmark = pytest.mark.flow

AREA = Objective(name="area", flow="asic-area")
DELAY = Objective(name="delay", flow="asic-area")
BOTH = ["asic-area", "asic-speed"]
WIDTHS = [f"16+{width}" if width else "16" for width in (0, 8, 4, 2)]
CHOICES = {
    "preset": ["xpulpnn", "xpulpnn-full"],
    "widths": WIDTHS,
    "isolation": ["none", "and", "register"],
    "multipliers": ["replicated", "shared"],
    "adders": ["inferred", "carry-save"],
    "multiplier": ["inferred", "booth"],
}


def mapped(label, area=None, delay_ps=None, **figures):
    return point(label, flows=[flow(script="area", area_kge=area, delay_ps=delay_ps)], **figures)


class Bench:
    """Evaluates points by a rule, and notes how many at a time."""

    def __init__(self, area=lambda settings: len(settings["widths"]) + WIDTHS.index(settings["widths"])):
        self.area = area
        self.batches = []

    def __call__(self, points):
        self.batches.append(len(points))
        return [mapped(each.label, self.area(each.settings), 1000.0, settings=dict(each.settings)) for each in points]


def search(points=24, seed=0, choices=CHOICES, common=None, obstacle=lambda config: ""):
    options = {"points": points, "seed": seed, "choices": choices, "obstacle": obstacle, "common": common or {}}
    return Search(top="core", objectives=[AREA, DELAY], **options)


def test_the_same_seed_proposes_the_same_points():
    first, second, other = (search(seed=seed).run(Bench(), lambda: False) for seed in (1, 1, 2))
    assert labels(first) == labels(second) != labels(other)
    assert len(set(labels(first))) == 24
    # impossible points are told and do not count
    rules = {skipped.rule for space in (first, second, other) for skipped in space.skipped}
    rule = "isolation must be none with shared multipliers, whose masks isolate"
    assert rules == {f"{rule}, not and", f"{rule}, not register"}


def test_every_point_of_a_small_space():
    choices = {name: CHOICES[name] for name in ("preset", "isolation", "multipliers")}
    bench = Bench(area=lambda settings: 1.0)
    space = search(points=100, choices=choices, common={"widths": "8"}).run(bench, lambda: False)
    assert len(space.points) == 2 * 4
    assert len(space.skipped) == 4
    assert sum(bench.batches) == 8
    assert all(point.settings["widths"] == "8" for point in space.points)


def test_good_values_are_proposed_more_often():
    space = search(points=40, seed=1).run(Bench(), lambda: False)
    late = [point.settings["widths"] for point in space.points[16:]]
    assert late.count("16") > len(late) / 3


def test_a_stopped_search_keeps_what_it_has():
    bench = Bench()
    space = search().run(bench, lambda: len(bench.batches) == 2)
    assert len(space.points) == sum(bench.batches) == 16


def test_points_that_cannot_be_evaluated_do_not_count():
    choices = {"preset": ["xpulpnn"], "widths": WIDTHS}
    needs = search(points=3, choices=choices, obstacle=lambda config: "" if 8 in config.widths else "needs 8 bit")
    space = needs.run(Bench(), lambda: False)
    assert labels(space) == ["xpulpnn widths=16+8"]
    assert {skipped.rule for skipped in space.skipped} == {"needs 8 bit"}
    assert len(space.skipped) == 3


def test_the_point_that_changes_nothing_comes_first():
    space = search(points=9).run(Bench(), lambda: False)
    changed = apply_settings(PRESETS[CHOICES["preset"][0]], {"widths": WIDTHS[0]})
    assert space.points[0].config == changed  # the preset's own widths are not among the choices


def test_nothing_possible():
    choices = {"preset": ["xpulpnn"], "isolation": ["register"]}
    with pytest.raises(InputError, match=r"^search must be of a space with possible points, not none of 1$"):
        search(choices=choices, common={"multipliers": "shared"}).run(Bench(), lambda: False)


def test_structures_are_those_a_component_has():
    assert structures("core", {"adders": "inferred"}) == {
        "multiplier": ["inferred", "booth", "dot-product"],
        "shifter": ["inferred", "steps"],
        "multipliers": ["replicated", "signed", "shared"],
        "isolation": ["none", "and", "register"],
    }
    assert list(structures("dotp", {})) == ["multipliers", "isolation", "adders"]
    with pytest.raises(InputError, match=r"^sweep must be given to search nnrf, which has no other structures, not "):
        structures("nnrf", {})


def test_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolError, match=r"^optuna must be installed for search: pip install '.\[search\]'$"):
        require_optuna()


@pytest.mark.parametrize(
    ("text", "flows", "kernels", "expected"),
    [
        ("", BOTH, False, [("area", "asic-area"), ("delay", "asic-area")]),
        ("", ["ecp5"], False, [("luts", "ecp5"), ("fmax", "ecp5")]),
        ("", ["builtin-area"], True, [("area", "builtin-area"), ("delay", "builtin-area"), ("cycles", "")]),
        ("delay@asic-speed,area,area", BOTH, False, [("delay", "asic-speed"), ("area", "asic-area")]),
        ("fmax,area", ["asic-area", "ice40"], False, [("fmax", "ice40"), ("area", "asic-area")]),
    ],
)
def test_objectives(text, flows, kernels, expected):
    listed = objectives(text, flows, kernels=kernels, energies=False)
    assert [(objective.name, objective.flow) for objective in listed] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beauty", "a list out of area,delay,luts,fmax,cycles,energy, not beauty"),
        ("area,", "a list out of area,delay,luts,fmax,cycles,energy, not empty"),
        ("fmax@asic-area", "of what the run measures, not fmax@asic-area"),
    ],
)
def test_bad_objectives(text, message):
    with pytest.raises(InputError, match=f"^objective must be {message}$"):
        objectives(text, ["asic-area"], kernels=False, energies=False)


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
    both = objectives("", ["ice40"], kernels=False, energies=False)
    assert [objective.direction for objective in both] == ["minimize", "maximize"]
    assert both[1].value(points[0]) == 50.0
    assert pareto_front(points, both) == [0, 1]


def test_cycles_are_those_of_all_kernels():
    (cycles,) = objectives("cycles", ["asic-area"], kernels=True, energies=False)
    assert cycles.value(mapped("a", kernels=[{"cycles": 3}, {"cycles": 4}])) == 7
    assert cycles.value(mapped("a")) is None
