"""Settings of the command line follow the types of the configuration's fields."""

from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import permutations
from typing import Literal

import pytest
from amaranth.hdl import Fragment

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, CoreConfig, DotpConfig, preset
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.errors import ConfigError
from xpulpnn.field_values import apply_settings, settings_between


class Shape(Enum):
    ROUND = 1
    SQUARE = 2


@dataclass(frozen=True)
class Inner:
    depth: int = 4
    word: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    banks: int = 8
    sizes: frozenset[int] = frozenset({1})
    shape: Shape = Shape.ROUND
    on: bool = False
    inner: Inner = field(default_factory=Inner)


CORE = preset("xpulpnn")


def test_every_type():
    texts = {"banks": "16", "sizes": "3,0x10", "shape": "SQUARE", "on": "true", "inner.depth": "2", "word": "b"}
    assert apply_settings(Outer(), {"sizes": "3+0x10"}).sizes == {3, 16}
    changed = Outer(16, frozenset({3, 16}), Shape.SQUARE, True, Inner(2, "b"))
    assert apply_settings(Outer(), texts) == changed
    assert apply_settings(Outer(), settings_between(Outer(), changed)) == changed


def test_settings_lead_from_any_preset_to_any_other():
    for presets in (PRESETS, CLUSTER_PRESETS):
        for base, config in permutations(presets.values(), 2):
            assert apply_settings(base, settings_between(base, config)) == config


def test_settings_are_applied_together():
    # each alone would be impossible
    texts = {"isolation": "register", "dotp.multipliers": "replicated", "mac-load-cu": "on", "regfile": "array"}
    expected = DotpConfig(multipliers="replicated", isolation="register")
    assert apply_settings(CORE, texts) == CoreConfig(dotp=expected, mac_load_cu=True, regfile="array")


def test_xpulpnn2_is_the_core_of_the_paper_with_all_three_additions():
    texts = {"mac_load_cross": "on", "mac-load-dot": "true", "requantise": "1"}
    assert apply_settings(CORE, texts) == preset("xpulpnn2") == CLUSTER_PRESETS["cluster2"].core
    assert ClusterConfig(core=preset("xpulpnn2")) == CLUSTER_PRESETS["cluster2"]
    assert (preset("xpulpnn").nnrf_entries, preset("xpulpnn2").nnrf_entries) == (6, 8)
    assert {entries.nn_addr_bits for entries in map(preset, ("xpulpnn", "xpulpnn2"))} == {3}


def test_xpulpnn3_is_xpulpnn2_with_all_three_additions_and_a_multiplier_of_its_own():
    texts = {"mac_load_pair": "on", "mixed-weights": "true", "requantise_exact": "1"}
    texts |= {"multiplier": "dot-product"}
    assert apply_settings(preset("xpulpnn2"), texts) == preset("xpulpnn3") == CLUSTER_PRESETS["cluster3"].core
    assert (preset("xpulpnn3").nnrf_entries, preset("xpulpnn3").nn_addr_bits) == (8, 4)


def test_arrays_multiply_without_requantisation():
    Fragment.get(WbStage(replace(preset("xpulpnn3"), requantise_exact=False, requantise=False)), None)


@pytest.mark.parametrize("name", ["multiplier", "shifter", "regfile"])
def test_choices_are_checked_in_code_too(name):
    with pytest.raises(ConfigError, match=f"^{name} must be one of .*, not none$"):
        CoreConfig(**{name: "none"})


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("ON", True), ("0", False), ("off", False)])
def test_truth(text, value):
    assert apply_settings(Outer(on=not value), {"on": text}).on is value


@pytest.mark.parametrize(
    ("config", "texts", "error"),
    [
        (Outer(), {"banks": "many"}, "banks must be an integer, not many"),
        (Outer(), {"sizes": "1,x"}, "sizes must be a list of integers such as 16,8, not 1,x"),
        (Outer(), {"shape": "OVAL"}, "shape must be one of ROUND, SQUARE, not OVAL"),
        (Outer(), {"on": "maybe"}, "on must be true or false, not maybe"),
        (Outer(), {"inner.word": "c"}, "word must be one of a, b, not c"),
        (Outer(), {"inner": "1"}, "setting must be one of banks, depth, on, shape, sizes, word, not inner"),
        (
            CORE,
            {"isolation": "register"},
            "isolation must be none with shared multipliers, whose masks isolate, not register",
        ),
        (CORE, {"multipliers": "signed"}, "adders must be inferred with signed multipliers, not carry-save"),
        (CORE, {"widths": "32"}, "widths must be a non-empty set out of 16,8,4,2, not 32"),
        (CORE, {"xpulpv2": "off"}, "xpulpv2 must be true with xpulpnn, not false"),
        (CORE, {"xpulpnn": "off"}, "xpulpnn must be true with mac_load_nn, not false"),
        (CORE, {"xpulpnn": "off", "mac_load_nn": "off", "qnt": "on"}, "xpulpnn must be true with qnt, not false"),
        (CORE, {"mac_load_nn": "0", "mac_load_cross": "1"}, "mac_load_nn must be true with mac_load_cross, not false"),
        (CORE, {"mac_load_nn": "off", "mac_load_dot": "on"}, "mac_load_nn must be true with mac_load_dot, not false"),
        (CORE, {"mac_load_nn": "off", "requantise": "on"}, "mac_load_nn must be true with requantise, not false"),
        (CORE, {"widths": "16", "requantise": "on"}, "widths must include 8, 4 or 2 with requantise, not only 16"),
        (CORE, {"widths": "16,8", "qnt": "on"}, "widths must include 4 or 2 with qnt, not only 16,8"),
        (CORE, {"qnt": "on", "late_results": "on"}, "qnt must be false with late_results, not true"),
        (
            preset("xpulpnn3"),
            {"late_results": "on"},
            "multiplier must be inferred or booth with late_results, not dot-product",
        ),
        (CORE, {"multiplier": "dot-product"}, "mac_load_pair must be true with multiplier dot-product, not false"),
        (
            CORE,
            {"mac_load_pair": "on", "multiplier": "dot-product", "multipliers": "replicated"},
            "multipliers must be shared with multiplier dot-product, not replicated",
        ),
        (
            CORE,
            {"mac_load_pair": "on", "multiplier": "dot-product", "widths": "8,2"},
            "the widest of widths must be 16 with multiplier dot-product, not 8",
        ),
        (CORE, {"xpulpnn": "0", "mac_load_nn": "0"}, "widths must be a set out of 16,8 without xpulpnn, not 16,8,4,2"),
    ],
)
def test_refusals(config, texts, error):
    with pytest.raises(ConfigError, match=f"^{error}$"):
        apply_settings(config, texts)
