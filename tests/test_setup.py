"""The script of `make setup` with a Python that only prints what pip prints."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pip._vendor.distlib.scripts import ScriptMaker

PYTHON = """#!/bin/sh
case "$*" in
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    *pip*)
        for line in 1 2 3 4 5 6 7 8 9; do echo "WARNING: noise $line" >&2; done
        echo "Obtaining file:///xpulpnn"
        echo "  Installing build dependencies: started"
        echo "Collecting amaranth<0.6,>=0.5.10 (from xpulpnn==1.0)"
        echo "Collecting rich>=13 (from xpulpnn==1.0)"
        echo "Building wheels for collected packages: xpulpnn"
        echo "Installing collected packages: rich, amaranth, xpulpnn"
        cp "$0" .venv/bin/xpulpnn
        exit CODE ;;
    --version) exit STARTS ;;
esac
"""


@pytest.mark.parametrize(("code", "starts"), [(0, 0), (1, 0), (0, 1)])
def test_setup_shows_its_steps_and_fails_with_pip_and_a_command_that_does_not_start(
    code: int, starts: int, tmp_path: Path
):
    python = tmp_path / "python"
    python.write_text(PYTHON.replace("CODE", str(code)).replace("STARTS", str(starts)))
    python.chmod(0o755)
    script = Path(__file__).parents[1] / "scripts/setup.sh"
    command = ["sh", str(script), ".venv/.ready"]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env={**os.environ, "PYTHON": str(python)}, capture_output=True, text=True
    )
    steps = [f"environment of {python}", "downloading packages", "building packages", "installing packages"]
    shown = done.stdout.splitlines()
    assert shown[:4] == [f"Setting up .venv (once): {step} ..." for step in steps]
    noise = [f"WARNING: noise {number}" for number in range(1, 10)]
    assert (tmp_path / ".venv/setup.log").read_text().splitlines() == noise
    last = [*noise[-5:], "pip must succeed, not fail; .venv/setup.log has all of its messages"]
    unstarted = [".venv/bin/xpulpnn must start, not end with the error above"]
    assert done.stderr.splitlines() == (last if code else unstarted if starts else [])
    failed = code or starts
    assert (done.returncode, len(shown), (tmp_path / ".venv/.ready").exists()) == (failed, 5 - failed, failed == 0)


def test_the_command_of_pip_starts_in_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "Größe & Maß (neu)"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    maker = ScriptMaker(None, str(folder))
    maker.variants = {""}
    maker.make_multiple([f"{name} = {function}" for name, function in declared.items()])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for command, option, printed in (("xpulpnn", "--version", "xpulpnn "), ("xpulpnn-cc", "-dumpmachine", "riscv")):
        done = subprocess.run([folder / command, option], check=True, env=environment, capture_output=True, text=True)
        assert done.stdout.startswith(printed)
