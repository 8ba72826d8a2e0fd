"""The cache of compiled models: with the compiler replaced, and with two of them at work or one killed; wrappers."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.designs import PAIR

from xpulpnn import user_cache
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.cosimulation.model import build
from xpulpnn_sim.cosimulation.model.build import CONTROL_FILE, SHARED_FLAGS, TOP, Adapter, Rig
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, rig_of
from xpulpnn_sim.cosimulation.model.model import Block, Model
from xpulpnn_sim.cosimulation.model.schema import HART, Event
from xpulpnn_sim.tools import yosys
from xpulpnn_sim.tools.yosys import require_verilator

PORTS = {
    "input": "clk rst insn__valid data__gnt data__rvalid data__err surplus",
    "input [31:0]": "insn__payload__word insn__payload__pc data__rdata",
    "output": "insn__ready jump__valid branch__valid data__req data__we rvfi__valid",
    "output [31:0]": "jump__target branch__target data__addr data__wdata",
    "output [4:0]": "rvfi__cause",
    "output [3:0]": "data__be",
}
VERILOG = (
    "module backend(\n"
    + ",\n".join(f"  {kind} {name}" for kind, names in PORTS.items() for name in names.split())
    + ");\n"
    + "  assign insn__ready = 1; assign rvfi__valid = insn__valid & ~rst; assign rvfi__cause = 5;\nendmodule\n"
)
MANIFEST = {
    "top": "backend",
    "ports": [
        {
            "name": name,
            "direction": kind.split()[0],
            "width": {"": 1, "[31:0]": 32, "[4:0]": 5, "[3:0]": 4}[kind.partition(" ")[2]],
        }
        for kind, names in PORTS.items()
        for name in names.split()
    ],
}
RIG = rig_of(VERILOG, MANIFEST)
RUNTIME = "runtime"


def pretend(monkeypatch, link):
    """Replace all tools; ``link`` gets the path of the model. Returns the list that each link adds its inputs to."""
    links = []

    def run(command, folder, environment):
        if "libverilated.a" in command:
            (folder / "libverilated.a").write_text(RUNTIME)
        elif "--cc" in command:
            (folder / "obj").mkdir()
        elif command[0] != "make":
            links.append(command)
            link(Path(command[-1]))

    monkeypatch.setattr(build, "_run", run)
    return links


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Counts compilations, each of which takes a while."""
    monkeypatch.setenv(user_cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv(build.COMPILER_VARIABLE, raising=False)

    def link(model):
        time.sleep(0.1)
        model.write_text(f"model {len(links)}")

    links = pretend(monkeypatch, link)
    return links


def choose_another(monkeypatch):
    other = next(name for name in build.MODEL_COMPILERS if name != build.compiler())
    monkeypatch.setattr(build, "_zig", lambda: Path("zig"))
    monkeypatch.setenv(build.COMPILER_VARIABLE, other)


@pytest.mark.flow
def test_models_share_their_runtime(compiler, tmp_path, monkeypatch):
    build.build_model(RIG)
    build.build_model(rig_of(VERILOG + "// changed\n", MANIFEST))
    [runtime] = tmp_path.glob("*.a")
    # not with those that write waveforms, nor between compilers
    build.build_model(RIG, trace=True)
    choose_another(monkeypatch)
    build.build_model(RIG)
    linked = [next(part for part in command if part.endswith(".a")) for command in compiler]
    assert linked[:2] == [str(runtime)] * 2
    assert len(set(linked)) == len(list(tmp_path.glob("*.a"))) == 3


@pytest.mark.cosim
def test_models_with_any_path(tmp_path, monkeypatch):
    odd = tmp_path / "o d \xfc'\"$HOME`#(1)&"
    odd.mkdir()
    tools = {"verilator": require_verilator(), "zig": build._zig().parent, "bin": Path(sys.executable).parent}
    (odd / "verilator").mkdir()
    shutil.copytree(tools["verilator"] / "bin", odd / "verilator" / "bin")  # whose script follows links
    tools["verilator/include"] = tools.pop("verilator") / "include"
    for name, folder in tools.items():
        (odd / name).symlink_to(folder)
    monkeypatch.setattr(yosys, "verilator_folder", lambda: odd / "verilator")
    monkeypatch.setattr(build, "_zig", lambda: odd / "zig" / "zig")
    monkeypatch.setattr(sys, "executable", str(odd / "bin" / Path(sys.executable).name))
    monkeypatch.setenv(user_cache.CACHE_VARIABLE, str(odd / "cache"))
    monkeypatch.setenv(build.LEVEL_VARIABLE, "3")
    assert ctypes.CDLL(str(build.build_model(RIG))).model_create


@pytest.mark.parametrize("chosen", build.MODEL_COMPILERS)
def test_only_what_runs_once_is_left_unoptimised(chosen):
    text = build._whole(["a.cpp", "a__Slow.cpp", "b.cpp"], chosen)
    before, rest = text.split("optimize", 1)
    between, after = rest.split("#pragma", 1)
    included = [re.findall('#include "(.*)"', part) for part in (before, between, after)]
    assert included == [["a.cpp", "b.cpp"], ["a__Slow.cpp"], ["model.cpp"]]


@pytest.mark.flow
def test_models_are_reused_until_something_changes(compiler, monkeypatch, tmp_path):
    first = build.build_model(RIG)
    done = len(compiler)
    assert build.build_model(RIG) == first
    assert len(compiler) == done
    assert build.build_model(RIG, trace=True) != first
    assert build.build_model(rig_of(VERILOG + "// changed\n", MANIFEST)) != first
    assert build.build_model(RIG, covered=True) != first
    # of the same design the wrapper and header alone, then the driver alone
    assert build.build_model(Rig(verilog=VERILOG, manifest=MANIFEST, adapters=RIG.adapters[:2])) != first
    driver = shutil.copytree(build.NATIVE, tmp_path / "native")
    (driver / "obi.hpp").write_text("// changed\n")
    with monkeypatch.context() as changed:
        changed.setattr(build, "NATIVE", driver)
        assert build.build_model(RIG) != first
    with monkeypatch.context() as changed:
        changed.setenv(build.LEVEL_VARIABLE, "1")
        assert build.build_model(RIG) != first
    choose_another(monkeypatch)
    assert build.build_model(RIG) != first
    assert len(compiler) == done + 7


@pytest.mark.flow
def test_failed_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(user_cache.CACHE_VARIABLE, str(tmp_path))
    tool = tmp_path / "compiler"
    tool.write_text("#!/bin/sh\necho 'x.cpp:1: error: no such luck' >&2\nexit 1\n")
    tool.chmod(0o755)
    run = build._run
    monkeypatch.setattr(build, "_run", lambda _, *rest: run([str(tool)], *rest))
    with pytest.raises(ToolError) as caught:
        build.build_model(RIG)
    assert str(caught.value) == "verilator must be able to compile the model: x.cpp:1: error: no such luck"
    assert [entry.name for entry in tmp_path.iterdir()] == ["compiler"]


@pytest.mark.flow
def test_what_a_killed_build_left_goes_in_time(compiler, tmp_path):
    old, new = tmp_path / "building-old", tmp_path / "building-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "design.v").write_text("")
    hours_ago = time.time() - 2 * build._ABANDONED_S
    os.utime(old, (hours_ago, hours_ago))
    library = build.build_model(RIG)
    assert sorted(tmp_path.iterdir()) == sorted([library, *tmp_path.glob("*.a"), new])


def test_clang_unless_it_is_absent(monkeypatch):
    monkeypatch.delenv(build.COMPILER_VARIABLE, raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(build, "_zig", lambda: Path("zig"))
        assert build.compiler() == "clang"
    # found out without the wheel
    monkeypatch.setattr(build.util, "find_spec", lambda name: None)
    assert build.compiler() == "g++"
    for chosen, error, message in (
        ("clang", ToolError, r"^ziglang must be installed for XPULPNN_COMPILER=clang: pip install ziglang$"),
        ("tcc", InputError, r"^XPULPNN_COMPILER must be clang or g\+\+, not tcc$"),
    ):
        monkeypatch.setenv(build.COMPILER_VARIABLE, chosen)
        with pytest.raises(error, match=message):
            build.compiler()


class TestRig:
    def test_inputs_are_driven_or_tied(self):
        text = RIG.sources()["testbench.sv"]
        for part in (".clk(clk)", ".surplus(1'd0)", ".insn__payload__word(driven[", "if (rvfi__valid & driven["):
            assert part in text

    def test_one_field_may_drive_several_ports(self):
        raw = {"name": "info__raw", "direction": "input", "width": 32}
        rig = rig_of(VERILOG, {**MANIFEST, "ports": [*MANIFEST["ports"], raw]})
        text = rig.sources()["testbench.sv"]
        words = [
            line.partition("(")[2] for line in text.splitlines() if ".info__raw(" in line or "payload__word(" in line
        ]
        assert words[0].rstrip(",") == words[1].rstrip(",")

    def test_missing_port_is_named(self):
        ports = [port for port in MANIFEST["ports"] if port["name"] != "branch__valid"]
        message = "^module backend must have the port branch__valid to be simulated, not lack it$"
        with pytest.raises(ToolError, match=message):
            rig_of(VERILOG, {**MANIFEST, "ports": ports})
        with pytest.raises(ToolError):
            Rig(verilog=VERILOG, manifest=MANIFEST, adapters=(Adapter(HART, {"irq": "irq"}),))


def building(cache: Path) -> subprocess.Popen[str]:
    """Another process that builds the model, with the folder for its source."""
    folder = str(Path(__file__).parent)
    script = (
        f"import sys; sys.path.insert(0, {folder!r}); from test_build import RIG, build; print(build.build_model(RIG))"
    )
    environment = {**os.environ, user_cache.CACHE_VARIABLE: str(cache), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.cosim
def test_a_killed_build_and_two_at_once(tmp_path):
    killed = building(tmp_path)
    until = time.monotonic() + 300
    while not list(tmp_path.glob("building-*/obj/whole.cpp")):
        assert time.monotonic() < until
        assert killed.poll() is None
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert list(tmp_path.glob("*.so")) == []
    both = [building(tmp_path) for _ in range(2)]
    outputs = [process.communicate()[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1]
    assert [str(path) for path in tmp_path.glob("*.so")] == outputs[:1]
    # folders that the killed one left stay until they are old enough; the run-time library is all else that is left
    left = sorted(path.suffix for path in tmp_path.iterdir() if not path.name.startswith("building-"))
    assert left == [".a", ".so"]
    model = Model(Path(outputs[0]), 1, {"watchdog": 100}, {})
    model.collect(Block(1, 1))
    program = np.zeros(1, [("word", np.uint32), ("pc", np.uint32), ("kind", np.uint32)])
    model.set_stream(program, np.zeros(5, np.uint32))
    assert model.advance(100) == Event.STREAM_DONE
    assert int(model.harts[0]["retired"]) == 5
    model.close()


@pytest.mark.cosim
def test_all_cores_run_the_same_function_once_a_cycle(tmp_path):
    rig = replace(
        rig_of(*cached_emission("cluster", replace(PAIR, rvfi=True, memories="ports"), both_edges=True)),
        both_edges=True,
    )
    for name, text in {"design.v": rig.verilog, **rig.sources()}.items():
        (tmp_path / name).write_text(text)
    root = require_verilator()
    command = (str(root / "bin" / "verilator"), "--cc", "-O3", *SHARED_FLAGS, "-Wno-fatal", "-Wno-lint", "-Wno-style")
    done = subprocess.run(
        (*command, "--top-module", TOP, "-Mdir", "obj", CONTROL_FILE, f"{TOP}.sv", "design.v"),
        cwd=tmp_path,
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    # a loop through bits of one variable would be evaluated until nothing changes any more
    assert "UNOPTFLAT" not in done.stdout + done.stderr
    text = "".join(path.read_text() for path in (tmp_path / "obj").glob("*.cpp"))
    functions = set(re.findall(r"^void V\w+_core\w*nba\w+DOT__core(\d)__\d+\(", text, re.MULTILINE))
    assert functions == {"0"}
