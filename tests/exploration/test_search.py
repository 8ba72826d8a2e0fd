"""Points that a search proposes: the same for the same seed, none twice, none impossible, more of the good ones."""

import sys

import pytest
from tests.exploration import made_up

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.exploration.search import Objective, Search, require_optuna, structures

pytestmark = pytest.mark.unit

OBJECTIVES = [Objective(name="area", flow="asic"), Objective(name="delay", flow="asic")]
WIDTHS = [f"16+{width}" if width else "16" for width in (0, 8, 4, 2)]
CHOICES = {
    "preset": ["xpulpnn", "xpulpnn-full"],
    "widths": WIDTHS,
    "isolation": ["none", "and", "register"],
    "multipliers": ["replicated", "shared"],
    "adders": ["inferred", "carry-save"],
    "multiplier": ["inferred", "booth"],
}


class Bench:
    """Evaluates points by a rule, and notes how many at a time."""

    def __init__(self, area=lambda settings: len(settings["widths"]) + WIDTHS.index(settings["widths"])):
        self.area = area
        self.batches = []

    def __call__(self, points):
        self.batches.append(len(points))
        return [
            made_up.point(
                point.label,
                settings=dict(point.settings),
                flows=[made_up.flow(area_kge=self.area(point.settings), delay_ps=1000.0)],
            )
            for point in points
        ]


def search(points=24, seed=0, choices=CHOICES, common=None, obstacle=lambda config: ""):
    options = {"points": points, "seed": seed, "choices": choices, "obstacle": obstacle, "common": common or {}}
    return Search(top="core", objectives=OBJECTIVES, **options)


def labels(found):
    return [point.label for point in found.points]


def test_the_same_seed_proposes_the_same_points():
    first, second, other = (search(seed=seed).run(Bench(), lambda: False) for seed in (1, 1, 2))
    assert labels(first) == labels(second) != labels(other)
    assert len(set(labels(first))) == 24


def test_impossible_points_are_told_and_do_not_count():
    found = search(points=32).run(Bench(), lambda: False)
    assert len(found.points) == 32
    assert {one.rule for one in found.skipped} == {
        "isolation must be none or and with shared multipliers, not register"
    }


def test_every_point_of_a_small_space():
    choices = {name: CHOICES[name] for name in ("preset", "isolation", "multipliers")}
    bench = Bench(area=lambda settings: 1.0)
    found = search(points=100, choices=choices, common={"widths": "8"}).run(bench, lambda: False)
    assert len(found.points) == 2 * 5
    assert len(found.skipped) == 2
    assert sum(bench.batches) == 10
    assert all(point.settings["widths"] == "8" for point in found.points)


def test_good_values_are_proposed_more_often():
    found = search(points=40, seed=1).run(Bench(), lambda: False)
    late = [point.settings["widths"] for point in found.points[16:]]
    assert late.count("16") > len(late) / 3


def test_a_stopped_search_keeps_what_it_has():
    bench = Bench()
    found = search().run(bench, lambda: len(bench.batches) == 2)
    assert len(found.points) == sum(bench.batches) == 16


def test_points_that_cannot_be_evaluated_do_not_count():
    choices = {"preset": ["xpulpnn"], "widths": WIDTHS}
    found = search(points=3, choices=choices, obstacle=lambda config: "" if 8 in config.widths else "needs 8 bit").run(
        Bench(), lambda: False
    )
    assert labels(found) == ["xpulpnn widths=16+8"]
    assert {one.rule for one in found.skipped} == {"needs 8 bit"}
    assert len(found.skipped) == 3


def test_nothing_possible():
    choices = {"preset": ["xpulpnn"], "isolation": ["register"]}
    with pytest.raises(InputError) as caught:
        search(choices=choices, common={"multipliers": "shared"}).run(Bench(), lambda: False)
    assert str(caught.value) == "search must be of a space with possible points, not none of 1"


def test_structures_are_those_a_component_has():
    assert structures("core", {"adders": "inferred"}) == {
        "multiplier": ["inferred", "booth"],
        "shifter": ["inferred", "steps"],
        "multipliers": ["replicated", "shared"],
        "isolation": ["none", "and", "register"],
    }
    assert list(structures("dotp", {})) == ["multipliers", "isolation", "adders"]
    with pytest.raises(InputError) as caught:
        structures("nnrf", {})
    text = "sweep must be given to search nnrf, which has no other structures, not left out"
    assert str(caught.value) == text


def test_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolError) as caught:
        require_optuna()
    assert str(caught.value) == "optuna must be installed for search: pip install '.[search]'"
