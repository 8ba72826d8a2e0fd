"""Faults of the core, of bridges to buses and of caches, read from the files in the folder ``tables``.

A file has an array of tables for each unit, ``MODULE:CLASS``. The keys of a fault are the arguments of
:class:`~xpulpnn_sim.proofs.faults.fault.Fault`; ``checks`` and ``needs`` at the top of a file hold for every fault in
it that states none.
"""

import tomllib
from collections.abc import Collection
from pathlib import Path
from pkgutil import resolve_name

from xpulpnn.bus.core import BUSES
from xpulpnn.config import CoreConfig
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault


def _read(name: str) -> tuple[Fault, ...]:
    document = tomllib.loads((Path(__file__).with_name("tables") / f"{name}.toml").read_text())
    shared = {key: document.pop(key) for key in ("checks", "needs") if key in document}
    return tuple(
        Fault(resolve_name(f"xpulpnn.{unit}"), **{**shared, **keys}) for unit, rows in document.items() for keys in rows
    )


CORE_FAULTS, INSTRUCTION_FAULTS, COUNTER_FAULTS = _read("core"), _read("instructions"), _read("counters")
PROOF_FAULTS = (*CORE_FAULTS, *INSTRUCTION_FAULTS, *_read("halts"))
PROGRAM_FAULTS = tuple(
    fault for fault in (*_read("programs"), *CORE_FAULTS, *INSTRUCTION_FAULTS) if PROGRAMS in fault.checks
)
"""Faults of a core with XpulpV2 and Mac&Load."""

BRIDGE_FAULTS = {bus: _read(f"core_{bus}") + _read("core_buses") for bus in BUSES}
BRIDGE_FAULTS["wishbone"] += _read("bridges")
CLUSTER_BRIDGE_FAULTS = _read("bridges") + _read("cluster_bridges")


def faults_for(config: CoreConfig, checks: Collection[str]) -> list[Fault]:
    return [fault for fault in PROOF_FAULTS if fault.fits(config) and not set(checks).isdisjoint(fault.checks)]
