"""Compiles a design with its wrapper and driver into a shared library.

Libraries are cached under a hash of everything that determines them. Each is built in a temporary folder and then
renamed, so that several processes may build the same model at the same time. Verilator's run-time library is compiled
once for models with waveforms and once for models without, and cached as well.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any, Literal

from xpulpnn.errors import ToolError, require
from xpulpnn.user_cache import cached_file
from xpulpnn_sim.cosimulation.model.schema import JTAG, KINDS, RETIRE, PortKind, cpp_header
from xpulpnn_sim.reference.programs.trace import WORD_FIELDS
from xpulpnn_sim.tools.yosys import IN_PLACE, VERILATE, link_tools, require_verilator

TOP = "testbench"  # module of the wrapper

CONTROL_FILE = f"{TOP}.vlt"  # file of instructions to the simulator

RECORD_BITS = 32 * len(WORD_FIELDS)

_CLOCKING = ("clk", "rst")


@dataclass(frozen=True, slots=True)
class Adapter:
    kind: PortKind
    ports: Mapping[str, str]  # port of the design by field of the kind, or by field of a record for a retirement port


@dataclass(frozen=True, eq=False, kw_only=True)
class Rig:
    """A design that can be simulated: Verilog, and adapters that connect its ports to the driver."""

    verilog: str
    manifest: Mapping[str, Any]  # description by the emitter: top and ports
    # one retirement port for each hart, in their order; inputs that no adapter drives are 0
    adapters: tuple[Adapter, ...]
    both_edges: bool = False  # whether every change of the clock is an edge of the design
    repeated: str = ""  # module with several instances that share one compiled function

    def __post_init__(self) -> None:
        known = {port["name"] for port in self.manifest["ports"]}
        used = {
            name.partition("[")[0]
            for adapter in self.adapters
            for names in adapter.ports.values()
            for name in names.split()
        }
        if missing := sorted(used - known):
            raise ToolError(
                f"module {self.manifest['top']} must have the port {missing[0]} to be simulated, not lack it"
            )

    def sources(self) -> dict[str, str]:
        return {
            f"{TOP}.sv": self._wrapper(),
            CONTROL_FILE: "\n".join(["`verilator_config", *self._no_inline(), ""]),
            "schema.hpp": cpp_header(
                {kind.name: len(self._adapters_of(kind)) for kind in KINDS}, both_edges=self.both_edges
            ),
        }

    def _no_inline(self) -> Iterator[str]:
        """Yield Verilator directives by which instances of the repeated module share one compiled function."""
        if not self.repeated:
            return
        yield f'no_inline -module "{self.repeated}"'
        ports = re.search(rf"^module {self.repeated}\b.*?^\);$", self.verilog, re.MULTILINE | re.DOTALL)
        assert ports, self.repeated
        for name in re.findall(r"^\s*input wire (?:\[\d+:0\] )?(\w+)", ports[0], re.MULTILINE):
            if name not in _CLOCKING:
                yield f'public_flat_rd -module "{self.repeated}" -var "{name}"'

    def _adapters_of(self, kind: PortKind) -> list[Adapter]:
        return [adapter for adapter in self.adapters if adapter.kind is kind]

    def _wrapper(self) -> str:
        widths = {port["name"]: port["width"] for port in self.manifest["ports"]}
        top = self.manifest["top"]
        seen, driven = self._fields("seen"), self._fields("driven")
        at_once = {name for adapter in self._adapters_of(JTAG) for name in adapter.ports.values()}
        inputs = {
            name: f"{'coming' if name in at_once else 'driven'}[{32 * at} +: {widths[name]}]"
            for at, names in enumerate(driven)
            for name in names.split()
        }
        pins, wires = [], []
        for port in self.manifest["ports"]:
            name, width = port["name"], port["width"]
            if name in _CLOCKING:
                pins.append(f".{name}({'reset' if name == 'rst' else name})")
            elif port["direction"] == "input":
                pins.append(f".{name}({inputs.get(name, f'{width}' + chr(39) + 'd0')})")
            else:
                wires.append(f"  wire [{width - 1}:0] {name};")
                pins.append(f".{name}({name})")
        observed = "\n".join(f"  assign observed[{at}] = {name or 0};" for at, name in enumerate(seen))
        collect = f"driven[{32 * len(driven)}]"
        records = "\n".join(
            f"  always @* if ({adapter.ports['valid']} & {collect}) records[{RECORD_BITS * hart} +: {RECORD_BITS}] = "
            f"{{{_concatenation([adapter.ports.get(name, '') for name in WORD_FIELDS])}}};"
            for hart, adapter in enumerate(self._adapters_of(RETIRE))
        )
        coming_bits = 32 * (len(driven) + 1)
        edge = "edge" if self.both_edges else "posedge"
        joined_wires, joined_pins = "\n".join(wires), ",\n    ".join(pins)
        return f"""// Generated by xpulpnn_sim.cosimulation.model.build.
module {TOP}(
  input wire clk, input wire rst,
  input wire [{coming_bits - 1}:0] coming,
  output wire [31:0] observed [0:{len(seen) - 1}],
  output reg [{len(self._adapters_of(RETIRE)) * RECORD_BITS - 1}:0] records
);
{joined_wires}
  reg [{coming_bits - 1}:0] driven;
  reg reset;  // what depends on an input of this module is evaluated at both edges
  always @({edge} clk) {{reset, driven}} <= {{rst, coming}};
{observed}
{records}
  {top} {top}(
    {joined_pins}
  );
endmodule
"""

    def _fields(self, direction: Literal["seen", "driven"]) -> list[str]:
        """Return the port at each word of the C++ struct of observed or driven ports, or an empty name."""
        nothing = Adapter(KINDS[0], {})
        places = [(kind, adapter) for kind in KINDS for adapter in self._adapters_of(kind) or [nothing]]
        return [adapter.ports.get(field, "") for kind, adapter in places for field in getattr(kind, direction)]


def _concatenation(names: Sequence[str]) -> str:
    """Concatenate signals in Verilog, 32 bits each, the first one in the lowest bits; an empty name gives a 0."""
    return ", ".join(f"32'({name})" if name else "32'd0" for name in reversed(names))


COMPILER_VARIABLE = "XPULPNN_COMPILER"

NATIVE = Path(__file__).parent / "native"

_VERILATOR_FLAGS = (
    *("--cc", "-Mdir", "obj"),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
SHARED_FLAGS = ("-fno-dfg", "-fno-table")
"""Verilator flags for a design with a repeated module. They disable passes that rename variables and tables, after
which each instance would have its own function."""

COVERAGE_FLAGS = ("--coverage-line", "--coverage-toggle")

LEVEL_VARIABLE = "XPULPNN_MODEL_LEVEL"
"""Environment variable with the optimisation level of models, 3 by default. At level 0 a model takes less than half of
the time to compile, and four times as long to run."""

# Only the evaluation runs in every cycle, and of the run-time library only the writer of waveforms takes time. Clang
# instruments unoptimised code with checks unless they are switched off.
_UNCHECKED = "-fno-sanitize=undefined"
_WAVES = ("OPT_GLOBAL=-O1", "verilated_fst_c.o")
# the headers of C++20 take 50 % longer to compile
_CXX_FLAGS = "-std=c++17 -g0 -fPIC -fvisibility=hidden -fno-semantic-interposition"
_LINK = ("g++", "-shared", "-pthread")
_CXX_HEADERS = "CXX_HEADERS"
"""Environment variable with the options of :func:`_cxx_headers`. The hash of a model does not include them."""
# native/lz4.h replaces the library that Verilator would link to a model with waveforms.
_TRACE_LIBRARIES = ("-lz",)
_RUNTIME = "libverilated.a"
_WHOLE = "whole"
_UNOPTIMISED = {
    "clang": ("#pragma clang optimize off", "#pragma clang optimize on"),
    "g++": ('#pragma GCC push_options\n#pragma GCC optimize ("O0")', "#pragma GCC pop_options"),
}
"""Pragmas, by compiler, around code that runs only once and whose optimisation takes longer than it saves."""


_BUILDING = "building-"
_ABANDONED_S = 3600  # age in seconds from which on a private folder counts as left over from an aborted build


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, errors="replace", check=False)
    if done.returncode:
        text = (done.stderr + done.stdout).splitlines()
        lines = [line.strip() for line in text if "rror" in line or "ld: " in line] or ["no message"]
        if "zlib.h" in lines[0]:
            raise ToolError("zlib.h must be installed to write waveforms: apt-get install zlib1g-dev")
        raise ToolError(f"verilator must be able to compile the model: {lines[0]}")


MODEL_COMPILERS = ("clang", "g++")


def compiler() -> str:
    chosen = os.environ.get(COMPILER_VARIABLE)
    if chosen is None:
        return MODEL_COMPILERS[0] if _zig() is not None else MODEL_COMPILERS[1]
    require(chosen in MODEL_COMPILERS, f"{COMPILER_VARIABLE} must be {' or '.join(MODEL_COMPILERS)}, not {chosen}")
    if chosen == MODEL_COMPILERS[0] and _zig() is None:
        raise ToolError(f"ziglang must be installed for {COMPILER_VARIABLE}={chosen}: pip install ziglang")
    return chosen


def _optimisation() -> tuple[str, str]:
    level = os.environ.get(LEVEL_VARIABLE, "3")
    require(level in ("0", "1", "2", "3"), f"{LEVEL_VARIABLE} must be 0 to 3, not {level}")
    return f"OPT_FAST=-O{level} {_UNCHECKED}", f"OPT_GLOBAL=-O0 {_UNCHECKED}"


def _zig() -> Path | None:
    spec = util.find_spec("ziglang")
    return None if spec is None or spec.origin is None else Path(spec.origin).with_name("zig")


def _compiler_command(chosen: str) -> str:
    """Return a shell script that runs the compiler, since make takes only the path of a file as its compiler."""
    if chosen == MODEL_COMPILERS[1]:
        return '#!/bin/sh\nexec g++ "$@"\n'
    # without -mcpu zig optimises for the machine that it runs on
    zig = re.sub(r'(["$`\\])', r"\\\1", str(_zig()))
    return f'#!/bin/sh\nexec "{zig}" c++ -mcpu=baseline -nostdinc++ ${_CXX_HEADERS} "$@"\n'


def _cxx_headers() -> str:
    """Return include options for the headers of the system's C++ library, since zig would otherwise first compile a
    library of its own. The folders are those that g++ searches for C++ but not for C."""
    folders: dict[str, list[str]] = {}
    for language in ("c", "c++"):
        command = ["g++", "-E", "-v", "-x", language, os.devnull]
        environment = {**os.environ, "LC_ALL": "C"}
        text = subprocess.run(command, env=environment, capture_output=True, errors="replace", check=False).stderr
        listed = text.partition("#include <...> search starts here:")[2].partition("End of search list.")[0]
        folders[language] = listed.split("\n")
    return " ".join(f"-I{line.strip()}" for line in folders["c++"] if line not in folders["c"])


def _sweep(cache: Path) -> None:
    for folder in cache.glob(f"{_BUILDING}*"):
        # another process may be removing it as well
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(folder)


def _whole(generated: Sequence[str], chosen: str) -> str:
    """Return a C++ file that includes all files of a model, as reading the headers takes longer than compiling most."""
    off, on = _UNOPTIMISED[chosen]
    slow = [name for name in generated if name.endswith("Slow.cpp")]
    lines = [f'#include "{name}"' for name in generated if name not in slow]
    lines += [off, *(f'#include "{name}"' for name in slow), on, '#include "model.cpp"']
    return "\n".join([*lines, ""])


def _runtime(objects: Path, identity: object, make: list[str], environment: dict[str, str], *, trace: bool) -> Path:
    """Compile Verilator's run-time library in ``objects`` unless the cache holds it; return the path of the library."""

    def compile_library(made: Path) -> None:
        if trace:
            _run([*make, *_WAVES], objects, environment)
        _run([*make, _RUNTIME], objects, environment)
        (objects / _RUNTIME).rename(made)

    return cached_file(identity, ".a", compile_library)


def build_model(
    rig: Rig, *, trace: bool = False, added: Mapping[str, str] | None = None, covered: bool = False
) -> Path:
    files = {"design.v": rig.verilog, **(added or {}), **rig.sources()}
    files |= {path.name: path.read_text() for path in sorted(NATIVE.iterdir()) if path.suffix in {".cpp", ".hpp", ".h"}}
    chosen, optimisation = compiler(), _optimisation()
    flags = [*_VERILATOR_FLAGS, "--top-module", TOP, "--prefix", f"V{TOP}"]
    flags += SHARED_FLAGS if rig.repeated else ()
    flags += ["--trace-fst", "--trace-structs"] if trace else []
    flags += COVERAGE_FLAGS if covered else ()
    root = require_verilator()
    # the version makes model and run-time library come from the same Verilator
    tools = (str(root), (root / "include" / "verilated_config.h").read_text(), _compiler_command(chosen))
    how = (*tools, _CXX_FLAGS, *optimisation, *_WAVES)
    identity = (sorted(files.items()), flags, how, *_LINK, _whole((), chosen))

    def compile_model(made: Path) -> None:
        for tool in ("g++", "make", "perl"):
            if shutil.which(tool) is None:
                raise ToolError(f"{tool} must be installed to compile the simulation model: apt-get install {tool}")
        folder = made.parent
        _sweep(folder.parent)
        objects, compile_command = folder / "obj", folder / "cxx"
        for file, text in files.items():
            (folder / file).write_text(text)
        compile_command.write_text(_compiler_command(chosen))
        compile_command.chmod(0o755)
        environment = {**os.environ, _CXX_HEADERS: _cxx_headers()}
        link_tools(folder)
        verilated = [*VERILATE, *flags, "-CFLAGS", f"{_CXX_FLAGS} -I..", CONTROL_FILE, f"{TOP}.sv", "design.v"]
        _run(verilated, folder, environment)
        link_tools(objects)
        (objects / f"{_WHOLE}.cpp").write_text(_whole(sorted(path.name for path in objects.glob("*.cpp")), chosen))
        make = ["make", "-f", f"V{TOP}.mk", "CXX=../cxx", *IN_PLACE, *optimisation]
        archive = _runtime(objects, (how, trace, files["lz4.h"], covered), make, environment, trace=trace)
        parts = [f"{Path(part).stem}.o" for part in (f"{_WHOLE}.cpp", *(added or {}))]
        _run([*make, "-j", "2", *parts], objects, environment)
        linked = [*_LINK, *parts, str(archive), *(_TRACE_LIBRARIES if trace else ())]
        _run([*linked, "-o", str(made)], objects, environment)

    return cached_file(identity, ".so", compile_model)
