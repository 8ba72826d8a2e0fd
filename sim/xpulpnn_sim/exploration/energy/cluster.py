"""Estimate the energy of a kernel on a cluster: netlists of its modules run beside a simulation of the RTL."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.workloads.cluster_run import ClusterKernel, cluster_kernel, cluster_of
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.exploration.cluster_flow import MEMORIES, extract_module, part_instances
from xpulpnn_sim.exploration.energy.estimate import (
    DIGITS,
    chunk_starts,
    clock_gated_netlist,
    conditions,
    energy_result,
    evaluate,
    mapped_circuit,
)
from xpulpnn_sim.exploration.energy.gate_model import Circuit, ShadowedDesign
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.memories import MemoryTable, memory_paths, memory_table, memory_uses
from xpulpnn_sim.exploration.results import (
    ENERGY_PARTS,
    PERIOD_NS,
    EnergyResult,
    ModuleEnergy,
    cached,
    design_sources_digest,
    emit_design,
)
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import find_yosys

CORES = "cores"
"""Name that reports use for all cores together."""

_TOP = "cluster"
_CORE = re.compile(r"core\d+")
_CHUNK_CYCLES = 128  # consecutive cycles: short, since a layer has many phases
_BANK = r"banks__\d+__req"
_MEMORIES = {"TCDM": r"tcdm\.", "private cache": r"icache\.private", "shared cache": r"icache\.shared"}
"""Patterns of the paths of memories, by the first words of their accesses."""

_ACCESSES: Mapping[str, tuple[str, int | None]] = {
    "TCDM reads": (_BANK, 0),
    "TCDM writes": (_BANK, 1),
    "private cache lookups": (r"private\d+\..*\.lines\.read", None),
    "private cache writes": (r"private\d+\..*\.lines\.write", None),
    "shared cache lookups": (r"shared\..*\.lines\.port__req", 0),
    "shared cache writes": (r"shared\..*\.lines\.port__req", 1),
}
"""Memory accesses by name in reports: a pattern of request ports, and the value of write enable (None for any)."""


class _Netlists:
    def __init__(self, config: ClusterConfig, library: Library, yosys: str) -> None:
        self._library = library
        design = emit_design(_TOP, replace(config, rvfi=False, memories="ports"))
        instances = part_instances(design)
        macros = frozenset(memory_paths(design).values())
        self.top = design.module
        # module of each instance; the top has the empty path
        self.instances = {"": design.module, **instances}
        self.designs = {module: extract_module(design, module, macros) for module in instances.values()}
        self.designs[design.module] = extract_module(design, design.module, frozenset(instances.values()))
        self.files = {f"{design.top}.v": design.verilog}
        self.netlist_paths: dict[str, Path] = {}
        for module, part_design in self.designs.items():
            self.netlist_paths[module], files = clock_gated_netlist(part_design, library, yosys)
            self.files |= {f"{module}/{name}": text for name, text in files.items()}

    def circuits(self) -> dict[str, Circuit]:
        return {
            module: mapped_circuit(design, self.netlist_paths[module], self._library)
            for module, design in self.designs.items()
        }


def estimate_cluster(
    case: Case, library: Library, window: int, yosys: str = ""
) -> tuple[EnergyResult, dict[str, str], bool]:
    """Return the energy of a kernel on a cluster, text files by name, and whether the energy was cached."""
    netlists = _Netlists(cluster_of(case), library, yosys)
    name = f"{case.kernel}:{case.bits}:{case.variant}:{case.layer}"
    mapped = sorted(place.parent.name for place in netlists.netlist_paths.values())
    settings = name, case.machine, case.placement, case.config, window, library.sha256, memory_table(library)
    key = digest(_TOP, mapped, settings, design_sources_digest())
    make = partial(_estimate, name, case, netlists, library, window, yosys)
    result, known = cached("energies", key, EnergyResult, make)
    return result, netlists.files, known


def _estimate(name: str, case: Case, netlists: _Netlists, library: Library, window: int, yosys: str) -> EnergyResult:
    started = time.monotonic()
    work, circuits = cluster_kernel(case), netlists.circuits()
    shadowed = ShadowedDesign("cluster", cluster_of(work.case), circuits)
    begin, end = _span(work, shadowed.library)
    starts, chunk = chunk_starts(begin, end, window, _CHUNK_CYCLES)
    groups = group_instances(netlists.instances)
    # instances of one module share the window
    own = {
        instance: starts[number :: len(instances)]
        for instances in groups.values()
        for number, instance in enumerate(instances)
    }
    rows = shadowed.watch(lambda library: _span(work, library), netlists.instances, own, chunk)
    counted, cycles = len(starts) * chunk, end - begin
    modules: list[ModuleEnergy] = []
    accesses: Counter[str] = Counter()
    area, clock_gates = 0.0, 0
    for path, instances in groups.items():
        module, count = netlists.instances[instances[0]], len(instances)
        bits = np.concatenate([rows[instance] for instance in instances])
        charges, activity = evaluate(circuits[module], bits, chunk, library)
        design = netlists.designs[module]
        named = charges.modules(activity, design.manifest["hierarchy"])
        own = [energy for energy in named if energy.module not in design.black_boxes]
        modules += placed_modules(own, ".".join(filter(None, (netlists.top, path))), count)
        area, clock_gates = area + charges.area * count, clock_gates + charges.clock_gates * count
        accesses += memory_accesses(circuits[module], bits)
    run = (
        "each part of the cluster and what is left by itself; run at register-transfer level with its results checked "
        "and the netlist of every instance beside it, their outputs equal in every cycle: "
        f"{counted} of the {cycles} cycles of the kernel, in pieces of {chunk} spread over it, which the cores share"
    )
    rates = {kind: accesses[kind] / counted for kind in _ACCESSES}
    memories = memory_table(library)
    modules += memory_energies(cluster_of(work.case), memories, rates)
    return energy_result(
        name,
        float(case.layer.macs),
        modules,
        (counted, cycles),
        top=_TOP,
        tools=find_yosys(yosys).tools,
        conditions=[*conditions(library, run, clock_gates), memories.text],
        area_kge=area / library.ge_area / 1e3,
        accesses={kind: round(rate, DIGITS) for kind, rate in rates.items()},
        wall_s=round(time.monotonic() - started, 2),
    )


def _span(work: ClusterKernel, library: Path) -> tuple[int, int]:
    assert isinstance(work.executable, Executable)
    outcome = run_program(work.executable, work.config, work.machine, library=library)
    wrong = [comparison.report for comparison in work.compared(outcome) if comparison.wrong]
    if wrong or not outcome.exit.ok:
        text = wrong[0] if outcome.exit.ok else outcome.exit.text
        raise ToolError(f"the cluster must compute what the reference does, not {text}")
    return work.span(outcome)


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


def memory_accesses(circuit: Circuit, rows: NDArray[np.uint8]) -> Counter[str]:
    first = len(circuit.sources) + len(circuit.registers)
    names = (name for name, nets in circuit.outputs.items() for _ in nets)
    columns = {name: number for number, name in enumerate(names, first)}
    accesses: Counter[str] = Counter()
    for kind, (pattern, writes) in _ACCESSES.items():
        for name in filter(re.compile(pattern).fullmatch, columns):
            requests = rows[:, columns[name]] == 1
            if writes is not None:
                requests &= rows[:, columns[name.replace("__req", "__we")]] == writes
            accesses[kind] += int(requests.sum())
    return accesses


def memory_energies(config: ClusterConfig, table: MemoryTable, rates: Mapping[str, float]) -> Iterator[ModuleEnergy]:
    """Yield the energy of the memories by module, from accesses per cycle; a cache accesses tag and line of a way."""
    design = emit_design(_TOP, replace(config, rvfi=False, memories="behavioural"))
    paths = memory_paths(design)

    for module, use in memory_uses(design, table).items():
        places = " ".join(path for path, inner in paths.items() if inner == module)
        users = tuple(what for what, pattern in _MEMORIES.items() if re.search(pattern, places))
        kinds = [kind for kind in rates if kind.startswith(users)]
        spent = sum(rates[kind] * (use.write_pj if kind.endswith("writes") else use.read_pj) for kind in kinds)
        yield ModuleEnergy(
            path=f"{design.module}.{MEMORIES}.{module}",
            module=module,
            switching=0.0,
            internal=1e3 * spent,
            clock=0.0,
            leakage=use.count * use.leakage_nw * PERIOD_NS / 1e3,
        )
