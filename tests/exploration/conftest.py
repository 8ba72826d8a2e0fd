"""Steps that stand for flows."""

import importlib
from pathlib import Path

import pytest

from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.library import Library


@pytest.fixture(scope="session")
def library() -> Library:
    return generic_library()


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fakes(monkeypatch):
    """The module of fake steps, found by the processes that are started too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("fake_steps")


@pytest.fixture
def fake_flows(fakes, monkeypatch, own_cache, tmp_path):
    """The module of fake steps, which take the place of flows in an empty cache: those in its list ``steps``."""
    from xpulpnn_sim.exploration import exploration, task

    fakes.steps = [fakes.FakeStep("a", tmp_path / "diary")]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XPULPNN_YOSYS", "/a/yosys")  # none that is compiled before its first run
    monkeypatch.setattr(task, "emit_design", fakes.emit)
    monkeypatch.setattr(exploration, "flow_steps", lambda options: list(fakes.steps))
    return fakes
