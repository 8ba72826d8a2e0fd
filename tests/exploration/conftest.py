"""Steps that stand for flows, and the interpreter of netlists without a design."""

import importlib
import subprocess
from pathlib import Path

import pytest

from xpulpnn_sim.exploration.energy.gate_model import gate_sources
from xpulpnn_sim.exploration.generic_library import generic_library
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.tools.yosys import require_verilator


@pytest.fixture(scope="session")
def library() -> Library:
    return generic_library()


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gates")
    ((name, source),) = gate_sources().items()
    (folder / name).write_text(source)
    include = require_verilator() / "include" / "vltstd"
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{include}", name, "-o", "gates.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "gates.so"


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
