"""Kernels on clusters as workloads of energy estimates, with the accesses to memories and their energy."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.workloads.cluster_run import ENGINE, cluster_of
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sim.exploration.cluster_flow import MEMORIES
from xpulpnn_sim.exploration.energy.estimate import EnergyWorkload, Seen, run_kernel
from xpulpnn_sim.exploration.energy.gate_model import Activity, Circuit
from xpulpnn_sim.exploration.memories import MemoryTable, memory_paths, memory_uses
from xpulpnn_sim.exploration.results import PERIOD_NS, ModuleEnergy, emit_design

_TOP = "cluster"
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


_ON_CLUSTER = (
    "each part of the cluster and what is left by itself; run at register-transfer level with its results checked and "
    "the netlist of every instance beside it, their outputs equal in every cycle: {counted} of the {cycles} cycles of "
    "the kernel, in pieces of {chunk} spread over it, which the cores share"
)


def cluster_workload(case: Case, table: MemoryTable) -> EnergyWorkload:
    """Return a kernel on a cluster whose memories are built of the macros in a table."""
    name = f"{case.kernel}:{case.bits}:{case.variant}:{case.layer}"
    return EnergyWorkload(
        name=name,
        top=_TOP,
        key=repr((name, case.machine, case.placement, case.config, table)),
        macs=float(case.layer.macs),
        run=partial(run_kernel, case, ENGINE),
        how=_ON_CLUSTER,
        chunk_cycles=_CHUNK_CYCLES,
        memories=partial(_memories, cluster_of(case), table),
        remarks=[table.text],
    )


def _memories(
    config: ClusterConfig, table: MemoryTable, seen: Seen, cycles: int
) -> tuple[dict[str, float], Iterator[ModuleEnergy]]:
    accesses = sum((memory_accesses(circuit, activity) for circuit, activity in seen), Counter[str]())
    rates = {kind: accesses[kind] / cycles for kind in _ACCESSES}
    return rates, memory_energies(config, table, rates)


def memory_accesses(circuit: Circuit, activity: Activity) -> Counter[str]:
    accesses: Counter[str] = Counter()
    for name, (requests, writes) in zip(circuit.requests, activity.requests.tolist(), strict=True):
        for kind, (pattern, writing) in _ACCESSES.items():
            if re.fullmatch(pattern, name):
                accesses[kind] += {None: requests, 0: requests - writes, 1: writes}[writing]
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
