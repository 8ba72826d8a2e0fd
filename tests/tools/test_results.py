"""The store of finished results: what is found again, and what is not."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest

import xpulpnn_sim.tools.results
from xpulpnn.user_cache import ignore_before
from xpulpnn_sim.tools.results import Results, digest

pytestmark = pytest.mark.unit


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Setting:
    widths: tuple[int, ...]
    colour: Colour = Colour.RED


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    done = []

    def run(stop_at):
        results = Results(tmp_path / "results")
        for name in ("a", "b/c", "d e"):
            if (found := results.find(name, digest(name))) is None:
                if name == stop_at:
                    raise KeyboardInterrupt
                done.append(name)
                results.keep(name, found := {"name": name}, digest(name))
            assert found == {"name": name}

    with pytest.raises(KeyboardInterrupt):
        run("d e")
    run("")
    assert done == ["a", "b/c", "d e"]
    assert len(Results(tmp_path / "results")) == 3


def test_a_record_of_another_key_is_replaced(tmp_path):
    results = Results(tmp_path)
    results.keep("a", 1, "old", files={"log.txt": "first"})
    assert (results.find("a", "old"), results.find("a", "new")) == (1, None)
    results.keep("a", 2, "new")
    assert (results.find("a", "old"), results.find("a", "new")) == (None, 2)
    assert (tmp_path / "a" / "log.txt").read_text() == "first"


def test_fresh_runs_find_nothing(tmp_path, monkeypatch):
    Results(tmp_path / "one").keep("a", 1, "key")
    assert Results(tmp_path / "one", fresh=True).find("a", "key") is None
    results = Results(tmp_path / "one")
    results.keep("a", 1, "key")
    monkeypatch.setattr("xpulpnn.user_cache._started", 0.0)
    ignore_before(2e10)
    assert results.find("a", "key") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "key"}', '{"value": 1}'])
def test_a_file_that_is_no_record_is_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert Results(tmp_path).find("a", "key") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2), (12,)),
        (("a", "b"), ("ab",)),
        (([1], [2]), ([1, 2],)),
        ((Colour.RED,), (Colour.BLUE,)),
        ((Setting((8, 4)),), (Setting((8, 2)),)),
        ((Setting((8, 4)),), (Setting((8, 4), Colour.BLUE),)),
        (({"a": 1},), ({"a": 2},)),
        (({"a": 1},), ({"b": 1},)),
        ((np.array([1, 2]),), (np.array([2, 1]),)),
        ((np.array([[1, 2]]),), (np.array([[1], [2]]),)),
        ((np.array([1], np.int8),), (np.array([1], np.int32),)),
        ((xpulpnn_sim.tools.results,), (pytest,)),
        ((1,), ("1",)),
    ],
)
def test_a_digest_tells_apart_whatever_differs(one, other):
    assert digest(*one) != digest(*other)


def test_a_digest_is_the_same_whatever_the_order_of_a_set():
    assert digest({3, 1, 2}, {"a": 1, "b": 2}) == digest({2, 3, 1}, {"b": 2, "a": 1})
    assert len(digest()) == 32
