"""Products of presets and swept settings."""

import pytest
from tests.exploration.sample_results import labels

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.space import build_space

OTHER = "sweep must name a setting that is given nowhere else"
NONE = "at least one combination must be possible, not none of 1"
KNOWN = "ri5cy,xpulpnn,xpulpnn-cu,xpulpnn-full,xpulpnn2,xpulpnn3"


def test_presets_alone():
    space = build_space("ex-stage", ["ri5cy,xpulpnn", "xpulpnn-cu", "ri5cy"], [], [])
    assert labels(space) == ["ri5cy", "xpulpnn", "xpulpnn-cu"]
    assert [point.config for point in space.points] == [PRESETS[name] for name in labels(space)]
    assert space.skipped == ()


@pytest.mark.flow
def test_product_with_its_impossible_combinations():
    sweeps = ["dotp.multipliers=shared,replicated", "isolation=none,register"]
    space = build_space("dotp", ["xpulpnn"], ["mac-load-nn=false"], sweeps)
    common = "xpulpnn mac_load_nn=false"
    assert labels(space) == [
        f"{common} multipliers=shared isolation=none",
        f"{common} multipliers=replicated isolation=none",
        f"{common} multipliers=replicated isolation=register",
    ]
    structures = [(point.config.dotp.multipliers, point.config.dotp.isolation) for point in space.points]
    assert structures == [("shared", "none"), ("replicated", "none"), ("replicated", "register")]
    assert not any(point.config.mac_load for point in space.points)
    assert space.points[0].settings == {"mac_load_nn": "false", "multipliers": "shared", "isolation": "none"}
    (skipped,) = space.skipped
    assert skipped.label == f"{common} multipliers=shared isolation=register"
    assert skipped.rule == "isolation must be none with shared multipliers, whose masks isolate, not register"


def test_widths_joined_by_plus():
    space = build_space("dotp", ["ri5cy,xpulpnn"], [], ["widths=16+8,16+8+4+2,8"])
    assert [(point.label, point.config.widths) for point in space.points] == [
        ("ri5cy widths=16+8", {16, 8}),
        ("ri5cy widths=8", {8}),
        ("xpulpnn widths=16+8", {16, 8}),
        ("xpulpnn widths=16+8+4+2", {16, 8, 4, 2}),
        ("xpulpnn widths=8", {8}),
    ]
    assert [combination.label for combination in space.skipped] == ["ri5cy widths=16+8+4+2"]


@pytest.mark.parametrize(
    ("top", "presets", "sweeps", "label", "rule"),
    [
        ("nnrf", "ri5cy,xpulpnn", [], "xpulpnn", "mac_load_nn or mac_load_cu must be true for nnrf, not both false"),
        (
            "icache",
            "cluster",
            ["icache_private=0,512"],
            "cluster icache_private=512",
            "icache_private must be the bytes of each core's cache for icache, not 0",
        ),
    ],
)
def test_component_the_configuration_lacks(top, presets, sweeps, label, rule):
    space = build_space(top, [presets], [], sweeps)
    assert labels(space) == [label]
    assert [combination.rule for combination in space.skipped] == [rule]


@pytest.mark.flow
def test_clusters():
    space = build_space("cluster", ["cluster,xpulpnn-cu"], ["core.dotp.multipliers=replicated"], ["banks=16,24,32"])
    common = "multipliers=replicated"
    names = ("cluster", "xpulpnn-cu")
    assert labels(space) == [f"{name} {common} banks={banks}" for name in names for banks in (16, 32)]
    assert [combination.rule for combination in space.skipped] == ["banks must be a power of two, not 24"] * 2
    first, *_, last = (point.config for point in space.points)
    assert (first.cores, first.banks, first.core.mac_load_nn) == (8, 16, True)
    assert first.core.dotp.multipliers == "replicated"
    assert (last.banks, last.core.mac_load_cu, last.core.mac_load_nn) == (32, True, False)


@pytest.mark.flow
def test_folders_are_plain_and_distinct():
    values = [f"isolation={value}" for value in ("none", "and", "register")]
    many = [f"{key}=false" for key in ("performance_counters", "mac_load_cu", "mac_load_nn", "rvfi", "xpulpnn")]
    many += ["multipliers=replicated", "widths=16+8"]
    points = [build_space("dotp", ["xpulpnn"], [*many, value], []).points[0] for value in values]
    folders = {point.folder for point in points}
    assert len(folders) == 3
    assert all(len(point.label) > 120 for point in points)
    assert all(len(folder) < 130 and "/" not in folder and " " not in folder for folder in folders)


@pytest.mark.parametrize(
    ("presets", "settings", "sweeps", "text"),
    [
        (["arm"], [], [], f"preset must be a list out of {KNOWN}, not arm"),
        (["xpulpnn"], ["widths"], [], "set must be KEY=VALUE, not widths"),
        (["xpulpnn"], [], ["widths"], "sweep must be KEY=V1,V2,..., not widths"),
        (["xpulpnn"], [], ["widths=16+3"], "widths must be a non-empty set out of 16,8,4,2, not 16,3"),
        (["xpulpnn"], [], ["isolation=none,gold"], "isolation must be one of none, and, register, not gold"),
        (["xpulpnn"], ["rvfi=1", "rvfi=0"], [], "set must give each setting once, not rvfi twice"),
        (["xpulpnn"], ["isolation=none"], ["dotp.isolation=and"], f"{OTHER}, not isolation again"),
        (["xpulpnn"], [], ["rvfi=0", "rvfi=1"], f"{OTHER}, not rvfi again"),
        (["ri5cy"], ["mac_load_nn=true"], [], f"{NONE}: xpulpnn must be true with mac_load_nn, not false"),
    ],
)
def test_bad_options(presets, settings, sweeps, text):
    with pytest.raises(InputError) as error:
        build_space("ex-stage", presets, settings, sweeps)
    assert str(error.value) == text
