"""The script of `make setup` with a Python that only prints what pip prints."""

import os
import subprocess
from pathlib import Path

import pytest

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
        exit CODE ;;
esac
"""


@pytest.mark.parametrize("code", [0, 1])
def test_setup_shows_its_steps_and_fails_with_pip(code: int, tmp_path: Path):
    python = tmp_path / "python"
    python.write_text(PYTHON.replace("CODE", str(code)))
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
    assert done.stderr.splitlines() == (last if code else [])
    assert (done.returncode, len(shown), (tmp_path / ".venv/.ready").exists()) == (code, 5 - code, code == 0)
