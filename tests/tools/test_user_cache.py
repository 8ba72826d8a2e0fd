"""Where the cache is, what counts in it, and what emptying it leaves."""

import os
import time
from pathlib import Path

import pytest

from xpulpnn import user_cache
from xpulpnn.errors import ToolError
from xpulpnn.user_cache import cache_directory, cache_place, cache_size, clean_cache, counts, ignore_before, store_file

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("environment", "place", "said_by"),
    [
        ({"XPULPNN_CACHE": "here", "XDG_CACHE_HOME": "/xdg"}, "here", "XPULPNN_CACHE"),
        ({"XPULPNN_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/xpulpnn", "XDG_CACHE_HOME"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/somebody/.cache/xpulpnn", "default"),
        ({}, "/home/somebody/.cache/xpulpnn", "default"),
    ],
)
def test_place(environment, place, said_by, monkeypatch):
    for name in ("XPULPNN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_place() == (Path(place), said_by)


@pytest.mark.parametrize("variable", ["XPULPNN_CACHE", "XDG_CACHE_HOME"])
def test_place_must_be_writable(variable, monkeypatch):
    monkeypatch.delenv("XPULPNN_CACHE", raising=False)
    monkeypatch.setenv(variable, "/proc/none")
    folder = cache_place()[0]
    with pytest.raises(ToolError) as caught:
        cache_directory()
    assert str(caught.value) == f"{variable} must be a writable folder, not {folder}"


def test_entries_from_before_a_fresh_run_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(user_cache, "_started", 0.0)
    entry = tmp_path / "entry.json"
    assert not counts(entry)
    store_file(entry, "text")
    os.utime(entry, (1, 1))
    assert counts(entry)
    ignore_before(time.time() - 5)
    assert not counts(entry)
    # the same text again is an entry of this run
    store_file(entry, "text")
    assert counts(entry)


def test_emptying_leaves_what_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path / "none"))
    assert cache_size() == (0, 0)
    clean_cache()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path))
    ours = ["a.so", "b.a", "a.lock", "building-x/a.cpp", "designs/a.json", "flows/b.json", "times/steps.json"]
    theirs = ["notes.txt", "photos/cat.jpg"]
    for name in (*ours, *theirs):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("12345")
    assert cache_size() == (len(ours), 5 * len(ours))
    clean_cache()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == theirs
    assert cache_size() == (0, 0)
