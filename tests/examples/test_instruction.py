"""The patch of the guide that adds ``pv.abssum.b`` applies, and no place of the instruction is missing in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.flow

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/isa/test_table.py",
    "tests/reference/golden/test_values.py",
    "tests/reference/iss/test_translate.py",
    "tests/benches/test_units.py::test_unit[alu-icarus]",
)


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog must be on PATH")
def test_patch(tmp_path):
    for name in ("rtl", "sim", "sw", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    subprocess.run(["git", "apply", ROOT / "examples/instruction/abssum.patch"], cwd=tmp_path, check=True)
    path = os.pathsep.join(str(tmp_path / name) for name in ("rtl", "sim", "sw"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    script = "from xpulpnn_sw.assembly.asm import assemble; print(assemble('pv.abssum.b a0, a1').words)"
    shown = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "1946522967" in shown.stdout
