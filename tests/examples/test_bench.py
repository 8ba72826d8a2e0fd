"""The example bench by cocotb's makefiles: passes on the example's unit, fails on one with a fault."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/bench"


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog must be on PATH")
@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [("", "", 0), ("!first", "first", 4), ("1'b1, 1'b0", "1'b0, 1'b0", 4), ("if (rst)", "if (rst && !valid)", 1)],
)
def test_bench(tmp_path, right, wrong, failing):
    text = (ROOT / "examples/bench/accumulate.v").read_text()
    assert not right or text.count(right) == 1
    (tmp_path / "accumulate.v").write_text(text.replace(right, wrong) if right else text)
    # no variables of a bench that runs the tests, and the commands of this environment
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("XPULPNN_", "COCOTB_"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("rtl", "sim", "sw"))
    command = ["make", "-f", str(ROOT / "examples/bench/Makefile"), "VERILOG_SOURCES=accumulate.v rtl/dotp.v"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == (failing > 0), done.stdout + done.stderr
    cases = list(ElementTree.parse(tmp_path / "results.xml").iter("testcase"))
    assert len(cases) == 5
    assert sum(case.find("failure") is not None for case in cases) == failing
    if failing == 4:
        assert "AssertionError: accumulate format b: " in done.stdout
        assert "(seed 1)" in done.stdout
