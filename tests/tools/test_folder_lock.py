"""One run at a time in a folder."""

import fcntl
import multiprocessing
import os
import signal

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.files import LOCK, folder_lock

pytestmark = pytest.mark.unit


def test_a_second_run_is_refused_and_told_who_is_there(tmp_path):
    with folder_lock(tmp_path, "--output"):
        with pytest.raises(InputError) as caught, folder_lock(tmp_path, "--output"):
            pass
        text = str(caught.value)
        assert text.startswith(
            f"--output must be a folder that no other run uses, not {tmp_path} (process {os.getpid()} on"
        )
    assert list(tmp_path.iterdir()) == []
    with folder_lock(tmp_path, "--output"):
        pass


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
