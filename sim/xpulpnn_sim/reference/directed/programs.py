"""All directed programs."""

from xpulpnn.config import CoreConfig
from xpulpnn_sim.reference.directed import (
    access_faults,
    base,
    encodings,
    loops,
    mac_load,
    mac_load_pair,
    quantisation,
    requantisation,
    system,
)
from xpulpnn_sim.reference.directed.case import Directed

_MODULES = (base, encodings, loops, mac_load, mac_load_pair, system, access_faults, quantisation, requantisation)
DIRECTED = tuple(case for module in _MODULES for case in module.PROGRAMS)
"""Every program, by group."""


def programs_of(config: CoreConfig) -> list[Directed]:
    """The programs a configuration can run."""
    return [case for case in DIRECTED if case.runs_on(config)]
