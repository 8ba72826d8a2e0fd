"""Records in files: the cache, the store of finished results, and one run at a time in a folder."""

import errno
import fcntl
import multiprocessing
import os
import re
import signal
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import xpulpnn_sim.tools.results
from xpulpnn import user_cache
from xpulpnn.errors import InputError, ToolError, unreadable
from xpulpnn.user_cache import cache_directory, cache_place, cache_size, clean_cache, ignore_before, is_usable
from xpulpnn_sim.tools.files import (
    LEAST_FREE,
    LOCK,
    folder_lock,
    replacing,
    require_place,
    require_room,
    write_text,
    write_texts,
)
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sw.toolchain.build import _put


@pytest.mark.parametrize(
    ("environment", "place", "said_by"),
    [
        ({"XPULPNN_CACHE": "here", "XDG_CACHE_HOME": "/xdg"}, "here", "XPULPNN_CACHE"),
        ({"XPULPNN_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/xpulpnn", "XDG_CACHE_HOME"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/somebody/.cache/xpulpnn", "default"),
        ({}, "/home/somebody/.cache/xpulpnn", "default"),
    ],
)
def test_place_of_the_cache(environment, place, said_by, monkeypatch):
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
    assert not is_usable(entry)
    entry.write_text("text")
    os.utime(entry, (1, 1))
    assert is_usable(entry)
    ignore_before(time.time() - 5)
    assert not is_usable(entry)
    with replacing(entry) as file:
        file.write_text("text")
    assert is_usable(entry)


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
            if (result := results.find(name, digest(name))) is None:
                if name == stop_at:
                    raise KeyboardInterrupt
                done.append(name)
                results.store(name, result := {"name": name}, digest(name))
            assert result == {"name": name}

    with pytest.raises(KeyboardInterrupt):
        run("d e")
    run("")
    assert done == ["a", "b/c", "d e"]
    assert len(Results(tmp_path / "results")) == 3


def test_a_record_of_another_key_is_replaced(tmp_path):
    results = Results(tmp_path)
    results.store("a", 1, "old", files={"log.txt": "first"})
    assert (results.find("a", "old"), results.find("a", "new")) == (1, None)
    results.store("a", 2, "new")
    assert (results.find("a", "old"), results.find("a", "new")) == (None, 2)
    assert (tmp_path / "a" / "log.txt").read_text() == "first"


def test_fresh_runs_find_nothing(tmp_path, monkeypatch):
    Results(tmp_path / "one").store("a", 1, "key")
    assert Results(tmp_path / "one", fresh=True).find("a", "key") is None
    results = Results(tmp_path / "one")
    results.store("a", 1, "key")
    monkeypatch.setattr("xpulpnn.user_cache._started", 0.0)
    ignore_before(2e10)
    assert results.find("a", "key") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "key"}', '{"value": 1}'])
def test_a_file_that_is_no_record_is_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert Results(tmp_path).find("a", "key") is None


@pytest.mark.parametrize(
    ("first", "second"),
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
def test_a_digest_tells_apart_whatever_differs(first, second):
    assert digest(*first) != digest(*second)


def test_a_digest_is_the_same_whatever_the_order_of_a_set():
    assert digest({3, 1, 2}, {"a": 1, "b": 2}) == digest({2, 3, 1}, {"b": 2, "a": 1})
    assert len(digest()) == 32


def test_a_second_run_is_refused_and_told_who_is_there(tmp_path):
    text = f"--output must be a folder that no other run uses, not {tmp_path} (process {os.getpid()} on"
    for _ in range(2):
        refused = pytest.raises(InputError, match=f"^{re.escape(text)}")
        with folder_lock(tmp_path, "--output"), refused, folder_lock(tmp_path, "--output"):
            pass
        assert list(tmp_path.iterdir()) == []


def hold(folder, ready):
    with folder_lock(folder, "--output"):
        ready.set()
        signal.pause()


def test_a_killed_run_holds_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold, args=(tmp_path, ready))
    process.start()
    assert ready.wait(20)
    with pytest.raises(InputError), folder_lock(tmp_path, "--output"):
        pass
    process.kill()
    process.join()
    assert (tmp_path / LOCK).exists()
    with folder_lock(tmp_path, "--output"):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_file_that_its_last_owner_removes_meanwhile_is_no_lock(tmp_path, monkeypatch):
    lock = fcntl.flock

    def after_removal(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        (tmp_path / LOCK).unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", after_removal)
    with folder_lock(tmp_path, "--output"), pytest.raises(InputError), folder_lock(tmp_path, "--output"):
        pass


def test_files_are_replaced_in_one_step(tmp_path):
    path = tmp_path / "result.json"
    write_text(path, "1")
    before = path.stat().st_ino
    write_text(path, "1")
    assert path.stat().st_ino == before  # unchanged files are left alone
    write_text(path, "2")
    assert path.read_text() == "2"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


OURS, THEIRS = "// Generated by xpulpnn.\n", "// a design of mine, by xpulpnn users\n"


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


OCCUPIED = [
    ("folder", ""),
    ("core.f", THEIRS),
    ("core.f", "+define+MINE\na.v\n"),
    ("b/core.v", THEIRS),
    ("b/core.v", "// my design around a core Generated by xpulpnn.\n"),
    ("b/core.v", "// Generated by xpulpnn and then rewritten\n"),
    ("b/core.v", f"// A design of mine.\n\n{OURS}"),
]


@pytest.mark.parametrize(("occupied", "theirs"), OCCUPIED)
def test_generated_files_replace_no_others(tmp_path, occupied, theirs):
    texts = {"a.v": OURS + "1", "b/core.v": OURS, "core.f": "b/core.v\n", "folder": OURS}
    if occupied == "folder":
        (tmp_path / occupied).mkdir()
    else:
        write_text(tmp_path / occupied, theirs)
    write_text(tmp_path / "a.v", OURS)
    before = contents(tmp_path)
    place = re.escape(
        f"--output must be a folder where no file of yours is replaced, not {tmp_path} ({occupied}: not generated"
    )
    with pytest.raises(InputError, match=f"^{place}" if occupied != "core.f" else "core.f"):
        write_texts(tmp_path, texts)
    assert contents(tmp_path) == before


def test_generated_files_of_an_earlier_run_go(tmp_path):
    write_texts(tmp_path, {"a.v": OURS, "b/old.v": OURS, "core.f": "a.v\nb/old.v\n"})
    write_text(tmp_path / "c/edited.v", THEIRS)
    texts = {"a.v": OURS + "2", "core.f": "a.v\n"}
    write_texts(tmp_path, texts, ["a.v", "b/old.v", "c/edited.v", "none.v", "core.f"])
    assert contents(tmp_path) == {**texts, "c/edited.v": THEIRS}
    assert not (tmp_path / "b").exists()


def test_a_full_disk_is_named_and_leaves_no_part(tmp_path, monkeypatch):
    def fail(self, content, write=Path.write_bytes):
        if ".last.v" in self.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, content)

    monkeypatch.setattr(Path, "write_bytes", fail)
    place = tmp_path / "new/rtl"
    with pytest.raises(OSError, match="No space left") as caught:
        write_texts(place, {"first.v": OURS, "last.v": OURS})
    text = f"{place}/last.v cannot be written, as its disk is full"
    assert unreadable(caught.value.filename, caught.value) == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [write_text, lambda path, text: _put(SimpleNamespace(read_bytes=text.encode), path)])
def test_devices_are_written_and_not_replaced(write):
    master, slave = os.openpty()
    place = Path(os.ttyname(slave))
    write(place, "text")
    assert os.read(master, 10) == b"text"
    assert place.is_char_device()


def test_places_below_files_and_on_full_disks_are_refused(tmp_path, monkeypatch):
    write_text(tmp_path / "file", "text")
    text = f"-o must be in a folder, not in the file {tmp_path}/file"
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        require_place(tmp_path / "file" / "new", "-o")
    require_room(tmp_path / "new" / "waves.fst")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=LEAST_FREE - 1))
    with pytest.raises(InputError, match=r"waves.fst cannot be written, as its disk has less than 64 MB left$"):
        require_room(tmp_path / "new" / "waves.fst")


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_modes_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "new" / "file", "text")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "new/file")]
    assert modes == [0o777 & ~mask, 0o666 & ~mask]
