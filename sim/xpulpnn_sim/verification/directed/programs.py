"""All directed programs."""

from xpulpnn.config import CoreConfig
from xpulpnn_sim.verification.directed import access_faults, base, loops, mac_load, quantisation, requantisation, system
from xpulpnn_sim.verification.directed.case import Directed

DIRECTED = (
    *(*base.BASE, *base.COMPRESSED, *loops.LOOPS, *mac_load.MAC_LOAD, *mac_load.MAC_LOAD_FORMS, *system.SYSTEM),
    *(*system.CSR_NUMBERS, *access_faults.ACCESS_FAULTS, *access_faults.FAR_AWAY, *system.COUNTERS, *base.BITS),
    *(*base.OPERANDS, *quantisation.QUANTISATION, *requantisation.REQUANTISATION),
)
"""Every program, by group."""


def programs_of(config: CoreConfig) -> list[Directed]:
    """The programs a configuration can run."""
    return [case for case in DIRECTED if case.runs_on(config)]
