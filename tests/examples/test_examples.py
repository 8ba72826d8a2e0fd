"""The examples do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xpulpnn_sim import run, simulate
from xpulpnn_sim.cli.common import read_results
from xpulpnn_sim.cli.main import main

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


def python(script: str, *arguments: str) -> str:
    paths = os.pathsep.join(str(ROOT / root) for root in ("rtl", "sim", "sw"))
    words = [sys.executable, str(EXAMPLES / script), *arguments]
    return subprocess.run(
        words, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@pytest.mark.cosim
def test_intrinsics(tmp_path):
    elf = tmp_path / "matmul.elf"
    assert main(["cc", "--compiler", "zig", str(EXAMPLES / "intrinsics/matmul.c"), "-o", str(elf)]) == 0
    on_core, on_simulator = run(elf, check=True), simulate(elf)
    assert on_core.exit.ok
    assert on_simulator.exit.ok
    assert on_core.mismatches == 0
    # what is printed after the call may depend on the cycles printed before it
    assert on_core.instructions == pytest.approx(on_simulator.instructions, rel=0.01)
    plain, mac_load, wrong = map(int, re.findall(rb"\d+", on_core.output))
    assert wrong == 0
    assert plain > 50 * mac_load
    assert on_simulator.output.endswith(b" 0 wrong\n")


@pytest.mark.cosim
def test_kernel_library(tmp_path):
    printed = python("kernel_library/network.py", "-o", str(tmp_path))
    assert printed.endswith(" cycles, 0 wrong bytes\n")
    on_core = run(tmp_path / "network.elf", check=True)
    assert on_core.exit.ok
    assert on_core.mismatches == 0
    assert on_core.output.endswith(b" cycles, 0 wrong bytes\n")


@pytest.mark.cosim
def test_network(tmp_path):
    printed = python("network/sides.py", "-o", str(tmp_path))
    assert main(["net", printed.strip(), "--preset", "xpulpnn-full", "--json", str(tmp_path / "net.json")]) == 0
    (record,) = read_results(tmp_path / "net.json")
    assert [layer["name"] for layer in record["layers"]] == ["blur", "shrink", "compare"]
    assert record["mismatches"] == 0


@pytest.mark.flow
def test_soc(tmp_path):
    printed = python("soc/soc.py", "-o", str(tmp_path))
    assert printed == f"hello 30\n{tmp_path / 'soc.v'}\n"
    assert "module" in (tmp_path / "soc.v").read_text()


@pytest.mark.flow
def test_sweep(tmp_path):
    printed = python("sweep/sweep.py", "--widths", "16+8+4+2", "-o", str(tmp_path))
    rows = re.findall(
        r"^ xpulpnn widths=16\+8\+4\+2 multipliers=(\w+) +([\d.]+) +[\d.]+ +([\d.]+) +[\d.]+ *$", printed, re.M
    )
    assert [row[0] for row in rows] == ["shared", "replicated"]
    assert float(rows[0][1]) < float(rows[1][1])
    # the inner loop alone has 32 MAC in 14 cycles
    assert 2 <= float(rows[0][2]) == float(rows[1][2]) < 32 / 14
    assert (tmp_path / "report.html").is_file()
