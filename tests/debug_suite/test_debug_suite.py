"""The end-to-end debug tests of riscv-tests, no part of this project, where XPULPNN_DEBUG_TESTS names them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cosim, pytest.mark.flow]

HERE = Path(__file__).parent
NEEDED = ("openocd", "gdb-multiarch", "nc", "riscv64-unknown-elf-gcc")


@pytest.mark.parametrize(("target", "harts"), [("xpulpnn_core", 1), ("xpulpnn_cluster", 2), ("xpulpnn_cluster", 8)])
def test_suite(target, harts, tmp_path):
    folder = os.environ.get("XPULPNN_DEBUG_TESTS")
    if folder is None:
        pytest.skip("XPULPNN_DEBUG_TESTS names no folder")
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    # the suite needs pexpect, which no part of this project does
    python = os.environ.get("XPULPNN_DEBUG_PYTHON", "/usr/bin/python3")
    if missing or subprocess.run([python, "-c", "import pexpect"], capture_output=True).returncode:
        pytest.skip(f"{' '.join(missing) or 'pexpect'} is not installed")
    line = [python, "-B", "gdbserver.py", "--isolate", "--logs", tmp_path, "--gcc", HERE / "gcc.sh"]
    line += ["--gdb", HERE / "gdb.sh", HERE / f"{target}.py"]
    environment = {**os.environ, "XPULPNN_PYTHON": sys.executable, "HARTS": str(harts)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
